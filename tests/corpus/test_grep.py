"""`ot.grep`: the matches of plain Python in the same records; whose a match is; what is refused."""

import gzip
import json
import os
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.corpus.searching import count_matches
from samples.examples import examples

DATA = Path(__file__).resolve().parents[2] / "data/importers"
FORMATS = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())
WORDS = ("alpha", 'say "no"', "zwei\nZeilen", "caf\u00e9", "\u4e2d\u6587", "\U0001f600", "C:\\temp", "a/b")


def native(words: list[str], trace_id: str = "t") -> dict[str, Any]:
    """A native trace with an event for each word."""
    events = [
        {"id": f"e{i}", "t": i, "type": "message", "agent": f"a{i % 2}", "x": w} for i, w in enumerate(words)
    ]
    costs = {"tokens": 0, "wall_clock_s": 0}
    return {
        "trace_id": trace_id,
        "task_id": "q",
        "events": events,
        "edges": [],
        "rewards": {"team": 1},
        "costs": costs,
    }


def undone(record: str) -> str:
    """The text of a record, by an expression rather than a scan."""
    short = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
    pair = r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})"

    def one(found: re.Match[str]) -> str:
        if found[1]:
            return bytes.fromhex(found[1] + found[2]).decode("utf-16-be")
        if found[3]:
            return chr(int(found[3], 16)) if not 0xD800 <= int(found[3], 16) < 0xE000 else found[0]
        return short.get(found[4], found[4])

    return re.sub(rf"{pair}|\\u([0-9a-fA-F]{{4}})|\\([\"\\/nrtbf])", one, record)


