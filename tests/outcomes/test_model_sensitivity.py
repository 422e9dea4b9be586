"""Conclusions that hang on the outcome model, and those that do not."""

import io
import json
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from orchestrace.outcomes.model_sensitivity import stability


def judged(values: dict[str, dict[str | None, float | None]], reason: str | None = None) -> pl.DataFrame:
    """Stability of units by model, of one trace."""
    rows = [
        {"trace": 0, "unit_id": unit, "model": model, "credit": value, "tier": "surrogate", "reason": reason}
        for model, of in values.items()
        for unit, value in of.items()
    ]
    schema = dict.fromkeys(("unit_id", "model", "tier", "reason"), pl.String()) | {"credit": pl.Float64()}
    return stability(pl.DataFrame(rows, schema_overrides=schema), ["trace", "unit_id"], ["trace"], "credit")


def column(table: pl.DataFrame, unit: str | None, name: str) -> list[Any]:
    return list(table.filter(pl.col("unit_id").eq_missing(unit))[name])


def test_sign_rank_and_spread() -> None:
    table = judged(
        {
            "a": {"x": 0.6, "y": 0.3, "z": 0.1, None: 0.5},
            "b": {"x": 0.5, "y": 0.1, "z": 0.2, None: 0.0},
            "c": {"x": 0.9, "y": -0.1, "z": 0.0, None: 0.2},
        }
    )
    assert column(table, "x", "model") == ["a", "b", "c"]
    assert column(table, "x", "rank") == [1, 1, 1] and column(table, "y", "rank") == [2, 3, 3]
    assert column(table, "x", "stable") == [True] * 3 and column(table, "x", "reason") == [None] * 3
    assert column(table, "x", "lower") == [0.5] * 3 and column(table, "x", "upper") == [0.9] * 3
    # + + - and + + 0 are changes of sign, so is the rank of both
    for unit in ("y", "z"):
        assert column(table, unit, "sign_stable") == column(table, unit, "stable") == [False] * 3
        assert column(table, unit, "reason") == ["gate.unstable"] * 3
    assert column(table, "z", "rank_stable") == [False] * 3
    # the row without a unit has no rank, and its sign is + 0 +
    assert column(table, None, "rank") == [None] * 3 and column(table, None, "stable") == [False] * 3


def test_rounding_is_neither_a_sign_nor_a_rank() -> None:
    table = judged({"a": {"x": 1.0, "y": 1e-15, "z": 0.0}, "b": {"x": 1.0, "y": -1e-15, "z": 1e-14}})
    assert table["stable"].all() and column(table, "y", "rank") == [2.5, 2.5]
    assert judged({"a": {"x": 0.0}, "b": {"x": 0.0}})["stable"].all()


def test_what_one_model_alone_values_is_not_judged() -> None:
    table = judged({"a": {"x": 1.0}, "b": {"x": None}}, reason="graph.cycle")
    assert table["stable"].to_list() == [None, None] and set(table["reason"]) == {"graph.cycle"}
    assert column(table, "x", "lower") == [1.0, 1.0]


def chain_and_pair() -> ot.Corpus:
    """An aggregate of ann, who is asked and answers, and of bob, whose answer hangs on ann's."""
    kinds = {"e0": ("orchestrator_decision", "lead"), "e1": ("message", "ann"), "e2": ("message", "bob")}
    kinds |= {"e3": ("aggregate", "lead")}
    edges = [("e0", "e1"), ("e1", "e2"), ("e1", "e3"), ("e2", "e3")]
    document = {
        "trace_id": "r",
        "task_id": "t",
        "events": [{"id": k, "t": n, "type": a, "agent": b} for n, (k, (a, b)) in enumerate(kinds.items())],
        "edges": [{"src": u, "dst": v, "type": "message"} for u, v in edges],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }
    return ot.read_traces(io.BytesIO(json.dumps(document).encode()))


