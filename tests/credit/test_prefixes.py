"""Prefixes and shuffles: what a part of a recording tells is what all of it tells.

A prefix never fails, accounts for every record, and each event that it gives is in the whole with equal
fields, but for the last response of each open stream. Where traces are spread over records, their order
changes nothing. Published recordings are read where they are at hand; formats known from documentation have
the goldens.
"""

import io
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import content

Document = dict[str, Any]

GOLDENS = Path(__file__).resolve().parents[2] / "data" / "importers"

LATE = {"x_trace", "x_partial", "x_abandoned", "x_aborted", "x_reported_tokens"}
"""Known of an event only from the end: facts of the trace, whether a call is answered, a branch given up."""

OWN = (
    "tokens_in",
    "tokens_out",
    "cost_usd",
    "model",
    "duration_s",
    "content_ref",
    "tool",
    "trusted",
    "x_error_type",
)
"""What a span says of itself, whatever is known of those around it."""


def documents(corpus: ot.Corpus) -> dict[str, Document]:
    """Native documents by the id of their trace; every record is accounted for."""
    fates = dict(corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect().iter_rows())
    assert corpus.records["read"] == sum(fates.values())
    assert corpus.quarantine.collect().height == fates.get("quarantined", 0)
    target = io.BytesIO()
    corpus.write_jsonl(target)
    return {(found := json.loads(line))["trace_id"]: found for line in target.getvalue().splitlines()}


def read(folder: Path, name: str, data: bytes, format: str) -> dict[str, Document]:
    """A file of that name: some formats tell by it what it is of."""
    path = folder / name
    path.write_bytes(data)
    mapping = GOLDENS / format / "mapping.json"
    options: dict[str, Any] = {"mapping": mapping} if mapping.is_file() else {"format": format}
    return documents(ot.read_traces(path, **options))


def cuts(data: bytes, n: int, seed: str) -> list[int]:
    return [random.Random(f"{seed} {k}").randrange(len(data)) for k in range(n)]


def started(trace: Document) -> str | None:
    return trace["events"][0].get("x_trace", {}).get("started_at")


def open_ends(trace: Document, spans: bool) -> set[str]:
    """Events at the end of a stream: of the last response of each agent. What follows may belong to it.

    The stream of a span has ended before all that lies in it is there: its last event, too, may be another.
    """
    events = trace["events"]
    responses = {event["agent"]: event["x_gen"] for event in events if "x_gen" in event}
    last = {event["agent"]: event["id"] for event in events}
    return {
        event["id"]
        for event in events
        if event.get("x_gen", "") == responses.get(event["agent"])
        # Made up for what lies beyond the cut: the call that spawned, the file of a child.
        or (event.get("x_partial") and event["type"] in ("spawn", "return"))
        or (spans and last[event["agent"]] == event["id"])
        # An answer that a call gave, and no text: the agent may say more.
        or (event["id"].endswith(":return") and last[event["agent"]] == event["id"])
        # Who is made and does not work is spawned where it is made, else where it begins.
        or (spans and event["type"] == "spawn" and event["to"] not in last)
    }


def agree(part: dict[str, Document], whole: dict[str, Document], *, spans: bool = False) -> int:
    """Compare each event of a prefix with that of the whole in all fields; how many were compared."""
    compared = 0
    for name, trace in part.items():
        known = {event["id"]: event for event in whole[name]["events"]}
        unsettled = open_ends(trace, spans)
        # Records beyond the cut may be of earlier times, from which all others are then counted.
        late = LATE | ({"t"} if started(trace) != started(whole[name]) else set())
        for event in trace["events"]:
            if event["id"] in unsettled:
                continue
            same = known[event["id"]]
            differ = {key for key in event.keys() | same.keys() if event.get(key) != same.get(key)} - late
            if "role" not in event:
                differ.discard("role")  # who leads is known once it does
            assert not differ, (name, event, same)
            compared += 1
    return compared


