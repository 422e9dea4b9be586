"""Decisions against what the policy could have done instead: `aristocrat` and `coma`."""

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import orchestrace as ot
from samples.examples import examples
from samples.hand_runs import credited, event, run

METHODS = ("aristocrat", "coma")
SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}


def rollouts(
    made: list[tuple[str, float]], shares: dict[str, float] = SHARES, **more: Any
) -> list[dict[str, Any]]:
    """A rollout of one decision for each pair of action and outcome."""
    return [
        run(
            n,
            outcome,
            [
                event(
                    0,
                    action=action,
                    p_behavior=shares[action],
                    p_actions=list(shares.values()),
                    prefix_key="x",
                    **more,
                )
            ],
        )
        for n, (action, outcome) in enumerate(made)
    ]


def values(
    documents: list[dict[str, Any]], method: str, **params: Any
) -> list[tuple[float | None, str | None]]:
    found = credited(documents, method, "event", **params)
    return [value for (_, name), value in found.items() if name is not None]


def test_by_hand() -> None:
    made = [("a", 1.0), ("a", 0.0), ("b", 1.0), ("c", 0.0)]
    # Q(a) = 1/2, Q(b) = 1, Q(c) = 0; the policy expects 0.55
    table = values(rollouts(made), "coma")
    assert [x for x, _ in table] == pytest.approx([-0.05, -0.05, 0.45, -0.55])
    # own outcome for the own action: 1 - (0.5 * 1 + 0.3 * 1 + 0.2 * 0) and so on
    own = values(rollouts(made), "aristocrat")
    assert [x for x, _ in own] == pytest.approx([0.2, -0.3, 1 - 0.25 - 0.3, -0.25 - 0.3])
    assert {reason for _, reason in table + own} == {None}


@pytest.mark.parametrize("method", METHODS)
@examples(25, derandomize=True)
@given(data=st.data())
def test_the_mean_under_the_policy_is_zero_on_full_tables(method: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 4))
    weights = data.draw(st.lists(st.integers(1, 9), min_size=n, max_size=n))
    shares = {f"do {k}": w / sum(weights) for k, w in enumerate(weights)}
    outcome = st.floats(-10, 10, allow_subnormal=False)
    made = [(action, data.draw(outcome)) for action in shares for _ in range(data.draw(st.integers(1, 3)))]
    by_action: dict[str, list[float]] = defaultdict(list)
    for (action, _), (value, _) in zip(made, values(rollouts(made, shares), method), strict=True):
        assert value is not None
        by_action[action].append(value)
    mean = sum(p * sum(by_action[action]) / len(by_action[action]) for action, p in shares.items())
    assert abs(mean) < 1e-12


@pytest.mark.parametrize("method", METHODS)
def test_a_policy_without_a_choice_earns_exactly_nothing(method: str) -> None:
    for outcomes in ([0.1, 0.7, 1 / 3], [5.0]):
        made = [("only", outcome) for outcome in outcomes]
        assert values(rollouts(made, {"only": 1.0}), method) == [(0.0, None)] * len(made)


@pytest.mark.parametrize("method", METHODS)
def test_what_was_never_taken_is_not_guessed(method: str) -> None:
    gone = [("a", 1.0), ("b", 0.0), ("a", 0.5)]
    assert values(rollouts(gone), method) == [(None, "support.absent")] * 3
    # An action of no probability needs no outcome.
    idle = {"a": 0.6, "b": 0.4, "c": 0.0}
    found = [x for x, _ in values(rollouts(gone, idle), method)]
    wanted = {"aristocrat": [0.4, -0.45, 0.2], "coma": [0.3, -0.45, 0.3]}
    assert found == pytest.approx(wanted[method])
    # Nor does one that is told by nothing but the sum of what was taken.
    bare = rollouts(gone)
    for document in bare:
        del document["events"][0]["p_actions"]
    assert values(bare, method) == [(None, "support.absent")] * 3


