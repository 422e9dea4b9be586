"""Tables of steps become epochs, and runs that cannot be used are told."""

import math
import warnings
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.stopping.epochs import EPOCHS, REJECTED
from reference.stopping import Run
from samples.examples import examples
from samples.scored_runs import scored, steps

GOOD: dict[str, Any] = {
    "run": ["a", "a", "b"],
    "step": [1, 2, 1],
    "score": [0.4, 0.2, 0.9],
    "success": [0, 0, 1],
    "tokens": [3, 4, 5],
    "task": ["t", "t", "u"],
}


@examples(60)
@given(scored())
def test_every_step_is_an_epoch(runs: list[Run]) -> None:
    frame = steps(runs).with_columns(task=pl.col("run"))
    found = ot.stopping.epochs_from_frame(frame, tokens="tokens", task="task")
    assert found.schema == EPOCHS
    expected = [
        (run.name, k + 1, run.scores[k], run.costs[k], k + 1 == len(run.scores), float(run.success))
        for run in runs
        for k in range(len(run.scores))
    ]
    assert found.select("trace_id", "k", "s", "tokens", "last", "y").rows() == expected
    assert set(found["source"]) == {"score"} and set(found["end"]) == {"unknown"}


def test_rows_may_come_in_any_order() -> None:
    frame = pl.DataFrame(GOOD)
    found = ot.stopping.epochs_from_frame(frame.reverse())
    assert_frame_equal(
        found.drop("trace").sort("trace_id", "k"), ot.stopping.epochs_from_frame(frame).drop("trace")
    )
    assert found["trace_id"].to_list() == ["b", "a", "a"]  # runs in order of appearance


@pytest.mark.parametrize(
    "spelled",
    [
        [False, False, True],
        [0, 0, 1],
        [0.0, 0.0, 1.0],
        ["False", "False", "True"],
        ["0", "0", "1"],
        ["no", " No", "YES"],
    ],
)
def test_outcomes_may_be_spelled_in_many_ways(spelled: list[Any]) -> None:
    found = ot.stopping.epochs_from_frame(pl.DataFrame(GOOD | {"success": spelled}))
    assert found["y"].to_list() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("column", "values", "code"),
    [
        ("step", [1, 3, 1], "field.missing"),
        ("step", [2, 3, 1], "field.missing"),
        ("step", [1, 1, 1], "id.duplicate"),
        ("step", [0, 1, 1], "field.minimum"),
        ("step", [1.0, 1.5, 1.0], "field.minimum"),
        ("step", [1.0, math.nan, 1.0], "field.minimum"),
        ("step", [1, None, 1], "field.missing"),
        ("score", [0.4, None, 0.9], "field.missing"),
        ("score", [0.4, math.nan, 0.9], "number.nan"),
        ("score", [0.4, math.inf, 0.9], "number.nan"),
        ("success", [0, 1, 1], "outcome.ambiguous"),
        ("success", [None, None, 1], "field.missing"),
        ("success", [math.nan, math.nan, 1.0], "number.nan"),
        ("success", ["maybe", "maybe", "true"], "field.enum"),
        ("tokens", [3, None, 5], "field.missing"),
        ("tokens", [3, -4, 5], "field.minimum"),
        ("tokens", [3.0, math.nan, 5.0], "field.minimum"),
        ("task", ["t", "u", "u"], "group.conflict"),
        ("task", ["t", None, "u"], "field.missing"),
    ],
)
def test_a_run_that_cannot_be_used_is_told_and_left_out(column: str, values: list[Any], code: str) -> None:
    frame = pl.DataFrame(GOOD | {column: values}, strict=False)
    names = {"tokens": "tokens", "task": "task"}
    told = ot.stopping.unused_runs(frame, **names)
    assert told.schema == REJECTED
    assert told.select("trace_id", "code", "n_steps").rows() == [("a", code, 2)]
    with pytest.warns(UserWarning, match=rf"^1 of 2 runs are left out, .*{code}.*unused_runs$"):
        found = ot.stopping.epochs_from_frame(frame, **names)
    assert found["trace_id"].to_list() == ["b"] and found["trace"].to_list() == [0]


def test_runs_that_go_on_have_no_outcome() -> None:
    found = ot.stopping.epochs_from_frame(pl.DataFrame(GOOD).drop("success"), success=None)
    assert found["y"].null_count() == 3 and found.schema == EPOCHS
    calibration = ot.stopping.epochs_from_frame(pl.DataFrame(GOOD | {"success": [True] * 3}))
    rule = ot.stopping.fit_abort(calibration, evidence=-pl.col("s"), alpha=0.5)
    assert rule.apply(found)["alarm"].sum() <= 1


def test_steps_without_a_run_are_told() -> None:
    frame = pl.DataFrame(GOOD | {"run": [None, None, "b"]})
    assert ot.stopping.unused_runs(frame)["code"].to_list() == ["field.missing"]
    with pytest.warns(UserWarning, match="left out"):
        assert ot.stopping.epochs_from_frame(frame).height == 1


def test_a_frame_without_rows_has_no_epochs() -> None:
    frame = pl.DataFrame(GOOD).clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ot.stopping.epochs_from_frame(frame, tokens="tokens", task="task")
    assert found.height == 0 and found.schema == EPOCHS
    assert ot.stopping.unused_runs(frame).schema == REJECTED
    assert ot.stopping.features(found).height == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"run": "rnu"}, "run: unknown column 'rnu'; did you mean 'run'"),
        ({"tokens": "toks"}, "tokens: unknown column 'toks'"),
        ({"score": "run"}, "score='run' is a column of String, expected numbers"),
        ({"run": "nested"}, "run='nested' is a column of List"),
        ({"success": "nested"}, "success='nested' is a column of List"),
        ({"step": None}, "step"),
    ],
)
def test_wrong_columns_are_told(given: dict[str, Any], message: str) -> None:
    frame = pl.DataFrame(GOOD).with_columns(nested=pl.concat_list("step"))
    for verb in (ot.stopping.epochs_from_frame, ot.stopping.unused_runs):
        with pytest.raises(ot.ParameterError, match=r"^[^\n]*$") as caught:
            verb(frame, **given)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.col("k") + 1, "without a gap"),
        (pl.lit(None, pl.UInt32).alias("k"), "has nulls"),
        (pl.col("s") * math.inf, "NaN or infinity"),
        (pl.col("k").cast(pl.Float64).alias("y"), "several values of y"),
        (pl.lit("x").alias("s"), "column 's' of epochs"),
        (-pl.col("tokens"), "expected cumulative costs"),
    ],
)
def test_epochs_that_contradict_themselves_are_refused(change: pl.Expr, message: str) -> None:
    epochs = ot.stopping.epochs_from_frame(pl.DataFrame(GOOD), tokens="tokens").with_columns(change)
    with pytest.raises(ot.SchemaError, match=message):
        ot.stopping.evaluate_abort(epochs, pl.DataFrame({"trace": [0], "k": [1], "alarm": [True]}))


def test_a_column_that_is_missing_is_told() -> None:
    epochs = ot.stopping.epochs_from_frame(pl.DataFrame(GOOD))
    for name in ("trace", "trace_id", "task_id", "k", "s", "y"):
        with pytest.raises(ot.SchemaError, match=f"no column '{name}'"):
            ot.stopping.features(epochs.drop(name))
