"""What importers, tables and native documents bring into a corpus is judged alike, where it is made."""

import copy
import io
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import orchestrace as ot
from orchestrace import _core
from samples import on_disk

ROOT = Path(__file__).parents[2]
IMPORTERS = ROOT / "data/importers"


def written(corpus: ot.Corpus) -> bytes:
    target = io.BytesIO()
    corpus.write_jsonl(target)
    return target.getvalue()


def read(*records: object, **options: Any) -> ot.Corpus:
    lines = "\n".join(json.dumps(record) for record in records)
    with warnings.catch_warnings(action="ignore"):
        return ot.read_traces(io.BytesIO(lines.encode()), **options)


def findings(corpus: ot.Corpus) -> list[tuple[str, str]]:
    return corpus.findings.select(pl.col("code").cast(pl.String), "message").collect().rows()


def held(corpus: ot.Corpus) -> None:
    """Whatever was read goes out and in again, as lines and as tables, and every verb answers."""
    again = ot.read_traces(io.BytesIO(written(corpus)))
    assert again.records["quarantined"] == 0
    tables = {name: getattr(corpus, name) for name in ("traces", "events", "edges", "measures", "labels")}
    assert len(ot.Corpus.from_arrow(**tables)) == len(again) == len(corpus)
    for name in ("events", "edges", "measures"):
        assert getattr(again, name).collect().equals(getattr(corpus, name).collect())
    ot.metrics(corpus)
    if "team" in corpus.reward_channels():
        ot.credit(corpus, unit="agent")


@pytest.fixture
def good(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    ot.generate(folder / "a.jsonl", traces=20, seed=0)
    return folder


def test_one_recording_does_not_disable_a_corpus_on_disk(good: Path, tmp_path: Path) -> None:
    shutil.copy(IMPORTERS / "langsmith/input.jsonl", good / "b.jsonl")
    ot.ingest(good, tmp_path / "out")
    corpus = ot.read_corpus(tmp_path / "out")
    held(corpus)
    assert corpus.filter(pl.col("importer") == "langsmith").write_jsonl(io.BytesIO()) == 1


def test_an_agent_whose_first_act_is_a_spawn_says_its_id_later() -> None:
    events = ot.read_traces(IMPORTERS / "langsmith/input.jsonl", format="langsmith").events.collect()
    ids = events.select("type", "agent", pl.col("extras").str.json_path_match("$.x_agent_id"))
    spawned = ids.filter(type="spawn")["extras"].to_list()
    assert "root" not in spawned and len(spawned) == 2
    own = ids.filter(pl.col("type") != "spawn", pl.col("extras").is_not_null())
    assert own["agent"].n_unique() == own.height, "every agent says its id once"
    for text in events["extras"].drop_nulls():
        keys = [key for key, _ in json.loads(text, object_pairs_hook=list)]
        assert len(keys) == len(set(keys))


def backwards() -> list[Any]:
    """A span that ends before it begins."""
    span = json.loads((IMPORTERS / "agent_lightning/input.jsonl").read_text().splitlines()[0])
    return [{**span, "start_time": 1770105606.0, "end_time": 1770105605.25}]


def refunded() -> list[Any]:
    """A run that costs less than nothing."""
    run = json.loads((IMPORTERS / "atif/input/lead.json").read_text())
    for step in run["steps"]:
        step.get("metrics", {}).pop("cost_usd", None)
    return [{**run, "final_metrics": {"total_cost_usd": -0.5}}]


@pytest.mark.parametrize(
    ("format", "records", "measure"),
    [("agent_lightning", backwards(), "wall_clock_s"), ("atif", refunded(), "cost_usd")],
    ids=["agent_lightning", "atif"],
)
def test_a_cost_below_0_is_left_out_and_told(format: str, records: list[Any], measure: str) -> None:
    corpus = read(*records, format=format)
    assert len(corpus) == 1
    assert corpus.measures.filter(pl.col("name") == measure).collect().height == 0
    [message] = [message for code, message in findings(corpus) if code == "value.impossible"]
    assert measure in message and "expected at least 0" in message
    held(corpus)


def test_a_count_below_0_is_left_out_and_told() -> None:
    run = json.loads((IMPORTERS / "swe_agent/input.jsonl").read_text().splitlines()[0])
    run["info"] = {**run.get("info", {}), "model_stats": {"tokens_sent": -10, "tokens_received": 1}}
    corpus = read(run, format="swe_agent")
    assert corpus.measures.filter(pl.col("kind") == "cost", pl.col("value") < 0).collect().height == 0
    assert "value.impossible" in {code for code, _ in findings(corpus)}
    held(corpus)


def native(**event: object) -> dict[str, Any]:
    return {
        "trace_id": "x",
        "task_id": "t",
        "events": [{"id": "e", "t": 0, "type": "message", "agent": "a", **event}],
        "edges": [],
        "rewards": {"team": 1},
        "costs": {"tokens": 1, "wall_clock_s": 1},
    }


@pytest.mark.parametrize("field", ["tokens_in", "tokens_out", "tokens", "cost_usd", "duration_s"])
def test_counts_and_costs_of_events_are_at_least_0_for_everybody(field: str) -> None:
    corpus = read(native(**{field: -1}))
    assert corpus.events.collect()[field].null_count() == 1
    assert "field.ignored" in {code for code, _ in findings(corpus)}
    held(corpus)
    events = read(native(**{field: 1})).events.with_columns(pl.lit(-1).alias(field)).collect()
    with pytest.raises(ot.SchemaError, match=f"{field}.*is -1, expected at least 0"):
        ot.Corpus.from_arrow(traces=corpus.traces, events=events)


def test_a_name_of_a_mapping_that_events_have_is_refused(tmp_path: Path) -> None:
    mapping = json.loads((IMPORTERS / "mapping/mapping.json").read_text())
    for odd in ("x_gen", "x_tokens_cached", "x_trace"):
        path = tmp_path / f"{odd}.json"
        mapping["step"]["extras"] = {odd: "/id"}
        path.write_text(json.dumps(mapping))
        with pytest.raises(ot.ParameterError, match="events use"):
            ot.read_traces(io.BytesIO(b"{}\n"), mapping=path)


# Tables of others.


def tables() -> dict[str, pl.DataFrame]:
    corpus = read(native(), {**native(), "trace_id": "y"})
    return {name: getattr(corpus, name).collect() for name in ("traces", "events", "edges", "measures")}


def broken_text() -> pa.Array:
    """Two words, one of them no UTF-8."""
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 4)))
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab\xff\xfe")])


