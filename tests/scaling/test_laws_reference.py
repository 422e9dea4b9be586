"""Scaling laws: planted parameters come back, references agree, intervals cover, the right law is chosen."""

import math
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy import optimize, stats

import orchestrace as ot
from orchestrace.scaling.law_models import LAWS, Points
from samples.examples import examples

SIZES = np.geomspace(10.0, 10_000.0, 10)
POWER = {"scale": 2.0, "exponent": 0.7}
FALLING = {"limit": 1.0, "amplitude": 20.0, "rate": 0.8}
RISING = {"limit": 5.0, "amplitude": -8.0, "rate": 0.5}
BROKEN = {"scale": 3.0, "exponent": 0.5, "exponent_after": 1.4, "break": 300.0}
PLANTED = [("power", POWER), ("saturating", FALLING), ("saturating", RISING), ("broken_power", BROKEN)]

each_law = pytest.mark.parametrize(("model", "truth"), PLANTED, ids=["power", "falling", "rising", "broken"])
each_scale = pytest.mark.parametrize("errors", ["relative", "absolute"])


def curve(model: str, truth: dict[str, float], x: np.ndarray) -> np.ndarray:
    """The laws once more, from their definitions."""
    if model == "power":
        return truth["scale"] * x ** truth["exponent"]
    if model == "saturating":
        return truth["limit"] + truth["amplitude"] * x ** -truth["rate"]
    before = truth["scale"] * x ** truth["exponent"]
    joint = truth["scale"] * truth["break"] ** (truth["exponent"] - truth["exponent_after"])
    return np.where(x <= truth["break"], before, joint * x ** truth["exponent_after"])


def observed(
    model: str,
    truth: dict[str, float],
    errors: str,
    noise: float,
    seed: int,
    traces: int = 30,
    shared: float = 0.5,
) -> pl.DataFrame:
    """Runs that were measured at every size; a part of the noise is the run's own."""
    rng = np.random.default_rng([seed, len(model)])
    y = curve(model, truth, SIZES)
    off = noise * (rng.normal(size=(traces, SIZES.size)) + shared * rng.normal(size=(traces, 1)))
    seen = y * np.exp(off) if errors == "relative" else y + off
    return pl.DataFrame(
        {
            "trace_id": np.repeat([f"run {i}" for i in range(traces)], SIZES.size),
            "x": np.tile(SIZES, traces),
            "y": seen.ravel(),
        }
    )


def told(law: pl.DataFrame, model: str, column: str = "estimate") -> dict[str, float]:
    own = law.filter(pl.col("model") == model)
    return dict(zip(own["parameter"], own[column], strict=True))


@each_scale
@each_law
def test_an_exact_law_comes_back_to_the_digit(model, truth, errors) -> None:
    law = ot.scaling.fit_law(observed(model, truth, errors, 0.0, 0), x="x", y="y", errors=errors, n_boot=20)
    assert told(law, model) == pytest.approx(truth, rel=1e-5)
    assert law.filter(pl.col("chosen"))["model"].unique().to_list() == [model]
    assert told(law, model, "lower") == pytest.approx(truth, rel=1e-4)
    assert told(law, model, "upper") == pytest.approx(truth, rel=1e-4)
    assert law.filter(pl.col("model") == model)["heldout_error"][0] < 1e-6


@pytest.mark.statistical
@each_scale
@each_law
def test_the_right_law_is_chosen(model, truth, errors) -> None:
    """The rule of one standard error errs towards the simpler law, and where that is right, hardly ever."""
    right = 0
    for seed in range(20):
        table = observed(model, truth, errors, 0.1 if errors == "relative" else 0.3, seed)
        law = ot.scaling.fit_law(table, x="x", y="y", errors=errors, n_boot=1, seed=seed)
        right += law.filter(pl.col("chosen"))["model"].unique().to_list() == [model]
    # one standard error: for a nested law too many, at most the 16 % of a normal tail
    assert right >= 16, right


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("model", "truth", "errors"),
    [
        ("power", POWER, "relative"),
        ("power", POWER, "absolute"),
        ("saturating", FALLING, "relative"),
        ("saturating", RISING, "absolute"),
        ("broken_power", BROKEN, "relative"),
        ("broken_power", BROKEN, "absolute"),
    ],
)
def test_intervals_cover(model, truth, errors) -> None:
    """95 % intervals of 40 corpora of 12 runs each: 32 or fewer would be a matter of 1 in 4000."""
    inside = dict.fromkeys(truth, 0)
    for seed in range(40):
        table = observed(model, truth, errors, 0.1 if errors == "relative" else 0.3, seed, traces=12)
        law = ot.scaling.fit_law(table, x="x", y="y", models=[model], errors=errors, n_boot=120, seed=seed)
        low, high = told(law, model, "lower"), told(law, model, "upper")
        for name, value in truth.items():
            inside[name] += low[name] <= value <= high[name]
    assert min(inside.values()) >= 33, inside


