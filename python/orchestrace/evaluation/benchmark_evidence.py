"""What a recording has of the survey's five rules for benchmarks: yes or no, trace by trace."""

import json
from typing import Any, Final

import polars as pl

from ..corpus.corpus import Corpus
from ..metrics.verb import FAMILIES, list_metrics, metrics

TOPOLOGIES: Final = ("centralized", "planner_executor_critic", "debate", "swarm", "hierarchical", "harness")
"""The topologies of the survey; ``mixed`` and ``unknown`` are words of the schema and none of them."""

DECADES: Final = {"about 10": 10, "about 100": 100, "about 1000": 1000}
"""Strata of size, by the power of ten that the logarithm of a trace's events is nearest to."""

FAMILY_PARTS: Final = {
    "E1": "E1 task success",
    "E2": "E2 parallelism efficiency",
    "E3": "E3 collaboration quality",
    "E4": "E4 overhead and safety",
}
"""Of each evaluation family, the part that says whether a trace reports it."""

REPLAYABLE: Final = ("ends", "acyclic", "edges", "outcome", "contents", "task named", "reward")
"""What a trace needs so that somebody else can replay and judge it."""

PARTS: Final[dict[str, tuple[str, ...]]] = {
    "B1": (*FAMILY_PARTS.values(), "all of E1 to E4"),
    "B2": ("below about 10", *DECADES, "above about 1000"),
    "B3": (*TOPOLOGIES, "mixed", "topology not known", "task under several"),
    "B4": ("safety recorded", "untrusted content", "attack", "attack with a clean twin"),
    "B5": (*REPLAYABLE, "replayable"),
}
"""Parts of each rule, in the order of their rows."""

FIXES: Final = {
    FAMILY_PARTS["E1"]: "give metrics a `task_success`, or rewards a `team`",
    FAMILY_PARTS["E2"]: "give events `duration_s` or `t_end`, or times in seconds",
    FAMILY_PARTS["E3"]: "record messages with `to`, and the events of sub-agents",
    FAMILY_PARTS["E4"]: "give events `tokens`, and say whether they are `trusted` or `corrupted`",
    **{name: f"run more tasks of {name} events" for name in DECADES},
    "topology not known": "give traces a `topology`",
    "task under several": "run each task under more than one topology",
    "safety recorded": "say of events whether they are `trusted` or `corrupted`",
    "attack": "run tasks with an attack; mark its events `corrupted`, or give metrics an `attack_success`",
    "attack with a clean twin": "run each attacked task without the attack, too",
    "ends": "record runs to their end",
    "acyclic": "record edges that close no cycle",
    "edges": "record what each event got from which",
    "outcome": "record the answer as a return or an aggregate",
    "contents": "give messages, results and returns a `content_ref`",
    "task named": "give traces a `task_id`",
    "reward": "give the trace `rewards`",
}
"""What to record, or to run, where a part is absent."""

_FIXES_BY_REASON: Final = {
    "graph.cycle": FIXES["acyclic"],
    "trace.partial": FIXES["ends"],
    "outcome.absent": FIXES["outcome"],
    "outcome.ambiguous": FIXES["outcome"],
}
"""What to record where the fields of a family are there, but its metrics have another reason to be null."""

_HANGS: Final = "dead_events"
"""A metric of every trace whose outcome is known (D5) and whose graph has no cycle."""
_HANDED_ON: Final = ("message", "tool_result", "return")
"""Events that say something to somebody: a replay needs their texts."""


def fix_of(part: str, lacks: str | None) -> str | None:
    """What to record or to run, that there is more of a part, where a family lacks these metrics.

    Examples
    --------
    >>> from orchestrace.evaluation.benchmark_evidence import fix_of
    >>> fix_of("E2 parallelism efficiency", "parallelism graph.cycle")
    'record edges that close no cycle'
    """
    reasons = [row.rpartition(" ")[2] for row in lacks.split(", ")] if lacks else []
    if reasons and all(reason in _FIXES_BY_REASON for reason in reasons):
        return _FIXES_BY_REASON[reasons[0]]
    return FIXES.get(part)


