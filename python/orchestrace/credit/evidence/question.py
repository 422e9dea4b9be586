"""A question about one credit: its trace, those it is compared with, and the method's own rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from ... import _core
from ...corpus.corpus import Corpus
from ...corpus.parts import store_of
from ...corpus.reward import Reward
from ...corpus.units import TraceEvents
from .policy import POLICY, PolicyRows

#: Columns of parts: ``seq`` names an event of the trace, ``other`` what else a finding is about.
SCHEMA: Final[dict[str, Any]] = {
    "part": pl.UInt32,
    "kind": pl.String,
    "seq": pl.UInt32,
    "other": pl.String,
    "weight": pl.Float64,
    "amount": pl.Float64,
    "rule": pl.String,
}


@dataclass(frozen=True)
class Part:
    """A row of the method that the credit is made of."""

    seq: int
    other: str | None
    weight: float
    amount: float


@dataclass(frozen=True)
class Question:
    """The trace that is asked about, the traces that it was compared with, and the method that ran."""

    method: str
    params: dict[str, Any]
    reward: Reward
    number: int
    trace: TraceEvents
    around: Corpus
    values: list[float | None]
    fit: dict[str, Any]
    summary: str

    @cached_property
    def of_core(self) -> bool:
        """Whether the core knows the method."""
        return self.method in {str(method["name"]) for method in _core.methods()}

    @cached_property
    def piece(self) -> Corpus:
        """The piece of the corpus that has the trace, in memory."""
        here = pl.col("trace") == self.number
        pieces = (load() for _, load in self.around.pieces())
        return next(piece for piece in pieces if piece.traces.filter(here).collect().height)

    @property
    def core_arguments(self) -> dict[str, Any]:
        """The question as the core takes it."""
        return {
            "method": self.method,
            "trace": self.number,
            "reward": {self.reward: 1.0} if isinstance(self.reward, str) else dict(self.reward),
            "params": self.params,
            "elsewhere": self.piece.reward_channels(),
        }

    @cached_property
    def policy(self) -> PolicyRows:
        """Decisions of the group, for methods that weigh alternatives by the policy's probabilities."""
        return PolicyRows(self.piece, self.reward, self.method, self.params)

    @cached_property
    def own_rows(self) -> list[tuple[int | None, str | None]]:
        """The row of the method that each event is in, if any, and its name, unless it is an event."""
        if self.of_core:
            rows = pl.DataFrame(_core.own_rows(store_of(self.piece), **self.core_arguments))
            return list(rows.select("row", "label").iter_rows())
        decided = self.policy.seqs(self.number) if self.method in POLICY else range(len(self.trace))
        return [(seq if seq in decided else None, None) for seq in range(len(self.trace))]

    def terms(self, parts: list[Part]) -> pl.DataFrame:
        """The terms of the amounts of parts, as the core reports them."""
        return pl.DataFrame(
            _core.terms(store_of(self.piece), [part.seq for part in parts], **self.core_arguments)
        )

    def names(self, seqs: pl.Series) -> Iterator[str | None]:
        """Ids of events of the trace."""
        return (None if seq is None else self.trace.text("id", seq) for seq in seqs)
