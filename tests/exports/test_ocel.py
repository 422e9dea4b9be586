"""OCEL 2.0: valid by the published constraints, complete by an independent reader, opened by pm4py."""

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

import orchestrace as ot
from samples.random_runs import jsonl

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"


def named(extra: dict[str, Any], *needed: str) -> dict[str, Any]:
    texts = {name: {"type": "string"} for name in needed if name not in extra}
    return {"type": "object", "properties": texts | extra, "required": list(needed)}


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


TIME = {"type": "string", "format": "date-time"}
TYPES = listed(named({"attributes": listed(named({}, "name", "type"))}, "name", "attributes"))
RELATED = listed(named({}, "objectId", "qualifier"))
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **named(
        {
            "eventTypes": TYPES,
            "objectTypes": TYPES,
            "events": listed(
                named(
                    {
                        "time": TIME,
                        "attributes": listed(named({}, "name", "value")),
                        "relationships": RELATED,
                    },
                    *("id", "type", "time"),
                )
            ),
            "objects": listed(
                named(
                    {
                        "attributes": listed(named({"time": TIME}, "name", "value", "time")),
                        "relationships": RELATED,
                    },
                    *("id", "type"),
                )
            ),
        },
        *("eventTypes", "objectTypes", "events", "objects"),
    ),
}
"""The constraints of the JSON schema of OCEL 2.0, as its specification (arXiv 2403.01975) states them."""

PARSERS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": {"true": True, "false": False}.__getitem__,
}


def written(corpus: ot.Corpus, path: Path, **options: Any) -> dict[str, Any]:
    ot.export(corpus, "ocel", path, **options)
    log = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(log, SCHEMA, format_checker=jsonschema.FormatChecker())
    return dict(log)


def parsed(log: dict[str, Any], part: str) -> dict[str, dict[str, Any]]:
    """Events or objects by id, attributes by their declared types."""
    kinds = {
        one["name"]: {field["name"]: field["type"] for field in one["attributes"]}
        for one in log["eventTypes" if part == "events" else "objectTypes"]
    }
    made = {}
    for one in log[part]:
        values = {}
        for attribute in one.get("attributes", []):
            kind = kinds[one["type"]][attribute["name"]]  # what is used is declared
            assert attribute["name"] not in values
            values[attribute["name"]] = PARSERS[kind](attribute["value"])
        related = [(one["qualifier"], one["objectId"]) for one in one.get("relationships", [])]
        assert len({name for _, name in related}) == len(related)  # an object is named once
        assert one["id"] not in made
        made[one["id"]] = {
            "type": one["type"],
            "attributes": values,
            "related": related,
            "time": one.get("time"),
        }
    return made


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.read_traces(SAMPLES)


def test_every_event_says_what_it_concerns(corpus: ot.Corpus, tmp_path: Path) -> None:
    credits = ot.credit(corpus, method="flow", unit="event")
    log = written(corpus, tmp_path / "log.json", credits=credits)
    events, objects = parsed(log, "events"), parsed(log, "objects")
    rows = corpus.events.join(corpus.traces.select("trace", "trace_id", "task_id"), on="trace").sort(
        "trace", "seq"
    )
    rows = rows.join(credits.lazy().select("trace", "seq", "credit"), on=["trace", "seq"], how="left")
    table = rows.collect().to_dicts()
    kinds = {
        (row[0], row[1]): row[2] for row in corpus.agents.select("trace", "agent", "kind").collect().rows()
    }
    assert len(events) == len(table)
    for row in table:
        event = events[f"{row['trace_id']}#{row['id']}"]
        assert event["type"] == row["type"]
        for name, value in event["attributes"].items():
            assert value == row[name], name
        absent = (
            "role",
            "content_ref",
            "trusted",
            "duration_s",
            "tokens_out",
            "ok",
            "score",
            "turn",
            "credit",
        )
        assert all((row[name] is None) == (name not in event["attributes"]) for name in absent)
        actor = f"agent:{row['trace_id']}#{row['agent']}"
        if kinds[row["trace"], row["agent"]] == "tool":
            actor = f"tool:{row['agent']}"
        expected = {
            ("within", f"trace:{row['trace_id']}"),
            ("works_on", f"task:{row['task_id']}"),
            ("performed_by", actor),
        }
        if row["tool"] is not None and f"tool:{row['tool']}" != actor:
            expected.add(("uses", f"tool:{row['tool']}"))
        if row["to"] is not None and row["to"] != row["agent"]:
            expected.add(("addressed_to", f"agent:{row['trace_id']}#{row['to']}"))
        assert set(event["related"]) == expected
        start = datetime(1970, 1, 1, tzinfo=UTC)  # no sample says when it began
        assert datetime.fromisoformat(event["time"]) == start + timedelta(microseconds=round(row["t"] * 1e6))
    used = {name for one in (*events.values(), *objects.values()) for _, name in one["related"]}
    assert used <= set(objects)
    count = {kind: sum(one["type"] == kind for one in objects.values()) for kind in ("trace", "task", "tool")}
    assert count["trace"] == len(corpus)
    assert count["task"] == corpus.traces.select(pl.col("task_id").n_unique()).collect().item()
    assert count["tool"] == corpus.events.select(pl.col("tool").drop_nulls().n_unique()).collect().item()


