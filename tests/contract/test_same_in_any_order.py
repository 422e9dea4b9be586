"""Every verb says the same of the same runs in any order: files of other names, rows of tables, partitions.

Numbers of traces follow the order, so that they are compared by the ids that they stand for.
"""

import io
import json
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from contract.test_same_bits import CALLS, MEASURED, PLACES, answer_of
from contract.verbs import METHODS, VERBS, answer, crediting, frames
from orchestrace.statistics import influence, resampling, sums
from samples import divided
from samples.cut_runs import documents_of
from samples.examples import examples
from samples.hand_runs import event, run
from samples.random_runs import Document

OF_ONE_RUN = (
    *("explain", "rewards.explain", "source", "evaluation.edit_script"),
    *("plot.spawn_tree", "plot.taint", "plot.timeline"),
)
"""Calls that are about the first run, or about one in the middle of a table."""
BY_ORDER = {
    "evaluation.align": "pairs='all' puts the earlier run first",
    "describe": "counts of records are by file",
    "display": "counts of records are by file",
    "disk.sql_views": "is about what is on disk",
    "study.downscale": "refuses what is not in memory",
    "study.prefixes": "refuses what is not in memory",
    "view": "half a minute, and a page of numbers",
    "evaluation.faithfulness": "a minute; runs are judged one by one",
}
"""Other calls that are not compared, and why."""
LAST_DIGITS = (
    *("rudder", "vdn", "qmix", "hca", "dae", "ccpo", "aristocrat"),
    *("credit of groups", "credit of siblings"),
)
"""Methods whose sums over runs follow the order of recordings: docs/credit-groups.md, credit-fitted.md."""
OF_FILES = ("grep", "trainers.sink_selection")
"""Calls that read the texts in files, which runs from tables do not have."""
OF_GROUPS = ("stopping.epochs attempt", "stopping.support", "stopping.regret")
"""Calls whose ``trace`` is the number of a group."""


def tied_runs(traces: int = 6) -> list[Document]:
    """Runs of which each is there twice, so that whatever is compared between runs has ties."""
    documents = documents_of(ot.generate(traces=traces, preset="mixed", seed=3))
    return [one for it in documents for one in (it, it | {"trace_id": f"{it['trace_id']} again"})]


def write(folder: Path, files: list[list[Document]]) -> Path:
    folder.mkdir()
    for number, documents in enumerate(files):
        lines = "".join(json.dumps(document) + "\n" for document in documents)
        (folder / f"runs{number}.jsonl").write_text(lines, encoding="utf-8")
    return folder


def in_other_files(documents: list[Document], seed: int = 0) -> list[list[Document]]:
    """The documents in another order, in three files."""
    shuffled = random.Random(seed).sample(documents, len(documents))
    third = len(shuffled) // 3
    return [shuffled[:third], shuffled[third : 2 * third], shuffled[2 * third :]]


def from_shuffled_rows(corpus: ot.Corpus) -> ot.Corpus:
    """The same runs under other numbers, from tables whose rows come in any order.

    Edges of a trace stay in the order in which they are listed, over which sums within a trace go.
    """
    numbers = list(range(len(corpus)))
    random.Random(1).shuffle(numbers)
    tables = {}
    for name in ("traces", "events", "edges", "agents", "measures"):
        frame = getattr(corpus, name).collect()
        frame = frame.with_columns(pl.col("trace").replace_strict(range(len(corpus)), numbers))
        if name == "edges":
            tables[name] = frame.sort("trace", maintain_order=True)
        else:
            tables[name] = frame.sample(fraction=1.0, shuffle=True, seed=2)
    traces = tables.pop("traces").drop("n_events", "n_edges", "n_agents", *PLACES, strict=False)
    events = tables.pop("events").drop(*PLACES, strict=False)
    return ot.Corpus.from_arrow(
        traces=traces, events=events, edges=tables["edges"], measures=tables["measures"]
    )


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> list[ot.Corpus]:
    """The same runs as they are written, in other files, on disk in one partition or more, from tables."""
    folder = tmp_path_factory.mktemp("orders")
    runs = tied_runs()
    first = write(folder / "first", [runs[:7], runs[7:]])
    other = write(folder / "other", in_other_files(runs))
    ot.ingest(first, folder / "one", partitions=1)
    ot.ingest(other, folder / "many", partitions=8)
    ot.ingest(other, folder / "grouped", partitions=5, group="task_id")
    here = ot.read_traces(first)
    stored = [ot.read_corpus(folder / name) for name in ("one", "many", "grouped")]
    return [here, ot.read_traces(other), *stored, from_shuffled_rows(here)]


@cache
def calls() -> dict[str, Any]:
    methods = {f"all credit {method}": crediting(method, units[-1]) for method, units in METHODS}
    return {name: verb for name, verb in {**VERBS, **CALLS, **methods}.items() if is_compared(name)}


