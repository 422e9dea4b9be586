"""Guarantees of stopping rules on planted runs: rates over many calibrations, adversaries who may look."""

import math

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

import orchestrace as ot
from orchestrace.stopping.ratio import Ratio
from orchestrace.stopping.runs import Runs
from reference.stopping import Run
from samples.scored_runs import GRID, drawn, planted, steps, true_ratio

SCORE = -pl.col("s")
EPOCHS = 3  # of each run, where rates are computed exactly

pytestmark = pytest.mark.statistical


def epochs_of(runs: list[Run]) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens")


def table(scores: np.ndarray, success: bool) -> pl.DataFrame:
    """Epochs of runs of equal length, (runs, epochs) scores."""
    return laid_out(list(scores), np.full(len(scores), success))


def laid_out(scores: list[np.ndarray], won: np.ndarray) -> pl.DataFrame:
    """Epochs of runs with these scores; what `from_frame` would make of them, without its checks."""
    length = np.array([len(one) for one in scores])
    trace = np.repeat(np.arange(len(scores)), length)
    ids = pl.Series(np.char.add("r", trace.astype(str)))
    k = np.concatenate([np.arange(1, n + 1) for n in length])
    columns = {"trace": trace, "trace_id": ids, "task_id": ids, "k": k, "s": np.concatenate(scores)}
    return pl.DataFrame(columns | {"y": won[trace].astype(float)})


def planted_epochs(rng: np.random.Generator, n: int) -> pl.DataFrame:
    """Epochs of n planted runs of which about 60 in 100 succeed."""
    won = np.sort(rng.random(n) < 0.6)
    return laid_out([*drawn(rng, int((~won).sum()), False), *drawn(rng, int(won.sum()), True)], won)


def rates(method: str, alpha: float, n: int, confidence: float | None = None) -> np.ndarray:
    """The exact false-alarm rate of the rule of each of 200 calibrations of n successful runs."""
    rng = np.random.default_rng(11)
    found = []
    for _ in range(200):
        epochs = table(rng.normal(size=(n, EPOCHS)), True)
        rule = ot.stopping.fit_abort(
            epochs, evidence=SCORE, method=method, alpha=alpha, confidence=confidence
        )
        found.append(0.0 if rule.threshold is None else 1.0 - norm.cdf(rule.threshold) ** EPOCHS)
    return np.array(found)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_conformal_keeps_the_rate_on_average(alpha: float) -> None:
    n = 60
    found = rates("conformal", alpha, n)
    rank = math.ceil((n + 1) * (1 - alpha))
    expected = 1 - rank / (n + 1)  # the mean over calibrations, whatever the distribution
    assert expected <= alpha
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / 200**0.5
    assert 0.25 < (found > alpha).mean() < 0.65  # no promise for a single calibration


def test_pac_keeps_the_rate_for_nearly_every_calibration() -> None:
    alpha = 0.2
    found = rates("pac", alpha, 120)
    # at most a share of 0.02 of 200 calibrations: 9 or more have a chance below 0.02
    assert (found > 0.9 * alpha).sum() <= 8
    assert found.mean() > 0.05


def test_a_confidence_keeps_the_rate_for_that_share_of_calibrations() -> None:
    found = rates("conformal", 0.2, 120, confidence=0.9)
    assert (found > 0.2).mean() < 0.1 + 3 * (0.09 / 200) ** 0.5
    assert found.mean() > 0.1


@pytest.mark.parametrize(("ties", "low", "high"), [("random", 0.19, 0.212), ("strict", 0.0, 0.16)])
def test_random_ties_restore_the_level(ties: str, low: float, high: float) -> None:
    """Scores of five values: with strict thresholds the rate is that of the next higher value."""
    rng = np.random.default_rng(12)
    found = []
    for _ in range(40):
        chance = rng.choice(GRID, size=(599, EPOCHS), p=[0.02, 0.08, 0.3, 0.3, 0.3])
        epochs = table(chance, True)
        fit, new = epochs.filter(pl.col("trace") < 299), epochs.filter(pl.col("trace") >= 299)
        rule = ot.stopping.fit_abort(fit, evidence=SCORE, alpha=0.2, ties=ties)
        alarms = rule.apply(new).group_by("trace").agg(pl.col("alarm").any())["alarm"]
        found.append(float(alarms.mean()))
    assert low < np.mean(found) < high


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["conformal", "pac"])
def test_fitted_rules_keep_the_rate_over_planted_corpora(method: str) -> None:
    """Evidence fitted, thresholds calibrated, new runs judged: 200 corpora of planted runs."""
    alpha, rng, alarms, won = 0.2, np.random.default_rng(13), 0, 0
    for seed in range(200):
        fit = planted_epochs(rng, 100)
        rule = ot.stopping.fit_abort(fit, method=method, alpha=alpha, evidence="ratio", seed=seed)
        new = laid_out(drawn(rng, 50, True), np.full(50, True))
        alarms, won = alarms + rule.apply(new).filter("alarm").height, won + 50
    # runs of one corpus share a threshold, so the error is larger than that of independent runs
    assert alarms / won <= alpha + 3 * (alpha * (1 - alpha) / won) ** 0.5 * 2
    assert alarms / won > (0.1 if method == "conformal" else 0.005)


