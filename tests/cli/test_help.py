"""Help of the command: two spellings, summaries that fit, and words completed by the shell."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from cli.commands import run
from cli.examples import EXAMPLES, command_of, commands
from orchestrace.cli import app


def calls() -> Iterator[list[str]]:
    yield []
    group = typer.main.get_command(app)
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        yield [name]
        yield from ([name, inner] for inner in getattr(command, "commands", {}))


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("command", list(calls()), ids=" ".join)
def test_h_is_help_everywhere(command: list[str]) -> None:
    short, long = run(*command, "-h").stdout, run(*command, "--help").stdout
    assert short == long and short.startswith("Usage: ")
    assert "-h, --help" in short


@pytest.mark.parametrize("group", [[], ["study"], ["mapping"]], ids=" ".join)
def test_summaries_of_commands_are_not_cut(group: list[str]) -> None:
    shown = run(*group, "--help").stdout
    listed = shown.partition("Commands:\n")[2]
    assert listed and "..." not in listed and max(map(len, listed.splitlines())) <= 80


def test_every_command_has_an_example_and_its_help_ends_with_one() -> None:
    tried = {command_of(line) for line in EXAMPLES}
    assert tried == set(commands())
    for name in tried:
        last = run(*name.split(), "--help").stdout.splitlines()[-1].removeprefix("  $ orchestrace ")
        assert last in EXAMPLES and command_of(last) == name


def completed(words: str, count: int) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "orchestrace.cli"],
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "_ORCHESTRACE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(count),
        },
        capture_output=True,
        text=True,
    )
    return done.stdout.split()


@pytest.mark.process
def test_the_shell_completes_commands_and_options() -> None:
    assert completed("orchestrace cre", 1) == ["credit"]
    assert "--rewards" in completed("orchestrace credit --rew", 2)
    assert completed("orchestrace study r", 2) == ["run", "report"]


def test_completion_can_be_shown_and_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    names = {option for param in typer.main.get_command(app).params for option in param.opts}
    assert {"--install-completion", "--show-completion"} <= names
    done = subprocess.run(
        [sys.executable, "-m", "orchestrace.cli", "--show-completion", "bash"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert "_ORCHESTRACE_COMPLETE=complete_bash" in done.stdout, done.stderr
