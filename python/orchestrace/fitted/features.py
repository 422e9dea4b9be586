"""What the regressions see of an event: counts and sums that add up over a prefix, or over an agent.

Every column is known at the event itself, nothing is read from later ones, so that a sum over the first t
events is a feature of that prefix. Absent fields count as zero: a model that needs to know the difference
finds it in the count of those that are there (``scored``).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..corpus import Corpus
from ..owners import owners
from ..schema import SCHEMAS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEPT: Final = 12
"""Names of roles, tools and actions with a column of their own, the most frequent first; the others share
one.
"""

_OPEN: Final = ("role", "tool", "action")
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
            .head(KEPT)
            for column in _OPEN
        ]
        frames = pl.collect_all(plans, engine="streaming")
        return cls({column: tuple(frame[column]) for column, frame in zip(_OPEN, frames, strict=True)})

    def columns(self, column: str) -> list[str]:
        """Names of the features that a column of names becomes."""
        return [f"{column}={name}" for name in self.names[column]] + [f"{column}=*"]


@dataclass(frozen=True)
class EventTable:
    """The events of a corpus in memory, in canonical order within each trace.

    ``row`` is the place of each event in `Corpus.events`, ``trace`` its trace as a place in the table of
    traces, ``owner`` a number for (trace, owner), ascending with the trace, -1 for nobody. ``counts`` holds
    whole numbers, one column per name in ``names``.
    """

    row: Ints
    trace: Ints
    starts: Ints
    owner: Ints
    depth: Floats
    role: Ints
    names: list[str]
    counts: Floats
    score: Floats
    reward: Floats

    @property
    def n_traces(self) -> int:
        """Traces, those without events included."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ints:
        """Events of every trace."""
        return np.diff(self.starts)


def event_table(corpus: Corpus, vocabulary: Vocabulary) -> EventTable:
    """What is counted of every event. O(events · columns), plus sorting."""
    wanted = ("trace", "seq", "t", "type", "tool", "action", "ok", "corrupted", "score", "reward")
    tokens = pl.coalesce(
        "tokens",
        pl.when(pl.any_horizontal(pl.col("tokens_in", "tokens_out").is_not_null())).then(
            pl.col("tokens_in").fill_null(0) + pl.col("tokens_out").fill_null(0)
        ),
    ).fill_null(0)
    events = corpus.events.select(*wanted, tokens=tokens).with_row_index("row").collect()
    events = (
        events.hstack(owners(corpus).select("owner", "role", "depth"))
        .sort("trace", "t", "seq")
        .with_columns(pair=pl.struct("trace", "owner").rank("dense"))
    )
    numbers = corpus.traces.select("trace").collect()["trace"].to_numpy()
    starts = np.searchsorted(events["trace"].to_numpy(), numbers).astype(np.int64)
    starts = np.append(starts, events.height)
    blocks = [_one_hot(events["type"].to_physical().to_numpy(), len(_EVENT_TYPES))]
    names = [f"type={kind}" for kind in _EVENT_TYPES]
    codes = {column: _codes(events[column], vocabulary.names[column]) for column in _OPEN}
    for column in _OPEN:
        names += vocabulary.columns(column)
        blocks.append(_one_hot(codes[column], len(vocabulary.names[column]) + 1))
    flags = {
        "ok": pl.col("ok"),
        "failed": ~pl.col("ok"),
        "corrupted": pl.col("corrupted"),
        "scored": pl.col("score").is_not_null(),
        "tokens": pl.col("tokens"),
    }
    names += flags
    blocks.append(
        events.select(
            expression.cast(pl.Float64).fill_null(0.0).alias(name) for name, expression in flags.items()
        )
        .to_numpy()
        .reshape(events.height, len(flags))
    )
    return EventTable(
        row=events["row"].cast(pl.Int64).to_numpy(),
        trace=np.repeat(np.arange(len(numbers)), np.diff(starts)),
        starts=starts,
        owner=_numbered(events["pair"].to_numpy(), events["owner"].is_not_null().to_numpy()),
        depth=events["depth"].cast(pl.Float64).fill_null(0.0).to_numpy(),
        role=codes["role"],
        names=names,
        counts=np.concatenate(blocks, axis=1),
        score=events["score"].fill_null(0.0).to_numpy(),
        reward=events["reward"].fill_null(0.0).to_numpy(),
    )


