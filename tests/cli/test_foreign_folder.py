"""A folder of recordings may have any file in it: whatever command runs there, no module of it is run."""

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import orchestrace as ot
from orchestrace.cli import app

pytestmark = [pytest.mark.process, pytest.mark.every_nth(1)]

CALLS: dict[str, list[list[str]]] = {
    "agents": [["runs.jsonl"]],
    "codes": [["graph.cycle"]],
    "compare": [["corpus", "--method", "flow", "--engine", "processes", "--workers", "1"]],
    "costs": [["runs.jsonl"]],
    "credit": [["runs.jsonl"], ["corpus", "--engine", "processes", "--workers", "1"]],
    "decisions": [["runs.jsonl", "--kind", "stop"]],
    "demo": [["-o", "demo"]],
    "explain": [["runs.jsonl", "--id", "orchestrator", "--trace", "trace-00000001"]],
    "export": [["runs.jsonl", "--to", "perfetto", "--trace", "trace-00000001", "-o", "out.json"]],
    "generate": [["--traces", "4", "made.jsonl"]],
    "importers": [[]],
    "ingest": [["runs.jsonl", "-o", "other"]],
    "mapping check": [["mapping.json", "runs.jsonl"]],
    "methods": [[]],
    "metrics": [["runs.jsonl"], ["corpus", "--engine", "processes", "--workers", "1"]],
    "plan": [
        ["corpus", "taint", "-o", "planned"],
        ["runs.jsonl", "ingest", "-O", "out=joined", "-o", "reading"],
    ],
    "quarantined": [["bad.jsonl", "-o", "out.jsonl"]],
    "run-task": [["planned", "0"], ["planned", "--all", "--workers", "1"], ["reading", "--all"]],
    "reduce": [
        ["planned"],
        ["planned", "-o", "t.parquet"],
        ["reading", "--corpus", "joined", "-o", "i.parquet"],
    ],
    "replay": [["corpus", "--each", "agent", "--engine", "processes", "--workers", "1"]],
    "report": [["runs.jsonl"]],
    "rewards": [["corpus", "--rule", "parl", "--engine", "processes", "--workers", "1"]],
    "stopping abort": [["runs.jsonl"]],
    "stopping epochs": [["runs.jsonl"]],
    "stopping evaluate": [["runs.jsonl"]],
    "stopping frontier": [["runs.jsonl", "--price", "0"]],
    "stopping regret": [["runs.jsonl"]],
    "story": [["runs.jsonl"]],
    "study run": [["study.toml", "-o", "study"], ["study.toml", "-o", "again", "--engine", "processes"]],
    "study report": [["study"]],
    "survey": [["pool.csv"]],
    "taint": [["corpus", "--engine", "processes", "--workers", "1"]],
    "validate": [["bad.jsonl"]],
    "view": [["runs.jsonl", "-o", "page.html"]],
}
"""Calls of every command, in an order in which each finds what it reads; all that have workers start some."""
EMPTY = {"mapping check", "survey", "validate"}
"""Commands that end with an error, since these recordings lack what they measure."""

SHORT_STUDY = """
sizes = [{events = 12, agents = 3, traces = 40}]
presets = {additive = {outcome = "linear"}}
methods = ["flow"]
"""

GROUPS = {name.split()[0] for name in CALLS if " " in name}

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


def commands(found: Any, *names: str) -> Iterator[str]:
    """The names of all commands, those of groups after the group."""
    if hasattr(found, "commands"):
        for name, one in found.commands.items():
            yield from commands(one, *names, name)
    else:
        yield " ".join(names)


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
    ot.generate(tmp_path / "runs.jsonl", traces=8, seed=1)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=2)
    (tmp_path / "bad.jsonl").write_text("noise\n")
    (tmp_path / "mapping.json").write_text(
        json.dumps({"trace": {"id": "/trace_id"}, "step": {"kind": "/type"}})
    )
    (tmp_path / "pool.csv").write_text("a\n1\n")
    (tmp_path / "study.toml").write_text(SHORT_STUDY)
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


def test_every_command_is_tried() -> None:
    assert set(CALLS) == set(commands(typer.main.get_command(app)))


def test_no_command_runs_code_of_the_folder_in_which_it_is_started(foreign: Path) -> None:
    calls = [[*name.split(), *words] for name in CALLS for words in CALLS[name]]
    done = started(foreign, "-P", "-c", DRIVER, json.dumps(calls))
    told = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('[["')]
    assert [words for words, _, _ in told] == calls, done.stderr
    for words, _, is_marked in told:
        assert not is_marked, (words, (foreign / "marks").read_text())
    failed = {" ".join(words[: 1 + (words[0] in GROUPS)]) for words, code, _ in told if code != 0}
    assert failed == EMPTY, done.stderr


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
    for words, path in ((["asked.py"], ""), (["-P", "-c", FOLDERS], f"{tmp_path}{os.pathsep}")):
        done = started(tmp_path, *words, path=path)
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
    (tmp_path / "study.toml").write_text(SHORT_STUDY)
    home = tmp_path / "scripts" if way.startswith("a script") else tmp_path
    home.mkdir(exist_ok=True)
    (home / "own_methods.py").write_text(OWN)
    (home / "used.py").write_text(USE)
    words = {"-c": ["-c", USE], "-m": ["-m", "used"]}.get(way, [os.fspath(home / "used.py")])
    done = started(tmp_path, *words)
    assert done.returncode == 0 and int(done.stdout) > 0, done.stderr
    assert not (tmp_path / "marks").exists(), (tmp_path / "marks").read_text()