def test_traces_carry_their_measures_and_agents_their_parents(corpus: ot.Corpus, tmp_path: Path) -> None:
    objects = parsed(written(corpus, tmp_path / "log.json"), "objects")
    measures = corpus.measures.join(corpus.traces.select("trace", "trace_id"), on="trace").collect()
    for row in measures.iter_rows(named=True):
        values = objects[f"trace:{row['trace_id']}"]["attributes"]
        assert values[f"{row['kind']}.{row['name']}"] == row["value"]
    agents = corpus.agents.join(corpus.traces.select("trace", "trace_id"), on="trace")
    for row in agents.filter(pl.col("kind") != "tool").collect().iter_rows(named=True):
        one = objects[f"agent:{row['trace_id']}#{row['agent']}"]
        assert one["type"] == row["kind"] and one["attributes"].get("role") == row["role"]
        assert one["attributes"].get("depth") == row["depth"]
        parent = [] if row["parent"] is None else [("child_of", f"agent:{row['trace_id']}#{row['parent']}")]
        assert one["related"] == [("takes_part_in", f"trace:{row['trace_id']}"), *parent]


def test_a_corpus_on_disk_gives_the_same_log(corpus: ot.Corpus, tmp_path: Path) -> None:
    ot.ingest(SAMPLES, tmp_path / "corpus", memory="64MiB", partitions=4)
    disk = written(ot.read_corpus(tmp_path / "corpus"), tmp_path / "b.json")
    memory = written(corpus, tmp_path / "a.json")
    for part in ("events", "objects"):
        assert parsed(disk, part) == parsed(memory, part)
    assert (disk["eventTypes"], disk["objectTypes"]) == (memory["eventTypes"], memory["objectTypes"])


def document(trace_id: str, *ids: str, **facts: Any) -> dict[str, Any]:
    events = [{"id": one, "t": n, "type": "message", "agent": "a", "to": "b"} for n, one in enumerate(ids)]
    events[0] |= facts
    rest = {"edges": [], "rewards": {"team": 1}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    return {"trace_id": trace_id, "task_id": "task", "events": events, **rest}


def test_ids_are_unique_whatever_traces_are_called(tmp_path: Path) -> None:
    """Names that would collide if they were only put together; an id that two traces have."""
    documents = [
        document("a", "b#c", "x"),
        document("a#b", "c", "x"),
        document("a%23b", "c"),
        document("twice", "x"),
        document("twice", "y"),
        document("twice%@4", "x"),
        document('</script>"\\\n\u202e', "<&>"),
    ]
    log = written(ot.read_traces(io.BytesIO(jsonl(documents))), tmp_path / "log.json")
    events, objects = parsed(log, "events"), parsed(log, "objects")  # which fails where an id occurs twice
    assert len(events) == sum(len(one["events"]) for one in documents)
    assert sum(one["type"] == "trace" for one in objects.values()) == len(documents)
    # nobody is heard of but by what is said to them, and is there all the same
    assert sum(one["type"] == "agent" for one in objects.values()) == 2 * len(documents)
    assert all(name in objects for one in events.values() for _, name in one["related"])
    assert "<" not in (tmp_path / "log.json").read_text()


def test_times_are_dates(tmp_path: Path) -> None:
    known = document(
        "known", "x", "y", x_trace={"started_at": "2026-02-03T04:05:06.5Z", "time_basis": "seconds"}
    )
    far = document("far", "x")
    far["events"][0]["t"] = 1e300
    events = parsed(written(ot.read_traces(io.BytesIO(jsonl([known, far]))), tmp_path / "x"), "events")
    assert events["known#y"]["time"] == "2026-02-03T04:05:07.500000Z"
    assert events["far#x"]["time"] == "9999-12-31T23:59:59.000000Z"


@pytest.mark.filterwarnings("ignore")  # those of the reader are not ours
def test_pm4py_opens_it(corpus: ot.Corpus, tmp_path: Path) -> None:
    pm4py = pytest.importorskip("pm4py", reason="pm4py is not installed, so no process miner reads the log")
    log = written(corpus, tmp_path / "log.json", credits=ot.credit(corpus, method="flow", unit="event"))
    read = pm4py.read_ocel2_json(str(tmp_path / "log.json"))
    assert len(read.events) == len(log["events"]) and len(read.objects) == len(log["objects"])
    pairs = {(e["id"], r["objectId"], r["qualifier"]) for e in log["events"] for r in e["relationships"]}
    columns = read.relations[["ocel:eid", "ocel:oid", "ocel:qualifier"]]
    assert set(columns.itertuples(index=False, name=None)) == pairs
    links = {
        (o["id"], r["objectId"], r["qualifier"]) for o in log["objects"] for r in o.get("relationships", [])
    }
    assert set(read.o2o.itertuples(index=False, name=None)) == links
    credits = {row["ocel:eid"]: row["credit"] for row in read.events.to_dict("records")}
    events = parsed(log, "events")
    known = {
        one: event["attributes"]["credit"] for one, event in events.items() if "credit" in event["attributes"]
    }
    assert known and {one: value for one, value in credits.items() if value == value} == known
    assert set(pm4py.ocel_get_object_types(read)) == {"trace", "task", "agent", "user", "tool"}
