"""Random documents against plain Python: the tables, the way back, and every verdict."""

import io
import json
from typing import Any

from hypothesis import example, given, strategies as st

import orchestrace as ot
from reference import tables as expected
from reference.trace import Trace
from reference.validator import (
    EDGE_TYPES,
    EVENT_TYPES,
    NUMERIC_EXTENSIONS,
    TOPOLOGIES,
    TRACE_KEYS,
    Number,
    judge,
)
from samples.examples import examples
from samples.inputs import assert_identity, assert_tables, reconcile, rows
from samples.verdict_cases import BASE, text

QUICK = examples(80)

words = st.text(max_size=12)
filled = st.text(min_size=1, max_size=12)
names = st.sampled_from(["lead", "worker", "wörker 2", "tool/x", "user", "a" * 30]) | filled
exact = st.integers(-(2**53), 2**53)
finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = exact | finite | st.integers(-(10**30), 10**30)
times = st.integers(0, 50) | st.floats(0, 1e300, allow_nan=False) | st.integers(0, 10**20)
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=8,
)
READ = {*expected.SCHEMA_FIELDS, *expected.EXTENSIONS}
unknown_keys = st.text(max_size=10).filter(lambda key: key not in READ and key != "x_trace")


def right(name: str) -> st.SearchStrategy[Any]:
    """Values of an extension field's own type."""
    if name in expected.TEXTS:
        return words
    if name in expected.FLAGS:
        return st.booleans()
    if name == "p_actions":
        return st.lists(st.floats(0, 1) | st.integers(0, 2**60), max_size=4)
    if name in expected.COUNTS:
        whole = st.integers(0, expected.COUNTS[name])
        return whole | st.integers(0, 10**6).map(float)
    return numbers if name != "duration_s" else times


def wrong(name: str) -> st.SearchStrategy[Any]:
    """Values of any type; lists of numbers only where no rule on rounding them is needed."""
    return st.none() | words | st.lists(words, min_size=1, max_size=2) if name == "p_actions" else values


extensions = st.lists(st.sampled_from(expected.EXTENSIONS), max_size=5, unique=True).flatmap(
    lambda listed: st.fixed_dictionaries({name: right(name) | wrong(name) for name in listed})
)
optional_fields = st.fixed_dictionaries(
    {},
    optional={
        "role": words,
        "from": names,
        "to": names,
        "tool": names,
        "content_ref": words,
        "trusted": st.booleans(),
    },
)


@st.composite
def documents(draw: st.DrawFn, trace_id: str = "t") -> dict[str, Any]:
    """A valid trace, keys in any order."""
    ids = draw(st.lists(filled, min_size=1, max_size=6, unique=True))
    events = []
    for event_id in ids:
        event = {
            "id": event_id,
            "t": draw(times),
            "type": draw(st.sampled_from(sorted(EVENT_TYPES))),
            "agent": draw(names),
            **draw(optional_fields),
            **draw(extensions),
            **draw(st.dictionaries(unknown_keys, values, max_size=3)),
        }
        events.append({key: event[key] for key in draw(st.permutations(list(event)))})
    end = st.sampled_from(ids)
    edge = st.fixed_dictionaries({"src": end, "dst": end, "type": st.sampled_from(sorted(EDGE_TYPES))})
    nonnegative = st.integers(0, 10**6) | st.floats(0, 1e300)
    document = {
        "trace_id": trace_id,
        "task_id": draw(filled),
        "events": events,
        "edges": draw(st.lists(edge, max_size=8)),
        "rewards": draw(st.dictionaries(words, numbers, max_size=3)),
        "costs": draw(st.dictionaries(words, nonnegative, max_size=3))
        | {"tokens": draw(nonnegative), "wall_clock_s": draw(nonnegative)},
    }
    if draw(st.booleans()):
        document |= {"system": draw(words), "topology": draw(st.sampled_from(sorted(TOPOLOGIES)))}
    if draw(st.booleans()):
        document |= {"metrics": draw(st.dictionaries(words, numbers, max_size=3))}
    return {key: document[key] for key in draw(st.permutations(list(document)))}


