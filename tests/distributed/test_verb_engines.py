"""`engine=` of verbs: the table of one machine, and a folder that is gone afterwards or resumed from."""

import fcntl
import inspect
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.engines import Engine
from orchestrace.base.verbs import all_verbs
from orchestrace.credit import rollout_values
from orchestrace.disk.home import Home
from orchestrace.storage.addresses import address_of
from samples import divided, dying
from samples.divided import CALLS, assert_same_bits, function, one_machine

D = ot.distributed

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"), traces=80, partitions=3)


def by_engine(corpus: Any, call: str, engine: Any, **more: Any) -> Any:
    verb, arguments, options = CALLS[call]
    return function(verb)(corpus, *arguments, engine=engine, **{**options, **more})


def left(folder: Path) -> list[str]:
    """What calls have left beside a corpus."""
    return sorted(path.name for path in folder.parent.iterdir() if path.name.startswith("corpus."))


VERBS = {about.name: about for about in all_verbs() if about.division is not None}
ONE_OF_EACH = {verb: call for call, (verb, _, _) in reversed(CALLS.items())}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_with_an_engine_gives_the_table_of_one_machine(folder: Path, verb: str) -> None:
    call = ONE_OF_EACH[verb]
    corpus = ot.read_corpus(folder)
    found = by_engine(corpus, call, D.processes(workers=1))
    assert_same_bits(found, one_machine(corpus, call))
    assert not left(folder)


def test_every_verb_that_can_be_divided_takes_an_engine() -> None:
    for name, verb in VERBS.items():
        assert "engine" in inspect.signature(verb.function).parameters, name


def test_a_corpus_without_traces_gives_the_empty_table(folder: Path, tmp_path: Path) -> None:
    nothing = ot.read_corpus(folder).filter(False)
    assert_same_bits(ot.metrics(nothing, engine="processes"), ot.metrics(nothing))
    sunk = ot.credit(nothing, engine="processes", sink=tmp_path / "sink")
    assert_same_bits(sunk.collect(), ot.credit(nothing))
    assert not left(folder)


def test_a_named_engine_takes_the_threads_of_the_verb(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder).filter(pl.col("trace") % 2 == 0)
    calls: list[tuple[int, int]] = []
    found = ot.credit(
        corpus=corpus, unit="agent", engine="processes", threads=2, progress=lambda *one: calls.append(one)
    )
    assert_same_bits(found, ot.credit(corpus, unit="agent"))
    assert calls[-1] == (3, 3)
    with pytest.raises(ot.ParameterError, match="threads is given twice"):
        ot.taint(corpus, engine=D.processes(), threads=2)


def test_a_sink_has_the_files_of_one_machine(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder)
    options: dict[str, Any] = {"method": "grpo", "unit": "agent", "reward": ["team", {"team": 0.5}]}
    expected = ot.credit(corpus, **options, sink=tmp_path / "one").collect()
    engine = D.processes(workers=1, folder=tmp_path / "scratch")
    found = ot.credit(corpus, **options, sink=tmp_path / "many", engine=engine)
    assert_same_bits(found.collect(), expected)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert sorted(path.name for path in (tmp_path / "many").iterdir()) == names
    for name in names:
        assert (tmp_path / "many" / name).read_bytes() == (tmp_path / "one" / name).read_bytes()
    with pytest.raises(ot.ParameterError, match="not empty"):
        ot.credit(corpus, **options, sink=tmp_path / "many", engine=engine, resume=False)
    # each way resumes what the other has begun
    (tmp_path / "one" / names[-1]).unlink()
    again = ot.credit(corpus, **options, sink=tmp_path / "one", engine=engine, resume=True)
    assert_same_bits(again.collect(), expected)
    assert not list((tmp_path / "scratch").iterdir())
    with pytest.raises(ot.ParameterError, match="another call"):
        ot.credit(corpus, sink=tmp_path / "one", engine=engine, resume=True)
    assert not list((tmp_path / "scratch").iterdir())