def test_intervals_of_predictions_cover_and_widen() -> None:
    inside, widths = 0, []
    for seed in range(60):
        table = observed("power", POWER, "relative", 0.1, seed, traces=12)
        law = ot.scaling.fit_law(table, x="x", y="y", models=["power"], n_boot=200, seed=seed)
        said = ot.scaling.predict_law(law, [1000.0, 100_000.0])
        inside += said["lower"][1] <= 2.0 * 100_000.0**0.7 <= said["upper"][1]
        widths.append(np.log(said["upper"] / said["lower"]).to_numpy())  # type: ignore[attr-defined]
    assert inside >= 50
    assert np.mean(widths, axis=0)[1] > np.mean(widths, axis=0)[0]


def test_rows_of_one_run_do_not_count_as_many() -> None:
    """With noise that runs share, intervals over runs are as wide as theirs."""
    table = observed("power", POWER, "relative", 0.1, 0, traces=20, shared=3.0)
    width = []
    for cluster in ("trace_id", None):
        law = ot.scaling.fit_law(table, x="x", y="y", models=["power"], cluster=cluster)
        low, high = ot.scaling.predict_law(law, 316.0).select("lower", "upper").row(0)
        width.append(math.log(high / low))
    # in the middle of log x the error of a run is all there is: 0.3, and 0.1 of ten rows
    error = math.hypot(0.3, 0.1 / math.sqrt(10))
    assert width[0] == pytest.approx(2 * stats.t.ppf(0.975, 19) * error / math.sqrt(20), rel=0.35)
    assert width[1] == pytest.approx(width[0] / math.sqrt(10), rel=0.35)


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.floats(-2.0, 2.0)), min_size=6, max_size=60, unique_by=lambda r: r[1]
    ),
    st.integers(0, 2**31),
)
@examples(60)
def test_a_power_law_is_polyfit_in_logarithms(rows: list[tuple[int, float]], seed: int) -> None:
    x = np.array([2.0**size for size, _ in rows])
    y = np.exp([value for _, value in rows])
    table = pl.DataFrame({"x": x, "y": y})
    law = ot.scaling.fit_law(table, x="x", y="y", models=["power"], cluster=None, n_boot=1, seed=seed)
    if np.unique(x).size < 3:
        assert law["reason"].to_list() == ["support.absent"] * 2
        return
    slope, level = np.polyfit(np.log(x), np.log(y), 1)
    assert law["estimate"].to_list() == pytest.approx([math.exp(level), slope], rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**31), st.integers(5, 14))
