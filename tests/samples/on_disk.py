"""Helpers of the tests of corpora on disk: recordings of every kind, small batches, what has to be equal."""

import gzip
import hashlib
import io
import itertools
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import (
    batches,
    ingesting,
    manifest,
    memory as budgets,
    merging,
    partitioned,
    shards,
    staging,
    work as ingest_work,
)

TABLES = list(SCHEMAS)
ROOM = 1 << 18
FIELDS = {"remark": pl.String(), "grade": pl.Float64()}
BROKEN = b'noise\n{"trace_id": 1}\n\n'


def make_small(patch: Any, room: int = ROOM, block: int = 16 << 10, slice_rows: int = 400) -> None:
    """Let `ingest` work as on recordings of many times its memory: small blocks, batches and slices.

    `patch` sets an attribute of a module: `monkeypatch.setattr`, or `setattr`.
    """
    options = ingesting.checked_options  # type: ignore[attr-defined]
    patch(ingesting, "memory_bytes", lambda memory: room)
    patch(ingest_work, "OVERHEAD", 0)
    patch(ingest_work, "LEAST_BATCH", 1)
    patch(budgets, "LEAST_BATCH", 1)
    patch(ingesting, "checked_options", lambda given: {**options(given), "block_size": block})
    for module in (staging, merging):
        patch(module, "ROW_GROUP", slice_rows)
    patch(shards, "EVENT_BYTES", -(-room // slice_rows))
    patch(merging, "MERGED_EVENT_BYTES", -(-room // slice_rows))
    patch(batches, "TOGETHER", 2)


def slice_rows(patch: Any, corpus: ot.Corpus, rows: int) -> None:
    """Let slices of an open corpus have at most so many events."""
    patch(partitioned, "EVENT_BYTES", max(corpus._memory // rows, 1))  # type: ignore[attr-defined]


def document(trace_id: str, n_events: int = 3, task: str = "task", **more: Any) -> dict[str, Any]:
    """A native recording."""
    return {
        "trace_id": trace_id,
        "task_id": task,
        "events": [
            {"id": f"e{i}", "t": i, "type": "message", "agent": f"agent {i % 2}"} for i in range(n_events)
        ],
        "edges": [{"src": f"e{i}", "dst": f"e{i + 1}", "type": "causal"} for i in range(n_events - 1)],
        "rewards": {"team": 1},
        "costs": {"tokens": 3, "wall_clock_s": 2},
        **more,
    }


def lines(*documents: dict[str, Any] | bytes) -> bytes:
    """Recordings, one a line."""
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in documents)


def generated(name: str, events: int, seed: int) -> bytes:
    """Recordings of the generator under ids of their own; tasks have the same names in all of them."""
    out = io.BytesIO()
    ot.generate(out, preset="mixed", events=events, seed=seed)
    return out.getvalue().replace(b'"trace-', f'"{name}-'.encode())


def blamed(file: str, step: int) -> dict[str, Any]:
    """A recording in the form of Who&When, with a label."""
    history = [
        {"content": f"Step {i} of {file}.", "name": ["Planner", "Coder"][i % 2], "role": "assistant"}
        for i in range(4)
    ]
    return {
        "_file": f"Algorithm-Generated/{file}.json",
        "question": "What is the answer?",
        "question_ID": f"q-{file}",
        "ground_truth": "42",
        "is_correct": False,
        "history": history,
        "mistake_agent": ["Planner", "Coder"][step % 2],
        "mistake_step": str(step),
        "mistake_reason": "it was wrong",
    }


def write_recordings(folder: Path, events: int = 6500) -> None:
    """Recordings of every kind: plain, compressed, an array, a document, labels, damage, lifted fields."""
    noted = document("noted", task="task-0000000")
    noted["events"][0]["remark"], noted["events"][1]["grade"] = "a remark", 2.5
    plain = generated("plain", events // 2, 1).splitlines(keepends=True)
    damaged = b"".join(line + (BROKEN if n % 9 == 4 else b"") for n, line in enumerate(plain))
    packed = generated("packed", events // 3, 2)
    array = b"[" + b",\n".join(generated("array", events // 5, 3).splitlines()) + b"]"
    who = [blamed(str(n), n % 4) for n in range(8)]
    reused = lines(document("noted", 2), document("reused"), document("reused", 5), b"{}\n")
    files = {
        "a plain one.jsonl": damaged + lines(noted),
        "b.jsonl.gz": gzip.compress(packed, mtime=0),
        "c.json": array,
        "d/who.jsonl": lines(*who),
        "d/ünï.jsonl": reused,
        "e.json": json.dumps(document("single"), indent=1).encode(),
    }
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def span(trace: int, number: int, **attributes: str | int) -> dict[str, Any]:
    """A span of a trace: number 0 is the agent that the others, which call models, are of."""
    operation = "chat" if number else "invoke_agent"
    known = {"gen_ai.operation.name": operation, "gen_ai.agent.name": "solver", **attributes}
    if number:
        known |= {"gen_ai.usage.input_tokens": 100 + number, "gen_ai.usage.output_tokens": trace % 50}
    start = 1_700_000_000 + 1000 * trace + number
    return {
        "traceId": f"{trace + 1:032x}",
        "spanId": f"{trace + 1:08x}{number:08x}",
        "parentSpanId": f"{trace + 1:08x}{0:08x}" if number else "",
        "name": f"{operation} solver",
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str((start + 1) * 10**9),
        "attributes": [
            {"key": key, "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v}}
            for key, v in known.items()
        ],
    }


def request(*spans: dict[str, Any]) -> bytes:
    """Spans as one line of what a collector writes."""
    scopes = [{"scope": {"name": "tests"}, "spans": list(spans)}]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "solver"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}).encode() + b"\n"


def write_spans(folder: Path, traces: int, files: int, per_trace: int = 6) -> list[Path]:
    """Spans of traces, those of each trace in all of the files, in no order."""
    spans = [span(trace, number) for trace in range(traces) for number in range(per_trace)]
    spans.sort(key=lambda one: hash_of(one["spanId"]))
    paths = []
    for number in range(files):
        own = spans[number::files]
        path = folder / f"spans-{number:02}.jsonl"
        path.write_bytes(b"".join(request(*own[at : at + 3]) for at in range(0, len(own), 3)))
        paths.append(path)
    return paths


def hash_of(text: str) -> bytes:
    """For an order that means nothing."""
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def rows(corpus: ot.Corpus) -> dict[str, pl.DataFrame]:
    """All tables, in the order that does not depend on where their rows lie."""
    order = {
        "labels": ["trace_id", "annotator", "turn"],
        "quarantine": ["file", "offset", "line", "code"],
        "record_counts": ["file", "importer", "status", "kind"],
    }
    out = {}
    for table in TABLES:
        frame = getattr(corpus, table).collect().with_columns(pl.col(pl.Categorical).cast(pl.String))
        out[table] = frame.sort(order.get(table, ["trace"]), maintain_order=True)
    return out


def assert_table(table: str, found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Two frames are equal to the bit; what differs is said with the name of the table."""
    try:
        assert_frame_equal(found, expected, check_exact=True)
    except AssertionError as error:
        raise AssertionError(f"{table}: {error}") from None


def assert_rows(corpus: ot.Corpus, expected: dict[str, pl.DataFrame]) -> None:
    """Every table has exactly these rows, trace numbers included."""
    found = rows(corpus)
    for table in TABLES:
        assert_table(table, found[table], expected[table])


class CutShort(Exception):
    """What stops an ingest before it merges."""


def cut_short(patch: pytest.MonkeyPatch, source: Path, out: str | Path, **options: Any) -> None:
    """Leave a corpus as it lies when all batches are there and none is merged."""

    def refuse(*_: Any) -> None:
        raise CutShort

    with patch.context() as held:
        held.setattr(ingest_work, "merge", refuse)
        with pytest.raises(CutShort):
            ot.ingest(source, out, **options)


def assert_unmerged(found: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame]) -> None:
    """The same rows, but for counts of records, which merging adds up."""
    summed = "record_counts"
    for table in set(TABLES) - {summed}:
        assert_table(table, found[table], expected[table])
    assert found[summed]["count"].sum() == expected[summed]["count"].sum()


def content(corpus: ot.Corpus) -> dict[str, pl.DataFrame]:
    """All tables with the place of a trace among those of its id instead of its number."""
    tables = rows(corpus)
    key = tables["traces"].select(
        "trace", place=pl.concat_str("trace_id", pl.int_range(pl.len()).over("trace_id"), separator="#")
    )
    out = {}
    for table, frame in tables.items():
        if "trace" in frame.columns:
            frame = frame.join(key, on="trace", how="left", maintain_order="left").drop("trace")
            frame = frame.sort("place", maintain_order=True)
            if table == "findings":
                frame = frame.drop("message")  # names the number of another trace
        out[table] = frame
    return out


def assert_content(corpus: ot.Corpus, other: ot.Corpus) -> None:
    """Every table has the rows of the other corpus, whatever the numbers of the traces."""
    found, expected = content(corpus), content(other)
    for table in TABLES:
        assert_table(table, found[table], expected[table])


def files(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file of a folder, hidden ones included: node, time and bytes."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            found[path.relative_to(folder).as_posix()] = (stat.st_ino, stat.st_mtime_ns, path.read_bytes())
    return found


def assert_tidy(folder: Path) -> None:
    """The folder has the files that the manifest lists and no other; what it counts is there."""
    made = manifest.load(folder)
    assert made is not None and made.complete
    listed = list(made.files())
    assert len(listed) == len(set(listed))
    assert set(files(folder)) == {*listed, MANIFEST}
    for parts in made.parts.values():
        assert parts and all(a.last < b.first for a, b in itertools.pairwise(parts))
    reconcile(folder)


def reconcile(folder: Path) -> None:
    """No record is lost and none is counted twice, whichever way one counts."""
    corpus = ot.read_corpus(folder)
    counts = corpus.records
    kinds = ("used", "ignored", "duplicate", "quarantined")
    assert counts["read"] == sum(counts[kind] for kind in kinds)
    told = corpus.record_counts.group_by(pl.col("status").cast(pl.String)).agg(pl.col("count").sum())
    assert dict(told.collect().iter_rows()) == {kind: counts[kind] for kind in kinds if counts[kind]}
    assert counts["quarantined"] == corpus.quarantine.select(pl.len()).collect().item()
    made = manifest.load(folder)
    assert made is not None
    index = shards.current_index(folder, made).collect()
    if made.gathering is None:  # else records are parts of traces
        assert counts["used"] == corpus.traces.select(pl.len()).collect().item() == len(corpus)
        assert index["duplicate"].sum() == counts["duplicate"]
        assert index.height == counts["used"] + counts["duplicate"]
    assert sorted(index.filter(~pl.col("duplicate"))["trace"]) == sorted(
        corpus.traces.select("trace").collect()["trace"]
    )


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    """Let a manifest say something else, as if it had been written so."""
    path = folder / MANIFEST
    value = json.loads(path.read_text(encoding="utf-8")) | changes
    value.pop("blake2b", None)
    path.write_text(json.dumps(value), encoding="utf-8")


def forget_checksums(folder: Path) -> None:
    """Let a corpus be one of an engine that wrote no checksums."""
    value = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    sides = [value[table] for table in manifest.SIDE]
    for parts in (*value["parts"].values(), *sides):
        for part in parts:
            part.pop("files", None)
    rewrite_manifest(folder, **value)


def touch(path: Path, data: bytes) -> None:
    """Write other content, at a time that is surely another one."""
    before = path.stat().st_mtime_ns if path.exists() else None
    path.write_bytes(data)
    if before is not None:
        os.utime(path, ns=(before + 10**9, before + 10**9))
