"""The skill for agents: its front matter, and every example that it has."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from document_workspace import commands, laid_out
from orchestrace.cli import app
from orchestrace.cli.commands import command_names
from orchestrace.cli.serving.confinement import Root
from orchestrace.cli.serving.recordings import Recordings
from orchestrace.cli.serving.server import answer
from orchestrace.cli.serving.tools import TOOLS

PLACE = Path(__file__).resolve().parents[2] / "examples" / "skills" / "orchestrace" / "SKILL.md"
SKILL = PLACE.read_text(encoding="utf-8")
COMMANDS = [words for words in commands(SKILL) if len(words) > 1]  # one alone is a name in a sentence


def calls() -> Iterator[dict[str, object]]:
    """The calls of tools, one a line."""
    for block in re.findall(r"^```json\n(.*?)^```$", SKILL, re.MULTILINE | re.DOTALL):
        yield from map(json.loads, block.splitlines())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files exist that the examples name."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = laid_out(tmp_path, "SKILL.md")
    monkeypatch.chdir(folder)
    return folder


def test_an_agent_finds_it_by_its_front_matter() -> None:
    _, front, body = SKILL.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == PLACE.parent.name and re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"])
    assert 100 < len(fields["description"]) <= 1024 and body.startswith("\n# ")
    assert len(SKILL.splitlines()) < 500


def test_every_command_runs(here: Path) -> None:
    assert len(COMMANDS) > 12
    for words in COMMANDS:
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (words, result.output)
        assert words[0] == "mcp" or result.stdout, words
        if "--json" in words:
            assert json.loads(result.stdout) is not None, words


def test_every_call_of_a_tool_answers(here: Path) -> None:
    assert CliRunner().invoke(app, ["ingest", "runs/", "-o", "stored"]).exit_code == 0
    (here / "data").unlink()
    (here / "docs").unlink()  # links of the workspace, which lead out of it
    recordings, called = Recordings(Root(here)), set()
    for call in calls():
        text, is_error = answer(recordings, str(call["tool"]), dict(call["arguments"]))
        assert not is_error, (call, text)
        assert json.loads(text)
        called.add(call["tool"])
    assert called == {tool.name for tool in TOOLS}


def test_its_table_names_commands_and_tools() -> None:
    rows = [line.strip("|").split("|") for line in SKILL.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`([\w-]+)`", cell) for row in rows for cell in row[1:]]
    assert {name for names in named[::2] for name in names} <= set(command_names())
    assert {name for names in named[1::2] for name in names} == {tool.name for tool in TOOLS}
