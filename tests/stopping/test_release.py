"""Release rules: golden numbers, plain Python, and what must hold of any pool."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose

import orchestrace as ot
from orchestrace.stopping.epochs import EPOCHS
from orchestrace.stopping.release import EVALUATED, RELEASES
from reference import stopping as reference
from reference.stopping import Run
from samples.examples import examples
from samples.scored_runs import scored, steps


def epochs_of(runs: list[Run]) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens", task="task")


def pool_of(peaks: list[float]) -> pl.DataFrame:
    return epochs_of([Run(f"p{at}", [peak], [1.0], False, f"p{at}") for at, peak in enumerate(peaks)])


NEW = Run("new", [0.55, 0.7, 0.9], [1.0, 2.0, 3.0], True, "new")


def test_golden_release() -> None:
    rule = ot.stopping.fit_release(pool_of([0.3, 0.5, 0.6, 0.8]), alpha=0.2)
    found = rule.apply(epochs_of([NEW]))
    assert found.schema == RELEASES
    assert_allclose(found["p_value"], [0.6, 0.4, 0.2])
    assert_allclose(found["e_value"], [0.645497, 0.510310, 0.570544], atol=1e-6)
    assert found["release"].to_list() == [False, False, True]
    assert rule.validity == "marginal"
    product = ot.stopping.fit_release(pool_of([0.3, 0.5, 0.6, 0.8]), alpha=0.2, method="eprocess")
    assert product.validity == "assumed" and not product.apply(epochs_of([NEW]))["release"].any()


@examples(60)
@given(scored(), scored(), st.sampled_from(["conformal", "eprocess"]), st.sampled_from([0.2, 0.5, 0.9]))
def test_releases_are_those_of_the_reference(
    pool: list[Run], runs: list[Run], method: str, alpha: float
) -> None:
    pool = [Run(run.name, run.scores, run.costs, run.success, run.name) for run in pool]
    rule = ot.stopping.fit_release(epochs_of(pool), method=method, alpha=alpha)
    peaks = [max(run.scores) for run in pool if not run.success]
    assert rule.n_calibration == len(peaks)
    found = rule.apply(ot.stopping.epochs_from_frame(steps(runs))).partition_by("trace", maintain_order=True)
    for own, run in zip(found, runs, strict=True):
        p, products = reference.release(peaks, run.scores)
        assert_allclose(own["p_value"], p, rtol=1e-12)
        assert_allclose(own["e_value"], products, rtol=1e-9)
        may = [
            (one <= alpha + 1e-9 if method == "conformal" else e >= 1 / alpha) and rule.reason is None
            for one, e in zip(p, products, strict=True)
        ]
        at = own.filter("release")["k"].to_list()
        assert at == ([may.index(True) + 1] if any(may) else [])


def test_a_small_pool_releases_nothing() -> None:
    for n, reason in ((8, "calibration.small"), (9, None)):
        rule = ot.stopping.fit_release(pool_of([0.1] * n), alpha=0.1)
        assert rule.reason == reason
        assert rule.apply(epochs_of([NEW]))["release"].any() == (reason is None)
    assert ot.stopping.fit_release(pd_empty(), alpha=0.1).reason == "calibration.small"


def pd_empty() -> pl.DataFrame:
    return pl.DataFrame(schema=EPOCHS)


@examples(60)
@given(
    st.lists(st.floats(0, 1), min_size=10, max_size=20),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.lists(st.just(2.0), max_size=3),
)
def test_harder_pools_never_release_earlier(
    peaks: list[float], scores: list[float], more: list[float]
) -> None:
    run = epochs_of([Run("n", scores, [1.0 + k for k in range(len(scores))], True, "n")])

    def when(pool: list[float]) -> float:
        found = ot.stopping.fit_release(pool_of(pool), alpha=0.3).apply(run)
        return (found.filter("release")["k"].to_list() or [np.inf])[0]

    assert when(peaks + more) >= when(peaks)


def test_tasks_with_a_success_are_not_in_the_pool() -> None:
    runs = [
        Run("a1", [0.9], [1.0], False, "a"),
        Run("a2", [0.9], [1.0], True, "a"),
        Run("b1", [0.2], [1.0], False, "b"),
        Run("b2", [0.3], [1.0], False, "b"),
    ]
    drawn = {ot.stopping.fit_release(epochs_of(runs), seed=seed)._peaks.tolist()[0] for seed in range(12)}
    assert drawn == {0.2, 0.3}
    assert ot.stopping.fit_release(epochs_of(runs)).n_calibration == 1


def test_evaluation_counts_feasible_and_infeasible_apart() -> None:
    rule = ot.stopping.fit_release(pool_of([0.3, 0.5, 0.6, 0.8]), alpha=0.2)
    runs = [
        Run("a", [0.9], [1.0], False, "hard"),
        Run("b", [0.1, 0.2], [1.0, 2.0], False, "hard"),
        Run("c", [0.1, 0.9], [1.0, 2.0], True, "easy"),
        Run("d", [0.95], [1.0], False, "easy"),
    ]
    found = ot.stopping.evaluate_release(epochs_of(runs), rule)
    assert found.schema == EVALUATED
    values = dict(found.select("quantity", "value").rows())
    assert values == {
        "released_infeasible": 0.5,
        "released_feasible": 1.0,
        "correct": pytest.approx(1 / 3),
        "epochs": pytest.approx(4 / 3),
    }
    assert found["n"].to_list() == [2, 2, 3, 3] and found["n_tasks"].to_list() == [1, 1, 2, 2]
    nothing = ot.stopping.evaluate_release(epochs_of(runs[1:2]), rule)
    assert nothing.row(3, named=True)["reason"] == "ratio.empty"
    assert ot.stopping.evaluate_release(pd_empty(), rule)["value"].null_count() == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "e-process"}, "method is 'e-process', expected"),
        ({"alpha": 1.0}, "alpha is 1.0"),
        ({"success": True}, "success is True"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.stopping.fit_release(pool_of([0.1]), **options)
    with pytest.raises(ot.ParameterError, match="rule is 'rule', expected a ReleaseRule"):
        ot.stopping.evaluate_release(pool_of([0.1]), "rule")


def test_scores_that_are_absent_are_told() -> None:
    epochs = pool_of([0.1]).with_columns(s=pl.lit(None, pl.Float64))
    with pytest.raises(ot.ParameterError, match="have no score s"):
        ot.stopping.fit_release(epochs)
