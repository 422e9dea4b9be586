"""The command story: what it prints, and that every command that it prints runs."""

import json
import shlex
from pathlib import Path

import pytest

import orchestrace as ot
from cli.commands import recordings, run
from orchestrace.cli.options import gap_of


def test_every_command_of_a_story_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pages: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: pages.append(url) is None)
    path = recordings(tmp_path)
    printed = run("summary", path, "--max-gap", "60", "--privileged-tool", "*").stdout
    commands = [line.split("$ ", 1)[1] for line in printed.splitlines() if "$ " in line]
    assert len(commands) >= 9 and all(command.startswith("orchestrace ") for command in commands)
    for command in commands:
        assert run(*shlex.split(command)[1:]).exit_code == 0, command
    assert pages == [(tmp_path / f"run{n}.html").as_uri() for n in range(1, len(pages) + 1)] != []
    told = ot.summary(ot.read_traces(path), max_gap=60.0, privileged_tools=["*"])
    assert [command for _, _, command in told.sentences(str(path))] == commands


def test_a_story_as_json_has_the_figures(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    figures = json.loads(run("summary", path, "--json").stdout)
    assert figures["n_traces"] == len(ot.read_traces(path))


def test_nothing_usable_is_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("no record\n")
    failed = run("summary", bad, code=1)
    assert "nothing could be used" in failed.stderr and "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        ("1.5m", 90.0),
        ("1h", 3600.0),
        ("2d", 172800.0),
        ("auto", "auto"),
        ("none", None),
    ],
)
def test_a_gap_has_a_unit_if_it_is_given_one(text: str, seconds: object) -> None:
    assert gap_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1x", "1hh", "an hour"])
def test_another_unit_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ot.ParameterError, match=r"expected a number, one with a unit \(30s, 5m, 1h, 2d\)"):
        gap_of(text)
