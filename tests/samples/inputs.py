"""Helpers of the ingest tests: bytes in, rows out, and the ways to compress them."""

import gzip
import io
import json
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

import orchestrace as ot
from reference import tables as expected
from reference.validator import judge


def ingest(path: Path, data: bytes, **options: Any) -> ot.Corpus:
    """Write the bytes to a file and read it as native traces."""
    path.write_bytes(data)
    return ot.read_traces(path, format="native", **options)


def rows(frame: pl.LazyFrame) -> list[dict[str, Any]]:
    """A table as dictionaries."""
    return frame.collect().to_dicts()


def trace_ids(corpus: ot.Corpus) -> list[str]:
    """External ids in row order."""
    return corpus.traces.select("trace_id").collect()["trace_id"].to_list()


def by_trace(corpus: ot.Corpus, table: pl.LazyFrame) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table by the external id of their trace, in their order; empty lists for other ids."""
    names = dict(corpus.traces.select("trace", "trace_id").collect().rows())
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows(table):
        found[names[row["trace"]]].append(row)
    return found


def edges_by_trace(corpus: ot.Corpus) -> dict[str, list[tuple[int, int, str]]]:
    """Edges as (src, dst, type), by the external id of their trace; empty lists for other ids."""
    found: dict[str, list[tuple[int, int, str]]] = defaultdict(list)
    for trace_id, edges in by_trace(corpus, corpus.edges).items():
        found[trace_id] = [(edge["src"], edge["dst"], edge["type"]) for edge in edges]
    return found


def reconcile(corpus: ot.Corpus) -> None:
    """No record is lost and none is counted twice, whichever way one counts."""
    counts = corpus.records
    n_traces = corpus.traces.select(pl.len()).collect().item()
    n_quarantined = corpus.quarantine.select(pl.len()).collect().item()
    assert counts["read"] == counts["used"] + counts["quarantined"] + counts["duplicate"]
    assert counts["read"] == corpus.record_counts.select(pl.col("count").sum()).collect().item()
    assert counts["used"] == n_traces
    assert counts["quarantined"] == n_quarantined


def written(corpus: ot.Corpus) -> list[bytes]:
    """The lines that `write_jsonl` gives."""
    target = io.BytesIO()
    corpus.write_jsonl(target)
    data = target.getvalue()
    assert not data or data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def documents(corpus: ot.Corpus) -> dict[str, dict[str, Any]]:
    """The native documents that `write_jsonl` gives, by the external id of their trace."""
    found = [json.loads(line) for line in written(corpus)]
    by_id = {document["trace_id"]: document for document in found}
    assert len(by_id) == len(found)
    return by_id


def assert_identity(corpus: ot.Corpus, lines: list[bytes]) -> None:
    """Reading and writing gives the same documents, up to key order, the spelling of numbers and counts of
    tokens that follow from others. That some contradicted each other is told with the document."""
    out = written(corpus)
    assert len(out) == len(lines)
    for before, after in zip(lines, out, strict=True):
        read, came = (expected.rounded(expected.parse(line)) for line in (before, after))
        if (conflicts := expected.findings(expected.parse(before)).get("usage.conflict")) is not None:
            (told,) = came["events"][0].pop("x_trace")["findings"]
            assert (told["code"], told["count"], told["seq"]) == ("usage.conflict", *conflicts)
        assert expected.same(read, came), (before, after)


def assert_valid_natives(corpus: ot.Corpus) -> ot.Corpus:
    """What is written is valid by the reference, is read again, and is then written as the same bytes.

    Returns what was read again.
    """
    lines = written(corpus)
    assert [judge(line) for line in lines] == [[]] * len(corpus)
    again = ot.read_traces(io.BytesIO(b"\n".join(lines)), format="native")
    assert again.quarantine.collect().is_empty()
    assert written(again) == lines
    return again


def assert_tables(corpus: ot.Corpus, documents: list[dict[str, Any]]) -> None:
    """Every row of traces, events, edges and measures is what plain Python makes of the documents."""
    traces = rows(corpus.traces)
    assert len(traces) == len(documents)
    for row, document in zip(traces, documents, strict=True):
        want = expected.trace_row(document, row["trace"])
        assert {key: row[key] for key in want} == want
        assert row["time_basis"] in expected.time_bases(document)

    events = rows(corpus.events)
    wanted = [row for trace, d in enumerate(documents) for row in expected.event_rows(d, trace)]
    assert len(events) == len(wanted)
    for row, want in zip(events, wanted, strict=True):
        assert row.keys() == want.keys()
        got = row | {"extras": None if row["extras"] is None else json.loads(row["extras"])}
        assert expected.same(got, want), (got, want)

    assert rows(corpus.edges) == [
        row for trace, d in enumerate(documents) for row in expected.edge_rows(d, trace)
    ]

    measures = rows(corpus.measures)
    wanted_measures = {
        key: value
        for trace, d in enumerate(documents)
        for key, value in expected.measure_rows(d, trace).items()
    }
    assert len(measures) == len(wanted_measures)
    assert {(m["trace"], m["kind"], m["name"]): m["value"] for m in measures} == wanted_measures


def zst(data: bytes) -> bytes:
    """One zstd frame."""
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


def gz(data: bytes) -> bytes:
    """One gzip member, without a time stamp."""
    return gzip.compress(data, compresslevel=6, mtime=0)


def content(path: Path) -> bytes:
    """Bytes of a recording, whatever it is compressed by."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", path], capture_output=True, check=True).stdout
    return data
