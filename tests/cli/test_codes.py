"""Codes are explained where one meets them: every code of the core has a meaning, an example and a remedy."""

import json
import re
from pathlib import Path

import pytest

from cli.commands import error_line, run
from orchestrace import _core
from orchestrace.base.remedies import REMEDIES, code_rows

TREE = Path(__file__).resolve().parents[2]
KNOWN = sorted({code for _, code, _, _ in _core.codes()})


def test_every_code_of_the_core_has_a_remedy_and_no_other() -> None:
    assert list(REMEDIES) == [(level, code) for level, code, _, _ in _core.codes()]
    for remedy in REMEDIES.values():
        assert all(re.search(r"^[A-Z`{].*[.`]$", text) for text in remedy), remedy
        assert remedy.example.count("`") % 2 == remedy.fix.count("`") % 2 == 0


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("code", KNOWN)
def test_a_code_is_explained(code: str) -> None:
    shown = run("codes", code).stdout
    levels = [row for row in _core.codes() if row[1] == code]
    assert shown.count("What to do: ") == len(levels)
    for level, _, severity, meaning in levels:
        assert f"{code} ({level}{', ' if severity else ''}{severity})\n  {meaning}\n" in shown
        assert REMEDIES[level, code].fix in shown


def printed_kinds() -> set[str]:
    """Kinds of ignored records: those of the expected tables, and those that the core's text has in full."""
    counts = (json.loads(path.read_text()) for path in (TREE / "data/importers").rglob("record_counts.json"))
    kinds = {row["kind"] for rows in counts for row in rows if "kind" in row}
    ignores = re.compile(r'(?:ignored|used_as|kinds)\((?:[^;"]*, )?"(\w+\.[\w.]+)"')
    importers = TREE / "rust/orchestrace-core/src/importers"
    for path in importers.rglob("*.rs"):
        if "tests" not in path.relative_to(importers).with_suffix("").parts:
            kinds |= set(ignores.findall(path.read_text().partition("mod tests {")[0]))
    return kinds


def test_a_kind_of_ignored_records_is_explained() -> None:
    kinds = printed_kinds()
    assert {"otel.http", "claude_code.meta_file", "inspect.summaries"} <= kinds and len(kinds) > 30
    for kind in kinds:
        ((level, code, _, meaning, _),) = code_rows(kind)
        assert (level, code) == ("ignored", kind) and f"'{kind.partition('.')[0]}'" in meaning
    assert "otel.http (ignored)\n  A record of the format 'otel'" in run("codes", "otel.http").stdout
    assert code_rows("mapping.comment") and not code_rows("otel") and not code_rows("letters.from_me")


def test_a_misspelled_code_is_named() -> None:
    assert "did you mean 'graph.cycle'" in error_line(run("codes", "graph.cycel", code=2))


def test_programs_get_the_same_as_json() -> None:
    (row,) = json.loads(run("codes", "json.depth", "--json").stdout)
    assert row["level"] == "reject" and row["fix"] == REMEDIES["reject", "json.depth"].fix
    assert len(json.loads(run("codes", "--json").stdout)) == len(_core.codes())
