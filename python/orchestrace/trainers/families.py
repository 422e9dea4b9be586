"""Families of tasks, and the side of a split that each is on: no prompt is on both."""

from hashlib import blake2b

import numpy as np
import polars as pl
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..corpus.corpus import Corpus
from ..corpus.owners import owners
from .strategies import TEXT


def openings(corpus: Corpus) -> pl.DataFrame:
    """What each run was asked: ``trace opening prompt``.

    ``opening`` is the hash of the first message that none of its agents sent, ``prompt`` a number for all
    such messages before the first step of an agent; null where a text is not recorded, and without a message.
    """
    return pl.concat([_of_piece(piece) for piece in corpus.slices()])


def _of_piece(piece: Corpus) -> pl.DataFrame:
    kinds = piece.events.select("trace", "t", "seq", "type", text=TEXT).collect()
    rows = kinds.hstack(owners(piece).select("owner")).sort("trace", "t", "seq")
    is_owned = pl.col("owner").is_not_null()
    messages = rows.with_columns(begun=is_owned.cum_sum().over("trace") > 0).filter(
        ~is_owned & (pl.col("type").cast(pl.String) == "message")
    )
    before = pl.col("text").filter(~pl.col("begun"))
    openings_of = messages.group_by("trace", maintain_order=True).agg(
        opening=pl.col("text").first(),
        asked=before,
        is_known=before.is_not_null().all() & (before.len() > 0),
    )
    prompt = pl.when("is_known").then(pl.col("asked").list.join(" ").hash())
    return openings_of.select("trace", "opening", prompt=prompt)


def families(runs: pl.DataFrame) -> pl.Series:
    """The family of each run: tasks that share an opening, and tasks that share one with these, and so on.

    Parameters
    ----------
    runs
        ``task opening``, a row per run; a null opening joins nothing.

    Returns
    -------
    Series
        The least name among the tasks of the family, String.

    Notes
    -----
    O(runs), by connected components.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.trainers.families import families
    >>> runs = pl.DataFrame({"task": ["a", "b", "b", "c"], "opening": ["x", "x", "y", None]})
    >>> families(runs).to_list()
    ['a', 'a', 'a', 'c']
    """
    task = runs["task"].rank("dense").to_numpy().astype(np.int64) - 1
    has_opening = runs["opening"].is_not_null().to_numpy()
    opening = runs["opening"].rank("dense").fill_null(1).to_numpy().astype(np.int64)[has_opening] - 1
    n_tasks, n_openings = int(task.max(initial=-1)) + 1, int(opening.max(initial=-1)) + 1
    n = n_tasks + n_openings
    links = coo_array((np.ones(len(opening), np.int8), (task[has_opening], n_tasks + opening)), shape=(n, n))
    component = connected_components(links, directed=False)[1] if n else np.empty(0, np.int32)
    rows = runs.select("task", component=pl.Series(component[task]))
    return rows.select(pl.col("task").min().over("component"))["task"]


def split_of(family: pl.Series, validation: float, seed: int) -> pl.Series:
    """``train`` or ``validation`` by the name of the family alone: the share is met on average, and a family
    stays where it is when others are added.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.trainers.families import split_of
    >>> split_of(pl.Series(["a", "b", "a"]), 0.0, seed=0).to_list()
    ['train', 'train', 'train']
    """
    names = family.unique()
    drawn = [
        int.from_bytes(blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()) / 2**64 for name in names
    ]
    sides = pl.Series(drawn, dtype=pl.Float64) < validation
    side = pl.DataFrame({"family": names, "side": sides})
    rows = family.to_frame("family").join(side, on="family", how="left", maintain_order="left")
    word = pl.when("side").then(pl.lit("validation")).otherwise(pl.lit("train"))
    return rows.select(split=word)["split"]
