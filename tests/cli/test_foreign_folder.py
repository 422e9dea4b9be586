"""A folder of recordings may have any file in it: whatever command runs there, no module of it is run."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import orchestrace as ot
from cli.examples import EXAMPLES, STUDY, lay_out, words

pytestmark = [pytest.mark.process, pytest.mark.every_nth(1)]

MORE = ["run-task reading --all", "reduce reading --corpus joined -o read.parquet"]
"""Behind the examples, one of which has made what these read."""

DRIVER = """
import json, sys
from pathlib import Path
from orchestrace.cli import app
sys.argv[0] = "orchestrace"
for words in json.loads(sys.argv[1]):
    try:
        app(words, prog_name="orchestrace")
    except SystemExit as ended:
        code = ended.code or 0
    print(json.dumps([words, code, Path("marks").exists()]), file=sys.stderr)
"""


def importable() -> set[str]:
    """Names under which anything of Python or of installed packages is imported."""
    names = {
        *sys.stdlib_module_names,
        *importlib.metadata.packages_distributions(),
        "sitecustomize",
        "usercustomize",
    }
    names |= {name.partition(".")[0] for name in sys.modules}
    names |= {name.rpartition(".")[2] for name in sys.modules if name.startswith("orchestrace")}
    return {name for name in names if name.isidentifier()} - {"__main__"}


def write_modules(folder: Path) -> None:
    """A module of each name, which leaves a mark in the folder where it is run."""
    mark = folder / "marks"
    for name in sorted(importable() - {path.stem for path in folder.glob("*.py")}):
        (folder / f"{name}.py").write_text(f"open({os.fspath(mark)!r}, 'a').write({name!r} + chr(10))\n")


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of recordings with a module of every name."""
    lay_out(tmp_path, "generated")
    write_modules(tmp_path)
    return tmp_path


def started(folder: Path, *words: str, path: str = "") -> "subprocess.CompletedProcess[str]":
    """A Python that is started in a folder, and imports this package from where the tests do."""
    package = os.fspath(Path(ot.__file__).parents[1])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment | {"PYTHONPATH": f"{path}{package}"},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_no_command_runs_code_of_the_folder_in_which_it_is_started(foreign: Path) -> None:
    calls = [words(line, foreign) for line in (*EXAMPLES, *MORE)]
    done = started(foreign, "-P", "-c", DRIVER, json.dumps(calls))
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('[["')]
    assert [call for call, _, _ in told] == calls, done.stderr
    for call, _, is_marked in told:
        assert not is_marked, (call, (foreign / "marks").read_text())
    assert [call for call, code, _ in told if code != 0] == [], done.stderr


TESTS = os.fspath(Path(__file__).parents[1])
FOLDERS = (
    "from orchestrace.base.children import import_folders; import json; print(json.dumps(import_folders()))"
)
WAYS: dict[str, tuple[list[str], str]] = {
    "-c": (["-c", FOLDERS], ""),
    "-m": (["-m", "asked"], ""),
    "an empty entry of PYTHONPATH": (["-P", "-c", FOLDERS], os.pathsep),
    "a relative entry of PYTHONPATH": (["-P", "-c", FOLDERS], f".{os.pathsep}"),
    "a changed folder": (["-c", f"import os; os.chdir('runs'); {FOLDERS}"], ""),
    "a relative entry": (["-P", "-c", f"import sys; sys.path.insert(0, 'runs'); {FOLDERS}"], ""),
    "a link to it": (
        ["-P", "-c", f"import os, sys; sys.path.insert(0, os.path.abspath('link')); {FOLDERS}"],
        "",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_current_folder_is_none_that_workers_import_from(tmp_path: Path, way: str) -> None:
    """However Python puts it among those that it imports from itself."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "asked.py").write_text(FOLDERS)
    words, path = WAYS[way]
    done = started(tmp_path, *words, path=path)
    assert done.returncode == 0, done.stderr
    found = [os.path.realpath(one) for one in json.loads(done.stdout)]
    here = os.path.realpath(tmp_path)
    assert not {"", ".", here, os.path.join(here, "runs")} & {*found, *json.loads(done.stdout)}
    assert os.path.realpath(Path(ot.__file__).parents[1]) in found


def test_the_current_folder_stays_where_somebody_chose_it(tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text(FOLDERS)
    for call, path in ((["asked.py"], ""), (["-P", "-c", FOLDERS], f"{tmp_path}{os.pathsep}")):
        done = started(tmp_path, *call, path=path)
        assert os.path.realpath(tmp_path) in map(os.path.realpath, json.loads(done.stdout)), done.stderr


OWN = """
import polars as pl
import orchestrace as ot

@ot.credit_method("own_of_folder", summary="the same for each event", quantity="share")
def own(corpus, rewards, params, seed):
    events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    return ot.EventValues(events.select(value=pl.col("amount") / pl.len().over("trace")).collect())
"""
USE = f"""
import sys
from pathlib import Path
import own_methods
sys.path.append({TESTS!r})
import orchestrace as ot
from cli.test_foreign_folder import write_modules

def credited(unit):
    engine = ot.distributed.processes(workers=1)
    return ot.credit(ot.read_corpus("corpus"), method="own_of_folder", unit=unit, engine=engine).height

credited("team")
ot.study.run("study.toml", "first", workers=1)
write_modules(Path.cwd())  # now that this process has imported all that it needs
print(credited("agent") + ot.study.run("study.toml", "second", workers=1).height)
"""


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("way", ["a script of another folder", "-c", "-m"])
def test_workers_find_the_module_of_a_method_and_nothing_else_of_its_folder(tmp_path: Path, way: str) -> None:
    """The folder of a method that the caller has imported stands behind all that is installed."""
    ot.generate(tmp_path / "runs.jsonl", traces=8, seed=1)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    (tmp_path / "study.toml").write_text(STUDY)
    home = tmp_path / "scripts" if way.startswith("a script") else tmp_path
    home.mkdir(exist_ok=True)
    (home / "own_methods.py").write_text(OWN)
    (home / "used.py").write_text(USE)
    words = {"-c": ["-c", USE], "-m": ["-m", "used"]}.get(way, [os.fspath(home / "used.py")])
    done = started(tmp_path, *words)
    assert done.returncode == 0 and int(done.stdout) > 0, done.stderr
    assert not (tmp_path / "marks").exists(), (tmp_path / "marks").read_text()
