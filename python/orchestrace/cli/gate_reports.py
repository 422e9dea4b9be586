"""What a gate hands to a CI system: a report in JUnit's XML, a summary in Markdown, and the line on a
terminal."""

import math
from collections.abc import Iterable, Mapping
from xml.etree import ElementTree

import polars as pl

from ..base.text import counted, plain

Row = Mapping[str, object]


def verdict_of(table: pl.DataFrame) -> str:
    """The verdict over all metrics: fail if one fails, pass if all pass."""
    verdicts = set(table["verdict"].cast(pl.String))
    return "fail" if "fail" in verdicts else "pass" if verdicts == {"pass"} else "inconclusive"


def line_of(row: Row, power: float) -> str:
    """One metric in a line: verdict, what is missing for one, difference with its interval."""
    start = f"{row['metric']}: {row['verdict']}"
    if row["verdict"] == "inconclusive":
        start += f": {advice_of(row, power)}"
    if row["difference"] is None:
        return start
    line = f"{start}; {_change(row, 'difference')}"
    if row["lower"] is not None:
        line += f" [{_change(row, 'lower')}, {_change(row, 'upper')}]"
    return f"{line}, margin {_amount(row, 'margin')}, {counted(_count(row, 'n_tasks'), 'task')}"


def advice_of(row: Row, power: float) -> str:
    """How many tasks more are needed, or why no number helps."""
    if row["more_tasks"] is None:
        why = row["reason"] or ("a margin of 0" if row["margin"] == 0.0 else "result.range")
        return f"no number of tasks can be named ({why})"
    more = _count(row, "more_tasks")
    if more:
        return f"{counted(more, 'more task')} for {_percent(power)} power"
    return "tasks suffice, but the difference is near the margin"


def junit_of(table: pl.DataFrame, power: float) -> bytes:
    """The table as JUnit XML: a test case per metric, failed, skipped where inconclusive, or passed."""
    rows = table.rows(named=True)
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("fail", "inconclusive")}
    totals = {"tests": str(len(rows)), "failures": str(count["fail"]), "errors": "0"}
    totals["skipped"] = str(count["inconclusive"])
    root = ElementTree.Element("testsuites", {"name": "orchestrace gate", **totals})
    suite = ElementTree.SubElement(root, "testsuite", {"name": "orchestrace gate", **totals})
    for row in rows:
        name = plain(row["metric"])
        case = ElementTree.SubElement(suite, "testcase", {"classname": "orchestrace.gate", "name": name})
        message = plain(line_of(row, power))
        if row["verdict"] == "fail":
            ElementTree.SubElement(case, "failure", {"message": message, "type": "worse"}).text = message
        elif row["verdict"] == "inconclusive":
            ElementTree.SubElement(case, "skipped", {"message": message})
        ElementTree.SubElement(case, "system-out").text = message
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def markdown_of(table: pl.DataFrame, power: float) -> str:
    """The table as Markdown, for a summary of a job."""
    heading = f"### orchestrace gate: {verdict_of(table)}"
    header = "| metric | verdict | base | new | change | interval | margin | tasks | more tasks |"
    rule = "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    lines = [heading, "", header, rule]
    for row in table.rows(named=True):
        between = "" if row["lower"] is None else f"{_change(row, 'lower')} to {_change(row, 'upper')}"
        cells = [
            str(row["metric"]),
            f"**{row['verdict']}**",
            _plain_number(row["base"]),
            _plain_number(row["new"]),
            "" if row["difference"] is None else _change(row, "difference"),
            between,
            _amount(row, "margin"),
            f"{row['n_tasks']:,}",
            "" if row["more_tasks"] is None else f"{row['more_tasks']:,}",
        ]
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    notes = [line for row in table.rows(named=True) for line in _notes(row, power)]
    return "\n".join([*lines, "", *(f"- {_cell(note)}" for note in notes)]).rstrip() + "\n"


def _notes(row: Row, power: float) -> Iterable[str]:
    if row["verdict"] == "inconclusive":
        yield f"{row['metric']}: inconclusive: {advice_of(row, power)}"
    if row["detectable"] is not None:
        worse = _amount(row, "detectable")
        often = f"{_percent(power)} of cases"
        yield f"{row['metric']}: on tasks like these a worsening of {worse} fails in {often}"


def _percent(share: float, sign: str = "") -> str:
    return f"{100.0 * share:{sign}.3g} %"


def _cell(text: str) -> str:
    """Text that does not leave its cell or become a link, an image or HTML."""
    safe = plain(text)
    for character in ("\\", "|", "<", "[", "]", "`", "_"):
        safe = safe.replace(character, "\\" + character if character != "<" else "&lt;")
    return safe


def _change(row: Row, name: str) -> str:
    """A change with its sign: of ratios in per cent."""
    value = float(row[name])  # type: ignore[arg-type]  # a number where it is shown
    return _percent(value, "+") if row["scale"] == "ratio" else f"{value:+.3g}"


def _amount(row: Row, name: str) -> str:
    value = float(row[name])  # type: ignore[arg-type]  # a number where it is shown
    return _percent(value) if row["scale"] == "ratio" else f"{value:.3g}"


def _plain_number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) and math.isfinite(value) else ""


def _count(row: Row, name: str) -> int:
    return int(row[name])  # type: ignore[call-overload,no-any-return]  # a count where it is shown
