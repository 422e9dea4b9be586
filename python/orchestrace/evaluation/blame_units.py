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
    of these rows; here they are for a score of your own. O(events log events) in the core; one piece of a
    corpus on disk is in memory at a time.

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
    else:
        names = turns.select("trace", "turn", "unit_id")
        placed = placed.join(names, on=["trace", "turn"], how="left", maintain_order="left")
    candidates = turns.select("trace", "unit_id").with_columns(labeled=pl.lit(value=True))
    placed = placed.join(candidates, on=["trace", "unit_id"], how="left")
    counts = placed.group_by("trace").agg(
        n_labels=pl.len(), n_placed=pl.col("labeled").fill_null(value=False).sum()
    )
    marked = placed.filter(pl.col("labeled").fill_null(value=False))
    marked = marked.select("trace", "unit_id", "labeled").unique()
    # a run without candidates has a row, so that its labels count
    return (
        ids.join(turns.drop("turn"), on="trace", how="left", maintain_order="left_right")
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


_TURNS: Final = pl.Schema(
    {
        **{"trace": pl.UInt32(), "turn": pl.UInt32(), "unit_id": pl.String()},
        **{"agent": pl.String(), "seq": pl.Int64()},
    }
    | dict.fromkeys((*POSITION, *STRUCTURE), pl.Float64())
)
_PLACED: Final = pl.Schema({"trace": pl.UInt32(), "turn": pl.UInt32(), "named_agent": pl.String()})


def _by_piece(corpus: Corpus, labels: pl.DataFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Turns with their features, and the places of labels, of each piece of a corpus."""
    yield _TURNS.to_frame(), _PLACED.to_frame()
    for _, load in corpus.pieces():
        piece = load()
        turns = pl.DataFrame(_core.blame_candidates(store_of(piece))).cast(_TURNS)
        here = labels.join(piece.traces.select("trace").collect(), on="trace", how="semi")
        yield turns, _placed(here, piece) if here.height else _PLACED.to_frame()


def features(units: pl.DataFrame, names: tuple[str, ...]) -> Floats:
    """(units, names) float64 without nulls."""
    return units.select(pl.col(names).fill_null(0.0).fill_nan(0.0)).to_numpy().astype(np.float64)


def _events(piece: Corpus) -> pl.DataFrame:
    """The events that are of a turn: ``trace seq t id number``, ``agent`` and ``turn`` (the place, D6)."""
    # a row for each event, in the order of the events
    owned = pl.DataFrame(_core.ownership(store_of(piece)))
    events = piece.events.select("trace", "seq", "t", "id", number=pl.col("turn").cast(pl.Int64)).collect()
    events = events.with_columns(pl.col("id").cast(pl.String), owned["owner"].alias("agent"), owned["turn"])
    return events.filter(pl.col("turn").is_not_null()).with_columns(pl.col("agent").cast(pl.String))


def _labels(corpus: Corpus, ids: pl.DataFrame) -> pl.DataFrame:
    """A row per label: ``trace event_id named number`` (agent and turn), ``by_id``: it names its event."""
    explicit = corpus.labels.select(by_id=pl.col("event_id").is_not_null()).collect()
    labels = place_labels(corpus).with_columns(pl.col("trace_id", "event_id", "agent").cast(pl.String))
    return (
        labels.with_columns(explicit)
        .join(ids.select("trace", pl.col("trace_id").cast(pl.String)), on="trace_id")
        .select("trace", "event_id", "by_id", named="agent", number=pl.col("turn").cast(pl.Int64))
    )


def _placed(labels: pl.DataFrame, piece: Corpus) -> pl.DataFrame:
    """A row per label: ``trace turn named_agent``, null where it names no turn, or no agent.

    A label that names its event is of that event's turn. One that names a turn and somebody is of the turn of
    this agent, and of none where it is nobody's whom the run has as an agent.
    """
    events = _events(piece)
    of_event = _first(events, labels.select("trace", id="event_id"))
    of_turn = _first(events, labels.select("trace", "number", agent="named"))
    by_event = of_event.select("trace", event_id="id", by_event="turn", event_agent="agent")
    by_both = of_turn.select("trace", "number", named="agent", by_both="turn")
    named = labels.join(by_event, on=["trace", "event_id"], how="left", maintain_order="left")
    named = named.join(by_both, on=["trace", "number", "named"], how="left", maintain_order="left")
    is_theirs = pl.col("by_id") | pl.col("named").is_null() | (pl.col("event_agent") == pl.col("named"))
    return named.select(
        "trace",
        turn=pl.coalesce(pl.when(is_theirs).then("by_event"), "by_both"),
        named_agent=pl.when("by_id")
        .then(pl.coalesce("event_agent", "named"))
        .otherwise(pl.coalesce("named", "event_agent")),
    ).unique(maintain_order=True)


def _first(events: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """Of each key the first of its events in canonical order."""
    named = events.join(keys, on=keys.columns, how="semi").sort("trace", "t", "seq")
    return named.unique(keys.columns, keep="first", maintain_order=True)
