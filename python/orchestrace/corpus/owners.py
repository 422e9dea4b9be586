"""Owners of events as a frame (docs/reference/definitions.md, D4)."""

import polars as pl

from .. import _core
from .corpus import Corpus


def owners(corpus: Corpus) -> pl.DataFrame:
    """List the owner of every event and what is known about it.

    Parameters
    ----------
    corpus
        A corpus in memory.

    Returns
    -------
    DataFrame
        One row per event, in the order of `Corpus.events`: ``trace seq owner role depth``; the last three are
        null where nobody owns the event.

    Notes
    -----
    O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.owners import owners
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> owners(corpus).columns
    ['trace', 'seq', 'owner', 'role', 'depth']
    """
    owned = pl.DataFrame(_core.ownership(corpus._store)).select("trace", "seq", "owner", "role")
    depths = corpus.agents.select("trace", "depth", owner="agent").collect()
    return owned.join(depths, on=["trace", "owner"], how="left", maintain_order="left")
