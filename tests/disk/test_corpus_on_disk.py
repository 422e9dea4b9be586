"""A corpus on disk among changing inputs, other folders and results that are gone on with."""

import errno
import json
import os
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import CREDITS
from samples import on_disk


def trace(name: str, task: str = "task", reward: float = 1.0, events: int = 3) -> bytes:
    document = on_disk.document(name, events, task)
    document["rewards"] = {"team": reward}
    return json.dumps(document).encode()


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Twelve groups of four."""
    lines = [trace(f"t{n}", f"task {n // 4}", n % 3, 5) for n in range(48)]
    return write(tmp_path / "runs.jsonl", *lines)


@pytest.fixture
def folder(runs: Path, tmp_path: Path) -> Path:
    ot.ingest(runs, tmp_path / "corpus", partitions=3)
    return tmp_path / "corpus"


# --- results in files -------------------------------------------------------------------------------------


def test_a_sink_goes_on_only_with_the_same_call(folder: Path, tmp_path: Path) -> None:
    corpus, sink = ot.read_corpus(folder), tmp_path / "credits"
    whole = ot.credit(corpus, method="discounted", unit="agent")
    made = ot.credit(corpus, method="discounted", unit="agent", sink=sink)
    assert_frame_equal(made.collect(), whole)
    removed = sorted(sink.glob("*.parquet"))[1]
    removed.unlink()
    again = ot.credit(corpus, method="discounted", unit="agent", sink=sink, resume=True)
    assert removed.exists()
    assert_frame_equal(again.collect(), whole)
    with pytest.raises(ot.ParameterError, match="not empty"):
        ot.credit(corpus, method="discounted", unit="agent", sink=sink, resume=False)
    assert_frame_equal(ot.credit(corpus, method="discounted", unit="agent", sink=sink).collect(), whole)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    with pytest.raises(ot.ParameterError, match=r"not empty, it has 'mine\.txt'"):
        ot.credit(corpus, sink=tmp_path / "notes")
    for changed in (
        {"gamma": 0.5},
        {"seed": 1},
        {"reward": {"team": 2.0}},
        {"method": "flow"},
        {"unit": "role"},
    ):
        options = {"method": "discounted", "unit": "agent", **changed}
        with pytest.raises(ot.ParameterError, match="another call"):
            ot.credit(corpus, sink=sink, resume=True, **options)
    other = ot.read_corpus(folder, memory="64MiB")
    with pytest.raises(ot.ParameterError, match="memory"):
        ot.credit(other, method="discounted", unit="agent", sink=sink, resume=True)
    some = corpus.filter(pl.col("trace") < 7)
    with pytest.raises(ot.ParameterError, match="corpus"):
        ot.credit(some, method="discounted", unit="agent", sink=sink, resume=True)
    ot.ingest(write(tmp_path / "more.jsonl", trace("new")), folder)
    with pytest.raises(ot.ParameterError, match="another call"):
        ot.credit(ot.read_corpus(folder), method="discounted", unit="agent", sink=sink, resume=True)


@pytest.mark.parametrize("published", [0, 1, 2])
def test_a_sink_goes_on_whichever_of_its_files_was_the_last(
    published: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the description of the call and the parts, in order, some have their names when the disk is full."""
    corpus, sink, renamed = ot.read_corpus(folder), tmp_path / "credits", os.replace

    def replace(old: Path, new: Path) -> None:
        if len([path for path in sink.iterdir() if path.suffix != ".tmp"]) == published:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        renamed(old, new)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "replace", replace)
        ot.credit(corpus, unit="agent", sink=sink)
    made = ot.credit(corpus, unit="agent", sink=sink)
    assert_frame_equal(made.collect(), ot.credit(corpus, unit="agent"))


@pytest.mark.parametrize("left", [0, 8, 200])
def test_a_sink_computes_a_part_again_that_lost_its_end(left: int, folder: Path, tmp_path: Path) -> None:
    corpus, sink = ot.read_corpus(folder), tmp_path / "credits"
    ot.credit(corpus, unit="agent", sink=sink)
    whole = {path.name: path.read_bytes() for path in sink.iterdir()}
    os.truncate(max(sink.glob("*.parquet")), left)
    ot.credit(corpus, unit="agent", sink=sink)
    assert {path.name: path.read_bytes() for path in sink.iterdir()} == whole


