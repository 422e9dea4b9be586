"""Hostile tables: each is taken, and is a corpus like any other, or is refused in one line.

What might end the process is tried in one of its own.
"""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import orchestrace as ot
from contract.verbs import VERBS, answer

Tables = dict[str, Any]


def tables() -> Tables:
    """Two traces of two events, a column of every kind."""
    u32 = pa.uint32()
    return {
        "traces": pa.table({"trace": pa.array([0, 1], u32), "trace_id": ["x", "y"], "task_id": ["k", "k"]}),
        "events": pa.table(
            {
                "trace": pa.array([0, 0, 1, 1], u32),
                "seq": pa.array([0, 1, 0, 1], u32),
                "id": ["a", "b", "a", "b"],
                "t": [0.0, 1.0, 0.0, 1.0],
                "type": ["message", "return", "message", "return"],
                "agent": ["p", "q", "p", "q"],
                "tokens_in": pa.array([3, None, 0, 1], pa.int64()),
                "extras": [None, '{"x_a":1}', None, None],
            }
        ),
        "edges": pa.table(
            {
                "trace": pa.array([0, 1], u32),
                "src": pa.array([0, 0], u32),
                "dst": pa.array([1, 1], u32),
                "type": ["causal", "causal"],
            }
        ),
        "measures": pa.table(
            {
                "trace": pa.array([0, 1], u32),
                "kind": ["reward", "reward"],
                "name": ["team"] * 2,
                "value": [1.0, 0.0],
            }
        ),
        "labels": pa.table(
            {"trace_id": ["x"], "annotator": ["z"], "event_id": ["a"], "label": ["late"], "weight": [0.5]}
        ),
    }


def column(table: str, name: str, values: Any) -> Callable[[], Tables]:
    """The tables with one column replaced, or added."""

    def made() -> Tables:
        given = tables()
        old = given[table]
        array = values() if callable(values) else values
        at = old.schema.get_field_index(name)
        given[table] = old.append_column(name, array) if at < 0 else old.set_column(at, name, array)
        return given

    return made


def bytes_as_text(*values: bytes, large: bool = False) -> Callable[[], pa.Array]:
    """Text of any bytes, which builders would refuse."""

    def made() -> pa.Array:
        kind = pa.large_binary() if large else pa.binary()
        raw = pa.array(list(values), kind)
        buffers = raw.buffers()
        text = pa.large_string() if large else pa.string()
        return pa.Array.from_buffers(text, len(raw), buffers)

    return made


def renamed(name: str) -> Callable[[], Tables]:
    return column("events", name, pa.array(["v"] * 4))


def twice(table: str, name: str) -> Callable[[], Tables]:
    def made() -> Tables:
        given = tables()
        given[table] = given[table].append_column(name, given[table].column(name))
        return given

    return made


def run_ends(values: list[Any], ends: list[int]) -> Callable[[], pa.Array]:
    return lambda: pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))


def coded(values: list[Any], keys: list[int | None]) -> Callable[[], pa.Array]:
    return lambda: pa.DictionaryArray.from_arrays(pa.array(keys, pa.int8()), pa.array(values))


