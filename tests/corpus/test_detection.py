"""Formats and framing where the beginning of an input is odd: long first texts, odd first lines."""

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import trace_ids, zst

ROOT = Path(__file__).resolve().parents[2] / "data" / "importers"

#: 1.05 MB: what tells a format comes after the first mebibyte.
LONG = "word " * 210_000

#: Formats whose golden is lines, each a record that does not need its place.
LINES = sorted(path.parent.name for path in ROOT.glob("*/input.jsonl") if path.parent.name != "mapping")

#: A first line that is no record of the format.
ODD = [
    "[]",
    "[1]",
    '[{"a":1}]',
    "[",
    '[{"a":1},',
    "{}",
    "null",
    "3",
    '"x"',
    '{"a":',
    "noise",
    "n" * 1_100_000,
    '{"question":"q","history":[],"mistake_agent":"x"}',
]


def _lines(name: str) -> list[str]:
    return (ROOT / name / "input.jsonl").read_text().splitlines()


def _read(lines: list[str], **options: Any) -> ot.Corpus:
    data = "".join(f"{line}\n" for line in lines).encode()
    return ot.read_traces(io.BytesIO(data), threads=1, **options)


def _good(name: str) -> list[str]:
    """The lines that tell the format by themselves; a dozen of them at most."""
    alone = [line for line in _lines(name) if _importers(_read([line])) == {name}]
    return alone[:12]


def _importers(corpus: ot.Corpus) -> set[str]:
    return set(corpus.traces.collect()["importer"].to_list())


def _shape(corpus: ot.Corpus) -> tuple[int, int, int, set[str]]:
    events = corpus.events.select(pl.len()).collect().item()
    edges = corpus.edges.select(pl.len()).collect().item()
    return len(trace_ids(corpus)), events, edges, _importers(corpus)


def _check_odd(name: str, odd: str) -> None:
    good = _good(name) * (1 if name in UNREPEATED else 2)
    plain, after = _read(good), _read([odd, *good])
    if len(good) < 2 and odd.startswith('{"question"'):
        return  # one record against one: either may be the odd one
    assert _shape(after) == _shape(plain), f"{name} after {odd[:20]!r}"
    assert after.records["read"] == plain.records["read"] + 1, "the odd line is counted"


#: Formats whose records name lines or repeat; a second copy says something else.
UNREPEATED = {"verl", "trl", "rllm", "native", "who_and_when"}


@pytest.mark.parametrize("name", ["native", "otel", "verl"])
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:12])
def test_an_odd_first_line_costs_itself_alone(name: str, odd: str) -> None:
    _check_odd(name, odd)


@pytest.mark.nightly
@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd[:12])
def test_any_odd_first_line_costs_itself_alone(name: str, odd: str) -> None:
    _check_odd(name, odd)


def _texts(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of the strings of a record, in its order."""
    if isinstance(value, str):
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inside in items for place in _texts(inside, (*path, key))]


def _with(record: Any, path: tuple[Any, ...], text: str) -> Any:
    copy = json.loads(json.dumps(record))
    inside = copy
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = text
    return copy


def _check_long(name: str, path: tuple[Any, ...]) -> None:
    """Detection finds the format that `format=` names, and so the same traces."""
    lines = _good(name)
    longer = [json.dumps(_with(json.loads(lines[0]), path, LONG)), *lines[1:]]
    told, named = _read(longer), _read(longer, format=name)
    assert _shape(told) == _shape(named), f"{name}: a long text at {path}"
    assert told.records == named.records


LATE = [
    ("verl", ("input",)),
    ("verl", ("output",)),
    ("trl", ("prompt",)),
    ("trl", ("completion",)),
    ("who_and_when", ("question",)),
    ("rllm", ("task", "question")),
]


@pytest.mark.parametrize(("name", "path"), LATE)
def test_a_long_first_text_hides_no_format(name: str, path: tuple[str, ...]) -> None:
    lines = _good(name)
    record = _with(json.loads(lines[0]), path, LONG)
    assert len(trace_ids(_read([json.dumps(record), *lines[1:]]))) == len(trace_ids(_read(lines)))
    _check_long(name, path)


#: Strings that say what a record is: another text there is another format, or none.
TELLING = {"type", "object", "kind", "id", "schema_version", "sessionId", "uuid", "timestamp", "as_type"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", LINES)
def test_a_long_text_anywhere_hides_no_format(name: str) -> None:
    record = json.loads(_good(name)[0])
    for path in _texts(record)[:40]:
        if path[-1] not in TELLING:
            _check_long(name, path)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("times", [1, 2, 6], ids=["small", "two", "ranges"])
def test_a_late_format_is_the_same_however_it_is_read(tmp_path: Path, times: int, threads: int) -> None:
    """From a file in one block, in ranges (beyond 4 MiB), compressed, and from a stream."""
    lines = _good("verl")
    longer = [json.dumps(_with(json.loads(line), ("input",), LONG)) for line in (lines * 6)[:times]] + lines
    data = "".join(f"{line}\n" for line in longer).encode()
    plain, packed = tmp_path / "runs.jsonl", tmp_path / "runs.jsonl.zst"
    plain.write_bytes(data)
    packed.write_bytes(zst(data))
    expected = _shape(_read(longer))
    assert expected[3] == {"verl"}
    assert _shape(ot.read_traces(plain, threads=threads)) == expected
    assert _shape(ot.read_traces(packed, threads=threads)) == expected


def test_detection_reads_no_further_than_a_record_may_go() -> None:
    lines = _good("verl")
    longer = [json.dumps(_with(json.loads(lines[0]), ("input",), LONG * 2)), *lines[1:]]
    # 2.1 MB of text, and records of up to 1.5 MB: what comes after it is not looked at.
    assert _importers(_read(longer, max_record=1_500_000)) == set()
    assert _importers(_read(longer, max_record=3_000_000)) == {"verl"}


@pytest.mark.parametrize(
    "text",
    [
        "[\n{0},\n{1}\n]",
        "[{0},\n{1}]",
        "[{0}, {1}]\n",
        "[\n{0}\n,\n{1}\n]\n",
        "[\n\n  {0},\n\n  {1}\n]",
    ],
)
def test_an_array_over_lines_is_an_array(text: str) -> None:
    first, second = _good("native")[:2]
    whole = text.replace("{0}", first).replace("{1}", second)
    corpus = ot.read_traces(io.BytesIO(whole.encode()))
    assert (len(trace_ids(corpus)), corpus.records["quarantined"]) == (2, 0)
    pretty = json.dumps([json.loads(first), json.loads(second)], indent=2)
    corpus = ot.read_traces(io.BytesIO(pretty.encode()))
    assert (len(trace_ids(corpus)), corpus.records["quarantined"]) == (2, 0)
