"""No number that a recording cannot identify comes alone: every verb, on recordings that lack something.

A row with a number says by `tier` what it rests on; a row without one says why by `reason`.
"""

import io
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from contract.verbs import answer, other_policy
from example_calls import example_of, function_of, over_any_corpus
from namespaces import names
from orchestrace.base.schema import REPLAYS
from orchestrace.interventions.content import Each
from samples.hand_runs import GAMES, event, read, run
from samples.random_runs import Document, jsonl

DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3)]


def team(**fields: list[Any]) -> list[dict[str, Any]]:
    """A lead spawns ann, asks bob, and joins what they say."""
    events = [
        event(0, "lead", "spawn", to="ann"),
        event(1, "ann", "message", to="lead", role="worker"),
        event(2, "bob", "tool_call", tool="web", role="worker"),
        event(3, "lead", "aggregate"),
    ]
    for name, values in fields.items():
        for one, value in zip(events, values, strict=True):
            one.update({} if value is None else {name: value})
    return events


def ordinal(documents: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), format="native", time_basis="ordinal")


def corpora() -> dict[str, ot.Corpus]:
    scores = [0.5, 0.6, 0.9, 0.8]
    halves = [0.5] * 4
    planted, _ = ot.synthetic.planted(traces=48, seed=3, spawn_effect=0.3)
    plain = [run(n, float(n % 2), team(score=scores), DIAMOND, task=f"task{n // 2}") for n in range(6)]
    return {
        "generated": ot.generate(traces=12, seed=0),
        "planted": planted,
        "scored": read(plain),
        # what is broken, or not there
        "cycles": read([run(n, 1.0, team(score=scores), [*DIAMOND, (3, 0)]) for n in range(2)]),
        "cycles and others": read([*plain[:2], run(9, 1.0, team(), [(0, 1), (1, 0)])]),
        "no scores": read([run(n, float(n), team(), DIAMOND) for n in range(2)]),
        "no rewards": read([run(n, None, team(score=halves), DIAMOND) for n in range(2)]),
        "no times": read([run(n, 1.0, [{**e, "t": 0} for e in team()], DIAMOND) for n in range(2)]),
        "ordinal": ordinal([run(n, 1.0, team(score=scores), DIAMOND) for n in range(2)]),
        "backwards": read([run(n, 1.0, [{**e, "t": 3 - e["t"]} for e in team()], DIAMOND) for n in range(2)]),
        "no edges": read([run(n, 1.0, team(score=scores)) for n in range(2)]),
        "one event": read([run(n, 1.0) for n in range(2)]),
        "nobody": read([run(0, 1.0, [event(0, "user", "human_intervention")])]),
        "empty": read(plain).filter(pl.lit(False)),
    }


CORPORA = corpora()
every_corpus = pytest.mark.parametrize("name", CORPORA)

#: What rests on something beside the record. Plain means and makespans of what was recorded describe it.
ESTIMATES = [
    *("credit", "outcome_cf", "effect", "stderr", "lower", "upper", "makespan_cf", "tokens_cf", "utility"),
    *("mean_control", "speedup", "utilization", "cost", "alpha", "alpha_stderr", "beta", "beta_stderr"),
    *("k_best", "rmse", "value"),
]
TIERS = {"observed", "schedule", "surrogate"}
#: Methods that say how sure they are by samples, which they need above the exact limit.
SAMPLED = {
    row["name"]
    for row in ot.list_methods().iter_rows(named=True)
    if "samples" in {one["name"] for one in row["params"]}
}
#: These answer in units of a reward, and refuse a corpus in which no run has one.
REWARDED = (
    *("effects.matched", "effects.spawn", "effects.message", "effects.delegation"),
    "decisions.table",
    "effects.policy_values",
)


def own_outcome(masks: Any, game: Any) -> Any:
    return np.where(masks.all(axis=1), 1.0, np.nan)


