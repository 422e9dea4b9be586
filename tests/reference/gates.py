"""A gate in plain Python and SciPy, from its definition only: no arrays, one task after the other."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy import stats


def gains(base: dict[str, list[float]], new: dict[str, list[float]], ratio: bool, sign: float) -> list[float]:
    """By how much each task of both is better, in order of names."""
    values = []
    for task in sorted(set(base) & set(new)):
        a, b = fmean(base[task]), fmean(new[task])
        values.append(sign * (math.log(b / a) if ratio else b - a))
    return values


def p_above(values: Sequence[float], bound: float, within: tuple[float, float] | None) -> float | None:
    """The one-sided p-value that the mean is not above a bound."""
    n, mean = len(values), fmean(values)
    error = stdev(values) / math.sqrt(n)
    if max(values) - min(values) < 1e-12:
        error = 0.0
    if within is None:
        return None if error == 0.0 else float(stats.t.sf((mean - bound) / error, n - 1))
    low, high = within
    p, p0 = (mean - low) / (high - low), (bound - low) / (high - low)
    if error == 0.0 or p in (0.0, 1.0):
        return (p0 / p) ** n if p > p0 else 1.0
    trials = p * (1 - p) / (error / (high - low)) ** 2
    return float(stats.t.sf((p - p0) / math.sqrt(p0 * (1 - p0) / trials), n - 1))


def signed_above(values: Sequence[float], bound: float, within: tuple[float, float] | None) -> float:
    """The same; where all values are equal and no range is known, the sign test."""
    p = p_above(values, bound, within)
    if p is None:
        return 0.5 ** len(values) if fmean(values) > bound else 1.0
    return p


def p_noninferior(values: Sequence[float], bound: float, within: tuple[float, float] | None) -> float:
    """The same of a margin: of success at least what rare losses of that size would give."""
    p = signed_above(values, bound, within)
    steps = [abs(value) for value in values if value]
    if within is None or bound == 0.0 or not steps:
        return p
    n, margin, better = len(values), -bound, [value for value in values if value > 0]
    variance = min(steps) * margin * (1 - margin) + 2 * sum(value**2 for value in better) / n
    distance = margin + fmean(values) - min(steps) / (2 * n * (1 + len(better)))
    return max(p, float(stats.norm.sf(distance / math.sqrt(variance / n))))


def p_below(values: Sequence[float], bound: float, within: tuple[float, float] | None) -> float | None:
    """The same of the other side."""
    mirrored = None if within is None else (-within[1], -within[0])
    return p_above([-value for value in values], -bound, mirrored)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjusted p-values, from the definition: the largest of all steps up to one's own."""
    numbers = [1.0 if p is None else p for p in p_values]
    order = sorted(range(len(numbers)), key=lambda at: numbers[at])
    adjusted: list[float | None] = [None] * len(numbers)
    for rank, at in enumerate(order):
        steps = [numbers[order[step]] * (len(numbers) - step) for step in range(rank + 1)]
        adjusted[at] = None if p_values[at] is None else min(1.0, max(steps))
    return adjusted


def verdicts(noninferior: Sequence[float | None], worse: Sequence[float | None], alpha: float) -> list[str]:
    """pass, fail or inconclusive, of adjusted p-values."""
    answers = []
    for good, bad in zip(noninferior, worse, strict=True):
        if good is not None and good <= alpha:
            answers.append("pass")
        else:
            answers.append("fail" if bad is not None and bad <= alpha else "inconclusive")
    return answers
