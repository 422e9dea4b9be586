"""What the scripts of a release share: the version, faults in one line, and commands that may fail."""

import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


class Fault(Exception):
    """What is wrong, in one line."""


def version() -> str:
    """The version of the project: Cargo.toml has it, everything else asks there."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"])


def output(call: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a command prints.

    Raises
    ------
    Fault
        It failed; with the last line that it said.
    """
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        begun = " ".join([Path(call[0]).name, *call[1:4]])
        raise Fault(f"'{begun} ...' ended with {done.returncode}: {last}")
    return done.stdout


def first_page() -> list[str]:
    """The commands that the first page of the documents gives to newcomers; the first installs from source.

    Raises
    ------
    Fault
        The page has no such commands.
    """
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    block = re.search(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    lines = [shlex.join(shlex.split(line, comments=True)) for line in block[1].splitlines()] if block else []
    if lines[:1] != ["pip install ."]:
        raise Fault("the first commands of docs/index.md do not begin with 'pip install .'")
    return lines
