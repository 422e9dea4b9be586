"""How many ways a team has to work on a task: what its runs do in which order, and how often two agree."""

from typing import Final

import numpy as np
import polars as pl

from ..corpus.corpus import Corpus
from ..corpus.owners import owners

_STEPS: Final = ("orchestrator_decision", "spawn", "message", "return", "tool_call", "aggregate")


def strategies(corpus: Corpus) -> pl.DataFrame:
    """What each run did as one number that runs share which did the same: ``trace strategy`` (UInt64).

    A step is a decision, a spawn, a message, a return, a call or an aggregate that somebody owns; its key is
    its type, the role of its owner (else the name) and its tool. A run is the set of its agents' sequences of
    keys: which of two agents came first is scheduling, not behaviour.

    Notes
    -----
    O(events log events), piece by piece on disk. Numbers are hashes: equal within one call, not beyond it.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.trainers.strategies import strategies
    >>> strategies(ot.generate(traces=3, seed=0)).columns
    ['trace', 'strategy']
    """
    return pl.concat([_of_piece(piece) for piece in corpus.slices()])


def _of_piece(piece: Corpus) -> pl.DataFrame:
    kinds = piece.events.select("trace", "seq", "t", pl.col("type", "tool").cast(pl.String)).collect()
    owned = owners(piece).select("trace", "seq", pl.col("owner", "role").cast(pl.String))
    steps = (
        kinds.filter(pl.col("type").is_in(_STEPS))
        .join(owned.drop_nulls("owner"), on=["trace", "seq"], how="inner")
        .sort("trace", "t", "seq")
        .with_columns(key=pl.struct("type", pl.coalesce("role", "owner"), "tool").hash())
    )
    # A text of numbers in order: hashes of lists do not see where one ends.
    lanes = steps.group_by("trace", "owner", maintain_order=True).agg(pl.col("key").cast(pl.String))
    lanes = lanes.with_columns(lane=pl.col("key").list.join(" ").hash())
    runs = lanes.sort("trace", "lane").group_by("trace", maintain_order=True)
    done = runs.agg(pl.col("lane").cast(pl.String)).with_columns(
        strategy=pl.col("lane").list.join(" ").hash()
    )
    all_runs = piece.traces.select("trace").collect()
    return all_runs.join(done, on="trace", how="left", maintain_order="left").select(
        "trace", pl.col("strategy").fill_null(0)
    )


def diversity(runs: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Of each set of two runs or more that did one task: how often two of them differ, and their entropy.

    Parameters
    ----------
    runs
        A row per run: the columns of `by`, and ``strategy``.
    by
        Columns that name a set.

    Returns
    -------
    DataFrame
        ``by n simpson entropy``: Simpson's index 1 - Σ c (c - 1) / (n (n - 1)), c runs of each strategy,
        unbiased and so comparable across n; and the entropy of strategies in nats with the correction of
        Miller and Madow, -Σ c/n ln c/n + (strategies - 1) / (2 n): the plain one grows with n.

    Notes
    -----
    O(runs). Source: Simpson 1949; Miller 1955.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.trainers.strategies import diversity
    >>> found = diversity(pl.DataFrame({"task": ["x"] * 4, "strategy": list("aabc")}), ["task"])
    >>> [round(number, 6) for number in found.select("simpson", "entropy").row(0)]
    [0.833333, 1.289721]
    """
    counts = runs.group_by(*by, "strategy").agg(c=pl.len().cast(pl.Float64)).sort(*by, "c")
    first = np.flatnonzero(counts.select(pl.struct(by).is_first_distinct()).to_series().to_numpy())
    c = counts["c"].to_numpy()
    if not c.size:
        return runs.select(by).clear().with_columns(n=0.0, simpson=0.0, entropy=0.0)
    n = np.add.reduceat(c, first)
    of_row = np.repeat(n, np.diff(first, append=len(c)))
    pairs, plain = (
        np.add.reduceat(c * (c - 1.0), first),
        np.add.reduceat(-c / of_row * np.log(c / of_row), first),
    )
    kinds = np.diff(first, append=len(c))
    several = n > 1.0
    sets = (
        counts[first]
        .select(by)
        .with_columns(
            n=pl.Series(n),
            simpson=pl.Series(1.0 - pairs / np.where(several, n * (n - 1.0), 1.0)),
            entropy=pl.Series(plain + (kinds - 1.0) / (2.0 * n)),
        )
    )
    return sets.filter(pl.Series(several))
