"""What the tier of each estimator of effects assumes, and how wrong the number is where that fails.

`ESTIMATORS` has a row for each: the tier that it claims, the assumption as docs/assumptions.md words it, and
a simulation that is run twice. Where the assumption holds, the estimate is right on average; where it fails,
and nothing else changes, it is not, and its interval does not say so.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.effects.matching import STAGES
from orchestrace.effects.off_policy import ESTIMATORS as OF_POLICIES
from orchestrace.effects.spawning import SPAWNED
from orchestrace.synthetic.choosing import ACTIONS, HARD_NEXT, PAID, STATES

PAGE = Path(__file__).parents[2] / "docs" / "assumptions.md"
SEEDS = 30


@dataclass
class Seen:
    """Estimates and truths over seeds; of estimators that give ends alone, how far these miss the truth."""

    errors: list[float] = field(default_factory=list)
    tiers: set[str] = field(default_factory=set)

    def add(self, row: dict[str, Any], estimate: str, truth: float) -> None:
        self.tiers.add(row["tier"])
        self.errors.append(row[estimate] - truth)

    def add_ends(self, row: dict[str, Any], truth: float) -> None:
        self.tiers.add(row["tier"])
        self.errors.append(min(truth - row["lower"], 0.0) or max(truth - row["upper"], 0.0))


Simulation = Callable[[bool], Seen]


@dataclass(frozen=True)
class Estimator:
    tier: str
    assumes: str
    simulate: Simulation


# --- choices that a state moves ---------------------------------------------------------------------------


def chosen(rng: np.random.Generator, hidden: bool, tasks: int = 8, rollouts: int = 40) -> ot.Corpus:
    """Runs that say x or y, which adds nothing. Half are hard, and fail more often.

    What is said depends on that if `hidden`: nothing in the recording tells.
    """
    n = tasks * rollouts
    hard = rng.random(n) < 0.5
    x = rng.random(n) < (np.where(hard, 0.2, 0.8) if hidden else 0.5)
    trace = np.arange(n)
    groups = [f"g{one // rollouts}" for one in trace]
    event = {
        "trace": trace,
        "id": "e0",
        "t": 0.0,
        "type": "message",
        "agent": "lead",
        "to": "ann",
        "prefix_key": "same",
        "content_hash": np.where(x, "x", "y"),
        "action": np.where(x, "x", "y"),
        "tokens_out": 5,
    }
    paid = (rng.random(n) < np.where(hard, 0.2, 0.8)).astype(float)
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(
            {"trace": trace, "trace_id": [f"r{one}" for one in trace], "task_id": groups, "group_id": groups}
        ),
        events=pl.DataFrame(event),
        measures=pl.DataFrame({"trace": trace, "kind": "reward", "name": "team", "value": paid}),
    )


SAYS_X: dict[str, Any] = {"treatment": pl.col("action") == "x", "among": pl.col("type") == "message"}


def matched(*stages: Any, row: str) -> Simulation:
    def simulate(broken: bool) -> Seen:
        seen = Seen()
        for seed in range(SEEDS):
            corpus = chosen(np.random.default_rng(seed), broken)
            table = ot.effects.matched(corpus, **SAYS_X, stages=list(stages), context="recorded")
            seen.add(table.row(by_predicate=pl.col("stage") == row, named=True), "effect", 0.0)
        return seen

    return simulate


def spawned(propensity: Any) -> Simulation:
    def simulate(broken: bool) -> Seen:
        seen = Seen()
        for seed in range(SEEDS):
            corpus = chosen(np.random.default_rng(seed), broken)
            table = ot.effects.spawn(
                corpus, **SAYS_X, propensity=propensity, features=["position", "n_agents"], costs=False
            )
            seen.add(table.row(by_predicate=pl.col("estimate") == "aipw", named=True), "effect", 0.0)
        return seen

    return simulate


def messages(broken: bool) -> Seen:
    seen = Seen()
    for seed in range(SEEDS):
        corpus = chosen(np.random.default_rng(seed), broken)
        table = ot.effects.message(corpus, context="recorded")
        rows = table.join(
            corpus.events.select("trace", "seq", "content_hash").collect(), on=["trace", "seq"]
        ).filter(content_hash="x")
        seen.tiers |= set(rows["tier"])
        seen.errors.append(rows["effect"].mean())  # type: ignore[arg-type]  # a column of numbers
    return seen


# --- bounds -------------------------------------------------------------------------------------------------


def two_ways(x: np.ndarray, paid: np.ndarray) -> ot.Corpus:
    """One run a task, which said x or not and was paid that."""
    n = len(x)
    names = [f"r{one}" for one in range(n)]
    event = {"id": "e0", "t": 0.0, "type": "message", "agent": "lead", "action": np.where(x, "x", "y")}
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": range(n), "trace_id": names, "task_id": names}),
        events=pl.DataFrame({"trace": range(n)} | event),
        measures=pl.DataFrame({"trace": range(n), "kind": "reward", "name": "team", "value": paid}),
    )


def ends_of_spawns(kind: str) -> Simulation:
    """Of two kinds of tasks one always says x. What its other word would have paid, nobody saw."""

    def simulate(broken: bool) -> Seen:
        seen = Seen()
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            x = rng.random(200) < 0.5
            if kind == "bounds":
                with_x, unseen = rng.random(200), rng.random(200) - (4.0 if broken else 0.0)
                without = np.where(x, unseen, rng.random(200))
            else:
                without = rng.random(200)
                with_x = without * 0.5 if broken else 0.5 + without * 0.5
            paid = np.where(x, with_x, without)
            table = ot.effects.spawn(
                two_ways(x, paid), **SAYS_X, bounds=(0.0, 1.0), monotone=True, costs=False
            )
            row = table.row(by_predicate=pl.col("estimate") == kind, named=True)
            seen.add_ends(row, float((with_x - without).mean()))
        return seen

    return simulate


# --- delegations and aggregates -----------------------------------------------------------------------------


def delegations(broken: bool) -> Seen:
    """Ann is better than bob by 1. If broken, she is asked where it is hard, which costs 2."""
    seen, n = Seen(), 400
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        hard = rng.random(n) < 0.5
        ann = rng.random(n) < (np.where(hard, 0.9, 0.1) if broken else 0.5)
        names = [f"r{one}" for one in range(n)]
        event = {"id": "e0", "t": 0.0, "type": "spawn", "agent": "lead", "subtask_id": "code"}
        corpus = ot.Corpus.from_arrow(
            traces=pl.DataFrame({"trace": range(n), "trace_id": names, "task_id": names}),
            events=pl.DataFrame({"trace": range(n)} | event | {"to": np.where(ann, "ann", "bob")}),
            measures=pl.DataFrame(
                {
                    **{"trace": range(n), "kind": "reward", "name": "team"},
                    "value": ann - 2.0 * hard + rng.normal(0.0, 0.3, n),
                }
            ),
        )
        row = ot.effects.delegation(corpus).filter(delegate="ann").row(0, named=True)
        seen.add(
            row, "effect", float((~ann).mean())
        )  # better by 1 than those of the class that were not hers
    return seen


def aggregations(broken: bool) -> Seen:
    """The best of four answers, by what a scorer says of them; if broken, it is off by chance."""
    seen, n, inputs = Seen(), 60, 4
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        quality = rng.uniform(0.3, 0.7, (n, inputs))
        said = quality + (rng.uniform(-0.25, 0.25, (n, inputs)) if broken else 0.0)
        answer = quality.mean(axis=1)
        trace = np.repeat(np.arange(n), inputs + 1)
        seq = np.tile(np.arange(inputs + 1), n)
        last = seq == inputs
        names = [f"r{one}" for one in range(n)]
        corpus = ot.Corpus.from_arrow(
            traces=pl.DataFrame({"trace": range(n), "trace_id": names, "task_id": names}),
            events=pl.DataFrame(
                {
                    "trace": trace,
                    "id": [f"e{one}" for one in seq],
                    "t": seq.astype(float),
                    "type": np.where(last, "aggregate", "message"),
                    "agent": np.where(last, "lead", "ann"),
                    "score": np.where(last, answer[trace], said[trace, np.minimum(seq, inputs - 1)]),
                }
            ),
            edges=pl.DataFrame(
                {"trace": trace[~last], "src": seq[~last], "dst": inputs, "type": "aggregate"},
            ),
            measures=pl.DataFrame({"trace": range(n), "kind": "reward", "name": "team", "value": answer}),
        )
        row = ot.effects.aggregation(corpus).filter(rule="best").row(0, named=True)
        best = quality[np.arange(n), said.argmax(axis=1)]
        seen.add(row, "effect", float((best - answer).mean()))
    return seen


# --- policies -----------------------------------------------------------------------------------------------

SHARE = {"easy": 0.5, "hard": 0.7}
SURE = {"easy": 0.0, "hard": 1.0}
NEVER = {"easy": 0.0, "hard": 0.0}
#: How often the recording says that the team spawned: it did in 0.3 of easy and 0.5 of hard states.
CLAIMED = {"easy": 0.7, "hard": 0.2}
OPEN: dict[str, Any] = {"min_ess": 1.0, "max_share": 1.0, "max_unsupported": 1.0, "n_boot": 20}


def policy_of(share: dict[str, float]) -> pl.DataFrame:
    rows = [
        {"x_state": state, "action": action, "p": p}
        for state, spawn in share.items()
        for action, p in (("spawn", spawn), ("no_spawn", 1.0 - spawn))
    ]
    return pl.DataFrame(rows)


def claimed(decisions: pl.DataFrame) -> pl.DataFrame:
    """The decisions with probabilities that did not draw them."""
    spawn = pl.col("x_state").replace_strict(CLAIMED)
    said = pl.when(pl.col("action") == "spawn").then(spawn).otherwise(1.0 - spawn)
    return decisions.drop("p_actions").with_columns(p_behavior=said)


def expected(share: dict[str, float], end: float = 0.2) -> pl.DataFrame:
    """The true return of each action from a decision on, at the last of two decisions and before."""
    spawns = np.array([share[state] for state in STATES])
    then = (1.0 - spawns) * PAID[:, 0] + spawns * PAID[:, 1]
    following = (1.0 - HARD_NEXT) * then[0] + HARD_NEXT * then[1]
    rows = [
        {"x_state": state, "seq": seq, "action": action, "q": float(q[i, k])}
        for seq, q in enumerate((PAID + (1.0 - end) * following, PAID))
        for i, state in enumerate(STATES)
        for k, action in enumerate(ACTIONS)
    ]
    return pl.DataFrame(rows).with_columns(pl.col("seq").cast(pl.UInt32))


def policies(
    name: str, unit: Any = "decision", *, chances: bool = False, model: bool = False, **options: Any
) -> Simulation:
    """Break what is recorded of `chances`, the `model`, or both.

    A model that is right is the truth. One that is wrong is the regression of the package: it adds up state
    and action, and what an action is worth hangs on the state.
    """
    sequence = unit == "sequence"
    share = NEVER if name == "mrdr" else SHARE if chances else SURE

    def simulate(broken: bool) -> Seen:
        seen = Seen()
        for seed in range(SEEDS):
            decisions, truth = ot.synthetic.choices(runs=400, steps=2 if sequence else 1, seed=seed)
            more: dict[str, Any] = {"reward": "reward"} if sequence else {}
            if broken and chances:
                decisions = claimed(decisions)
            if broken and name in ("dr", "mrdr"):
                decisions = decisions.with_columns(x_none=pl.lit(1.0))
                more["features"] = ["x_none"]
            if model and not broken:
                more["outcome_model"] = expected(share).filter(pl.col("seq").eq(1) | sequence)
                if not sequence:
                    more["outcome_model"] = more["outcome_model"].drop("seq")
            table = ot.effects.policy_values(
                decisions, policy_of(share), unit=unit, **(OPEN | options | more)
            )
            row = table.row(by_predicate=pl.col("estimator") == name, named=True)
            seen.add(row, "value", truth.value(share))
        return seen

    return simulate


def bounds_of_policies(broken: bool) -> Seen:
    """The team always did a; what b pays nobody saw: 3 if broken, where 1 was said to be the most."""
    seen = Seen()
    for seed in range(SEEDS):
        paid = np.random.default_rng(seed).random(100)
        names = [f"r{one}" for one in range(100)]
        decisions = pl.DataFrame(
            {
                **{"trace": range(100), "trace_id": names, "task_id": names, "seq": 0},
                **{"action": "a", "p_behavior": 1.0, "outcome": paid},
            }
        )
        table = ot.effects.policy_values(
            decisions, {"a": 0.0, "b": 1.0}, actions=["a", "b"], bounds=(0.0, 1.0), **OPEN
        )
        row = table.row(by_predicate=pl.col("estimator") == "bounds", named=True)
        seen.add_ends(row, 3.0 if broken else 0.5)
    return seen


# --- the list -----------------------------------------------------------------------------------------------

ALIKE = "decisions of one recorded context were in one state"
FEATURES = "nothing but the compared features moved both choice and outcome"
CHANCES = "the recorded probabilities are those that drew"
EITHER = "the recorded probabilities are those that drew, or the model of outcomes is right"
MODEL = "the model of outcomes is right"
RANGE = "no outcome, seen or not, is outside of the range"

ESTIMATORS = {
    "matched, exact": Estimator("observed", ALIKE, matched("exact", row="exact")),
    "matched, coarse": Estimator("surrogate", FEATURES, matched("coarse", row="coarse")),
    "matched, nearest": Estimator("surrogate", FEATURES, matched("nearest", row="nearest")),
    "matched, combined": Estimator("surrogate", FEATURES, matched("coarse", "nearest", row="combined")),
    "message": Estimator("observed", ALIKE, messages),
    "spawn, aipw, recorded": Estimator("observed", CHANCES, spawned(pl.lit(0.5))),
    "spawn, aipw, fitted": Estimator("surrogate", FEATURES, spawned("fitted")),
    "spawn, bounds": Estimator("observed", RANGE, ends_of_spawns("bounds")),
    "spawn, monotone": Estimator(
        "observed", "the choice never lowers an outcome", ends_of_spawns("monotone")
    ),
    "delegation": Estimator(
        "surrogate", "within a class, who was asked had nothing to do with how hard it was", delegations
    ),
    "aggregation": Estimator("observed", "recorded scores are what the inputs were worth", aggregations),
    "policy_values, ips": Estimator("observed", CHANCES, policies("ips", chances=True)),
    "policy_values, snips": Estimator("observed", CHANCES, policies("snips", chances=True)),
    "policy_values, is": Estimator("observed", CHANCES, policies("is", "sequence", chances=True)),
    "policy_values, wis": Estimator("observed", CHANCES, policies("wis", "sequence", chances=True)),
    "policy_values, pdis": Estimator("observed", CHANCES, policies("pdis", "sequence", chances=True)),
    "policy_values, direct": Estimator("surrogate", MODEL, policies("direct", model=True)),
    "policy_values, fqe": Estimator("surrogate", MODEL, policies("fqe", "sequence", model=True)),
    "policy_values, dr": Estimator("observed", EITHER, policies("dr", chances=True)),
    "policy_values, mrdr": Estimator("observed", EITHER, policies("mrdr", chances=True)),
    "policy_values, switch": Estimator("surrogate", MODEL, policies("switch", model=True, tau=1.5)),
    "policy_values, bounds": Estimator("observed", RANGE, bounds_of_policies),
}


def bias(errors: list[float]) -> tuple[float, float]:
    """The mean error and its own error."""
    return float(np.mean(errors)), float(np.std(errors, ddof=1) / len(errors) ** 0.5)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_it_is_right_where_the_assumption_holds_and_wrong_where_it_fails(name: str) -> None:
    one = ESTIMATORS[name]
    holds, fails = one.simulate(False), one.simulate(True)
    assert holds.tiers == fails.tiers == {one.tier}, "the tier is the same: it cannot know"
    mean, error = bias(holds.errors)
    assert abs(mean) <= 3.5 * error + 1e-9, (mean, error)
    mean, error = bias(fails.errors)
    assert abs(mean) > max(5.0 * error, 0.03), (mean, error)


def test_every_public_estimator_is_listed() -> None:
    kinds = SPAWNED["estimate"].categories.to_list()
    public = {name for name in dir(ot.effects) if not name.startswith("_")}
    expected = {
        *(f"matched, {stage}" for stage in (*STAGES, "combined")),
        *(f"spawn, {kind}" for kind in kinds if kind != "aipw"),
        *(f"spawn, aipw, {how}" for how in ("recorded", "fitted")),
        *(f"policy_values, {name}" for name in OF_POLICIES),
        *(public - {"matched", "spawn", "policy_values"}),
    }
    assert set(ESTIMATORS) == expected


def test_the_page_says_what_each_assumes() -> None:
    rows = re.findall(r"^\| `effects\.(\w+)`(.*?) \| `(\w+)` \| (.*?) \|", PAGE.read_text("utf-8"), re.M)
    told = {name + more.replace("`", ""): (tier, assumes) for name, more, tier, assumes in rows}
    assert told == {name: (one.tier, one.assumes) for name, one in ESTIMATORS.items()}
