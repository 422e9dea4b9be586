"""OpenTelemetry spans of kagent and TRAIL: sums as the sources state them, against a walk of the spans.

The source's texts are data that people, models and web pages wrote; nothing of them is kept here.
"""

import gzip
import io
import json
import random
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import documents, rows

Span = dict[str, Any]

KAGENT = {
    "helm.json": (96, 3_906),
    "helm_3.json": (125, 4_850),
    "tempo_export_with_batches.json": (86, 4_777),
}
"""Spans, and the tokens of the innermost records of each response."""

TRAIL = {
    "gaia": (57, Counter(LLM=607, CHAIN=309, TOOL=235, AGENT=80, none=228), 3_945_170, 2_789_783, 257, 129),
    "swe_bench": (13, Counter(LLM=187, CHAIN=186, TOOL=11, AGENT=12, none=25), 2_630_932, 2_352_955, 104, 23),
}
"""Traces, spans by kind, tokens of LLM spans, tokens that AGENT spans report, labels, errors."""

REPEATED = {"gaia": 0, "swe_bench": 8_032}
"""Tokens of a span that the file has twice, word for word: the source counts both, here it counts once."""


@pytest.fixture(scope="module")
def kagent(corpora: Path) -> Path:
    return corpora / "otel-kagent"


@pytest.fixture(scope="module")
def trail(corpora: Path) -> Path:
    return corpora / "trail"


def lines(folder: Path, subset: str) -> list[dict[str, Any]]:
    text = subprocess.run(
        ["zstd", "-dcq", folder / f"{subset}.traces.jsonl.zst"], capture_output=True, check=True
    ).stdout
    return [json.loads(line) for line in text.splitlines()]


def flat(spans: list[Span]) -> Iterator[Span]:
    for span in spans:
        yield span
        yield from flat(span["child_spans"])


def read(trail: Path, subset: str) -> ot.Corpus:
    return ot.read_traces(
        [trail / f"{subset}.traces.jsonl.zst", trail / f"{subset}.annotations.jsonl.gz"], format="otel"
    )


def counts(corpus: ot.Corpus) -> dict[str, int]:
    """Records by status, or by kind where they were ignored."""
    found: Counter[str] = Counter()
    for row in rows(corpus.record_counts):
        found[row["kind"] or row["status"]] += row["count"]
    return dict(found)


@pytest.mark.parametrize("file", KAGENT)
def test_kagent_spans_and_tokens(kagent: Path, file: str) -> None:
    corpus = ot.read_traces(kagent / file)
    spans, tokens = KAGENT[file]
    told = counts(corpus)
    assert sum(told.values()) == spans
    assert set(told) == {"used", "otel.http", "otel.messaging", "otel.other"}
    # Over 80 % is noise of servers and queues.
    assert told["used"] < spans / 5
    (document,) = documents(corpus).values()
    assert document["costs"]["tokens"] == tokens
    assert document["costs"]["tool_calls"] == 1
    assert corpus.traces.select("importer", "partial").collect().row(0) == ("otel", file.startswith("tempo"))
    # The three records of a response are one.
    generations = {e["x_gen"] for e in document["events"] if "x_gen" in e}
    assert len(generations) == 2
    results = [e for e in document["events"] if e["type"] == "tool_result"]
    assert [e["tool"] for e in results] == ["helm_list_releases"]
    last = document["events"][-1]
    assert last["type"] == "return"


def asking_tools(source: list[dict[str, Any]]) -> Counter[str]:
    """Names of the tools within which a model answers, and no agent works between."""
    spans = {(span["trace_id"], span["span_id"]): span for span in source}
    found = {}
    for key, span in spans.items():
        kind = span["span_attributes"].get("openinference.span.kind")
        above = spans.get((key[0], span["parent_span_id"])) if kind == "LLM" else None
        while above and (kind := above["span_attributes"].get("openinference.span.kind")) != "AGENT":
            if kind == "TOOL":
                found[key[0], above["span_id"]] = above["span_attributes"]["tool.name"]
                break
            above = spans.get((key[0], above["parent_span_id"]))
    return Counter(found.values())