def test_leaving_the_own_rollout_out_can_leave_nobody() -> None:
    both = [
        event(n, agent, action=action, p_behavior=0.5, prefix_key="x", role="worker")
        for n, (agent, action) in enumerate([("one", "a"), ("two", "b")])
    ]
    alone = [run(0, 1.0, both)]
    # Both actions were taken, each by the rollout itself: a table has both, nobody else has.
    assert values(alone, "aristocrat") == [(None, "support.absent")] * 2
    assert values(alone, "coma") == [(0.0, "group.degenerate")] * 2
    other = run(1, 0.0, [event(0, "one", action="b", p_behavior=0.5, prefix_key="x", role="worker")])
    found = values([*alone, other], "aristocrat")
    # `a` of run 0 against `b` of run 1; `b` of run 0 against nobody; `b` of run 1 against `a` of run 0.
    assert found == [(0.5, None), (None, "support.absent"), (-0.5, None)]


def test_groups_contexts_and_roles_are_apart() -> None:
    made = [("a", 1.0), ("b", 0.0), ("c", 0.0)]
    for change in ({"prefix_key": "y"}, {"role": "critic"}):
        documents = rollouts(made)
        documents[2]["events"][0].update(change)
        assert {reason for _, reason in values(documents, "coma")} == {"support.absent"}
    documents = rollouts(made)
    documents[2]["task_id"] = "other"
    assert {reason for _, reason in values(documents, "coma")} == {"support.absent"}


@pytest.mark.parametrize("method", METHODS)
def test_missing_fields_and_equal_outcomes_say_so(method: str) -> None:
    made = [("a", 1.0), ("b", 1.0), ("c", 1.0)]
    assert values(rollouts(made), method) == [(0.0, "group.degenerate")] * 3
    for field in ("action", "p_behavior"):
        documents = rollouts(made)
        del documents[0]["events"][0][field]
        assert values(documents, method)[0] == (None, "field.absent")
    documents = rollouts(made)
    for document in documents:
        del document["events"][0]["prefix_key"]
    assert {reason for _, reason in values(documents, method, context="recorded")} == {"field.absent"}
    huge = rollouts([("a", 1e300), ("b", 0.0), ("c", 1.0)])
    with pytest.raises(ot.ParameterError, match="too large for sums: expected at most 1e\\+100"):
        values(huge, method)


@pytest.mark.parametrize("method", [*METHODS, "c3"])
@pytest.mark.parametrize("unit", ["event", "agent"])
def test_a_cycle_is_no_missing_field(method: str, unit: str) -> None:
    """What was seen before a decision takes an order; a recorded context does not."""
    shares = {"p_behavior": 0.5, "p_actions": [0.5, 0.5]}
    more = {"type": "message", "to": "bob", "content_hash": "h"}

    def made(**key: str) -> list[dict[str, Any]]:
        events = [event(n, action="ab"[n], **shares, **more, **key) for n in range(2)]
        return [
            run(0, 1.0, events, [(0, 1), (1, 0)]),
            run(1, 0.0, [event(0, action="b", **shares, **more, **key)]),
        ]

    def reasons(documents: list[dict[str, Any]], context: str) -> set[str | None]:
        found = credited(documents, method, unit, context=context)
        return {reason for (trace, name), (_, reason) in found.items() if trace == 0 and name is not None}

    assert reasons(made(), "computed") == reasons(made(), "auto") == {"graph.cycle"}
    assert reasons(made(prefix_key="x"), "computed") == {"graph.cycle"}
    assert "graph.cycle" not in reasons(made(prefix_key="x"), "auto")
    assert "graph.cycle" not in reasons(made(prefix_key="x"), "recorded")
    assert reasons(made(), "recorded") == {"field.absent"}


def test_probabilities_a_hundredth_short_of_one_are_rounded_ones_in_any_order() -> None:
    """0.45 + 0.388 + 0.152 is 0.99 or the float below it, as the order of the sum has it."""
    shares = {"a": 0.45, "b": 0.388, "c": 0.152}
    for actions in itertools.permutations(shares):
        made = [(action, float(n)) for n, action in enumerate(actions)]
        assert {reason for _, reason in values(rollouts(made, shares), "coma")} == {None}


def test_a_context_that_thousands_share_is_no_square_of_them() -> None:
    """Each of 3,000 runs took both actions in the one context: pairs of runs would be nine millions."""
    rng = np.random.default_rng(0)
    outcomes = rng.normal(size=3000)
    documents = [
        run(
            n,
            float(outcome),
            [event(k, action="ab"[k], p_behavior=0.5, prefix_key="x", role="r") for k in range(2)],
        )
        for n, outcome in enumerate(outcomes)
    ]
    found = [value for value, _ in values(documents, "aristocrat")]
    others = (outcomes.sum() - outcomes) / (outcomes.size - 1)
    np.testing.assert_allclose(found, np.repeat(0.5 * (outcomes - others), 2), atol=1e-12)


