"""Commands that divide a verb among machines: plan, run-task, reduce."""

import importlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import polars as pl
import typer

from ... import distributed, read_corpus
from ...base.errors import ParameterError
from ...base.misfits import UnknownArgument
from ...base.text import counted, plain, plain_json
from ...distributed.folder import load_plan
from ...distributed.ingest_plan import INGEST
from ...distributed.judging import judge_plan
from ...distributed.tasks import Plan, TaskResult
from ..application import app
from ..options import Force, Json, Threads, grouped
from ..output import STOPPED
from ..scenarios import ScenarioOptions
from ..tables import show

_ARRAY: Final = "SLURM_ARRAY_TASK_ID"

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `plan` wrote.")]
Place = Annotated[
    str | None,
    typer.Option("--corpus", help="Folder or address of the corpus here; default: as it was planned."),
]


@app.command(name="plan")
@grouped
def plan_(
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
    """Divide a verb on a corpus on disk into tasks."""
    given = dict(map(_option, option or []))
    if taken := sorted(given.keys() & {"corpus", "verb", "folder", "tasks"}):
        raise ParameterError(f"'{taken[0]}' is an argument of plan itself, not of the verb")
    if changes.is_given and verb != "replay":
        raise ParameterError(f"options that change runs are of the verb replay, not of '{plain(verb)}'")
    asked = changes.scenarios() if verb == "replay" else []
    if verb == INGEST:
        given |= {} if memory is None else {"memory": memory}
        made = _planned(corpus, verb, folder=folder, tasks=tasks, **given)
    else:
        opened = read_corpus(corpus, memory=memory)
        made = _planned(opened, verb, *asked, folder=folder, tasks=tasks, **given)
    if as_json:
        told = {"id": made.id, "folder": made.folder, "tasks": len(made.tasks)}
        typer.echo(plain_json(json.dumps(told)))
        return
    typer.echo(f"planned {plain(verb)} as {counted(len(made.tasks), 'task')} in {plain(folder)}")
    last = len(made.tasks) - 1
    if last >= 0:
        typer.echo(f"run each: orchestrace run-task {plain(folder)} N, N from 0 to {last}")


def _planned(corpus: Any, verb: str, *asked: Any, **options: Any) -> Plan:
    """A plan; an argument that the verb does not take is a mistake of the command's user."""
    try:
        return distributed.plan(corpus, verb, *asked, **options)
    except UnknownArgument as error:
        raise ParameterError(f"--option: {error}") from None


@app.command(name="run-task")
@grouped
def run_task_(
    folder: Folder,
    numbers: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[N]...", help=f"Tasks: 3, 0-7, 1,4-6; default: ${_ARRAY}.", show_default=False
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tasks whose parts are not there.")] = False,
    engine: Annotated[str, typer.Option("--engine", help="With --all: processes or ray.")] = "processes",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="With --all: tasks at a time.")
    ] = None,
    address: Annotated[str | None, typer.Option("--address", help="With --all: a Ray cluster.")] = None,
    corpus: Place = None,
    threads: Threads = None,
    again: Annotated[bool, typer.Option("--again", help="Compute parts that are there.")] = False,
    module: Annotated[
        list[str] | None,
        typer.Option("--module", help="Of your own, to import first: it has the plan's method; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run tasks of a plan; parts that are there stay."""
    for name in module or []:
        _import(name)
    plan = load_plan(folder)
    if every:
        if numbers:
            raise ParameterError("--all runs every task: leave the numbers out")
        if again:
            raise ParameterError("--again is of single tasks: name them, or remove their parts")
        try:
            results = distributed.run(
                plan,
                engine=engine,  # type: ignore[arg-type]  # judged there
                workers=workers,
                threads=threads or 1,
                address=address,
                corpus=corpus,
                progress=True,
            )
        except KeyboardInterrupt:
            done = f"finished parts are in {plain(folder)}; run the same command again to resume"
            typer.echo(f"stopped: {done}", err=True)
            raise typer.Exit(STOPPED) from None
        _tell(results, as_json)
        return
    judge_plan(plan)
    for number in _numbers(numbers, plan):
        result = distributed.run_task(plan.tasks[number], corpus=corpus, threads=threads, again=again)
        _tell([result], as_json)


@app.command(name="reduce")
@grouped
def reduce_(
    folder: Folder,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Parquet file; default: say what is done.")
    ] = None,
    corpus: Place = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Join the parts of a plan to one table."""
    if output is None:
        states = distributed.status(folder)
        if as_json:
            typer.echo(plain_json(states.write_json()))
        else:
            show(states, f"tasks of {folder}", "tasks")
        return
    if output.suffix != ".parquet":
        raise ParameterError(f"output '{output}' must end in .parquet")
    table = distributed.reduce(folder, corpus=corpus, sink=output, overwrite=force)
    rows = table.select(pl.len()).collect().item()
    if as_json:
        typer.echo(plain_json(json.dumps({"output": os.fspath(output), "rows": rows})))
    else:
        typer.echo(f"wrote {plain(output)}: {counted(rows, 'row')}")


def _import(name: str) -> None:
    """Import a module that the caller names."""
    try:
        importlib.import_module(name)
    except (ImportError, ValueError, TypeError) as error:
        raise ParameterError(
            f"module '{plain(name)}' cannot be imported ({plain(error)}): install it, or put its folder into"
            " PYTHONPATH"
        ) from None


def _tell(results: list[TaskResult], as_json: bool) -> None:
    for one in results:
        if as_json:
            typer.echo(plain_json(json.dumps(asdict(one))))
        else:
            typer.echo(f"task {one.task}: {counted(one.rows, 'row')} in {plain(one.file)}")


def _numbers(given: list[str] | None, plan: Plan) -> list[int]:
    """The tasks that a command names, or those that Slurm does."""
    words = given or [word for word in [os.environ.get(_ARRAY, "")] if word]
    if not words:
        raise ParameterError(f"no task is named: give their numbers, --all, or set {_ARRAY}")
    found: list[int] = []
    for word in ",".join(words).split(","):
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ParameterError(f"task '{word}', expected a number, or a range like 0-7")
        found += range(int(first), int(last or first) + 1)
    most = len(plan.tasks)
    if beyond := [number for number in found if number >= most]:
        raise ParameterError(f"task {beyond[0]} is not in the plan, which has {counted(most, 'task')} from 0")
    return list(dict.fromkeys(found))


def _option(item: str) -> tuple[str, Any]:
    name, found, text = item.partition("=")
    if not found or not name:
        raise ParameterError(f"option '{item}', expected NAME=VALUE, an argument of the verb")
    try:
        return name, json.loads(text)
    except (ValueError, RecursionError):
        return name, text
