"""The first page of the documents, pasted into a shell as a newcomer would."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .test_release import sourced
from .test_supply_chain import ROOT

LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "target", "*.so", "__pycache__", "dist"
)
"""What a checkout has that no clone has."""


def pasted(lines: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What the commands print, in a folder."""
    done = subprocess.run(
        ["sh", "-ec", "\n".join(lines)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout


def looked_at(folder: Path, printed: str) -> None:
    assert "44 records: 37 used, 7 quarantined" in printed
    page = (folder / "view.html").read_text(encoding="utf-8")
    assert "<html" in page and "trace-00000009" in page


def test_the_first_page_leads_to_a_page_of_runs(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    lines = sourced("releases").first_page()
    assert len(lines) == 3, "the page promises three commands"
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    looked_at(tmp_path, pasted(lines[1:], tmp_path, os.environ | {"PATH": programs}))


@pytest.mark.nightly
def test_the_first_page_works_in_an_empty_environment(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=LEFT_OUT)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    bare = {name: told for name, told in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    bare["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    looked_at(checkout, pasted(sourced("releases").first_page(), checkout, bare))


@pytest.mark.nightly
@pytest.mark.parametrize("active", [False, True], ids=["no environment", "an active environment"])
def test_the_commands_of_the_readme_work_as_typed(tmp_path: Path, active: bool) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=LEFT_OUT)
    left_out = ("PYTHON", "PYTEST", "VIRTUAL_ENV", "CONDA", "CARGO_TARGET", "ORCHESTRACE_NIGHTLY")
    bare = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    if active:
        subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
        bare["VIRTUAL_ENV"] = str(tmp_path / "venv")
        bare["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    block = re.search(r"^```sh\n(.*?)^```$", (checkout / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    demo, tests = [line.partition("#")[0].strip() for line in block[1].splitlines()]
    printed = pasted([demo], checkout, bare)
    (page,) = re.findall(r"orchestrace-demo/\S+\.html", printed)
    assert "<html" in (checkout / page).read_text(encoding="utf-8")
    assert re.search(r"\d+ passed", pasted([tests], checkout, bare))
    assert (checkout / ".venv").exists() != active
