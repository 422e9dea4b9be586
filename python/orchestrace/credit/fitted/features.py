"""Features of events for regressions: counts and sums that add up over a prefix, or over an agent.

Every column is known at the event itself, nothing is read from later ones, so that a sum over the first t
events is a feature of that prefix. Absent fields count as zero: a model that needs to know the difference
finds it in the count of those that are there (``scored``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...base.arrays import Floats, Ints
from ...base.errors import ParameterError
from ...base.schema import SCHEMAS
from ...corpus.corpus import Corpus
from ...corpus.owners import owners

MOST_NAMES: Final = 12
"""Names of roles, tools and actions with a column of their own, the most frequent first; the others share
one.
"""

_LARGEST: Final = 1e30  # the squares of sums, and sums in single precision, are numbers
_OPEN: Final = ("role", "tool", "action")
_FLAGS: Final = ("ok", "failed", "corrupted", "scored", "tokens")
_BLOCK: Final = 1 << 17  # events whose counts are held at once
_EVENT_TYPES: Final = tuple(getattr(SCHEMAS["events"]["type"], "categories", ()))


@dataclass(frozen=True)
class Vocabulary:
    """Names with a column of their own: of roles, tools and actions."""

    names: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, corpus: Corpus) -> "Vocabulary":
        """The most frequent names of a corpus, in memory or on disk; ties in order of the name."""
        counted = {"role": corpus.agents, "tool": corpus.events, "action": corpus.events}
        plans = [
            counted[column]
            .select(pl.col(column).cast(pl.String))
            .drop_nulls()
            .group_by(column)
            .len()
            .sort("len", column, descending=[True, False])
            .head(MOST_NAMES)
            for column in _OPEN
        ]
        frames = pl.collect_all(plans, engine="streaming")
        return cls({column: tuple(frame[column]) for column, frame in zip(_OPEN, frames, strict=True)})

    def columns(self, column: str) -> list[str]:
        """Names of the features that a column of names becomes."""
        return [f"{column}={name}" for name in self.names[column]] + [f"{column}=*"]


@dataclass(frozen=True)
class EventTable:
    """The events of some traces of a corpus in memory, in canonical order within each trace.

    ``row`` is the place of each event in `Corpus.events`; ``first`` the place of the first trace in the
    table of traces, ``trace`` that of each event, from there; ``owner`` a number for (trace, owner),
    ascending with the trace, -1 for nobody. ``codes`` are places in the vocabulary, -1 for null; ``flags``
    holds whole numbers.
    """

    vocabulary: Vocabulary
    first: int
    row: Ints
    trace: Ints
    starts: Ints
    owner: Ints
    depth: Floats
    codes: dict[str, Ints]
    flags: Floats
    score: Floats
    reward: Floats

    @property
    def lengths(self) -> Ints:
        """Events of every trace, those without events included."""
        return np.diff(self.starts)

    @property
    def here(self) -> slice:
        """These traces in the table of traces."""
        return slice(self.first, self.first + len(self.starts) - 1)

    @property
    def names(self) -> list[str]:
        """Names of the counts."""
        words = (name for column in _OPEN for name in self.vocabulary.columns(column))
        return [*(f"type={kind}" for kind in _EVENT_TYPES), *words, *_FLAGS]

    def counts(self) -> Floats:
        """What adds up over events: whole numbers, (events, names)."""
        blocks = [_one_hot(self.codes["type"], len(_EVENT_TYPES))]
        blocks += [_one_hot(self.codes[name], len(self.vocabulary.names[name]) + 1) for name in _OPEN]
        return np.concatenate([*blocks, self.flags], axis=1)

    def blocks(self) -> Iterator["EventTable"]:
        """The same in pieces of whole traces, since a row of counts is ten times as wide as what it is
        made of.
        """
        first, n = 0, len(self.starts) - 1
        while first < n:
            beyond = int(np.searchsorted(self.starts, self.starts[first] + _BLOCK, side="right")) - 1
            last = min(max(beyond, first + 1), n)
            events = slice(self.starts[first], self.starts[last])
            owner = self.owner[events]
            owned = owner >= 0
            yield EventTable(
                vocabulary=self.vocabulary,
                first=self.first + first,
                row=self.row[events],
                trace=self.trace[events] - first,
                starts=self.starts[first : last + 1] - self.starts[first],
                owner=np.where(owned, owner - owner[owned].min(initial=np.iinfo(np.int64).max), -1),
                depth=self.depth[events],
                codes={name: codes[events] for name, codes in self.codes.items()},
                flags=self.flags[events],
                score=self.score[events],
                reward=self.reward[events],
            )
            first = last


def event_table(corpus: Corpus, vocabulary: Vocabulary) -> EventTable:
    """What is known of every event. O(events log events).

    Raises
    ------
    ParameterError
        A score or reward of an event is too large for sums of squares.
    """
    wanted = ("trace", "seq", "t", "type", "tool", "action", "ok", "corrupted", "score", "reward")
    events = (
        corpus.events.select(*wanted, tokens=pl.col("tokens").fill_null(0))
        .with_row_index("row")
        .collect()
        .hstack(owners(corpus).select("owner", "role", "depth"))
        .sort("trace", "t", "seq")
        .with_columns(pair=pl.struct("trace", "owner").rank("dense"))
    )
    for name in ("score", "reward"):
        huge = events.filter(pl.col(name).abs() > _LARGEST)
        if huge.height:
            raise ParameterError(
                f"the {name} of event {huge['seq'][0]} of trace {huge['trace'][0]} is {huge[name][0]:.3g},"
                f" too large for sums of squares: expected at most {_LARGEST:.0e} in size"
            )
    numbers = corpus.traces.select("trace").collect()["trace"].to_numpy()
    starts = np.searchsorted(events["trace"].to_numpy(), numbers).astype(np.int64)
    starts = np.append(starts, events.height)
    flags = {
        "ok": pl.col("ok"),
        "failed": ~pl.col("ok"),
        "corrupted": pl.col("corrupted"),
        "scored": pl.col("score").is_not_null(),
        "tokens": pl.col("tokens"),
    }
    counted = events.select(flags[name].cast(pl.Float64).fill_null(0.0).alias(name) for name in _FLAGS)
    return EventTable(
        vocabulary=vocabulary,
        first=0,
        row=events["row"].cast(pl.Int64).to_numpy(),
        trace=np.repeat(np.arange(len(numbers)), np.diff(starts)),
        starts=starts,
        owner=_numbered(events["pair"].to_numpy(), events["owner"].is_not_null().to_numpy()),
        depth=events["depth"].cast(pl.Float64).fill_null(0.0).to_numpy(),
        codes={
            "type": events["type"].to_physical().cast(pl.Int64).to_numpy(),
            **{column: _codes(events[column], vocabulary.names[column]) for column in _OPEN},
        },
        flags=_matrix(counted),
        score=events["score"].fill_null(0.0).to_numpy(),
        reward=events["reward"].fill_null(0.0).to_numpy(),
    )


def prefixes(table: EventTable) -> Floats:
    """Features of the prefix that ends with each event, (events, columns).

    Sums of the counts; agents so far, deepest agent so far, mean and latest of the field `score`, sum of the
    field `reward`. Those of the empty prefix are all zero.
    """
    of_events = table.counts()
    scored = table.names.index("scored")
    counts = np.cumsum(of_events, axis=0)  # whole numbers below 2^53: exact, whatever came before
    before = np.concatenate([np.zeros((1, counts.shape[1])), counts])[table.starts[:-1]]
    counts -= before[table.trace]
    frame = pl.DataFrame(
        {
            "trace": table.trace,
            "owner": table.owner,
            "depth": table.depth,
            "score": table.score,
            "reward": table.reward,
            "scored": counts[:, scored],
            "is_scored": of_events[:, scored] > 0,
        }
    )
    first = pl.col("owner").is_first_distinct() & (pl.col("owner") >= 0)
    more = frame.with_columns(first.cast(pl.Float64).alias("first")).select(
        agents=pl.col("first").cum_sum().over("trace"),
        depth=pl.col("depth").cum_max().over("trace"),
        score_mean=(pl.col("score").cum_sum().over("trace") / pl.col("scored")).fill_nan(0.0),
        score_last=pl.when("is_scored").then("score").forward_fill().over("trace").fill_null(0.0),
        reward=pl.col("reward").cum_sum().over("trace"),
    )
    return np.concatenate([counts, _matrix(more)], axis=1)


@dataclass(frozen=True)
class AgentTable:
    """One row per agent of a trace: its features, its trace (a place), its role (a column of the
    vocabulary, the last one for others), how many events it owns; ``of_event`` is its row for each event
    of the table, or -1.
    """

    features: Floats
    trace: Ints
    role: Ints
    n_events: Ints
    of_event: Ints


def agents(table: EventTable) -> AgentTable:
    """Features of every agent: sums of the counts over its events, 1, role, depth, mean score, sum of reward.

    The count of events by role is left out: it is the number of events, once more, in another column.
    """
    n = int(table.owner.max(initial=-1)) + 1
    owned = np.flatnonzero(table.owner >= 0)
    # In order of the agent, canonical within: sums do not depend on who acts in between.
    owned = owned[np.argsort(table.owner[owned], kind="stable")]
    owner = table.owner[owned]
    first = np.searchsorted(owner, np.arange(n))
    counts, names = table.counts(), table.names
    columns = [i for i, name in enumerate(names) if not name.startswith("role=")]
    scores = np.stack([table.score[owned], table.reward[owned]], axis=1)
    values = np.concatenate([counts[owned][:, columns], scores], axis=1)
    sums = np.add.reduceat(values, first, axis=0) if n else np.zeros((0, values.shape[1]))
    scored = sums[:, columns.index(names.index("scored"))]
    sums[:, len(columns)] = np.divide(sums[:, len(columns)], scored, out=np.zeros(n), where=scored > 0)
    role = table.codes["role"][owned][first]
    roles = len(table.vocabulary.names["role"])
    extra = np.stack([np.ones(n), table.depth[owned][first]], axis=1)
    return AgentTable(
        features=np.concatenate([sums, _one_hot(role, roles + 1), extra], axis=1),
        trace=table.trace[owned][first],
        role=np.where(role < 0, roles, role),
        n_events=np.bincount(owner, minlength=n),
        of_event=table.owner,
    )


def _numbered(pairs: NDArray[np.integer], owned: NDArray[np.bool_]) -> Ints:
    """Pairs numbered from 0 without a gap; -1 for events without an owner."""
    out = np.full(len(pairs), -1, dtype=np.int64)
    out[owned] = np.unique(pairs[owned], return_inverse=True)[1]
    return out


def _codes(column: pl.Series, names: tuple[str, ...]) -> Ints:
    """Places in `names`; one beyond it for other names, -1 for null."""
    codes = pl.DataFrame({"name": list(names)}, schema={"name": pl.String}).with_row_index("code")
    coded = column.cast(pl.String).to_frame("name").join(codes, on="name", how="left", maintain_order="left")
    other = pl.when(pl.col("name").is_null()).then(-1).otherwise(len(names))
    return coded.select(code=pl.coalesce(pl.col("code").cast(pl.Int64), other))["code"].to_numpy()


def _one_hot(codes: NDArray[np.integer], n: int) -> Floats:
    """(rows, n); a row of zeros for a negative code."""
    out = np.zeros((len(codes), n))
    rows = np.flatnonzero(codes >= 0)
    out[rows, codes[rows]] = 1.0
    return out


def _matrix(frame: pl.DataFrame) -> Floats:
    return np.stack([frame[name].to_numpy() for name in frame.columns], axis=1)
