"""From an event back to its record: byte for byte, whatever the input is; one clear line where it is gone."""

import gzip
import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.corpus.source import EventSource

DATA = Path(__file__).resolve().parents[2] / "data/importers"


def documents(n: int = 4, task: str = "t") -> list[dict[str, Any]]:
    """Native traces with texts of two bytes a letter, and as many events as their number and two."""
    rest = {"edges": [], "rewards": {"team": 1.0}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    said = {"type": "message", "agent": "ann", "x_text": "wörter"}
    return [
        {
            "trace_id": f"run {k}",
            "task_id": task,
            "events": [{"id": f"e{k}.{i}", "t": i, **said} for i in range(k + 2)],
        }
        | rest
        for k in range(n)
    ]


def lines(n: int = 4, task: str = "t") -> bytes:
    return "\n\n".join(json.dumps(d, ensure_ascii=False) for d in documents(n, task)).encode()


def raw(source: EventSource, blob: bytes) -> bytes:
    return blob[source.offset : source.offset + source.length]


def assert_native(corpus: ot.Corpus, blob: bytes, file: str) -> None:
    """Every event of a corpus of `documents` is found at its place in the decompressed bytes."""
    for trace, name in corpus.traces.select("trace", "trace_id").collect().rows():
        document = documents()[int(name.split()[1])]
        for seq, event in enumerate(document["events"]):
            source = corpus.source(trace, seq)
            assert json.loads(source.text) == event
            assert raw(source, blob).decode() == source.text
            assert source.line == blob[: source.offset].count(b"\n") + 1
            assert source.file == file


def test_several_traces_of_one_id_lie_at_their_own_lines(tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {
                "responses_create_params": {"input": "go"},
                "response": {"output": [{"role": "assistant", "content": said}]},
                "reward": 1.0,
                "_ng_task_index": 0,
                "_ng_rollout_index": 0,
            }
        )
        for said in ("a", "b", "a", "c")
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("\n".join(lines))
    corpus = ot.read_traces(path)
    traces = corpus.traces.select("trace_id", "line", "offset", "length").collect()
    assert [name.rpartition("/")[2] for name in traces["trace_id"]] == ["0", "0~2", "0~3"]
    for trace, (_, line, offset, length) in enumerate(traces.rows()):
        source = corpus.source(trace, 1)
        assert (source.line, source.offset, source.length) == (line, offset, length)
        assert source.text == lines[line - 1]
    assert traces["line"].to_list() == [1, 2, 4]


@pytest.mark.parametrize("packed", ["", ".gz"])
def test_a_line_of_native_traces(tmp_path: Path, packed: str) -> None:
    path = tmp_path / f"runs.jsonl{packed}"
    path.write_bytes(gzip.compress(lines()) if packed else lines())
    assert_native(ot.read_traces(path), lines(), str(path))


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_and_a_document_over_several_lines(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "runs.json"
    for content in (documents(), documents(1)[0]):
        path.write_text("\n " + json.dumps(content, indent=indent, ensure_ascii=False), encoding="utf-8")
        assert_native(ot.read_traces(path), path.read_bytes(), str(path))


def test_a_large_file_that_workers_share(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    ot.generate(path, events=30_000, seed=1)
    assert path.stat().st_size > 5 << 20
    blob, corpus = path.read_bytes(), ot.read_traces(path)
    for trace in (0, len(corpus) // 2, len(corpus) - 1):
        source = corpus.source(trace, 1)
        expected = corpus.events.filter(pl.col("trace") == trace, pl.col("seq") == 1).collect()["id"].item()
        assert json.loads(source.text)["id"] == expected and raw(source, blob).decode() == source.text
        assert source.line == blob[: source.offset].count(b"\n") + 1


def test_folders_and_archives(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    (folder / "below").mkdir(parents=True)
    held = {3: lines(3, "file"), 4: lines(4, "ZIP"), 2: lines(2, "tar")}
    (folder / "below/runs.jsonl").write_bytes(held[3])
    with zipfile.ZipFile(folder / "packed.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", "nothing")
        archive.writestr("inner/runs.jsonl", held[4])
    with tarfile.open(folder / "packed.tar", "w") as tar:
        info = tarfile.TarInfo("inner/runs.jsonl")
        info.size = len(held[2])
        tar.addfile(info, io.BytesIO(held[2]))
    with pytest.warns(UserWarning, match="skipped 1 entry of an archive"):
        corpus = ot.read_traces(folder)
    assert len(corpus) == 9
    for file, own in corpus.traces.with_columns(pl.col("file").cast(pl.String)).collect().group_by("file"):
        kept = corpus.filter(pl.col("trace").is_in(own["trace"].to_list()))
        assert_native(kept, held[own.height], str(file[0]))
    assert corpus.source(0, 0).file.endswith("below/runs.jsonl")


def test_events_of_one_record_of_a_session() -> None:
    """A response with a text and calls over several lines, and the results that they got."""
    path = DATA / "claude_code/input.jsonl"
    corpus, blob = ot.read_traces(path), path.read_bytes()
    events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
    sources = {
        (trace, seq): corpus.source(trace, seq) for trace, seq in events.select("trace", "seq").iter_rows()
    }
    for (trace, seq), source in sources.items():
        record = json.loads(source.text)
        assert raw(source, blob).decode() == source.text
        assert source.line == blob[: source.offset].count(b"\n") + 1
        event = events.row(by_predicate=(pl.col("trace") == trace) & (pl.col("seq") == seq), named=True)
        content = record.get("message", {}).get("content")
        blocks = content if isinstance(content, list) else []
        if event["type"] in ("tool_call", "spawn") and "x_partial" not in (event["extras"] or ""):
            assert event["id"].split(":")[0] in [b.get("id") for b in blocks if b["type"] == "tool_use"]
        if event["type"] == "tool_result":
            assert event["id"].removesuffix(":r") in [b.get("tool_use_id") for b in blocks]
    # two events of one record share it
    shared = [source for source in sources.values() if list(sources.values()).count(source) > 1]
    assert shared


@pytest.mark.parametrize(
    ("name", "field", "of_event"),
    [
        ("langfuse", "id", lambda event: event["id"].split(":")[0]),
        ("otel", "spanId", lambda event: event["id"].split(":")[0]),
    ],
)
def test_a_span_of_a_document(name: str, field: str, of_event: Any) -> None:
    path = DATA / f"{name}/input.jsonl"
    corpus, blob = ot.read_traces(path), path.read_bytes()
    hits = 0
    for event in corpus.events.collect().iter_rows(named=True):
        source = corpus.source(event["trace"], event["seq"])
        record = json.loads(source.text)
        assert raw(source, blob).decode() == source.text
        hits += record.get(field) == of_event(event)
        whole = blob[: source.offset].count(b"\n") + 1
        assert source.line == whole
    assert hits > 2, "an event that is called after its span comes from it"


def test_a_sample_of_an_inspect_log(tmp_path: Path) -> None:
    log = json.loads((DATA / "inspect/input.json").read_bytes())
    samples = [sample for sample in log.pop("samples") if "epoch" in sample]
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(log))
        for sample in samples:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    corpus = ot.read_traces(path)
    assert len(corpus) == 3, "a sample without a word gives no trace"
    for trace, n in corpus.traces.select("trace", "n_events").collect().rows():
        for seq in (0, n - 1):
            source = corpus.source(trace, seq)
            sample = json.loads(source.text)
            assert sample in samples and (source.line, source.offset) == (1, 0)
            assert source.file == f"{path}/samples/{sample['id']}_epoch_{sample['epoch']}.json"


def test_a_house_format_and_options_are_those_of_the_reading(tmp_path: Path) -> None:
    steps = [{"run": "r", "n": n, "who": "ann", "text": f"said {n}"} for n in range(4)]
    path = tmp_path / "house.jsonl"
    path.write_text("".join(json.dumps(step) + "\n" for step in reversed(steps)))
    mapping = {
        "name": "house",
        "trace": {"id": "/run"},
        "step": {"kind": "=response", "order": "/n", "agent": "/who", "content": "/text"},
    }
    corpus = ot.read_traces(path, mapping=mapping)
    ot.ingest(path, tmp_path / "corpus", mapping=mapping)
    for found in (corpus, ot.read_corpus(tmp_path / "corpus")):
        assert [json.loads(found.source(0, seq).text)["n"] for seq in range(4)] == [0, 1, 2, 3]


def test_on_disk_and_after_changes_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines())
    ot.ingest(path, tmp_path / "corpus", partitions=2)
    corpus = ot.read_traces(path)
    expected = corpus.source(2, 1)
    assert ot.read_corpus(tmp_path / "corpus").source(2, 1) == expected
    assert corpus.filter(pl.col("trace") > 1).source(2, 1) == expected
    scored = corpus.with_fields(pl.DataFrame({"trace": [2], "seq": [1], "score": [0.5]}))
    assert scored.source(2, 1) == expected
    assert scored.with_measures(pl.DataFrame({"trace": [2], "mine": [0.5]})).source(2, 1) == expected


def test_what_is_gone_or_has_changed_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines())
    session = tmp_path / "session.jsonl"
    shutil.copy(DATA / "claude_code/input.jsonl", session)
    corpus, spread = ot.read_traces(path), ot.read_traces(session)
    ot.ingest(path, tmp_path / "corpus")
    disk = ot.read_corpus(tmp_path / "corpus")

    def refused(found: ot.Corpus, words: str) -> None:
        with pytest.raises(ot.InputError, match=words) as error:
            found.source(1, 0)
        assert "\n" not in str(error.value)

    path.write_bytes(lines().replace(b"e1.0", b"e9.0"))  # as long as before
    refused(corpus, "has changed")
    path.write_bytes(b"{}\n" + lines())
    refused(corpus, "has changed")
    refused(disk, "has changed since it was read: ingest it again")
    path.write_bytes(lines()[:20])
    refused(corpus, "has changed")
    path.unlink()
    refused(corpus, "is not a file that can be read again")
    refused(disk, "is not a file that can be read again")
    records = session.read_bytes().splitlines(keepends=True)
    session.write_bytes(b"".join(records[1:]))
    refused(spread, "has changed")


def test_what_was_not_read_from_a_file_has_no_source() -> None:
    for corpus in (ot.generate(traces=2, seed=0), ot.read_traces(io.BytesIO(lines()))):
        with pytest.raises(ot.InputError, match=r"not read from a file|not a file that can"):
            corpus.source(1, 0)


def test_unknown_events_are_told(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines())
    corpus = ot.read_traces(path)
    with pytest.raises(ot.ParameterError, match="unknown trace 9"):
        corpus.source(9, 0)
    with pytest.raises(ot.ParameterError, match=r"trace 1 has no event 7: .* seq 2"):
        corpus.source(1, 7)
    with pytest.raises(ot.ParameterError, match="seq is -1"):
        corpus.source(1, -1)
    with pytest.raises(ot.ParameterError, match="trace is 'run 1', expected a whole number"):
        corpus.source("run 1", 0)  # type: ignore[arg-type]  # that is the question


def test_frames_keep_no_text(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(lines())
    corpus = ot.read_traces(path, extras=False)
    before = corpus._store.nbytes
    assert "wörter" in corpus.source(0, 0).text
    assert corpus._store.nbytes == before and os.listdir(tmp_path) == ["runs.jsonl"]
    for name in ("events", "traces"):
        assert not any("wörter" in str(row) for row in corpus._table(name).collect().rows())
