"""Abort rules: golden numbers, thresholds against binomial sums, evidence against scikit-learn."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, strategies as st
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import orchestrace as ot
from orchestrace.statistics.folds import folds_over
from orchestrace.stopping.abort_rule import ALARMS
from orchestrace.stopping.epochs import EPOCHS
from orchestrace.stopping.pooled import Pooled
from orchestrace.stopping.ratio import Ratio
from orchestrace.stopping.runs import Runs, uniforms
from orchestrace.stopping.thresholds import order
from reference import stopping as reference
from reference.stopping import Run
from samples.examples import examples
from samples.scored_runs import planted, scored, steps, true_ratio

SCORE = -pl.col("s")
ALPHAS = (0.05, 0.1, 0.2, 0.5)


def epochs_of(runs: list[Run], **names: str) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens", **names)


def fitted(n: int = 400, seed: int = 0, **options: Any) -> tuple[ot.stopping.AbortRule, pl.DataFrame]:
    rng = np.random.default_rng(seed)
    rule = ot.stopping.fit_abort(epochs_of(planted(rng, n)), **options)
    return rule, epochs_of(planted(rng, n))


# --- golden numbers -----------------------------------------------------------------------------------


def test_golden_thresholds() -> None:
    runs = [Run(f"c{a}", [-float(a)], [10.0], True, f"c{a}") for a in (1, 2, 3)]
    rule = ot.stopping.fit_abort(epochs_of(runs), evidence=SCORE, alpha=0.5)
    assert (rule.rank, rule.threshold, rule.n_calibration, rule.n_fit) == (2, 2.0, 3, 0)
    none = ot.stopping.fit_abort(epochs_of(runs), evidence=SCORE, alpha=0.5, method="pac")
    assert (none.rank, none.threshold, none.reason) == (None, None, "calibration.small")
    assert reference.at_least(3, 0.55, 3) == pytest.approx(0.166, abs=5e-4)


def test_golden_numbers_of_calibrations() -> None:
    needed = ot.stopping.calibration_needed
    assert [needed(alpha) for alpha in (0.05, 0.1, 0.2)] == [116, 49, 20]
    assert [needed(alpha, method="conformal") for alpha in (0.05, 0.1, 0.2, 0.5)] == [19, 9, 4, 1]
    assert needed(0.05, method="conformal", confidence=0.95) == 59
    assert needed(0.05, method="ville") == 0


# --- thresholds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_ranks_are_those_of_the_reference(alpha: float, confidence: float | None) -> None:
    for n in range(1, 130):
        assert order(n, alpha, "conformal", confidence) == reference.rank(n, alpha, "conformal", confidence)
        assert order(n, alpha, "pac") == reference.rank(n, alpha, "pac")


@pytest.mark.parametrize("method", ["conformal", "pac"])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_calibration_run_fewer_than_needed_gives_no_alarms(method: str, alpha: float) -> None:
    n = ot.stopping.calibration_needed(alpha, method=method)
    assert order(n, alpha, method) is not None
    assert n == 1 or order(n - 1, alpha, method) is None


@pytest.mark.parametrize("method", ["conformal", "pac", "ville"])
def test_the_threshold_never_falls_as_alpha_falls(method: str) -> None:
    rule, _ = fitted(method=method)
    bounds = [rule.at(alpha).threshold for alpha in (0.5, 0.3, 0.2, 0.1, 0.05, 0.03)]
    known = [bound for bound in bounds if bound is not None]
    assert len(known) > 3 and known == sorted(known)
    assert bounds[len(known) :] == [None] * (len(bounds) - len(known))  # then there are no alarms


def test_a_confidence_only_raises_the_threshold() -> None:
    plain, _ = fitted(evidence=SCORE)
    sure, _ = fitted(evidence=SCORE, confidence=0.95)
    assert plain.rank is not None and sure.rank is not None and sure.rank > plain.rank
    assert sure.guarantee.endswith("by itself for 0.95 of all calibrations")


@examples(60)
@given(scored(least=4), st.sampled_from(["conformal", "pac"]), st.sampled_from([0.3, 0.5, 0.8]))
def test_alarms_of_own_evidence_are_those_of_the_reference(
    runs: list[Run], method: str, alpha: float
) -> None:
    """Of distinct tasks; the rule is applied to its own calibration runs, which is allowed for a test."""
    runs = [Run(run.name, run.scores, run.costs, run.success, run.name) for run in runs]
    rule = ot.stopping.fit_abort(epochs_of(runs), evidence=SCORE, method=method, alpha=alpha)
    peaks = sorted(max(-score for score in run.scores) for run in runs if run.success)
    rank = reference.rank(len(peaks), alpha, method)
    assert rule.rank == rank and rule.n_calibration == len(peaks)
    bound = math.inf if rank is None else peaks[rank - 1]
    expected = reference.stops(runs, [[-score for score in run.scores] for run in runs], bound)
    found = rule.apply(epochs_of(runs))
    assert found.schema == ALARMS
    at = dict(found.filter("alarm").select("trace_id", "k").rows())
    assert [at.get(run.name) for run in runs] == expected
    assert (found["reason"].null_count() == 0) == (rank is None)


@examples(40)
@given(scored(least=4, on_grid=True), st.sampled_from(["conformal", "pac"]), st.booleans())
def test_increasing_transforms_change_no_alarm(runs: list[Run], method: str, random: bool) -> None:
    epochs = epochs_of(runs)
    options = {"method": method, "alpha": 0.5, "ties": "random" if random else "strict"}
    plain = ot.stopping.fit_abort(epochs, evidence=SCORE, **options).apply(epochs)
    bent = ot.stopping.fit_abort(epochs, evidence=(3.0 * SCORE).exp() - 7.0, **options).apply(epochs)
    assert_frame_equal(
        plain.select("trace", "k", "over", "alarm"), bent.select("trace", "k", "over", "alarm")
    )


@examples(40)
@given(scored(least=4, on_grid=True))
def test_random_ties_only_add_alarms(runs: list[Run]) -> None:
    epochs = epochs_of(runs)
    strict = ot.stopping.fit_abort(epochs, evidence=SCORE, alpha=0.5).apply(epochs)
    random = ot.stopping.fit_abort(epochs, evidence=SCORE, alpha=0.5, ties="random").apply(epochs)
    assert (random["over"] >= strict["over"]).all()


def test_one_run_per_task_sets_the_threshold() -> None:
    runs = [Run(f"r{at}", [at / 40], [1.0], True, f"t{at % 10}") for at in range(40)]
    runs += [Run(f"f{at}", [-9.0], [1.0], False, f"t{at}") for at in range(20)]  # none of these counts
    by_task = ot.stopping.fit_abort(epochs_of(runs, task="task"), evidence=SCORE, alpha=0.2)
    by_run = ot.stopping.fit_abort(epochs_of(runs, task="task"), evidence=SCORE, alpha=0.2, unit="run")
    assert (by_task.n_calibration, by_run.n_calibration) == (10, 40)
    draws = {
        ot.stopping.fit_abort(epochs_of(runs, task="task"), evidence=SCORE, alpha=0.2, seed=seed).threshold
        for seed in range(8)
    }
    assert len(draws) > 1  # the draw hangs on the seed


# --- fitted evidence ----------------------------------------------------------------------------------


def test_the_ratio_is_a_logistic_regression_per_step() -> None:
    """As the package of the E-valuator fits it: scikit-learn's defaults on standardized scores."""
    rng = np.random.default_rng(0)
    runs = planted(rng, 300)
    rule = ot.stopping.fit_abort(epochs_of(runs), method="ville", evidence="ratio")
    new = planted(rng, 60)
    found = rule.apply(epochs_of(new))
    last = np.ones(len(new))
    prior = sum(run.success for run in runs) / sum(not run.success for run in runs)
    for k in range(1, 13):
        y = np.array([not run.success for run in runs if len(run.scores) >= k])
        at = [place for place, run in enumerate(new) if len(run.scores) >= k]
        if min(y.sum(), (~y).sum()) >= 5 and at:
            scaler = StandardScaler().fit(x := [run.scores[:k] for run in runs if len(run.scores) >= k])
            model = LogisticRegression(tol=1e-10, max_iter=1000).fit(scaler.transform(x), y)
            p = model.predict_proba(scaler.transform([new[place].scores[:k] for place in at]))[:, 1]
            last[at] = np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)) * prior
        assert_allclose(found.filter(pl.col("k") == k)["e_value"].to_numpy(), last[at], rtol=1e-5)


