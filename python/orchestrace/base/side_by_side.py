"""Threads for work on arrays: NumPy lets go of the interpreter while it computes."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import numpy as np

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")

MOST: Final = 4
"""Threads at once: each holds arrays of its own."""
FEWEST: Final = 2**16
"""Rows from which threads gain time: with fewer they wait for each other's interpreter."""


def side_by_side(
    call: Callable[[_Part], _Result], parts: Iterable[_Part], rows: int, *, threads: int | None = None
) -> list[_Result]:
    """What a call returns for each part, in their order.

    Of None it takes as many threads as cores, up to `MOST`; one where the parts have fewer than `FEWEST` rows
    together. Parts must not depend on each other. Results are the same for any number of threads if those of
    the call are: BLAS is held at one thread outside (`statistics.learners.in_one_order`).

    Examples
    --------
    >>> from orchestrace.base.side_by_side import side_by_side
    >>> side_by_side(abs, [-1, 2, -3], 3, threads=2)
    [1, 2, 3]
    """
    listed = list(parts)
    if threads is None:
        threads = min(os.cpu_count() or 1, MOST) if rows >= FEWEST else 1
    if threads < 2 or len(listed) < 2:
        return [call(part) for part in listed]
    # a thread begins with warnings of its own
    held = np.geterr()

    def alike(part: _Part) -> _Result:
        with np.errstate(**held):
            return call(part)

    with ThreadPoolExecutor(min(threads, len(listed))) as pool:
        return list(pool.map(alike, listed))