def test_a_sink_of_what_cannot_be_told_apart_is_not_gone_on_with(folder: Path, tmp_path: Path) -> None:
    own = ot.read_corpus(folder).with_measures(pl.DataFrame({"trace": [0], "own": [1.0]}))
    ot.credit(own, reward="own", unit="team", sink=tmp_path / "a")
    with pytest.raises(ot.ParameterError, match="own measures"):
        ot.credit(own, reward="own", unit="team", sink=tmp_path / "a", resume=True)
    (tmp_path / "b").mkdir()
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "b" / "part=000.parquet")
    with pytest.raises(ot.ParameterError, match="something else"):
        ot.credit(ot.read_corpus(folder), unit="team", sink=tmp_path / "b", resume=True)
    (tmp_path / "c").write_text("")
    with pytest.raises(ot.ParameterError, match="is a file"):
        ot.credit(ot.read_corpus(folder), unit="team", sink=tmp_path / "c")


def test_arguments_are_judged_where_there_is_nothing_to_do(folder: Path) -> None:
    nothing = ot.read_corpus(folder).filter(pl.lit(False))
    assert ot.credit(nothing, unit="team").columns == list(CREDITS)
    with pytest.raises(ot.ParameterError, match="nonsense"):
        ot.credit(nothing, method="nonsense")


# --- rejected records -------------------------------------------------------------------------------------


def test_mended_records_complete_the_corpus(tmp_path: Path) -> None:
    good = [trace(f"t{n}") for n in range(5)]
    broken = [good[1].replace(b'"task_id"', b'"tusk_id"'), good[3][:-1]]
    source = write(tmp_path / "runs.jsonl", good[0], broken[0], good[2], broken[1], good[4])
    ot.ingest(source, tmp_path / "corpus")
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert corpus.write_quarantined(tmp_path / "bad.jsonl") == 2
    assert (tmp_path / "bad.jsonl").read_bytes() == broken[0] + b"\n" + broken[1] + b"\n"
    mended = write(tmp_path / "mended.jsonl", good[1], good[3])
    records = ot.ingest(mended, tmp_path / "corpus").records
    assert records == {"read": 7, "used": 5, "ignored": 0, "duplicate": 0, "quarantined": 2}


def test_rejects_of_changed_files_are_not_guessed(tmp_path: Path) -> None:
    source = write(tmp_path / "runs.jsonl", trace("a"), b"{broken", trace("b"))
    ot.ingest(source, tmp_path / "corpus")
    corpus, memory = ot.read_corpus(tmp_path / "corpus"), ot.read_traces(source)
    with pytest.raises(ot.ParameterError, match="one of the files"):
        memory.write_quarantined(source)
    with pytest.raises(ot.InputError, match="no/where"):
        memory.write_quarantined(tmp_path / "no" / "where")
    source.write_bytes(b"{}\n")
    for changed in (corpus, memory):
        with pytest.raises(ot.InputError, match="changed"):
            changed.write_quarantined(tmp_path / "bad.jsonl")


def test_a_file_that_was_read_twice_is_written_once(tmp_path: Path) -> None:
    source = write(tmp_path / "runs.jsonl", b"{1", trace("a"), b"{2")
    corpus = ot.read_traces([source, source])
    assert corpus.records["quarantined"] == 4
    assert corpus.write_quarantined(tmp_path / "bad.jsonl") == 2


# --- inputs -----------------------------------------------------------------------------------------------