def prefixes(table: EventTable) -> tuple[list[str], Floats]:
    """Features of the prefix that ends with each event: names, and (events, columns).

    Sums of the counts; agents so far, deepest agent so far, mean and latest of the field `score`, sum of the
    field `reward`. Those of the empty prefix are all zero.
    """
    counts = np.cumsum(table.counts, axis=0)  # whole numbers below 2^53: exact, whatever came before
    before = np.concatenate([np.zeros((1, counts.shape[1])), counts])[table.starts[:-1]]
    counts -= before[table.trace]
    frame = pl.DataFrame(
        {
            "trace": table.trace,
            "owner": table.owner,
            "depth": table.depth,
            "score": table.score,
            "reward": table.reward,
            "scored": counts[:, table.names.index("scored")],
            "is_scored": table.counts[:, table.names.index("scored")] > 0,
        }
    )
    first = pl.col("owner").is_first_distinct() & (pl.col("owner") >= 0)
    own = frame.with_columns(first.cast(pl.Float64).alias("first")).select(
        agents=pl.col("first").cum_sum().over("trace"),
        depth=pl.col("depth").cum_max().over("trace"),
        score_mean=(pl.col("score").cum_sum().over("trace") / pl.col("scored")).fill_nan(0.0),
        score_last=pl.when("is_scored").then("score").forward_fill().over("trace").fill_null(0.0),
        reward=pl.col("reward").cum_sum().over("trace"),
    )
    return [*table.names, *own.columns], np.concatenate([counts, _matrix(own)], axis=1)


@dataclass(frozen=True)
class AgentTable:
    """One row per agent of a trace: its features, its trace (a place), its role (a column of the
    vocabulary, the last one for others), how many events it owns; ``of_event`` is its row for each event
    of the table, or -1.
    """

    names: list[str]
    features: Floats
    trace: Ints
    role: Ints
    n_events: Ints
    of_event: Ints


def agents(table: EventTable, vocabulary: Vocabulary) -> AgentTable:
    """Features of every agent: sums of the counts over its events, 1, role, depth, mean score, sum of reward.

    The count of events by role is left out: it is the number of events, once more, in another column.
    """
    n = int(table.owner.max(initial=-1)) + 1
    owned = np.flatnonzero(table.owner >= 0)
    # In order of the agent, canonical within: sums do not depend on who acts in between.
    owned = owned[np.argsort(table.owner[owned], kind="stable")]
    owner = table.owner[owned]
    first = np.searchsorted(owner, np.arange(n))
    kept = [i for i, name in enumerate(table.names) if not name.startswith("role=")]
    own = np.stack([table.score[owned], table.reward[owned]], axis=1)
    values = np.concatenate([table.counts[owned][:, kept], own], axis=1)
    sums = np.add.reduceat(values, first, axis=0) if n else np.zeros((0, values.shape[1]))
    names = [table.names[i] for i in kept]
    scored = sums[:, names.index("scored")]
    sums[:, len(kept)] = np.divide(sums[:, len(kept)], scored, out=np.zeros(n), where=scored > 0)
    role = table.role[owned][first]
    roles = len(vocabulary.names["role"])
    extra = np.stack([np.ones(n), table.depth[owned][first]], axis=1)
    return AgentTable(
        names=[*names, "score_mean", "reward", *vocabulary.columns("role"), "agent", "depth"],
        features=np.concatenate([sums, _one_hot(role, roles + 1), extra], axis=1),
        trace=table.trace[owned][first],
        role=np.where(role < 0, roles, role),
        n_events=np.bincount(owner, minlength=n),
        of_event=table.owner,
    )


def _numbered(pairs: NDArray[np.integer], owned: NDArray[np.bool_]) -> Ints:
    """Pairs from 0 on without a gap; -1 where nobody owns."""
    out = np.full(len(pairs), -1, dtype=np.int64)
    out[owned] = np.unique(pairs[owned], return_inverse=True)[1]
    return out


def _codes(column: pl.Series, known: tuple[str, ...]) -> Ints:
    """Places in `known`; one beyond it for other names, -1 for null."""
    codes = pl.DataFrame({"name": list(known)}, schema={"name": pl.String}).with_row_index("code")
    found = column.cast(pl.String).to_frame("name").join(codes, on="name", how="left", maintain_order="left")
    other = pl.when(pl.col("name").is_null()).then(-1).otherwise(len(known))
    return found.select(code=pl.coalesce(pl.col("code").cast(pl.Int64), other))["code"].to_numpy()


def _one_hot(codes: NDArray[np.integer], n: int) -> Floats:
    """(rows, n); a row of zeros for a negative code."""
    out = np.zeros((len(codes), n))
    rows = np.flatnonzero(codes >= 0)
    out[rows, codes[rows]] = 1.0
    return out


def _matrix(frame: pl.DataFrame) -> Floats:
    return np.stack([frame[name].to_numpy() for name in frame.columns], axis=1)
