"""How old the policy was that acted, and how much the weights of its events leave of a sample."""

from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..corpus.corpus import Corpus
from ..corpus.names import number_column

CLIP: Final = 0.2
"""A weight further from 1 counts as clipped."""


def lags(corpus: Corpus, policy_version: str | tuple[str, str]) -> pl.DataFrame:
    """Of each run: ``trace version drift``, the mean version that began its events, and how far it moved.

    Of two columns the first is the version at which an event began, the second that at which it ended.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> from orchestrace.trainers.staleness import lags
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> versions = corpus.events.select("trace", "seq", turn=pl.lit(3)).collect()
    >>> lags(corpus.with_fields(versions), "turn").row(0)
    (0, 3.0, 0.0)
    """
    names = [policy_version] if isinstance(policy_version, str) else list(policy_version)
    schema = corpus.events.collect_schema()
    for name in names:
        number_column("policy_version", name, "events", schema)
    began, ended = (pl.col(name).cast(pl.Float64) for name in (names[0], names[-1]))
    parts = []
    for piece in corpus.slices():
        rows = piece.events.select("trace", x=began, end=pl.coalesce(ended, began)).collect()
        trace, x, first = _runs_of(rows)
        end = rows.filter(pl.col("x").is_finite()).sort("trace", maintain_order=True)["end"].to_numpy()
        n = np.diff(first, append=len(x))
        drift = np.maximum.reduceat(end, first) - np.minimum.reduceat(x, first) if len(x) else x
        mean = np.add.reduceat(x, first) / n if len(x) else x
        parts.append(pl.DataFrame({"trace": trace, "version": mean, "drift": drift}))
    return pl.concat(parts)


def _runs_of(rows: pl.DataFrame) -> tuple[pl.Series, Floats, Ints]:
    """The runs that have an `x`, their numbers in order, and where those of each run begin."""
    rows = rows.filter(pl.col("x").is_finite()).sort("trace", maintain_order=True)
    first = np.flatnonzero(np.diff(rows["trace"].to_numpy().astype(np.int64), prepend=-1))
    return rows["trace"][first], rows["x"].to_numpy(), first


def ratios(corpus: Corpus, log_probs: tuple[str, str]) -> pl.DataFrame:
    """Of each run the weights w of its events, from the logarithms of what two policies gave each of them.

    Returns
    -------
    DataFrame
        ``trace n first second largest product clipped``: events that both gave a probability; the logarithms
        of Σ w and of Σ w²; that of the largest w and of the product of all; the share of events with w beyond
        1 ± `CLIP`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.trainers.staleness import ratios
    >>> ratios(ot.generate(traces=1, seed=0), ("tokens_in", "tokens_in")).columns
    ['trace', 'n', 'first', 'second', 'largest', 'product', 'clipped']
    """
    schema = corpus.events.collect_schema()
    for name in log_probs:
        number_column("log_probs", name, "events", schema)
    trained, behavior = (pl.col(name).cast(pl.Float64) for name in log_probs)
    parts = []
    for piece in corpus.slices():
        trace, x, first = _runs_of(piece.events.select("trace", x=trained - behavior).collect())
        n = np.diff(first, append=len(x))
        top = np.maximum.reduceat(x, first) if len(x) else x
        below = x - np.repeat(top, n)
        beyond = (np.abs(np.expm1(np.minimum(x, 1.0))) > CLIP + 1e-9).astype(float)
        columns = {"first": np.exp(below), "second": np.exp(2.0 * below), "product": x, "clipped": beyond}
        sums = {name: np.add.reduceat(y, first) if len(x) else y for name, y in columns.items()}
        parts.append(
            pl.DataFrame(
                {
                    "trace": trace,
                    "n": n.astype(float),
                    "first": np.log(sums["first"]) + top,
                    "second": np.log(sums["second"]) + 2.0 * top,
                    "largest": top,
                    "product": sums["product"],
                    "clipped": sums["clipped"] / n,
                }
            )
        )
    return pl.concat(parts)


def effective_share(first: Floats, second: Floats, n: Floats) -> tuple[float, Floats]:
    """The effective share of a weighted sample, (Σw)² / (n Σw²), and by how much each part of it moves it.

    Parameters
    ----------
    first, second
        The logarithms of Σ w and of Σ w² over each part, (parts,) float64.
    n
        How many weights each part has, (parts,) float64.

    Returns
    -------
    tuple
        The share, and the influence of each part on it, (parts,) float64, which sums to 0.

    Notes
    -----
    Weights are scaled first, which changes nothing: those of long runs are beyond the floats.
    Source: Kish 1965, section 11.7; its influence by the delta method.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.trainers.staleness import effective_share
    >>> w = np.log([1.0, 1.0, 2.0, 4.0])
    >>> round(effective_share(w, 2 * w, np.ones(4))[0], 6)
    0.727273
    """
    top = float((first - np.log(n)).max())
    w, square = np.exp(first - top), np.exp(second - 2.0 * top)
    total = float(n.sum())
    mean, mean_square = float(w.sum()) / total, float(square.sum()) / total
    share = mean * mean / mean_square
    by_mean, by_square = 2.0 * mean / mean_square, share / mean_square
    influence = (by_mean * (w - n * mean) - by_square * (square - n * mean_square)) / total
    return share, influence