def is_compared(name: str) -> bool:
    return name not in (*OF_ONE_RUN, *BY_ORDER) and not name.startswith("export")


def result_of(name: str, corpus: ot.Corpus) -> Any:
    """The answer of a call, or its error."""
    if name.startswith("all credit"):
        return answer(calls()[name], corpus)
    return answer(lambda corpus: answer_of(name, corpus), corpus)


def parts(said: Any) -> Iterator[Any]:
    """The tables of an answer, and the figures of one that has fields."""
    if is_dataclass(said):
        for field in fields(said):
            yield from parts(getattr(said, field.name))
    elif isinstance(said, pl.DataFrame | dict):
        yield from frames(said)
    elif isinstance(said, str | float | int | None):
        yield said


def by_ids(frame: pl.DataFrame, ids: dict[int, str], name: str) -> pl.DataFrame:
    """The table with ids for numbers of traces, and without places and times of computing."""
    numbers = [
        column
        for column, dtype in frame.schema.items()
        if dtype.is_integer() and (column == "trace" or column.startswith("trace_"))
    ]
    if name in OF_GROUPS:
        frame, numbers = frame.drop("trace", strict=False), []
    texts = [column for column, dtype in frame.schema.items() if dtype == pl.Categorical]
    return frame.drop(*MEASURED, *PLACES, strict=False).with_columns(
        *(pl.col(column).replace_strict(ids, return_dtype=pl.String) for column in numbers),
        *(pl.col(column).cast(pl.String) for column in texts),
    )


def assert_same(name: str, one: Any, other: Any) -> None:
    if not isinstance(one, pl.DataFrame):
        assert one == other
        return
    if any(method in name for method in LAST_DIGITS):
        keys = [column for column, dtype in one.schema.items() if not dtype.is_float()]
        pair = [frame.sort(keys) for frame in (one, other)]
        assert_frame_equal(*pair, rel_tol=1e-9, abs_tol=1e-12)
    else:
        assert_frame_equal(*map(divided.bits, (one, other)), check_exact=True, check_row_order=False)


@pytest.mark.parametrize("name", list(calls()))
@pytest.mark.every_nth(16)
def test_any_order_says_the_same(orders: list[ot.Corpus], name: str) -> None:
    """Rows may come in another order."""
    answers = []
    for corpus in orders[:-1] if name in OF_FILES else orders:
        ids = dict(corpus.traces.select("trace", pl.col("trace_id").cast(pl.String)).collect().rows())
        found = result_of(name, corpus)
        tables = [by_ids(x, ids, name) if isinstance(x, pl.DataFrame) else x for x in parts(found)]
        answers.append((isinstance(found, ot.OrchestraceError), tables))
    (is_error, expected), *others = answers
    for other, tables in others:
        assert other is is_error and len(tables) == len(expected)
        for one, another in zip(expected, tables, strict=True):
            assert_same(name, one, another)


# --- what once followed the order ------------------------------------------------------------------------


def read(documents: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO("\n".join(map(json.dumps, documents)).encode()), format="native")


@pytest.fixture(scope="module")
def more_runs() -> list[ot.Corpus]:
    """Runs as they are written, and in two other orders."""
    runs = tied_runs(20)
    return [read(runs), read(runs[::-1]), read(random.Random(4).sample(runs, len(runs)))]


def of_group(corpus: ot.Corpus, method: str) -> pl.DataFrame:
    """Credit of a method that compares runs; two channels, which one method takes one by one."""
    return ot.credit(corpus, method=method, reward={"team": 1.0, "tool": 0.5})


FOLLOWED = {
    "summary": ot.summary,
    "report_checklist": ot.evaluation.report_checklist,
    "compare_metrics": lambda c: ot.evaluation.compare_metrics(*[ot.metrics(c, groups=["span"])] * 2),
    "task_differences": lambda c: ot.evaluation.task_differences(c, c),
    "divergence": lambda c: ot.evaluation.divergence(c, success=0.97),
    "branch_tests": lambda c: ot.evaluation.branch_tests(c, success=0.97, draws=50),
    "failure_rates": lambda c: ot.evaluation.failure_rates(c, success=0.97),
    "sibling_diagnostics": ot.evaluation.sibling_diagnostics,
    "failure_modes": lambda c: ot.rewards.failure_modes(c, n_boot=20),
    "verifier_health": lambda c: ot.rewards.verifier_health(c, judge="process", n_boot=20),
    "metrics": lambda c: ot.metrics(c, by="topology").sort("topology", "metric"),
    "training_curves": ot.trainers.training_curves,
    "credit_snr": lambda c: ot.scaling.credit_snr(c, ot.credit(c, method="flow", unit="event")),
    "compare": lambda c: ot.compare(c, ["flow", "uniform", "discounted"], unit="agent"),
    "outcomes.fit": ot.outcomes.fit,
    **{
        f"credit {method}": lambda c, method=method: of_group(c, method)
        for method in (
            "grpo",
            "rloo",
            "gigpo",
            "reinforce_pp",
            "dr_mas",
            "at_grpo",
            "magrpo",
            "marshal",
            "c3",
            "gdpo",
            "ccpo",
        )
    },
}
"""Calls whose last digits, choices among ties or rows of a table hung on the order of runs."""