def test_an_epoch_without_a_model_keeps_the_value_before_it() -> None:
    """Runs that are longer than those of the fit: no model knows their last epochs."""
    rule, _ = fitted(method="ville", evidence="ratio")
    long = Run("long", [-0.5] * 40, [float(k) for k in range(1, 41)], False, "long")
    values = rule.apply(epochs_of([long]))["e_value"].to_list()
    assert values[11] == values[-1] != values[0]
    few = [Run(f"r{at}", [0.1 * at] * (1 + at % 2), [1.0, 2.0][: 1 + at % 2], at > 5, "") for at in range(12)]
    few = [Run(run.name, run.scores, run.costs, run.success, run.name) for run in few]
    thin = ot.stopping.fit_abort(epochs_of(few), method="ville", evidence="ratio")
    found = thin.apply(epochs_of(few)).filter(pl.col("k") == 2)["e_value"].to_list()
    first = thin.apply(epochs_of(few)).filter(pl.col("k") == 1)["e_value"].to_list()[1::2]
    assert found == first  # fewer than five of a class reach the second epoch


@pytest.mark.parametrize("survival", [False, True])
def test_the_true_ratio_is_the_ratio_of_densities(survival: bool) -> None:
    """Ratios of normal densities and of survivals, multiplied epoch by epoch."""
    runs = planted(np.random.default_rng(1), 50)
    found = true_ratio(survival).of(Runs.of(epochs_of(runs)))
    expected = []
    for run in runs:
        value = 1.0
        for k, s in enumerate(run.scores, 1):
            value *= math.exp(-0.5 * (s + 0.8) ** 2) / math.exp(-0.5 * s**2)
            if k > 1:  # it went on: the factor of a failed run that never ends is 1
                value *= (1.0 if survival else 0.85) / 0.6
            expected.append(value)
    assert_allclose(np.exp(found), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("method", "evidence"),
    [
        *(("ville", name) for name in ("ratio", "survival")),
        *(("conformal", name) for name in ("ratio", "survival", "log_odds", "savings")),
    ],
)
def test_evidence_does_not_look_ahead(method: str, evidence: str) -> None:
    rule, new = fitted(method=method, evidence=evidence)
    whole = rule.apply(new).filter(pl.col("k") <= 2)
    assert_frame_equal(rule.apply(new.filter(pl.col("k") <= 2)), whole, check_exact=True)
    unknown = new.with_columns(y=pl.lit(None, pl.Float64), last=pl.lit(None, pl.Boolean))
    assert_frame_equal(rule.apply(unknown), rule.apply(new), check_exact=True)