STRUCTURAL = [
    *(
        ot.interventions.drop(each=level, mode=mode)
        for level in get_args(Each)
        for mode in ("subtree", "node")
    ),
    ot.interventions.drop(each="event", lost="any"),
    ot.interventions.drop(type="message"),
    ot.interventions.do(each="agent", to=0.5),
    *(ot.interventions.aggregate_by(rule) for rule in ("best", "majority", "mean", "confidence")),
    ot.interventions.truncate(at=1),
    ot.interventions.drop(each="agent")
    & ot.interventions.aggregate_by("mean")
    & ot.interventions.truncate(at=2),
]
SCHEDULE = [
    *(ot.interventions.concurrency([1, 2, None], pool=pool) for pool in ("all", "agents", "tools")),
    ot.interventions.concurrency(None, release="recorded"),
    ot.interventions.speed_up(2, type="tool_call"),
    ot.interventions.cap_stragglers(0.5),
    ot.interventions.skip(type="message"),
    ot.interventions.run_sequentially(),
    ot.interventions.drop(type="message") & ot.interventions.concurrency(2),
]
SPAWNS = pl.col("type") == "spawn"


def fits(corpus: ot.Corpus, **options: Any) -> pl.DataFrame:
    curve = ot.schedules.scaling_curve(corpus, slots=[1, 2, 4, None])
    if curve.filter(k=1).is_empty():
        return pl.DataFrame()
    return ot.schedules.fit_scaling(curve, **options)


VERBS: dict[str, Callable[[ot.Corpus], pl.DataFrame]] = {
    "replay": lambda c: ot.replay(c, *STRUCTURAL),
    "replay typed": lambda c: ot.replay(c, *STRUCTURAL, outcome="typed", program_order=True),
    "replay alone": lambda c: ot.replay(c, *STRUCTURAL, sensitivity=False),
    "replay own": lambda c: ot.replay(
        c, ot.interventions.drop(each="agent"), ot.interventions.truncate(at=1), outcome=own_outcome
    ),
    "replay schedules": lambda c: ot.replay(c, *SCHEDULE),
    "replay gaps": lambda c: ot.replay(c, *SCHEDULE, durations="gap"),
    "replay both": lambda c: ot.replay(
        c,
        ot.interventions.drop(each="agent"),
        ot.interventions.run_sequentially(),
        ot.interventions.truncate(at=1),
    ),
    "scaling_curve": ot.schedules.scaling_curve,
    "scaling_curve agents": lambda c: ot.schedules.scaling_curve(c, pool="agents"),
    "fit_scaling": fits,
    "fit_scaling by trace": lambda c: fits(c, by="trace"),
    "effects.matched": lambda c: ot.effects.matched(c, SPAWNS),
    "effects.spawn": lambda c: ot.effects.spawn(c),
    "effects.spawn bounds": lambda c: ot.effects.spawn(c, bounds=(-9.0, 9.0), monotone=True),
    "effects.delegation": ot.effects.delegation,
    "effects.policy_values": lambda c: other_policy(c, "decision"),
    "effects.policy_values bounds": lambda c: other_policy(c, "decision", bounds=(-99.0, 99.0), min_ess=1.0),
    "effects.policy_values sure": lambda c: other_policy(
        c, "decision", spawn=1.0, min_ess=1.0, max_share=1.0, max_unsupported=1.0
    ),
    "effects.policy_values sequence": lambda c: other_policy(c, "sequence", bounds=(-99.0, 99.0)),
    "effects.aggregation by event": lambda c: ot.effects.aggregation(c, by="event"),
    **{
        f"decisions.table {kind} {bounds}": lambda c, kind=kind, bounds=bounds: ot.decisions.table(
            c, kind, bounds=bounds
        )
        for kind in ("spawn", "delegate", "communicate", "aggregate", "stop")
        for bounds in (None, (-9.0, 9.0))
    },
    "outcomes.sensitivity of effects": lambda c: ot.outcomes.sensitivity(
        c, ot.interventions.drop(each="agent")
    ),
    "outcomes.sensitivity of credit": lambda c: ot.outcomes.sensitivity(c, method="shapley", samples=32),
}


def assert_told(table: pl.DataFrame) -> None:
    """Every row has a number and a tier, or neither and a reason."""
    numbers = [name for name in ESTIMATES if name in table.columns]
    assert numbers
    told = table.select(pl.any_horizontal(pl.col(numbers).is_not_null())).to_series()
    bare = table.filter(told & pl.col("tier").is_null())
    assert bare.is_empty(), bare.head(3).to_dicts()
    silent = table.filter(~told & pl.col("reason").is_null())
    assert silent.is_empty(), silent.head(3).to_dicts()
    if "credit" not in numbers:  # the tier of a credit is that of its method, in every row
        claimed = table.filter(~told & pl.col("tier").is_not_null())
        assert claimed.is_empty(), claimed.head(3).to_dicts()
    assert set(table["tier"].drop_nulls().cast(pl.String)) <= TIERS
    for name in numbers:
        if table[name].dtype.is_float():
            assert table[name].drop_nulls().is_finite().all(), name


