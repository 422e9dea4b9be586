"""The reference itself: its verdict on every mutation is the one that the mutation was made for.

That it finds exactly one fault in each also shows that no mutation is wrong in two ways at once.
"""

import pytest

from reference import tables as reference_tables
from reference.validator import Fault, judge, pointer
from samples.verdict_cases import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reference_finds_the_one_fault(case: Case) -> None:
    found = judge(case.line)
    if case.fault is None:
        assert found == []
        return
    assert [fault.code for fault in found] == [case.fault.code]
    assert case.fault.names(found[0].path)


@pytest.mark.parametrize("case", [case for case in CASES if case.fault is None], ids=lambda case: case.name)
def test_the_reference_finds_the_oddities(case: Case) -> None:
    found = reference_tables.findings(reference_tables.parse(case.line))
    assert found.keys() == case.findings.keys()
    for code, (count, seq) in found.items():
        wanted, seqs = case.findings[code]
        assert count == wanted
        if code not in ("time.reversed", "graph.cycle"):
            assert {seq} == seqs


def test_there_are_cases_of_every_code_of_a_record() -> None:
    stream_codes = {"input.truncated", "input.expansion", "record.too_large"}
    codes = {case.fault.code for case in CASES if case.fault}
    assert len(CASES) == len({case.name for case in CASES}) >= 80
    assert not codes & stream_codes
    assert codes == {
        *("json.syntax", "json.duplicate_key", "json.depth", "json.trailing", "utf8.invalid"),
        *("number.nan", "number.range", "record.not_object"),
        *("field.missing", "field.forbidden", "field.type", "field.enum", "field.minimum", "field.empty"),
        *("id.duplicate", "edge.unknown"),
    }


def test_pointers() -> None:
    assert pointer() == ""
    assert pointer("a/b~c", 0, "") == "/a~1b~0c/0/"
    assert Fault("x", "/a/b", around=True).names("/a")
    assert Fault("x", "/a/b", around=True).names("")
    assert not Fault("x", "/a/b", around=True).names("/a/bc")
    assert not Fault("x", "/a/b", around=True).names("/a/b/c")
    assert not Fault("x", "/a/b").names("/a")
