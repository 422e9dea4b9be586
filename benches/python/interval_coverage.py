"""How often 95 % intervals over tasks cover the truth: the tables of docs/intervals.md.

    python benches/python/interval_coverage.py

Samples are drawn from populations whose mean is known; every sample gets the interval of the package, and
beside it the percentiles of 1000 resampled means, which the package gave before. Rows are rates of samples
whose interval covers. With 20,000 samples (`--samples`) a rate of 95 % is measured to 0.3 % (two standard
errors). Everything is seeded: the same tables on every run. Some fifteen minutes.
"""

import argparse
import math
from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

import orchestrace as ot
from orchestrace.statistics import rankings
from orchestrace.statistics.influence import correlation_interval, mean_interval
from orchestrace.statistics.log_ratio import task_ratio
from orchestrace.statistics.resampling import draws, percentiles

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

TASKS = (3, 5, 10, 30)
N_BOOT = 1000
ENDS = [0.025, 0.975]

#: Means of tasks: how they are drawn, their mean, their range where it is known.
MEANS: dict[str, tuple[Draw, float, tuple[float, float] | None]] = {
    "normal": (lambda rng, size: rng.normal(size=size), 0.0, None),
    "Student's, 3 degrees of freedom": (lambda rng, size: rng.standard_t(3, size=size), 0.0, None),
    "difference of two lognormals": (
        lambda rng, size: rng.lognormal(size=size) - rng.lognormal(size=size),
        0.0,
        None,
    ),
    "Poisson, mean 1 *": (lambda rng, size: rng.poisson(1.0, size).astype(np.float64), 1.0, None),
    "exponential": (lambda rng, size: rng.exponential(size=size), 1.0, None),
    "lognormal, sigma 1": (lambda rng, size: rng.lognormal(size=size), math.exp(0.5), None),
    "one in ten is 20 times the rest": (
        lambda rng, size: np.where(rng.random(size) < 0.1, 20.0, 1.0) * rng.lognormal(-0.02, 0.2, size),
        2.9,
        None,
    ),
    "0 or 1, p = 0.5": (lambda rng, size: (rng.random(size) < 0.5).astype(np.float64), 0.5, (0.0, 1.0)),
    "0 or 1, p = 0.2": (lambda rng, size: (rng.random(size) < 0.2).astype(np.float64), 0.2, (0.0, 1.0)),
    "0 or 1, p = 0.05": (lambda rng, size: (rng.random(size) < 0.05).astype(np.float64), 0.05, (0.0, 1.0)),
    "uniform": (lambda rng, size: rng.random(size), 0.5, (0.0, 1.0)),
    "beta(2, 8)": (lambda rng, size: rng.beta(2.0, 8.0, size), 0.2, (0.0, 1.0)),
    "beta(0.3, 3)": (lambda rng, size: rng.beta(0.3, 3.0, size), 1.0 / 11.0, (0.0, 1.0)),
}
#: Rows of each task.
SIZES: dict[str, Callable[[int], NDArray[np.int64]]] = {
    "1 to 9": lambda n: np.linspace(1, 9, n).round().astype(np.int64),
    "one has half": lambda n: np.array([4 * (n - 1), *[4] * (n - 1)]),
    "60/k": lambda n: (60 / np.arange(1, n + 1)).round().astype(np.int64),
}
CENTRED: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size) - 1.0,
}
SHARED = (0.0, 0.3, 1.0)
FACTOR, NOISE = 0.5, 0.2


def one_in_ten(rng: np.random.Generator, n: int) -> Floats:
    """20 for one task in ten, 1 for the rest."""
    return np.where(rng.random(n) < 0.1, 20.0, 1.0)


