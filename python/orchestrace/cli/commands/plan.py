"""Divide a verb on a corpus on disk into tasks."""

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ... import distributed, read_corpus
from ...base.errors import ParameterError
from ...base.misfits import UnknownArgument
from ...base.text import counted, plain, plain_json
from ...distributed.ingest_plan import INGEST
from ...distributed.tasks import Plan
from ..options import Json
from ..registry import command
from ..scenarios import ScenarioOptions

EXAMPLES: Final = (
    "plan corpus taint -o tasks",
    "plan runs.jsonl ingest -O out=joined -o reading",
)


@command
def run(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS", help="Folder or address that `ingest` made; of the verb ingest, recordings."
        ),
    ],
    verb: Annotated[str, typer.Argument(metavar="VERB", help="credit, replay, metrics, taint, ...")],
    changes: ScenarioOptions,
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the plan and its parts.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", help="NAME=VALUE, an argument of the verb; repeatable."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", help="Budget of a task; default: that of the last ingest.")
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks", min=1, help="At most this many tasks; default: one per piece.")
    ] = None,
    as_json: Json = False,
) -> None:
    options = dict(map(_option, option or []))
    if taken := sorted(options.keys() & {"corpus", "verb", "folder", "tasks"}):
        raise ParameterError(f"'{taken[0]}' is an argument of plan itself, not of the verb")
    if changes.changes_runs and verb != "replay":
        raise ParameterError(f"options that change runs are of the verb replay, not of '{plain(verb)}'")
    scenarios = changes.scenarios() if verb == "replay" else []
    if verb == INGEST:
        options |= {} if memory is None else {"memory": memory}
        plan = _planned(corpus, verb, folder=folder, tasks=tasks, **options)
    else:
        opened = read_corpus(corpus, memory=memory)
        plan = _planned(opened, verb, *scenarios, folder=folder, tasks=tasks, **options)
    if as_json:
        summary = {"id": plan.id, "folder": plan.folder, "tasks": len(plan.tasks)}
        typer.echo(plain_json(json.dumps(summary)))
        return
    typer.echo(f"planned {plain(verb)} as {counted(len(plan.tasks), 'task')} in {plain(folder)}")
    last = len(plan.tasks) - 1
    if last >= 0:
        typer.echo(f"run each: orchestrace run-task {plain(folder)} N, N from 0 to {last}")


def _planned(corpus: Any, verb: str, *arguments: Any, **options: Any) -> Plan:
    """A plan; an argument that the verb does not take is a mistake of the command's user."""
    try:
        return distributed.plan(corpus, verb, *arguments, **options)
    except UnknownArgument as error:
        raise ParameterError(f"--option: {error}") from None


def _option(item: str) -> tuple[str, Any]:
    name, sign, text = item.partition("=")
    if not sign or not name:
        raise ParameterError(f"option '{item}', expected NAME=VALUE, an argument of the verb")
    try:
        return name, json.loads(text)
    except (ValueError, RecursionError):
        return name, text
