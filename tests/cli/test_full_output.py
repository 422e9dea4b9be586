"""Standard output that takes no more: one line, exit code 1, and never a part that passes for the whole."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.commands import recordings

LIMIT = 4096
WORDS = {
    "help": ["--help"],
    "table": ["methods"],
    "csv": ["methods", "--csv"],
}
BUFFERS = {"buffered": "", "unbuffered": "1"}
"""Values of PYTHONUNBUFFERED; images of containers often set it."""


def outcome(
    words: list[object], out: object, buffers: str, prepare: Callable[[], None] | None = None
) -> tuple[int, str]:
    """Exit code and standard error of a command whose standard output is `out`."""
    code = "from orchestrace.cli import main; main()"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PYTHONUNBUFFERED": BUFFERS[buffers],
    }
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env=environment,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.process
@pytest.mark.parametrize("buffers", BUFFERS)
@pytest.mark.parametrize("name", WORDS)
def test_a_full_disk_is_one_line(name: str, buffers: str) -> None:
    with open("/dev/full", "w") as out:
        assert outcome(list(WORDS[name]), out, buffers) == (1, "error: the output: No space left on device\n")


@pytest.mark.process
@pytest.mark.parametrize("buffers", BUFFERS)
def test_a_file_that_takes_a_part_only_fails_the_command(buffers: str, tmp_path: Path) -> None:
    path = recordings(tmp_path, count=12)

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    with open(tmp_path / "credits.csv", "wb") as out:
        found = outcome(["credit", path, "--unit", "event", "--csv"], out, buffers, prepare)
    assert found == (1, "error: the output: File too large\n")
    assert (tmp_path / "credits.csv").stat().st_size == LIMIT


@pytest.mark.process
def test_a_table_can_be_printed_to_nobody() -> None:
    code, said = outcome(["methods"], None, "buffered", lambda: os.close(1))
    assert code == 0 and "rror" not in said  # how many columns are not shown may be said
