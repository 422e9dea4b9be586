"""Rules as trainers have them: values worked by hand, published, or of a few lines of NumPy."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot

A = ot.trainers.advantages


def written(folder: Path, rows: list[dict[str, Any]], name: str = "input.jsonl") -> ot.Corpus:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ot.read_traces(path)


def team(corpus: ot.Corpus, method: str, **params: Any) -> list[float | None]:
    return ot.credit(corpus, method=method, unit="team", **params)["credit"].to_list()


def close(found: list[float | None], wanted: list[float | None], digits: float = 1e-4) -> None:
    assert [one is None for one in found] == [one is None for one in wanted], found
    np.testing.assert_allclose(
        [one for one in found if one is not None], [one for one in wanted if one is not None], atol=digits
    )


# --- generalized advantages of a policy that has tools ---------------------------------------------------

SEARCH = {"type": "tool_result", "agent": "search", "tool": "search"}
TOKENS = [(0.1, 4.0), (0.1, 5.0), (0.1, 6.0), None, None, (0.1, 7.0), (1.0, 9.0)]


def policy(tokens: list[Any], **more: Any) -> dict[str, Any]:
    """An event per token of the policy, reward and value; None is a result of a tool."""
    events = []
    for at, token in enumerate([None, None, *tokens]):
        said: dict[str, Any] = {"type": "message", "agent": "policy", "to": "user"}
        if token is not None:
            said |= {"reward": token[0]} | ({} if token[1] is None else {"value": token[1]})
        events.append({"id": f"e{at}", "t": at, **(SEARCH if token is None else said)})
    return {
        **{"trace_id": "g", "task_id": "g", "events": events, "edges": [], "rewards": {"team": 0.0}},
        **{"costs": {"tokens": 0, "wall_clock_s": 0}, **more},
    }


@pytest.mark.parametrize(
    ("gamma", "lambda_", "wanted"),
    [(0.9, 0.8, [-0.5347, -1.5759, -2.8832, -4.56, -8.0]), (1.0, 1.0, [-2.6, -3.7, -4.8, -5.9, -8.0])],
)
def test_observations_have_no_say(tmp_path: Path, gamma: float, lambda_: float, wanted: list[float]) -> None:
    """The numbers of a test of verl, whose observation tokens stand between."""
    corpus = written(tmp_path, [policy(TOKENS)])
    places = [None, None, *wanted[:3], None, None, *wanted[3:]]
    discounts = {"gamma": gamma, "lambda_": lambda_}
    for method, params in [("gae", {"rows": "events"}), ("dag_gae", {"program_order": True})]:
        credits = ot.credit(corpus, method=method, unit="event", **discounts, **params)
        close(credits["credit"].to_list(), places)
        assert credits["reason"].to_list() == ["unit.none" if x is None else None for x in places]
    rewards, values = zip(*(token for token in TOKENS if token), strict=True)
    close(A.gae(rewards, values, [0, 5], **discounts).to_list(), list(wanted))


def test_returns_do_not_fade_over_observations(tmp_path: Path) -> None:
    tokens = [(0.1, None), None, None, (0.1, None), (1.0, None)]
    corpus = written(tmp_path, [policy(tokens)])
    credits = ot.credit(corpus, method="return_to_go", unit="event", rows="events")["credit"].to_list()
    close(credits, [None, None, 0.1 + 0.99 * 1.09, None, None, 1.09, 1.0], 1e-12)


def test_what_a_result_earns_belongs_to_the_step_before_it(tmp_path: Path) -> None:
    document = policy([(0.1, None), None, (0.0, None), None])
    document["events"][3]["reward"] = 0.5  # of the first result after the policy spoke
    document["events"][5]["reward"] = 0.25  # after its last word
    document["rewards"]["team"] = 1.0
    corpus = written(tmp_path, [document])
    credits = ot.credit(corpus, method="return_to_go", unit="event", rows="events", gamma=0.5)
    close(credits["credit"].to_list(), [None, None, 0.6 + 0.5 * 1.25, None, 1.25, None], 1e-12)


def test_a_step_of_the_policy_without_a_value_is_still_asked_for(tmp_path: Path) -> None:
    corpus = written(tmp_path, [policy([(0.1, 4.0), None, (1.0, None)])])
    credits = ot.credit(corpus, method="gae", unit="event", rows="events")
    assert set(credits["reason"]) == {"field.absent"}


# --- rewards that are equal on paper ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "rewards",
    [[0.1 + 0.2, 0.3, 0.1 + 0.2, 0.3], [0.7 * 3, 2.1, 2.1], [0.95] * 8, [1e300, 1e300 * (1 + 1e-13)]],
)
def test_noise_of_the_last_bit_is_never_divided_by_itself(tmp_path: Path, rewards: list[float]) -> None:
    group = [0] * len(rewards)
    for rule in (A.grpo, A.dr_grpo, A.rloo):
        options = {"epsilon": 0.0} if rule is A.grpo else {}
        assert rule(rewards, group, **options).to_list() == [0.0] * len(rewards)
    assert A.dr_mas(rewards, group, range(len(rewards)), group, epsilon=0.0).to_list() == [0.0] * len(rewards)
    rows = [
        {"input": "q", "output": str(at), "gts": "x", "score": reward, "step": 1}
        for at, reward in enumerate(rewards)
    ]
    corpus = written(tmp_path, rows)
    exact = {"epsilon": 0.0}
    for method, params in {
        **{"grpo": exact, "dr_grpo": {}, "rloo": {}, "opo": {"length": "events"}, "pass_k": exact},
        **{"dr_mas": exact, "at_grpo": exact, "magrpo": {}, "marshal": {}, "shape_normalized": exact},
        "reinforce_pp": {"baseline": True},
    }.items():
        credits = ot.credit(corpus, method=method, unit="agent", **params).filter(unit_id="policy")
        assert credits["credit"].to_list() == [0.0] * len(rewards), method
        assert set(credits["reason"]) == {"group.degenerate"}, method


def test_what_differs_by_more_than_rounding_speaks() -> None:
    assert A.dr_grpo([1.0, 1.0 + 1e-10], [0, 0]).to_list() != [0.0, 0.0]
    close(A.grpo([0.0, *[0.95] * 7], [0] * 8).to_list(), [-2.4749, *[0.3536] * 7])
    close(A.rloo([-0.35, *[0.35] * 7], [0] * 8).to_list(), [-0.7, *[0.1] * 7])
    # the lead of the best over its like is none
    assert A.dr_grpo([0.0, 1e-300], [0, 0]).to_list() == [-5e-301, 5e-301]


# --- several reward functions -----------------------------------------------------------------------------


def completions(rows: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"step": 10, "prompt": prompt, "completion": f"c{at}", **scores, "advantage": 0.0}
        for at, (prompt, scores) in enumerate(rows)
    ]


MIXED = completions(
    [("m", {"math": one, "code": None}) for one in (1.0, 0.0)]
    + [("c", {"math": None, "code": one}) for one in (0.2, 0.6)]
)


def test_a_sum_takes_what_is_there(tmp_path: Path) -> None:
    corpus = written(tmp_path, MIXED)
    both = {"math": 1.0, "code": 1.0}
    assert team(corpus, "grpo", reward=both) == [None] * 4
    close(team(corpus, "grpo", reward=both, missing="skip"), [0.7071, -0.7071, -0.7071, 0.7071])
    twice = team(corpus, "dr_grpo", reward={"math": 2.0, "code": 10.0}, missing="skip")
    close(twice, [1.0, -1.0, -2.0, 2.0], 1e-12)
    # credits say what they are of, and what reads them knows it
    credits = ot.credit(corpus, method="grpo", unit="event", reward=both, missing="skip")
    assert ot.trainers.trainer_table(corpus, credits)["reward"].to_list() == [1.0, 0.0, 0.2, 0.6]
    shown = ot.explain(corpus, credits, credits["unit_id"][0], 0).filter(kind="rollout")
    assert sorted(shown["amount"]) == [0.0, 1.0]


def test_a_sum_of_nothing_is_none(tmp_path: Path) -> None:
    scored = [{"math": one, "code": None} for one in (1.0, 0.0, 1.0, None)]
    corpus = written(tmp_path, completions([("m", one) for one in scored]))
    credits = ot.credit(corpus, unit="team", method="grpo", reward={"math": 1, "code": 1}, missing="skip")
    close(credits["credit"].to_list(), [0.5773, -1.1547, 0.5773, None])
    assert credits["reason"].to_list() == [None, None, None, "reward.absent"]


def test_a_reward_function_that_never_fired_is_known(tmp_path: Path) -> None:
    corpus = written(tmp_path, completions([("m", {"math": one, "code": None}) for one in (1.0, 0.0)]))
    told = corpus.findings.collect()
    assert set(told["code"]) == {"reward.unscored"} and "'code'" in told["message"][0]
    with pytest.raises(ot.ParameterError, match="'code' has no value in any trace"):
        ot.credit(corpus, method="grpo", reward={"math": 1, "code": 1})
    with pytest.raises(ot.ParameterError, match="unknown reward channel 'cod'"):
        ot.credit(corpus, method="grpo", reward={"math": 1, "cod": 1}, missing="skip")
    with pytest.raises(ot.ParameterError, match="missing is 'zero', expected 'null' or 'skip'"):
        ot.credit(corpus, method="grpo", reward={"math": 1}, missing="zero")  # type: ignore[call-overload]


def test_a_reward_that_is_no_number_is_a_finding(tmp_path: Path) -> None:
    scores = [{"math": one} for one in (1.0, 0.0, 1.0, float("nan"), float("inf"))]
    corpus = written(tmp_path, completions([("m", one) for one in scores]))
    close(team(corpus, "grpo"), [0.5773, -1.1547, 0.5773, None, None])
    told = corpus.findings.filter(pl.col("code") == "value.impossible").collect()
    assert told["trace"].to_list() == [3, 4] and "'math' is NaN" in told["message"][0]


def gdpo(
    rewards: np.ndarray, groups: list[int], ddof: int, batch_ddof: int | None, epsilon: float
) -> np.ndarray:
    """Section 3 of the paper, with what is absent left out: rewards (rollouts, rewards)."""
    total = np.zeros(len(groups))
    for group in set(groups):
        here = np.array(groups) == group
        for k in range(rewards.shape[1]):
            told = rewards[here, k]
            if np.isfinite(told).sum() < 2 or np.nanmax(told) == np.nanmin(told):
                continue
            part = (told - np.nanmean(told)) / (np.nanstd(told, ddof=ddof) + epsilon)
            total[here] += np.nan_to_num(part)
    if batch_ddof is not None:
        total = (total - total.mean()) / (total.std(ddof=batch_ddof) + epsilon)
    return total


EASY_AND_HARD = completions(
    [
        (prompt, {"easy": easy, "hard": hard})
        for prompt, easy, hard in [("P", 0.0, 0.0), ("P", 1.0, 0.0), ("Q", 0.0, 0.0), ("Q", 1.0, 1.0)]
    ]
)


def test_rewards_are_normalized_one_by_one(tmp_path: Path) -> None:
    """Sums of 1 and of 2 are one advantage to grpo; the paper's own complaint."""
    corpus = written(tmp_path, EASY_AND_HARD)
    both = {"easy": 1.0, "hard": 1.0}
    close(team(corpus, "grpo", reward=both), [-0.7071, 0.7071, -0.7071, 0.7071])
    close(team(corpus, "gdpo", reward=both, batch="none"), [-0.7071, 0.7071, -1.4142, 1.4142])
    close(team(corpus, "gdpo", reward=both), [-0.6325, 0.6325, -1.2649, 1.2649])
    close(team(corpus, "gdpo", reward=both, batch="train_step"), [-0.6325, 0.6325, -1.2649, 1.2649])
    close(team(corpus, "gdpo", reward=both, ddof=0, batch="none"), [-1.0, 1.0, -2.0, 2.0])


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("compat", [None, "trl"])
def test_gdpo_is_the_paper_s(tmp_path: Path, ddof: int, compat: str | None) -> None:
    rng = np.random.default_rng(ddof)
    rewards = rng.integers(0, 3, (24, 3)).astype(float)
    rewards[rng.random(rewards.shape) < 0.2] = np.nan
    rewards[:, 0] = rng.normal(size=24)
    rewards[:4] = 1.0  # a group that says nothing
    groups = [at // 4 for at in range(24)]
    epsilon, batch_ddof = (1e-4, 1) if compat else (1e-6, 0)
    wanted = gdpo(rewards, groups, ddof, batch_ddof, epsilon)
    wanted[:4] = 0.0
    names = ("a", "b", "c")
    by_name = {name: rewards[:, k] for k, name in enumerate(names)}
    found = A.gdpo(by_name, groups, ddof=ddof, compat=compat)  # type: ignore[arg-type]
    close(found.to_list(), wanted.tolist(), 1e-9)
    scores = [
        {name: None if np.isnan(one) else one for name, one in zip(names, row, strict=True)}
        for row in rewards
    ]
    corpus = written(
        tmp_path, completions([(f"q{group}", one) for group, one in zip(groups, scores, strict=True)])
    )
    credits = ot.credit(
        corpus, method="gdpo", unit="team", reward=dict.fromkeys(names, 1.0), ddof=ddof, compat=compat
    )
    close(credits["credit"].to_list(), wanted.tolist(), 1e-9)
    assert credits["reason"].to_list() == ["group.degenerate"] * 4 + [None] * 20


def test_rewards_that_cancel_out_leave_no_noise() -> None:
    up = np.array([0.1, 0.7, 0.3, 0.2, 0.9, 0.4])
    opposed = {"a": up, "b": 1.0 - up}
    assert A.gdpo(opposed, [0] * 6).to_list() == [0.0] * 6
    apart = {"a": np.append(up, [0.0, 1.0]), "b": np.append(1.0 - up, [0.0, 1.0])}
    found = A.gdpo(apart, [0] * 6 + [1, 1]).to_list()
    close(found, [0.0] * 6 + [-2.0, 2.0])


def test_gdpo_of_arrays_says_what_is_wrong() -> None:
    for call, message in [
        (lambda: A.gdpo({}, [0]), "names no reward"),
        (lambda: A.gdpo({"a": [1.0]}, [0], weights={"b": 1.0}), "unknown reward in weights 'b'"),
        (lambda: A.gdpo({"a": [1.0, float("inf")]}, [0, 0]), "infinite"),
        (lambda: A.gdpo({"a": [1.0]}, [0, 1]), "rows"),
        (lambda: A.gdpo({"a": [1.0]}, [0], batch_ddof=2), "ddof is 2"),
    ]:
        with pytest.raises(ot.ParameterError, match=message):
            call()
    assert A.gdpo({"a": [1.0, None]}, [0, 0]).to_list() == [0.0, None]
    weighted = A.gdpo({"a": [0.0, 1.0], "b": [0.0, 1.0]}, [0, 0], weights={"b": 3.0}, batches=False)
    close(weighted.to_list(), [-2.8284, 2.8284])


# --- rewards of agents ------------------------------------------------------------------------------------

PAID = {"solver": [1.0, 0.0, 0.0, 1.0], "judge": [1.0, 1.0, 0.0, 1.0]}


def episode(at: int, names: dict[str, float]) -> dict[str, Any]:
    steps = lambda reward: [{"observation": "q", "model_response": "a", "reward": reward}]  # noqa: E731
    return {
        **{"id": f"t:{at}", "task": {"question": "bridges"}, "is_correct": PAID["solver"][at] > 0},
        "trajectories": [
            {"uid": f"u-{at}-{name}", "name": name, "reward": reward, "steps": steps(reward)}
            for name, reward in names.items()
        ],
    }


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo"])
def test_agents_are_compared_with_their_like(tmp_path: Path, method: str) -> None:
    corpus = written(tmp_path, [episode(at, {k: v[at] for k, v in PAID.items()}) for at in range(4)])
    credits = ot.credit(corpus, method=method, unit="agent", reward_of="agent")
    groups = [name for name in PAID for _ in range(4)]
    wanted = getattr(A, method)([one for paid in PAID.values() for one in paid], groups).to_list()
    for name, of in (("solver", wanted[:4]), ("judge", wanted[4:])):
        close(credits.filter(unit_id=name)["credit"].to_list(), of, 1e-12)
    if method == "grpo":
        close(wanted, [0.866, -0.866, -0.866, 0.866, 0.5, 0.5, -1.5, 0.5])
    # the run as a whole is compared where nobody asks otherwise
    close(
        ot.credit(corpus, method="grpo", unit="agent").filter(unit_id="judge")["credit"].to_list(),
        [0.866, -0.866, -0.866, 0.866],
    )


def test_an_agent_that_nobody_pays_has_none(tmp_path: Path) -> None:
    documents = []
    for at, (a, b) in enumerate([(1.0, None), (0.0, 0.5)]):
        events = [
            {"id": name, "t": n, "type": "message", "agent": name, "role": "worker"}
            | ({} if reward is None else {"reward": reward})
            for n, (name, reward) in enumerate([("a", a), ("b", b)])
        ]
        documents.append(policy([]) | {"trace_id": f"r{at}", "events": events})
    corpus = written(tmp_path, documents)
    credits = ot.credit(corpus, method="dr_grpo", unit="agent", reward_of="agent")
    rows = credits.select("unit_id", "credit", "reason").filter(pl.col("unit_id").is_not_null()).rows()
    assert rows == [
        *[("a", 0.5, None), ("b", None, "field.absent")],
        *[("a", -0.5, None), ("b", 0.0, "group.degenerate")],
    ]
    roles = ot.credit(corpus, method="dr_grpo", unit="role", reward_of="role")
    assert roles.filter(unit_id="worker")["credit"].to_list() == [0.25, -0.25]


# --- rollouts of several lines ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rollout_id", "trajectory_id", "traj_uid", "trajectory"])
@pytest.mark.parametrize("trainer", ["verl", "trl"])
def test_lines_of_one_rollout_are_one_rollout(tmp_path: Path, trainer: str, name: str) -> None:
    """Numbers published with slime: the baseline is over rollouts, not over samples."""
    parts = [("r0", 1.0), ("r0", 1.0), ("r0", 1.0), ("r1", 0.0)]
    keys = ("input", "output", "score") if trainer == "verl" else ("prompt", "completion", "correct")
    more = {"gts": "x"} if trainer == "verl" else {"advantage": 0.0}
    rows = [
        {
            "step": 2,
            **dict(zip(keys, ("one prompt", f"part {at}", score), strict=True)),
            **more,
            name: rollout,
        }
        for at, (rollout, score) in enumerate(parts)
    ]
    other = [row | {keys[0]: "another prompt"} for row in rows[2:]]
    corpus = written(tmp_path, rows + other)
    credits = ot.credit(corpus, method="dr_grpo", unit="turn")
    found = credits.filter(pl.col("unit_id").is_not_null())["credit"].to_list()
    close(found, [0.5, 0.5, 0.5, -0.5, 0.5, -0.5], 1e-12)
    assert len(corpus) == 4 and corpus.reward_channels() in (["team"], ["correct", "team"])
    steps = corpus.measures.filter(pl.col("name") == "train_step").collect()
    assert steps["value"].to_list() == [2.0] * 4 and set(steps["kind"]) == {"metric"}
