"""Sums of rewards: weights, clips, normalization, absent parts, mistakes."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from samples.examples import examples


def paid(values: dict[str, list[float | None]], tasks: list[str]) -> pl.DataFrame:
    """Rows as `compute` gives them."""
    rows = [
        {
            **{
                "trace": n,
                "trace_id": f"t{n}",
                "task_id": task,
                "reward": name,
                "family": "R1",
                "unit": "team",
            },
            **{"unit_id": "team", "seq": 0, "value": column[n], "params": "{}"},
            "reason": "reward.absent" if column[n] is None else None,
        }
        for name, column in values.items()
        for n, task in enumerate(tasks)
    ]
    return pl.DataFrame(rows, schema_overrides={"value": pl.Float64, "reason": pl.String, "trace": pl.UInt32})


numbers = st.floats(-1e3, 1e3).map(lambda x: round(x, 3))


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[str, list[float]], list[str]]:
    n = draw(st.integers(1, 8))
    column = st.lists(numbers, min_size=n, max_size=n)
    return {name: draw(column) for name in ("a", "b")}, draw(
        st.lists(st.sampled_from("xyz"), min_size=n, max_size=n)
    )


@examples(60)
@given(
    tables(),
    numbers,
    numbers,
    st.sampled_from([None, (-10.0, 10.0)]),
    st.sampled_from([None, "task", "corpus"]),
)
def test_sums_are_those_of_numpy(
    given_: tuple[dict[str, list[float]], list[str]], p: float, q: float, clip: Any, normalize: Any
) -> None:
    values, tasks = given_
    told = ot.rewards.combine(paid(values, tasks), {"a": p, "b": q}, clip=clip, normalize=normalize)["value"]
    parts = []
    for name in ("a", "b"):
        column = np.array(values[name])
        column = column if clip is None else np.clip(column, *clip)
        groups = (
            [np.arange(len(tasks))]
            if normalize == "corpus"
            else [np.flatnonzero(np.array(tasks) == task) for task in set(tasks)]
        )
        made = column.copy()
        for rows in groups if normalize else []:
            of = column[rows]
            made[rows] = 0.0 if of.max() == of.min() else (of - of.mean()) / of.std()
        parts.append(made)
    assert told.to_list() == pytest.approx((p * parts[0] + q * parts[1]).tolist(), rel=1e-9, abs=1e-6)


def test_what_is_asked_is_in_the_frame() -> None:
    corpus = ot.generate(traces=5, seed=0)
    rows = ot.rewards.compute(corpus, {"outcome": {}, "parl": {"lambda_finish": 0.5}})
    mixed = ot.rewards.combine(
        rows, {"parl": 0.5, "outcome": 1}, clip={"parl": (0, 2)}, normalize={"outcome": "task"}
    )
    params = json.loads(mixed["params"][0])
    assert params["weights"] == {"parl": 0.5, "outcome": 1.0}
    assert params["clip"] == {"parl": [0.0, 2.0]} and params["normalize"] == {"outcome": "task"}
    assert params["rewards"]["parl"]["lambda_finish"] == 0.5
    assert mixed.schema == rows.schema
    # a sum is a reward like others
    again = ot.rewards.combine(pl.concat([rows, mixed]), {"mix": 2.0}, name="twice")
    assert again["value"].to_list() == (2 * mixed["value"]).to_list()
    assert "twice" in ot.rewards.attach(corpus, again).reward_channels()


def test_parameters_that_differ_by_trace_are_those_of_the_trace() -> None:
    rows = paid({"a": [1.0, 2.0, 3.0], "b": [1.0, 1.0, 1.0]}, ["x", "x", "y"])
    own = pl.concat_str(pl.lit('{"left": '), "value", pl.lit("}"))
    params = pl.when(pl.col("reward") == "a").then(own).otherwise(pl.lit("{}"))
    told = ot.rewards.combine(rows.with_columns(params=params), {"a": 1.0, "b": 1.0})
    parts = [json.loads(one)["rewards"] for one in told["params"]]
    assert parts == [{"a": {"left": left}, "b": {}} for left in (1.0, 2.0, 3.0)]


def test_a_sum_lacks_what_a_part_lacks() -> None:
    rows = paid({"a": [1.0, None, 3.0], "b": [1.0, 1.0, 1e308]}, ["x", "x", "y"])
    told = ot.rewards.combine(rows, {"a": 1.0, "b": 10.0})
    assert told["value"].to_list() == [11.0, None, None]
    assert told["reason"].to_list() == [None, "reward.absent", "result.range"]
    # a trace that one reward has no row of
    some = ot.rewards.combine(
        rows.filter(~((pl.col("trace") == 0) & (pl.col("reward") == "b"))), {"a": 1.0, "b": 1.0}
    )
    assert some.sort("trace")["reason"].to_list() == ["reward.absent", "reward.absent", None]


@pytest.mark.parametrize(
    ("weights", "options", "said"),
    [
        ({"c": 1.0}, {}, "unknown reward 'c'"),
        ({}, {}, "weights names no reward"),
        ({"a": float("nan")}, {}, "weights['a'] is nan, expected a finite number"),
        ({"a": True}, {}, "weights['a'] is True"),
        ({"a": 1.0}, {"clip": (2, 1)}, "the least is above the greatest"),
        ({"a": 1.0}, {"clip": 3}, "clip of 'a' is 3, expected (least, greatest)"),
        ({"a": 1.0}, {"clip": {"b": (0, 1)}}, "unknown reward in clip 'b'"),
        ({"a": 1.0}, {"normalize": "tsak"}, "did you mean 'task'?"),
        ({"a": 1.0}, {"normalize": {"b": "task"}}, "unknown reward in normalize 'b'"),
        ({"a": 1.0}, {"name": ""}, "name is '', expected text"),
    ],
)
def test_mistakes(weights: Any, options: Any, said: str) -> None:
    rows = paid({"a": [1.0], "b": [2.0]}, ["x"])
    with pytest.raises(ot.ParameterError) as error:
        ot.rewards.combine(rows, weights, **options)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_rows_of_other_shapes_are_refused() -> None:
    rows = paid({"a": [1.0]}, ["x"])
    with pytest.raises(ot.ParameterError, match="twice"):
        ot.rewards.combine(pl.concat([rows, rows]), {"a": 1.0})
    with pytest.raises(ot.ParameterError, match="no column 'reason'"):
        ot.rewards.combine(rows.drop("reason"), {"a": 1.0})
    with pytest.raises(ot.ParameterError, match="pays the unit 'turn'"):
        ot.rewards.combine(rows.with_columns(unit=pl.lit("turn")), {"a": 1.0})