@pytest.mark.parametrize("survival", [False, True])
@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.2])
def test_nobody_who_looks_at_every_epoch_finds_more_false_alarms(alpha: float, survival: bool) -> None:
    """10,000 successful runs, the true ratio, and an adversary who stops where it is highest."""
    values, runs = null_values(survival)
    highest = runs.most(values)
    rate = float((highest >= -math.log(alpha)).mean())
    assert rate <= alpha + 3 * (alpha * (1 - alpha) / 10_000) ** 0.5
    assert rate > alpha / 8  # the bound is used, if not exhausted


def null_values(survival: bool) -> tuple[np.ndarray, Runs]:
    rng = np.random.default_rng(14)
    scores = drawn(rng, 10_000, True)
    runs = [
        Run(f"r{at:05}", one.tolist(), [k + 1.0 for k in range(len(one))], True, f"r{at:05}")
        for at, one in enumerate(scores)
    ]
    laid = Runs.of(epochs_of(runs))
    return true_ratio(survival).of(laid), laid


@pytest.mark.parametrize("survival", [False, True])
def test_an_e_value_has_mean_one_at_most_wherever_it_is_stopped(survival: bool) -> None:
    values, runs = null_values(survival)
    e = np.exp(values)
    for bound in (1.2, 2.0, 5.0):
        # stop at the first value above it; a run that has ended before is worth nothing
        at = runs.first(e >= bound)
        stopped = np.where(at >= 0, e[np.maximum(at, 0)], 0.0)
        assert stopped.mean() <= 1 + 4 * stopped.std() / 100


def test_the_survival_ratio_raises_more_alarms_in_failed_runs() -> None:
    rng = np.random.default_rng(15)
    scores = drawn(rng, 3000, False)
    runs = [
        Run(f"r{at:05}", one.tolist(), [k + 1.0 for k in range(len(one))], False, f"r{at:05}")
        for at, one in enumerate(scores)
    ]
    laid = Runs.of(epochs_of(runs))
    power = [(laid.most(true_ratio(survival).of(laid)) >= math.log(10)).mean() for survival in (False, True)]
    assert power[1] > power[0] + 0.03


def test_a_fitted_ratio_nears_the_true_one() -> None:
    rng = np.random.default_rng(16)
    fit = Ratio.fitted(Runs.of(epochs_of(planted(rng, 6000, share=0.5))), 1.0, True)
    new = Runs.of(epochs_of(planted(rng, 500)))
    early = new.k <= 3
    gap = (fit.of(new) - true_ratio(True).of(new))[early]
    assert abs(gap.mean()) < 0.15 and gap.std() < 0.35


@pytest.mark.parametrize("method", ["conformal", "pac", "ville"])
def test_where_outcomes_mean_nothing_power_is_the_false_alarm_rate(method: str) -> None:
    """Outcomes permuted over runs, in both parts; what is learnt is noise."""
    rng = np.random.default_rng(17)
    epochs = epochs_of(planted(rng, 300))
    runs = epochs.select("trace", "y").unique(maintain_order=True)
    gaps = []
    for seed in range(40):
        y = pl.Series(rng.permutation(runs["y"].to_numpy()))
        mixed = epochs.drop("y").join(runs.select("trace", y=y), on="trace", maintain_order="left")
        fit, new = mixed.filter(pl.col("trace") < 150), mixed.filter(pl.col("trace") >= 150)
        rule = ot.stopping.fit_abort(fit, method=method, alpha=0.3, evidence="ratio", seed=seed)
        row = ot.stopping.evaluate_abort(new, rule, n_boot=1).row(0, named=True)
        gaps.append(row["power"] - row["far"])
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / 40**0.5
    assert np.std(gaps) > 0.0


def test_releases_on_tasks_without_a_solution_stay_below_alpha() -> None:
    rng, alpha, released, n = np.random.default_rng(18), 0.2, 0, 0
    for _ in range(200):
        scores = rng.normal(size=(70, EPOCHS))
        epochs = table(scores, False)
        rule = ot.stopping.fit_release(epochs.filter(pl.col("trace") < 40), alpha=alpha)
        found = rule.apply(epochs.filter(pl.col("trace") >= 40))
        released, n = released + found["release"].sum(), n + 30
    expected = math.floor(alpha * 41) / 41
    assert abs(released / n - expected) < 0.02