def test_a_stopped_call_says_where_it_is_and_resumes(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder)
    engine = D.processes(workers=1, folder=tmp_path)

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        ot.metrics(corpus, engine=engine, progress=interrupt)
    (kept,) = tmp_path.iterdir()
    assert stopped.value.__notes__ == [f"what is done is in '{kept}', and the same call resumes from it"]
    assert kept.name.startswith("corpus.metrics.")
    parts = {path: path.stat().st_mtime_ns for path in kept.rglob("*.parquet")}
    assert len(parts) == 1
    calls: list[tuple[int, int]] = []
    found = ot.metrics(corpus, engine=engine, progress=lambda *one: calls.append(one))
    assert calls[0] == (1, 3)
    assert_same_bits(found, ot.metrics(corpus))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_was_half_removed_when_a_kill_came_is_no_obstacle(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder)
    engine = D.processes(workers=1, folder=tmp_path)
    with pytest.raises(InterruptedError):
        ot.taint(corpus, engine=engine, progress=_ended)
    (kept,) = tmp_path.iterdir()
    (kept / "plan.json").unlink()
    assert_same_bits(ot.taint(corpus, engine=engine), ot.taint(corpus))
    assert not list(tmp_path.iterdir())


def _ended(done: int, total: int) -> None:
    if done:
        raise InterruptedError


