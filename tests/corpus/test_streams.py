"""One stream into Polars, pyarrow and NumPy and back; zero copy is shown by buffer address."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace import _core
from samples.verdict_cases import ACCEPTED_LINES, BASE, text

WORDS = pl.Enum
NAME = pl.Categorical
U32, U64, I64, F64, TEXT, FLAG = pl.UInt32, pl.UInt64, pl.Int64, pl.Float64, pl.String, pl.Boolean
TIME = pl.Datetime("ns", "UTC")
COLUMNS: dict[str, dict[str, Any]] = {
    "traces": {
        "trace": U32,
        "trace_id": TEXT,
        "task_id": TEXT,
        "group_id": TEXT,
        "system": NAME,
        "topology": WORDS,
        "importer": NAME,
        "time_basis": WORDS,
        "started_at": TIME,
        "partial": FLAG,
        "n_events": U32,
        "n_edges": U32,
        "n_agents": U32,
        "file": NAME,
        "line": U64,
        "offset": U64,
        "length": U64,
    },
    "events": {
        "trace": U32,
        "seq": U32,
        "id": TEXT,
        "t": F64,
        "type": WORDS,
        "agent": NAME,
        "role": NAME,
        "from": NAME,
        "to": NAME,
        "tool": NAME,
        "content_ref": TEXT,
        "trusted": FLAG,
        "duration_s": F64,
        "t_end": F64,
        "tokens_in": I64,
        "tokens_fresh": I64,
        "tokens_cached": I64,
        "tokens_cache_write": I64,
        "tokens_out": I64,
        "tokens_reasoning": I64,
        "tokens": I64,
        "tokens_cache_write_1h": I64,
        "cost_usd": F64,
        "model": NAME,
        "turn": U32,
        "ok": FLAG,
        "score": F64,
        "reward": F64,
        "draft_score": F64,
        "value": F64,
        "p_behavior": F64,
        "action": NAME,
        "p_actions": pl.List(F64),
        "state_key": TEXT,
        "prefix_key": TEXT,
        "subtask_id": TEXT,
        "content_hash": TEXT,
        "args_hash": TEXT,
        "harness_hash": TEXT,
        "sandbox_id": TEXT,
        "corrupted": FLAG,
        "sanitizer": FLAG,
        "privileged": FLAG,
        "trainable": FLAG,
        "group_id": TEXT,
        "extras": TEXT,
    },
    "edges": {"trace": U32, "src": U32, "dst": U32, "type": WORDS},
    "agents": {
        "trace": U32,
        "agent": NAME,
        "kind": WORDS,
        "role": NAME,
        "trainable": FLAG,
        "parent": NAME,
        "depth": U32,
        "first_seq": U32,
        "n_events": U32,
    },
    "measures": {"trace": U32, "kind": WORDS, "name": NAME, "value": F64},
    "labels": {
        "trace_id": TEXT,
        "annotator": NAME,
        "event_id": TEXT,
        "turn": U32,
        "agent": TEXT,
        "label": NAME,
        "weight": F64,
    },
    "findings": {"trace": U32, "code": WORDS, "count": U32, "seq": U32, "message": TEXT},
    "quarantine": {
        "file": NAME,
        "offset": U64,
        "line": U64,
        "length": U64,
        "code": WORDS,
        "path": TEXT,
        "message": TEXT,
        "importer": NAME,
        "excerpt": TEXT,
    },
}
TABLES = list(COLUMNS)
NUMERIC = {
    "traces": ["trace", "n_events", "n_edges", "n_agents"],
    "events": ["trace", "seq", "t"],
    "edges": ["trace", "src", "dst"],
    "measures": ["trace", "value"],
    "agents": ["trace", "first_seq", "n_events"],
    "findings": ["trace", "count"],
    "quarantine": ["offset", "line", "length"],
}


@pytest.fixture(scope="module")
def data() -> bytes:
    """Valid lines of every kind, with all extension fields set in one, and some broken ones."""
    full = {
        "id": "full",
        "t": 3,
        "type": "safety_event",
        "agent": "w",
        "duration_s": 0.5,
        "t_end": 3.5,
        "tokens_in": 6,
        "tokens_fresh": 1,
        "tokens_cached": 3,
        "tokens_cache_write": 2,
        "tokens_out": 4,
        "tokens_reasoning": 2,
        "tokens": 10,
        "tokens_cache_write_1h": 1,
        "cost_usd": 0.01,
        "model": "m",
        "turn": 4,
        "ok": True,
        "score": 0.1,
        "reward": 0.2,
        "draft_score": 0.3,
        "value": 0.4,
        "p_behavior": 0.5,
        "action": "a",
        "p_actions": [0.25, 0.75],
        "state_key": "a long state key, beyond a view",
        "prefix_key": "p",
        "subtask_id": "s",
        "content_hash": "c",
        "args_hash": "h",
        "harness_hash": "x",
        "sandbox_id": "b",
        "corrupted": False,
        "sanitizer": True,
        "privileged": False,
        "trainable": True,
        "group_id": "g",
        "x_é": {"ü": [None]},
    }
    documents = [
        BASE | {"trace_id": f"t{n}", "events": BASE["events"] + [full | {"t": n / 7}]} for n in range(200)
    ]
    lines = ACCEPTED_LINES + [text(each) for each in documents] + [b"{}", b"[]"]
    return b"\n".join(lines)


@pytest.fixture(scope="module")
def store(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> _core.Store:
    """Read in small blocks, so that every table has several batches."""
    path = tmp_path_factory.mktemp("interop") / "runs.jsonl"
    path.write_bytes(data)
    return _core.read([str(path)], format="native", threads=2, block_size=4 << 10)


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """Names as text, so that frames with different dictionaries compare."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String), pl.col(pl.Enum).cast(pl.String))