def ends_in_inherited(part: dict[str, Document], whole: dict[str, Document]) -> bool:
    """Whether a prefix ends in the history that a child of Codex inherits: what follows shows whose it is."""

    def acts(run: dict[str, Document]) -> set[str]:
        return {e["id"] for trace in run.values() for e in trace["events"] if e["type"] != "spawn"}

    return bool(acts(part)) and not acts(part) & acts(whole)


def sessions(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*.jsonl*")):
        if path.name != "journal.jsonl":
            yield path


@pytest.mark.parametrize("part", ["real", "spotter", "synthetic"])
def test_prefixes_of_claude_code(corpora: Path, tmp_path: Path, part: str) -> None:
    compared = 0
    for path in sessions(corpora / "claude-code" / part):
        data = content(path)
        name = path.name.removesuffix(".gz").removesuffix(".zst")
        whole = read(tmp_path, name, data, "claude_code")
        for cut in cuts(data, 4, path.name):
            compared += agree(read(tmp_path, name, data[:cut], "claude_code"), whole)
        packed = path.read_bytes()
        for cut in cuts(packed, 1 if packed != data else 0, path.name):
            compared += agree(read(tmp_path, path.name, packed[:cut], "claude_code"), whole)
    assert compared > {"real": 500, "spotter": 1_000, "synthetic": 20}[part], compared


def test_prefixes_of_codex(corpora: Path, tmp_path: Path) -> None:
    compared = 0
    for path in sorted((corpora / "codex" / "real-redacted").glob("rollout-*")):
        data = content(path)
        name = path.name.removesuffix(".gz")
        whole = read(tmp_path, name, data, "codex")
        for cut in cuts(data, 12, path.name):
            compared += agree(read(tmp_path, name, data[:cut], "codex"), whole)
        packed = path.read_bytes()
        for cut in cuts(packed, 3 if packed != data else 0, path.name):
            part = read(tmp_path, path.name, packed[:cut], "codex")
            compared += agree(part, whole)
            # The name of the file tells whose line it is that breaks off.
            assert all(trace["events"][0]["x_trace"]["partial"] for trace in part.values()), cut
    assert compared > 1_000, compared


def lines(records: Iterable[Document]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def kagent(path: Path) -> list[Document]:
    """Spans of an export, one a line, in the order in which they begin."""
    whole = json.loads(path.read_bytes())
    found = []
    for trace in whole.get("data", []):
        found += [(span["startTime"], {"data": [{**trace, "spans": [span]}]}) for span in trace["spans"]]
    for batch in whole.get("batches", []):
        for scope in batch["instrumentationLibrarySpans"]:
            for span in scope["spans"]:
                scopes = [{**scope, "spans": [span]}]
                line = {"batches": [{**batch, "instrumentationLibrarySpans": scopes}]}
                found.append((int(span["startTimeUnixNano"]), line))
    return [line for _, line in sorted(found, key=lambda each: each[0])]


def observations(path: Path) -> list[Document]:
    """An export as a trace, its scores and its observations, one a line, in the order in which they begin."""
    whole = json.loads(path.read_bytes())
    trace = {key: value for key, value in whole["trace"].items() if key not in ("observations", "scores")}
    inside = sorted(whole["observations"], key=lambda each: each["startTime"])
    return [{**trace, "projectId": trace.get("projectId", "p")}, *whole["trace"]["scores"], *inside]


def spans(corpora: Path) -> Iterator[tuple[str, str, list[Document]]]:
    """Format, name and records of what spans were published of."""
    for path in sorted((corpora / "otel-kagent").glob("*.json")):
        yield "otel", path.name, kagent(path)
    for path in sorted((corpora / "langfuse").glob("*.json")):
        yield "langfuse", path.name, observations(path)


def test_prefixes_of_spans(corpora: Path, tmp_path: Path) -> None:
    compared = 0
    for format, name, records in spans(corpora):
        data = lines(records)
        whole = read(tmp_path, "x.jsonl", data, format)
        for cut in cuts(data, 12, name):
            compared += agree(read(tmp_path, "x.jsonl", data[:cut], format), whole, spans=True)
    assert compared > 60, compared


def own(trace: Document) -> dict[str, list[Any]]:
    return {event["id"]: [event.get(key) for key in OWN] for event in trace["events"]}


def test_spans_in_any_order(corpora: Path, tmp_path: Path) -> None:
    """All of them give the same trace; half of them the same of what tools gave back."""
    for format, name, records in spans(corpora):
        whole = read(tmp_path, "x.jsonl", lines(records), format)
        random.Random(name).shuffle(records)
        half = len(records) // 2
        (tmp_path / "a.jsonl").write_bytes(lines(records[half:]))
        (tmp_path / "b.jsonl").write_bytes(lines(records[:half]))
        paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        assert documents(ot.read_traces(paths, format=format)) == whole, name
        for trace in documents(ot.read_traces(paths[0], format=format)).values():
            (complete,) = whole.values()
            facts = own(complete)
            told = {id: fact for id, fact in own(trace).items() if id in facts and id.endswith(":r")}
            assert all(facts[id] == fact for id, fact in told.items()), name


def test_prefixes_of_whole_traces(corpora: Path, tmp_path: Path) -> None:
    """What is told of a trace in one record is there or not."""
    logs = sorted((corpora / "inspect-ai").rglob("*.eval")) + sorted((corpora / "inspect-ai").rglob("*.json"))
    inputs = [("inspect", path.name, content(path)) for path in logs]
    for subset in ("gaia", "swe_bench"):
        trail = content(corpora / "trail" / f"{subset}.traces.jsonl.zst")
        inputs.append(("otel", "trail.jsonl", b"".join(trail.splitlines(keepends=True)[:3])))
    for format, name, data in inputs:
        whole = read(tmp_path, name, data, format)
        for cut in cuts(data, 3, name):
            part = read(tmp_path, name, data[:cut], format)
            assert part.items() <= whole.items(), name


GOLDEN_SPANS = ["agent_lightning", "langfuse", "langsmith", "openai_agents", "opik", "otel", "weave"]


def inputs(name: str) -> list[Path]:
    """The file `input.*` of a golden, or those of its folder `input`; of folders in it, lines."""
    found = [path for path in sorted(GOLDENS.joinpath(name).rglob("*")) if path.is_file()]
    return [
        path
        for path in found
        if path.stem == "input"
        or path.parent.name == "input"
        or (path.suffix == ".jsonl" and "input" in path.relative_to(GOLDENS / name).parts)
    ]


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("name", sorted(path.name for path in GOLDENS.iterdir()))
def test_prefixes_of_goldens(tmp_path: Path, name: str) -> None:
    compared = 0
    for path in inputs(name):
        data = path.read_bytes()
        whole = read(tmp_path, path.name, data, name)
        for cut in cuts(data, 24, path.name):
            part = read(tmp_path, path.name, data[:cut], name)
            if name == "codex" and ends_in_inherited(part, whole):
                continue
            if name not in GOLDEN_SPANS:
                compared += agree(part, whole)
                continue
            # Spans come in any order: whose work they are is known once those around them are there.
            for trace_id, trace in part.items():
                facts, unsettled = own(whole[trace_id]), open_ends(trace, spans=True)
                settled = {id: told for id, told in own(trace).items() if id in facts.keys() - unsettled}
                assert all(facts[id] == told for id, told in settled.items()), trace
                compared += len(settled)
    assert compared > 0 or name in ("agentrx", "atif", "inspect", "langfuse")  # labels; documents


@pytest.mark.parametrize("name", GOLDEN_SPANS)
def test_goldens_in_any_order(tmp_path: Path, name: str) -> None:
    (path,) = GOLDENS.joinpath(name).glob("input.*")
    records = [line + b"\n" for line in path.read_bytes().splitlines()]
    whole = documents(ot.read_traces(path, format=name))
    for seed in range(3):
        random.Random(seed).shuffle(records)
        half = len(records) // 2
        (tmp_path / "a.jsonl").write_bytes(b"".join(records[half:]))
        (tmp_path / "b.jsonl").write_bytes(b"".join(records[:half]))
        paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
        assert documents(ot.read_traces(paths, format=name)) == whole
