"""No bytes of a Parquet or Arrow file end the process, and each file is counted: damaged rows are a finding.

`ORCHESTRACE_ROWS` is how many damaged files are read (1,000; `make nightly`: 1,000,000), on all cores.
"""

import collections
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("damaged_rows.py")
AT_A_TIME = 5_000


def tally(folder: Path, files: int) -> collections.Counter[str]:
    """What became of so many damaged files, each process reading the next ones."""

    def read(first: int) -> collections.Counter[str]:
        mark = folder / f"at-{first}"
        count = min(AT_A_TIME, files - first)
        command = [sys.executable, str(SCRIPT), str(first), str(count), str(mark)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        at = mark.read_text().strip() if mark.exists() else "none"
        why = f"file {at} ended the process with {done.returncode}: {done.stderr[-2000:]}"
        assert done.returncode == 0, why
        return collections.Counter(json.loads(done.stdout))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(pool.map(read, range(0, files, AT_A_TIME)), collections.Counter())


def check(found: collections.Counter[str], files: int) -> None:
    assert found.total() == files
    outcomes = {kind.rpartition(": ")[2] for kind in found}
    assert {"read", "quarantined"} <= outcomes <= {"read", "quarantined", "an error"}
    assert len({kind.partition(": ")[0] for kind in found}) == 8, "every kind of damage"


def test_damaged_files_of_rows(tmp_path: Path) -> None:
    check(tally(tmp_path, 1_000), 1_000)


@pytest.mark.nightly
def test_many_damaged_files_of_rows(tmp_path: Path) -> None:
    files = int(os.environ.get("ORCHESTRACE_ROWS", "1000000"))
    check(tally(tmp_path, files), files)
