"""Parts of the tests, which n machines or nights run one by one."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "statistics"


def _collected(part: str) -> subprocess.CompletedProcess[str]:
    # Options that somebody has set for all runs say how much is printed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", "-p", "no:cacheprovider", str(FOLDER)],
        env=environment | {"ORCHESTRACE_PART": part, "ORCHESTRACE_CASES": "1"},
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def _cases(part: str) -> list[str]:
    return re.findall(r"^\S+::\S+$", _collected(part).stdout, re.MULTILINE)


def test_each_case_is_in_one_of_the_parts() -> None:
    whole, parts = _cases("1/1"), [_cases("1/2"), _cases("2/2")]
    assert sorted(itertools.chain(*parts)) == sorted(whole)
    assert all(len(part) > len(whole) / 4 for part in parts)


def test_a_part_that_cannot_be_is_refused_in_a_line() -> None:
    for part in ("9/8", "0/8", "two"):
        run = _collected(part)
        assert run.returncode == 4
        assert f"ORCHESTRACE_PART is '{part}', expected k/n with k from 1 to n" in run.stderr + run.stdout
        assert "Traceback" not in run.stderr + run.stdout