def evidence(corpus: Corpus, **running: Any) -> pl.DataFrame:
    """A row per trace: ``trace task_id``, a Boolean per part of each rule, and what a family lacks.

    Parameters
    ----------
    corpus
        The recordings.
    running
        ``engine threads progress`` of `metrics`.

    Returns
    -------
    DataFrame
        ``trace`` (UInt32), ``task_id`` (String), then the columns of `PARTS` (Boolean, no null), and ``lacks
        E1`` to ``lacks E4`` (String: metrics and why they are null; null where the family is reported).

    Raises
    ------
    ParameterError
        An engine that is not known.

    Notes
    -----
    Metrics are computed piece by piece, events are streamed: memory grows with traces. O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.evaluation.benchmark_evidence import evidence
    >>> evidence(ot.generate(traces=3, seed=0))["acyclic"].to_list()
    [True, True, True]
    """
    rows = _of_traces(corpus).join(_of_metrics(corpus, running), on="trace", how="left").sort("trace")
    sizes = pl.col("n_events").cast(pl.UInt64).pow(2)  # whole numbers: no logarithm is rounded
    ends = {name: (decade * decade // 10, decade * decade * 10) for name, decade in DECADES.items()}
    topology = pl.col("topology").cast(pl.String).fill_null("unknown")
    first = FAMILY_PARTS["E1"]
    rows = rows.with_columns(  # an outcome is a success where it is high enough
        (pl.col(first) | pl.col("team")).alias(first),
        pl.when(~pl.col("team")).then("lacks E1").alias("lacks E1"),
    )
    rows = rows.with_columns(
        (sizes < ends["about 10"][0]).alias("below about 10"),
        (sizes >= ends["about 1000"][1]).alias("above about 1000"),
        *(sizes.is_between(*bounds, closed="left").alias(name) for name, bounds in ends.items()),
        *((topology == name).alias(name) for name in (*TOPOLOGIES, "mixed")),
        (topology == "unknown").alias("topology not known"),
        pl.all_horizontal(*FAMILY_PARTS.values()).alias("all of E1 to E4"),
        ends=~pl.col("partial"),
        edges=pl.col("n_edges") > 0,
    )
    one_of_six = pl.when(topology.is_in(TOPOLOGIES)).then(topology)
    said_clean = pl.col("safety recorded") & ~pl.col("attack")
    rows = rows.with_columns(
        (one_of_six.is_not_null() & (one_of_six.drop_nulls().n_unique().over("task_id") > 1)).alias(
            "task under several"
        ),
        (pl.col("attack") & said_clean.any().over("task_id")).alias("attack with a clean twin"),
        replayable=pl.all_horizontal(*REPLAYABLE),
    )
    parts = [part for names in PARTS.values() for part in names]
    return rows.select("trace", "task_id", *parts, *(f"lacks {family}" for family in FAMILIES))


def _of_traces(corpus: Corpus) -> pl.DataFrame:
    """A row per trace: its sizes, its topology, and what its events, measures and findings say."""
    kind = pl.col("type").cast(pl.String)
    handed_on = kind.is_in(_HANDED_ON)
    events = corpus.events.group_by("trace").agg(
        said=pl.any_horizontal(pl.col("trusted", "corrupted").is_not_null()).any(),
        untrusted=pl.col("trusted").not_().any(),
        corrupted=pl.col("corrupted").any(),
        contents=handed_on.any() & (~handed_on | pl.col("content_ref").is_not_null()).all(),
    )
    of, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    measures = corpus.measures.group_by("trace").agg(
        reward=(of == "reward").any(),
        team=((of == "reward") & (name == "team")).any(),
        judged=((of == "metric") & (name == "attack_success")).any(),
    )
    cycles = corpus.findings.filter(pl.col("code").cast(pl.String) == "graph.cycle").select("trace").unique()
    safety = (kind == "safety_event") & pl.col("extras").str.contains('"x_injection"', literal=True)
    mentions = corpus.events.filter(safety).select("trace", "extras").unique().collect(engine="streaming")
    placed = [says_where(extras) for extras in mentions["extras"]]
    injected = mentions.filter(pl.Series(placed, dtype=pl.Boolean)).select("trace").unique()
    sizes = corpus.traces.select("trace", "trace_id", "task_id", "topology", "partial", "n_events", "n_edges")
    rows = (
        sizes.join(events, on="trace", how="left")
        .join(measures, on="trace", how="left")
        .join(cycles.with_columns(cyclic=True), on="trace", how="left")
        .join(injected.lazy().with_columns(injected=True), on="trace", how="left")
        .collect(engine="streaming")
    )
    flags = ("said", "untrusted", "corrupted", "injected", "contents", "reward", "team", "judged", "cyclic")
    rows = rows.with_columns(pl.col(*flags).fill_null(value=False))
    attack = pl.col("corrupted") | pl.col("injected") | pl.col("judged")
    return rows.select(
        *("trace", "task_id", "topology", "partial", "n_events", "n_edges", "contents", "reward", "team"),
        (pl.col("said") | attack).alias("safety recorded"),
        pl.col("untrusted").alias("untrusted content"),
        attack.alias("attack"),
        (pl.col("task_id") != pl.col("trace_id")).alias("task named"),
        acyclic=~pl.col("cyclic"),
    )


def says_where(extras: str) -> bool:
    """Whether the other fields of a safety event say where something was injected: a text at the top.

    Examples
    --------
    >>> from orchestrace.evaluation.benchmark_evidence import says_where
    >>> says_where('{"x_injection": "tool"}'), says_where('{"x_injection": null}')
    (True, False)
    """
    fields = json.loads(extras, parse_int=float)  # whole numbers may have more digits than Python reads
    place = fields.get("x_injection") if isinstance(fields, dict) else None
    return isinstance(place, str) and bool(place.strip())


def _of_metrics(corpus: Corpus, running: dict[str, Any]) -> pl.DataFrame:
    """A row per trace: which families have a value, what the others lack, whether there is an outcome."""
    names = [name for family in FAMILIES.values() for name in family]
    listed = list_metrics().filter(pl.col("metric").is_in([*names, _HANGS]), pl.col("group") != "members")
    measured = metrics(corpus, groups=listed["group"].unique().sort().to_list(), **running)
    reasons = set(measured["reason"].struct.fields)

    def why(name: str) -> pl.Expr:
        if name not in reasons:
            return pl.lit("field.absent")
        return pl.col("reason").struct.field(name).cast(pl.String)

    def lacks(family: str) -> pl.Expr:
        members = FAMILIES[family]
        return pl.when(pl.all_horizontal(pl.col(*members).is_null())).then(
            pl.concat_str([pl.lit(f"{name} ") + why(name) for name in members], separator=", ")
        )

    return measured.select(
        "trace",
        *(
            pl.any_horizontal(pl.col(*FAMILIES[family]).is_not_null()).alias(part)
            for family, part in FAMILY_PARTS.items()
        ),
        *(lacks(family).alias(f"lacks {family}") for family in FAMILIES),
        outcome=pl.col(_HANGS).is_not_null(),
    )