NAN, INF = float("nan"), float("inf")
CASES: dict[str, Callable[[], Tables]] = {
    "nothing odd": tables,
    **{f"label weight {w}": column("labels", "weight", pa.array([w])) for w in (NAN, INF, -INF, -1.0, 1e308)},
    **{
        f"t of {t}": column("events", "t", pa.array([0.0, t, 0.0, 1.0]))
        for t in (NAN, INF, -INF, -1.0, 1e308)
    },
    **{
        f"reward of {r}": column("measures", "value", pa.array([r, 0.0]))
        for r in (NAN, INF, -INF, 1e308, 5e-324)
    },
    **{f"cost of {r}": lambda r=r: costs(r) for r in (NAN, INF, -1.0, 1e308)},  # type: ignore[misc]
    "tokens below zero": column("events", "tokens_in", pa.array([-1, 0, 0, 0], pa.int64())),
    "tokens of 2^63 - 1": column("events", "tokens_in", pa.array([2**63 - 1] * 4, pa.int64())),
    "tokens as floats": column("events", "tokens_in", pa.array([1.0, 2.5, NAN, 0.0])),
    "trace numbers as int64": column("events", "trace", pa.array([0, 0, 1, 1], pa.int64())),
    "trace numbers below zero": column("traces", "trace", pa.array([-1, 1], pa.int64())),
    "trace numbers twice": column("traces", "trace", pa.array([1, 1], pa.uint32())),
    "trace numbers backwards": column("traces", "trace", pa.array([1, 0], pa.uint32())),
    "seq with a gap": column("events", "seq", pa.array([0, 7, 0, 1], pa.uint32())),
    "seq with nulls": column("events", "seq", pa.array([0, None, 0, 1], pa.uint32())),
    "an edge to nowhere": column("edges", "dst", pa.array([1, 4_000_000_000], pa.uint32())),
    "an edge of an unknown type": column("edges", "type", pa.array(["causal", "casual"])),
    "an event of an unknown type": column("events", "type", pa.array(["message", "\0", "message", "return"])),
    "an event without an agent": column("events", "agent", pa.array(["p", None, "p", "q"])),
    "an agent of no letters": column("events", "agent", pa.array(["p", "", "p", "q"])),
    "event ids twice": column("events", "id", pa.array(["a", "a", "a", "b"])),
    "a trace id of null": column("traces", "trace_id", pa.array(["x", None])),
    "extras that are no JSON": column("events", "extras", pa.array(["{", None, None, None])),
    "extras that are a list": column("events", "extras", pa.array(["[1]", None, None, None])),
    "extras with a key twice": column("events", "extras", pa.array(['{"a":1,"a":2}', None, None, None])),
    "extras with a known key": column("events", "extras", pa.array(['{"agent":"z"}', None, None, None])),
    "extras 3,000 deep": column(
        "events", "extras", pa.array(['{"a":' * 3000 + "1" + "}" * 3000, None, None, None])
    ),
    "invalid UTF-8 in agent": column("events", "agent", bytes_as_text(b"p", b"\xff\xfe", b"p", b"q")),
    "invalid UTF-8 in agent, large": column(
        "events", "agent", bytes_as_text(b"p", b"\xc3", b"p", b"q", large=True)
    ),
    "invalid UTF-8 in extras": column(
        "events", "extras", bytes_as_text(b'{"a":"\xff"}', b"{}", b"{}", b"{}")
    ),
    "invalid UTF-8 in trace_id": column("traces", "trace_id", bytes_as_text(b"x", b"\xed\xa0\x80")),
    "invalid UTF-8 in a label": column("labels", "label", bytes_as_text(b"\xff")),
    "run ends": column("events", "agent", run_ends(["p", "q"], [2, 4])),
    "run ends of numbers": column("events", "trace", run_ends([0, 1], [2, 4])),
    "a dictionary with a null value": column("events", "agent", coded(["p", None], [0, 1, 0, 0])),
    "a dictionary with null keys": column("events", "agent", coded(["p", "q"], [0, None, 0, 1])),
    "a dictionary with a value twice": column("events", "agent", coded(["p", "p"], [0, 1, 0, 1])),
    "a dictionary of numbers": column("events", "agent", coded([1, 2], [0, 1, 0, 1])),
    "a list": column("events", "agent", pa.array([["p"], [], None, ["q"]])),
    "a struct": column("events", "agent", pa.array([{"a": 1}] * 4)),
    "bytes": column("events", "agent", pa.array([b"p"] * 4)),
    "all null": column("events", "agent", pa.nulls(4)),
    "a lifted list": column("events", "own", pa.array([["p"], [], None, ["q"]])),
    "a lifted decimal": column("events", "own", pa.array([None, None, None, 1], pa.decimal128(38, 0))),
    "a lifted NaN": column("events", "own", pa.array([NAN, INF, None, 0.0])),
    "a column twice": twice("events", "agent"),
    "a column of traces twice": twice("traces", "trace_id"),
    "a lifted column twice": lambda: twice_lifted(),
    **{
        f"a column named {name!r}": renamed(name)
        for name in ("a\0b", "", "extras ", "\u202e", "x" * 70_000, "\x1b")
    },
    "no columns": lambda: {**tables(), "traces": pa.table({})},
    "no rows": lambda: {name: table.slice(0, 0) for name, table in tables().items()},
    "fewer events": lambda: {**tables(), "events": tables()["events"].slice(1)},
    "events of no trace": lambda: {**tables(), "traces": tables()["traces"].slice(1)},
    "many chunks": lambda: {
        **tables(),
        "events": pa.concat_tables([tables()["events"].slice(n, 1) for n in range(4)]),
    },
}


def costs(value: float) -> Tables:
    given = tables()
    row = pa.table(
        {
            "trace": pa.array([0, 1], pa.uint32()),
            "kind": ["cost"] * 2,
            "name": ["wall_clock_s"] * 2,
            "value": [value, 0.0],
        }
    )
    return {**given, "measures": row}


