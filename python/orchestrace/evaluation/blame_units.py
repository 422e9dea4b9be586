"""Candidates for blame: the turns, or agents, of runs with what the recording says of each."""

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arrays import Floats
from ..base.division import Division
from ..base.engines import RunBy
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.owners import owners
from ..corpus.parts import store_of
from ..statistics.sums import sums_of
from .annotation import place_labels

Level = Literal["step", "agent"]
POSITION: Final = ("place", "left", "first", "last", "middle", "log_index", "early")
STRUCTURE: Final = (
    *("events", "tokens", "calls", "spawns", "returns", "decisions", "messages", "failed", "repeated"),
    *("new_tool", "share", "new_speaker", "same_speaker", "speakers", "sent", "received", "after_failure"),
)


@verb(rows="a candidate", division=Division())
def blame_candidates(corpus: Corpus, *, level: Level = "step", engine: RunBy = None) -> pl.DataFrame:
    """List the steps or agents of every run that may be blamed, with what the recording says of each.

    Parameters
    ----------
    corpus
        The runs, with labels or without (`Corpus.labels`).
    level
        Candidates are the turns in which an agent acts (``"step"``), so none that only holds results of
        tools, or the agents, of which the features are means over their turns.
    engine
        What computes a corpus on disk, as in `credit`.

    Returns
    -------
    DataFrame
        A row per candidate, by trace and ``seq``: ``trace`` UInt32, ``trace_id task_id unit_id agent``
        String, ``seq`` Int64 (its first event). Float64, 0 where the recording says nothing: ``place`` (0
        first, 1 last), ``left`` (candidates after it), ``first last middle log_index early`` are of its
        position; ``events tokens calls spawns returns decisions messages failed repeated new_tool share
        new_speaker same_speaker speakers sent received after_failure`` of what was done in it. ``labeled``
        Boolean: a label is of it; ``n_labels n_placed`` UInt32: labels of the run, and those of candidates. A
        run in which no agent acts has one row, with ``unit_id agent seq`` null.

    Notes
    -----
    Of counts (``left log_index events tokens speakers sent received``) it has log(1 + n). `blame` makes sets
    of these rows; here they are for a score of your own. O(events log events); events of one piece of a
    corpus on disk are in memory at a time.

    Examples
    --------
    >>> import orchestrace as ot
    >>> candidates = ot.evaluation.blame_candidates(ot.generate(traces=8, seed=0), level="agent")
    >>> candidates["trace"].n_unique(), candidates["labeled"].any()
    (8, False)
    """
    ids = corpus.traces.select("trace", "trace_id", "task_id").collect(engine="streaming")
    labels = _labels(corpus, ids)
    turns, placed = map(pl.concat, zip(*_by_piece(corpus, labels), strict=True))
    if level == "agent":
        turns = _of_agents(turns)
        placed = placed.with_columns(unit_id=pl.col("named_agent"))
    candidates = turns.select("trace", "unit_id").with_columns(labeled=pl.lit(value=True))
    placed = placed.join(candidates, on=["trace", "unit_id"], how="left")
    counts = placed.group_by("trace").agg(
        n_labels=pl.len(), n_placed=pl.col("labeled").fill_null(value=False).sum()
    )
    marked = placed.filter(pl.col("labeled").fill_null(value=False))
    marked = marked.select("trace", "unit_id", "labeled").unique()
    # a run without candidates has a row, so that its labels count
    return (
        ids.join(turns, on="trace", how="left", maintain_order="left_right")
        .join(marked, on=["trace", "unit_id"], how="left", maintain_order="left")
        .join(counts, on="trace", how="left", maintain_order="left")
        .with_columns(
            pl.col("labeled").fill_null(value=False),
            pl.col("n_labels", "n_placed").fill_null(0),
            pl.col(*POSITION, *STRUCTURE).fill_null(0.0),
            task_id=pl.coalesce("task_id", "trace_id").cast(pl.String),
            trace_id=pl.col("trace_id").cast(pl.String),
        )
    )


