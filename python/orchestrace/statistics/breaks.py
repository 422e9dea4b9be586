"""Where a series jumps: a test that trends, drifts and outliers do not set off.

At each step a line with a jump is fitted to the w steps before and after, with one slope on both sides: a
trend moves the jump only by its third derivative. The statistic is the largest jump in units of the noise.

```text
T = max_s |jump_s| / max(noise at s, noise of the series)
```

Noise at s is the deviation around that fit, noise of the series the median deviation around a moving line,
once the jump is taken out: an outlier, or a stretch of wide steps, has to be beaten as well. What T is
without a jump depends on how strongly steps hang together. So it is simulated for first-order
autocorrelations r from 0 to 1, a random walk, and the p-value is the largest among the r that the series
does not rule out: those of which one simulated series or more has an autocorrelation beyond that of the
series, on either side (Berger and Boos 1994). What it costs to look at r, 2/(N + 1), is added.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..base.arrays import Floats, Ints
from ..base.errors import ParameterError
from ..base.text import counted

STEPS: Final = 30
"""Fewer steps than these have no test."""
_CORRELATIONS: Final = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0)
_SERIES, _MOST_SERIES = 1999, 19_999  # simulated for each correlation, at least and at most
_NARROWEST, _WIDEST = 5, 15  # steps before a jump that are compared with as many after
_CELLS: Final = 1 << 17  # of simulated series that are held at once
_ROUNDING: Final = 1e-12  # series, of which the largest number is 1, do not differ by less
_CLIP: Final = 3.0  # deviations beyond which a step says no more about autocorrelation


@dataclass(frozen=True)
class Breaks:
    """Jumps of a series: the p-value of the largest, adjusted by Holm's rule; their places, and sizes.

    A place is that of the first step after the jump. Places ascend.
    """

    p_value: float
    places: Ints
    sizes: Floats


@dataclass(frozen=True)
class _Jumps:
    """Of each series (rows) its largest jump: how large in units of noise, where, and its size."""

    statistic: Floats
    place: Ints
    size: Floats
    correlation: Floats


def breaks(series: Mapping[str, Floats], *, alpha: float, seed: int = 0) -> dict[str, Breaks]:
    """Find where series jump, with a chance of at most alpha that any alarm among all of them is false.

    Parameters
    ----------
    series
        By name, (steps,) float64, finite, at least `STEPS` of them.
    alpha
        The rate of false alarms over all series together.
    seed
        Of the simulation.

    Returns
    -------
    dict
        The `Breaks` of each series.

    Raises
    ------
    ParameterError
        Alpha is smaller than what the simulations, 19,999 of each kind at most, can tell from 0.

    Notes
    -----
    Once a jump is found it is taken out, and the rest is tested at the same level, until nothing is found.
    The rate is held where steps, less a trend without kinks, are an autoregression of order 1 with normal
    noise; by simulation also with Student's t of 3 degrees of freedom, log-normal and binomial noise, and
    where its deviation falls to a fifth over the series. The adjusted p-value is at least 3 m / (N + 1) for m
    series, and N is chosen so that this is below alpha.
    O(12 N steps w) for each number of steps, w ≤ 15. Source: R. L. Berger, D. D. Boos, JASA 89, 1994,
    1012-1016; S. Holm 1979; the statistic is this project's (docs/reference/definitions.md, D34).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.breaks import breaks
    >>> step = np.arange(60)
    >>> noise = np.random.default_rng(0).standard_normal(60)
    >>> found = breaks({"jump": noise + 9 * (step >= 40), "trend": noise + 0.5 * step}, alpha=0.05)
    >>> found["jump"].places.tolist(), found["trend"].places.tolist()
    ([40], [])
    """
    if not series:
        return {}
    n = int(min(max(_SERIES, np.ceil(6.0 * len(series) / alpha)), _MOST_SERIES))
    least = 3.0 * len(series) / (n + 1)
    if least > alpha:
        raise ParameterError(
            f"alpha is {alpha:g}, expected at least {least:.2g} for {counted(len(series), 'statistic')}: with"
            f" {n:,} simulated series no alarm can be rarer"
        )
    simulated = {steps: _simulated(steps, n, seed) for steps in sorted({len(y) for y in series.values()})}
    # Squares of the largest floats are beyond them.
    unit = {name: float(np.abs(y).max()) or 1.0 for name, y in series.items()}
    first = {name: _p_value(y / unit[name], simulated[len(y)]) for name, y in series.items()}
    judged: dict[str, Breaks] = {}
    adjusted = 0.0
    for rank, name in enumerate(sorted(first, key=lambda name: first[name][0])):
        factor = len(series) - rank
        adjusted = max(adjusted, min(1.0, factor * first[name][0]))
        y = series[name] / unit[name]
        places: list[int] = []
        sizes: list[float] = []
        while adjusted <= alpha and len(places) < len(y) // _NARROWEST:
            p, place, size = _p_value(y, simulated[len(y)])
            if factor * p > alpha:
                break
            places.append(place)
            sizes.append(size * unit[name])
            y = y - size * (np.arange(len(y)) >= place)
        order = np.argsort(places, kind="stable")
        judged[name] = Breaks(adjusted, np.array(places, np.int64)[order], np.array(sizes, float)[order])
    return {name: judged[name] for name in series}


def _p_value(y: Floats, simulated: list[_Jumps]) -> tuple[float, int, float]:
    """The p-value of the largest jump, its place and its size."""
    largest = _largest(y[None], _width(len(y)))
    statistic, correlation = largest.statistic[0], largest.correlation[0]
    size, place = float(largest.size[0]), int(largest.place[0])
    if size == 0.0:
        return 1.0, place, size
    n = len(simulated[0].statistic)
    likely = 0.0
    for at, null in enumerate(simulated):
        below = at > 0 and correlation < null.correlation.min()
        above = at + 1 < len(simulated) and correlation > null.correlation.max()
        if not (below or above):
            likely = max(likely, (1 + np.count_nonzero(null.statistic >= statistic)) / (n + 1))
    return float(min(1.0, likely + 2.0 / (n + 1))), place, size


@lru_cache(maxsize=8)
def _simulated(steps: int, n: int, seed: int) -> list[_Jumps]:
    """What series without a jump show, for each correlation."""
    from scipy.signal import lfilter

    rng = np.random.default_rng([seed % 2**63, steps])
    at_once = max(1, _CELLS // steps)
    nulls = []
    for r in _CORRELATIONS:
        parts = []
        for begin in range(0, n, at_once):
            noise = rng.standard_normal((min(at_once, n - begin), steps))
            noise[:, 1:] *= np.sqrt(1.0 - r * r) if r < 1.0 else 1.0
            parts.append(_largest(lfilter([1.0], [1.0, -r], noise, axis=1), _width(steps)))
        fields = ("statistic", "place", "size", "correlation")
        nulls.append(_Jumps(*(np.concatenate([getattr(part, name) for part in parts]) for name in fields)))
    return nulls


def _width(steps: int) -> int:
    return max(_NARROWEST, min(_WIDEST, steps // 6))


def _largest(y: Floats, w: int) -> _Jumps:
    """The largest jump of each series, (series, steps)."""
    size, noise = _jumps(y, w)
    rows, steps = np.arange(len(y)), np.arange(y.shape[1])
    size = np.where(np.abs(size) <= _ROUNDING, 0.0, size)
    around = _around_lines(y, w)
    for _ in range(2):
        wide = np.median(np.abs(around), axis=1, keepdims=True) / 0.6745
        statistic = np.abs(size) / np.maximum(np.maximum(noise, wide), _ROUNDING)
        place = statistic.argmax(axis=1)
        jump = size[rows, place]
        around = _around_lines(y - jump[:, None] * (steps >= place[:, None] + w), w)
    wide = np.median(np.abs(around), axis=1, keepdims=True) / 0.6745
    # A stretch of wide steps is wider than the few of a window may show.
    near = np.abs(steps - (place[:, None] + w - 0.5)) < 2 * w
    stretch = np.sqrt(np.square(np.where(near, around, 0.0)).sum(axis=1) / near.sum(axis=1))
    scale = np.maximum(np.maximum(noise[rows, place], stretch), np.maximum(wide[:, 0], _ROUNDING))
    clipped = np.clip(around / np.maximum(wide, _ROUNDING), -_CLIP, _CLIP)
    square = np.maximum(np.square(clipped).sum(axis=1), 1e-300)
    correlation = (clipped[:, 1:] * clipped[:, :-1]).sum(axis=1) / square
    return _Jumps(np.abs(jump) / scale, place + w, jump, correlation)


def _jumps(y: Floats, w: int) -> tuple[Floats, Floats]:
    """The jump before each step from w on, and the deviation around its fit: (series, steps - 2w + 1)."""
    t = np.arange(2 * w) - (w - 0.5)
    h = np.where(t > 0.0, 0.5, -0.5)
    g = h - t * (h @ t) / (t @ t)  # what of a jump is no slope
    window = sliding_window_view(y, 2 * w, axis=1)
    level = _weighted(window, np.full(2 * w, 1.0 / (2 * w)))
    slope, jump = _weighted(window, t / (t @ t)), _weighted(window, g / (g @ g))
    square = sum(np.square(window[..., k] - level) for k in range(2 * w))
    square = square - slope * slope * (t @ t) - jump * jump * (g @ g)
    return jump, np.sqrt(np.maximum(square, 0.0) / (2 * w - 3))


def _around_lines(y: Floats, w: int) -> Floats:
    """Each step less the line through the w steps on both sides; at the ends less the last such line."""
    t = np.arange(2 * w + 1) - float(w)
    window = sliding_window_view(y, 2 * w + 1, axis=1)
    level = _weighted(window, np.full(2 * w + 1, 1.0 / (2 * w + 1)))
    ends = window[:, [0, -1]]
    slope = _weighted(ends, t / (t @ t))
    out = np.empty_like(y)
    out[:, w:-w] = y[:, w:-w] - level
    out[:, :w] = y[:, :w] - level[:, :1] - slope[:, :1] * t[:w]
    out[:, -w:] = y[:, -w:] - level[:, -1:] - slope[:, 1:] * t[w + 1 :]
    return out


def _weighted(window: Floats, weights: Floats) -> Floats:
    """Weighted sums of windows, in one order of addition on every machine."""
    total = np.zeros(window.shape[:-1])
    for k, weight in enumerate(weights):
        total += weight * window[..., k]
    return total
