"""What each agent of a run did, as a sequence of steps whose keys runs share."""

from typing import Final, Literal

import polars as pl

from .. import _core
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of

Key = Literal["shape", "exact"]
"""What two equal steps have in common: ``shape``, or also their texts and what their agent got before."""

MOST_UNKNOWN: Final = 0.2
"""The share of steps without an exact key beyond which runs are not compared by it."""

LABEL: Final = pl.coalesce(pl.col("role").cast(pl.String), pl.col("owner").cast(pl.String))
"""An agent's role, else its name: agents of one role are alike, whatever they are called."""


def lane_steps(
    piece: Corpus, key: Key, *, root_only: bool = False, threads: int | None = None
) -> pl.DataFrame:
    """The steps of every run of a corpus in memory, in canonical order (docs/reference/definitions.md, D35).

    Returns
    -------
    DataFrame
        A row per step: ``trace seq`` (UInt32), ``owner role`` (Categorical), ``ordinal`` (UInt32: of the
        agent among those of its label, by their first steps), ``is_root`` (Boolean), ``place`` (UInt32: in
        the agent's lane, from 0), ``type`` (Enum), ``tool`` (Categorical), ``key`` and ``prefix`` (UInt64: of
        the step, and of the lane up to it; the key is null where the text of the step, or one that its agent
        got, has no hash).

    Notes
    -----
    O(events log events) in the core. Keys are hashes of words, the same in every corpus.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.evaluation.lanes import lane_steps
    >>> lane_steps(ot.generate(traces=2, seed=0), "shape").columns[:6]
    ['trace', 'seq', 'owner', 'role', 'ordinal', 'is_root']
    """
    return pl.DataFrame(_core.lane_steps(store_of(piece), key=key, root_only=root_only, threads=threads))


def unknown_share(steps: pl.DataFrame, by: str) -> pl.DataFrame:
    """The share of steps without a key, of each value of a column: ``by unknown``."""
    return steps.group_by(by).agg(unknown=pl.col("key").null_count() / pl.len())