@pytest.mark.parametrize("name", list(FOLLOWED))
def test_sums_and_ties_do_not_follow_the_order(more_runs: list[ot.Corpus], name: str) -> None:
    answers = []
    for corpus in more_runs:
        ids = dict(corpus.traces.select("trace", pl.col("trace_id").cast(pl.String)).collect().rows())
        found = list(parts(FOLLOWED[name](corpus)))
        answers.append([by_ids(x, ids, name) if isinstance(x, pl.DataFrame) else x for x in found])
    expected, *others = answers
    by_run = name in ("divergence", "sibling_diagnostics") or name.startswith("credit ")
    for other in others:
        for one, another in zip(expected, other, strict=True):
            if isinstance(one, pl.DataFrame):
                pair = map(divided.bits, (one, another))
                assert_frame_equal(*pair, check_exact=True, check_row_order=not by_run)
            else:
                assert one == another


def test_a_case_of_a_finding_is_the_first_by_id() -> None:
    runs = [run(0, 1.0, [event(0), event(1)], [(0, 1), (1, 0)], trace_id=name) for name in ("c", "a", "b")]
    tables = [ot.describe(read(order))["findings"] for order in (runs, runs[::-1])]
    assert tables[0].equals(tables[1]) and set(tables[0]["trace_id"]) == {"a"}


def test_a_branch_names_its_first_run_by_id() -> None:
    runs = [
        run(0, reward, [event(0), event(1, type="tool_call", tool=tool)], [(0, 1)], trace_id=name)
        for name, reward, tool in (("c", 0.0, "x"), ("b", 0.0, "x"), ("a", 1.0, "y"), ("d", 1.0, "y"))
    ]
    for order in (runs, runs[::-1]):
        corpus = read(order)
        ids = corpus.traces.select("trace", "trace_id").collect()
        branches = ot.evaluation.divergence(corpus).join(ids, on="trace")
        assert sorted(branches["trace_id"]) == ["a", "b"]


def other_numbers(epochs: pl.DataFrame) -> pl.DataFrame:
    """The same runs, the last one first."""
    return epochs.with_columns(trace=pl.col("trace").max() - pl.col("trace"))


def test_rules_of_stopping_do_not_follow_the_numbers_of_runs() -> None:
    epochs, _ = ot.synthetic.stops(runs=60, seed=0)
    both = epochs, other_numbers(epochs)
    names = ["recorded", "fixed", "lsm", "tvr", "oracle"]
    for estimand in ("capped", "uncapped"):
        tables = [ot.stopping.evaluate(one, names, price=0.03, estimand=estimand, n_boot=10) for one in both]
        assert_frame_equal(*map(divided.bits, tables), check_exact=True)
    assert_frame_equal(*(divided.bits(ot.stopping.support(one)) for one in both), check_exact=True)


def test_alarms_do_not_follow_the_numbers_of_runs() -> None:
    r = random.Random(0)
    steps = [
        {"run": f"run{n}", "step": k, "score": r.gauss(0.3 * (n % 3 > 0), 1.0), "success": n % 3 > 0}
        for n in range(90)
        for k in range(1, 4)
    ]
    epochs = ot.stopping.epochs_from_frame(pl.DataFrame(steps))
    rules = []
    for one in (epochs, other_numbers(epochs)):
        rule = ot.stopping.fit_abort(one, alpha=0.2)
        table = ot.stopping.evaluate_abort(one, rule, n_boot=10).drop("params")
        rules.append((rule.threshold, table))
    assert rules[0][0] == rules[1][0]
    assert_frame_equal(*(divided.bits(table) for _, table in rules), check_exact=True)


@examples(60)
@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 4)), min_size=5, max_size=30), st.randoms())
def test_estimates_do_not_follow_the_order_of_rows(rows: list[tuple[float, int]], r: random.Random) -> None:
    estimates = []
    for order in (rows, r.sample(rows, len(rows))):
        values, clusters = np.array([x for x, _ in order]), np.array([c for _, c in order])
        buckets = np.unique(np.round(values / 1e5), return_inverse=True)[1]
        mean = influence.mean_interval(values, clusters, confidence=0.9)
        spanning = influence.spanning_interval(
            0.0, values / 7, clusters, buckets, values > 0.0, confidence=0.9
        )
        statistic = resampling.rank_correlation_of(values, values * (clusters - 2), clusters)
        times = np.vstack([np.ones(5), np.arange(1.0, 6.0)])
        by_cluster = sums.sums_of(values / 3, clusters, 5)
        estimates.append(repr((mean, spanning, by_cluster.tolist(), statistic(times).tolist())))
    assert estimates[0] == estimates[1]
