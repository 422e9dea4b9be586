"""Agreement of two rankings, for all traces of a corpus at once.

Functions take rows in order of segment (a trace) and return one number per segment, NaN where it is not
defined. Nothing loops over segments.
"""

import numpy as np

from ..base.arrays import Floats, Ints


def segment_starts(segment: "Ints") -> "Ints":
    """Rows at which a new segment begins."""
    if not segment.size:
        return np.zeros(0, np.int64)
    return np.concatenate([[0], np.flatnonzero(np.diff(segment)) + 1])


def sums(values: "Floats", starts: "Ints") -> "Floats":
    """Sum of each segment."""
    return np.add.reduceat(values, starts) if starts.size else np.zeros(0)


def _spread(starts: "Ints", n: int) -> tuple["Ints", "Ints"]:
    """Number of the segment of every row, and the size of every segment."""
    sizes = np.diff(np.append(starts, n))
    return np.repeat(np.arange(starts.size), sizes), sizes


def _ties(values: "Floats", starts: "Ints") -> tuple["Ints", "Ints", "Ints"]:
    """Rows in order of (segment, value), and where runs of equal values begin and how long they are."""
    segment, _ = _spread(starts, values.size)
    order = np.lexsort((values, segment))
    in_order = values[order]
    new = np.ones(values.size, bool)
    new[1:] = in_order[1:] != in_order[:-1]
    new[starts] = True
    runs = np.flatnonzero(new)
    return order, runs, np.diff(np.append(runs, values.size))


def midranks(values: "Floats", starts: "Ints") -> "Floats":
    """Rank of every row in its segment, from 1; equal values share the mean of their ranks. O(n log n)."""
    order, runs, lengths = _ties(values, starts)
    segment, _ = _spread(starts, values.size)
    first = np.repeat(runs + (lengths - 1) / 2.0, lengths) - starts[segment] + 1.0
    ranks = np.empty(values.size)
    ranks[order] = first
    return ranks


def spearman(a: "Floats", b: "Floats", starts: "Ints") -> "Floats":
    """Spearman's rho per segment: the correlation of midranks. O(n log n)."""
    return correlation(midranks(a, starts), midranks(b, starts), starts) if a.size else np.zeros(0)


def correlation(a: "Floats", b: "Floats", starts: "Ints") -> "Floats":
    """Pearson's correlation per segment; NaN where a side does not vary. O(n)."""
    segment, sizes = _spread(starts, a.size)
    x = a - (sums(a, starts) / sizes)[segment]
    y = b - (sums(b, starts) / sizes)[segment]
    scale = np.sqrt(sums(x * x, starts) * sums(y * y, starts))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, np.clip(sums(x * y, starts) / scale, -1.0, 1.0), np.nan)


def kendall(a: "Floats", b: "Floats", starts: "Ints") -> "Floats":
    """Kendall's tau-b per segment (Kendall 1945). O(n log n): pairs are counted bit by bit of the ranks.

    With rows in order of `a`, ties in order of `b`, the discordant pairs are the inversions of the ranks of
    `b`. An inversion has one highest bit in which its two ranks differ, so each level of a stable partition
    by bits, from the highest down, counts the ones that stand before a zero of the same block.
    """
    n = a.size
    if not n:
        return np.zeros(0)
    segment, sizes = _spread(starts, n)
    order, runs, lengths = _ties(b, starts)
    dense = np.empty(n, np.int64)
    dense[order] = np.repeat(np.arange(runs.size), lengths)
    dense -= np.minimum.reduceat(dense, starts)[segment]

    def pairs(lengths: "Ints", at: "Ints") -> "Floats":
        counts = lengths * (lengths - 1) / 2.0
        return np.bincount(segment[at], weights=counts, minlength=starts.size).astype(np.float64)

    ties_b = pairs(lengths, runs)
    _, runs_a, lengths_a = _ties(a, starts)
    ties_a = pairs(lengths_a, runs_a)
    rows = np.lexsort((dense, a, segment))
    x, ranks = a[rows], dense[rows]
    new = np.ones(n, bool)
    new[1:] = (x[1:] != x[:-1]) | (ranks[1:] != ranks[:-1])
    new[starts] = True
    both = np.flatnonzero(new)
    ties_both = pairs(np.diff(np.append(both, n)), both)

    discordant = np.zeros(starts.size)
    block = segment.copy()
    for bit in reversed(range(int(dense.max()).bit_length())):
        ones = (ranks >> bit) & 1
        begins = segment_starts(block)
        lengths = np.diff(np.append(begins, n))
        before = np.cumsum(ones) - ones
        before -= np.repeat(before[begins], lengths)
        discordant += np.bincount(segment, weights=np.where(ones == 0, before, 0), minlength=starts.size)
        # zeros of a block, in their order, then its ones
        place = np.arange(n) - np.repeat(begins, lengths)
        zeros = np.repeat(np.add.reduceat(1 - ones, begins), lengths)
        target = np.repeat(begins, lengths) + np.where(ones == 1, zeros + before, place - before)
        moved = np.empty_like(ranks)
        moved[target] = ranks
        blocks = np.empty_like(block)
        blocks[target] = 2 * np.repeat(np.arange(begins.size), lengths) + ones
        ranks, block = moved, blocks

    total = sizes * (sizes - 1) / 2.0
    concordant = total - ties_a - ties_b + ties_both - discordant
    scale = np.sqrt((total - ties_a) * (total - ties_b))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(scale > 0, (concordant - discordant) / scale, np.nan)


def top(values: "Floats", starts: "Ints", k: "Ints") -> "Floats":
    """Share of every row in the `k` highest of its segment: between 0 and 1 where a tie is cut."""
    order, runs, lengths = _ties(-values, starts)
    segment, _ = _spread(starts, values.size)
    room = (k[segment[runs]] - (runs - starts[segment[runs]])) / lengths
    share = np.empty(values.size)
    share[order] = np.repeat(np.clip(room, 0.0, 1.0), lengths)
    return share


def top_overlap(a: "Floats", b: "Floats", starts: "Ints", k: "Ints") -> "Floats":
    """Share of the `k` highest of `a` that are among those of `b`, per segment; NaN where all rows are."""
    if not a.size:
        return np.zeros(0)
    _, sizes = _spread(starts, a.size)
    common = sums(np.minimum(top(a, starts, k), top(b, starts, k)), starts)
    return np.where(k < sizes, common / k, np.nan)


def sign_agreement(a: "Floats", b: "Floats", starts: "Ints") -> "Floats":
    """Share of the rows with equal signs, per segment, among those on which not both are zero."""
    if not a.size:
        return np.zeros(0)
    counted = (a != 0) | (b != 0)
    equal = counted & (np.sign(a) == np.sign(b))
    n = sums(counted.astype(np.float64), starts)
    with np.errstate(invalid="ignore"):
        return np.where(n > 0, sums(equal.astype(np.float64), starts) / np.maximum(n, 1), np.nan)
