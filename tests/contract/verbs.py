"""Every verb of the package on any corpus: a value, or an error of ours that is about the data."""

import io
import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from example_calls import over_any_corpus
from orchestrace.decisions.rows import decision_rows
from samples.export_calls import TARGETS, options_of

METHODS = [(row["name"], row["units"]) for row in ot.list_methods().iter_rows(named=True)]
FEW = (
    *(("flow", "event"), ("uniform", "role"), ("grpo", "agent"), ("discounted", "turn"), ("gae", "turn")),
    *(
        ("dag_gae", "agent"),
        ("difference", "event"),
        ("owen", "agent"),
        ("spectrum", "event"),
        ("c3", "turn"),
    ),
    *(("gigpo", "turn"), ("reinforce_pp", "team"), ("dr_mas", "agent")),
)
Verb = Callable[[ot.Corpus], Any]
ALL_CHECKS = ("tasks", "model", "harness", "attempts", "missing", "copies")


def crediting(method: str, unit: str) -> Verb:
    return lambda corpus: ot.credit(corpus, method=method, unit=unit)  # type: ignore[call-overload]


def flow(corpus: ot.Corpus, unit: Any = "event") -> pl.DataFrame:
    found = ot.credit(corpus, method="flow", unit=unit)
    assert isinstance(found, pl.DataFrame)
    return found


