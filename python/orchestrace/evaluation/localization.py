"""Where a ranking of suspects puts the blamed unit: EXAM, expected rank and hits, ties in expectation."""

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from .conformal import ranking

WITHIN = (1, 2, 3, 5)


def label_places(run: Ints, score: Floats, labeled: Bools) -> pl.DataFrame:
    """Where the best labelled unit of each run stands.

    Parameters
    ----------
    run, score, labeled
        (units,) int64, float64 and bool; a higher score is more suspect.

    Returns
    -------
    DataFrame
        A row per run with a label, by run: ``run`` Int64, ``expected_rank`` (from 1, of the best label, if a
        tie had its mean place), ``exam`` (of the run, read before the label is reached: expected rank over
        units), ``top1 top2 top3 top5`` the chance that a label is among so many.

    Notes
    -----
    With H units above the best label, E tied with it and m labels among those, the expected place of the
    first of m in a random order is (E + 1)/(m + 1), and one is among k with chance
    1 - C(E - m, k - H)/C(E, k - H).
    O(units log units). Source: Wong et al. 2016 for EXAM.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.evaluation.localization import label_places
    >>> scores, labeled = np.array([0.9, 0.5, 0.5, 0.1]), np.array([False, True, False, False])
    >>> label_places(np.zeros(4, int), scores, labeled).row(0)
    (0, 2.5, 0.625, 0.0, 0.5, 1.0, 1.0)
    """
    ranks = ranking(run, score)
    labels = pl.DataFrame({"run": run, "above": ranks.above, "tied": ranks.tied, "size": ranks.size}).filter(
        pl.Series(labeled)
    )
    best = (
        labels.filter(pl.col("above") == pl.col("above").min().over("run"))
        .group_by("run")
        .agg(pl.col("above", "tied", "size").first(), n=pl.len())
        .sort("run")
    )
    above, tied, size, n = (
        best[name].to_numpy().astype(np.float64) for name in ("above", "tied", "size", "n")
    )
    expected = above + (tied + 1.0) / (n + 1.0)
    columns = {"expected_rank": expected, "exam": expected / size}
    for k in WITHIN:
        miss = np.ones(len(best))
        for place in range(k):  # the next place misses, of those in the tie that are left
            used = place - above
            left = np.maximum(tied - used, 1.0)
            miss *= np.where((used >= 0) & (used < tied), np.maximum(tied - used - n, 0.0) / left, 1.0)
        columns[f"top{k}"] = 1.0 - miss
    return best.select("run").with_columns(pl.Series(name, values) for name, values in columns.items())