def test_effects_of_interventions_under_several_models() -> None:
    corpus = chain_and_pair()
    drop = ot.interventions.drop(each="agent")
    table = ot.outcomes.sensitivity(corpus, drop, outcomes=["noisy_or", "max", "min"])
    assert table["model"].unique(maintain_order=True).to_list() == ["noisy_or", "max", "min"]
    for name in ("noisy_or", "max", "min"):
        alone = ot.replay(corpus, drop, outcome=name, sensitivity=False, structure_alone=True)  # type: ignore[arg-type]  # of a list
        own = table.filter(model=name)
        assert own["effect"].to_list() == alone["effect"].to_list()
        assert own["unit_id"].to_list() == alone["unit_id"].to_list()
    # without bob the best input is still there
    assert column(table, "bob", "sign_stable") == [False] * 3
    assert column(table, "bob", "upper") == [0.0] * 3 and column(table, "bob", "lower") == [-1.0] * 3
    assert column(table, "ann", "sign_stable") == [True] * 3


def test_credits_under_several_models() -> None:
    corpus = chain_and_pair()
    models = ["noisy_or", "max", "min"]
    table = ot.outcomes.sensitivity(corpus, method="difference", outcomes=models)
    for name in models:
        alone = ot.credit(corpus, method="difference", unit="agent", outcome=name)
        assert table.filter(model=name)["credit"].to_list() == alone["credit"].to_list()
    assert column(table, "bob", "reason") == ["gate.unstable"] * 3
    assert set(table["tier"]) == {"surrogate"}


def test_a_fitted_model_brings_its_weights() -> None:
    corpus = chain_and_pair()
    scores = pl.DataFrame({"trace": [0] * 3, "seq": [1, 2, 3], "score": [0.9, 0.8, 0.7]})
    fit = ot.outcomes.fit(corpus.with_fields(scores))
    table = ot.outcomes.sensitivity(corpus, ot.interventions.drop(agent="bob"), outcomes=["noisy_or", fit])
    assert table["model"].to_list() == ["noisy_or", "noisy_or fitted"]
    same = ot.replay(corpus, ot.interventions.drop(agent="bob"), weights=fit, sensitivity=False)
    assert table["effect"][1] == same["effect"][0]
    given = ot.replay(corpus, ot.interventions.drop(agent="bob"), weights=list(fit), sensitivity=False)
    assert same["outcome"][0] == given["outcome"][0] != table["effect"][0]
    credits = ot.credit(corpus, method="difference", unit="agent", weights=fit)
    listed = ot.credit(corpus, method="difference", unit="agent", weights=list(fit))
    assert credits.equals(listed)
    # v(N) of the replay is what was fitted: 1 - (1 - w w)(1 - w w w) with one weight, sources 1
    w = fit.weights.filter(type="message")["used"][0]
    assert same["outcome"][0] == pytest.approx(1 - (1 - w * w) * (1 - w * w * w), abs=1e-12)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "needs a method, or interventions"),
        ({"method": "difference", "outcomes": ["noisy_or"]}, "two models or more"),
        ({"method": "difference", "outcomes": "noisy_or"}, "two models or more"),
        ({"method": "difference", "outcomes": ["max", "max"]}, "'max' is given twice"),
        ({"method": "difference", "outcomes": ["max", "maximum"]}, "maximum"),
        ({"method": "uniform", "outcomes": ["max", "min"]}, "outcome"),
    ],
)
def test_mistakes_are_told(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.outcomes.sensitivity(chain_and_pair(), **asked)


def test_the_list_of_models_is_that_of_the_core() -> None:
    models = ot.outcomes.list_models()
    assert models.columns == ["model", "gate", "weighted", "fitted", "assumes"]
    corpus = chain_and_pair()
    gates = _core.OutcomeGates(corpus._store, targets="outcome")
    values = {}
    for name, weighted, fitted in models.select("model", "weighted", "fitted").rows():
        weights = [1.0, 1.0, 1.0, 0.2, 1.0, 1.0, 1.0, 1.0]
        drop = ot.interventions.drop(agent="bob")
        run = ot.replay(corpus, drop, outcome=name, weights=weights, sensitivity=False)
        other = ot.replay(corpus, drop, outcome=name, weights=[1.0] * 8, sensitivity=False)
        values[name] = run["outcome"][0]
        if fitted:
            assert weighted and run["outcome"][0] == pytest.approx(
                pl.DataFrame(gates.predict(name, weights))["value"][0], abs=1e-12
            )
        if not weighted:
            assert run["outcome"][0] == other["outcome"][0]
    with pytest.raises(ot.ParameterError, match="unknown outcome") as refused:
        ot.replay(corpus, ot.interventions.drop(agent="bob"), outcome="nothing")  # type: ignore[arg-type]
    told = str(refused.value)
    assert all(name in told for name in models["model"])