@pytest.mark.parametrize("evidence", ["ratio", "survival", "log_odds", "savings"])
def test_evidence_tells_failures_from_successes(evidence: str) -> None:
    rule, new = fitted(n=800, evidence=evidence)
    looks = ot.stopping.power_by_epoch(new, rule)
    assert looks["auc"][0] > 0.65 and looks["auc"][1] > 0.7


def test_savings_are_worth_more_than_log_odds() -> None:
    """Where late scores are the clear ones, odds alone give alarms when nothing is left to save."""
    rng = np.random.default_rng(3)
    runs = []
    for at in range(1500):
        won = bool(rng.random() < 0.6)
        hint = rng.normal(0.0 if won else -0.5)
        scores = [*(hint + rng.normal(0.0, 0.3, 4)), hint + rng.normal(0.0 if won else -1.0)]
        runs.append(Run(f"r{at:04}", scores, [1.0, 2.0, 3.0, 4.0, 5.0], won, f"r{at:04}"))
    fit, new = epochs_of(runs[:900]), epochs_of(runs[900:])
    rules = {name: ot.stopping.fit_abort(fit, evidence=name, alpha=0.1) for name in ("log_odds", "savings")}
    found = ot.stopping.evaluate_abort(new, rules, n_boot=200)
    assert found["gain_lower"][1] > 0.01
    assert found["power"][1] < found["power"][0]


def test_failures_are_all_fitted_on_and_calibration_is_apart() -> None:
    runs = planted(np.random.default_rng(5), 300)
    rule = ot.stopping.fit_abort(epochs_of(runs))
    n_won = sum(run.success for run in runs)
    assert rule.n_fit + rule.n_calibration == 300
    assert rule.n_calibration == n_won - math.floor(0.4 * n_won)
    few = ot.stopping.fit_abort(epochs_of(runs), method="pac", alpha=0.05)
    assert few.n_calibration == n_won - math.ceil(0.2 * n_won)
    half = ot.stopping.fit_abort(epochs_of(runs), fit_share=0.5)
    assert half.n_calibration == n_won - round(0.5 * n_won)


