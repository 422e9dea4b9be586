"""Sums and means of floats that do not depend on the order of the rows: their one definition.

Recordings come in any order, and the last digits of a sum of floats hang on it. Floats are added by
magnitude, so that a column and its opposite have opposite sums, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.deferred import Deferred

if TYPE_CHECKING:
    import numpy as np

    from ..base.arrays import Bools, Floats, Ints
else:
    np = Deferred("numpy")


def sums_of(values: Floats | Bools, clusters: Ints, n_clusters: int) -> Floats:
    """The sum of the values (rows,) of each cluster, (clusters,) float64. O(rows log rows).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.sums import sums_of
    >>> sums_of(np.array([1.0, 2.0, 0.5]), np.array([0, 1, 0]), 3).tolist()
    [1.5, 2.0, 0.0]
    """
    numbers = values.astype(np.float64)
    in_order = np.lexsort((numbers, np.abs(numbers), clusters))
    sums: Floats = np.bincount(clusters[in_order], numbers[in_order], n_clusters).astype(np.float64)
    return sums


def mean_of(values: Floats) -> float:
    """The mean of values (rows,), of which there is one at least. O(rows log rows).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.sums import mean_of
    >>> mean_of(np.array([0.5, -2.0]))
    -0.75
    """
    return float(values[np.lexsort((values, np.abs(values)))].mean())
