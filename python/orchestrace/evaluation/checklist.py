"""The checklist of the survey: what a recording must carry, and what it lacks."""

from typing import Final

import polars as pl

from ..base.verbs import verb
from ..corpus.corpus import Corpus

_ITEMS: Final = (
    ("topology", "topology", "set `topology` of the trace"),
    ("roles", "roles", "give events a `role`"),
    ("trace scale", "events", "record events"),
    ("trace scale", "messages", "record messages with `to`"),
    ("trace scale", "tool calls", "record tool_call and tool_result events"),
    ("trace scale", "sub-agents", "record spawns with `to`, or the events of sub-agents"),
    ("trace scale", "wall clock", "give costs a `wall_clock_s`"),
    ("trace scale", "tokens", "give events `tokens`, or `tokens_in` and `tokens_out`"),
    ("reward", "reward channels", "give the trace `rewards`"),
    ("reward", "auxiliary rewards", "name each auxiliary channel in `rewards`, beside the team's"),
    ("reward", "annealing", "give metrics a `train_step`, so that weights can be seen to change"),
    ("credit", "finest unit", "give events `reward`, or `tokens_out` for the token unit"),
    ("safety", "trust", "say of events whether they are `trusted`"),
    ("safety", "corruption", "mark events that are `corrupted`"),
    ("safety", "sandboxes", "give events a `sandbox_id`"),
    ("evaluation", "task success", "give metrics a `task_success`"),
    ("evaluation", "durations", "give events `duration_s` or `t_end`, or times in seconds"),
)


@verb
def report_checklist(corpus: Corpus, *, by_trace: bool = False) -> pl.DataFrame:
    """Check recordings against the survey's reporting checklist.

    Parameters
    ----------
    corpus
        The recordings.
    by_trace
        A row per trace and item instead of one per item.

    Returns
    -------
    DataFrame
        A row per item, in the order of the checklist: ``area item`` (String), ``n_filled n_missing`` (UInt32,
        traces), ``share`` (Float64, 0..1 of the traces; null without traces), ``found`` (String: what the
        first trace by ``trace_id`` carries that has it), ``fix`` (what to record, where a trace lacks it). By
        trace: ``trace trace_id area item filled`` (Boolean) ``found fix``.

    Notes
    -----
    Linear. Source: arXiv 2605.02801, Table 14 (topology and roles; scale; reward channels and whether
    auxiliaries anneal; finest credit unit; safety instrumentation) and its benchmark rule B1 (success).

    Examples
    --------
    >>> import orchestrace as ot
    >>> table = ot.evaluation.report_checklist(ot.generate(traces=3, seed=0))
    >>> table.filter(item="topology")["share"].item()
    1.0
    """
    carried = _carried(corpus)
    frames = []
    for number, (area, item, fix) in enumerate(_ITEMS):
        filled = pl.col(item).is_not_null()
        frames.append(
            carried.select(
                "trace",
                "trace_id",
                pl.lit(number).alias("number"),
                pl.lit(area).alias("area"),
                pl.lit(item).alias("item"),
                filled.alias("filled"),
                pl.col(item).alias("found"),
                pl.when(~filled).then(pl.lit(fix)).alias("fix"),
            )
        )
    rows = pl.concat(frames).sort("trace", "number")
    if by_trace:
        return rows.drop("number")
    totals = rows.group_by("number").agg(
        n_filled=pl.col("filled").sum().cast(pl.UInt32),
        n_missing=(~pl.col("filled")).sum().cast(pl.UInt32),
        found=pl.col("found").sort_by("trace_id", "trace").drop_nulls().first(),
    )
    items = pl.DataFrame(
        {
            "number": range(len(_ITEMS)),
            "area": [area for area, _, _ in _ITEMS],
            "item": [item for _, item, _ in _ITEMS],
            "fix": [fix for _, _, fix in _ITEMS],
        },
        schema_overrides={"number": pl.Int32},
    )
    table = items.join(totals, on="number", how="left", maintain_order="left").with_columns(
        pl.col("n_filled", "n_missing").fill_null(0)
    )
    n = pl.col("n_filled") + pl.col("n_missing")
    return table.select(
        "area",
        "item",
        "n_filled",
        "n_missing",
        pl.when(n > 0).then(pl.col("n_filled") / n).alias("share"),
        "found",
        pl.when((pl.col("n_missing") > 0) | (n == 0)).then("fix").alias("fix"),
    )


