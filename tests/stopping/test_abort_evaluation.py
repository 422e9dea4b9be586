"""Evaluation of abort rules: golden numbers, plain Python, paired differences, one look."""

import json
import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.stopping.abort_evaluation import EVALUATED, LOOKS
from orchestrace.stopping.epochs import EPOCHS
from reference import stopping as reference
from reference.stopping import Run
from samples.examples import examples
from samples.scored_runs import planted, scored, steps

RATES = ("far", "power", "early", "saved", "saved_failed", "lost")


def epochs_of(runs: list[Run]) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens", task="task")


def one(name: str, evidence: list[float], success: bool) -> Run:
    return Run(name, [-e for e in evidence], [10.0 * k for k in range(1, len(evidence) + 1)], success, name)


GOLDEN = [
    one("a", [0, 1, 1], True),
    one("b", [3, 0], True),
    one("c", [1, 3, 0, 0], False),
    one("d", [0, 5], False),
    one("e", [0, 0, 0], False),
    one("f", [0], True),
]


def golden_rule() -> ot.stopping.AbortRule:
    calibration = [one(f"c{a}", [a], True) for a in (1, 2, 3)]
    return ot.stopping.fit_abort(epochs_of(calibration), evidence=-pl.col("s"), alpha=0.5)


def test_golden_evaluation() -> None:
    found = ot.stopping.evaluate_abort(epochs_of(GOLDEN), golden_rule(), n_boot=100)
    assert found.schema == EVALUATED
    row = found.row(0, named=True)
    expected = dict(zip(RATES, (1 / 3, 2 / 3, 1 / 3, 0.2, 2 / 15, 1 / 6), strict=True))
    assert {name: row[name] for name in RATES} == pytest.approx(expected)
    assert (row["n"], row["n_success"], row["n_failed"], row["n_alarms"]) == (6, 3, 3, 3)
    assert row["gain"] == 0.0 and row["alpha"] == 0.5 and row["validity"] == "marginal"
    assert json.loads(row["params"])["fit"]["method"] == "conformal"


def test_golden_looks() -> None:
    looks = ot.stopping.power_by_epoch(epochs_of(GOLDEN), golden_rule())
    assert looks.schema == LOOKS
    assert looks["far_look"].to_list()[:2] == [1 / 3, 0.0]
    assert looks["n"].to_list() == [6, 5, 3, 1]
    assert looks["auc"].to_list()[3] is None and looks["reason"].to_list()[3] == "class.single"


@examples(60)
@given(scored(), st.randoms(use_true_random=False))
def test_evaluations_are_those_of_the_reference(runs: list[Run], chance) -> None:
    stop = [chance.choice([None, *range(1, len(run.scores) + 1)]) for run in runs]
    rows = [{"trace": at, "k": k, "alarm": True} for at, k in enumerate(stop) if k is not None]
    kinds = {"trace": pl.Int64, "k": pl.Int64, "alarm": pl.Boolean}
    found = ot.stopping.evaluate_abort(
        epochs_of_same_task(runs), {"own": pl.DataFrame(rows, schema=kinds)}, n_boot=5
    ).row(0, named=True)
    expected = reference.evaluation(runs, stop)
    for name in RATES:
        assert found[name] == (None if expected[name] is None else pytest.approx(expected[name])), name
        lower, upper = found[f"{name}_lower"], found[f"{name}_upper"]
        if lower is not None and name not in ("saved", "saved_failed"):  # too few resamples for those
            assert lower - 1e-9 <= found[name] <= upper + 1e-9
    assert (found["reason"] == "class.single") == (len({run.success for run in runs}) == 1)


def epochs_of_same_task(runs: list[Run]) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens")


def test_only_the_first_alarm_of_a_run_counts() -> None:
    epochs = epochs_of(GOLDEN)
    both = pl.DataFrame({"trace": [2, 2, 2], "k": [4, 2, 3], "alarm": [True, True, True]})
    first = pl.DataFrame({"trace": [2, 2], "k": [1, 2], "alarm": [False, True]})
    found = ot.stopping.evaluate_abort(epochs, {"both": both, "first": first}, n_boot=5)
    assert found.select(RATES).row(0) == found.select(RATES).row(1)
    assert found["saved_failed"][0] == pytest.approx(20 / 150)


def test_the_gain_is_paired() -> None:
    """Two rules that differ by the same on every task have a difference without spread."""
    rng = np.random.default_rng(0)
    runs = [
        Run(f"r{at:03}", rng.normal(size=4).tolist(), [1.0, 2.0, 3.0, 4.0], False, f"r{at:03}")
        for at in range(60)
    ]
    early = pl.DataFrame({"trace": range(60), "k": 1, "alarm": True})
    later = pl.DataFrame({"trace": range(60), "k": 2, "alarm": True})
    found = ot.stopping.evaluate_abort(epochs_of(runs), {"a": early, "b": later}, against="b", n_boot=200)
    assert found.select("gain", "gain_lower", "gain_upper").rows() == [
        pytest.approx((0.25, 0.25, 0.25)),
        (0.0, 0.0, 0.0),
    ]
    assert found["reason"].to_list() == ["class.single"] * 2  # nobody succeeded


