"""Recorded numbers at the ends of a 64-bit float: results beyond are null (`result.range`)."""

import warnings

import polars as pl
import polars.selectors as cs
import pytest

import orchestrace as ot

HUGE, TINY = 1.7e308, 5e-324


def runs(rewards: list[float], step: float, tasks: int = 2) -> ot.Corpus:
    """Traces of three events by two agents, which take `step` each."""
    traces, events = [], []
    for number in range(len(rewards)):
        traces.append({"trace": number, "trace_id": f"r{number}", "task_id": f"t{number % tasks}"})
        for seq, agent in enumerate(("root", "one", "root")):
            events.append(
                {
                    "trace": number,
                    "seq": seq,
                    "id": f"e{seq}",
                    "t": float(seq),
                    "duration_s": step,
                    "type": ("spawn", "message", "return")[seq],
                    "agent": agent,
                    "group_id": f"t{number % tasks}",
                }
            )
    measures = [
        {"trace": number, "kind": kind, "name": name, "value": value}
        for number, reward in enumerate(rewards)
        for kind, name, value in (
            ("reward", "team", reward),
            ("metric", "task_success", reward),
            ("cost", "wall_clock_s", abs(reward)),
        )
    ]
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(traces), events=pl.DataFrame(events), measures=pl.DataFrame(measures)
    )


def check(table: pl.DataFrame, reasons: tuple[str, ...] = ("reason",)) -> None:
    """No number is infinite or NaN, and somewhere it is said that one was beyond the floats."""
    for name in table.select(cs.float()).columns:
        assert table[name].drop_nulls().is_finite().all(), f"{name}: {table[name].to_list()}"
    said = {one for name in reasons for one in table[name].cast(pl.String).drop_nulls()}
    assert "result.range" in said, said


@pytest.fixture(autouse=True)
def quiet() -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "method .* compares the rollouts")
        yield


@pytest.mark.parametrize("by", ["task", "importer"])
def test_means_of_metrics(by: str) -> None:
    table = ot.metrics(runs([HUGE, HUGE, HUGE, HUGE], HUGE / 4), by=by)
    check(table, ("reason", "interval_reason"))
    row = table.filter(metric="wall_clock_s").row(0, named=True)
    assert row["mean"] is None and row["reason"] == "result.range" and row["n_traces"] > 1


def test_scaling_curves() -> None:
    table = ot.schedules.scaling_curve(runs([1.0], HUGE / 3.1), slots=[1, 2, 1000])
    check(table)
    costly = table.filter(k=1000).row(0, named=True)
    assert costly["cost"] is None and costly["reason"] == "result.range"
    assert table.filter(k=1)["makespan"].item() is not None


@pytest.mark.parametrize("size", [HUGE, TINY])
def test_ratios_of_credit(size: float) -> None:
    """They are ratios: the same for rewards of any size."""
    credits, corpora = [], []
    for unit in (1.0, size):
        corpus = runs([unit, -unit, unit, 0.0, 0.0, unit], 1.0)
        rows = ot.credit(corpus, method="uniform", unit="event")
        own = pl.col("trace").replace_strict(dict(enumerate([1.0, -1.0, 1.0, 0.0, 0.0, 1.0]))) * unit
        credits.append(rows.with_columns(credit=pl.when(pl.col("unit_id") == "e0").then(own).otherwise(0.0)))
        corpora.append(corpus)
    usual, odd = (ot.scaling.credit_snr(c, k) for c, k in zip(corpora, credits, strict=True))
    assert usual["snr"].drop_nulls().len() > 0
    for name in ("snr", "floor"):
        assert odd[name].drop_nulls().is_finite().all()
        assert odd[name].is_null().equals(usual[name].is_null())
        assert (odd[name] - usual[name]).abs().drop_nulls().max() < 1e-9


def test_comparisons_of_metrics() -> None:
    low, high = runs([-HUGE, 0.0], 1.0), runs([HUGE, HUGE], 1.0)
    table = ot.evaluation.compare_metrics(low, high)
    check(table, ("reason", "interval_reason"))
    success = table.filter(metric="task_success").row(0, named=True)
    assert success["difference"] is None and success["reason"] == "result.range"
    assert success["mean_a"] == -HUGE / 2 and success["n_tasks"] == 2
    summed = ot.evaluation.compare_metrics(high, high).filter(metric="task_success").row(0, named=True)
    assert summed["mean_a"] is None and summed["reason"] == "result.range"


def test_a_usual_corpus_is_not_said_to_be_beyond_anything() -> None:
    corpus = ot.generate(traces=32, seed=0)
    tables = [
        ot.metrics(corpus, by="task"),
        ot.schedules.scaling_curve(corpus),
        ot.evaluation.compare_metrics(corpus, corpus),
    ]
    for table in tables:
        assert "result.range" not in table["reason"].cast(pl.String).to_list()