def strings(value: Any) -> Iterator[str]:
    """All string values of a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


def row_places(rows: pl.DataFrame) -> list[tuple[Any, ...]]:
    return rows.select("trace_id", "event_id", "seq", "agent", "line").rows()


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("word", WORDS)
def test_a_text_is_found_however_it_is_written(word: str, ascii_only: bool, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    others = [other for other in WORDS if other != word]
    documents = [native(others, "x"), native([*others[:3], f"before {word} behind"], "y")]
    path.write_text(
        "".join(json.dumps(d, ensure_ascii=ascii_only) + "\n" for d in documents), encoding="utf-8"
    )
    rows = ot.grep(ot.read_traces(path), word, fixed=True)
    assert row_places(rows) == [("y", "e3", 3, "a1", 2)]
    assert rows["match"].to_list() == [word] and rows["trace"].to_list() == [1]
    offset, length = rows.select("offset", "length").row(0)
    assert undone(path.read_bytes()[offset : offset + length].decode()) == word
    files = ot.grep(path, word, fixed=True)
    assert files.drop("trace").equals(rows.drop("trace")) and files["trace"].null_count() == 1
    assert count_matches(path, word, fixed=True) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_every_string_of_every_format_is_found(name: str) -> None:
    folder = DATA / name
    mapping = folder / "mapping.json" if (folder / "mapping.json").exists() else None
    source = next(path for path in sorted(folder.iterdir()) if path.name.startswith("input"))
    with warnings.catch_warnings(action="ignore"):
        corpus = ot.read_traces(source, mapping=mapping) if mapping else ot.read_traces(source)
    files = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    wanted: dict[str, int] = {}
    texts: list[str] = []
    for file in files:
        if file.suffix not in (".json", ".jsonl", ".ndjson", ".traj"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        for part in [text] if file.suffix in (".json", ".traj") else text.splitlines():
            texts.append(undone(part))
            try:
                values = list(strings(json.loads(part)))
            except ValueError:
                continue
            wanted |= {value: 0 for value in values if len(value) > 5 and "\ufffd" not in value}
    some = sorted(wanted)[:: max(1, len(wanted) // 12)]
    assert some or name in ("native",), "nothing to look for"
    for word in some:
        with warnings.catch_warnings(action="ignore"):
            rows = ot.grep(corpus, word, fixed=True)
        assert rows.height == sum(text.count(word) for text in texts), word
        assert count_matches(corpus, word, fixed=True) == rows.height
        explained = rows["reason"].is_not_null() | rows["event_id"].is_not_null()
        assert explained.all(), rows.filter(~explained)
        known = rows.filter(pl.col("trace").is_not_null())
        ids = dict(corpus.traces.select("trace", "trace_id").collect().rows())
        assert [ids[trace] for trace in known["trace"]] == known["trace_id"].to_list()


@examples(40)
@given(
    words=st.lists(st.text(st.sampled_from('ab"\\/\n\té中😀 '), max_size=8), min_size=1, max_size=6),
    pattern=st.sampled_from(
        ["a", "ab", "b+", '"a', "é", "(?i)AB", "中|😀", r"\\", "a.b", r"[^a-z]b", "a\nb", r"\ba\b"]
    ),
    ascii_only=st.booleans(),
)
def test_matches_are_those_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], pattern: str, ascii_only: bool
) -> None:
    path = tmp_path_factory.mktemp("grep") / "runs.jsonl"
    lines = [json.dumps(native([word], f"t{i}"), ensure_ascii=ascii_only) for i, word in enumerate(words)]
    path.write_text("\n".join(lines), encoding="utf-8")
    expected = [
        (i + 1, match[0])
        for i, line in enumerate(lines)
        for match in re.finditer(pattern, undone(line), re.MULTILINE)
    ]
    assert ot.grep(path, pattern).select("line", "match").rows() == expected
    assert count_matches(path, pattern) == len(expected)


def test_results_depend_on_neither_threads_nor_packing(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    ot.generate(path, traces=3000, seed=1)
    text = path.read_bytes()
    assert len(text) > 3 << 20, "several blocks"
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(text, 1))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("runs.jsonl", text)
    pattern = '"type": *"return"'
    rows = ot.grep(path, pattern, threads=1)
    lines = text.decode().splitlines()
    assert rows["line"].to_list() == [
        i + 1 for i, line in enumerate(lines) for _ in re.finditer(pattern, line)
    ]
    of_events = rows["event_id"].is_not_null()
    assert of_events.any() and set(rows.filter(of_events)["type"]) == {"return"}
    assert set(rows.filter(~of_events)["reason"]) == {"event.none"}, "edges have types, too"
    for threads in (2, 5):
        assert ot.grep(path, pattern, threads=threads).equals(rows)
    for other in ("packed.jsonl.gz", "all.zip"):
        assert ot.grep(tmp_path / other, pattern).drop("file").equals(rows.drop("file"))
    for most in (1, 7, 2500):
        with pytest.warns(UserWarning, match="there are more"):
            cut = ot.grep(path, pattern, max_count=most)
        assert cut.equals(rows.head(most))
    with warnings.catch_warnings(action="error"):
        assert ot.grep(path, pattern, max_count=rows.height).equals(rows)


def test_documents_and_arrays_have_lines(tmp_path: Path) -> None:
    documents = [native(["alpha", "beta"], "x"), native(["alpha"], "y")]
    (tmp_path / "array.json").write_text(json.dumps(documents, indent=1))
    (tmp_path / "document.json").write_text(json.dumps(documents[0], indent=1))
    rows = ot.grep(tmp_path, "alpha")
    for file, line, offset, length in rows.select("file", "line", "offset", "length").rows():
        data = Path(file).read_bytes()
        assert data[offset : offset + length] == b"alpha"
        assert data[:offset].count(b"\n") + 1 == line
    assert rows["trace_id"].to_list() == ["x", "y", "x"] and rows["seq"].to_list() == [0, 0, 0]
    (tmp_path / "copy.json").write_text(json.dumps(documents, indent=1))
    again = ot.grep(tmp_path, "alpha")
    assert again["reason"].to_list() == [None, None, "trace.none", "trace.none", None], "a copy has no trace"


def test_what_is_in_no_event_has_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    good = json.dumps(native(["alpha"], "needle"))
    bad = json.dumps({**native(["needle"], "b"), "events": 3})
    path.write_text(f"{good}\n{bad}\nneedle noise\n{good}\n")
    corpus = ot.read_traces(path)
    rows = ot.grep(corpus, "needle")
    assert rows["reason"].to_list()[0] == "event.none" and rows["trace_id"].to_list()[0] == "needle"
    assert rows["line"].to_list() == [1, 3, 4] and rows["trace"].to_list() == [0, None, None]
    assert rows["reason"].to_list()[1:] == ["trace.rejected", "trace.none"]
    kept = corpus.filter(pl.col("trace_id") == "nobody")
    assert ot.grep(kept, "alpha")["reason"].to_list()[0] == "trace.absent"


def test_a_session_says_which_event(tmp_path: Path) -> None:
    corpus = ot.read_traces(DATA / "claude_code")
    events = corpus.events.select("trace", "seq", "id").collect()
    hits = 0
    for trace, seq, event_id in events.rows():
        source = corpus.source(trace, seq)
        word = max(strings(json.loads(source.text)), key=len)
        rows = ot.grep(corpus, word, fixed=True)
        here = rows.filter((pl.col("file") == source.file) & (pl.col("line") == source.line))
        assert here.height > 0 and set(here["trace"].drop_nulls()) <= {trace}
        hits += here.filter(pl.col("event_id") == event_id).height
    assert hits > 0


def test_corpora_on_disk_and_changed_files(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    ot.generate(path, traces=40, seed=3)
    memory = ot.read_traces(path)
    ot.ingest(path, tmp_path / "corpus")
    disk = ot.read_corpus(tmp_path / "corpus")
    expected = ot.grep(memory, "return")
    assert expected.height and ot.grep(disk, "return").equals(expected)
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"id":"', b'"id":"z', 1))
    with pytest.raises(ot.InputError, match="has changed"):
        ot.grep(disk, "return")
    path.write_text(json.dumps(native(["alpha", "beta"])))
    few = ot.read_traces(path)
    path.write_text(path.read_text().replace('"e1"', '"x1"'))
    assert ot.grep(few, "alpha")["event_id"].to_list() == ["e0"]
    with pytest.raises(ot.InputError, match="has changed"):
        ot.grep(few, "beta")
    os.remove(path)
    for corpus in (memory, disk):
        with pytest.raises(ot.InputError, match=r"runs\.jsonl"):
            ot.grep(corpus, "return")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("(", "unclosed group"), ("a*", "the empty text"), ("", "the empty text"), ("(?=a)", "look-around")],
)
def test_a_pattern_that_cannot_be_searched_for(pattern: str, message: str, tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=1)
    with pytest.raises(ot.ParameterError, match=message) as refused:
        ot.grep(tmp_path / "runs.jsonl", pattern)
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=1)
    with (tmp_path / "runs.jsonl").open("rb") as stream, pytest.raises(ot.InputError, match="no file"):
        ot.grep(stream, "a")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    with pytest.raises(ot.InputError, match="read_corpus"):
        ot.grep(tmp_path / "corpus", "a")
    with pytest.raises(ot.ParameterError, match="a corpus knows its own"):
        ot.grep(ot.read_traces(tmp_path / "runs.jsonl"), "a", format="native")
    assert ot.grep(tmp_path / "runs.jsonl", "nowhere").is_empty()


def test_a_damaged_stream_says_so(tmp_path: Path) -> None:
    whole = gzip.compress(
        b"".join(json.dumps(native([f"alpha {i}"], f"t{i}")).encode() + b"\n" for i in range(500))
    )
    path = tmp_path / "runs.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match="could not be searched"):
        rows = ot.grep(path, "alpha")
    assert 0 < rows.height < 500


def test_context_is_bounded_and_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(native([f"above\n{'é' * 3000}needle{'x' * 5}\nbelow"])))
    (text,) = ot.grep(path, "needle", context=7)["text"]
    assert text == f"…{'é' * 7}needlexxxxx"
    (text,) = ot.grep(path, "needle", context=0)["text"]
    assert text == "…needle…"
    (text,) = ot.grep(path, "é+", context=3)["text"]
    assert len(text.encode()) < 1100 and text.endswith("…")


def written(path: Path, *traces: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(trace) + "\n" for trace in traces), encoding="utf-8")
    return path


def test_a_file_in_which_traces_begin_elsewhere_is_refused(tmp_path: Path) -> None:
    runs = [native(["foo", "bar"], "x"), native(["bar", "foo"], "y")]
    path = written(tmp_path / "runs.jsonl", *runs)
    corpus, text = ot.read_traces(path), path.read_text(encoding="utf-8")
    assert ot.grep(corpus, "foo")["trace"].to_list() == [0, 1]
    longer = json.dumps(native(["foo", "bar", "foo"], "x"))
    for other in ("\n\n" + text, longer + "\n" + text.splitlines()[1] + "\n"):
        path.write_text(other, encoding="utf-8")
        with pytest.raises(ot.InputError, match="has changed"):
            ot.grep(corpus, "foo")
    for other in ("", text.splitlines()[0]):
        path.write_text(other, encoding="utf-8")
        for search in (ot.grep, count_matches):
            with pytest.raises(ot.InputError, match="has changed"):
                search(corpus, "foo")


@pytest.mark.parametrize("threads", [1, 3])
def test_what_cannot_be_searched_is_said(threads: int, tmp_path: Path) -> None:
    line = json.dumps(native(["alpha"])) + "\n"
    (tmp_path / "wide.jsonl").write_bytes(line.encode("utf-16"))
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as inner:
        inner.writestr("runs.jsonl", line)
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as outer:
        outer.write(tmp_path / "inner.zip", "inner.zip")
        outer.writestr("runs.jsonl", line)
    rows = pl.DataFrame({"x": [line] * 400})
    rows.write_parquet(tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[:-20])
    counts = {}
    for name in ("wide.jsonl", "outer.zip", "cut.parquet"):
        with pytest.warns(UserWarning, match="could not be searched"):
            counts[name] = count_matches(tmp_path / name, "alpha", threads=threads)
    assert counts == {"wide.jsonl": 0, "outer.zip": 1, "cut.parquet": 0}


def test_a_file_is_searched_once(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.jsonl", native(["foo", "bar"]))
    rows = ot.grep([path, tmp_path, f"{tmp_path}/./runs.jsonl"], "foo")
    assert rows.select("trace_id", "event_id", "reason").rows() == [("t", "e0", None)]


def test_a_match_over_several_events_is_of_none(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.jsonl", native(["foo", "middle", "end"]))
    over, within, behind = (ot.grep(path, pattern) for pattern in ("foo.*end", "foo", 'end"}\\]'))
    assert over.select("event_id", "seq", "reason").rows() == [(None, None, "event.several")]
    assert within["event_id"].to_list() == ["e0"] and behind["event_id"].to_list() == ["e2"]
    assert over["trace_id"].to_list() == ["t"]


def test_a_mark_says_that_a_line_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path / "runs.jsonl", native(["\u00e9" * 2000 + "NEEDLE" + "\u00e9" * 2000]))
    for context in (5, 600, 5000):
        text = ot.grep(path, "NEEDLE", context=context)["text"][0]
        assert text[0] == text[-1] == "\u2026"


def test_what_is_said_of_damaged_rows_is_not_searched(tmp_path: Path) -> None:
    rows = pl.DataFrame({"x": ["alpha"] * 400})
    rows.write_parquet(tmp_path / "whole.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "whole.parquet").read_bytes()[:-20])
    with pytest.warns(UserWarning, match="footer"):
        assert count_matches(tmp_path / "cut.parquet", "footer") == 0