def twice_lifted() -> Tables:
    given = renamed("own")()
    return {**given, "events": given["events"].append_column("own", pa.array([1, 2, 3, 4]))}


def told(name: str) -> str:
    """What becomes of a case, in a line."""
    try:
        corpus = ot.Corpus.from_arrow(**CASES[name]())
    except ot.OrchestraceError as error:
        text = str(error)
        assert isinstance(error, ot.SchemaError), (type(error), text)
        assert text and "\n" not in text and "internal error" not in text, text
        return "refused"
    for verb in ("write_jsonl", "metrics", "describe", "summary", "credit flow event", "export jsonl"):
        answer(VERBS[verb], corpus)
    out = VERBS["write_jsonl"](corpus)
    lines = [json.loads(line, parse_constant=no_number) for line in out.splitlines()]
    again = ot.read_traces(io.BytesIO(out), format="native") if lines else corpus
    assert len(again) == len(corpus) == len(lines) and again.quarantine.collect().is_empty()
    assert VERBS["write_jsonl"](again) == out
    return "taken"


def test_what_is_told_of_rejects_can_be_printed() -> None:
    quarantine = pa.table(
        {
            "file": ["x.jsonl"],
            "line": pa.array([1], pa.uint64()),
            "offset": pa.array([0], pa.uint64()),
            "length": pa.array([9], pa.uint64()),
            "importer": ["native"],
            "code": ["json.syntax"],
            "path": [""],
            "message": ["\x1b[2Jgone\u202e"],
            "excerpt": ["\x00{"],
        }
    )
    corpus = ot.Corpus.from_arrow(**tables(), quarantine=quarantine)
    (row,) = corpus.quarantine.collect().to_dicts()
    assert row["message"].isprintable() and row["excerpt"].isprintable(), row


def no_number(word: str) -> None:
    raise AssertionError(f"{word} in JSON")


def child(names: list[str]) -> dict[str, str]:
    """What becomes of the cases, tried in another process; a case that ends it says so."""
    found: dict[str, str] = {}
    left = list(names)
    while left:
        done = subprocess.run(
            [sys.executable, "-m", "corpus.test_hostile_arrow", json.dumps(left)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        found.update(lines)
        left = left[len(lines) :]
        if left:
            found[left[0]] = f"ended the process ({done.returncode}): {done.stderr[-300:]}"
            left = left[1:]
    return found


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    return child(list(CASES))


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("name", CASES)
def test_a_table_is_taken_or_refused(name: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] in ("taken", "refused"), verdicts[name]


TAKEN = (
    *("nothing odd", "no rows", "many chunks", "tokens of 2^63 - 1", f"t of {1e308}", f"reward of {1e308}"),
    *("reward of 5e-324", "a dictionary with a value twice"),
)
REFUSED = (
    *("label weight nan", "label weight inf", "label weight -inf", "t of nan", "t of inf", "reward of nan"),
    *("cost of nan", "cost of -1.0", "tokens below zero", "trace numbers twice"),
    *("an edge to nowhere", "an edge of an unknown type", "an event of an unknown type", "event ids twice"),
    *(
        "an event without an agent",
        "a trace id of null",
        "extras that are no JSON",
        "extras with a key twice",
    ),
    *("invalid UTF-8 in agent", "invalid UTF-8 in trace_id", "invalid UTF-8 in extras", "a column twice"),
    *("a lifted column twice", "a column named 'a\\x00b'", "no columns", "events of no trace"),
)


@pytest.mark.parametrize(
    ("name", "verdict"), [*((n, "taken") for n in TAKEN), *((n, "refused") for n in REFUSED)]
)
def test_verdicts(name: str, verdict: str, verdicts: dict[str, str]) -> None:
    assert verdicts[name] == verdict


def test_polars_frames_are_judged_alike() -> None:
    given = {name: pl.from_arrow(table) for name, table in tables().items()}
    assert len(ot.Corpus.from_arrow(**given)) == 2
    events = given["events"]
    assert isinstance(events, pl.DataFrame)
    with pytest.raises(ot.SchemaError):
        ot.Corpus.from_arrow(**{**given, "events": events.with_columns(agent=pl.lit(None, pl.String))})


if __name__ == "__main__":
    sys.setrecursionlimit(20_000)  # what is nested deep is looked at here with the standard library
    for case in json.loads(sys.argv[1]):
        try:
            verdict = told(case)
        except Exception as error:
            verdict = f"{type(error).__name__}: {error}"
        except BaseException as error:  # a panic
            verdict = f"{type(error).__name__}: {error}"
        print(json.dumps([case, verdict]), flush=True)
