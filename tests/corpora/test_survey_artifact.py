"""The survey's own schema and example: parity of verdicts, the example's numbers, and the way back."""

import io
import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

import orchestrace as ot
from reference.validator import judge
from samples.inputs import assert_identity, assert_tables, rows
from samples.verdict_cases import CASES

UNITS = ["team", "role", "agent", "turn", "event", "orchestrator", "message", "tool", "token"]
CHANNELS = {"team": 1.0, "orchestration": 0.3, "tool": 0.1}
AMBIGUOUS = {"number.nan", "number.range", "json.duplicate_key", "utf8.invalid", "json.depth"}


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "survey-artifact"


@pytest.fixture(scope="module")
def schema(folder: Path) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((folder / "trace_schema.json").read_text()))


@pytest.fixture(scope="module")
def example(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder / "example_trace.json")


# --- verdicts ---------------------------------------------------------------------------------------


def passes_the_validator(document: Any) -> bool:
    """What the survey's validator script asks beyond the schema; a document must have passed the schema."""
    ids = [event["id"] for event in document["events"]]
    ends = {edge[end] for edge in document["edges"] for end in ("src", "dst")}
    return (
        len(set(ids)) == len(ids)
        and ends <= set(ids)
        and all(cost >= 0 for cost in document["costs"].values())
    )


def published(schema: jsonschema.Draft202012Validator, line: bytes) -> bool:
    """Whether Python's reader, the published schema and the validator's rules all accept."""
    try:
        document = json.loads(line.decode())  # not the bytes: of those Python drops a BOM
    except (ValueError, RecursionError):
        return False
    return schema.is_valid(document) and passes_the_validator(document)


def test_our_reference_judges_as_the_published_rules_do(schema: jsonschema.Draft202012Validator) -> None:
    """Only where the JSON itself is ambiguous we reject what the published rules may accept."""
    compared, different = 0, []
    for case in CASES:
        faults = judge(case.line)
        if not (faults and faults[0].code in AMBIGUOUS):
            compared += 1
            if published(schema, case.line) != (not faults):
                different.append((case.name, faults))
    assert compared > 500
    assert different == []


def test_the_example_and_its_single_deletions(schema: jsonschema.Draft202012Validator, folder: Path) -> None:
    """Every value of the example is taken out or replaced once; verdicts agree, the engine's included."""
    example = json.loads((folder / "example_trace.json").read_text())
    lines = []
    for place in places(example):
        for value in (DELETE, None, "", -1, 3.5, True, [], {}, "message"):
            changed = replaced(example, place, value)
            if changed is not None:
                lines.append(json.dumps(changed).encode())
    verdicts = [published(schema, line) for line in lines]
    assert len(lines) > 500 and any(verdicts) and not all(verdicts)
    assert [not judge(line) for line in lines] == verdicts
    corpus = ot.read_traces(io.BytesIO(b"\n".join(lines)), format="native")
    refused = corpus.quarantine.collect()["line"].to_list()
    assert refused == [n for n, good in enumerate(verdicts, start=1) if not good]
    faults = {n: judge(lines[n - 1]) for n in refused}
    for row in rows(corpus.quarantine):
        known = faults[row["line"]]
        assert any(fault.code == row["code"] and fault.names(row["path"]) for fault in known), (row, known)


DELETE = object()


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document."""
    found = [at] if at else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        found += places(item, (*at, key))
    return found


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    copied = json.loads(json.dumps(document))
    target = copied
    for step in place[:-1]:
        target = target[step]
    if value is DELETE:
        del target[place[-1]]
    elif json.dumps(target[place[-1]]) == json.dumps(value):
        return None
    else:
        target[place[-1]] = value
    return copied


# --- the example --------------------------------------------------------------------------------------


def test_the_example_has_its_numbers(example: ot.Corpus, folder: Path) -> None:
    document = json.loads((folder / "example_trace.json").read_text())
    assert_tables(example, [document])
    assert example.records == {"read": 1, "used": 1, "ignored": 0, "duplicate": 0, "quarantined": 0}
    assert len(example) == 1
    assert example.events.collect().height == 8
    assert example.edges.collect().height == 8
    kinds = example.measures.collect().group_by("kind").len()
    assert dict(kinds.select(pl.col("kind").cast(pl.String), "len").rows()) == {
        "reward": 3,
        "cost": 4,
        "metric": 3,
    }
    (trace,) = rows(example.traces)
    assert trace["time_basis"] == "ordinal"
    assert (trace["line"], trace["offset"]) == (1, 0)
    assert rows(example.findings) == []
    agents = {row["agent"]: row["kind"] for row in rows(example.agents)}
    assert [name for name, kind in agents.items() if kind == "agent"] == [
        "orchestrator",
        "planner_1",
        "executor_1",
    ]
    assert agents.get("browser.search", "tool") == "tool"


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("unit", UNITS)
def test_flow_gives_out_the_whole_reward(example: ot.Corpus, unit: str, channel: str) -> None:
    credits = ot.credit(example, method="flow", unit=unit, reward=channel)
    assert credits["credit"].null_count() == 0
    assert abs(credits["credit"].sum() - CHANNELS[channel]) <= 1e-9
    assert credits["unit_id"].null_count() <= 1
    assert credits["unit_id"].n_unique() == credits.height


@pytest.mark.parametrize("unit", UNITS)
def test_every_share_adds_up(example: ot.Corpus, unit: str) -> None:
    shares = ot.list_methods().filter((pl.col("quantity") == "share") & pl.col("units").list.contains(unit))
    assert "flow" in shares["name"].to_list()
    for method, axioms, params in shares.select("name", "axioms", "params").iter_rows():
        # games are in units of the outcome unless they are asked for those of the reward
        is_game = "scaled" in {param["name"] for param in params}
        if is_game and "efficiency" not in axioms:
            continue
        options = {"scaled": True} if is_game else {}
        reward = {"team": 1.0, "tool": -2.0}
        credits = ot.credit(example, method=method, unit=unit, reward=reward, **options)
        assert abs(credits["credit"].sum() - 0.8) <= 1e-9, method


def native_files(root: Path) -> list[Path]:
    """Every file of the corpora that holds native traces."""
    found = []
    for path in sorted(root.rglob("*.json*")):
        if path.is_file() and path.suffix in (".json", ".jsonl") and path.stat().st_size < 50_000_000:
            text = path.read_bytes()
            if all(
                f'"{key}"'.encode() in text
                for key in ("trace_id", "task_id", "events", "edges", "rewards", "costs")
            ):
                found.append(path)
    return found


def test_every_native_file_comes_back(folder: Path) -> None:
    files = [path for path in native_files(folder.parent) if "schema" not in path.name]
    assert folder / "example_trace.json" in files
    for path in files:
        corpus = ot.read_traces(path, format="native")
        assert corpus.records["quarantined"] == 0
        text = path.read_text()
        documents = (
            [json.loads(text)] if len(corpus) == 1 else [json.loads(line) for line in text.splitlines()]
        )
        assert_identity(corpus, [json.dumps(each).encode() for each in documents])
