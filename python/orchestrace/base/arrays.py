"""Types of NumPy arrays, and when numbers are equal."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

ROUNDING: Final = 1e-12
"""What differs by this part of the larger is equal, as in the core: sums that are equal on paper do."""


def alike(least: Floats, most: Floats) -> Bools:
    """Whether the least and the most of some numbers are equal to rounding; infinite ones are not."""
    size = np.maximum(np.abs(least), np.abs(most))
    apart = np.subtract(most, least, out=np.full(least.shape, np.inf), where=np.isfinite(size))
    equal: Bools = apart <= ROUNDING * np.where(np.isfinite(size), size, 0.0)
    return equal
