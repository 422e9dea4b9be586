"""`engine=` of a study and of compare: the same numbers, whoever computes them and whatever is killed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.engines import Engine
from samples import divided
from samples.processes import started
from samples.small_study import SLOW, STUDY, assert_same_study

D = ot.distributed

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, measured by this process."""
    folder = tmp_path_factory.mktemp("here")
    ot.study.run(STUDY, folder, workers=0, threads=1)
    return folder


def test_processes_measure_the_cells_of_this_process(here: Path, tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    table = ot.study.run(STUDY, tmp_path, engine="processes", progress=lambda *one: calls.append(one))
    assert_same_study(tmp_path, here)
    assert set(table["status"]) == {"ok"} and table["node"].null_count() == table.height
    total = len(list((here / "cells").iterdir()))
    assert calls[-1] == (total, total)


@pytest.mark.skipif(not Path("/proc").exists(), reason="the processes of a machine are listed in /proc")
def test_workers_that_are_killed_cost_nothing(here: Path, tmp_path: Path) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done in (3, 12):
            for process, _ in started(os.getpid(), b"orchestrace.study.work"):
                killed.append(process)
                os.kill(process, signal.SIGKILL)

    ot.study.run(STUDY, tmp_path, engine=D.processes(workers=2), progress=kill)
    assert len(killed) == 4
    assert_same_study(tmp_path, here)


def test_a_study_is_gone_on_with_by_another_engine(here: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ot.study.run(STUDY, tmp_path, engine=D.processes(workers=1), progress=interrupt)
    there = {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()}
    assert len(there) == 5
    ot.study.run(STUDY, tmp_path, workers=0, threads=1)
    assert all((tmp_path / "cells" / name).read_bytes() == text for name, text in there.items())
    assert_same_study(tmp_path, here)


@pytest.mark.nightly
def test_a_call_over_the_budget_is_ended_by_an_engine(tmp_path: Path) -> None:
    table = ot.study.run(SLOW, tmp_path, engine=D.processes(workers=1))
    assert table["status"].to_list() == ["too_slow", "ok"] and table["stopped_s"][0] >= 1.0


def test_what_no_engine_can_measure_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(Engine):
        def table(self, call: Any) -> Any:
            raise AssertionError

        def joined(self, corpus: object) -> Any:
            raise AssertionError

    for options, told in (
        ({"engine": "processes", "workers": 2}, r"give it to the engine, distributed.processes\(workers=2\)"),
        ({"engine": D.ray("auto"), "workers": 0}, r"distributed.ray\(workers=0\)"),
        ({"engine": D.processes(), "threads": 2}, "threads is given twice"),
        ({"engine": "spark"}, "engine"),
        ({"engine": Other()}, "engine is of type Other, which measures no cells"),
    ):
        with pytest.raises(ot.ParameterError, match=told):
            ot.study.run(STUDY, tmp_path / "none", **options)
    assert not (tmp_path / "none").exists()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ot.ParameterError, match=r"needs Ray: pip install '\.\[ray\]' in your clone"):
        ot.study.run(STUDY, tmp_path, engine="ray")


# --- compare ----------------------------------------------------------------------------------------------

TIMES = ("seconds", "events_per_s")
METHODS: list[Any] = [
    "flow",
    "grpo",
    ("shapley", {"samples": 4}),
    "hca",  # is fitted to the corpus
    "reinforce_pp",  # compares all rollouts
    # a function of this process
    ("shapley", {"outcome": lambda coalitions, game: coalitions.sum(axis=1), "samples": 4}),
    ("gae", {"gamma": 7.0}),  # is refused
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ot.Corpus:
    return ot.read_corpus(divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"), traces=48, partitions=2))


@pytest.mark.nightly
def test_compare_with_an_engine_gives_the_table_without(corpus: ot.Corpus) -> None:
    alone = ot.compare(corpus, METHODS, seed=2)
    found = ot.compare(corpus, METHODS, seed=2, engine=D.processes(workers=1))
    assert_frame_equal(found.drop(TIMES), alone.drop(TIMES), check_exact=True)
    assert found["error"].is_null().to_list() == [True, True, True, True, True, True, False]
    assert (found["seconds"].drop_nulls() > 0).all()


@pytest.mark.nightly
def test_labels_and_truth_are_judged_alike(corpus: ot.Corpus) -> None:
    credits = ot.credit(corpus, unit="agent").filter(pl.col("unit_id").is_not_null())
    truth = credits.select("trace", agent=pl.col("unit_id"), contribution=pl.col("credit") * -1.0)
    labels = credits.unique("trace_id", keep="first", maintain_order=True).select(
        "trace_id", agent=pl.col("unit_id"), annotator=pl.lit("one"), turn=pl.lit(0)
    )
    options: dict[str, Any] = {"truth": truth, "labels": labels}
    alone = ot.compare(corpus, ["flow", "uniform"], **options)
    found = ot.compare(corpus, ["flow", "uniform"], **options, engine="processes", threads=2)
    assert_frame_equal(found.drop(TIMES), alone.drop(TIMES), check_exact=True)
    assert found["agent_accuracy"].null_count() == 0 and found["truth_spearman"].null_count() == 0


def test_an_engine_of_no_use_is_refused_before_anything_runs(corpus: ot.Corpus) -> None:
    memory = ot.generate(traces=8, seed=0)
    with pytest.raises(ot.ParameterError, match="divides a corpus on disk, and this one is in memory"):
        ot.compare(memory, ["flow"], engine="processes")
    measured = corpus.with_measures(
        corpus.traces.select("trace_id").with_columns(length=pl.lit(1.0)).collect()
    )
    with pytest.raises(ot.ParameterError, match="was changed by with_measures"):
        ot.compare(measured, ["flow"], engine="processes")
    with pytest.raises(ot.ParameterError, match="threads is given twice"):
        ot.compare(corpus, ["flow"], engine=D.processes(), threads=2)
    with pytest.raises(ot.ParameterError, match="give engine= to compare"):
        ot.compare(corpus, [("flow", {"engine": "processes"})])
