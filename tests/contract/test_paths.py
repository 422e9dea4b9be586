"""Paths of callers: `~` is the home folder wherever the library takes one."""

import inspect
import io
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from example_calls import Call, example_of, examples_folder, mentions, parameters
from namespaces import public
from orchestrace.base.verbs import all_verbs
from orchestrace.disk.partitioned import PartitionedCorpus

STUDY = (
    'methods = ["flow"]\n[[sizes]]\nevents = 10\nagents = 2\ntraces = 16\n[presets.additive]\nnoise = 0.5\n'
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def corpus(home: Path) -> ot.Corpus:
    (home / "runs.jsonl").write_bytes(recordings())
    return ot.read_traces(home / "runs.jsonl")


def recordings() -> bytes:
    buffer = io.BytesIO()
    ot.generate(buffer, traces=3, seed=0)
    return buffer.getvalue() + b"{broken\n"


def study_at(home: Path, _corpus: ot.Corpus) -> Path:
    (home / "study.toml").write_text(STUDY)
    ot.study.run("~/study.toml", "~/study", workers=0)
    return home / "study" / "study.json"


def ingested(home: Path, _corpus: ot.Corpus) -> Path:
    ot.ingest("~/runs.jsonl", "~/corpus")
    return home / "corpus" / "manifest.json"


def mapped(home: Path, _corpus: ot.Corpus) -> object:
    example = Path(__file__).resolve().parents[2] / "docs" / "formats" / "mapping.md"
    text = example.read_text(encoding="utf-8")
    (home / "house.toml").write_text(text.partition("```toml\n")[2].partition("```")[0])
    checked = ot.mapping.check("~/house.toml", "~/runs.jsonl")
    return len(ot.read_traces(io.BytesIO(b"{}\n"), mapping="~/house.toml")) == 0 and bool(checked)


def measured(home: Path, corpus: ot.Corpus) -> object:
    ids = corpus.traces.select("trace_id").collect().with_columns(mine=pl.lit(0.5))
    ids.write_csv(home / "scores.csv")
    own = corpus.with_measures("~/scores.csv").reward_channels()
    ot.ingest(home / "runs.jsonl", home / "corpus")
    return own == ot.read_corpus(home / "corpus").with_measures("~/scores.csv").reward_channels()


def audited(home: Path, _corpus: ot.Corpus) -> object:
    (home / "dump.csv").write_text("group,reward,advantage\na,1,0.5\na,0,-0.5\n")
    return ot.trainers.audit("~/dump.csv").height == 1


def on_disk(home: Path, corpus: ot.Corpus) -> Path:
    ingested(home, corpus)
    ot.read_corpus(home / "corpus").write_jsonl("~/disk.jsonl")
    corpus.write_jsonl("~/out.jsonl")
    return home / "out.jsonl"


def sunk(home: Path, corpus: ot.Corpus) -> Path:
    ot.credit(corpus, method="uniform", sink="~/sink")
    return home / "sink" / "part=000.parquet"


def divided(home: Path, corpus: ot.Corpus) -> Path:
    ingested(home, corpus)
    plan = ot.distributed.plan("~/corpus", "taint", folder="~/plan")
    ot.distributed.run_task(plan.tasks[0], corpus="~/corpus", again=True)
    ot.distributed.run("~/plan", corpus="~/corpus")
    assert ot.distributed.status("~/plan")["state"].to_list() == ["done"]
    ot.distributed.reduce("~/plan", corpus="~/corpus", sink="~/table.parquet")
    return home / "table.parquet"


def engines(home: Path, corpus: ot.Corpus) -> object:
    assert ot.distributed.ray(folder="~/parts").folder == str(home / "parts")
    ot.ingest("~/runs.jsonl", "~/corpus")
    engine = ot.distributed.processes(workers=1, folder="~/parts")
    return ot.taint(ot.read_corpus("~/corpus"), engine=engine).height


def searched(home: Path, corpus: ot.Corpus) -> object:
    mapped(home, corpus)
    ot.grep("~/runs.jsonl", "trace_id", mapping="~/house.toml")
    return ot.grep("~/*.jsonl", "trace_id").height


def priced(home: Path, corpus: ot.Corpus) -> object:
    (home / "prices.csv").write_text("model,input,output\nours-7b,1,2\n")
    listed = ot.costs.read_prices("~/prices.csv")
    assert ot.costs.table(corpus, prices="~/prices.csv").equals(ot.costs.table(corpus, prices=listed))
    assert ot.summary(corpus, prices="~/prices.csv").text() == ot.summary(corpus, prices=listed).text()
    assert ot.view(corpus, "~/priced.html", prices="~/prices.csv").n_listed
    for verb in (ot.costs.waste, ot.costs.waste_events):
        assert verb(corpus, prices="~/prices.csv").equals(verb(corpus, prices=listed))
    return ot.costs.spawns(corpus, prices="~/prices.csv").height


TAKEN: dict[tuple[str, str], Callable[[Path, ot.Corpus], object]] = {
    ("read_traces", "source"): lambda home, _: len(ot.read_traces("~/runs.jsonl")),
    ("read_traces", "mapping"): mapped,
    ("mapping.check", "mapping"): mapped,
    ("mapping.check", "source"): mapped,
    ("scan_events", "source"): lambda home, _: ot.scan_events("~/*.jsonl").head(1).collect(),
    ("scan_traces", "source"): lambda home, _: ot.scan_traces(["~/runs.jsonl"]).head(1).collect(),
    ("credit", "sink"): sunk,
    ("grep", "corpus"): searched,
    ("grep", "mapping"): searched,
    ("distributed.processes", "folder"): engines,
    ("distributed.ray", "folder"): engines,
    ("distributed.reduce", "corpus"): divided,
    ("distributed.reduce", "sink"): divided,
    ("distributed.reduce", "work"): divided,
    ("distributed.run", "corpus"): divided,
    ("distributed.run", "plan"): divided,
    ("distributed.run_task", "corpus"): divided,
    ("distributed.status", "plan"): divided,
    ("generate", "path"): lambda home, _: (ot.generate("~/g.jsonl", traces=1), home / "g.jsonl")[1],
    ("synthetic.planted", "path"): lambda home, _: (
        ot.synthetic.planted("~/p.jsonl", traces=8),
        home / "p.jsonl",
    )[1],
    ("costs.spawns", "prices"): priced,
    ("costs.table", "prices"): priced,
    ("costs.waste", "prices"): priced,
    ("costs.waste_events", "prices"): priced,
    ("summary", "prices"): priced,
    ("trainers.audit", "dump"): audited,
    ("view", "prices"): priced,
    ("Corpus.with_measures", "frame"): measured,
    ("Corpus.write_jsonl", "target"): on_disk,
    ("Corpus.write_quarantined", "target"): lambda home, c: (
        c.write_quarantined("~/q.jsonl"),
        home / "q.jsonl",
    )[1],
    ("study.run", "config"): study_at,
}
"""Public parameters that take a path, for which no example has one, and calls that give them one below the
home folder; of globs and lists, too."""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    yield from ((name, one) for name, one in public() if inspect.isfunction(one))
    for name, one in inspect.getmembers(ot.Corpus, inspect.isroutine):
        if not name.startswith("_"):
            yield f"Corpus.{name}", one


def in_examples() -> Iterator[tuple[str, str, Call]]:
    """Parameters of verbs that take a path, for which the example has one, and its call."""
    for about in all_verbs():
        for one in parameters(about.function):
            if mentions(one.annotation, os.PathLike):
                call = example_of(about.function)
                if isinstance(call.named.get(one.name), str | Path):
                    yield about.name, one.name, call


def test_every_parameter_that_takes_a_path_is_tried() -> None:
    found = {
        (name, parameter)
        for name, function in functions()
        for parameter, kind in inspect.get_annotations(function, eval_str=False).items()
        if parameter != "return" and mentions(kind, os.PathLike)
    }
    assert found == set(TAKEN) | {(name, parameter) for name, parameter, _ in in_examples()}
    assert PartitionedCorpus.with_measures is not ot.Corpus.with_measures  # tried within the same calls


def test_a_tilde_in_an_example_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", examples_folder())
    monkeypatch.chdir(tmp_path)
    for name, parameter, call in in_examples():
        path = Path(call.named[parameter]).relative_to(examples_folder())
        with warnings.catch_warnings(action="ignore"):
            answer = call.answer({parameter: f"~/{path}"})
        assert not isinstance(answer, pl.LazyFrame) or answer.collect().height
        assert list(tmp_path.iterdir()) == [], (name, parameter)  # nothing that is called ~


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("which", sorted(TAKEN), ids=" ".join)
def test_a_tilde_is_the_home_folder(
    which: tuple[str, str], home: Path, corpus: ot.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    made = TAKEN[which](home, corpus)
    assert not isinstance(made, Path) or made.exists()
    assert not isinstance(made, int) or made
    assert list(elsewhere.iterdir()) == []  # nothing that is called ~


def test_files_named_with_a_tilde_are_reached_from_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ot.generate("./~.jsonl", traces=2)
    assert len(ot.read_traces("./~.jsonl")) == 2 and (tmp_path / "~.jsonl").is_file()
    assert json.loads((tmp_path / "~.jsonl").read_text().splitlines()[0])


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no /dev/zero")
def test_devices_without_an_end_are_refused(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    ot.generate(runs, traces=2)
    corpus = ot.read_traces(runs)
    for suffix in (".toml", ".csv"):
        (tmp_path / f"endless{suffix}").symlink_to("/dev/zero")
    calls: dict[str, Callable[[], object]] = {
        "reading": lambda: ot.read_traces("/dev/zero"),
        "one of several": lambda: ot.read_traces([runs, "/dev/full"]),
        "scanning": lambda: ot.scan_events("/dev/zero").collect(),
        "ingest": lambda: ot.ingest("/dev/zero", tmp_path / "corpus"),
        "a mapping": lambda: ot.read_traces(runs, mapping=tmp_path / "endless.toml"),
        "measures": lambda: corpus.with_measures(tmp_path / "endless.csv"),
        "a dump": lambda: ot.trainers.audit(tmp_path / "endless.csv"),
        "a study": lambda: ot.study.read_config(tmp_path / "endless.toml"),
        "prices": lambda: ot.costs.read_prices(tmp_path / "endless.csv"),
    }
    for name, call in calls.items():
        with pytest.raises(ot.InputError, match="is a device without an end, expected a file or a pipe"):
            call()
            pytest.fail(name)
    assert len(ot.read_traces([runs, os.devnull])) == 2
