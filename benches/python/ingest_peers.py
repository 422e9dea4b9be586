"""Ways from trace JSONL to three tables in memory, the edge ends resolved to rows of events.

Every peer ends with tables `traces`, `events`, `edges` and refuses an edge whose end is no event. The frame
engines are given the columns and their types: their best case, in which they lose every key that is not
named. Libraries are imported inside the peers, so that a process that runs one peer has loaded no other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The native fields and the extension fields of an event, as the table `events` has them.
TEXT = (
    *("id", "type", "agent", "role", "from", "to", "tool", "content_ref", "model", "action", "state_key"),
    *("prefix_key", "subtask_id", "content_hash", "args_hash", "harness_hash", "sandbox_id", "group_id"),
)
NUMBERS = ("t", "duration_s", "t_end", "cost_usd", "score", "reward", "draft_score", "value", "p_behavior")
INTEGERS = ("tokens_in", "tokens_out", "tokens", "turn")
FLAGS = ("trusted", "ok", "corrupted", "sanitizer", "privileged")
LIST = "p_actions"
FIELDS = (*TEXT, *NUMBERS, *INTEGERS, *FLAGS, LIST)

TRACE = ("trace_id", "task_id", "system", "topology")
MEASURES = {
    "rewards": ("team", "tool", "process", "orchestration"),
    "costs": ("tokens", "wall_clock_s", "tool_calls", "messages", "usd"),
    "metrics": ("task_success", "protocol_overhead", "error_amplification", "train_step"),
}
EDGE = ("src", "dst", "type")


@dataclass(frozen=True)
class Tables:
    """The three tables, and what must be equal whoever made them."""

    tables: tuple[Any, Any, Any]
    rows: tuple[int, int, int]
    sum_t: float
    reach: int
    """Sum of destination row minus source row over all edges."""


@dataclass(frozen=True)
class Peer:
    """A way to the tables."""

    name: str
    modules: tuple[str, ...]
    read: Callable[[Path, int | None], Tables]


class DanglingEdgeError(Exception):
    """An edge names an event that its trace does not have."""


def _orchestrace(path: Path, threads: int | None) -> Tables:
    import polars as pl

    import orchestrace as ot

    corpus = ot.read_traces(path, threads=threads)
    if corpus.records["quarantined"]:
        raise DanglingEdgeError(corpus.quarantine.collect())
    traces, events, edges = corpus.traces.collect(), corpus.events.collect(), corpus.edges.collect()
    reach = edges["dst"].cast(pl.Int64).sum() - edges["src"].cast(pl.Int64).sum()
    rows = (traces.height, events.height, edges.height)
    return Tables((traces, events, edges), rows, events["t"].sum(), reach)


def _polars_schema() -> Any:
    import polars as pl

    event = {
        **dict.fromkeys(TEXT, pl.String),
        **dict.fromkeys(NUMBERS, pl.Float64),
        **dict.fromkeys(INTEGERS, pl.Int64),
        **dict.fromkeys(FLAGS, pl.Boolean),
        LIST: pl.List(pl.Float64),
    }
    return {
        **dict.fromkeys(TRACE, pl.String),
        "events": pl.List(pl.Struct(event)),
        "edges": pl.List(pl.Struct(dict.fromkeys(EDGE, pl.String))),
        **{name: pl.Struct(dict.fromkeys(keys, pl.Float64)) for name, keys in MEASURES.items()},
    }


def _polars_tables(documents: Any, engine: str) -> Tables:
    import polars as pl

    documents = documents.with_row_index("trace")
    events = documents.select("trace", "events").explode("events").unnest("events").with_row_index("row")
    edges = documents.select("trace", "edges").explode("edges").unnest("edges")
    for end in ("src", "dst"):
        rows = events.select("trace", pl.col("id").alias(end), pl.col("row").alias(f"{end}_row"))
        edges = edges.join(rows, on=["trace", end], how="left")
    plans = [documents.drop("events", "edges"), events, edges]
    traces, events, edges = pl.collect_all(plans, engine=engine)
    if edges["src_row"].null_count() or edges["dst_row"].null_count():
        raise DanglingEdgeError
    reach = edges["dst_row"].cast(pl.Int64).sum() - edges["src_row"].cast(pl.Int64).sum()
    rows = (traces.height, events.height, edges.height)
    return Tables((traces, events, edges), rows, events["t"].sum(), reach)


def _polars(path: Path, threads: int | None) -> Tables:
    import polars as pl

    return _polars_tables(pl.read_ndjson(path, schema=_polars_schema()).lazy(), "in-memory")


def _polars_streaming(path: Path, threads: int | None) -> Tables:
    import polars as pl

    return _polars_tables(pl.scan_ndjson(path, schema=_polars_schema()), "streaming")


def _arrow_event() -> list[tuple[str, Any]]:
    import pyarrow as pa

    return [
        *((name, pa.string()) for name in TEXT),
        *((name, pa.float64()) for name in NUMBERS),
        *((name, pa.int64()) for name in INTEGERS),
        *((name, pa.bool_()) for name in FLAGS),
        (LIST, pa.list_(pa.float64())),
    ]


def _pyarrow(path: Path, threads: int | None) -> Tables:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import json

    if threads:
        pa.set_cpu_count(threads)
    string = pa.string()
    schema = pa.schema(
        [
            *((name, string) for name in TRACE),
            ("events", pa.list_(pa.struct(_arrow_event()))),
            ("edges", pa.list_(pa.struct([(name, string) for name in EDGE]))),
            *((m, pa.struct([(key, pa.float64()) for key in keys])) for m, keys in MEASURES.items()),
        ]
    )
    documents = json.read_json(
        path,
        read_options=json.ReadOptions(use_threads=threads != 1, block_size=16 << 20),
        parse_options=json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )

    def exploded(name: str) -> Any:
        lists = documents[name].combine_chunks()
        structs = pc.list_flatten(lists)
        columns = dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))
        return pa.table({"trace": pc.list_parent_indices(lists), **columns})

    events, edges = exploded("events"), exploded("edges")
    numbers = pa.array(np.arange(events.num_rows))
    for end in ("src", "dst"):
        rows = pa.table({"trace": events["trace"], end: events["id"], f"{end}_row": numbers})
        edges = edges.join(rows, keys=["trace", end], join_type="left outer")
        if edges[f"{end}_row"].null_count:
            raise DanglingEdgeError
    traces = documents.drop_columns(["events", "edges"])
    reach = pc.sum(edges["dst_row"]).as_py() - pc.sum(edges["src_row"]).as_py()
    rows = (traces.num_rows, events.num_rows, edges.num_rows)
    return Tables((traces, events, edges), rows, pc.sum(events["t"]).as_py(), reach)


def _duckdb(path: Path, threads: int | None) -> Tables:
    import duckdb

    def struct(types: dict[str, str]) -> str:
        return "STRUCT(" + ", ".join(f'"{name}" {kind}' for name, kind in types.items()) + ")"

    event = {
        **dict.fromkeys(TEXT, "VARCHAR"),
        **dict.fromkeys(NUMBERS, "DOUBLE"),
        **dict.fromkeys(INTEGERS, "BIGINT"),
        **dict.fromkeys(FLAGS, "BOOLEAN"),
        LIST: "DOUBLE[]",
    }
    columns = {
        **dict.fromkeys(TRACE, "VARCHAR"),
        "events": struct(event) + "[]",
        "edges": struct(dict.fromkeys(EDGE, "VARCHAR")) + "[]",
        **{name: struct(dict.fromkeys(keys, "DOUBLE")) for name, keys in MEASURES.items()},
    }
    with duckdb.connect() as db:
        if threads:
            db.execute(f"SET threads = {threads}")
        spelt = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
        db.execute(
            "CREATE TEMP TABLE documents AS SELECT row_number() OVER () - 1 AS trace, * FROM "
            f"read_json('{path}', format = 'newline_delimited', maximum_object_size = 67108864, "
            f"columns = {{{spelt}}})"
        )
        db.execute("CREATE TEMP TABLE traces AS SELECT * EXCLUDE (events, edges) FROM documents")
        for name in ("events", "edges"):
            db.execute(
                f"CREATE TEMP TABLE {name} AS SELECT trace, unnest(item) FROM "
                f"(SELECT trace, unnest({name}) AS item FROM documents)"
            )
        db.execute("DROP TABLE documents")
        db.execute(
            "CREATE TEMP TABLE resolved AS SELECT edges.*, s.rowid AS src_row, d.rowid AS dst_row FROM edges "
            "LEFT JOIN events s ON s.trace = edges.trace AND s.id = edges.src "
            "LEFT JOIN events d ON d.trace = edges.trace AND d.id = edges.dst"
        )
        dangling, reach = db.execute(
            "SELECT count(*) FILTER (src_row IS NULL OR dst_row IS NULL), sum(dst_row - src_row) "
            "FROM resolved"
        ).fetchall()[0]
        if dangling:
            raise DanglingEdgeError
        ((sum_t,),) = db.execute("SELECT sum(t) FROM events").fetchall()
        names = ("traces", "events", "resolved")
        traces, events, edges = (db.sql(f"SELECT * FROM {name}").to_arrow_table() for name in names)
    rows = (traces.num_rows, events.num_rows, edges.num_rows)
    return Tables((traces, events, edges), rows, sum_t, int(reach))


def _orjson(path: Path, threads: int | None) -> Tables:
    import orjson
    import pyarrow as pa

    known = set(FIELDS)
    traces: dict[str, list[Any]] = {name: [] for name in (*TRACE, *MEASURES)}
    events: dict[str, list[Any]] = {name: [] for name in ("trace", "seq", *FIELDS, "extras")}
    edges: dict[str, list[Any]] = {name: [] for name in ("trace", *EDGE)}
    with path.open("rb") as lines:
        for trace, line in enumerate(lines):
            document = orjson.loads(line)
            for name, column in traces.items():
                value = document.get(name)
                column.append(list(value.items()) if isinstance(value, dict) else value)
            rows, ends = document["events"], document["edges"]
            events["trace"].extend([trace] * len(rows))
            events["seq"].extend(range(len(rows)))
            for name in FIELDS:
                events[name].extend([row.get(name) for row in rows])
            events["extras"].extend(
                [
                    orjson.dumps({key: row[key] for key in row.keys() - known}).decode()
                    if row.keys() - known
                    else None
                    for row in rows
                ]
            )
            seq = {row["id"]: number for number, row in enumerate(rows)}
            edges["trace"].extend([trace] * len(ends))
            try:
                edges["src"].extend([seq[end["src"]] for end in ends])
                edges["dst"].extend([seq[end["dst"]] for end in ends])
            except KeyError as error:
                raise DanglingEdgeError from error
            edges["type"].extend([end["type"] for end in ends])
    reach = sum(edges["dst"]) - sum(edges["src"])
    sum_t = float(sum(events["t"]))
    u32, measures = pa.uint32(), pa.map_(pa.string(), pa.float64())
    event_types = {"trace": u32, "seq": u32, **dict(_arrow_event()), "extras": pa.string()}
    edge_types = {"trace": u32, "src": u32, "dst": u32, "type": pa.string()}
    trace_types = {**dict.fromkeys(TRACE, pa.string()), **dict.fromkeys(MEASURES, measures)}
    tables = tuple(
        pa.table({name: pa.array(column, types[name]) for name, column in columns.items()})
        for columns, types in ((traces, trace_types), (events, event_types), (edges, edge_types))
    )
    rows = (tables[0].num_rows, tables[1].num_rows, tables[2].num_rows)
    return Tables((tables[0], tables[1], tables[2]), rows, sum_t, reach)


PEERS = [
    Peer("orchestrace", ("orchestrace",), _orchestrace),
    Peer("pyarrow.json", ("pyarrow.json", "pyarrow.compute", "pyarrow.acero", "numpy"), _pyarrow),
    Peer("DuckDB", ("duckdb", "pyarrow"), _duckdb),
    Peer("Polars", ("polars",), _polars),
    Peer("Polars, streaming", ("polars",), _polars_streaming),
    Peer("orjson + Python", ("orjson", "pyarrow"), _orjson),
]
"""Ours first; all are given the same file."""
