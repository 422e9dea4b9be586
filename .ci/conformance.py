"""Run the plug-ins inside the trainers themselves, one environment each, and say what held.

    python .ci/conformance.py [verl trl verifiers skyrl]   all, where none is named

Needs an index of packages, some 4 GB on disk for each trainer that brings torch, and this package built in
`python/` (`make develop`). It is not a part of `.ci/run`: trainers change without us. Environments stay in
`target/conformance` and are used again. What the audit says of each trainer's estimators goes to
`benches/results/conformance.json`, of which `python .ci/pages.py write` makes the table of the documents.
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
TRAINERS: Final = {
    "verl": [
        "verl==0.9.1",
        "torch",
        "pillow",
        "cachetools",
        "uvicorn",
        "fastapi",
        "pyzmq",
        "msgspec",
        "aiohttp",
    ],
    "trl": ["trl==1.16.0"],
    "verifiers": ["verifiers==0.4.0", "tokenizers", "transformers"],
    "skyrl": [
        "skyrl==0.3.0",
        "torch",
        "ray",
        "loguru",
        "jaxtyping",
        "omegaconf",
        "tensordict",
        "hydra-core",
        "tqdm",
        "accelerate",
        "torchdata",
        "func_timeout",
    ],
}
"""What is installed of each; verl and SkyRL say less than they import."""
PYTHONS: Final = {"skyrl": "python3.12"}
"""Interpreters of trainers that do not import in ours; else this one."""
RESULTS: Final = ROOT / "benches" / "results" / "conformance.json"
ALONE: Final = {"verl": ["TransferQueue"], "skyrl": ["skyrl-gym==0.4.0"]}
"""What is installed without what it depends on."""
TESTS: Final = ["pytest", "hypothesis"]
BESIDE: Final = {
    "verl": ["tests/trainers/test_verl_estimators.py", "tests/trainers/test_trainer_table.py"],
    "trl": ["tests/trainers/test_trainer_table.py"],
}
"""Other tests that a trainer has to be installed for."""


def python_of(trainer: str) -> Path:
    """The interpreter of an environment that has the trainer, made where it is not there."""
    folder = ROOT / "target" / "conformance" / trainer
    python = folder / "bin" / "python"
    if not python.exists():
        made_by = PYTHONS.get(trainer, sys.executable)
        if shutil.which(made_by) is None:
            raise FileNotFoundError(f"there is no {made_by} on PATH")
        subprocess.run([made_by, "-P", "-m", "venv", str(folder)], check=True)
    with (ROOT / "pyproject.toml").open("rb") as file:
        ours = tomllib.load(file)["project"]["dependencies"]
    install = [str(python), "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *TRAINERS[trainer], *ours, *TESTS], check=True)
    if trainer in ALONE:
        subprocess.run([*install, "--no-deps", *ALONE[trainer]], check=True)
    return python


def record(trainer: str, python: Path, found: Path) -> None:
    """Put verdicts into the results, with the versions that they are of."""
    code = f"import sys, importlib.metadata as m; print(m.version('{trainer}'), *sys.version_info[:2])"
    version, major, minor = subprocess.check_output([str(python), "-P", "-c", code], text=True).split()
    stated = {
        "version": version,
        "python": f"{major}.{minor}",
        "on": datetime.now(UTC).date().isoformat(),
        "verdicts": json.loads(found.read_text(encoding="utf-8")),
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    results[trainer] = stated
    text = json.dumps(dict(sorted(results.items())), indent=1)
    RESULTS.write_text(text + "\n", encoding="utf-8")


def main() -> int:
    """Run the tests of each trainer that is named; 1 where one fails or could not be installed."""
    named = sys.argv[1:] or list(TRAINERS)
    if unknown := sorted(set(named) - set(TRAINERS)):
        print(f"no trainer is called '{unknown[0]}', expected {', '.join(TRAINERS)}", file=sys.stderr)
        return 2
    failed = []
    for trainer in named:
        try:
            python = python_of(trainer)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            print(f"{trainer}: could not be installed: {error}", file=sys.stderr)
            failed.append(trainer)
            continue
        tests = [f"tests/conformance/test_{trainer}.py", *BESIDE.get(trainer, [])]
        options = ["-o", "addopts=", "-W", "ignore", "-q", "-rs"]
        command = [str(python), "-P", "-m", "pytest", *options, *tests]
        place = os.pathsep.join(map(str, (ROOT / "python", ROOT / "tests")))
        folder = python.parents[2]
        found = folder / f"{trainer}.json"
        found.unlink(missing_ok=True)
        own = {"PYTHONPATH": place, "ORCHESTRACE_CONFORMANCE": str(folder)}
        if subprocess.run(command, env={**os.environ, **own}, cwd=ROOT, check=False).returncode:
            failed.append(trainer)
        elif found.exists():
            record(trainer, python, found)
    print(f"conformance: {len(named) - len(failed)} of {len(named)} trainers hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
