"""How the rows of a trainer's batch lie: which rollout each is of, and which turn each token is of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from .batch import Batch, OutcomeOf, RewardsOf, TurnsOf

Places = NDArray[np.int64]


class Rollouts:
    """Which rollout each row is of, in numbers from 0 on as they come, and what each rollout earned."""

    def __init__(self, batch: Batch, outcome: OutcomeOf) -> None:
        self.mask = np.asarray(batch.mask) > 0
        if self.mask.ndim != 2 or np.shape(batch.rewards) != self.mask.shape:
            raise ParameterError(
                f"rewards has shape {np.shape(batch.rewards)}, mask {self.mask.shape}: "
                "expected (rows, tokens) of both"
            )
        n = len(self.mask)
        for name in ("groups", "rollouts", "order", "agents", "trainable"):
            if (value := getattr(batch, name)) is not None and len(value) != n:
                raise ParameterError(f"{name} has {len(value):,} values, expected one for each of {n:,} rows")
        for name in ("order", "trainable"):
            if (value := getattr(batch, name)) is not None and (unknown := _unknown(value)) is not None:
                raise ParameterError(f"{name} has no value in row {unknown}: expected one of each row")
        self.of_row: Places = np.arange(n)
        self.by_time = self.last_row = self.of_row
        self.names = pl.Series(self.of_row)
        self.groups = _labels("groups", batch.groups)
        if batch.rollouts is not None:
            self.names = _labels("rollouts", batch.rollouts)
            self.of_row = _codes(self.names)
            # Both sorts leave rows of one time as they stand.
            if batch.order is None:
                self.by_time = np.argsort(self.of_row, kind="stable")
            else:
                self.by_time = np.lexsort((np.asarray(batch.order, dtype=float), self.of_row))
            counts = np.bincount(self.of_row)
            self.last_row = self.by_time[np.cumsum(counts) - 1]
            if (self.groups != self.groups[self.last_row[self.of_row]]).any():
                raise ParameterError(
                    "groups differs within a rollout: the rows of a rollout are of one group"
                )
        # No copy of all tokens in 64 bits.
        of_row = np.einsum("ij->i", np.asarray(batch.rewards), dtype=float, casting="unsafe")
        self.total: NDArray[np.float64] = of_row[self.last_row]
        if outcome == "sum":
            self.total = np.bincount(self.of_row, of_row).astype(float)


class Layout:
    """Which turn each token is of. A row without trained tokens is one turn of no tokens."""

    def __init__(self, rollouts: Rollouts, turns: TurnsOf) -> None:
        self.rollouts, self.mask = rollouts, rollouts.mask
        n = len(self.mask)
        begins = self.mask.copy()
        if turns == "mask":
            begins[:, 1:] &= ~self.mask[:, :-1]
            counts = np.maximum(begins.sum(axis=1), 1)
        else:
            begins[:] = False
            counts = np.ones(n, np.int64)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        self.turn_of_token: Places = firsts[:-1, None] + np.maximum(begins.cumsum(axis=1) - 1, 0)
        self.rows: Places = np.repeat(np.arange(n), counts)
        self._turns = int(firsts[-1])

    def corpus(self, batch: Batch, rewards: RewardsOf) -> Corpus:
        """A trace for each rollout, an event for each turn."""
        rollouts, n = self.rollouts, len(self.mask)
        place_of_row = np.empty(n, np.int64)
        place_of_row[rollouts.by_time] = np.arange(n)
        self._order = np.argsort(place_of_row[self.rows], kind="stable")
        trace = rollouts.of_row[self.rows][self._order]
        self._firsts = np.searchsorted(trace, np.arange(trace[-1] + 2 if trace.size else 1))
        seq = np.arange(trace.size) - self._firsts[trace]
        total = rollouts.total
        events = {
            "trace": trace.astype(np.uint32),
            "id": pl.Series(seq).cast(pl.String),
            "t": seq.astype(float),
            "type": pl.repeat("message", trace.size, eager=True),
            "agent": self._agents(batch)[self._order],
            "turn": seq.astype(np.uint32),
            "tokens_out": np.bincount(self.turn_of_token[self.mask], minlength=self._turns)[self._order],
        }
        if rewards == "turn":
            earned = np.asarray(batch.rewards, dtype=float)
            of_turn = np.bincount(self.turn_of_token.ravel(), earned.ravel(), minlength=self._turns)
            events["reward"] = of_turn[self._order]
            total = np.zeros_like(total)
        if batch.trainable is not None:
            events["trainable"] = np.asarray(batch.trainable, dtype=bool)[self.rows][self._order]
        return _corpus(rollouts, pl.DataFrame(events), total)

    def place(self, table: pl.DataFrame) -> Places:
        """The turn of each row of a table of credits."""
        place: Places = self._order[self._firsts[table["trace"].to_numpy()] + table["seq"].to_numpy()]
        return place

    def _agents(self, batch: Batch) -> pl.Series:
        """Who acted in each turn, in the order of rows."""
        if batch.agents is None:
            if batch.trainable is None:
                return pl.repeat("policy", self._turns, eager=True)
            # whether an agent is trained is one answer: those that are not are another agent
            policies = ["policy" if is_trained else "frozen" for is_trained in batch.trainable]
            return _texts("agents", policies)[self.rows]
        if all(isinstance(agent, str) for agent in batch.agents):
            return _texts("agents", batch.agents)[self.rows]
        names: list[object] = []
        for row, (agent, turns) in enumerate(zip(batch.agents, np.bincount(self.rows), strict=True)):
            named = list(agent) if isinstance(agent, list | tuple) else [agent]
            if not self.mask[row].any():
                named = named[:1] or ["policy"]  # nothing is trained: one turn, of whoever began the row
            elif len(named) != turns:
                raise ParameterError(f"agents names {len(named)} turns of row {row}, its mask has {turns}")
            names += named
        return _texts("agents", names)


def of_whole_rollouts(rollouts: Rollouts) -> Corpus:
    """A trace for each rollout, and one event in each, which has written all that is trained of it: for
    methods that know nothing of turns.
    """
    n = len(rollouts.last_row)
    tokens = np.bincount(rollouts.of_row, rollouts.mask.sum(axis=1), minlength=n).astype(np.int64)
    events = {
        "trace": np.arange(n, dtype=np.uint32),
        "id": pl.repeat("0", n, eager=True),
        "t": np.zeros(n),
        "type": pl.repeat("message", n, eager=True),
        "agent": pl.repeat("policy", n, eager=True),
        "tokens_out": tokens,
    }
    return _corpus(rollouts, pl.DataFrame(events), rollouts.total)


def _corpus(rollouts: Rollouts, events: pl.DataFrame, total: NDArray[np.float64]) -> Corpus:
    """Events of rollouts that earned so much, NaN where nobody knows."""
    traces = {
        "trace": np.arange(len(rollouts.last_row), dtype=np.uint32),
        "trace_id": rollouts.names[rollouts.last_row].cast(pl.String),
        "task_id": rollouts.groups[rollouts.last_row].cast(pl.String),
    }
    judged = np.flatnonzero(np.isfinite(total))
    measures = pl.DataFrame({"trace": judged.astype(np.uint32), "value": total[judged]})
    return Corpus.from_arrow(
        traces=pl.DataFrame(traces),
        events=events,
        measures=measures.with_columns(kind=pl.lit("reward"), name=pl.lit("team")),
    )


def _labels(name: str, values: Sequence[object] | NDArray[Any]) -> pl.Series:
    """What tells rows apart: whole numbers as they are, anything else as texts."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return pl.Series(values)
    return _texts(name, values)


def _texts(name: str, values: Sequence[object] | NDArray[Any]) -> pl.Series:
    """Names, one for each row."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        names = pl.Series(listed, dtype=pl.String)
    except TypeError:  # names that are no texts
        names = pl.Series([None if value is None else str(value) for value in listed], dtype=pl.String)
    if names.null_count():
        raise ParameterError(
            f"{name} has no value in row {names.is_null().arg_max()}: expected one of each row"
        )
    return names


def _unknown(values: Sequence[object] | NDArray[Any]) -> int | None:
    """The first place without a number or a flag."""
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    is_absent = pl.Series(listed, strict=False).cast(pl.Float64).fill_nan(None).is_null()
    return is_absent.arg_max() if is_absent.any() else None


def _codes(names: pl.Series) -> Places:
    """Codes of equal names from 0 on, in the order in which they come."""
    if names.dtype.is_integer():
        _, first, code = np.unique(names.to_numpy(), return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[code]
    distinct = names.unique(maintain_order=True)
    codes = names.replace_strict(distinct, np.arange(len(distinct)), return_dtype=pl.Int64).to_numpy()
    return codes.astype(np.int64)
