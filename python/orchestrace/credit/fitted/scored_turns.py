"""Turns and the scores of the states after them: what each turn changed, and what follows it."""

import itertools

import numpy as np
import polars as pl

from ... import _core
from ...base.arrays import Floats, Ints
from ...corpus.corpus import Corpus
from ...corpus.owners import owners
from ...corpus.parts import store_of


def scored_turns(corpus: Corpus, score: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``trace unit`` of every event, and ``trace unit owner place score weight`` of every turn."""
    units = pl.DataFrame(_core.unit_ids(store_of(corpus), "turn"))
    recorded = corpus.events.select("t", "tokens_out", score=score).collect()
    events = units.select("trace", "seq", unit=pl.col("unit_id").cast(pl.String)).hstack(recorded)
    events = events.with_columns(owner=owners(corpus)["owner"].cast(pl.String))
    ordered = events.sort("trace", "t", "seq").with_row_index("place").drop_nulls("unit")
    turns = ordered.group_by("trace", "unit", maintain_order=True).agg(
        pl.col("owner", "place").first(),
        pl.col("score").drop_nulls().last(),
        tokens=pl.col("tokens_out").clip(0).cast(pl.Float64).sum(),
    )
    is_weighed = (pl.col("tokens") > 0.0).all().over("trace")
    turns = turns.with_columns(weight=pl.when(is_weighed).then("tokens").otherwise(1.0)).drop("tokens")
    return events.select("trace", "unit"), turns


def progress_of(score: Floats, chain: Ints) -> Floats:
    """What each turn changed: its score less the last one before it in its chain, 0 without either.

    Parameters
    ----------
    score
        Of each turn, NaN without one, (turns,) float64; turns of a chain stand side by side, in order.
    chain
        Number of the chain of each turn, (turns,) int64.

    Returns
    -------
    ndarray
        (turns,) float64. Over a chain it adds up to the last score less the first. O(turns).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.credit.fitted.scored_turns import progress_of
    >>> progress_of(np.array([0.25, np.nan, 1.0, 0.5]), np.zeros(4, np.int64)).tolist()
    [0.0, 0.0, 0.75, -0.5]
    """
    progress = np.zeros(len(score))
    scored = np.flatnonzero(~np.isnan(score))
    change = np.diff(score[scored])
    progress[scored[1:]] = np.where(np.diff(chain[scored]) == 0, change, 0.0)
    return progress


def to_go(values: Floats, chain: Ints, gamma: float) -> Floats:
    """The sum of a value and of those after it in its chain, each by gamma^distance.

    Parameters
    ----------
    values
        (rows,) float64; rows of a chain stand side by side, in order.
    chain
        Number of the chain of each row, (rows,) int64.
    gamma
        0 leaves each row its own.

    Returns
    -------
    ndarray
        (rows,) float64. O(rows), a step for each place in the longest chain.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.credit.fitted.scored_turns import to_go
    >>> to_go(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), 0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    length = np.diff(np.flatnonzero(np.diff(chain, prepend=chain[:1] - 1)), append=len(chain))
    to_the_end = np.repeat(length, length) - places(chain) - 1
    order = np.argsort(to_the_end, kind="stable")
    sums = values.astype(np.float64)
    for begin, end in itertools.pairwise(np.cumsum(np.bincount(to_the_end))):
        rows = order[begin:end]
        sums[rows] += gamma * sums[rows + 1]
    return sums


def places(chain: Ints) -> Ints:
    """The place of each row in its chain, from 0 on.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.credit.fitted.scored_turns import places
    >>> places(np.array([4, 4, 7])).tolist()
    [0, 1, 0]
    """
    first = np.flatnonzero(np.diff(chain, prepend=chain[:1] - 1))
    length = np.diff(first, append=len(chain))
    of_rows: Ints = np.arange(len(chain)) - np.repeat(first, length)
    return of_rows
