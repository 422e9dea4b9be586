"""Epochs as arrays: the order of runs, features by epoch, and threads that do not move a bit."""

import os

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.base import side_by_side
from orchestrace.stopping.answers import Answers, answers
from orchestrace.stopping.runs import check_epochs
from samples.examples import examples

Lengths = st.lists(st.integers(1, 6), max_size=12)


def frame_of(lengths: list[int], seed: int) -> pl.DataFrame:
    """Runs whose names are in another order than their numbers."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(len(lengths))
    rows = [
        {"trace": run, "trace_id": f"r{names[run]}", "task_id": f"t{run % 3}", "k": k, "q": rng.random()}
        | {"s": 0.0, "y": 1.0, "x_a": float(k), "x_b": None if rng.random() < 0.3 else rng.random()}
        for run, length in enumerate(lengths)
        for k in range(1, length + 1)
    ]
    numbers = {"trace": pl.UInt32, "k": pl.UInt32, "q": pl.Float64, "s": pl.Float64, "y": pl.Float64}
    features = {"x_a": pl.Float64, "x_b": pl.Float64}
    texts = {"trace_id": pl.String, "task_id": pl.String}
    return pl.DataFrame(rows, schema={**numbers, **features, **texts})


def laid_out(frame: pl.DataFrame) -> Answers:
    return answers(frame, problem="answer", price=0.1, cost="epochs", folds=2, seed=0, by_name=True)


@examples(60)
@given(Lengths, st.integers(0, 2**31), st.booleans())
def test_rows_are_those_of_the_sorted_frame(lengths: list[int], seed: int, shuffled: bool) -> None:
    frame = frame_of(lengths, seed)
    rows = frame.sort("trace_id", "trace", "k")
    runs = laid_out(frame.sample(fraction=1.0, shuffle=True, seed=1) if shuffled else frame)
    assert runs.k.tolist() == rows["k"].to_list() and runs.q.tolist() == rows["q"].to_list()
    assert np.array_equal(runs.features[:, 1], rows["x_b"].fill_null(np.nan).to_numpy(), equal_nan=True)
    assert runs.features[:, 0].tolist() == rows["k"].to_list()
    # the features lie by epoch, then by run
    by_epoch = rows.with_row_index().sort("k", "trace_id", "trace")
    assert runs.layers.rows.tolist() == by_epoch["index"].to_list()
    assert runs.x[0].tolist() == by_epoch["k"].to_list()
    assert runs.payoffs.tolist() == runs.g[runs.layers.rows].tolist()


@examples(60)
@given(Lengths, st.integers(0, 2**31))
def test_runs_that_are_taken_keep_their_rows(lengths: list[int], seed: int) -> None:
    whole = laid_out(frame_of(lengths, seed))
    chosen = np.flatnonzero(np.random.default_rng(seed).random(len(whole)) < 0.5)
    inside = np.isin(whole.run, chosen)
    part = whole.take(chosen)
    assert whole.rows_of(chosen).tolist() == np.flatnonzero(inside).tolist()
    assert part.g.tolist() == whole.g[inside].tolist() and part.k.tolist() == whole.k[inside].tolist()
    assert np.array_equal(part.features, whole.features[inside], equal_nan=True)
    assert whole.take(chosen, with_features=False).x.shape == (0, int(inside.sum()))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": 5}, "trace 1 of epochs does not have k = 1, 2, ... without a gap"),
        ({"k": 1}, "trace 1 of epochs does not have k = 1, 2, ... without a gap"),
        ({"k": 0}, "trace 1 of epochs does not have k = 1, 2, ... without a gap"),
        ({"y": None}, "trace 1 of epochs has several values of y, trace_id or task_id"),
        ({"task_id": "other"}, "trace 1 of epochs has several values of y, trace_id or task_id"),
        ({"trace_id": "other"}, "trace 1 of epochs has several values of y, trace_id or task_id"),
        ({"trace": None}, "column 'trace' of epochs has nulls, expected a value in every row"),
    ],
)
@pytest.mark.parametrize("shuffled", [False, True])
def test_runs_that_contradict_themselves(change: dict[str, object], said: str, shuffled: bool) -> None:
    frame = frame_of([3, 2, 2], 0)
    rows = frame.rows(named=True)
    rows[4] |= change
    broken = pl.DataFrame(rows, schema=frame.schema)
    with pytest.raises(ot.SchemaError) as raised:
        check_epochs(broken.sample(fraction=1.0, shuffle=True, seed=3) if shuffled else broken)
    assert said in str(raised.value)


def test_bits_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs, truth = ot.synthetic.stops(runs=600, seed=3)

    def evaluated(threads: int) -> pl.DataFrame:
        monkeypatch.setattr(side_by_side, "FEWEST", 0)
        monkeypatch.setattr(side_by_side, "MOST", threads)
        monkeypatch.setattr(os, "cpu_count", lambda: threads)
        methods = ["fixed", "threshold", "tabular", "lsm", "tvr", "fqi"]
        return ot.stopping.evaluate(epochs, methods, price=truth.price, folds=7, n_boot=50)

    alone = evaluated(1)
    for threads in (2, 7):
        assert evaluated(threads).equals(alone)


def test_threads_raise_and_ignore_what_the_caller_does() -> None:
    def root(number: float) -> float:
        return float(np.sqrt(np.array(number)))

    with np.errstate(invalid="ignore"):
        assert np.isnan(side_by_side.side_by_side(root, [-1.0, -2.0], 2, threads=2)).all()
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        side_by_side.side_by_side(root, [1.0, -2.0], 2, threads=2)