def check_schema(frame: pl.DataFrame, table: str) -> None:
    """Columns in order and of the right types; a stream may leave out what no event of the corpus has."""
    assert frame.columns == [name for name in COLUMNS[table] if name in frame.columns]
    for name, dtype in frame.schema.items():
        assert dtype == COLUMNS[table][name], name
    absent = set(COLUMNS[table]) - set(frame.columns)
    assert not absent or table == "events"
    assert not absent & {"trace", "seq", "id", "t", "type", "agent"}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("combined", [False, True])
def test_polars_sees_the_types_of_the_schema(store: _core.Store, table: str, combined: bool) -> None:
    stream = store.combined(table) if combined else store.table(table)
    frame = pl.DataFrame(stream)
    check_schema(frame, table)
    assert frame.height == stream.num_rows
    if combined:
        assert stream.num_batches <= 1
        assert_frame_equal(plain(frame), plain(pl.DataFrame(store.table(table))))


@pytest.mark.parametrize("table", TABLES)
def test_the_frames_of_a_corpus_are_the_streams(store: _core.Store, table: str) -> None:
    frame = getattr(ot.Corpus(store), table).collect()
    assert frame.columns == list(COLUMNS[table])
    check_schema(frame, table)
    assert_frame_equal(plain(frame), plain(pl.DataFrame(store.table(table))))


@pytest.mark.parametrize("table", TABLES)
def test_closed_vocabularies_are_those_of_the_core(store: _core.Store, table: str) -> None:
    listed = {name: words for name, _, _, words in dict(_core.tables())[table] if words is not None}
    frame = pl.DataFrame(store.table(table))
    found = {
        name: dtype.categories.to_list() for name, dtype in frame.schema.items() if isinstance(dtype, pl.Enum)
    }
    assert found == listed


@pytest.mark.parametrize("table", TABLES)
def test_pyarrow_sees_the_same_rows(store: _core.Store, table: str) -> None:
    arrow = pa.RecordBatchReader.from_stream(store.table(table)).read_all()
    arrow.validate(full=True)
    frame = pl.DataFrame(store.table(table))
    assert arrow.column_names == frame.columns
    expected = frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns")).to_dict(as_series=False)
    for name in arrow.column_names:
        column = arrow[name]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        assert column.to_pylist() == expected[name], name


@pytest.mark.parametrize("table", TABLES)
def test_a_stream_may_be_consumed_again(store: _core.Store, table: str) -> None:
    stream = store.table(table)
    first, second = pl.DataFrame(stream), pl.DataFrame(stream)
    assert_frame_equal(plain(first), plain(second))
    third = pa.RecordBatchReader.from_stream(stream).read_all()
    assert third.num_rows == first.height == stream.num_rows
    assert pa.schema(stream).names == first.columns


def test_a_frame_may_be_collected_again(data: bytes) -> None:
    corpus = ot.read_traces(io.BytesIO(data), format="native")
    assert_frame_equal(corpus.events.collect(), corpus.events.collect())
    query = corpus.events.filter(pl.col("type") == "tool_call").group_by("agent").len().sort("len")
    assert query.collect().height == query.collect().height > 0


@pytest.mark.parametrize(("table", "column"), [(t, c) for t, columns in NUMERIC.items() for c in columns])
def test_numbers_are_not_copied(store: _core.Store, table: str, column: str) -> None:
    stream = store.table(table)
    ours = stream.buffer_addresses(column)
    assert len(ours) == stream.num_batches

    chunks = pa.RecordBatchReader.from_stream(stream).read_all()[column].chunks
    width = chunks[0].type.bit_width // 8
    assert [chunk.buffers()[1].address + chunk.offset * width for chunk in chunks] == ours
    views = [chunk.to_numpy(zero_copy_only=True) for chunk in chunks]
    assert [view.__array_interface__["data"][0] for view in views] == ours

    frame = pl.DataFrame(store.table(table))
    views = [chunk.to_numpy(allow_copy=False) for chunk in frame[column].get_chunks()]
    assert [view.__array_interface__["data"][0] for view in views] == ours
    assert np.concatenate(views).tolist() == frame[column].to_list()