def test_cross_fitting_uses_all_runs_and_says_so() -> None:
    runs = planted(np.random.default_rng(6), 300)
    rule = ot.stopping.fit_abort(epochs_of(runs), cross=True)
    assert rule.n_calibration == sum(run.success for run in runs) and rule.n_fit == 300
    n, rank = rule.n_calibration, math.ceil((rule.n_calibration + 1) * 0.9)
    assert rule.validity == "approximate" and rule.rank == rank
    sure = 2 * (n - rank + 4) / (n + 4)
    assert rule.guarantee == (
        "P(alarm at any epoch | success) <= 0.1, approximately: runs are scored by models of the other folds;"
        f" at most {sure:.2g} by proof, over calibration and a new run from the same source"
    )


@pytest.mark.parametrize("ties", ["strict", "random"])
@pytest.mark.parametrize("evidence", ["ratio", "log_odds"])
def test_cross_fitting_compares_each_fold_by_the_model_that_did_not_see_it(evidence: Any, ties: Any) -> None:
    """The count of calibration runs below a new one, fold by fold, and the rank that it has to reach."""
    rng = np.random.default_rng(8)

    def rounded(n: int) -> list[Run]:
        return [replace(run, scores=[round(score) for score in run.scores]) for run in planted(rng, n)]

    runs = rounded(90)
    rule = ot.stopping.fit_abort(epochs_of(runs), cross=True, evidence=evidence, ties=ties, seed=3)
    new = Runs.of(epochs_of(rounded(40)))
    laid = Runs.of(epochs_of(runs))
    fold, counts = folds_over(laid.tasks, 4, 3), np.zeros(len(new.k))
    for own in range(4):
        learn = laid.take(fold != own)
        model = Ratio.fitted(learn, 1.0, False) if evidence == "ratio" else Pooled.chosen(learn, False, 3)
        calibrate = laid.take((fold == own) & laid.success)
        peaks, theirs = calibrate.most(model.of(calibrate)), uniforms(calibrate.names, 3)
        values, drawn = model.of(new), uniforms(new.names, 3)[new.run]
        for row in range(len(new.k)):
            ties_won = (peaks == values[row]) & (theirs < drawn[row]) if ties == "random" else peaks < -np.inf
            counts[row] += int((peaks < values[row]).sum() + ties_won.sum())
    told = rule.apply(new.rows)
    assert told["evidence"].to_list() == counts.tolist()
    assert told["over"].to_list() == (counts >= rule.rank).tolist()
    assert told["over"].sum() > 0


# --- what a rule says of itself -----------------------------------------------------------------------


def test_rules_say_what_they_guarantee() -> None:
    said = {method: fitted(method=method)[0] for method in ("ville", "conformal", "pac")}
    assert {method: rule.validity for method, rule in said.items()} == {
        "ville": "model",
        "conformal": "marginal",
        "pac": "confidence",
    }
    assert "if the fitted ratio is the true one" in said["ville"].guarantee
    assert said["pac"].guarantee == "P(alarm at any epoch | success) <= 0.09 for 0.99 of all calibrations"
    assert repr(said["ville"]) == (
        "AbortRule(method='ville', evidence='survival', alpha=0.1, threshold=2.30259, n_calibration=0,"
        " validity='model')"
    )
    params = json.loads(said["pac"].apply(epochs_of(planted(np.random.default_rng(0), 3)))["params"][0])
    assert params["method"] == "pac" and params["evidence"] == "savings" and params["cost"] == "tokens"
    with pytest.raises(AttributeError):
        said["pac"].alpha = 0.2


def test_an_e_value_reaches_one_over_alpha_with_the_alarm() -> None:
    for method in ("conformal", "ville"):
        rule, new = fitted(method=method)
        found = rule.apply(new)
        assert found["over"].any()
        reached = (pl.col("e_value") >= 10.0 * (1 - 1e-12)).any().over("trace")
        assert found.filter(reached != pl.col("over").any().over("trace")).height == 0
    rule, new = fitted(method="pac")
    assert rule.apply(new)["e_value"].null_count() == new.height


@pytest.mark.parametrize("success", [True, False])
def test_one_outcome_alone_gives_no_model(success: bool) -> None:
    runs = [Run(f"r{at}", [0.1 * at], [1.0], success, f"r{at}") for at in range(30)]
    for method in ("conformal", "pac", "ville"):
        rule = ot.stopping.fit_abort(epochs_of(runs), method=method)
        assert (rule.threshold, rule.reason) == (None, "class.single")
        found = rule.apply(epochs_of(runs))
        assert found["evidence"].null_count() == 30 and not found["alarm"].any()
        assert set(found["reason"]) == {"class.single"}
        assert rule.at(0.5).reason == "class.single"
        assert rule.guarantee == "no alarms: class.single"


