"""Parquet and Arrow files: rows are read as the same rows in JSON lines; damage costs what it touches."""

import io
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot

DATA = Path(__file__).parents[2] / "data"
Record = dict[str, Any]
TABLES = ("traces", "events", "edges", "agents", "measures", "labels", "findings")
#: Of a row that is written in other words.
PLACES = ("file", "line", "offset", "length")
#: Formats that people keep as rows: a record of theirs is no document of pages.
FORMATS = ("langsmith", "messages", "rllm", "trl", "verifiers", "verl")


def records(name: str) -> list[Record]:
    """The records of the golden input of a format that make one table: a column has values of one type."""
    (path,) = (DATA / "importers" / name).glob("input.json*")
    types: dict[str, type] = {}
    rows = []
    for line in path.read_text("utf-8").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and all(
            value is None or types.setdefault(key, type(value)) is type(value) for key, value in row.items()
        ):
            rows.append(row)
    return rows


def as_texts(rows: list[Record]) -> pa.Table:
    """Values that are no numbers and texts as JSON in a text, as many exporters write them."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    texts = [
        {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in row.items()}
        for row in rows
    ]
    return pa.table({name: [row.get(name) for row in texts] for name in names})


def as_lines(rows: list[Record]) -> io.BytesIO:
    """The same as lines: columns in the order of the table."""

    def line(row: Record) -> str:
        members = [(name, row.get(name)) for name in names]
        return ",".join(
            f"{json.dumps(name)}:{json.dumps(value, ensure_ascii=False)}" for name, value in members
        )

    names = list(dict.fromkeys(name for row in rows for name in row))
    return io.BytesIO("".join(f"{{{line(row)}}}\n" for row in rows).encode())


def same_tables(one: ot.Corpus, other: ot.Corpus) -> None:
    assert one.records == other.records
    for name in TABLES:
        frames = [getattr(corpus, name).collect() for corpus in (one, other)]
        frames = [frame.drop(*PLACES, strict=False) for frame in frames]
        text = [
            pl.col(column).cast(pl.String)
            for column, kind in frames[0].schema.items()
            if kind == pl.Categorical
        ]
        assert_frame_equal(*(frame.with_columns(text) for frame in frames))


ROWS: list[Record] = [
    {
        "instance_id": f"task-{number // 2}",
        "trajectory_id": f"run-{number}",
        "messages": [
            {"role": "system", "content": "You add.", "tool_calls": None, "tool_call_id": None},
            {"role": "user", "content": f"What is {number} + 1?", "tool_calls": None, "tool_call_id": None},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}],
                "tool_call_id": None,
            },
            {"role": "tool", "content": str(number + 1), "tool_calls": None, "tool_call_id": "c1"},
            {"role": "assistant", "content": str(number + 1), "tool_calls": None, "tool_call_id": None},
        ],
        "resolved": (-1, 0, 1)[number % 3],
        "model": "m-1",
        "seconds": number / 8,
    }
    for number in range(40)
]


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_read_as_their_lines(name: str, tmp_path: Path) -> None:
    rows = records(name)
    pq.write_table(as_texts(rows), tmp_path / "input.parquet", row_group_size=2)
    (tmp_path / "input.jsonl").write_bytes(as_lines(rows).getvalue())
    with warnings.catch_warnings(action="ignore"):
        one, other = (ot.read_traces(tmp_path / f"input.{kind}") for kind in ("parquet", "jsonl"))
    assert len(one)
    same_tables(one, other)


NESTED = pa.Table.from_pylist(ROWS)
AS_TEXT = as_texts(ROWS)
#: A list of JSON texts.
OF_TEXTS = pa.Table.from_pylist([{**row, "messages": list(map(json.dumps, row["messages"]))} for row in ROWS])


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("table", [NESTED, AS_TEXT, OF_TEXTS], ids=["nested", "text", "texts"])
def test_every_codec_and_shape_gives_the_same_tables(table: pa.Table, codec: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, compression=codec, row_group_size=7, use_dictionary=codec != "gzip")
    same_tables(ot.read_traces(path), ot.read_traces(as_lines(ROWS)))


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_arrow_files_are_read_too(codec: str | None, tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, NESTED.schema, options=options) as writer:
        writer.write_table(NESTED, max_chunksize=9)
    same_tables(ot.read_traces(path), ot.read_traces(as_lines(ROWS)))


def test_what_polars_writes_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS).with_columns(pl.col("model").cast(pl.Categorical))
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=11)
    frame.write_ipc(tmp_path / "rows.feather")
    expected = ot.read_traces(as_lines(ROWS))
    for name in ("rows.parquet", "rows.feather"):
        same_tables(ot.read_traces(tmp_path / name), expected)


def test_a_sentinel_is_no_reward(tmp_path: Path) -> None:
    pq.write_table(NESTED, tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    rewards = dict(
        corpus.measures.filter(kind="reward")
        .join(corpus.traces.select("trace", "trace_id"), on="trace")
        .select("trace_id", "value")
        .collect()
        .iter_rows()
    )
    assert rewards == {row["trajectory_id"]: float(row["resolved"]) for row in ROWS if row["resolved"] >= 0}
    unknown = corpus.findings.filter(code="reward.unscored").collect()
    assert unknown.height == sum(row["resolved"] == -1 for row in ROWS)
    assert "'resolved' is -1, expected yes (1, true) or no (0, false)" in unknown["message"][0]


def test_a_row_is_the_line_of_its_number(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(NESTED, path, row_group_size=7)
    corpus = ot.read_traces(path)
    assert corpus.traces.collect()["line"].to_list() == list(range(1, 41))
    source = corpus.source(23, 1)
    assert (source.line, json.loads(source.text)["trajectory_id"]) == (24, "run-23")


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_corpus_on_disk_says_the_same(threads: int, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for part in range(3):
        pq.write_table(NESTED.slice(14 * part, 14), tmp_path / f"data/part-{part}.parquet", row_group_size=5)
    ot.ingest(tmp_path / "data", tmp_path / "corpus", threads=threads)
    there = ot.read_corpus(tmp_path / "corpus")
    same_tables_in_any_order(there, ot.read_traces(as_lines(ROWS)))
    ot.ingest(tmp_path / "data", tmp_path / "corpus", threads=threads)
    assert len(ot.read_corpus(tmp_path / "corpus")) == 40, "what was read is not read again"


def same_tables_in_any_order(one: ot.Corpus, other: ot.Corpus) -> None:
    def credits(corpus: ot.Corpus) -> pl.DataFrame:
        table = ot.credit(corpus, method="grpo", unit="turn").join(
            corpus.traces.select("trace", "trace_id").collect(), on="trace"
        )
        return table.select("trace_id", "unit_id", "credit", "reason").sort("trace_id", "unit_id")

    assert_frame_equal(credits(one), credits(other), categorical_as_str=True)


def damaged(path: Path, group: int) -> None:
    """Overwrite the first page of messages of a row group."""
    column = pq.ParquetFile(path).metadata.row_group(group).column(2)
    start = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 60] = b"\xff" * 60
    path.write_bytes(data)


def test_a_damaged_page_costs_its_row_group(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(NESTED, path, row_group_size=10)
    damaged(path, 1)
    corpus = ot.read_traces(path)
    assert corpus.records == {"read": 31, "used": 30, "ignored": 0, "duplicate": 0, "quarantined": 1}
    lines = corpus.traces.collect()["line"].to_list()
    assert lines == [*range(1, 11), *range(21, 41)], "what is behind the damage keeps its place"
    (row,) = corpus.quarantine.collect().iter_rows(named=True)
    assert (row["code"], row["line"]) == ("rows.damaged", 11)
    assert row["message"].startswith("row group 2 of 4: the rows after the first 0 cannot be decoded")
    again = io.BytesIO()
    assert corpus.write_quarantined(again) == 1 and again.getvalue() == b"\n", "nothing of it is there"


def test_the_first_row_group_may_be_the_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(NESTED, path, row_group_size=10)
    damaged(path, 0)
    corpus = ot.read_traces(path)
    assert (len(corpus), corpus.records["quarantined"]) == (30, 1)


def test_a_text_that_is_none_costs_its_row(tmp_path: Path) -> None:
    """Parquet says that a column is text; nobody makes sure when it is written."""
    bad = pa.array([row["trajectory_id"].encode() if n != 5 else b"\xff\xfe" for n, row in enumerate(ROWS)])
    names = pa.StringArray.from_buffers(len(bad), bad.buffers()[1], bad.buffers()[2])
    pq.write_table(NESTED.set_column(1, "trajectory_id", names), tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    assert (len(corpus), corpus.records["quarantined"]) == (39, 1)
    assert corpus.quarantine.collect()["line"].to_list() == [6]


def cut_files() -> Iterator[tuple[str, bytes]]:
    sink = io.BytesIO()
    pq.write_table(NESTED, sink)
    whole = sink.getvalue()
    yield "no footer", whole[:-9]
    yield "half", whole[: len(whole) // 2]
    yield "a footer of another length", whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:]
    yield "nothing but magic", b"PAR1\x00\xff\x00PAR1"


@pytest.mark.parametrize(("what", "data"), list(cut_files()))
def test_a_file_without_a_footer_is_one_row_of_quarantine(what: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(data)
    with pytest.warns(UserWarning, match="nothing could be used of 1 record"):
        corpus = ot.read_traces(tmp_path / "rows.parquet")
    (row,) = corpus.quarantine.collect().iter_rows(named=True)
    assert row["code"] == "rows.damaged", what
    assert row["message"].startswith("found no Parquet file that can be opened")


def test_a_table_that_nobody_knows_is_one_row_of_quarantine(tmp_path: Path) -> None:
    pq.write_table(pa.table({"price": range(1000), "shop": ["a"] * 1000}), tmp_path / "sales.parquet")
    with pytest.warns(UserWarning, match="nothing could be used"):
        corpus = ot.read_traces(tmp_path / "sales.parquet")
    (row,) = corpus.quarantine.collect().iter_rows(named=True)
    assert row["code"] == "format.unknown"
    assert row["message"].startswith(
        "found rows with the columns price, shop, expected those of a known format"
    )


def test_a_mapping_reads_any_columns(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"run": ["a", "b"], "said": ["x", "y"], "paid": [1.0, 0.5]}), tmp_path / "own.parquet"
    )
    mapping = {
        "name": "own",
        "trace": {"id": "/run", "reward": "/paid"},
        "step": {"kind": "=response", "agent": "=policy", "content": "/said"},
    }
    corpus = ot.read_traces(tmp_path / "own.parquet", mapping=mapping)
    assert corpus.traces.collect()["trace_id"].to_list() == ["a", "b"]
    assert corpus.measures.filter(kind="reward").collect()["value"].to_list() == [1.0, 0.5]


def test_rare_types_of_numbers_are_numbers(tmp_path: Path) -> None:
    columns = {
        "half": pa.array([1.5] * 40, pa.float16()),
        "price": pa.array([2] * 40, pa.decimal256(60, 2)),
        "cents": pa.array([3] * 40, pa.decimal128(9, 1)),
    }
    table = NESTED
    for name, column in columns.items():
        table = table.append_column(name, column)
    pq.write_table(table, tmp_path / "rows.parquet")
    measures = ot.read_traces(tmp_path / "rows.parquet").measures.filter(trace=0, kind="metric").collect()
    values = dict(measures.select(pl.col("name").cast(pl.String), "value").iter_rows())
    assert values == {"seconds": 0.0, "half": 1.5, "price": 2.0, "cents": 3.0}


def test_empty_files_and_columns_of_nothing(tmp_path: Path) -> None:
    pq.write_table(NESTED.slice(0, 0), tmp_path / "empty.parquet")
    with pytest.warns(UserWarning, match="the input has no record"):
        assert len(ot.read_traces(tmp_path / "empty.parquet")) == 0
    nothing = [{**row, "messages": None} for row in ROWS[:3]] + ROWS[3:5]
    pq.write_table(pa.Table.from_pylist(nothing), tmp_path / "some.parquet")
    corpus = ot.read_traces(tmp_path / "some.parquet")
    assert (len(corpus), corpus.records["quarantined"]) == (2, 3)
    assert corpus.quarantine.collect()["code"].unique().to_list() == ["field.missing"]


def test_rejected_rows_come_back_as_lines(tmp_path: Path) -> None:
    rows = [ROWS[0], {**ROWS[1], "messages": None}, ROWS[2]]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    assert corpus.write_quarantined(tmp_path / "rejects.jsonl") == 1
    assert json.loads((tmp_path / "rejects.jsonl").read_text())["trajectory_id"] == "run-1"


def test_a_stream_of_parquet_is_refused_by_name() -> None:
    sink = io.BytesIO()
    pq.write_table(NESTED, sink)
    sink.seek(0)
    with pytest.warns(UserWarning, match="found a Parquet file"):
        corpus = ot.read_traces(sink)
    assert "name the file itself" in corpus.quarantine.collect()["message"][0]


def test_texts_that_repeat_are_no_bomb_without_end(tmp_path: Path) -> None:
    """A dictionary holds a text once, however many rows have it."""
    long = [{"role": "user", "content": "x" * 200_000}, {"role": "assistant", "content": "y"}]
    rows = pa.table({"id": pa.array(range(400)), "messages": pa.array([json.dumps(long)] * 400)})
    pq.write_table(rows, tmp_path / "bomb.parquet", compression="zstd")
    corpus = ot.read_traces(tmp_path / "bomb.parquet")
    assert corpus.quarantine.collect()["code"].to_list() == ["input.expansion"]
    assert len(ot.read_traces(tmp_path / "bomb.parquet", max_expansion=10**9)) == 400


def test_a_reward_that_does_not_apply_is_no_outcome(tmp_path: Path) -> None:
    """A column that is null in a row is another fact than a table without that column."""
    table = pa.table(
        {
            "step": [1, 1, 1],
            "prompt": ["q", "q", "q"],
            "completion": ['{"a": 1}', '{"a":1}', "r"],
            "advantage": [0.0, 0.0, 0.0],
            "correct": [1.0, 1.0, None],
            "brevity": [0.5, None, -3.0],
        }
    )
    pq.write_table(table, tmp_path / "completions.parquet")
    corpus = ot.read_traces(tmp_path / "completions.parquet")
    assert "team" not in corpus.reward_channels()
    assert corpus.findings.filter(code="reward.unscored").collect().height == 2
    answers = corpus.events.filter(pl.col("agent").cast(pl.String) == "policy").collect()["content_ref"]
    assert answers.n_unique() == 3, "answers that differ in a space are two texts"


def test_a_dictionary_without_values_is_a_column_of_nothing(tmp_path: Path) -> None:
    nothing = pa.array([None] * len(ROWS), pa.string()).dictionary_encode()
    pq.write_table(NESTED.append_column("kind", nothing), tmp_path / "rows.parquet")
    assert len(ot.read_traces(tmp_path / "rows.parquet")) == len(ROWS)


def test_calls_without_words_may_come_first(tmp_path: Path) -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    silent = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "content": "r"}]
    rows = [{"id": f"r{number}", "messages": silent} for number in range(30)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    assert len(ot.read_traces(tmp_path / "rows.parquet")) == 30


def test_a_column_of_another_world_costs_itself(tmp_path: Path) -> None:
    pause = pa.array([pa.MonthDayNano([1, 2, 3])] * len(ROWS), pa.month_day_nano_interval())
    table = NESTED.append_column("pause", pause)
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=9)
    corpus = ot.read_traces(tmp_path / "rows.arrow")
    (row,) = corpus.quarantine.collect().iter_rows(named=True)
    assert (row["code"], row["line"]) == ("rows.damaged", len(ROWS) + 1)
    assert row["message"].endswith("which are left out: 'pause' (Interval(MonthDayNano))")
    lines = io.BytesIO(as_lines(ROWS).getvalue() + b"?\n")
    same_tables(corpus, ot.read_traces(lines))


def test_rows_without_messages_may_come_first(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "messages": None}] * 30 + ROWS
    pq.write_table(pa.Table.from_pylist(rows, schema=NESTED.schema), tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    assert corpus.records == {"read": 70, "used": 40, "ignored": 0, "duplicate": 0, "quarantined": 30}


def test_outcomes_of_two_scales_do_not_meet(tmp_path: Path) -> None:
    """A run without a score of a judge is not one whose score is 1."""
    rows = [{**row, "reward": 40.0 + number if number % 2 else None} for number, row in enumerate(ROWS)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    corpus = ot.read_traces(tmp_path / "rows.parquet")
    rewards = corpus.measures.filter(kind="reward").collect()
    assert rewards["value"].to_list() == [40.0 + number for number in range(1, 40, 2)]
    metrics = corpus.measures.filter(pl.col("name").cast(pl.String) == "resolved", kind="metric").collect()
    assert metrics["value"].to_list() == [float(row["resolved"]) for row in ROWS]
    assert corpus.findings.filter(code="reward.unscored").collect().height == 20