def test_intervals_cluster_runs_by_task() -> None:
    runs = planted(np.random.default_rng(1), 120)
    rule = ot.stopping.fit_abort(epochs_of(planted(np.random.default_rng(2), 200)))
    grouped = [
        Run(run.name, run.scores, run.costs, run.success, f"t{at % 12}") for at, run in enumerate(runs)
    ]
    apart, together = (
        ot.stopping.evaluate_abort(epochs_of(one), rule, n_boot=400) for one in (runs, grouped)
    )
    assert apart["n_tasks"][0] == 120 and together["n_tasks"][0] == 12
    assert apart["far"][0] == together["far"][0]
    assert apart["far_upper"][0] != together["far_upper"][0]


@examples(40)
@given(scored(least=3, on_grid=True))
def test_looks_are_those_of_the_reference(runs: list[Run]) -> None:
    rule = golden_rule()
    looks = ot.stopping.power_by_epoch(epochs_of_same_task(runs), rule)
    for row in looks.iter_rows(named=True):
        there = [run for run in runs if len(run.scores) >= row["k"]]
        won = [-run.scores[row["k"] - 1] for run in there if run.success]
        failed = [-run.scores[row["k"] - 1] for run in there if not run.success]
        assert (row["n_success"], row["n_failed"]) == (len(won), len(failed))
        area = reference.auc(failed, won)
        assert row["auc"] == (None if area is None else pytest.approx(area))
        over = sum(e > rule.threshold for e in won) / len(won) if won else None
        assert row["far_look"] == (None if over is None else pytest.approx(over))


def test_looks_add_up_beyond_alpha() -> None:
    """A threshold that keeps each look at alpha does not keep the run there."""
    rng = np.random.default_rng(4)
    runs = [
        Run(f"r{at:04}", rng.normal(size=6).tolist(), [float(k) for k in range(1, 7)], True, f"r{at:04}")
        for at in range(2000)
    ]
    single = [Run(run.name, run.scores[:1], run.costs[:1], True, run.name) for run in runs[:1000]]
    rule = ot.stopping.fit_abort(epochs_of(single), evidence=-pl.col("s"), alpha=0.1)
    new = epochs_of(runs[1000:])
    assert ot.stopping.power_by_epoch(new, rule)["far_look"].max() < 0.14
    assert ot.stopping.evaluate_abort(new, rule, n_boot=10)["far"][0] > 0.3


def test_nothing_to_evaluate() -> None:
    found = ot.stopping.evaluate_abort(pl.DataFrame(schema=EPOCHS), golden_rule(), n_boot=5)
    row = found.row(0, named=True)
    assert row["n"] == 0 and row["far"] is None and row["saved"] is None
    assert row["reason"] == "class.single"
    assert ot.stopping.power_by_epoch(pl.DataFrame(schema=EPOCHS), golden_rule()).height == 0


def test_few_tasks_have_no_intervals() -> None:
    found = ot.stopping.evaluate_abort(epochs_of(GOLDEN[:4]), golden_rule(), n_boot=50)
    row = found.row(0, named=True)
    assert row["saved_failed"] is not None and row["saved_failed_lower"] is None
    assert row["reason"] == "support.absent"


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({}, ot.ParameterError, "rules is empty"),
        ({"a": 3}, ot.ParameterError, "rules has a int for 'a'"),
        (pl.DataFrame({"trace": [0]}), ot.SchemaError, "have no column 'k'"),
        (pl.DataFrame({"trace": [0], "k": [9], "alarm": [True]}), ot.SchemaError, "do not have"),
        (pl.DataFrame({"trace": ["x"], "k": [1], "alarm": [True]}), ot.SchemaError, "not whole numbers"),
        (pl.DataFrame({"trace": [0], "k": [1], "alarm": ["yes"]}), ot.SchemaError, "expected true or false"),
    ],
)
def test_wrong_rules_are_told(rules: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^[^\n]*$") as caught:
        ot.stopping.evaluate_abort(epochs_of(GOLDEN), rules)
    assert message in str(caught.value)


def test_wrong_options_are_told() -> None:
    epochs, rule = epochs_of(GOLDEN), golden_rule()
    for options, message in [
        ({"against": "nope"}, "unknown rule 'nope'"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"n_boot": 0}, "n_boot is 0"),
        ({"success": True}, "success is True"),
    ]:
        with pytest.raises(ot.ParameterError, match=message):
            ot.stopping.evaluate_abort(epochs, rule, **options)
    with pytest.raises(ot.ParameterError, match="rule is a value of type DataFrame, expected an AbortRule"):
        ot.stopping.power_by_epoch(epochs, epochs)


def test_what_counts_as_success() -> None:
    epochs = epochs_of(GOLDEN).with_columns(y=pl.col("y") * 0.6)
    found = ot.stopping.evaluate_abort(epochs, golden_rule(), success=0.5, n_boot=5)
    assert found["far"][0] == pytest.approx(1 / 3) and math.isclose(found["n_success"][0], 3)