@st.composite
def spelled(draw: st.DrawFn, document: dict[str, Any]) -> bytes:
    """One of the ways to write a document on one line."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r")]))
    line = json.dumps(document, ensure_ascii=draw(st.booleans()), separators=separators)
    return line.encode()


@st.composite
def corpora(draw: st.DrawFn) -> list[bytes]:
    count = draw(st.integers(1, 4))
    return [draw(spelled(draw(documents(f"t{n}")))) for n in range(count)]


def read(data: bytes, **options: Any) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(data), format="native", **options)


# --- valid documents --------------------------------------------------------------------------------


@QUICK
@given(corpora())
def test_tables_are_those_of_plain_python(lines: list[bytes]) -> None:
    assert [judge(line) for line in lines] == [[]] * len(lines)
    corpus = read(b"\n".join(lines))
    parsed = [expected.parse(line) for line in lines]
    assert rows(corpus.quarantine) == []
    assert_tables(corpus, parsed)
    assert_identity(corpus, lines)

    found: dict[int, dict[str, dict[str, Any]]] = {n: {} for n in range(len(lines))}
    for row in rows(corpus.findings):
        found[row["trace"]][row["code"]] = row
    for n, document in enumerate(parsed):
        wanted = expected.findings(document)
        if Trace(document).unknown:
            wanted.note("outcome.ambiguous", None)
        assert found[n].keys() == wanted.keys()
        for code, (count, seq) in wanted.items():
            if code in ("field.ignored", "number.rounded"):
                assert (found[n][code]["count"], found[n][code]["seq"]) == (count, seq), code
            elif code == "time.reversed":
                assert found[n][code]["count"] == count


@QUICK
@given(corpora())
def test_writing_and_reading_settles(lines: list[bytes]) -> None:
    first = io.BytesIO()
    read(b"\n".join(lines)).write_jsonl(first)
    assert [judge(line) for line in first.getvalue().split(b"\n")[:-1]] == [[]] * len(lines)
    second = io.BytesIO()
    read(first.getvalue()).write_jsonl(second)
    assert second.getvalue() == first.getvalue()


# --- any bytes ----------------------------------------------------------------------------------------

good_line = text(BASE)
LAST = BASE | {"system": "the last"}


@QUICK
@given(
    st.lists(st.binary(max_size=60) | st.sampled_from([good_line, b"{}", b"[", b"{", b'"']), max_size=6),
    st.booleans(),
)
@example([b"\x1f\x8b", b""], False)
@example([b"\x28\xb5\x2f\xfd", b"x"], False)
@example([b"[", b"{}", b"]"], False)
@example([b"\xef\xbb\xbf[]", b"\x00"], False)
@example([b"\xff\xfe[\x00]\x00"], False)
def test_no_bytes_raise_and_no_record_is_lost(lines: list[bytes], led: bool) -> None:
    data = b"\n".join(([good_line] if led else []) + lines)
    corpus = read(data)
    reconcile(corpus)
    if led:
        # After a valid first line the file is one of lines: each that is not blank is a record.
        again = [n for n, line in enumerate(data.split(b"\n"), start=1) if line == good_line][1:]
        wanted = [n for n, line in enumerate(data.split(b"\n"), start=1) if line.strip(b" \t\r")]
        wanted = [n for n in wanted if n not in again]
        places = corpus.traces.collect()["line"].to_list() + corpus.quarantine.collect()["line"].to_list()
        assert sorted(places) == wanted
        spans = corpus.quarantine.select("offset", "length").collect().rows()
        lines_of = {at: line for at, line in zip(offsets(data), data.split(b"\n"), strict=True)}
        for offset, length in spans:
            assert data[offset : offset + length].strip() in lines_of[line_start(data, offset)]


def offsets(data: bytes) -> list[int]:
    """Where each line begins."""
    return [0] + [at + 1 for at, byte in enumerate(data) if byte == 0x0A]


def line_start(data: bytes, offset: int) -> int:
    return data.rfind(b"\n", 0, offset) + 1


@QUICK
@given(st.binary(max_size=200))
def test_no_bytes_raise_when_the_format_is_detected(data: bytes) -> None:
    try:
        corpus = ot.read_traces(io.BytesIO(data))
    except ot.OrchestraceError:
        return  # nothing in it tells the format
    reconcile(corpus)


# --- one byte wrong -------------------------------------------------------------------------------------

tempting = st.sampled_from(list(b'"\\{}[],:0123456789-+.eEtfnulNI/ \t\rx')) | st.integers(0, 255)


@st.composite
def mutated(draw: st.DrawFn, line: bytes) -> bytes:
    """One byte replaced, added or dropped; never by a line feed, which would make two records."""
    at = draw(st.integers(0, len(line) - 1))
    byte = bytes([draw(tempting.filter(lambda byte: byte != 0x0A))])
    kind = draw(st.sampled_from(["replace", "insert", "drop", "double"]))
    if kind == "replace":
        return line[:at] + byte + line[at + 1 :]
    if kind == "insert":
        return line[:at] + byte + line[at:]
    if kind == "drop":
        return line[:at] + line[at + 1 :]
    return line[:at] + line[at : at + 1] + line[at:]


@st.composite
def mutants(draw: st.DrawFn) -> list[bytes]:
    line = draw(
        st.sampled_from([good_line, json.dumps(BASE, separators=(",", ":")).encode()])
        | documents().flatmap(spelled)
    )
    return draw(st.lists(mutated(line), min_size=1, max_size=25))


def is_judged(line: bytes) -> bool:
    """Whether the rules say what becomes of the line: not of `x_trace`, nor of 1e400 in a text field."""
    if b"x_trace" in line:
        return False
    try:
        document = json.loads(line, parse_float=Number, parse_int=Number)
    except (ValueError, RecursionError):
        # A whole record in a broken line is used: tests/corpus/test_torn_lines.py.
        return not any(map(is_whole, (line[1:], line[:-1])))
    events = document.get("events", []) if isinstance(document, dict) else []
    others = set(expected.EXTENSIONS) - NUMERIC_EXTENSIONS
    values = [
        event.get(name)
        for event in (events if isinstance(events, list) else [])
        if isinstance(event, dict)
        for name in others
    ]
    return not any(map(has_overflow, values))


def is_whole(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def has_overflow(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_overflow, value.values()))
    if isinstance(value, list):
        return any(map(has_overflow, value))
    return isinstance(value, Number) and value.value() is None


@QUICK
@given(mutants())
def test_one_wrong_byte_gets_the_verdict_of_the_reference(lines: list[bytes]) -> None:
    lines = [line for line in lines if is_judged(line)]
    lines = list(dict.fromkeys(line for line in lines if line != good_line))  # a copy is no second trace
    corpus = read(b"\n".join([good_line, *lines, text(LAST), b""]))
    reconcile(corpus)
    faults = {n: judge(line) for n, line in enumerate(lines, start=2)}
    found = {row["line"]: row for row in rows(corpus.quarantine)}
    for n, known in faults.items():
        assert (n in found) == bool(known), (lines[n - 2], known, found.get(n))
        if n in found:
            row = found[n]
            # Text that goes wrong may be called by whatever a reader notices first.
            told = not known[0].code.startswith(("json.", "utf8.", "number."))
            assert not told or any(fault.code == row["code"] for fault in known), (lines[n - 2], known, row)
    accepted = [line for n, line in enumerate(lines, start=2) if not faults[n]]
    parsed = [expected.parse(line) for line in accepted]
    assert_tables(corpus, [BASE, *parsed, LAST])


def test_the_strategies_know_the_schema() -> None:
    assert {"trace_id", "task_id", "events", "edges", "rewards", "costs"} < TRACE_KEYS
    columns = list(read(good_line).events.collect_schema())
    assert sorted(columns) == sorted(expected.EVENT_COLUMNS)