def _of_agents(turns: pl.DataFrame) -> pl.DataFrame:
    """The agents of turns, by their first, with the means of what their turns have."""
    agents = turns.unique(["trace", "agent"], keep="first", maintain_order=True).with_row_index("code")
    codes = agents.select("trace", "agent", "code")
    code = turns.join(codes, on=["trace", "agent"], how="left", maintain_order="left")["code"].to_numpy()
    n = np.bincount(code, minlength=agents.height)
    # sums of a group_by follow how rows are spread over threads
    means = (
        pl.Series(name, sums_of(turns[name].to_numpy(), code, agents.height) / n)
        for name in (*POSITION, *STRUCTURE)
    )
    return agents.drop("code").with_columns(*means, unit_id="agent")


def _by_piece(corpus: Corpus, labels: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Turns with their features, and the places of labels, of each piece of a corpus."""
    yield _with_features(_EVENTS.clear()), _placed(labels.clear(), _EVENTS.clear())
    for _, load in corpus.pieces():
        piece = load()
        events = _events(piece)
        here = labels.join(piece.traces.select("trace").collect(), on="trace", how="semi")
        yield _with_features(events), _placed(here, events)


def features(units: pl.DataFrame, names: tuple[str, ...]) -> Floats:
    """(units, names) float64 without nulls."""
    return units.select(pl.col(names).fill_null(0.0).fill_nan(0.0)).to_numpy().astype(np.float64)


_EVENTS: Final = pl.DataFrame(
    schema={
        "trace": pl.UInt32(),
        "seq": pl.Int64(),
        "id": pl.String(),
        "agent": pl.String(),
        "unit_id": pl.String(),
        "number": pl.Int64(),
        "type": pl.String(),
        "tool": pl.String(),
        "tokens": pl.Int64(),
        "ok": pl.Boolean(),
        "key": pl.String(),
        "sent": pl.UInt32(),
        "received": pl.UInt32(),
    }
)
"""Events that agents own, in canonical order: ``agent`` is the owner, ``unit_id`` its turn (D4)."""


def _events(piece: Corpus) -> pl.DataFrame:
    """The events of a piece that are of a turn."""
    units = pl.DataFrame(_core.unit_ids(store_of(piece), "turn"))
    owned = owners(piece).select("trace", "seq", agent=pl.col("owner").cast(pl.String))
    sent = piece.edges.group_by("trace", seq="src").agg(sent=pl.len())
    received = piece.edges.group_by("trace", seq="dst").agg(received=pl.len())
    arguments = pl.coalesce("args_hash", "content_ref")
    text = pl.coalesce("content_hash", "content_ref")
    events = (
        piece.events.select(
            *("trace", "seq", "t", "tokens", "ok", pl.col("id", "type", "tool").cast(pl.String)),
            number=pl.col("turn").cast(pl.Int64),
            key=pl.when(pl.col("type").cast(pl.String) == "tool_call").then(arguments).otherwise(text),
        )
        .join(units.lazy(), on=["trace", "seq"])
        .join(owned.lazy(), on=["trace", "seq"])
        .filter(pl.col("unit_id").is_not_null())
        .join(sent, on=["trace", "seq"], how="left")
        .join(received, on=["trace", "seq"], how="left")
        .sort("trace", "t", "seq")
        .collect()
    )
    return events.select(pl.col(name).cast(kind) for name, kind in _EVENTS.schema.items())


def _with_features(events: pl.DataFrame) -> pl.DataFrame:
    """``trace unit_id agent seq`` and features of the turns in which somebody acts, in canonical order."""
    kind = pl.col("type")
    turns = events.group_by("trace", "unit_id", maintain_order=True).agg(
        pl.col("agent", "seq").first(), acts=(kind != "tool_result").any()
    )
    # nobody acts in a turn that only holds what a tool answered: never blamed, it would flatter every score
    turns = turns.filter("acts").drop("acts")
    seen = pl.col("key").is_not_null() & ~pl.struct("trace", "type", "tool", "key").is_first_distinct()
    new_tool = pl.col("tool").is_not_null() & pl.struct("trace", "tool").is_first_distinct()
    of_turn = (
        events.with_columns(seen=seen, new_tool=new_tool)
        .group_by("trace", "unit_id")
        .agg(
            events=pl.len().cast(pl.Float64).log1p(),
            tokens=pl.col("tokens").sum().clip(0).cast(pl.Float64).log1p(),
            calls=(kind == "tool_call").any(),
            spawns=(kind == "spawn").any(),
            returns=(kind == "return").any(),
            decisions=(kind == "orchestrator_decision").any(),
            messages=(kind == "message").any(),
            failed=(~pl.col("ok")).fill_null(value=False).any(),
            repeated=pl.col("seen").any(),
            new_tool=pl.col("new_tool").any(),
            sent=pl.col("sent").sum().cast(pl.Float64).log1p(),
            received=pl.col("received").sum().cast(pl.Float64).log1p(),
        )
    )
    n = pl.len().over("trace").cast(pl.Float64)
    index = pl.int_range(pl.len()).over("trace").cast(pl.Float64)
    speaks = pl.struct("trace", "agent").is_first_distinct()
    table = turns.join(of_turn, on=["trace", "unit_id"], how="left", maintain_order="left").with_columns(
        place=index / (n - 1.0).clip(1.0),
        left=(n - 1.0 - index).log1p(),
        first=index == 0.0,
        last=index == n - 1.0,
        middle=(index / (n - 1.0).clip(1.0) - 0.5).abs(),
        log_index=index.log1p(),
        early=1.0 / (index + 1.0),
        share=pl.len().over("trace", "agent") / n,
        new_speaker=speaks,
        same_speaker=(pl.col("agent") == pl.col("agent").shift()).over("trace"),
        speakers=speaks.cast(pl.Float64).cum_sum().over("trace").log1p(),
        after_failure=pl.col("failed").shift().over("trace"),
    )
    return table.with_columns(pl.col(*POSITION, *STRUCTURE).cast(pl.Float64).fill_null(0.0))


def _labels(corpus: Corpus, ids: pl.DataFrame) -> pl.DataFrame:
    """A row per label: ``trace event_id named number`` (agent and turn), ``by_id``: it names its event."""
    explicit = corpus.labels.select(by_id=pl.col("event_id").is_not_null()).collect()
    labels = place_labels(corpus).with_columns(pl.col("trace_id", "event_id", "agent").cast(pl.String))
    return (
        labels.with_columns(explicit)
        .join(ids.select("trace", pl.col("trace_id").cast(pl.String)), on="trace_id")
        .select("trace", "event_id", "by_id", named="agent", number=pl.col("turn").cast(pl.Int64))
    )


def _placed(labels: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """A row per label: ``trace unit_id named_agent``, null where it names no turn, or no agent.

    A label that names its event is of that event's turn. One that names a turn and somebody is of the turn of
    this agent, and of none where it is nobody's whom the run has as an agent.
    """
    of_event = events.unique(["trace", "id"], keep="first", maintain_order=True)
    named = labels.join(
        of_event.select("trace", event_id="id", by_event="unit_id", event_agent="agent"),
        on=["trace", "event_id"],
        how="left",
    )
    of_turn = events.drop_nulls("number").unique(
        ["trace", "agent", "number"], keep="first", maintain_order=True
    )
    by_both = of_turn.select("trace", "number", named="agent", by_both="unit_id")
    named = named.join(by_both, on=["trace", "number", "named"], how="left")
    is_theirs = pl.col("by_id") | pl.col("named").is_null() | (pl.col("event_agent") == pl.col("named"))
    return named.select(
        "trace",
        unit_id=pl.coalesce(pl.when(is_theirs).then("by_event"), "by_both"),
        named_agent=pl.when("by_id")
        .then(pl.coalesce("event_agent", "named"))
        .otherwise(pl.coalesce("named", "event_agent")),
    ).unique(maintain_order=True)
