"""The intervals that every verb gives: those of means over tasks, and a reason where there is none."""

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import orchestrace as ot
from reference.intervals import score, student

Floats = np.ndarray[Any, np.dtype[np.float64]]


def table_of(values: Floats, metric: str = "parallelism") -> pl.DataFrame:
    return pl.DataFrame({"trace": range(len(values)), "task_id": range(len(values)), metric: values}).cast(
        {"task_id": pl.String}
    )


def compared(n: int, samples: int) -> float:
    """How often `ot.evaluation.compare_metrics` covers a difference of 0, of normal tasks."""
    rng, hits = np.random.default_rng(n), 0
    for _ in range(samples):
        row = ot.evaluation.compare_metrics(table_of(rng.normal(size=n)), table_of(rng.normal(size=n)))
        hits += row["lower"].item() <= 0.0 <= row["upper"].item()
    return hits / samples


@pytest.mark.statistical
@pytest.mark.parametrize("n", [3, 5, 10])
def test_comparisons_of_few_tasks_are_covered(n: int) -> None:
    low, high = stats.binom.ppf([0.0005, 0.9995], 600, 0.95) / 600  # 999 times in 1000
    assert low <= compared(n, 600) <= high


def test_a_paired_comparison_has_the_interval_of_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    for n in (3, 5, 10, 30):
        x, y = rng.lognormal(size=(2, n))
        row = ot.evaluation.compare_metrics(table_of(x), table_of(y), confidence=0.9).row(0, named=True)
        found = stats.ttest_rel(y, x).confidence_interval(0.9)
        assert (row["lower"], row["upper"]) == pytest.approx((found.low, found.high))
        assert (row["difference"], row["interval_reason"]) == (pytest.approx((y - x).mean()), None)


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=40, preset="mixed", seed=4)  # five tasks


def test_metrics_have_intervals_over_tasks(corpus: ot.Corpus) -> None:
    each = ot.metrics(corpus)
    table = ot.metrics(corpus, by="importer", pool_harnesses=True, confidence=0.9)
    assert table["n_tasks"].max() == 5 and table["n_traces"].max() == 40
    task = each["task_id"].rank("dense").cast(pl.Int64).to_numpy()
    flags = {name for name, dtype in each.schema.items() if dtype == pl.Boolean}
    told = 0
    for row in table.iter_rows(named=True):
        values = each[row["metric"]].cast(pl.Float64).fill_null(math.nan).to_numpy()
        known = np.isfinite(values)
        values, tasks = values[known], task[known]
        assert (row["n_traces"], row["n_tasks"]) == (values.size, np.unique(tasks).size)
        means = [values[tasks == one].mean() for one in np.unique(tasks)]
        if not means or np.ptp(means) <= 1e-12 * np.abs(values).max():
            continue  # no spread between tasks: below
        assert row["mean"] == pytest.approx(values.mean()) and row["interval_reason"] is None
        told += 1
        expected = (score if row["metric"] in flags else student)(values, tasks, 0.9)
        assert (row["lower"], row["upper"]) == pytest.approx(expected)
    assert told > 20
    silent = table.filter(pl.col("lower").is_null())
    assert set(silent["interval_reason"]) == {"support.absent", "group.degenerate"}
    lone = silent.filter(pl.col("mean").is_not_null(), pl.col("interval_reason") == "support.absent")
    assert (lone["n_tasks"] < 2).all()
    assert table.filter(pl.col("lower").is_not_null())["interval_reason"].count() == 0
    assert (table["lower"] < table["upper"]).all()
    for threads in (1, 3):
        again = ot.metrics(corpus, by="importer", pool_harnesses=True, confidence=0.9, threads=threads)
        assert again.equals(table)


def test_means_of_one_task_have_no_interval(corpus: ot.Corpus) -> None:
    table = ot.metrics(corpus, by="task")
    assert table["mean"].count() > 100 and table["lower"].count() == table["upper"].count() == 0
    assert set(table["interval_reason"]) == {"support.absent"} and table["n_tasks"].max() == 1


def test_flags_that_differ_stay_within_their_range() -> None:
    flags = np.array([True, True, False, True])
    row = ot.evaluation.compare_metrics(
        table_of(flags, "outcome_tainted"), table_of(~flags, "outcome_tainted")
    )
    row = row.row(0, named=True)
    assert -1.0 <= row["lower"] < row["difference"] == -0.5 < row["upper"] <= 1.0
    same = ot.evaluation.compare_metrics(*[table_of(flags, "outcome_tainted")] * 2).row(0, named=True)
    unseen = 1 - 0.025**0.25
    assert (same["lower"], same["upper"]) == pytest.approx((-unseen, unseen))


