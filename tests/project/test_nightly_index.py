"""`make nightly` ends with what it ran and how long that took."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_night_ends_with_its_index() -> None:
    file = "tests/statistics/test_one_sided.py"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "nightly or not nightly", "-p", "no:cacheprovider", file],
        cwd=ROOT,
        env=os.environ | {"ORCHESTRACE_NIGHTLY": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    (n_passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert re.findall(rf"^ +[\d,]+ s +([\d,]+) cases  {file}$", done.stdout, re.M) == [n_passed]