@pytest.mark.parametrize("column", ["id", "agent", "tool", "content_ref", "extras", "x_own"])
def test_text_that_is_no_utf8_is_refused(column: str) -> None:
    given = tables()
    events = given["events"].to_arrow()
    if column in events.column_names:
        events = events.drop_columns([column])
    events = events.append_column(column, broken_text())
    with pytest.raises(ot.SchemaError, match=rf"events.{column}.*UTF-8|UTF-8.*events|events: .*"):
        ot.Corpus.from_arrow(traces=given["traces"], events=events)


def test_ids_that_are_no_utf8_are_refused() -> None:
    given = tables()
    traces = given["traces"].select("trace").to_arrow().append_column("trace_id", broken_text())
    with pytest.raises(ot.SchemaError):
        ot.Corpus.from_arrow(traces=traces, events=given["events"])


def nul_in_a_name(events: pl.DataFrame) -> object:
    return events.with_columns(pl.lit("v").alias("a\0b"))


def twice(events: pl.DataFrame) -> object:
    table = events.to_arrow()
    return table.append_column("agent", table["agent"])


def run_ends(events: pl.DataFrame) -> object:
    table = events.to_arrow()
    ends = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"]))
    return table.append_column("x_run", ends)


@pytest.mark.parametrize("change", [nul_in_a_name, twice, run_ends])
def test_what_no_table_can_hold_is_one_clear_error(change: Callable[[pl.DataFrame], object]) -> None:
    given = tables()
    with pytest.raises(ot.SchemaError) as caught:
        ot.Corpus.from_arrow(traces=given["traces"], events=change(given["events"]))
    assert "\n" not in str(caught.value)


def test_a_field_with_a_nul_in_its_name_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ot.ParameterError, match="NUL"):
        ot.read_traces(io.BytesIO(b"{}"), fields={"a\0b": pl.String})
    with pytest.raises(ot.ParameterError, match="NUL"):
        ot.ingest(IMPORTERS / "langsmith/input.jsonl", tmp_path / "out", fields={"a\0b": pl.String})
    assert not (tmp_path / "out" / "manifest.json").exists()


@pytest.mark.parametrize("weight", [float("nan"), float("inf")])
def test_a_weight_is_finite(weight: float) -> None:
    given = tables()
    labels = pl.DataFrame({"trace_id": ["x"], "annotator": ["me"], "label": ["good"], "weight": [weight]})
    with pytest.raises(ot.SchemaError, match=r"labels.weight .*expected a finite number"):
        ot.Corpus.from_arrow(**given, labels=labels)


# A corpus on disk of an earlier version, which let more in.


def poisoned(folder: Path) -> Path:
    """Makes the first cost of a corpus negative, as an earlier version might have written it."""
    for file in sorted(folder.glob("part=*/measures/*.parquet")):
        frame = pl.read_parquet(file)
        cost = (pl.col("kind") == "cost") & (pl.int_range(pl.len()) == frame["kind"].eq("cost").arg_max())
        frame.with_columns(value=pl.when(cost).then(-1.0).otherwise("value")).write_parquet(file)
        return file
    raise AssertionError("no measures")


def test_a_trace_that_cannot_be_held_is_left_out_and_the_rest_goes_on(good: Path, tmp_path: Path) -> None:
    ot.ingest(good, tmp_path / "out")
    poisoned(tmp_path / "out")
    on_disk.forget_checksums(tmp_path / "out")  # earlier versions wrote none
    corpus = ot.read_corpus(tmp_path / "out")
    with pytest.warns(UserWarning, match=r"trace \d+ is left out.*expected at least 0"):
        credits = ot.credit(corpus, unit="team")
    assert credits["trace"].n_unique() == 19
    with pytest.warns(UserWarning, match="is left out"):
        assert ot.metrics(corpus)["trace"].n_unique() == 19
    with pytest.warns(UserWarning, match="is left out"):
        assert corpus.write_jsonl(io.BytesIO()) == 19


def test_what_is_set_aside_is_told_trace_by_trace() -> None:
    given = {name: table for name, table in tables().items()}
    given["events"] = given["events"].with_columns(
        t=pl.when(pl.col("trace") == 0).then(float("inf")).otherwise("t")
    )
    store = _core.Store.from_arrow(given, set_aside=True)
    [(trace, message)] = store.set_aside
    assert trace == 0 and "expected a finite number" in message
    assert store.n_traces == 1
    with pytest.raises(ot.SchemaError, match="expected a finite number"):
        _core.Store.from_arrow(given)
    assert copy.copy(store.set_aside) == store.set_aside