def test_no_runs_at_all() -> None:
    nothing = pl.DataFrame(schema=EPOCHS)
    for method in ("conformal", "pac", "ville"):
        rule = ot.stopping.fit_abort(nothing, method=method)
        assert rule.reason == "class.single"
        assert rule.apply(nothing).schema == ALARMS
    own = ot.stopping.fit_abort(nothing, evidence=SCORE)
    assert own.reason == "calibration.small" and own.apply(nothing).height == 0


def test_runs_without_an_outcome_are_left_out() -> None:
    epochs = epochs_of(planted(np.random.default_rng(7), 100))
    unknown = pl.when(pl.col("trace") >= 10).then("y")
    rule = ot.stopping.fit_abort(epochs.with_columns(y=unknown), evidence=SCORE)
    other = ot.stopping.fit_abort(epochs.filter(pl.col("trace") >= 10), evidence=SCORE)
    assert (rule.n_calibration, rule.threshold) == (other.n_calibration, other.threshold)


@pytest.mark.parametrize("evidence", ["survival", "savings"])
def test_a_rule_hangs_on_seed_and_ids_not_on_the_order_of_runs(evidence: str) -> None:
    runs = planted(np.random.default_rng(8), 200)
    method = "ville" if evidence == "survival" else "conformal"
    options = {"method": method, "evidence": evidence, "ties": "random"}
    rules = [ot.stopping.fit_abort(epochs_of(runs), **options) for _ in range(2)]
    assert rules[0].threshold == rules[1].threshold
    turned = ot.stopping.fit_abort(epochs_of(runs[::-1]), **options)
    assert turned.threshold == pytest.approx(rules[0].threshold, rel=1e-9)
    assert turned.n_calibration == rules[0].n_calibration
    other = ot.stopping.fit_abort(epochs_of(runs), seed=1, **options)
    assert method == "ville" or other.threshold != rules[0].threshold


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "vile"}, "method is 'vile', expected"),
        ({"evidence": "rat"}, "evidence is 'rat', expected"),
        ({"alpha": 0.0}, "alpha is 0.0, expected a number between 0 and 1"),
        ({"alpha": math.nan}, "alpha is nan"),
        ({"fit_share": 1.0}, "fit_share is 1.0"),
        ({"unit": "trace"}, "unit is 'trace', expected"),
        ({"ties": "broken"}, "ties is 'broken', expected"),
        ({"cost": "money"}, "cost is 'money', expected"),
        ({"cross": 1}, "cross is 1, expected True or False"),
        ({"penalty": 0.0}, "penalty is 0.0, expected a number above 0"),
        ({"success": math.inf}, "success is inf, expected a finite number"),
        ({"seed": -1}, "seed is -1"),
        ({"method": "ville", "evidence": "savings"}, "method='ville' needs evidence='ratio' or 'survival'"),
        ({"method": "ville", "evidence": SCORE}, "not an expression"),
        ({"method": "pac", "confidence": 0.9}, "confidence is for method='conformal', not 'pac'"),
        ({"evidence": pl.col("nope")}, "nope"),
        ({"evidence": pl.col("s").log()}, "evidence is not a finite number for every epoch"),
        ({"evidence": pl.col("s").max()}, "evidence is not a finite number for every epoch"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], message: str) -> None:
    runs = [Run(f"r{at}", [0.0], [1.0], at > 5, f"r{at}") for at in range(12)]
    with pytest.raises(ot.ParameterError, match=r"^[^\n]*$") as caught:
        ot.stopping.fit_abort(epochs_of(runs), **options)
    assert message in str(caught.value)


def test_fitted_evidence_needs_scores() -> None:
    epochs = epochs_of(planted(np.random.default_rng(9), 50))
    without = epochs.with_columns(s=pl.when(pl.col("k") > 1).then("s"))
    with pytest.raises(ot.ParameterError, match=r"^50 epochs have no score s, which evidence='sav"):
        ot.stopping.fit_abort(without)
    assert ot.stopping.fit_abort(without, evidence=pl.col("k")).threshold is not None


@examples(30)
@given(scored(least=8))
def test_any_runs_give_a_rule_or_a_reason(runs: list[Run]) -> None:
    assume(any(run.success for run in runs))
    for method in ("conformal", "pac", "ville"):
        rule = ot.stopping.fit_abort(epochs_of(runs), method=method, alpha=0.5)
        assert (rule.threshold is None) == (rule.reason is not None)
        assert rule.apply(epochs_of(runs)).group_by("trace").agg(pl.col("alarm").sum())["alarm"].max() <= 1
