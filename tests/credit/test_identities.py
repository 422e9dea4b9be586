"""Golden values of the literature, and what methods become at their limits."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from samples.examples import examples
from samples.hand_runs import credited, event, group, run, turns, values
from samples.random_runs import Document, corpora

QUICK = examples(8, derandomize=True)
GOLDEN = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]


def assert_same(found: list[float | None], wanted: list[Any], tolerance: float = 1e-9) -> None:
    assert None not in found
    np.testing.assert_allclose(
        np.array(found, float), np.array(wanted, float), rtol=tolerance, atol=tolerance
    )


def whole(documents: list[Document]) -> list[Document]:
    """Those whose reward is known."""
    return [document for document in documents if "team" in document["rewards"]]


# --- golden values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "good", "bad"),
    [
        ("grpo", {"ddof": 1}, 1.2076, -0.7246),
        ("grpo", {"ddof": 0}, 1.2910, -0.7746),
        ("dr_grpo", {}, 0.625, -0.375),
        ("rloo", {}, 0.7143, -0.4286),
        ("broadcast", {}, 1.0, 0.0),
        ("reinforce_pp", {}, 1.2076, -0.7246),
    ],
)
def test_golden_group(method: str, params: dict[str, Any], good: float, bad: float) -> None:
    assert_same(values(group(GOLDEN), method, **params), [good if r else bad for r in GOLDEN], 5e-5)


def test_golden_pass_k() -> None:
    assert values(group([0.2, 1.0, 0.7]), "pass_k") == pytest.approx([0.0, 0.3, 0.0])
    assert values(group([0.2, 1.0, 1.0]), "pass_k") == [0.0, 0.0, 0.0]
    assert credited(group([0.2, 1.0, 1.0]), "pass_k")[1, "team"] == (0.0, None), "a tie, not a flat group"


def test_golden_chain() -> None:
    """On a chain the flow with a discount per hop is the discounted return; without, a geometric series."""
    chain = run(0, 2.0, [event(n, type="return" if n == 4 else "message") for n in range(5)])
    chain["edges"] = [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "causal"} for n in range(4)]
    assert_same(
        values([chain], "flow_discounted", "event", gamma=0.9), [2 * 0.9 ** (4 - n) for n in range(5)]
    )
    kept = [2 * 0.8**4, *(2 * 0.2 * 0.8 ** (4 - n) for n in range(1, 5))]
    assert_same(values([chain], "flow", "event", retention=0.2), kept)


def test_golden_returns() -> None:
    """Three turns of two agents, worked by hand: r = 1, 0, 2 + R, V = .5, .25, 1, gamma = .5, lambda = .5."""
    one = run(0, 4.0, turns("lead", "ann", "lead", reward=[1.0, None, 2.0], value=[0.5, 0.25, 1.0]))
    assert values([one], "return_to_go", "turn", gamma=0.5) == [2.5, 3.0, 6.0]
    # errors: 1 + .125 - .5, 0 + .5 - .25, 6 - 1
    assert values([one], "gae", "turn", gamma=0.5, lambda_=0.5) == [1.0, 1.5, 5.0]
    # first turns of lead and ann, then the second of lead: the same order
    assert values([one], "sequential_gae", "turn", gamma=0.5, lambda_=0.5) == [1.0, 1.5, 5.0]
    # replacing: the trace of lead's first turn ends where its second begins
    replaced = values([one], "eligibility", "turn", gamma=0.5, lambda_=0.5, traces="replacing")
    assert replaced == [0.6875, 1.5, 5.0]


def test_golden_rounds() -> None:
    """lead acts twice before ann: in rounds ann's first turn precedes lead's second."""
    one = run(0, 1.0, turns("lead", "lead", "ann", value=[0.0, 0.5, 0.25]))
    ours = credited([one], "sequential_gae", "turn", gamma=1.0, lambda_=0.0)
    assert ours[0, "lead/0"][0] == 0.25
    assert ours[0, "ann/0"][0] == 0.25
    assert ours[0, "lead/1"][0] == 0.5


def test_golden_siblings() -> None:
    """Two choices in one context, three recorded decisions: weights 2 and 1."""
    documents = [
        run(n, reward, [event(0, prefix_key="h", content_hash=choice, to="ann")])
        for n, (choice, reward) in enumerate([("x", 1.0), ("x", 0.5), ("y", 0.25)])
    ]
    assert values(documents, "c3", "event") == [0.5, 0.5, -0.5]
    assert_same(values(documents, "c3", "event", baseline="mean"), [1 / 6, 1 / 6, -1 / 3])


def test_golden_spectrum() -> None:
    """ann acts in both failing rollouts and in one of two that pass, bob in all."""
    teams = [("bob", "ann"), ("bob", "ann"), ("bob", "ann"), ("bob",)]
    documents = [
        run(n, reward, [event(k, owner) for k, owner in enumerate(team)])
        for n, (reward, team) in enumerate(zip([0.0, 0.0, 1.0, 1.0], teams, strict=True))
    ]
    expected = {
        "ochiai": (2 / math.sqrt(6), 2 / math.sqrt(8)),
        "tarantula": (1 / 1.5, 1 / 2),
        "dstar": (4.0, 2.0),
        "kulczynski2": ((1 + 2 / 3) / 2, (1 + 1 / 2) / 2),
    }
    for formula, (ann, bob) in expected.items():
        found = credited(documents, "spectrum", "agent", by="agent", formula=formula)
        assert found[0, "ann"][0] == pytest.approx(-ann), formula
        assert found[0, "bob"][0] == pytest.approx(-bob), formula


def test_golden_magrpo() -> None:
    """G_t is joint: rewards of all agents from ordinal t on. The second rollout does not reach t = 1."""
    first = run(0, 1.0, turns("lead", "ann", "lead", reward=[0.5, 0.25, 2.0]))
    second = run(1, 0.0, turns("lead", "ann", reward=[0.0, 0.5]))
    found = credited([first, second], "magrpo", "turn")
    # G_0 = 3.75 and .5
    assert found[0, "lead/0"] == found[0, "ann/0"] == (1.625, None)
    assert found[1, "lead/0"] == (-1.625, None)
    assert found[0, "lead/1"] == (0.0, "group.degenerate")


# --- limits ------------------------------------------------------------------------------------------


@QUICK
@given(corpora())
def test_group_methods_are_one_family(documents: list[Document]) -> None:
    centered, others = credited(documents, "dr_grpo"), credited(documents, "rloo")
    sizes: dict[str, int] = {}
    keys = [next((e["group_id"] for e in d["events"] if "group_id" in e), d["task_id"]) for d in documents]
    for document, key in zip(documents, keys, strict=True):
        sizes[key] = sizes.get(key, 0) + ("team" in document["rewards"])
    for n, key in enumerate(keys):
        own = centered[n, "team"][0]
        if own is not None and sizes[key] > 1:
            assert others[n, "team"][0] == pytest.approx(own * sizes[key] / (sizes[key] - 1), abs=1e-9)
    if not any(reason == "graph.cycle" for _, reason in credited(documents, "flow").values()):
        wide = values(whole(documents), "shape_normalized", kappa=1e12)
        assert_same(wide, values(whole(documents), "grpo"), 1e-6)


@QUICK
@given(corpora())
def test_one_agent_that_acts_once(documents: list[Document]) -> None:
    """Then a turn is a rollout: every turn method is its group method."""
    single = [document | {"events": [event(0)], "edges": []} for document in whole(documents)]
    for document, key in zip(single, itertools.cycle("st")):
        document["events"] = [event(0, state_key=key, group_id="g")]
    for method in ("dr_mas", "at_grpo"):
        assert_same(values(single, method, "turn"), values(single, "grpo"))
        assert_same(values(single, method, "turn", ddof=0), values(single, "grpo", ddof=0))
    for method in ("magrpo", "marshal"):
        assert_same(values(single, method, "turn"), values(single, "dr_grpo"))
    assert_same(values(single, "return_to_go", "turn"), values(single, "broadcast"))


@QUICK
@given(corpora(full=("state_key",)))
def test_gigpo_without_steps_is_grpo(documents: list[Document]) -> None:
    documents = whole(documents)
    for norm, method in (("mean_std", "grpo"), ("mean", "dr_grpo")):
        wanted = credited(documents, method)
        for (trace, name), (credit, _) in credited(
            documents, "gigpo", "turn", step_weight=0.0, norm=norm
        ).items():
            if name is not None:
                assert credit == pytest.approx(wanted[trace, "team"][0], abs=1e-9)
    for number, document in enumerate(documents):
        for n, one in enumerate(document["events"]):
            one["state_key"] = f"{number}.{n}"
    alone = credited(documents, "gigpo", "turn")
    episode = credited(documents, "gigpo", "turn", step_weight=0.0)
    assert {key: value for key, (value, _) in alone.items()} == {
        key: value for key, (value, _) in episode.items()
    }, "all anchors differ: only the episode counts"


@QUICK
@given(corpora(full=("value",)))
def test_returns_at_their_limits(documents: list[Document]) -> None:
    documents = whole(documents)
    assert_same(
        values(documents, "eligibility", "turn", gamma=0.9, lambda_=0.7),
        values(documents, "gae", "turn", gamma=0.9, lambda_=0.7),
    )
    # lambda = 1: the return less the value
    for document in documents:
        for one in document["events"]:
            one["value"] = 0.75
    returns = values(documents, "return_to_go", "turn", gamma=0.9)
    assert_same(
        values(documents, "gae", "turn", gamma=0.9, lambda_=1.0),
        [None if q is None else q - 0.75 for q in returns],
    )


@QUICK
@given(st.integers(1, 7), st.floats(0, 1), st.floats(0, 1), st.randoms(use_true_random=False))
def test_graph_returns_on_a_chain_are_those_of_turns(
    size: int, gamma: float, lambda_: float, random: Any
) -> None:
    rewards = [random.choice([0.0, 0.5, -1.0]) for _ in range(size)]
    critic = [random.choice([0.0, 0.3, 1.0]) for _ in range(size)]
    owners = [random.choice(["lead", "ann"]) for _ in range(size)]
    events = turns(*owners, reward=rewards, value=critic)
    events[-1] |= {"type": "aggregate", "agent": "lead"}
    events[0] |= {"agent": "lead"}
    chain = run(0, 1.0, events, [(n, n + 1) for n in range(size - 1)])
    for n, one in enumerate(events):
        one["turn"] = n
    wanted = values([chain], "gae", "turn", gamma=gamma, lambda_=lambda_)
    for mode in ("mean", "split"):
        found = values([chain], "dag_gae", "event", gamma=gamma, lambda_=lambda_, mode=mode)
        assert_same(found, wanted)


@QUICK
@given(corpora())
def test_graph_returns_conserve_what_is_split(documents: list[Document]) -> None:
    """mode = split, gamma = lambda = 1, V = 0: the sources' advantages are all rewards."""
    documents = whole(documents)
    for document in documents:
        for one in document["events"]:
            one["value"] = 0.0
    found = credited(documents, "dag_gae", "event", mode="split", gamma=1.0, lambda_=1.0)
    for n, document in enumerate(documents):
        if found[n, "e0"][1] in ("graph.cycle", "outcome.ambiguous", "trace.partial"):
            continue
        into = {edge["dst"] for edge in document["edges"]}
        sources = [one["id"] for one in document["events"] if one["id"] not in into]
        total = sum(one.get("reward", 0.0) for one in document["events"]) + document["rewards"]["team"]
        assert math.fsum(found[n, name][0] or 0.0 for name in sources) == pytest.approx(total, abs=1e-9)


