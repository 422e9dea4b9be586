"""False alarms of abort rules with ``cross=True``, calibration by calibration.

docs/stopping.md has the figures of 200 calibrations. Populations are those of `scored_runs`, and one whose
outcomes are easy to tell apart: models of its folds differ in scale. There a threshold among evidence out of
fold, put to a model of all runs, lets single calibrations cut more than half of the successful runs.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.statistics.folds import folds_over
from orchestrace.stopping.pooled import FOLDS, Pooled
from orchestrace.stopping.ratio import Ratio
from orchestrace.stopping.runs import Runs
from orchestrace.stopping.thresholds import order

ALPHA = 0.1
NEW = 1000


@dataclass(frozen=True)
class Case:
    """Runs of a calibration, how far failures score below successes, the chance that failures end."""

    evidence: Literal["ratio", "log_odds", "savings"]
    runs: int
    below: float
    failure_ends: float
    calibrations: int


CASES = {
    "ratio, 40": Case("ratio", 40, 0.8, 0.15, 200),
    "ratio, 100": Case("ratio", 100, 0.8, 0.15, 200),
    "log_odds, 40": Case("log_odds", 40, 0.8, 0.15, 60),
    "savings, 40": Case("savings", 40, 0.8, 0.15, 60),
    "log_odds, 40, told apart": Case("log_odds", 40, 3.0, 0.4, 60),
}


def epochs_of(rng: np.random.Generator, case: Case, won: np.ndarray) -> pl.DataFrame:
    ends = np.where(won, 0.4, case.failure_ends)
    length = np.minimum(rng.geometric(ends), 12)
    trace = np.repeat(np.arange(len(won)), length)
    score = rng.normal(np.where(won, 0.0, -case.below)[trace], 1.0)
    names = pl.Series(np.char.add("r", trace.astype(str)))
    k = np.concatenate([np.arange(1, n + 1) for n in length])
    columns = {"trace": trace, "trace_id": names, "task_id": names, "k": k, "s": score}
    return pl.DataFrame(columns | {"y": won[trace].astype(float)})


def calibration(case: Case, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng([case.runs, seed])
    return epochs_of(rng, case, np.sort(rng.random(case.runs) < 0.6))


def crossed(case: Case, calibrations: int) -> np.ndarray:
    """The share of successful new runs that the rule of each calibration cuts."""
    new = epochs_of(np.random.default_rng(1), case, np.full(NEW, True))
    cut = []
    for seed in range(calibrations):
        fit = calibration(case, seed)
        rule = ot.stopping.fit_abort(fit, evidence=case.evidence, alpha=ALPHA, cross=True, seed=seed)
        cut.append(rule.apply(new)["alarm"].sum() / NEW)
    return np.array(cut)


def one_scale(case: Case, calibrations: int) -> np.ndarray:
    """The same, as if the models of all folds and that of all runs had one scale."""
    new = Runs.of(epochs_of(np.random.default_rng(1), case, np.full(NEW, True)))

    def model(runs: Runs, seed: int) -> Ratio | Pooled:
        if case.evidence == "ratio":
            return Ratio.fitted(runs, 1.0, False)
        return Pooled.chosen(runs, case.evidence == "savings", seed)

    cut = []
    for seed in range(calibrations):
        runs = Runs.of(calibration(case, seed))
        fold, evidence = folds_over(runs.tasks, FOLDS, seed), np.zeros(len(runs.k))
        for own in range(FOLDS):
            apart = model(runs.take(fold != own), seed)
            evidence[(fold == own)[runs.run]] = apart.of(runs.take(fold == own))
        peaks = np.sort(runs.most(evidence)[runs.success])
        rank = order(len(peaks), ALPHA, "conformal")
        threshold = np.inf if rank is None else peaks[rank - 1]
        cut.append((new.most(model(runs, seed).of(new)) > threshold).mean())
    return np.array(cut)


@pytest.mark.parametrize("name", CASES)
def test_rules_cut_at_most_alpha_on_average_and_never_several_times_as_many(name: str) -> None:
    case = CASES[name]
    cut = crossed(case, case.calibrations)
    assert cut.mean() <= ALPHA
    assert np.quantile(cut, 0.9) <= 2 * ALPHA
    assert cut.max() <= 3.5 * ALPHA
    assert cut.mean() >= ALPHA / 3  # the level is used


@pytest.mark.nightly
def test_one_scale_for_all_models_cuts_half_of_the_runs_of_a_calibration() -> None:
    case = CASES["log_odds, 40, told apart"]
    assert one_scale(case, case.calibrations).max() > 0.4 > crossed(case, case.calibrations).max()
