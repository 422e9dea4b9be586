"""How often `statistics.breaks` alarms on series without a jump, and how often it finds one.

    python benches/python/change_points.py

Every number is of `SERIES` simulated series; a rate of 5 % has a sampling error of 0.7 % there. The script
prints two Markdown tables: false alarms at 5 %, and jumps found at 5 % / 16, as Holm's rule asks in a table
of 16 statistics; their sizes are in standard deviations of a step around its trend. The same numbers on every
run.
"""

from collections.abc import Callable

import numpy as np
from scipy.signal import lfilter

from orchestrace.statistics.breaks import breaks

SERIES = 1000
STEPS = (30, 60, 120, 400)
SIZES = (2.0, 3.0, 4.0, 6.0, 8.0)
Series = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def normal(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
    return rng.standard_normal(len(t))


def autoregressive(r: float) -> Series:
    """Standard deviation 1 from the first step on; of r = 1, a random walk."""

    def series(rng: np.random.Generator, t: np.ndarray) -> np.ndarray:
        x = rng.standard_normal(len(t))
        x[1:] *= np.sqrt(1.0 - r * r) if r < 1.0 else 1.0
        found: np.ndarray = lfilter([1.0], [1.0, -r], x)
        return found

    return series


def moving(weight: float) -> Series:
    return lambda rng, t: np.convolve(rng.standard_normal(len(t) + 1), [1.0, weight], "valid")


def trending(trend: Callable[[np.ndarray], np.ndarray], around: Series = normal) -> Series:
    """Ten standard deviations of trend; `trend` is of the share of steps that have passed, from 0 to 1."""
    return lambda rng, t: around(rng, t) + 10.0 * trend(t / len(t))


WITHOUT_A_JUMP: dict[str, Series] = {
    "independent steps": normal,
    "autoregression, r = 0.5": autoregressive(0.5),
    "autoregression, r = 0.8": autoregressive(0.8),
    "autoregression, r = 0.95": autoregressive(0.95),
    "random walk": autoregressive(1.0),
    "moving average, 0.8": moving(0.8),
    "moving average, -0.6": moving(-0.6),
    "line": trending(lambda share: share),
    "learning curve, a tenth of the steps": trending(lambda share: 1.0 - np.exp(-10.0 * share)),
    "sigmoid, a tenth of the steps": trending(lambda share: 1.0 / (1.0 + np.exp(-10.0 * (share - 0.5)))),
    "line, r = 0.8": trending(lambda share: share, autoregressive(0.8)),
    "Student's t, 3 degrees of freedom": lambda rng, t: rng.standard_t(3, len(t)),
    "log-normal, sigma 1": lambda rng, t: rng.lognormal(0, 1, len(t)),
    "shares of 64 at 0.05": lambda rng, t: rng.binomial(64, 0.05, len(t)) / 64,
    "shares of 16 at 0.02": lambda rng, t: rng.binomial(16, 0.02, len(t)) / 16,
    "deviations of steps differ, log-normal 0.7": lambda rng, t: (
        normal(rng, t) * rng.lognormal(0, 0.7, len(t))
    ),
    "deviation falls to a fifth": lambda rng, t: normal(rng, t) * np.linspace(1.0, 0.2, len(t)),
}
"""Series in which nothing jumps."""

AROUND: dict[str, Series] = {
    "independent steps": normal,
    "autoregression, r = 0.5": autoregressive(0.5),
    "autoregression, r = 0.8": autoregressive(0.8),
}
"""Series to which a jump in the middle is added."""


def rate(series: Series, steps: int, alpha: float, jump: float = 0.0, n: int = SERIES) -> float:
    """The share of n series with an alarm."""
    rng = np.random.default_rng([steps, round(10 * jump)])
    t = np.arange(steps)
    alarms = 0
    for _ in range(n):
        y = series(rng, t) + jump * (t >= steps // 2)
        alarms += breaks({"y": y}, alpha=alpha)["y"].places.size > 0
    return alarms / n


def main() -> None:
    print(f"| series without a jump | {' | '.join(f'{steps} steps' for steps in STEPS)} |")
    print(f"|---|{'---:|' * len(STEPS)}")
    for name, series in WITHOUT_A_JUMP.items():
        rates = [rate(series, steps, 0.05) for steps in STEPS]
        print(f"| {name} | {' | '.join(f'{100 * share:.1f} %' for share in rates)} |")
    print()
    print(f"| jump in the middle of | steps | {' | '.join(f'{size:g} sd' for size in SIZES)} |")
    print(f"|---|---:|{'---:|' * len(SIZES)}")
    for name, series in AROUND.items():
        for steps in STEPS:
            rates = [rate(series, steps, 0.05 / 16, size) for size in SIZES]
            print(f"| {name} | {steps} | {' | '.join(f'{100 * share:.0f} %' for share in rates)} |")


if __name__ == "__main__":
    main()
