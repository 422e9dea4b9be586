"""Diffusion of credit in long runs: the law, measured and in theory, and the rollouts it costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, overload

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Amount, Confidence, Integer, Power, Resamples, Seed, Size, Threads
from ..base.checks import expect, expect_each
from ..base.errors import ParameterError
from ..base.ranges import in_range
from ..base.schema import CREDITS, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..credit.verb import credit
from ..statistics.influence import mean_interval
from ..synthetic.planting import planted
from .laws import REASONS, fit_law

Source = Literal["planted", "simulated"]

_CELLS: Final = 1 << 20  # contributions that are simulated at once
_CURVE: Final = {
    "n": pl.UInt32(),
    "units": pl.Float64(),
    "sigma": pl.Float64(),
    "correlation": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "theory": pl.Float64(),
    "rollouts": pl.UInt64(),
    "rollouts_theory": pl.UInt64(),
    "reason": CREDITS["reason"],
}
_SLOPE: Final = {
    "source": pl.Enum(["planted", "simulated"]),
    "method": pl.String(),
    "slope": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "theory": pl.Float64(),
    "agrees": pl.Boolean(),
    "n_replicates": pl.UInt32(),
    "reason": REASONS,
}


@overload
def rollouts_needed(
    n: int, *, block: Size | None = None, noise: Amount = 0.0, alpha: Alpha = 0.05, power: Power = 0.8
) -> int: ...
@overload
def rollouts_needed(
    n: Sequence[int],
    *,
    block: Size | None = None,
    noise: Amount = 0.0,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
) -> list[int]: ...
@verb
def rollouts_needed(
    n: int | Sequence[int],
    *,
    block: Size | None = None,
    noise: Amount = 0.0,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
) -> int | list[int]:
    """Compute how many rollouts broadcast credit needs to show what one of n equal units contributes.

    Parameters
    ----------
    n
        How many units the reward is shared by, from 1: steps, agents; or several such numbers.
    block
        How many neighbors have a reward of their own; None for one reward for all.
    noise
        Standard deviation of what is added to a reward, in standard deviations of a unit's contribution.
    alpha, power
        Level of the two-sided test, and how likely it is to see the contribution, both between 0 and 1.

    Returns
    -------
    int or list of int
        Rollouts, for each n.

    Raises
    ------
    ParameterError
        A number out of its range.

    Notes
    -----
    N = (z_{1-alpha/2} + z_power)² / rho², rounded up, with rho² = 1 / (units + noise²), where units is n, or
    `block` where that is smaller. O(1) each.

    Source: sample size for a correlation by its normal approximation, Cohen 1988, chapter 3; the noise model
    is this project's own.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.scaling.rollouts_needed([10, 100, 1000, 4000])
    [79, 785, 7849, 31396]
    >>> ot.scaling.rollouts_needed(4000, block=10)
    79
    """
    reach = _reach(alpha, power)
    if isinstance(n, Sequence):
        return [rollouts_needed(size, block=block, noise=noise, alpha=alpha, power=power) for size in n]
    expect("n", n, Integer(1))
    units = n if block is None else min(n, block)
    if not math.isfinite(reach * reach * (units + noise * noise)):
        raise ParameterError(f"noise is {noise}, expected a number whose square a float can hold")
    return _sample_size(reach, units + noise * noise)


def rollouts_at(correlation: float | None) -> int | None:
    """Rollouts to see a correlation at 5 % and 80 %; None where it is unknown or not above 0, or where it
    takes 2⁶³ of them: no number is known to be enough."""
    if correlation is None or not correlation > 0.0:
        return None
    reach = _reach(0.05, 0.8)
    return _sample_size(reach, (1.0 / correlation) ** 2) if reach / correlation < 2.0**31.5 else None


def _sample_size(reach: float, inverse: float) -> int:
    """(z_{1-alpha/2} + z_power)² / rho², rounded up; `inverse` is 1 / rho²."""
    return math.ceil(reach * reach * inverse)


@dataclass(frozen=True)
class DiffusionLaw:
    """Results of `scaling.diffusion_law`.

    Attributes
    ----------
    points
        A row for each replicate and length: ``replicate`` (u32), ``n`` (u32), ``correlation`` (f64).
    curve
        A row for each length: ``n``, ``units`` that share a reward (f64), ``sigma`` (f64, standard deviation
        of their contributions), mean ``correlation`` with ``lower upper`` (Wilson's interval in -1..1 with
        Student's t over replicates), the ``theory``, and the ``rollouts`` needed (u64, at 5 % and 80 %) by
        the one and by the other, null for a correlation that is not above 0; ``reason``: ``support.absent``
        where fewer than two replicates have a correlation, so that ``lower upper`` are null.
    slope
        One row: ``source method``, the ``slope`` of log correlation on log n with ``lower upper``, that of
        the ``theory`` at the same lengths, whether the interval ``agrees`` with it, ``n_replicates``,
        ``reason``.
    """

    points: pl.DataFrame
    curve: pl.DataFrame
    slope: pl.DataFrame


@verb
def diffusion_law(
    lengths: Sequence[int] = (8, 16, 32, 64, 128),
    *,
    source: Source = "planted",
    method: str = "broadcast",
    params: Mapping[str, Any] | None = None,
    block: Size | None = None,
    noise: Amount = 0.0,
    rollouts: Annotated[int, Integer(2)] = 400,
    replicates: Size = 10,
    group_size: Size = 1,
    n_boot: Resamples = 2000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    threads: Threads = None,
) -> DiffusionLaw:
    """Measure how credit loses sight of single events as runs get longer, beside what theory says.

    Parameters
    ----------
    lengths
        Events per run, from 1; at least three for a slope.
    source
        ``"planted"``: corpora of `synthetic.planted`, credited by `credit`. ``"simulated"``: the noise model
        itself, without corpora.
    method, params
        What credits events of planted corpora. The theory is that of ``broadcast``.
    block
        Credit is not the reward of the run but that of so many consecutive events: in planted corpora the sum
        of their field ``reward``.
    noise
        Standard deviation of what is added to each reward, in its units. A contribution has the standard
        deviation 1 in the simulation, and ``curve.sigma`` in planted corpora. Rewards of planted blocks have
        no noise.
    rollouts, replicates
        Runs for each correlation, and how many of those, from seeds of their own.
    group_size
        Rollouts of one task in planted corpora, for methods that compare them.
    n_boot, confidence, seed
        Resamples of replicates for the interval of the slope, coverage of all intervals, and the seed.
    threads
        As in `credit`; no result depends on it.

    Returns
    -------
    DiffusionLaw
        Frames ``points``, ``curve`` and ``slope``. The slope and its interval are null, with a ``reason``,
        for fewer than three lengths (``support.absent``), where a correlation is not above 0
        (``y.not_positive``), the interval for fewer than 5 replicates (``clusters.few``).

    Raises
    ------
    ParameterError
        An option out of its range, or options that do not go together.

    Notes
    -----
    R = sum of n contributions c_j + noise, all independent: the correlation of c_i with R is sigma_i /
    sqrt(sum sigma_j² + sigma_noise²), for equal units without noise n^(-1/2). Credit of blocks has the size
    of the block in the place of n, and a correlation sqrt(n/block) times as large. The measured one is pooled
    over all events of a replicate; the slope is that of `scaling.fit_law`, the mean of the replicates'
    least-squares slopes. O(replicates * rollouts * sum of lengths), plus what the method costs.

    Source: this project's own noise model for the loss of signal that arXiv 2605.02801 states without a rate.

    Examples
    --------
    >>> import orchestrace as ot
    >>> law = ot.scaling.diffusion_law([4, 16, 64], source="simulated", rollouts=200, replicates=8)
    >>> law.slope["theory"][0], law.slope["agrees"][0]
    (-0.5, True)
    >>> law.curve["rollouts_theory"].to_list()
    [32, 126, 503]
    """
    sizes = _check_lengths(lengths)
    if source == "simulated" and (method != "broadcast" or params or group_size != 1):
        raise ParameterError("method, params and group_size need source='planted'")
    if source == "planted" and block is not None:
        if method != "broadcast" or params:
            raise ParameterError("block takes the place of a method: leave one of them out")
        if noise:
            raise ParameterError("rewards of planted blocks have no noise: source='simulated'")
    rows = []
    for replicate in range(replicates):
        for n in sizes:
            cell_seed = _seed(seed, replicate, n)
            if source == "simulated":
                correlation, sigma = _simulated(n, block, noise, rollouts, cell_seed), 1.0
            else:
                planted = {"traces": rollouts, "group_size": group_size, "noise": noise, "seed": cell_seed}
                correlation, sigma = _planted(n, block, planted, method, dict(params or {}), threads)
            rows.append((replicate, n, correlation, sigma))
    types = {"replicate": pl.UInt32(), "n": pl.UInt32(), "correlation": pl.Float64(), "sigma": pl.Float64()}
    measured = pl.DataFrame(rows, types, orient="row").with_columns(pl.col("correlation").fill_nan(None))
    curve = _curve(measured, block, noise, confidence)
    name = method if block is None else f"block of {block}"
    slope = _slope(measured, curve, n_boot, confidence, seed)
    row = {"source": source, "method": name, "n_replicates": replicates, **slope}
    return DiffusionLaw(
        points=measured.drop("sigma"), curve=curve, slope=pl.DataFrame([row], _SLOPE, orient="row")
    )


@verb
def credit_snr(
    corpus: Corpus, credits: pl.DataFrame | pl.LazyFrame, *, by: str | Sequence[str] = "type"
) -> pl.DataFrame:
    """Measure how far the mean credit of a kind of event stands out from its spread, group by group.

    Parameters
    ----------
    corpus
        The recordings.
    credits
        What `credit` returned for them at ``unit="event"``, of one method.
    by
        Columns of ``events`` that make a class: ``type``, ``action``, ``tool``, ``role``.

    Returns
    -------
    DataFrame
        A row for each group and class in ascending order: ``group_id``, the columns of `by`, ``events``
        (mean events per rollout of the group), ``snr`` (how far the mean of the class is from that of all
        events of the group, which is 0 for an advantage, in standard deviations of the class), ``floor``
        (what that would be on average if credit knew nothing of the class), all Float64; ``n_rollouts
        n_events`` (UInt32) and ``reason``: ``support.absent`` with fewer than two rollouts that have the
        class, ``group.degenerate`` where its credit has no spread, ``result.range`` where a ratio is beyond
        the floats.

    Raises
    ------
    ParameterError
        Credits are of another unit, of several methods, or of other recordings, or a column does not exist.

    Notes
    -----
    Moments are over all events of the class in the group, the deviation with the divisor n_events. Credit
    that a rollout gives all its events alike is one observation, not many: the error of the difference of
    means is that over rollouts, and ``floor`` is sqrt(2/pi) of it, in standard deviations. An ``snr`` near
    its floor says
    nothing, however long the runs are. Events without a class or credit are left out.

    By the diffusion law the ratio falls with the root of ``events``. Near the floor it falls too slowly,
    since no mean is exactly 0; ``snr**2 - pi/2 * floor**2`` has no such bias, may be below 0, and falls as
    1 / events: `scaling.fit_law` with absolute errors and ``cluster="group_id"`` measures that. O(rows).

    Source: signal-to-noise ratio of an advantage, arXiv 2605.02801, section 4.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> table = ot.scaling.credit_snr(corpus, ot.credit(corpus, method="grpo", unit="event"))
    >>> table.columns
    ['group_id', 'type', 'events', 'snr', 'floor', 'n_rollouts', 'n_events', 'reason']
    >>> bool((table["snr"].drop_nulls() > 0).all())
    True
    """
    keys = [by] if isinstance(by, str) else list(by)
    names = corpus.events.collect_schema().names()
    for key in keys:
        if key not in names:
            raise ParameterError(unknown_name("column of events", str(key), names))
    rows = collected(credits, "credits", ("trace", "unit", "unit_id", "credit", "method"))
    if rows["unit"].drop_nulls().unique().to_list() not in ([], ["event"]):
        raise ParameterError("credits are not of events: credit(..., unit='event')")
    if rows["method"].n_unique() > 1:
        raise ParameterError("credits are of several methods: filter them by 'method'")
    ids = pl.col("id").cast(pl.String).alias("unit_id")
    events = corpus.events.select("trace", ids, *keys).collect(engine="streaming")
    named = pl.col("trace_id", "group_id").cast(pl.String)
    traces = corpus.traces.select("trace", named, "n_events").collect()
    paid = rows.select("trace", pl.col("unit_id").cast(pl.String), "credit").drop_nulls()
    valued = paid.join(events, on=["trace", "unit_id"], how="inner")
    if valued.height < paid.height:
        raise ParameterError("credits name events that the corpus does not have: pass the corpus they are of")
    valued = _scaled(valued.join(traces, on="trace").sort("group_id", "trace_id", "trace", "unit_id"))
    credit, away = pl.col("credit"), pl.col("credit") - pl.col("mean")
    # of every rollout, how much it moves the mean of its group; and of a class
    runs = valued.with_columns(mean=credit.mean().over("group_id"), size=pl.len().over("group_id"))
    runs = runs.group_by("group_id", "trace", maintain_order=True).agg(
        pl.col("mean", "n_events").first(), moves=(away / pl.col("size")).sum()
    )
    groups = runs.group_by("group_id", maintain_order=True).agg(
        level=pl.col("mean").first(),
        events=pl.col("n_events").mean(),
        runs=pl.len(),
        moved=(pl.col("moves") ** 2).sum(),
    )
    place = ["group_id", *keys]
    classed = valued.drop_nulls(keys).with_columns(mean=credit.mean().over(place), size=pl.len().over(place))
    parts = classed.group_by(*place, "trace", maintain_order=True).agg(own=(away / pl.col("size")).sum())
    parts = parts.join(runs.select("trace", "moves"), on="trace", maintain_order="left")
    moved = parts.group_by(place, maintain_order=True).agg(
        n_rollouts=pl.len().cast(pl.UInt32),
        change=(pl.col("own") * (pl.col("own") - 2 * pl.col("moves"))).sum(),
    )
    table = (
        classed.group_by(place, maintain_order=True)
        .agg(
            n_events=pl.len().cast(pl.UInt32),
            mean=pl.col("mean").first(),
            sd=credit.std(ddof=0),
            flat=credit.max() == credit.min(),
        )
        .join(moved, on=place, maintain_order="left")
        .join(groups, on="group_id", maintain_order="left")
        .sort(place)
    )
    few = pl.col("n_rollouts") < 2
    reason = pl.when(few).then(pl.lit("support.absent")).when("flat").then(pl.lit("group.degenerate"))
    # rounding may leave less than nothing
    variance = pl.max_horizontal(pl.col("moved") + pl.col("change"), 0.0)
    error = (variance * pl.col("runs") / (pl.col("runs") - 1)).sqrt()
    defined = pl.when(~(few | pl.col("flat")))
    ratios = table.select(
        *place,
        "events",
        snr=defined.then((pl.col("mean") - pl.col("level")).abs() / pl.col("sd")),
        floor=defined.then(math.sqrt(2.0 / math.pi) * error / pl.col("sd")),
        n_rollouts="n_rollouts",
        n_events="n_events",
        reason=reason.cast(CREDITS["reason"]),
    )
    return in_range(ratios, ["snr", "floor"])


def _scaled(rows: pl.DataFrame) -> pl.DataFrame:
    """Credit divided by a power of two in each group: ratios stay, and no square is beyond the floats."""
    largest = rows.select(pl.col("credit").abs().max().over("group_id")).to_series().to_numpy()
    _, exponents = np.frexp(largest)
    return rows.with_columns(credit=pl.Series(np.ldexp(rows["credit"].to_numpy(), -exponents)))


def _check_lengths(lengths: Sequence[int]) -> list[int]:
    """Distinct, ascending."""
    sizes = [lengths] if isinstance(lengths, int) else list(lengths)
    if not sizes:
        raise ParameterError("lengths is empty, expected numbers of events")
    expect_each("lengths", sizes, Integer(1, 2**31 - 1))
    return sorted({int(n) for n in sizes})


def _seed(seed: int, replicate: int, n: int) -> int:
    """A seed of its own for each measurement."""
    return int(np.random.SeedSequence([seed, replicate, n]).generate_state(1, np.uint64)[0]) >> 1


def _units(n: int, block: int | None) -> float:
    """How many units share the reward of a unit, on average over units; the last block may be shorter."""
    if block is None or block >= n:
        return float(n)
    blocks, rest = divmod(n, block)
    return (blocks * block * block + rest * rest) / n


def _simulated(n: int, block: int | None, noise: float, rollouts: int, seed: int) -> float:
    """Correlation of normal contributions with the noisy reward of their block."""
    rng = np.random.Generator(np.random.PCG64(seed))
    starts = np.arange(0, n, n if block is None else block)
    of = np.repeat(np.arange(starts.size), np.diff(np.append(starts, n)))
    moments = np.zeros(5)
    for first in range(0, rollouts, max(1, _CELLS // n)):
        size = min(max(1, _CELLS // n), rollouts - first)
        true = rng.standard_normal((size, n))
        paid = np.add.reduceat(true, starts, axis=1)
        paid += noise * rng.standard_normal(paid.shape)
        seen = paid[:, of]
        moments += [a.sum() for a in (true, seen, true * true, seen * seen, true * seen)]
    x, y, xx, yy, xy = moments / (rollouts * n)
    return float((xy - x * y) / math.sqrt((xx - x * x) * (yy - y * y)))


def _planted(
    n: int,
    block: int | None,
    options: dict[str, Any],
    method: str,
    params: dict[str, Any],
    threads: int | None,
) -> tuple[float, float]:
    """Correlation of credit with planted contributions, and the standard deviation of these."""
    corpus, truth = planted(
        agents=1,
        events=n,
        density=1.0,
        decisive=0.0,
        dense=block is not None,
        threads=threads,
        **options,
    )
    if block is None:
        rows = credit(corpus, method=method, unit="event", threads=threads, **params).drop_nulls("credit")
        paid = rows.select("trace", "seq", "credit")
    else:
        share = pl.col("reward").sum().over("trace", pl.col("seq") // block)
        paid = corpus.events.select("trace", "seq", "reward").collect().select("trace", "seq", credit=share)
    both = paid.join(truth.contributions, on=["trace", "seq"], maintain_order="left")
    x, y = both["credit"].to_numpy(), both["contribution"].to_numpy()
    sigma = float(y.std()) if y.size else math.nan
    if x.size < 2 or x.min() == x.max() or sigma == 0.0:
        return math.nan, sigma
    x, y = x - x.mean(), y - y.mean()
    # not by BLAS, whose sums depend on the number of its threads
    return float(np.einsum("i,i->", x, y) / (x.size * x.std() * y.std())), sigma


def _curve(measured: pl.DataFrame, block: int | None, noise: float, confidence: float) -> pl.DataFrame:
    """Measured and expected correlation of each length."""
    rows = []
    for (n,), of_length in measured.group_by("n", maintain_order=True):
        values = of_length["correlation"].cast(pl.Float64).fill_null(math.nan).to_numpy()
        averaged = mean_interval(
            values, of_length["replicate"].to_numpy(), confidence=confidence, within=(-1.0, 1.0)
        )
        mean, around = averaged.estimate, averaged.around
        units, sigma = _units(int(str(n)), block), float(of_length["sigma"].to_numpy().mean())
        row: dict[str, Any] = {"n": n, "units": units, "sigma": sigma, "correlation": mean}
        row |= {"lower": around.lower, "upper": around.upper, "reason": around.reason}
        ratio = noise / sigma if sigma > 0.0 else math.inf
        row["theory"] = 1.0 / math.sqrt(units + ratio * ratio)
        row["rollouts_theory"] = rollouts_at(row["theory"])
        row["rollouts"] = rollouts_at(mean)
        rows.append(row)
    return pl.DataFrame(rows, _CURVE, orient="row").sort("n")


def _slope(
    measured: pl.DataFrame, curve: pl.DataFrame, n_boot: int, confidence: float, seed: int
) -> dict[str, Any]:
    """The measured slope, its interval and whether that has the slope of the theory."""
    law = fit_law(
        measured,
        x="n",
        y="correlation",
        models=["power"],
        cluster="replicate",
        n_boot=n_boot,
        confidence=confidence,
        seed=seed,
    ).row(1, named=True)
    row = {"slope": law["estimate"], "lower": law["lower"], "upper": law["upper"], "reason": law["reason"]}
    if curve.height < 2:
        return row
    x, y = np.log(curve["n"].to_numpy()), np.log(curve["theory"].to_numpy())
    x = x - x.mean()
    # rounded, so that -1/2 is -1/2
    row["theory"] = theory = round(float((x * y).sum() / (x * x).sum()), 12) + 0.0
    if law["lower"] is not None:
        row["agrees"] = law["lower"] <= theory <= law["upper"]
    return row


def _reach(alpha: float, power: float) -> float:
    """How many standard errors an effect has to have."""
    from scipy.special import ndtri

    reach = float(ndtri(1.0 - alpha / 2.0)) + float(ndtri(power))
    if reach <= 0.0:
        raise ParameterError(f"power {power} is reached by chance at alpha {alpha}: ask for more")
    return reach
