"""Run the engine with the lowest versions of what it depends on that pyproject.toml allows, and no others.

    python .ci/floors.py list                 the versions, one a line
    python .ci/floors.py run                  a virtual environment of these and the package, and a smoke run
    python .ci/floors.py run --package DIR    the same with the package of a folder, such as python/, built

Needs an index of packages; `make floors` runs it. The smoke run goes through every dependency: tables
(Polars), bootstrap (NumPy), fitted credit (SciPy, threadpoolctl), the command line (Typer, Rich).
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

SMOKE: Final = """
import contextlib, importlib.metadata, io, os, sys, tempfile, warnings
import orchestrace as ot
from orchestrace.cli import app
from typer.testing import CliRunner

warnings.simplefilter("ignore")
folder = tempfile.mkdtemp()
runs = os.path.join(folder, "runs.jsonl")
ot.generate(runs, traces=64, seed=0)
corpus = ot.read_traces(runs)
ot.ingest(runs, os.path.join(folder, "corpus"))
disk = ot.read_corpus(os.path.join(folder, "corpus"))
methods = ("uniform", "flow", "grpo", "gae", "shapley", "vdn", "rudder", "hca")
known = set(ot.list_methods()["name"])
for name in methods:
    if name in known:
        unit = "turn" if name in ("grpo", "gae", "rudder", "hca") else "agent"
        assert ot.credit(corpus, method=name, unit=unit).height > 0, name
assert ot.credit(disk, method="grpo", unit="turn").height > 0
assert ot.metrics(corpus, by="task").height > 0
assert ot.schedules.scaling_curve(corpus).height > 0
curve = ot.schedules.scaling_curve(corpus, slots=[1, 2, 4, 8])
assert ot.schedules.fit_scaling(curve)["alpha"].null_count() == 0
assert ot.summary(corpus).text("runs.jsonl", 80)
corpus.write_jsonl(os.path.join(folder, "out.jsonl"))
ot.export(corpus, "parquet", os.path.join(folder, "tables"))
for command in (["summary", runs], ["credit", runs], ["metrics", runs], ["methods"], ["--help"]):
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (command, done.output)
for name in sys.argv[1:]:
    print(name, importlib.metadata.version(name))
"""


def floors() -> dict[str, str]:
    """The lowest version of every runtime dependency.

    Raises
    ------
    SystemExit
        A dependency without a lowest or without a highest version.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {}
    for requirement in project["dependencies"]:
        told = re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+),<[0-9.]+", requirement)
        if told is None:
            raise SystemExit(f"floors: pyproject.toml: '{requirement}', expected name>=lowest,<next")
        found[told[1]] = told[2]
    return found


def run(package: Path | None) -> None:
    """Install the lowest versions and try the package with them."""
    lowest = floors()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, "venv")
        venv.create(place, with_pip=True)
        python = str(place / "bin" / "python")
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        pip = [
            python,
            "-P",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]
        subprocess.run([*pip, *(f"{n}=={v}" for n, v in lowest.items())], check=True, env=clean)
        if package is None:
            quick = clean | {"MATURIN_PEP517_ARGS": "--config .cargo/quick.toml"}
            command = [python, "-P", "-m", "pip", "install", "--quiet", "--no-deps", "."]
            subprocess.run(command, check=True, env=quick, cwd=ROOT)
        else:
            clean["PYTHONPATH"] = str(package.resolve())
        subprocess.run([python, "-P", "-m", "pip", "check"], check=True, env=clean)
        subprocess.run([python, "-P", "-c", SMOKE, *lowest], check=True, env=clean, cwd=scratch)


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["list", "run"])
    parser.add_argument("--package", type=Path)
    given = parser.parse_args()
    if given.command == "list":
        print("\n".join(f"{name}=={version}" for name, version in floors().items()))
        return
    try:
        run(given.package)
    except subprocess.CalledProcessError as error:
        sys.exit(f"floors: failed with {error.returncode}: {' '.join(error.cmd[:6])} ...")


if __name__ == "__main__":
    main()