def explained(corpus: ot.Corpus) -> Any:
    credits = flow(corpus)
    if credits.is_empty():
        return None
    row = credits.row(credits.height // 2, named=True)
    return ot.explain(corpus, credits, row["unit_id"], trace=row["trace"])


def exported(format: str) -> Verb:
    def verb(corpus: ot.Corpus) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            return ot.export(corpus, format, Path(folder) / "out", **options_of(format, corpus))

    return verb


def viewed(corpus: ot.Corpus) -> Any:
    with tempfile.TemporaryDirectory() as made:
        return ot.view(corpus, Path(made) / "page.html", text=True)


def selected(corpus: ot.Corpus) -> pl.DataFrame:
    with tempfile.TemporaryDirectory() as made:
        selection = ot.trainers.select(corpus, "rl", pass_rate=(-1, 2))
        return ot.trainers.sink_selection(corpus, selection, "rl", made)


def first_source(corpus: ot.Corpus) -> Any:
    """The record of the first event; of a stream that is an error of ours."""
    events = corpus.events.select("trace", "seq").head(1).collect()
    return corpus.source(*events.row(0)) if events.height else None


def other_policy(corpus: ot.Corpus, unit: Any, *, spawn: float = 0.5, **options: Any) -> pl.DataFrame:
    """What spawning half of the time, or so, would have been worth, of any decisions that have an action."""
    own = ("trace", "trace_id", "task_id", "seq", "action", "p_behavior")
    decisions = decision_rows(corpus, "team").select(*own, x_depth="depth", outcome="reward")
    policy = {"spawn": spawn, "no_spawn": 1.0 - spawn}
    decided = decisions.filter(pl.col("action").is_not_null())
    return ot.effects.policy_values(decided, policy, unit=unit, n_boot=20, **options)


def lines(corpus: ot.Corpus) -> bytes:
    out = io.BytesIO()
    corpus.write_jsonl(out)
    return out.getvalue()


VERBS: dict[str, Verb] = {
    **over_any_corpus(),
    # what the example of a verb leaves out, and verbs that need a frame of the corpus, or a path
    "evaluation.agreement": lambda c: ot.evaluation.agreement(c, flow(c), flow(c), n_boot=20),
    "evaluation.compare_metrics all": lambda c: ot.evaluation.compare_metrics(c, c),
    "evaluation.gate all": lambda c: ot.evaluation.gate(
        c, c, metric=["success", "tokens", "seconds", "n_turns:lower"], allow=ALL_CHECKS
    ),
    "evaluation.gate_power all": lambda c: ot.evaluation.gate_power(
        c, c, metric=["reward", "tokens"], draws=20, allow=ALL_CHECKS
    ),
    "costs.table agent": lambda c: ot.costs.table(c, by="agent"),
    "costs.table trace": lambda c: ot.costs.table(c, by="trace"),
    "decisions.table aggregate": lambda c: ot.decisions.table(c, "aggregate"),
    "decisions.table communicate": lambda c: ot.decisions.table(c, "communicate"),
    "decisions.table delegate": lambda c: ot.decisions.table(c, "delegate", credits=flow(c, "agent")),
    "decisions.table stop": lambda c: ot.decisions.table(c, "stop"),
    "scaling.credit_snr": lambda c: ot.scaling.credit_snr(c, flow(c)),
    "schedules.critical_path agent": ot.schedules.critical_path,
    "effects.delegation agent": ot.effects.delegation,
    "display": lambda c: (repr(c), c._repr_html_()),
    "explain": explained,
    **{f"export {name}": exported(name) for name in TARGETS},
    "export_size perfetto": lambda c: ot.export_size(c, "perfetto"),
    "evaluation.edit_script": lambda c: ot.evaluation.edit_script(
        c, pairs=c.traces.select(trace_a="trace", trace_b="trace").head(2).collect()
    ),
    "evaluation.align exact": lambda c: ot.evaluation.align(c, c, key="exact"),
    "evaluation.divergence exact": lambda c: ot.evaluation.divergence(c, key="exact"),
    "evaluation.faithfulness": lambda c: ot.evaluation.faithfulness(c, flow(c), steps=4, orders=2),
    "evaluation.free_ride": lambda c: ot.evaluation.free_ride(flow(c, "agent")),
    "scaling.distance_to_published nearest": ot.scaling.distance_to_published,
    "evaluation.reward_accounting": lambda c: ot.evaluation.reward_accounting(c, flow(c)),
    "evaluation.failure_attribution": lambda c: ot.evaluation.failure_attribution(
        flow(c, "turn"), ot.evaluation.place_labels(c)
    ),
    "effects.matched calls": lambda c: ot.effects.matched(c, pl.col("type") == "tool_call"),
    "metrics by agent": lambda c: ot.metrics(c, by="agent"),
    "metrics by task": lambda c: ot.metrics(c, by="task"),
    "effects.policy_values": lambda c: other_policy(c, "decision"),
    "effects.policy_values sequence": lambda c: other_policy(c, "sequence"),
    "effects.policy_values sure": lambda c: other_policy(c, "decision", spawn=1.0),
    "outcomes.sensitivity difference": lambda c: ot.outcomes.sensitivity(
        c, method="difference", outcomes=("noisy_or", "mean")
    ),
    "replay schedule": lambda c: ot.replay(c, ot.interventions.speed_up(2.0, type="tool_call")),
    "evaluation.pass_rates team": ot.evaluation.pass_rates,
    "plot.agreement": lambda c: ot.plot.agreement(c, flow(c)),
    "rewards.attach": lambda c: ot.rewards.attach(c, ot.rewards.compute(c, "parl")),
    "rewards.balance": lambda c: ot.rewards.balance(
        c, ot.rewards.compute(c, ["finish", "tokens"]), {"finish": 1.0}, n_boot=10
    ),
    "reward_channels": lambda c: c.reward_channels(),
    "rewards.compute all": lambda c: ot.rewards.compute(c, ot.rewards.list_rules()["reward"].to_list()),
    "rewards.compute diagnostic": lambda c: ot.rewards.compute(c, {"parl": {"anneal": "diagnostic"}}),
    "rewards.detect_hacking": lambda c: ot.rewards.detect_hacking(
        c, ot.rewards.compute(c, "agent"), n_boot=10
    ),
    "rewards.combine": lambda c: ot.rewards.combine(
        ot.rewards.compute(c, ["finish", "tokens"]), {"finish": 1.0}
    ),
    "stopping.epochs any": ot.stopping.epochs,
    "stopping.epochs attempt": lambda c: ot.stopping.epochs(c, "attempt"),
    "stopping.evaluate": lambda c: ot.stopping.evaluate(ot.stopping.epochs(c), problem="abort", n_boot=10),
    "stopping.epochs budget": lambda c: ot.stopping.epochs(c, budget={"epochs": 4, "tokens": 100}),
    "stopping.support": lambda c: ot.stopping.support(ot.stopping.epochs(c, "attempt")),
    "stopping.regret": lambda c: ot.stopping.regret(ot.stopping.epochs(c, "attempt")),
    "schedules.scaling_curve doubled": ot.schedules.scaling_curve,
    "schedules.simulate slots": lambda c: ot.schedules.simulate(c, slots=2),
    "source": first_source,
    "effects.spawn costs": ot.effects.spawn,
    "view": viewed,
    "taint search": lambda c: ot.taint(c, untrusted_tools=["search"]),
    "to_arrow": lambda c: c.to_arrow("events"),
    "to_numpy": lambda c: c.to_numpy("measures"),
    "trainers.agent_opsd": lambda c: ot.trainers.agent_opsd(
        c, ot.credit(c, method="dr_grpo", unit="turn"), "score"
    ),
    "trainers.sink_selection": selected,
    "trainers.token_credits": lambda c: ot.trainers.token_credits(
        c, ot.credit(c, method="broadcast", unit="token"), max_tokens=100_000
    ),
    "trainers.trainer_table": lambda c: ot.trainers.trainer_table(
        c, ot.credit(c, method="broadcast", unit="turn")
    ),
    "write_jsonl": lines,
    "write_quarantined": lambda c: c.write_quarantined(io.BytesIO()),
    **{f"credit {method} {unit}": crediting(method, unit) for method, unit in FEW},
}


def answer(verb: Verb, corpus: ot.Corpus) -> Any:
    """What a verb gives, or the error of ours that it raises, in one line; another error passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return verb(corpus)
        except ot.OrchestraceError as error:
            text = str(error)
            assert text and "\n" not in text and "internal error" not in text, text
            return error


def frames(answer: Any) -> Iterator[pl.DataFrame]:
    """The tables of an answer."""
    if isinstance(answer, pl.DataFrame):
        yield answer
    elif isinstance(answer, dict):
        for one in answer.values():
            yield from frames(one)


def beyond_numbers(answer: Any) -> list[str]:
    """Columns of an answer with a value that is no number."""
    return [
        name
        for frame in frames(answer)
        for name, kind in frame.schema.items()
        if kind.is_float() and not all(math.isfinite(x) for x in frame[name].drop_nulls())
    ]