@pytest.mark.every_nth(7)
@every_corpus
@pytest.mark.parametrize("verb", VERBS)
def test_every_number_of_a_counterfactual_has_a_tier(verb: str, name: str) -> None:
    if name == "no rewards" and verb.split()[0] in REWARDED:
        with pytest.raises(ot.ParameterError, match="unknown reward channel 'team'"):
            VERBS[verb](CORPORA[name])
        return
    table = VERBS[verb](CORPORA[name])
    if not table.is_empty():
        assert_told(table)


@every_corpus
@pytest.mark.parametrize("method", sorted(GAMES))
def test_every_value_of_a_game_has_a_tier(method: str, name: str) -> None:
    params = {"samples": 64} if method in SAMPLED else {}
    table = ot.credit(CORPORA[name], method=method, unit="agent", **params)
    if not table.is_empty():
        assert_told(table)
        assert set(table["tier"]) == {"surrogate"}


def with_tiers() -> list[str]:
    """Verbs of a corpus whose example has tiers; those of credit hang on the method."""
    others = [verb for verb in over_any_corpus() if verb != "credit"]
    return [verb for verb in others if "tier" in example_of(function_of(verb)).columns]


@every_corpus
def test_every_number_of_an_example_has_a_tier(name: str) -> None:
    """A new verb is asked by its example; `VERBS` has what other arguments lead to."""
    for verb in with_tiers():
        table = answer(over_any_corpus()[verb], CORPORA[name])
        if isinstance(table, ot.OrchestraceError):
            assert name == "no rewards" and str(table).startswith("unknown reward channel 'team'"), verb
        elif not table.is_empty():
            assert_told(table)


def test_all_effects_have_a_tier() -> None:
    others = {"replay", "schedules.scaling_curve", "outcomes.sensitivity", "decisions.table"}
    others.add("evaluation.divergence")
    effects = {f"effects.{name}" for name in names(ot.effects)}
    assert others | effects - {"effects.policy_values"} == set(with_tiers())
    assert set(ot.replay(CORPORA["empty"], ot.interventions.run_sequentially()).schema) == set(REPLAYS)


# --- what cannot be known ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_a_cycle_has_no_structural_answer(verb: str) -> None:
    table = VERBS[verb](CORPORA["cycles"])
    if table.is_empty() or verb.split()[0] in REWARDED or verb.startswith("effects.aggregation"):
        return  # these compare what was recorded, and need no order
    numbers = [name for name in ESTIMATES if name in table.columns]
    assert all(table[name].null_count() == table.height for name in numbers)
    assert set(table["reason"]) <= {"graph.cycle", "field.absent"}


def test_without_another_branch_nothing_is_observed() -> None:
    """Every run of these spawned, and nobody did anything else: no effect can be told from the record."""
    for name in ("scored", "no scores", "ordinal"):
        corpus = CORPORA[name]
        assert ot.effects.matched(corpus, SPAWNS)["effect"].null_count() > 0
        spawned = ot.effects.spawn(corpus, treatment=SPAWNS, among=SPAWNS, bounds=(0.0, 1.0))
        assert spawned["effect"].null_count() == spawned.height
        (bounds,) = spawned.filter(estimate="bounds", outcome="team").rows(named=True)
        assert bounds["upper"] - bounds["lower"] == pytest.approx(1.0) and bounds["tier"] == "observed"
        messages = ot.effects.message(corpus)
        assert messages["effect"].null_count() == messages.height


def test_steps_are_told_from_seconds() -> None:
    table = ot.replay(CORPORA["ordinal"], ot.interventions.run_sequentially())
    assert set(table["reason"]) == {"time.steps"} and set(table["tier"]) == {"schedule"}
    assert set(ot.schedules.scaling_curve(CORPORA["ordinal"])["unit"]) == {"steps"}


def test_fitted_weights_that_nothing_tells_are_not_told() -> None:
    """All edges are causal ones: the weights of other types are null, and say why."""
    with pytest.raises(ot.ParameterError, match="no event with inputs has a score"):
        ot.outcomes.fit(CORPORA["no scores"])
    weights = ot.outcomes.fit(CORPORA["scored"]).weights
    others = weights.filter(pl.col("type") != "causal")
    assert others["weight"].null_count() == others["reason"].count() == others.height == 7