def test_the_large_tables_have_several_batches(store: _core.Store) -> None:
    assert store.table("events").num_batches > 3
    assert store.table("edges").num_batches > 3


def test_buffers_outlive_their_store(data: bytes) -> None:
    frame = pl.DataFrame(_core.read([io.BytesIO(data)], format="native").table("events"))
    expected = frame.clone().with_columns(pl.col("t") + 0).to_dicts()
    ot.generate(io.BytesIO(), events=2_000, seed=5)
    assert frame.to_dicts() == expected


def test_an_unknown_column_has_no_address(store: _core.Store) -> None:
    with pytest.raises((KeyError, ValueError)):
        store.table("events").buffer_addresses("tt")
    with pytest.raises((KeyError, ValueError)):
        store.table("event")


# --- nothing and null ---------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_corpus_has_every_column(table: str) -> None:
    store = _core.read([io.BytesIO(b"")], format="native")
    for stream in (store.table(table), store.combined(table)):
        frame = pl.DataFrame(stream)
        assert frame.height == stream.num_rows == 0
        check_schema(frame, table)
        arrow = pa.RecordBatchReader.from_stream(stream).read_all()
        assert (arrow.num_rows, arrow.column_names) == (0, frame.columns)
    frame = getattr(ot.Corpus(store), table).collect()
    assert frame.height == 0
    assert frame.columns == list(COLUMNS[table])
    check_schema(frame, table)


def test_columns_that_nobody_has_are_typed_nulls(tmp_path: Path) -> None:
    event = {"id": "e", "t": 0, "type": "return", "agent": "a"}
    path = tmp_path / "run.json"
    path.write_bytes(text(BASE | {"events": [event], "edges": []}))
    corpus = ot.read_traces(path)
    events = corpus.events.collect()
    for name, dtype in events.schema.items():
        assert dtype == COLUMNS["events"][name]
        if name not in ("trace", "seq", *event):
            assert events[name].to_list() == [None]
    assert corpus.events.collect_schema() == events.schema
    pa.RecordBatchReader.from_stream(corpus._store.combined("events")).read_all().validate(full=True)


# --- and back -------------------------------------------------------------------------------------------


def as_polars(store: _core.Store, table: str) -> Any:
    return pl.DataFrame(store.table(table))


def as_pyarrow(store: _core.Store, table: str) -> Any:
    return pa.RecordBatchReader.from_stream(store.table(table)).read_all()


def as_plain_strings(store: _core.Store, table: str) -> Any:
    return plain(pl.DataFrame(store.table(table)))


@pytest.mark.parametrize("view", [as_polars, as_pyarrow, as_plain_strings])
def test_tables_come_back(store: _core.Store, view: Any) -> None:
    tables = {table: view(store, table) for table in ("traces", "events", "edges", "measures")}
    corpus = ot.Corpus.from_arrow(**tables)
    for table in (*tables, "agents"):
        before, after = getattr(ot.Corpus(store), table).collect(), getattr(corpus, table).collect()
        check_schema(after, table)
        assert_frame_equal(plain(after), plain(before))


def test_slices_come_back(store: _core.Store) -> None:
    n = 5
    traces, events, edges, measures = (
        pl.DataFrame(store.table(t)).filter(pl.col("trace") < n)
        for t in ("traces", "events", "edges", "measures")
    )
    padded = pl.concat([events.head(3), events]).slice(3)
    corpus = ot.Corpus.from_arrow(traces=traces, events=padded, edges=edges, measures=measures)
    assert_frame_equal(plain(corpus.events.collect()), plain(events))
    assert_frame_equal(plain(corpus.edges.collect()), plain(edges))
    first, second = io.BytesIO(), io.BytesIO()
    corpus.write_jsonl(first)
    store.filter(list(range(n))).write_jsonl(second)
    assert first.getvalue() == second.getvalue()


def test_numpy_goes_in_and_comes_out(store: _core.Store) -> None:
    before = pl.DataFrame(store.table("events"))
    scores = np.arange(before.height, dtype=np.float64) / 7
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame(store.table("traces")),
        events=before.with_columns(pl.Series("score", scores)),
        edges=pl.DataFrame(store.table("edges")),
    )
    assert corpus.events.collect()["score"].to_numpy().tolist() == scores.tolist()
