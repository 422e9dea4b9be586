"""How many ways a team has to work on a task: what its runs do in which order, and how often two agree."""

from typing import Final

import numpy as np
import polars as pl

from ..corpus.corpus import Corpus
from ..corpus.owners import owners

_STEPS: Final = ("orchestrator_decision", "spawn", "message", "return", "tool_call", "aggregate")
TEXT: Final = pl.coalesce("content_hash", "content_ref")
"""What tells the text of an event apart: its hash, else the reference, which importers make of one."""
ARGUMENTS: Final = pl.coalesce("args_hash", "content_ref")
"""The same of the arguments of a call."""


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
    key = pl.struct("type", pl.coalesce("role", "owner"), "tool").hash()
    pieces = [_lanes(_steps(piece).with_columns(key=key), piece, "strategy") for piece in corpus.slices()]
    return pl.concat(pieces)


def behaviours(corpus: Corpus) -> pl.DataFrame:
    """What each run did and said as one number that runs share which did and said the same: ``trace
    behaviour`` (UInt64).

    As `strategies`, with the texts of messages and returns and the arguments of calls; null where one of
    these is not recorded, and where nobody did anything.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.trainers.strategies import behaviours
    >>> behaviours(ot.generate(traces=3, seed=0)).columns
    ['trace', 'behaviour']
    """
    return pl.concat([_behaviours(piece) for piece in corpus.slices()])


def _behaviours(piece: Corpus) -> pl.DataFrame:
    texts = piece.events.select("trace", "seq", text=TEXT, arguments=ARGUMENTS).collect()
    steps = _steps(piece).join(texts, on=["trace", "seq"], how="left", maintain_order="left")
    is_call = pl.col("type") == "tool_call"
    steps = steps.with_columns(said=pl.when(is_call).then("arguments").otherwise("text"))
    key = pl.struct("type", pl.coalesce("role", "owner"), "tool", "said").hash()
    done = _lanes(steps.with_columns(key=key), piece, "behaviour")
    has_text = is_call | pl.col("type").is_in(("message", "return"))
    silent = steps.filter(has_text & pl.col("said").is_null())["trace"].unique()
    is_known = pl.col("trace").is_in(steps["trace"].unique().implode()) & ~pl.col("trace").is_in(
        silent.implode()
    )
    return done.with_columns(behaviour=pl.when(is_known).then("behaviour"))


def _steps(piece: Corpus) -> pl.DataFrame:
    """The steps that somebody owns, in order."""
    kinds = piece.events.select("trace", "seq", "t", pl.col("type", "tool").cast(pl.String)).collect()
    owned = owners(piece).select("trace", "seq", pl.col("owner", "role").cast(pl.String))
    return (
        kinds.filter(pl.col("type").is_in(_STEPS))
        .join(owned.drop_nulls("owner"), on=["trace", "seq"], how="inner")
        .sort("trace", "t", "seq")
    )


def _lanes(steps: pl.DataFrame, piece: Corpus, name: str) -> pl.DataFrame:
    """A number for the set of the agents' sequences of keys of each run, 0 for a run without steps."""
    # A text of numbers in order: hashes of lists do not see where one ends.
    lanes = steps.group_by("trace", "owner", maintain_order=True).agg(pl.col("key").cast(pl.String))
    lanes = lanes.with_columns(lane=pl.col("key").list.join(" ").hash())
    runs = lanes.sort("trace", "lane").group_by("trace", maintain_order=True)
    done = runs.agg(pl.col("lane").cast(pl.String)).with_columns(
        pl.col("lane").list.join(" ").hash().alias(name)
    )
    all_runs = piece.traces.select("trace").collect()
    return all_runs.join(done, on="trace", how="left", maintain_order="left").select(
        "trace", pl.col(name).fill_null(0)
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