def located(right: list[bool], per_task: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Credits, labels and tasks of traces in which the blamed turn is the right one, or not."""
    credits = [
        (f"t{n:03}", "m", "turn", f"S{k}/{k}", float(k == (2 if hit else 1)))
        for n, hit in enumerate(right)
        for k in range(4)
    ]
    columns = ["trace_id", "method", "unit", "unit_id", "credit"]
    names = [f"t{n:03}" for n in range(len(right))]
    labels = pl.DataFrame({"trace_id": names}).with_columns(
        annotator=pl.lit("a"), turn=pl.lit(2), agent=pl.lit("S2")
    )
    tasks = pl.DataFrame({"trace_id": names, "task_id": [n // per_task for n in range(len(right))]})
    return pl.DataFrame(credits, columns, orient="row"), labels, tasks


def test_localization_has_intervals_over_tasks() -> None:
    right = [True, True, False, True, True, True, False, False, True, True, True, False]
    credits, labels, tasks = located(right, per_task=3)
    found = ot.evaluation.failure_attribution(credits, labels, tasks=tasks).row(0, named=True)
    hits, task = np.array(right, dtype=np.float64), np.arange(12) // 3
    assert (found["n_traces"], found["n_tasks"], found["interval_reason"]) == (12, 4, None)
    assert found["step_accuracy"] == hits.mean()
    ends = found["step_accuracy_lower"], found["step_accuracy_upper"]
    assert ends == pytest.approx(score(hits, task, 0.95))
    apart = ot.evaluation.failure_attribution(credits, labels).row(0, named=True)
    ends = apart["step_accuracy_lower"], apart["step_accuracy_upper"]
    assert ends == pytest.approx(score(hits, np.arange(12), 0.95))
    one = ot.evaluation.failure_attribution(
        credits, labels, tasks=tasks.with_columns(task_id=pl.lit("x"))
    ).row(0, named=True)
    assert (one["step_accuracy"], one["step_accuracy_lower"], one["n_tasks"]) == (hits.mean(), None, 1)
    assert (one["interval_reason"], one["step_vs_best"]) == ("support.absent", "indistinct")


def test_a_verdict_takes_more_than_few_tasks_that_agree() -> None:
    """Always right, beside a baseline that is right now and then: five traces do not tell them apart."""
    for n, verdict in ((5, "indistinct"), (30, "better")):
        credits, labels, _ = located([True] * n, per_task=1)
        labels = labels.with_columns(turn=pl.int_range(pl.len()) % 4, agent=None)
        at = pl.col("unit_id").str.extract(r"/(\d+)").cast(pl.Int64)
        right = credits.join(labels, on="trace_id").with_columns(
            credit=(at == pl.col("turn")).cast(pl.Float64)
        )
        found = ot.evaluation.failure_attribution(right.select(credits.columns), labels).row(0, named=True)
        assert (found["step_accuracy"], found["step_vs_best"]) == (1.0, verdict)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        (pl.DataFrame({"trace_id": ["t000"]}), "tasks has no column 'task_id'"),
        (pl.DataFrame({"trace_id": ["t000"], "task_id": ["x"]}), "tasks have no task_id for trace 't001'"),
        (
            pl.DataFrame({"trace_id": ["t000", "t000", "t001"], "task_id": ["x", "y", "x"]}),
            "tasks have several task_id for trace 't000'",
        ),
        (3, "tasks is 3, expected a frame"),
    ],
)
def test_tasks_that_do_not_fit_are_one_clear_line(tasks: Any, message: str) -> None:
    credits, labels, _ = located([True, False], per_task=1)
    with pytest.raises(ot.ParameterError, match=message) as error:
        ot.evaluation.failure_attribution(credits, labels, tasks=tasks)
    assert "\n" not in str(error.value)


def test_every_verb_says_why_it_has_no_interval(corpus: ot.Corpus) -> None:
    runs = [ot.credit(corpus, method=method, unit="agent") for method in ("flow", "discounted")]
    truth = runs[0].drop_nulls("unit_id").select("trace", "unit_id", contribution="credit")
    named = {
        "metrics": ot.metrics(corpus, by="system"),
        "compare_metrics": ot.evaluation.compare_metrics(corpus, corpus),
        "agreement": ot.evaluation.agreement(corpus, *runs),
        "agreement, one ranking": ot.evaluation.agreement(corpus, *runs, by="corpus", n_boot=50),
        "downscale": ot.study.downscale(corpus, ["flow"], shares=[0.5]),
    }
    for name, table in named.items():
        value = table[next(one for one in ("mean", "difference", "value") if one in table.columns)]
        assert table["lower"].count() > 0, name
        assert (table["lower"].is_null() == table["interval_reason"].is_not_null()).all(), name
        known = table.filter(value.is_not_null(), pl.col("lower").is_not_null())
        assert (known["lower"] < known["upper"]).all(), name
    compared = ot.compare(corpus, ["discounted"], truth=truth).row(0, named=True)
    assert compared["truth_spearman_lower"] is not None and compared["interval_reason"] is None
    task = corpus.traces.select(pl.col("task_id").first()).collect().item()
    alone = corpus.filter(pl.col("task_id") == task)
    compared = ot.compare(alone, ["discounted"], truth=truth).row(0, named=True)
    assert compared["truth_spearman"] is not None and compared["truth_spearman_lower"] is None
    assert compared["interval_reason"] == "support.absent"
