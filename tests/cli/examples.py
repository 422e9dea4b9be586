"""The examples that modules of commands give, and a folder that has the files which these name."""

import json
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

import orchestrace as ot
from cli.commands import recordings
from cli.test_stopping import scored
from orchestrace.cli import app
from orchestrace.cli.commands import command_names, module_of
from orchestrace.cli.tables import Columns
from orchestrace.corpus.samples import samples_path
from samples.chat_runs import sums, write_chats
from samples.labelled_runs import write_labelled
from samples.paired_runs import write_sides
from scaling.test_survey_evidence import BIBLIOGRAPHY, LEDGER, SPOT_CHECK, artifact

MODULES: dict[str, ModuleType] = {name: import_module(module_of(name)) for name in command_names()}
EXAMPLES: list[str] = [line for module in MODULES.values() for line in module.EXAMPLES]
STUDY = """
sizes = [{events = 12, agents = 3, traces = 40}]
presets = {additive = {outcome = "linear"}}
methods = ["flow"]
"""


@cache
def commands() -> dict[str, Any]:
    """All commands by their names; those of a group have its name before their own."""

    def inside(found: Any, *names: str) -> Iterator[tuple[str, Any]]:
        if hasattr(found, "commands"):
            for name, one in found.commands.items():
                yield from inside(one, *names, name)
        else:
            yield " ".join(names), found

    return dict(inside(typer.main.get_command(app)))


def command_of(line: str) -> str:
    """The command that a line calls."""
    return next(name for name in commands() if f"{line} ".startswith(f"{name} "))


def tables_of(module: ModuleType) -> list[Columns]:
    """What a module declares of the tables that it gives."""
    declared = getattr(module, "COLUMNS", {})
    return [declared] if isinstance(declared, Columns) else list(declared.values())


def words(line: str, folder: Path) -> list[str]:
    """The words of an example; the agent `lead` is the first of the recordings that are there."""
    found = shlex.split(line)
    if "lead" not in found:
        return found
    agents = ot.read_traces(folder / "runs.jsonl").agents.head(1).collect()["agent"]
    return [str(agents[0]) if word == "lead" else word for word in found]


def lay_out(folder: Path, runs: str = "recordings") -> None:
    """Write what the examples read, with recordings of one of three kinds as `runs.jsonl`."""
    broken = recordings(folder).rename(folder / "broken.jsonl")
    broken.write_text(broken.read_text() + '{"trace_id": 3}\n{"trace_id": "y", "events": [{}]}\nnoise\n')
    path = folder / "runs.jsonl"
    if runs == "samples":
        path.symlink_to(samples_path())
    elif runs == "generated":
        ot.generate(path, traces=8, seed=1)
    else:
        recordings(folder)
    scored(folder / "stops.jsonl", 80)
    ot.generate(folder / "attempts.jsonl", traces=64, seed=0)
    ot.synthetic.gamed("serial_collapse", tasks=4, seed=0)[0].write_jsonl(folder / "training.jsonl")
    write_chats(folder / "chats.jsonl", sums())
    write_labelled(folder / "labelled.jsonl", 40)
    write_labelled(folder / "failed.jsonl", 4, seed=1)
    write_sides(folder)
    ot.ingest(path, folder / "corpus", partitions=2)
    for name in ("plan", "finished"):
        ot.distributed.plan(folder / "corpus", "taint", folder=folder / name)
    ot.distributed.run(folder / "finished", workers=1)
    artifact(folder / "survey", flat=True, bib=BIBLIOGRAPHY, ledger=LEDGER, spot=SPOT_CHECK)
    (folder / "study.toml").write_text(STUDY)
    (folder / "dump.csv").write_text("step,prompt,reward,adv\n1,a,1,0.5\n1,a,0,-0.5\n")
    ot.study.run(folder / "study.toml", folder / "study", workers=0)
    house = {"trace": {"id": "/run"}, "steps": "/steps", "step": {"id": "/id", "kind": "/k"}}
    (folder / "house.json").write_text(json.dumps(house))
    step = {"id": "s" * 200, "k": "message", "what is " * 30: 1}
    (folder / "house.jsonl").write_text(json.dumps({"run": "r", "steps": [step], "more": {"n" * 90: 1}}))