@examples(60)
def test_two_lines_that_meet_are_the_best_of_all(seed: int, n: int) -> None:
    """No place of the break on a fine grid has a smaller sum of squares."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.uniform(-3.0, 3.0, n))
    points = Points(z, rng.integers(1, 5, n).astype(float), rng.normal(size=n), 0.0, True)
    law = LAWS["broken_power"]
    theta = law.fit(points)
    if not law.identified(theta, points):
        # slopes of hundreds, between points that nearly touch
        assert (theta[0] < np.finfo(float).tiny or theta[0] == np.inf) and np.diff(z).min() < 0.05
        return
    ours = points.loss(np.log(law.curve(theta, z)))
    weight = np.sqrt(points.weight)
    for knot in np.linspace(z[1], z[-2], 400):
        basis = np.column_stack([np.ones(n), np.minimum(z - knot, 0.0), np.maximum(z - knot, 0.0)])
        solved, *_ = np.linalg.lstsq(basis * weight[:, None], points.target * weight, rcond=None)
        assert ours <= points.loss(basis @ solved) + 1e-9


@each_scale
@pytest.mark.parametrize("truth", [FALLING, RISING])
def test_a_saturating_law_is_that_of_a_general_optimizer(truth, errors) -> None:
    """Differential evolution knows nothing of starts, projections or parametrizations."""
    table = observed("saturating", truth, errors, 0.1, 3)
    x, y = table["x"].to_numpy(), table["y"].to_numpy()

    def loss(p: np.ndarray) -> float:
        said = p[0] + p[1] * x ** -p[2]
        if errors == "absolute":
            return float(np.square(said - y).sum())
        return float(np.square(np.log(said) - np.log(y)).sum()) if (said > 0).all() else 1e9

    sign = math.copysign(1.0, truth["amplitude"])
    bounds = [(0.01, 20.0), tuple(sorted((0.1 * sign, 80.0 * sign))), (0.05, 3.0)]
    best = optimize.differential_evolution(loss, bounds, seed=1, tol=1e-12, maxiter=3000, polish=True)
    law = told(
        ot.scaling.fit_law(table, x="x", y="y", models=["saturating"], errors=errors, n_boot=1), "saturating"
    )
    ours = loss(np.array(list(law.values())))
    assert ours <= best.fun * (1 + 1e-9)
    assert list(law.values()) == pytest.approx(best.x.tolist(), rel=1e-3)


@pytest.mark.parametrize("model", ["power", "broken_power"])
def test_absolute_errors_are_those_of_a_general_optimizer(model) -> None:
    truth = dict(PLANTED)[model]
    table = observed(model, truth, "absolute", 0.3, 4)
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    names = list(truth)

    def loss(p: np.ndarray) -> float:
        return float(np.square(curve(model, dict(zip(names, p, strict=True)), x) - y).sum())

    bounds = [(0.5, 6.0), (0.1, 2.0), (0.5, 2.5), (30.0, 3000.0)][: len(names)]
    best = optimize.differential_evolution(loss, bounds, seed=1, tol=1e-12, maxiter=3000, polish=True)
    law = told(ot.scaling.fit_law(table, x="x", y="y", models=[model], errors="absolute", n_boot=1), model)
    assert loss(np.array(list(law.values()))) <= best.fun * (1 + 1e-7)


@each_scale
@examples(12)
@given(seed=st.integers(0, 2**31))
def test_the_order_of_rows_and_names_of_other_columns_do_not_matter(errors: str, seed: int) -> None:
    table = observed("power", POWER, errors, 0.1, seed % 1000, traces=6).with_columns(group=pl.lit("a"))
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=seed % 2**20).select(
        "y", "group", "x", "trace_id"
    )
    options = {"x": "x", "y": "y", "errors": errors, "n_boot": 5, "seed": seed, "by": None}
    assert ot.scaling.fit_law(table, **options).equals(ot.scaling.fit_law(shuffled, **options))


@pytest.mark.parametrize("factor", [1e-6, 1e6])
@each_scale
@each_law
def test_units_of_x_and_y_move_parameters_as_they_must(model, truth, errors, factor) -> None:
    table = observed(model, truth, errors, 0.02, 5)
    options: dict[str, object] = {"models": [model], "errors": errors, "n_boot": 1}
    plain = told(ot.scaling.fit_law(table, x="x", y="y", **options), model)
    scaled: Callable[[str], pl.DataFrame] = lambda name: table.with_columns(pl.col(name) * factor)  # noqa: E731
    up = told(ot.scaling.fit_law(scaled("y"), x="x", y="y", **options), model)
    for name in plain:
        times = factor if name in ("scale", "limit", "amplitude") else 1.0
        assert up[name] == pytest.approx(plain[name] * times, rel=2e-4), name
    wide = told(ot.scaling.fit_law(scaled("x"), x="x", y="y", **options), model)
    moved = dict(plain)
    if "scale" in moved:
        moved["scale"] *= factor ** -plain["exponent"]
    if "break" in moved:
        moved["break"] *= factor
    if "rate" in moved:
        moved["amplitude"] *= factor ** plain["rate"]
    assert wide == pytest.approx(moved, rel=2e-3)


@each_scale
def test_the_held_out_error_is_that_of_laws_fitted_without_the_run(errors) -> None:
    """Two runs are two folds: each is predicted by the other."""
    table = observed("power", POWER, errors, 0.2, 7, traces=2)
    law = ot.scaling.fit_law(table, x="x", y="y", models=["power"], errors=errors, n_boot=1)
    off = []
    for run in ("run 0", "run 1"):
        other, own = (
            table.filter((pl.col("trace_id") == run) == mine).select("x", "y").to_numpy().T
            for mine in (False, True)
        )
        if errors == "relative":
            slope, level = np.polyfit(np.log(other[0]), np.log(other[1]), 1)
            off.append(np.log(own[1]) - level - slope * np.log(own[0]))
        else:
            fitted, _ = optimize.curve_fit(lambda x, a, b: a * x**b, *other, p0=[2.0, 0.7])
            off.append(own[1] - fitted[0] * own[0] ** fitted[1])
    assert law["heldout_error"].to_list() == pytest.approx([np.sqrt(np.mean(np.square(off)))] * 2, rel=1e-5)
