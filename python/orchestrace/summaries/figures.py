"""The figures of a story, from the frames of the verbs that its lines name."""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from ..base.sums import ordered_total, total
from ..base.text import counted
from ..corpus.corpus import Corpus

RUNS: Final = 3
"""Runs that are named as worth opening."""

_RUNS: Final[dict[str, Any]] = {"trace": pl.UInt32, "trace_id": pl.String, "why": pl.String}
_AGENTS: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "trace_id": pl.String,
    "agent": pl.String,
    "n_events": pl.Int64,
    "tokens": pl.Int64,
}


def span(seconds: float) -> str:
    """A length of time in the two largest units that it has."""
    for unit, name, small, rest in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            count, left = divmod(round(seconds / small), unit // small)
            return f"{count} {name} {left} {rest}" if left else f"{count} {name}"
    return f"{seconds:.3g} s"


def any_event_has(corpus: Corpus, name: str) -> bool:
    """Whether any event has a value in a column."""
    return bool(corpus.events.select(pl.col(name).is_not_null().any()).collect(engine="streaming").item())


def n_floors(corpus: Corpus) -> int:
    """Traces whose recorded usage is a floor."""
    incomplete = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.incomplete")
    return int(incomplete.select(pl.col("trace").n_unique()).collect().item())


def missing_runs(corpus: Corpus) -> pl.LazyFrame:
    """``trace count``: how many runs the source of a trace states that are not here.

    A floor: most sources state nothing.
    """
    missing = pl.col("code").cast(pl.String) == "source.runs_missing"
    return corpus.findings.filter(missing).select("trace", pl.col("count").cast(pl.Int64))


def n_missing_runs(corpus: Corpus) -> int:
    """How many runs sources state that are not here."""
    return int(missing_runs(corpus).select(pl.col("count").sum()).collect().item())


def words_for_waits(corpus: Corpus) -> dict[str, str]:
    """Words for the waits of agents: the people they waited for, and the kind of answer."""
    kind, agent, role = (pl.col(name).cast(pl.String) for name in ("type", "agent", "role"))
    is_user = agent == "user"
    answers = ((kind == "tool_result") & (pl.col("from").cast(pl.String) == "user")).fill_null(False)
    seen = corpus.events.select(
        humans=(is_user & (kind == "message")).any(),
        stand_ins=(~is_user & (role == "user")).fill_null(False).any(),
        answers=answers.any(),
    ).collect(engine="streaming")
    [(humans, stand_ins, answered)] = seen.iter_rows()
    calls = corpus.events.filter(kind == "tool_call").select("trace", src="seq")
    decided = (
        corpus.events.filter(kind == "human_intervention")
        .select("trace", dst="seq")
        .join(corpus.edges.select("trace", "src", "dst"), on=["trace", "dst"])
        .join(calls, on=["trace", "src"], how="semi")
        .head(1)
        .collect()
        .height
    )
    users = ["humans"] * bool(humans or not stand_ins) + ["simulated users"] * bool(stand_ins)
    permission = "permissions and answers" if decided else "waiting for answers"
    return {"permission": permission if answered else "permissions", "human": " and ".join(users)}


def sum_of(frame: pl.DataFrame, name: str) -> float | None:
    """The sum of a column, None where no row has it."""
    amount: float | None = frame.select(ordered_total(pl.col(name).cast(pl.Float64))).item()
    return amount


def total_of(frame: pl.DataFrame, name: str) -> int | None:
    """The sum of a column of counts, at most the greatest one; None where no row has it."""
    amount: int | None = frame.select(total(pl.col(name))).item()
    return amount


def critical_shares(paths: pl.DataFrame, unit: str) -> pl.DataFrame:
    """How much of the critical paths in a unit each agent held, the most first."""
    held = (
        paths.filter(pl.col("unit") == unit, pl.col("critical") > 0.0)
        .group_by("agent")
        .agg(ordered_total(pl.col("critical")))
        .sort(["critical", "agent"], descending=[True, False], nulls_last=True)
    )
    all_critical = ordered_total(pl.col("critical"))
    return held.with_columns(share=pl.when(all_critical > 0).then(pl.col("critical") / all_critical))


def agents_without_effect(members: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """Agents that have events, none of which leads to the answer of the run."""
    answered = rows.filter(pl.col("dead_events").is_not_null()).select("trace")
    return (
        members.join(answered, on="trace", how="semi")
        .filter(pl.col("agent").is_not_null(), pl.col("utilization") == 0.0, pl.col("n_events") > 0)
        .select(pl.col(name).cast(kind) for name, kind in _AGENTS.items())
        .sort(
            ["tokens", "n_events", "trace_id", "trace", "agent"],
            descending=[True, True, False, False, False],
            nulls_last=True,
        )
    )


def exposed_runs(tainted: pl.DataFrame) -> pl.DataFrame | None:
    """Runs in which untrusted content has a way to an action; None where nothing says what is untrusted."""
    # a recording that marks only its own messages as trusted says nothing on the results of tools
    has_trust = tainted["n_untrusted"].sum() or (
        tainted["n_untrusted"].count() and not tainted["n_trust_unknown"].sum()
    )
    if not has_trust and not (tainted["n_seeds"].fill_null(0) > 0).any():
        return None
    actions = {"privileged call": "privileged_call", "spawn": "spawn", "decision": "decision"}
    event = pl.coalesce(f"first_{name}" for name in actions.values())
    kind = pl.coalesce(
        pl.when(pl.col(f"first_{name}").is_not_null()).then(pl.lit(word)) for word, name in actions.items()
    )
    return (
        tainted.with_columns(event=event, action=kind)
        .filter(pl.col("event").is_not_null())
        .sort(["n_tainted", "trace_id", "trace"], descending=[True, False, False])
        .select("trace", "trace_id", "action", "event", "n_tainted", "path")
    )


def answers_by_agent(corpus: Corpus, tainted: pl.DataFrame) -> dict[str, int]:
    """How many runs each agent answered."""
    outcomes = tainted.select("trace", id="outcome").drop_nulls().lazy()
    by = (
        corpus.events.select("trace", "id", agent=pl.col("agent").cast(pl.String))
        .join(outcomes, on=["trace", "id"], how="semi")
        .group_by("agent")
        .len()
        .collect(engine="streaming")
        .sort(["len", "agent"], descending=[True, False])
    )
    return {"nobody" if agent is None else agent: count for agent, count in by.iter_rows()}


def runs_to_open(rows: pl.DataFrame, exposed: pl.DataFrame | None) -> pl.DataFrame:
    """The runs that are most worth opening, each for the first reason that names it."""
    all_tokens = total_of(rows, "tokens") or 0
    table = rows.with_columns(
        lost=pl.col("tokens") * pl.col("dead_tokens"),
        took=pl.when(pl.col("time_unit") == "seconds").then(pl.sum_horizontal("model_time", "tool_time")),
    )
    if exposed is not None:
        table = table.join(
            exposed.select("trace", "n_tainted", "action"), on="trace", how="left", suffix="_by"
        )
        table = table.with_columns(ways=pl.when(pl.col("action").is_not_null()).then("n_tainted"))
    questions: dict[str, Callable[[dict[str, Any], str], str]] = {
        "ways": lambda row, _: (
            f"untrusted content has ways to {counted(row['ways'], 'event')}, a {row['action']} among them"
        ),
        "lost": lambda row, _: f"{round(row['lost']):,} tokens went into work that reached no answer",
        "tokens": lambda row, among: (
            f"most tokens{among}, {row['tokens']:,}, {row['tokens'] / all_tokens:.0%} of all"
        ),
        "took": lambda row, among: f"the longest{among}, {span(row['took'])} of models and tools",
        "n_tool_errors": lambda row, among: f"most errors of tools{among}, {row['n_tool_errors']:,}",
        "n_events": lambda row, among: f"most events{among}, {row['n_events']:,}",
    }
    ranked: list[tuple[int, str, str]] = []
    for name, reason_of in questions.items():
        if name not in table.columns or len(ranked) == RUNS or (name == "n_events" and ranked):
            continue
        taken = [trace for trace, _, _ in ranked]
        having = table.filter(pl.col(name) > 0).sort(
            [name, "trace_id", "trace"], descending=[True, False, False]
        )
        left = having.filter(~pl.col("trace").is_in(taken))
        among = " of the others" if having["trace"].head(1).is_in(taken).any() else ""
        for row in left.head(1).iter_rows(named=True):
            ranked.append((row["trace"], row["trace_id"], reason_of(row, among)))
    return pl.DataFrame(ranked, schema=_RUNS, orient="row")