def test_a_critic_says_what_comes_after_the_decision() -> None:
    def two(n: int, action: str, after: float, reward: float) -> dict[str, Any]:
        first = event(0, action=action, p_behavior=0.5, prefix_key="x", value=9.0, reward=reward)
        return run(n, 100.0 * n, [first, event(1, value=after)])

    documents = [two(0, "a", 1.0, 0.0), two(1, "b", 0.0, 0.5)]
    found = credited(documents, "coma", "event", critic="value")
    assert [found[n, "e0"][0] for n in range(2)] == [0.25, -0.25]
    del documents[1]["events"][1]["value"]
    found = credited(documents, "coma", "event", critic="value")
    assert [found[n, "e0"][1] for n in range(2)] == ["support.absent", "field.absent"]


@pytest.fixture(scope="module")
def forks() -> pl.DataFrame:
    """Decisions with siblings of the additive model: credit of both methods beside what is true."""
    options: dict[str, Any] = {"group_size": 32, "agents": 2, "events": 8, "density": 0.5, "decisive": 0.0}
    frames = []
    for seed in range(5):
        corpus, truth = ot.synthetic.planted(traces=32 * 60, seed=seed, **options)
        tasks = corpus.traces.select("trace", task=pl.format("{}/{}", pl.lit(seed), "task_id")).collect()
        both = truth.contributions.join(tasks, on="trace")
        for name, method, params in (
            ("aristocrat", "aristocrat", {}),
            ("coma", "coma", {}),
            ("critic", "coma", {"critic": "value"}),
            ("c3", "c3", {"baseline": "mean"}),
        ):
            own = ot.credit(corpus, method=method, unit="event", **params)  # type: ignore[call-overload]
            both = both.join(own.select("trace", "seq", pl.col("credit").alias(name)), on=["trace", "seq"])
        frames.append(both.drop_nulls(["coma", "aristocrat"]).filter(pl.col("c3") != 0.0))
    return pl.concat(frames)


def test_both_find_the_advantage_where_it_is_known(forks: pl.DataFrame) -> None:
    assert forks.height > 2000
    # Effects have mean 0 under the policy, so the contribution is the advantage that both estimate: slope 1.
    for name in METHODS:
        slopes = [
            float(np.polyfit(own["contribution"], own[name], 1)[0])
            for _, own in forks.group_by(pl.col("task").str.split("/").list.first())
        ]
        half = stats.t.ppf(0.9995, len(slopes) - 1) * stats.sem(slopes)
        assert len(slopes) == 5 and abs(np.mean(slopes) - 1) < half < 0.2, (name, slopes)
    rms = {
        n: float(np.sqrt(np.square(forks[n].to_numpy() - forks["contribution"].to_numpy()).mean()))
        for n in ("coma", "aristocrat", "critic", "c3")
    }
    # A table of means has less noise than an outcome; a critic that knows has hardly any.
    assert rms["critic"] < 0.5 * rms["coma"] and rms["coma"] < 0.8 * rms["aristocrat"], rms
    # Weighing by the policy is not worse than weighing by counts.
    assert rms["coma"] < 1.05 * rms["c3"], rms


def test_units_are_means_of_their_decisions() -> None:
    pairs = list(itertools.product("ab", "ab"))
    shares = {"a": 0.5, "b": 0.5}
    documents = []
    for n, (first, second) in enumerate(pairs):
        decided = [
            event(k, action=action, p_behavior=shares[action], prefix_key=f"x{k}" + (first if k else ""))
            for k, action in enumerate((first, second))
        ]
        documents.append(run(n, float((first == "a") + 2 * (second == "a")), decided))
    events = credited(documents, "coma", "event")
    assert [events[n, "e0"][0] for n in range(4)] == [0.5, 0.5, -0.5, -0.5]
    assert [events[n, "e1"][0] for n in range(4)] == [1.0, -1.0, 1.0, -1.0]
    agents = credited(documents, "coma", "agent")
    assert [agents[n, "lead"][0] for n in range(4)] == [0.75, -0.25, 0.25, -0.75]