def _carried(corpus: Corpus) -> pl.DataFrame:
    """A row per trace, a column of text per item: what is carried, null where nothing is."""
    kind = pl.col("type").cast(pl.String)
    events = corpus.events.group_by("trace").agg(
        roles=pl.col("role").drop_nulls().n_unique(),
        messages=kind.is_in(["message", "return"]).sum(),
        calls=(kind == "tool_call").sum(),
        tokens=pl.col("tokens").is_not_null().sum(),
        written=pl.col("tokens_out").is_not_null().sum(),
        rewards=pl.col("reward").is_not_null().sum(),
        trusted=pl.col("trusted").is_not_null().sum(),
        corrupted=pl.col("corrupted").is_not_null().sum(),
        sandboxes=pl.col("sandbox_id").drop_nulls().n_unique(),
        lengths=pl.any_horizontal(pl.col("duration_s", "t_end").is_not_null()).sum(),
    )
    named = pl.col("name").cast(pl.String)
    of = pl.col("kind").cast(pl.String)
    measures = corpus.measures.group_by("trace").agg(
        channels=named.filter(of == "reward").sort().str.join(", "),
        n_channels=(of == "reward").sum(),
        auxiliaries=named.filter((of == "reward") & (named != "team")).sort().str.join(", "),
        n_auxiliaries=((of == "reward") & (named != "team")).sum(),
        step=pl.col("value").filter((of == "metric") & (named == "train_step")).first(),
        success=pl.col("value").filter((of == "metric") & (named == "task_success")).first(),
        clock=pl.col("value").filter((of == "cost") & (named == "wall_clock_s")).first(),
        total=pl.col("value").filter((of == "cost") & (named == "tokens")).first(),
    )
    traces = corpus.traces.select("trace", "trace_id", "topology", "time_basis", "n_events", "n_agents")
    wide = (
        traces.join(events, on="trace", how="left")
        .join(measures, on="trace", how="left")
        .sort("trace")
        .collect(engine="streaming")
    )

    def text_where(condition: pl.Expr, *parts: pl.Expr | str) -> pl.Expr:
        template = "".join("{}" if isinstance(part, pl.Expr) else part for part in parts)
        return pl.when(condition).then(pl.format(template, *(p for p in parts if isinstance(p, pl.Expr))))

    # the schema requires tokens and wall clock: who does not know them writes 0
    n = pl.col
    topology = n("topology").cast(pl.String)
    basis = n("time_basis").cast(pl.String)
    items = {
        "topology": pl.when(topology.is_not_null() & (topology != "unknown")).then(topology),
        "roles": text_where(n("roles") > 0, n("roles"), " roles"),
        "events": text_where(n("n_events") > 0, n("n_events"), " events"),
        "messages": text_where(n("messages") > 0, n("messages"), " messages and returns"),
        "tool calls": text_where(n("calls") > 0, n("calls"), " tool calls"),
        "sub-agents": text_where(n("n_agents") > 1, n("n_agents"), " agents"),
        "wall clock": text_where(n("clock") > 0, n("clock"), " s"),
        "tokens": pl.coalesce(
            text_where(n("tokens") > 0, n("tokens"), " events with tokens"),
            text_where(n("total") > 0, n("total"), " tokens in all"),
        ),
        "reward channels": pl.when(n("n_channels") > 0).then(n("channels")),
        "auxiliary rewards": pl.when(n("n_auxiliaries") > 0).then(n("auxiliaries")),
        "annealing": text_where(n("step").is_not_null(), "train_step ", n("step")),
        "finest unit": pl.coalesce(
            text_where(n("written") > 0, "token (", n("written"), " events with tokens_out)"),
            text_where(n("rewards") > 0, "event (", n("rewards"), " rewards)"),
        ),
        "trust": text_where(n("trusted") > 0, n("trusted"), " events with trusted"),
        "corruption": text_where(n("corrupted") > 0, n("corrupted"), " events with corrupted"),
        "sandboxes": text_where(n("sandboxes") > 0, n("sandboxes"), " sandboxes"),
        "task success": text_where(n("success").is_not_null(), "task_success ", n("success")),
        "durations": pl.coalesce(
            text_where(n("lengths") > 0, n("lengths"), " events with durations"),
            text_where(basis.is_in(["seconds", "partial"]), "times in seconds"),
        ),
    }
    return wide.select("trace", "trace_id", *(expr.alias(name) for name, expr in items.items()))
