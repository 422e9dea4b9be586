"""Verdict parity: every mutation gets its verdict, code and place, and never costs its neighbors."""

import json
from pathlib import Path

import pytest

import orchestrace as ot
from reference import tables as reference_tables
from samples.inputs import assert_identity, assert_tables, gz, ingest, reconcile, rows, trace_ids, zst
from samples.verdict_cases import BASE, CASES, Case, literal, nested, put, text

BEFORE = text(BASE | {"trace_id": "before", "system": "neighbor"})
AFTER = text(BASE | {"trace_id": "after", "topology": "debate"})

ACCEPTED = [case for case in CASES if case.fault is None]
REJECTED = [case for case in CASES if case.fault is not None]


def of(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@pytest.mark.every_nth(3)
@of(REJECTED)
def test_a_mutation_is_quarantined_between_its_neighbors(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "runs.jsonl"
    corpus = ingest(path, BEFORE + b"\n" + case.line + b"\n" + AFTER + b"\n")

    assert case.fault is not None
    assert trace_ids(corpus) == ["before", "after"]
    assert corpus.records == {"read": 3, "used": 2, "ignored": 0, "duplicate": 0, "quarantined": 1}
    reconcile(corpus)
    (row,) = rows(corpus.quarantine)
    assert row["code"] == case.fault.code, row["message"]
    assert case.fault.names(row["path"]), (row["path"], row["message"])
    assert Path(row["file"]) == path
    assert (row["line"], row["offset"], row["length"]) == (2, len(BEFORE) + 1, len(case.line))
    assert row["message"].strip()
    assert row["importer"] == "native"
    assert_identity(corpus, [BEFORE, AFTER])
    assert rows(corpus.findings) == []


@pytest.mark.every_nth(3)
@of(ACCEPTED)
def test_a_mutation_is_accepted_between_its_neighbors(tmp_path: Path, case: Case) -> None:
    corpus = ingest(tmp_path / "runs.jsonl", BEFORE + b"\n" + case.line + b"\n" + AFTER + b"\n")

    assert rows(corpus.quarantine) == []
    assert corpus.records == {"read": 3, "used": 3, "ignored": 0, "duplicate": 0, "quarantined": 0}
    reconcile(corpus)
    lines = [BEFORE, case.line, AFTER]
    assert_tables(corpus, [reference_tables.parse(line) for line in lines])
    places = rows(corpus.traces.select("line", "offset", "length"))
    assert [place["line"] for place in places] == [1, 2, 3]
    data = b"\n".join(lines)
    assert [data[p["offset"] : p["offset"] + p["length"]].strip() for p in places] == [
        x.strip() for x in lines
    ]
    assert_identity(corpus, lines)

    found = {row["code"]: row for row in rows(corpus.findings)}
    assert found.keys() == case.findings.keys()
    for code, (count, seqs) in case.findings.items():
        assert found[code]["trace"] == 1
        assert found[code]["seq"] in seqs
        assert found[code]["message"].strip()
        assert found[code]["count"] >= 1
        if code != "graph.cycle":
            assert found[code]["count"] == count


@pytest.mark.parametrize("packed", [lambda data: data, gz, zst], ids=["plain", "gz", "zst"])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\n\n \t\n"], ids=["LF", "CRLF", "blank lines"])
def test_all_mutations_in_one_file(tmp_path: Path, packed, ending: bytes) -> None:
    data, places, lines = b"", [], 1
    for n, case in enumerate(CASES):
        for line in (text(BASE | {"trace_id": f"good {n}"}), case.line):
            places.append((lines, len(data), len(line)))
            data += line + ending
            lines += ending.count(b"\n")
    corpus = ingest(tmp_path / "runs", packed(data))

    reconcile(corpus)
    assert corpus.records == {
        "read": 2 * len(CASES),
        "used": len(CASES) + len(ACCEPTED),
        "ignored": 0,
        "duplicate": 0,
        "quarantined": len(REJECTED),
    }
    found = rows(corpus.quarantine)
    # Whether the carriage return before a line feed counts as part of the record is left open.
    lengths = [len(data[row["offset"] :][: row["length"]].rstrip(b"\r")) for row in found]
    assert [(row["line"], row["offset"], n) for row, n in zip(found, lengths, strict=True)] == [
        place for case, place in zip(CASES, places[1::2], strict=True) if case.fault
    ]
    for row, case in zip(found, REJECTED, strict=True):
        assert case.fault is not None
        assert (row["code"], case.fault.names(row["path"])) == (case.fault.code, True), case.name
    good = [trace_id for trace_id in trace_ids(corpus) if trace_id.startswith("good ")]
    assert good == [f"good {n}" for n in range(len(CASES))]


def test_a_message_names_what_was_found_and_expected(tmp_path: Path) -> None:
    lines = [
        put("/topology", "swarn"),
        put("/costs/tokens", -7),
        put("/edges/1/dst", "e99"),
        put("/metrics", 31),
    ]
    messages = [row["message"] for row in rows(ingest(tmp_path / "runs.jsonl", b"\n".join(lines)).quarantine)]
    assert "swarn" in messages[0] and "swarm" in messages[0]
    assert "-7" in messages[1] and "0" in messages[1]
    assert "e99" in messages[2]
    assert "object" in messages[3]


def test_the_first_line_may_be_the_broken_one(tmp_path: Path) -> None:
    corpus = ingest(tmp_path / "runs.jsonl", b'{"trace_id": 1}\n' + BEFORE + b"\n{\n" + AFTER)
    assert trace_ids(corpus) == ["before", "after"]
    assert [row["line"] for row in rows(corpus.quarantine)] == [1, 3]


def test_unknown_values_are_kept_as_written(tmp_path: Path) -> None:
    line = literal("/events/3/x_note", '{"a":1e400, "b" : [ -0, 1E+2,0.10], "\\u0061":"\\u00e9\\/", "a":2}')
    corpus = ingest(tmp_path / "runs.jsonl", line)
    extras = corpus.events.collect()["extras"].to_list()
    assert extras[:3] == [None, None, None]
    for spelling in ("1e400", "-0,", "1E+2", "0.10", '"\\u0061"', "\\u00e9\\/", '"a":2'):
        assert spelling in extras[3]
    assert json.loads(extras[3]) == {"x_note": json.loads(line)["events"][3]["x_note"]}


def test_ignored_fields_stay_beside_unknown_ones(tmp_path: Path) -> None:
    line = put("/events/3", BASE["events"][3] | {"tokens": -1, "score": None, "ok": "yes", "turn": 2})
    corpus = ingest(tmp_path / "runs.jsonl", line)
    row = rows(corpus.events)[3]
    assert (row["tokens"], row["score"], row["ok"], row["turn"]) == (None, None, None, 2)
    assert json.loads(row["extras"]) == {"tokens": -1, "score": None, "ok": "yes", "x_note": "n"}


def test_minus_zero_is_a_time(tmp_path: Path) -> None:
    corpus = ingest(tmp_path / "runs.jsonl", literal("/events/3/t", "-0.0"))
    assert corpus.events.collect()["t"].to_list() == [0.0, 1.0, 2.0, 0.0]


def test_a_cycle_is_named(tmp_path: Path) -> None:
    edges = [{"src": a, "dst": b, "type": "causal"} for a, b in (("e1", "e2"), ("e2", "e3"), ("e3", "e2"))]
    (row,) = [
        row
        for row in rows(ingest(tmp_path / "runs.jsonl", put("/edges", edges)).findings)
        if row["code"] == "graph.cycle"
    ]
    assert row["seq"] in (1, 2)
    assert "e2" in row["message"] and "e3" in row["message"] and "e1" not in row["message"]


def test_a_trace_id_may_come_again(tmp_path: Path) -> None:
    other = BEFORE.replace(b'"task"', b'"another task"')
    corpus = ingest(tmp_path / "runs.jsonl", b"\n".join([BEFORE, AFTER, other, BEFORE]))
    assert trace_ids(corpus) == ["before", "after", "before"] and corpus.records["duplicate"] == 1
    (row,) = rows(corpus.findings)
    assert (row["trace"], row["code"]) == (2, "trace.id_reused")


@pytest.mark.parametrize("max_depth", [4, 10, 128, 500])
def test_the_depth_limit_is_an_option(tmp_path: Path, max_depth: int) -> None:
    lines = [literal("/events/3/x_note", nested(max_depth - 3 + extra)) for extra in (0, 1)]
    corpus = ingest(tmp_path / "runs.jsonl", b"\n".join(lines), max_depth=max_depth)
    assert corpus.records["used"] == 1
    assert [(row["line"], row["code"]) for row in rows(corpus.quarantine)] == [(2, "json.depth")]


def test_a_rejected_record_can_be_raised(tmp_path: Path) -> None:
    with pytest.raises(ot.QuarantineError) as caught:
        ingest(tmp_path / "runs.jsonl", BEFORE + b"\n{}\n" + AFTER, on_error="raise")
    assert caught.value.frame["line"].to_list() == [2]
    assert isinstance(caught.value, ot.OrchestraceError)
    assert trace_ids(ingest(tmp_path / "good.jsonl", BEFORE, on_error="raise")) == ["before"]