#: Two sides of the same tasks before noise: how large each task is on side a, and what b makes of that.
SIDES: dict[str, Callable[[np.random.Generator, int], tuple[Floats, Floats]]] = {
    "lognormal, sigma 1; b is half": lambda rng, n: halved(rng.lognormal(0.0, 1.0, n)),
    "lognormal, sigma 1.5; b is half": lambda rng, n: halved(rng.lognormal(0.0, 1.5, n)),
    "one task in ten is 20 times the rest; b is half": lambda rng, n: halved(one_in_ten(rng, n)),
    "lognormal, sigma 1; b is 1 more": lambda rng, n: added(rng.lognormal(0.0, 1.0, n)),
    "all alike; b is half, in one task in ten 10 times": lambda rng, n: (
        np.ones(n),
        FACTOR * one_in_ten(rng, n),
    ),
}
#: Of each: the mean difference and the mean log ratio before noise; factors have a mean log of their own.
SIDE_TRUTH: dict[str, tuple[float, float]] = {
    "lognormal, sigma 1; b is half": ((FACTOR - 1.0) * math.exp(0.5), math.log(FACTOR)),
    "lognormal, sigma 1.5; b is half": ((FACTOR - 1.0) * math.exp(1.125), math.log(FACTOR)),
    "one task in ten is 20 times the rest; b is half": ((FACTOR - 1.0) * 2.9, math.log(FACTOR)),
    # the mean of ln(1 + 1/a), a lognormal: that of a softplus of a standard normal number
    "lognormal, sigma 1; b is 1 more": (1.0, 0.8060594),
    "all alike; b is half, in one task in ten 10 times": (
        FACTOR * 2.9 - 1.0,
        math.log(FACTOR) + 0.1 * math.log(20.0),
    ),
}
UNITS = 12
RHO = 0.4


def halved(levels: Floats) -> tuple[Floats, Floats]:
    return levels, FACTOR * levels


def added(levels: Floats) -> tuple[Floats, Floats]:
    return levels, levels + 1.0


