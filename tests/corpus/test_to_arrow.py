"""Tables handed to pyarrow and NumPy: the schema, the values, nulls, and what is not copied."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import REQUIRED, SCHEMAS
from orchestrace.corpus.numpy_arrays import Names
from samples.verdict_cases import ACCEPTED_LINES, BASE, text

TABLES = list(SCHEMAS)
WORDS = pa.dictionary(pa.uint8(), pa.string_view())
NAMES = pa.dictionary(pa.uint32(), pa.string())


def lines() -> bytes:
    full = {
        "id": "full",
        "t": 3,
        "type": "message",
        "agent": "w",
        "tokens_out": 7,
        "ok": False,
        "score": 0.5,
        "model": "m",
        "p_actions": [0.25, 0.75],
        "x_trace": {"started_at": "2026-01-02T03:04:05.000000006Z"},
        "x_n": 9,
    }
    document = {**BASE, "trace_id": "with all", "events": [full, *BASE["events"]]}
    valid = [line if isinstance(line, bytes) else text(line) for line in ACCEPTED_LINES]
    return b"\n".join([text(document), *valid, b"{broken", text(document)])


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.read_traces(io.BytesIO(lines()), fields={"x_n": pl.Int64})


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> ot.Corpus:
    folder = tmp_path_factory.mktemp("disk")
    (folder / "runs.jsonl").write_bytes(lines().rpartition(b"\n")[0])
    ot.ingest(folder / "runs.jsonl", folder / "corpus", partitions=3, fields={"x_n": pl.Int64})
    return ot.read_corpus(folder / "corpus")


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))


@pytest.mark.parametrize("name", TABLES)
def test_arrow_has_the_rows_and_the_types_of_the_schema(
    corpus: ot.Corpus, on_disk: ot.Corpus, name: str
) -> None:
    for one in (corpus, on_disk):
        table = one.to_arrow(name)
        expected = one._table(name).collect()
        assert table.column_names == expected.columns
        made = pl.from_arrow(table)
        assert isinstance(made, pl.DataFrame)
        assert_frame_equal(plain(made), plain(expected))
        table.validate(full=True)
        for column, dtype in expected.schema.items():
            kind = table.schema.field(column).type
            if isinstance(dtype, pl.Enum | pl.Categorical):
                assert kind == (WORDS if isinstance(dtype, pl.Enum) else NAMES)
            else:
                assert pl.Series(pa.array([], kind)).dtype == dtype
    assert corpus.to_arrow(name).schema.equals(on_disk.to_arrow(name).schema)


def test_arrow_gives_all_tables_by_name(corpus: ot.Corpus) -> None:
    tables = corpus.to_arrow()
    assert list(tables) == TABLES
    assert all(table.equals(corpus.to_arrow(name)) for name, table in tables.items())


@pytest.mark.parametrize("name", ["traces", "events", "edges", "measures"])
def test_arrow_copies_nothing(corpus: ot.Corpus, name: str) -> None:
    """The values lie where the core has them."""
    table, stream = corpus.to_arrow(name), corpus._store.table(name)
    shared = 0
    for column in table.column_names:
        if pa.types.is_primitive(table.schema.field(column).type) and table[column].null_count < len(table):
            ours = [
                chunk.buffers()[1].address + chunk.offset * chunk.type.bit_width // 8
                for chunk in table[column].chunks
            ]
            assert ours == stream.buffer_addresses(column) or table.schema.field(column).type == pa.bool_()
            shared += ours == stream.buffer_addresses(column)
    assert shared >= 2


@pytest.mark.parametrize("name", TABLES)
def test_numpy_has_the_values(corpus: ot.Corpus, on_disk: ot.Corpus, name: str) -> None:
    for one in (corpus, on_disk):
        arrays, frame = one.to_numpy(name), one._table(name).collect()
        assert list(arrays) == frame.columns
        for column, made in arrays.items():
            assert values(made) == plain(frame)[column].to_list(), column


def values(made: Any) -> list[Any]:
    """An array as a list with None for null, by what the documentation says of it."""
    if isinstance(made, Names):
        assert made.codes.dtype == np.int32 and made.categories.dtype == object
        return [None if code < 0 else made.categories[code] for code in made.codes]
    if isinstance(made, np.ma.MaskedArray):
        return [
            None if gone else value.item()
            for value, gone in zip(made.data, np.ma.getmaskarray(made), strict=True)
        ]
    if made.dtype == np.dtype("datetime64[ns]"):
        times = pl.Series(made).dt.replace_time_zone("UTC")
        return times.to_list()
    if made.dtype.kind == "f":
        return [None if np.isnan(value) else float(value) for value in made]
    if made.dtype == object:
        return [value.tolist() if isinstance(value, np.ndarray) else value for value in made]
    return [value.item() for value in made]


def test_numpy_types_do_not_hang_on_the_data(corpus: ot.Corpus) -> None:
    """Whether something is null in this corpus or not."""
    one = corpus.filter(pl.col("trace") == 0)
    for name in TABLES:
        for column, dtype in one._table(name).collect_schema().items():
            for made in (one.to_numpy(name)[column], corpus.to_numpy(name)[column]):
                if dtype.is_integer() or dtype == pl.Boolean:
                    assert isinstance(made, np.ma.MaskedArray) == (column not in REQUIRED[name]), column
                elif dtype.is_float():
                    assert made.dtype == np.float64 and not isinstance(made, np.ma.MaskedArray)
                else:
                    expected = Names if isinstance(dtype, pl.Enum | pl.Categorical) else np.ndarray
                    assert isinstance(made, expected)


def test_numpy_keeps_lists_of_one_length_apart() -> None:
    event = {"id": "a", "t": 0, "type": "message", "agent": "w", "p_actions": [0.5, 0.5]}
    document = {**BASE, "events": [event, {**event, "id": "b"}], "edges": []}
    lists = ot.read_traces(io.BytesIO(text(document))).to_numpy("events")["p_actions"]
    assert lists.shape == (2,) and [one.tolist() for one in lists] == [[0.5, 0.5], [0.5, 0.5]]


def test_words_keep_the_order_of_their_vocabulary(corpus: ot.Corpus) -> None:
    kinds = corpus.to_numpy("events")["type"]
    dtype = SCHEMAS["events"]["type"]
    assert isinstance(dtype, pl.Enum) and kinds.categories.tolist() == dtype.categories.to_list()
    agents = corpus.to_numpy("events")["agent"]
    column = corpus.events.select(pl.col("agent").cast(pl.String)).collect()["agent"]
    assert agents.categories.tolist() == column.unique(maintain_order=True).to_list()


def test_a_table_that_does_not_exist(corpus: ot.Corpus) -> None:
    for call in (corpus.to_arrow, corpus.to_numpy):
        with pytest.raises(ot.ParameterError, match="unknown table 'event'; did you mean 'events'"):
            call("event")


def test_without_pyarrow(corpus: ot.Corpus, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ot.ParameterError, match="to_arrow needs pyarrow: pip install pyarrow"):
        corpus.to_arrow("events")
