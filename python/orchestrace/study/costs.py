"""Costs of calls: seconds, peak memory, and extrapolation to sizes that were not measured."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

FEWEST_POINTS: Final = 2
_LONG_ENOUGH: Final = 0.25
_MOST_REPEATS: Final = 5
_LAST_POINTS: Final = 3


def measured(call: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """Run a call: its result, and ``seconds repeats peak_bytes grown_bytes``.

    A short call is repeated, and the shortest time counts: what is added to it by the rest of the machine is
    never negative. The peak is the most that the process held during the first run, its corpus included. What
    it grew by is a lower bound of what the call itself takes, which may be memory that was freed before.
    """
    before = _reset_peak()
    start = time.perf_counter()
    result = call()
    times = [time.perf_counter() - start]
    peak = _peak()
    while sum(times) < _LONG_ENOUGH and len(times) < _MOST_REPEATS:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    has_memory = before is not None and peak is not None
    return result, {
        "seconds": min(times),
        "repeats": len(times),
        "peak_bytes": peak if has_memory else None,
        "grown_bytes": max(peak - before, 0) if has_memory else None,  # type: ignore[operator]  # both are known
    }


def _reset_peak() -> int | None:
    """Make the kernel forget the peak; what is held now, None where there is no such counter."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return _status("VmRSS")
    except OSError:
        return None


def _peak() -> int | None:
    try:
        return _status("VmHWM")
    except OSError:
        return None


def _status(field: str) -> int | None:
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return None


def extrapolated(points: Sequence[tuple[float, float]], size: float) -> tuple[float, float] | None:
    """Seconds at a size, and the exponent, by a power law through the last points ``(size, seconds)``.

    Least squares on logarithms over the three largest sizes: small ones show what a call costs, not what an
    event does. An exponent below 0 is noise and taken for 0. None with fewer than two sizes.
    """
    last = sorted((x, y) for x, y in points if x > 0 and y > 0)[-_LAST_POINTS:]
    if len({x for x, _ in last}) < FEWEST_POINTS:
        return None
    xs, ys = [math.log(x) for x, _ in last], [math.log(y) for _, y in last]
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    over = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    slope = max(over / math.fsum((x - mean_x) ** 2 for x in xs), 0.0)
    return math.exp(mean_y + slope * (math.log(size) - mean_x)), slope


class Foretold(NamedTuple):
    """What a call would take that was not measured to its end."""

    seconds: float
    law: str
    """``power``: through measured sizes; ``linear``: in proportion to the events of one size."""
    exponent: float
    lower_bound: bool
    """Whether it takes at least so much, since its basis was stopped, or was one size alone."""
    points: int


def foretold(
    points: Sequence[tuple[float, float]], stopped: Sequence[tuple[float, float]], size: float
) -> Foretold | None:
    """Seconds at a size, from measured points ``(size, seconds)`` and those of calls that were stopped.

    Without stopped calls by the power law of `extrapolated`. A stopped call took at least what it had taken:
    from the largest of them on it grows with the exponent of the law through it and the measured points,
    which is too small rather than too large, and at least in proportion to events, as does what one measured
    size shows. None where there is neither.
    """
    all_points = [*points, *stopped]
    fit = extrapolated(all_points, size)
    if fit is not None and not stopped:
        return Foretold(fit[0], "power", fit[1], False, len(all_points))
    if not all_points:
        return None
    exponent = max(1.0, fit[1]) if fit is not None else 1.0
    start, seconds = max(stopped or points)
    power = fit is not None and fit[1] >= 1.0
    law = "power" if power else "linear"
    return Foretold(seconds * (size / start) ** exponent, law, exponent, True, len(all_points))


def doubled(seconds: float, size: float, players: float, then: float, now: float) -> float:
    """Seconds of a method that asks every coalition, with `now` players instead of `players`, and `then`
    events instead of `size`: twice as long for each player, and linear in events."""
    return seconds * then / size * math.pow(2.0, min(now - players, 900.0))
