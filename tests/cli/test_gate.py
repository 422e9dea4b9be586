"""The command `gate`: exit codes, the line of a verdict, JUnit as an XML reader sees it, Markdown."""

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import orchestrace as ot
from cli.commands import error_line, run
from orchestrace.cli.gate_reports import junit_of, markdown_of, verdict_of
from samples.paired_runs import alike, write_sides, written


@pytest.fixture
def sides(tmp_path: Path) -> list[str]:
    write_sides(tmp_path)
    return [str(tmp_path / f"{side}.jsonl") for side in ("base", "new")]


def failing(folder: Path) -> str:
    return str(written(folder / "worse.jsonl", {task: [0.0, 0.0] for task in alike()[0]}, shift=0.5))


def test_the_exit_code_is_the_verdict(sides: list[str], tmp_path: Path) -> None:
    base, new = sides
    passed = run("gate", base, new, "--margin", "0.1", columns=None)
    assert passed.stderr.startswith("success: pass; +0 [-0.0344, +0.0344], margin 0.1, 60 tasks\n")
    failed = run("gate", base, failing(tmp_path), code=1, columns=None)
    assert failed.stderr.startswith("success: fail; -0.75 [")
    unclear = run("gate", base, new, code=2, columns=None)
    more = ot.evaluation.gate(*map(ot.read_traces, sides), margin=0.02)["more_tasks"].item()
    assert unclear.stderr.startswith(f"success: inconclusive: {more} more tasks for 80 % power; +0 [")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("base.jsonl base.jsonl", "one recording counts twice"),
        ("base.jsonl base.jsonl", "to compare all the same, give --allow copies"),
        ("base.jsonl none.jsonl", "no such file or folder: 'none.jsonl'"),
        ("base.jsonl", "missing argument 'NEW'"),
        ("base.jsonl new.jsonl --nope", "no such option: --nope"),
        ("base.jsonl new.jsonl --alpha 0.7", "--alpha is 0.7, expected a number between 0 and 0.5"),
        ("base.jsonl new.jsonl --margin x", "--margin has 'x', expected a number"),
        ("base.jsonl new.jsonl --junit base.jsonl", "'base.jsonl' exists; give --force to replace it"),
        ("base.jsonl new.jsonl --rewards other.csv --reward right", "other.csv: it has no run of new.jsonl"),
    ],
)
def test_errors_are_no_verdict(
    words: str, message: str, sides: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.csv").write_text("trace_id,right\nbase-t000-0,1\n")
    assert message in error_line(run("gate", *words.split(), code=4))


def test_a_bug_is_no_verdict(
    sides: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(ot.evaluation, "gate", broken)
    result = run("gate", *sides, code=4)
    assert "ZeroDivisionError: a bug" in result.stderr + capfd.readouterr().err


def test_rewards_of_both_sides_in_one_file(sides: list[str], tmp_path: Path) -> None:
    names = [
        f"{side}-{task}-{attempt}" for side in ("base", "new") for task in alike()[0] for attempt in (0, 1)
    ]
    pl.DataFrame({"trace_id": names, "right": [1.0] * len(names)}).write_csv(tmp_path / "right.csv")
    words = ("--rewards", tmp_path / "right.csv", "--reward", "right", "--csv", "--margin", "0.1")
    row = run("gate", *sides, *words).stdout.splitlines()[1].split(",")
    assert row[:4] == ["success", "pass", "1.0", "1.0"]


def test_injected_worsenings_are_counted(sides: list[str]) -> None:
    result = run("gate", *sides, "--inject", "0.3", "--draws", "200", "--csv")
    rows = [line.split(",") for line in result.stdout.splitlines()[1:]]
    assert [row[1] for row in rows] == ["0.0", "0.3"] and float(rows[1][3]) > 0.9 > float(rows[0][3])
    assert "are of a verdict" in error_line(
        run("gate", *sides, "--inject", "0.3", "--junit", "x.xml", code=4)
    )


def test_reports_of_all_verdicts(tmp_path: Path, sides: list[str]) -> None:
    base, worse = ot.read_traces(sides[0]), ot.read_traces(failing(tmp_path))
    table = ot.evaluation.gate(
        base,
        worse,
        metric=["success", "seconds", "tokens"],
        margin={"success": 0.1, "seconds": 0.3, "tokens": 0.0},
    )
    assert table["verdict"].to_list() == ["fail", "pass", "inconclusive"] and verdict_of(table) == "fail"
    assert verdict_of(table[1:2]) == "pass" and verdict_of(table[1:3]) == "inconclusive"
    root = ElementTree.fromstring(junit_of(table, 0.8))
    suite = root.find("testsuite")
    assert suite is not None
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")}
    assert counts == {"tests": "3", "failures": "1", "skipped": "1", "errors": "0"}
    cases = {case.get("name"): [child.tag for child in case] for case in suite}
    assert cases == {
        "success": ["failure", "system-out"],
        "seconds": ["system-out"],
        "tokens": ["skipped", "system-out"],
    }
    lines = markdown_of(table, 0.8).splitlines()
    assert lines[0] == "### orchestrace gate: fail"
    assert len({line.count("|") for line in lines[2:7]}) == 1


def test_hostile_names_stay_text(tmp_path: Path, sides: list[str]) -> None:
    table = ot.evaluation.gate(*map(ot.read_traces, sides), margin=0.1)
    evil = table.with_columns(metric=pl.lit("a|b</testcase>&\x1b[31m\x00<img src=x>[x](y)\n# h"))
    root = ElementTree.fromstring(junit_of(evil, 0.8))
    assert len(root.findall(".//testcase")) == 1
    page = markdown_of(evil, 0.8)
    assert (
        "<img" not in page
        and "\x1b" not in page
        and "\n# h" not in page
        and "](" not in page.replace("\\](", "")
    )


def test_a_summary_is_added_to_what_is_there(sides: list[str], tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("before\n")
    for _ in range(2):
        run("gate", *sides, "--margin", "0.1", "--markdown", page)
    assert page.read_text().startswith("before\n### orchestrace gate: pass\n")
    assert page.read_text().count("### orchestrace gate") == 2