def test_labels_outlive_merging_when_an_id_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The label of the second trace with an id lies in another part than the first trace."""
    on_disk.make_small(monkeypatch.setattr)
    run = {
        "question": "what",
        "history": [{"role": "Planner", "content": "plan"}, {"role": "Worker", "content": "work"}],
        "mistake_agent": "Worker",
        "mistake_step": "1",
        "mistake_reason": "first",
    }
    for name, text in (("d1", "first"), ("d2", "second")):
        (tmp_path / name).mkdir()
        run["history"][0]["content"] = text  # type: ignore[index]
        (tmp_path / name / "1.json").write_text(json.dumps(run))
    between = write(tmp_path / "mid.jsonl", *(trace(f"m{n}", events=40) for n in range(60)))
    inputs = [tmp_path / "d1" / "1.json", between, tmp_path / "d2" / "1.json"]
    ot.ingest(inputs, tmp_path / "corpus", partitions=1)
    wanted = ot.read_traces(inputs).labels.collect()
    assert wanted.height == 2
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert len(corpus._manifest.parts["000"]) > 1
    assert_frame_equal(corpus.labels.collect(), wanted, categorical_as_str=True)


def test_an_input_that_is_gone_hinders_no_later_ingest(tmp_path: Path) -> None:
    a = write(tmp_path / "a.jsonl", trace("x"), trace("y"))
    b = write(tmp_path / "b.jsonl", trace("x"), trace("z"))
    ot.ingest([a, b], tmp_path / "corpus")
    b.unlink()
    write(a, trace("y"))
    report = ot.ingest(a, tmp_path / "corpus")
    assert dict(report.inputs.select("input", "status").rows())[str(b)] == "missing"
    new = write(tmp_path / "n.jsonl", trace("n"))
    assert ot.ingest(new, tmp_path / "corpus").inputs["status"].to_list() == ["new"]
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert sorted(corpus.traces.collect()["trace_id"]) == ["n", "y", "z"]
    assert corpus._manifest.complete


def test_only_errors_of_this_call_count(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", trace("a"), b"{", b"{")
    ot.ingest(bad, tmp_path / "corpus")
    good = write(tmp_path / "good.jsonl", trace("b"))
    ot.ingest(good, tmp_path / "corpus", on_error="raise")
    write(good, trace("b"), b"{")
    with pytest.raises(ot.QuarantineError, match=r"json\.syntax") as raised:
        ot.ingest(good, tmp_path / "corpus", on_error="raise")
    assert raised.value.frame.height == 1
    with pytest.raises(ot.QuarantineError):
        ot.ingest(good, tmp_path / "corpus", max_errors=0, max_error_ratio=0.4)
    ot.ingest(good, tmp_path / "corpus", max_errors=0, max_error_ratio=0.5)


def test_what_is_settled_without_reading_is_kept(folder: Path, runs: Path) -> None:
    ot.ingest(runs, folder, memory="1GiB")
    assert ot.read_corpus(folder)._memory == 1 << 30
    runs.touch()
    assert ot.ingest(runs, folder).inputs["status"].to_list() == ["unchanged"]
    assert ot.read_corpus(folder)._manifest.inputs[0].mtime_ns == runs.stat().st_mtime_ns


# --- folders ----------------------------------------------------------------------------------------------


def test_a_corpus_is_no_recording(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ot.InputError, match="read_corpus"):
        ot.read_traces(folder)
    assert ot.read_traces(tmp_path).records == {
        "read": 48,
        "used": 48,
        "ignored": 0,
        "duplicate": 0,
        "quarantined": 0,
    }
    report = ot.ingest(tmp_path, tmp_path / "second")
    assert report.inputs.height == 1


def test_folders_whose_names_look_like_patterns(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "g[1]*?"
    ot.ingest(runs, folder, partitions=2)
    corpus = ot.read_corpus(folder)
    assert ot.credit(corpus, unit="team").height == 48
    assert corpus.events.collect().height == 240
    ot.ingest(write(tmp_path / "more.jsonl", trace("new")), folder)
    sink = tmp_path / "s[1]"
    assert ot.credit(ot.read_corpus(folder), unit="team", sink=sink).collect().height == 49


# --- versions ---------------------------------------------------------------------------------------------


def test_a_corpus_of_a_version_with_fewer_codes_is_read_and_added_to(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    backwards = json.loads(trace("back", "other", events=3))
    backwards["events"][0]["t"] = 99.0
    write(runs, json.dumps(backwards).encode(), trace("fine"), b"{}")
    ot.ingest(runs, folder, partitions=2)
    for table in ("findings", "quarantine"):
        files = [*folder.glob(f"part=*/{table}/*.parquet"), *folder.glob(f"{table}/*.parquet")]
        assert files
        for file in files:
            rows = pl.read_parquet(file)
            codes = rows.schema["code"].categories  # type: ignore[attr-defined]
            # As a version wrote it that did not have the last code yet.
            rows.with_columns(pl.col("code").cast(pl.Enum(codes[:-1]))).write_parquet(file)
    on_disk.forget_checksums(folder)
    write(tmp_path / "more.jsonl", json.dumps({**backwards, "trace_id": "again"}).encode(), b"[]")
    ot.ingest([runs, tmp_path / "more.jsonl"], folder)
    corpus = ot.read_corpus(folder)
    found = corpus.findings.select(pl.col("code").cast(pl.String)).collect()["code"]
    assert found.to_list() == ["time.reversed", "time.reversed"]
    rejects = corpus.quarantine.select(pl.col("code").cast(pl.String)).collect()["code"]
    assert sorted(rejects) == ["field.missing", "record.not_object"]
    assert corpus.filter(pl.col("trace_id") == "back").findings.collect().height == 1
    assert ot.describe(corpus)["findings"]["traces"].to_list() == [2]