def test_a_call_that_fails_keeps_what_is_done(folder: Path, tmp_path: Path) -> None:
    own = divided.corpus_on_disk(tmp_path, traces=48, partitions=3)
    tasks = D.plan(own, "taint", folder=tmp_path / "plan").tasks
    last = min(tasks, key=lambda task: task.events)  # the one with the most events is begun first
    file = next((own / f"part={last.pieces[0][0]}" / "events").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    with pytest.raises(
        ot.InputError, match=r"task \d: .* is damaged .*; what is done is in '.*', and the same"
    ):
        ot.taint(ot.read_corpus(own), engine=D.processes(workers=1))
    assert len(left(own)) == 1
    file.write_bytes(whole)
    assert_same_bits(ot.taint(ot.read_corpus(own), engine="processes"), ot.taint(ot.read_corpus(own)))
    assert not left(own)


def test_a_call_without_any_part_leaves_nothing(folder: Path) -> None:
    with pytest.raises(ot.InputError, match=r"task \d was started once, and .* signal 9") as told:
        ot.credit(
            ot.read_corpus(folder), method=dying.NAME, always=True, engine=D.processes(workers=1, retries=0)
        )
    assert "what is done" not in str(told.value)
    assert not left(folder)


def test_the_same_call_at_once_is_refused(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder)
    engine = D.processes(workers=1, folder=tmp_path)

    def meanwhile(done: int, total: int) -> None:
        if done == 0:
            with pytest.raises(ot.InputError, match="another process computes the same call"):
                ot.taint(corpus, engine=engine)

    assert_same_bits(ot.taint(corpus, engine=engine, progress=meanwhile), ot.taint(corpus))


def test_a_file_system_without_locks_is_worked_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(fcntl, "flock", refuse)
    corpus = ot.read_corpus(folder)
    assert_same_bits(ot.taint(corpus, engine=D.processes(workers=1)), ot.taint(corpus))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"engine": "dask"}, "engine is 'dask', expected"),
        ({"engine": "rey"}, "did you mean 'ray'"),
        ({"engine": 7}, "engine is 7, expected 'processes', 'ray', or what"),
        ({"engine": "processes", "threads": 0}, "threads is 0"),
        ({"engine": "processes", "method": "floww"}, "did you mean 'flow'"),
        ({"engine": "processes", "sink": 7}, "sink is 7"),
        ({"engine": "processes", "sink": "out", "resume": "yes"}, "resume is 'yes'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    folder: Path, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ot.ParameterError, match=match):
        ot.credit(ot.read_corpus(folder), **options)
    assert not left(folder)


@pytest.mark.parametrize(
    "options",
    [
        {"unit": "agent"},
        {"unit": "role", "baseline": True, "reward": ["orchestration", {"team": 1.0, "process": 0.3}]},
        {"unit": "message", "batch": "train_step"},
        {"unit": "token", "batch": "error_amplification", "baseline": True, "compat": "verl"},
    ],
)
def test_a_method_that_compares_all_traces_is_that_of_memory(
    folder: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Rewards and metrics that some traces lack, and some pieces, too."""
    several = ot.read_corpus(folder)
    options = {"method": "reinforce_pp", **options}
    alone = ot.credit(several, **options)
    found = ot.credit(several, **options, engine=D.processes(workers=1))
    assert_same_bits(found, alone)
    sunk = ot.credit(several, **options, engine=D.processes(workers=1), sink=tmp_path / "sink")
    assert_same_bits(sunk.collect(), alone)
    memory = ot.credit(ot.read_traces(folder.parent / "runs.jsonl"), **options)
    assert_same_bits(*(_in_order(one) for one in (alone, memory)))
    assert memory["credit"].n_unique() > 8


def _in_order(credits: pl.DataFrame) -> pl.DataFrame:
    return credits.with_columns(pl.col(pl.Categorical).cast(pl.String)).sort(
        "reward", "trace", maintain_order=True
    )


FITTED = [
    name
    for name, scope in ot.list_methods().select("name", "scope").iter_rows()
    if scope == "corpus" and name != "reinforce_pp"
]


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus whose actions have effects, agents are paid, and states recur."""
    place = tmp_path_factory.mktemp("chosen")
    ot.synthetic.planted(place / "runs.jsonl", traces=256, events=16, effects="action", seed=3)
    ot.ingest(place / "runs.jsonl", place / "corpus", partitions=3)
    return place / "corpus"


@pytest.mark.parametrize("method", FITTED)
def test_a_method_that_is_fitted_is_that_of_one_machine(chosen: Path, method: str) -> None:
    """Every worker fits the whole corpus, and has the same model to the bit."""
    several = ot.read_corpus(chosen)
    alone = ot.credit(several, method=method, unit="agent")
    assert_same_bits(ot.credit(several, method=method, unit="agent", engine=D.processes(workers=2)), alone)
    assert alone["credit"].n_unique() > 4 or method == "ccpo", "no team was run without one of its agents"
    even = several.filter(pl.col("trace") % 2 == 0)
    with pytest.raises(ot.ParameterError, match="of a filtered one a task knows its own alone"):
        ot.credit(even, method=method, unit="agent", engine="processes")


def test_a_method_that_compares_all_traces_of_a_filtered_corpus(folder: Path) -> None:
    even = ot.read_corpus(folder).filter(pl.col("trace") % 2 == 0)
    alone = ot.credit(even, method="reinforce_pp", unit="agent")
    memory = ot.read_traces(folder.parent / "runs.jsonl").filter(pl.col("trace") % 2 == 0)
    assert_same_bits(
        *(_in_order(one) for one in (alone, ot.credit(memory, method="reinforce_pp", unit="agent")))
    )
    with pytest.raises(ot.ParameterError, match="of a filtered one a task knows its own alone"):
        ot.credit(even, method="reinforce_pp", engine="processes")
    with pytest.raises(
        ot.ParameterError, match="compares all traces of a corpus at once, and this one has 3"
    ):
        ot.explain(even, alone, alone["unit_id"][0], trace=alone["trace"][0])


def test_rollouts_that_have_no_room_in_the_budget_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_values, "_BYTES", 1 << 40)
    with pytest.raises(ot.ParameterError, match="compares all 80 traces of the corpus at once, which takes"):
        ot.credit(ot.read_corpus(folder), method="reinforce_pp")


def test_corpora_that_no_worker_opens_are_refused(folder: Path) -> None:
    with pytest.raises(ot.ParameterError, match=r"is in memory: write it with ot\.ingest"):
        ot.metrics(ot.generate(traces=2, seed=0), engine="ray")
    with pytest.raises(ot.ParameterError, match="corpus is"):
        ot.metrics("runs.jsonl", engine="ray")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="corpus"):
        ot.metrics(engine="ray")  # type: ignore[call-arg]
    remote = ot.read_corpus(folder)
    remote._manifest.home = Home(address_of("s3://bucket/corpus"))
    with pytest.raises(ot.ParameterError, match=r"object storage, .* ot\.distributed\.ray\(folder=\.\.\.\)"):
        ot.metrics(remote, engine=D.ray())
    own = ot.read_corpus(folder).with_measures(pl.DataFrame({"trace": [0], "own": [1.0]}))
    with pytest.raises(ot.ParameterError, match="with_measures"):
        ot.metrics(own, engine="processes")


def test_a_place_that_cannot_be_written_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ot.ParameterError, match=r"file' is a file, expected a folder"):
        ot.taint(ot.read_corpus(folder), engine=D.processes(folder=tmp_path / "file"))
    with pytest.raises(ot.InputError, match="give the engine a folder that all workers see"):
        ot.taint(ot.read_corpus(folder), engine=D.processes(folder="/proc/nowhere"))


def test_engines_are_judged_when_they_are_made() -> None:
    with pytest.raises(ot.ParameterError, match="workers is 0"):
        D.processes(workers=0)
    with pytest.raises(ot.ParameterError, match="retries is -1"):
        D.ray(retries=-1)
    assert isinstance(D.ray("auto"), Engine)
    assert D.ray("auto", threads=2) == D.ray(address="auto", threads=2)