@pytest.mark.parametrize("subset", TRAIL)
def test_trail_sums(trail: Path, subset: str) -> None:
    corpus = read(trail, subset)
    traces, kinds, tokens, reported, labels, errors = TRAIL[subset]
    source = [span for line in lines(trail, subset) for span in flat(line["spans"])]
    kind = Counter(span["span_attributes"].get("openinference.span.kind", "none") for span in source)
    assert kind == kinds
    assert sum(span["status_code"] == "Error" for span in source) == errors
    copies = len(source) - len({(span["trace_id"], span["span_id"]) for span in source})

    told = counts(corpus)
    assert told.pop("used") == kinds["LLM"] + kinds["TOOL"] + kinds["AGENT"] - copies + traces
    assert told.pop("duplicate", 0) == copies
    assert told == {"otel.chain": kinds["CHAIN"], "otel.other": kinds["none"]}

    runs = list(documents(corpus).values())
    assert len(runs) == traces
    counted = sum(document["costs"]["tokens"] for document in runs)
    assert counted + REPEATED[subset] == tokens
    events = [event for document in runs for event in document["events"]]
    assert sum(event.get("x_reported_tokens", 0) for event in events) == reported
    # Each response and each tool once.
    assert len({e["x_gen"] for e in events if "x_gen" in e}) == kinds["LLM"] - copies
    asking = sum(asking_tools(source).values())
    assert sum(e["type"] == "tool_result" for e in events) == kinds["TOOL"] - asking
    # Tools that failed, responses that failed, and steps that failed by what their response wrote.
    failed = {(e["type"] == "tool_result") for e in events if e.get("ok") is False}
    assert failed == ({True, False} if kinds["TOOL"] > 20 else {False})
    # A run is complete unless its roots are missing; then it ends with an answer of its lead.
    for document in runs:
        partial = document["events"][0]["x_trace"].get("partial", False)
        assert partial == (document["trace_id"] == "72822db6e120878d916b515c2501246b")
        ends = [e for e in document["events"] if e["type"] in ("return", "aggregate")]
        assert partial or ends

    found = corpus.labels.collect()
    assert found.height == labels
    known = {(d["trace_id"], e["id"]) for d in runs for e in d["events"]}
    resolved = sum(pair in known for pair in found.select("trace_id", "event_id").iter_rows())
    # Of all locations one names no span at all; those of steps and of what has no event stay ids of spans.
    ids = {(s["trace_id"], s["span_id"]) for s in source}
    agentic = {
        (s["trace_id"], s["span_id"])
        for s in source
        if s["span_attributes"].get("openinference.span.kind") in ("LLM", "TOOL", "AGENT")
    }
    annotated = [
        (a["_trace_id"], e["location"])
        for a in map(
            json.loads, gzip.decompress((trail / f"{subset}.annotations.jsonl.gz").read_bytes()).splitlines()
        )
        for e in a["errors"]
    ]
    assert resolved == sum(pair in agentic for pair in annotated)
    assert labels - sum(pair in ids for pair in annotated) <= 1
    assert found["annotator"].unique().to_list() == ["trail"]
    assert set(found["weight"].drop_nulls()) <= {1.0, 2.0, 3.0}


def test_search_agents_are_named_as_their_manager_calls_them(trail: Path) -> None:
    runs = documents(read(trail, "gaia")).values()
    # A tool that asks a model is an agent of the tool's name.
    asking = asking_tools([span for line in lines(trail, "gaia") for span in flat(line["spans"])])
    assert asking == {"inspect_file_as_text": 2}
    spawned = Counter(
        event["to"].split("#")[0] for d in runs for event in d["events"] if event["type"] == "spawn"
    )
    assert spawned == {"CodeAgent": 57, "search_agent": 23} | asking


def test_lines_about_reruns_are_ignored_by_kind(trail: Path) -> None:
    corpus = ot.read_traces(sorted((trail / "counterfactual").glob("*.gz")))
    assert counts(corpus) == {
        "otel.trail_patch": 88,
        "otel.trail_resolved": 79,
        "otel.trail_effect": 93,
        "otel.trail_pair": 132,
    }


def test_order_of_spans_and_files_does_not_matter(kagent: Path) -> None:
    """The same spans one a line, in any order, over two inputs."""
    whole = json.loads((kagent / "helm.json").read_bytes())
    (trace,) = whole["data"]
    spans = [{"data": [{**trace, "spans": [span]}]} for span in trace["spans"]]
    expected = rows(ot.read_traces(kagent / "helm.json").events)
    for seed in range(3):
        random.Random(seed).shuffle(spans)
        halves = ["\n".join(map(json.dumps, half)).encode() for half in (spans[:40], spans[40:])]
        found = ot.read_traces([io.BytesIO(half) for half in halves], format="otel")
        assert rows(found.events) == expected


def test_any_prefix_is_read(kagent: Path) -> None:
    """What a prefix tells of a response is what the whole tells, once its innermost record is there."""
    whole = json.loads((kagent / "tempo_export_with_batches.json").read_bytes())
    lines = []
    for batch in whole["batches"]:
        for scope in batch["instrumentationLibrarySpans"]:
            # As a collector writes them: in the order in which they end.
            for span in sorted(scope["spans"], key=lambda s: s["endTimeUnixNano"]):
                scopes = [{**scope, "spans": [span]}]
                lines.append(json.dumps({"batches": [{**batch, "instrumentationLibrarySpans": scopes}]}))
    text = "\n".join(lines).encode()
    facts = ["tokens_in", "tokens_out", "model", "duration_s"]

    def generations(data: bytes) -> dict[str, list[Any]]:
        corpus = ot.read_traces(io.BytesIO(data), format="otel", fields={"x_gen": pl.String})
        frame = corpus.events.filter(pl.col("tokens_in").is_not_null()).select("x_gen", *facts).collect()
        return {row[0]: list(row[1:]) for row in frame.iter_rows()}

    expected = generations(text)
    rng = random.Random(1)
    for cut in [0, 1, len(text) - 1, *(rng.randrange(len(text)) for _ in range(40))]:
        for generation, told in generations(text[:cut]).items():
            assert expected[generation] == told