def test_whitening_has_mean_0_and_variance_1() -> None:
    documents = [run(n, r, task=f"task{n % 3}") for n, r in enumerate([0.0, 3.0, 1.0, 0.25, -1.0, 0.5, 2.0])]
    for baseline in (False, True):
        found = np.array(values(documents, "reinforce_pp", baseline=baseline), float)
        assert found.mean() == pytest.approx(0, abs=1e-12)
        assert found.var(ddof=1) == pytest.approx(1, abs=1e-7)


def test_shape_buckets_at_both_limits() -> None:
    """Deep and flat runs of one task: with kappa = 0 each is compared with its like only."""
    rewards = [0.0, 1.0, 4.0, 5.0, 9.0]
    flat = [event(n, type="return" if n == 3 else "message") for n in range(4)]
    documents = [
        run(n, r, [dict(one) for one in flat], [(0, 1), (1, 2), (2, 3)] if n < 2 else [])
        for n, r in enumerate(rewards)
    ]
    apart = values(documents[:2], "grpo") + values(documents[2:], "grpo")
    assert_same(values(documents, "shape_normalized", kappa=0.0), apart)
    assert_same(values(documents, "shape_normalized", kappa=1e12), values(documents, "grpo"), 1e-6)
    for kappa in (0.0, 1e12):
        assert math.fsum(
            v or 0.0 for v in values(documents, "shape_normalized", kappa=kappa)
        ) == pytest.approx(0, abs=1e-6)


def test_equal_weights_make_leave_one_out_a_scaled_mean() -> None:
    choices, rewards = ["x", "y", "z"], [0.5, 1.0, 0.0]
    documents = [
        run(n, r, [event(0, prefix_key="h", content_hash=c)])
        for n, (c, r) in enumerate(zip(choices, rewards, strict=True))
    ]
    found = values(documents, "c3", "event")
    assert_same(found, [3 / 2 * (r - 0.5) for r in rewards])
    assert math.fsum(v or 0.0 for v in found) == pytest.approx(0)