def table(header: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    rows = [list(header), ["---", *["---:"] * (len(list(header)) - 1)]]
    rows += [[str(cell) for cell in line] for line in lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def header(*names: str) -> list[str]:
    return [*names, *(str(n) for n in TASKS), *(f"percentiles, {n}" for n in TASKS)]


def told(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.3f}"


def percentile_rate(sums: Floats, counts: Floats, truth: float) -> float:
    """How often percentiles of resampled means cover; ``[sample, task]`` sums, one count a task."""
    n, hits = counts.size, 0
    times = np.concatenate(list(draws(n, N_BOOT, 0)))
    rows = times @ counts
    for start in range(0, len(sums), 2000):
        means = (sums[start : start + 2000] @ times.T) / rows
        low, high = np.quantile(means, ENDS, axis=1)
        hits += int(((low <= truth) & (truth <= high)).sum())
    return hits / len(sums)


def means(samples: int) -> str:
    """One row a task."""
    lines = []
    for name, (draw, truth, within) in MEANS.items():
        ours, theirs = [], []
        for n in TASKS:
            sampled, task = draw(np.random.default_rng([1, n]), (samples, n)), np.arange(n)
            found = [mean_interval(one, task, confidence=0.95, within=within).around for one in sampled]
            ends = [(one.lower, one.upper) for one in found if one.lower is not None]
            ours.append(sum(low <= truth <= high for low, high in ends) / len(ends))  # type: ignore[operator]
            theirs.append(percentile_rate(sampled, np.ones(n), truth))
        known = "" if within is None else f"{within[0]:g} to {within[1]:g}"
        lines.append([name, known, *map(told, ours), *map(told, theirs)])
    return table(header("population of tasks", "known range"), lines)


def unequal(samples: int) -> str:
    """Rows that have a part of their variance in common with those of their task."""
    lines = []
    for population, draw in CENTRED.items():
        for kind, sizes_of in SIZES.items():
            for shared in SHARED:
                ours, theirs = [], []
                for n in TASKS:
                    sizes, rng, hits = sizes_of(n), np.random.default_rng([2, n]), 0
                    task, sums = np.repeat(np.arange(n), sizes), np.empty((samples, n))
                    for at in range(samples):
                        values = math.sqrt(shared) * draw(rng, (n,))[task]
                        values += math.sqrt(1.0 - shared) * draw(rng, task.shape)
                        around = mean_interval(values, task, confidence=0.95).around
                        hits += around.lower <= 0.0 <= around.upper  # type: ignore[operator]  # they are there
                        sums[at] = np.bincount(task, weights=values)
                    ours.append(hits / samples)
                    theirs.append(percentile_rate(sums, sizes.astype(np.float64), 0.0))
                lines.append([population, kind, f"{shared:.0%}", *map(told, ours), *map(told, theirs)])
    return table(header("population", "rows of a task", "variance in common"), lines)


def two_sides(samples: int) -> str:
    """Differences and ratios of two sides of the same tasks, with noise of `NOISE` on either."""
    lines = []
    for name, draw in SIDES.items():
        difference, log_ratio = SIDE_TRUTH[name]
        # noise has the mean 1: it moves no difference; it is alike on both sides: it moves no ratio
        differences, ratios = [], []
        for n in TASKS:
            rng, hits = np.random.default_rng([8, n]), np.zeros(2)
            for _ in range(samples):
                a, b = (side * rng.lognormal(-(NOISE**2) / 2, NOISE, n) for side in draw(rng, n))
                around = mean_interval(b - a, np.arange(n), confidence=0.95).around
                ratio = task_ratio(a, b, confidence=0.95)
                hits[0] += around.lower <= difference <= around.upper  # type: ignore[operator]
                hits[1] += ratio.lower <= math.exp(log_ratio) <= ratio.upper  # type: ignore[operator]
            differences.append(hits[0] / samples)
            ratios.append(hits[1] / samples)
        lines.append([name, *map(told, differences), *map(told, ratios)])
    names = ["population of tasks", *(f"difference, {n}" for n in TASKS), *(f"ratio, {n}" for n in TASKS)]
    return table(names, lines)


def correlated(rng: np.random.Generator, n: int, kind: str) -> tuple[Floats, Floats]:
    """Units of n tasks, both sides centered in their task; `RHO` on average."""
    z = rng.normal(size=(2, n, UNITS))
    rho = np.full((n, 1), RHO)
    if kind == "skewed":
        z = np.exp(z)
    elif kind == "tasks differ":
        rho = rng.uniform(RHO - 0.4, RHO + 0.4, size=(n, 1))
        z = z * rng.lognormal(sigma=0.5, size=(n, 1))
    x, y = z[0], rho * z[0] + np.sqrt(1.0 - rho**2) * z[1]
    return x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)


def pooled(samples: int) -> str:
    """The correlation that `ot.study` pools over the units of all tasks."""
    lines = []
    for kind in ("normal", "skewed", "tasks differ"):
        ours, theirs = [], []
        for n in TASKS:
            rng, hits, moments = np.random.default_rng([3, n]), 0, np.empty((samples, n, 3))
            for at in range(samples):
                x, y = correlated(rng, n, kind)
                xy, xx, yy = ((a * b).sum(axis=1) for a, b in ((x, y), (x, x), (y, y)))
                scale = math.sqrt(xx.sum() * yy.sum())
                rho, weight = xy.sum() / scale, (xx / xx.sum() + yy / yy.sum()) / 2
                around = correlation_interval(rho, xy / scale - rho * weight, weight, confidence=0.95)
                hits += around.lower <= RHO <= around.upper  # type: ignore[operator]  # they are there
                moments[at] = np.stack([xy, xx, yy], axis=1)
            times = np.concatenate(list(draws(n, N_BOOT, 0)))
            covers = 0
            for one in moments[:4000]:
                sums = times @ one
                low, high = np.quantile(sums[:, 0] / np.sqrt(sums[:, 1] * sums[:, 2]), ENDS)
                covers += low <= RHO <= high
            ours.append(hits / samples)
            theirs.append(covers / len(moments[:4000]))
        lines.append([kind, *map(told, ours), *map(told, theirs)])
    return table(header("units of tasks"), lines)


def one_ranking(samples: int) -> list[object]:
    """Spearman's rho over the units of all tasks as one ranking, some of their variance that of tasks."""
    shared, ours, theirs = 0.3, [], []
    slope, rest = math.sqrt(shared), math.sqrt(1.0 - shared)

    def drawn(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
        x, z = slope * rng.normal(size=(2, n, 1)) + rest * rng.normal(size=(2, n, UNITS))
        return x, 0.5 * x + math.sqrt(0.75) * z

    truth = 6.0 / math.pi * math.asin(0.25)
    for n in TASKS:
        rng, hits, plain = np.random.default_rng([4, n]), 0, 0
        times = np.concatenate(list(draws(n, N_BOOT, 0))).astype(np.int64)
        picks = np.stack([np.repeat(np.arange(n), own) for own in times])
        starts = np.arange(N_BOOT) * n * UNITS
        for _ in range(samples):
            x, y = drawn(rng, n)
            boot = rankings.spearman(x[picks].ravel(), y[picks].ravel(), starts)
            low, high = percentiles(boot, n, 0.95)
            hits += low is not None and high is not None and low <= truth <= high
            low, high = np.quantile(boot, ENDS)
            plain += low <= truth <= high
        ours.append(None if low is None or percentiles(boot, n, 0.95)[0] is None else hits / samples)
        theirs.append(plain / samples)
    return ["one ranking of all units", *map(told, ours), *map(told, theirs)]


def exponents(samples: int) -> list[object]:
    """The exponent of a power law over runs that each have a level and a slope of their own."""
    ours: list[float | None] = []
    sizes = np.geomspace(10.0, 1000.0, 6)
    for n in TASKS:
        rng, hits = np.random.default_rng([5, n]), 0
        if n < 5:
            ours.append(None)
            continue
        for _ in range(samples):
            level, slope = rng.normal(scale=0.2, size=(n, 1)), 0.5 + rng.normal(scale=0.05, size=(n, 1))
            y = np.exp(level + slope * np.log(sizes) + rng.normal(scale=0.1, size=(n, sizes.size)))
            runs = np.repeat(np.arange(n), sizes.size).astype(str)
            frame = pl.DataFrame({"trace_id": runs, "x": np.tile(sizes, n), "y": y.ravel()})
            row = ot.scaling.fit_law(frame, x="x", y="y", models=["power"], n_boot=300).row(1, named=True)
            hits += row["lower"] <= 0.5 <= row["upper"]
        ours.append(hits / samples)
    return ["exponent of a power law", *map(told, ours), *[""] * len(TASKS)]


def rivals(sampled: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Other intervals of the mean of each row of ``[sample, task]``, by their papers."""
    n = sampled.shape[1]
    mean, sd = sampled.mean(axis=1), sampled.std(axis=1, ddof=1)
    error, t = sd / math.sqrt(n), float(stdtrit(n - 1, 0.975))
    off = sampled - mean[:, None]
    third = (off**3).sum(axis=1) * n / ((n - 1) * (n - 2))
    # Johnson 1978: the mean is moved by its skewness; Hall 1992: a cubic that takes the skewness away
    moved = third / (6.0 * sd**2 * n)
    skew = third / sd**3
    root = math.sqrt(n)

    def unbent(x: float) -> Floats:
        cubed = 1.0 + skew * (x / root - skew / (6.0 * n))
        return np.where(np.abs(skew) < 1e-8, x / root, 3.0 * (np.cbrt(cubed) - 1.0) / skew)

    times = np.concatenate(list(draws(n, N_BOOT, 0)))
    resampled = off @ times.T / n
    squares = np.maximum((off**2) @ times.T / n - resampled**2, 0.0) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(squares > 1e-18, np.abs(resampled) / np.sqrt(squares), np.nan)
    reach = np.nanquantile(ratio, 0.95, axis=1) * error
    # Efron 1987: bias-corrected and accelerated percentiles
    ordered = np.sort(resampled, axis=1)
    bias = ndtri(np.clip((resampled < 0.0).mean(axis=1), 0.5 / N_BOOT, 1.0 - 0.5 / N_BOOT))
    bend = (off**3).sum(axis=1) / (6.0 * (off**2).sum(axis=1) ** 1.5)
    places = []
    for z in (float(ndtri(0.025)), float(ndtri(0.975))):
        share = ndtr(bias + (bias + z) / (1.0 - bend * (bias + z)))
        places.append(np.clip(np.round(share * (N_BOOT - 1)), 0, N_BOOT - 1).astype(int))
    rows = np.arange(len(sampled))
    return {
        "Student's t": (mean - t * error, mean + t * error),
        "symmetric bootstrap-t (Hall 1988)": (mean - reach, mean + reach),
        "moved by the skewness (Johnson 1978)": (mean + moved - t * error, mean + moved + t * error),
        "cubic transformation (Hall 1992)": (mean - sd * unbent(t), mean - sd * unbent(-t)),
        "BCa (Efron 1987)": (mean + ordered[rows, places[0]], mean + ordered[rows, places[1]]),
    }


def alternatives(samples: int) -> str:
    """Intervals that were not chosen, on equal tasks."""
    lines = []
    for name in ("normal", "difference of two lognormals", "exponential", "lognormal, sigma 1"):
        draw, truth, _ = MEANS[name]
        rates: dict[str, list[float]] = {}
        for n in TASKS:
            rng, hits = np.random.default_rng([6, n]), {}
            for _ in range(samples // 1000):
                for method, (low, high) in rivals(draw(rng, (1000, n))).items():
                    own = int(((low <= truth) & (truth <= high)).sum())
                    hits[method] = hits.get(method, 0) + own
            for method, own in hits.items():
                rates.setdefault(method, []).append(own / (samples // 1000 * 1000))
        lines += [[name, method, *map(told, own)] for method, own in rates.items()]
    return table(["population", "interval", *(str(n) for n in TASKS)], lines)


def bootstrap_t_of_unequal(samples: int) -> str:
    """The symmetric bootstrap-t with the usual error, where one task has half of the rows."""
    lines = []
    for kind, sizes_of in SIZES.items():
        ours, theirs = [], []
        for n in TASKS[2:]:
            sizes, rng, hits, own = sizes_of(n), np.random.default_rng([7, n]), 0, 0
            share, task = sizes / sizes.sum(), np.repeat(np.arange(n), sizes)
            times = np.concatenate(list(draws(n, N_BOOT, 0)))
            for _ in range(samples):
                levels = rng.normal(size=n)
                around = mean_interval(levels[task], task, confidence=0.95).around
                hits += around.lower <= 0.0 <= around.upper  # type: ignore[operator]  # they are there
                estimate = float(share @ levels)
                sums = share * (levels - estimate)
                moved = times @ sums
                spread = np.sqrt(np.maximum(n / (n - 1) * (times @ sums**2 - moved**2 / n), 0.0))
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratio = np.where(spread > 1e-9, np.abs(moved) / spread, np.nan)
                reach = np.nanquantile(ratio, 0.95) * math.sqrt(n / (n - 1) * float((sums**2).sum()))
                own += abs(estimate) <= reach
            ours.append(hits / samples)
            theirs.append(own / samples)
        lines.append([kind, *map(told, ours), *map(told, theirs)])
    return table(["rows of a task", "10", "30", "bootstrap-t, 10", "bootstrap-t, 30"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000)
    samples = parser.parse_args().samples
    print(f"**Means of equal tasks** ({samples:,} samples)\n\n{means(samples)}\n")
    print(f"**Two sides of the same tasks** ({samples:,} samples)\n\n{two_sides(samples)}\n")
    print(f"**Means of rows in unequal tasks** ({samples // 4:,} samples)\n\n{unequal(samples // 4)}\n")
    print(f"**Pooled correlations** ({samples:,} samples)\n\n{pooled(samples)}\n")
    resampled = table(
        header("statistic"), [one_ranking(max(samples // 20, 1)), exponents(max(samples // 20, 1))]
    )
    print(f"**Percentiles of resampled tasks, widened** ({samples // 20:,} samples)\n\n{resampled}\n")
    print(f"**Other intervals, equal tasks** ({samples:,} samples)\n\n{alternatives(samples)}\n")
    few = samples // 10
    print(f"**Bootstrap-t, unequal tasks** ({few:,} samples)\n\n{bootstrap_t_of_unequal(few)}")


if __name__ == "__main__":
    main()
