"""Run tasks of a plan; parts that are there stay."""

import importlib
import json
import os
from dataclasses import asdict
from typing import Annotated, Final

import typer

from ... import distributed
from ...base.errors import ParameterError
from ...base.text import counted, plain, plain_json
from ...distributed.folder import load_plan
from ...distributed.judging import judge_plan
from ...distributed.tasks import Plan, TaskResult
from ..options import Json, Place, PlanFolder, Threads
from ..output import STOPPED
from ..registry import command

EXAMPLES: Final = (
    "run-task plan 0",
    "run-task plan --all --workers 1",
)
_ARRAY: Final = "SLURM_ARRAY_TASK_ID"


@command
def run(
    folder: PlanFolder,
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
        _print_results(results, as_json)
        return
    judge_plan(plan)
    for number in _numbers(numbers, plan):
        result = distributed.run_task(plan.tasks[number], corpus=corpus, threads=threads, again=again)
        _print_results([result], as_json)


def _import(name: str) -> None:
    """Import a module that the caller names."""
    try:
        importlib.import_module(name)
    except (ImportError, ValueError, TypeError) as error:
        raise ParameterError(
            f"module '{plain(name)}' cannot be imported ({plain(error)}): install it, or put its folder into"
            " PYTHONPATH"
        ) from None


def _print_results(results: list[TaskResult], as_json: bool) -> None:
    for result in results:
        if as_json:
            typer.echo(plain_json(json.dumps(asdict(result))))
        else:
            typer.echo(f"task {result.task}: {counted(result.rows, 'row')} in {plain(result.file)}")


def _numbers(texts: list[str] | None, plan: Plan) -> list[int]:
    """The tasks that a command names, or those that Slurm does."""
    words = texts or [word for word in [os.environ.get(_ARRAY, "")] if word]
    if not words:
        raise ParameterError(f"no task is named: give their numbers, --all, or set {_ARRAY}")
    numbers: list[int] = []
    for word in ",".join(words).split(","):
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ParameterError(f"task '{word}', expected a number, or a range like 0-7")
        numbers += range(int(first), int(last or first) + 1)
    most = len(plan.tasks)
    if beyond := [number for number in numbers if number >= most]:
        raise ParameterError(f"task {beyond[0]} is not in the plan, which has {counted(most, 'task')} from 0")
    return list(dict.fromkeys(numbers))
