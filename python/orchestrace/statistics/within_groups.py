"""Values around the mean of their group, where rounding is no difference."""

import numpy as np

from ..base.arrays import Floats, Ints, alike
from .sums import sums_of


def centered(values: Floats, groups: Ints, n_groups: int) -> Floats:
    """Values less the mean of their group; exactly 0 in groups of values that are equal to rounding."""
    counts = np.maximum(np.bincount(groups, minlength=n_groups), 1)
    mean = sums_of(values, groups, n_groups) / counts
    least, most = np.full(n_groups, np.inf), np.full(n_groups, -np.inf)
    np.minimum.at(least, groups, values)
    np.maximum.at(most, groups, values)
    around: Floats = np.where(alike(least, most)[groups], 0.0, values - mean[groups])
    # the mean of a group is rounded: what differs from it by that alone does not differ
    size = np.maximum(np.abs(least), np.abs(most))[groups]
    return np.where(np.abs(around) <= 4e-16 * size * np.sqrt(counts)[groups], 0.0, around)
