"""Say whether a change made agents worse, for a CI system.

The exit code is the verdict over all metrics: 0 pass, 1 fail, 2 inconclusive. 4 is an error: the sides are no
fair comparison, or an option or a file is wrong.
"""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

import polars as pl
import typer

from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ...base.paths import path_of
from ...base.publication import published_file, refuse_existing
from ...base.text import plain
from ...corpus.corpus import Corpus
from ...corpus.table_files import read_table
from ..gate_reports import junit_of, line_of, markdown_of, verdict_of
from ..options import Format, MappingFile, RecordingOptions, RewardOptions, Seed, Threads
from ..recordings import usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights, word

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "gate base.jsonl new.jsonl --margin 0.2",
    "gate base.jsonl new.jsonl --metric success --metric tokens --margin 0.2 --margin tokens=0.5",
    "gate base.jsonl new.jsonl --inject 0.2",
    "gate base.jsonl new.jsonl --margin 0.2 --junit gate.xml --markdown gate.md --force",
)
COLUMNS: Final = {
    "gate": Columns(
        "metric verdict difference lower upper margin more_tasks",
        "n_tasks base new p_noninferior p_superior p_worse detectable",
    ),
    "power": Columns("metric effect passed failed inconclusive stderr", "n_tasks draws reason"),
}
ERROR_EXIT: Final = 4
"""Of an error: 1 and 2 are verdicts."""
_EXITS: Final = {"pass": 0, "fail": 1, "inconclusive": 2}
_POWER: Final = 0.8
Broken = Literal["refuse", "failed"]


@command
def run(
    base: Annotated[str, typer.Argument(metavar="BASE", help="Runs before the change: as PATH elsewhere.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="Runs of the same tasks after it.")],
    rewards: RewardOptions,
    table: TableOptions,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric", help="success, reward, tokens, seconds, dollars, or METRIC:lower; repeatable."
        ),
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            "--margin", help="How much worse is tolerated: NUMBER or METRIC=NUMBER. [default: 0.02]"
        ),
    ] = None,
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    alpha: Annotated[float, typer.Option("--alpha", help="Rate of false alarms, one-sided.")] = 0.05,
    power: Annotated[float, typer.Option("--power", help="Of what is announced.")] = _POWER,
    looks: Annotated[int, typer.Option("--looks", min=1, max=20, help="Looks that are planned.")] = 1,
    look: Annotated[int | None, typer.Option("--look", min=1, max=20, help="Which this is.")] = None,
    broken: Annotated[
        str, typer.Option("--broken", help="Runs without an outcome: refuse, or failed.")
    ] = "refuse",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            help="A check to leave out: tasks, model, harness, attempts, missing, copies; repeatable.",
        ),
    ] = None,
    inject: Annotated[
        float | None,
        typer.Option("--inject", help="Show instead how often a worsening of this size would be seen."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=1, help="With --inject: comparisons.")] = 1000,
    seed: Seed = 0,
    junit: Annotated[Path | None, typer.Option("--junit", help="Write JUnit XML to this file.")] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Write a summary to this file, or add it to one.")
    ] = None,
    format: Format = "auto",
    mapping: MappingFile = None,
    threads: Threads = None,
) -> None:
    options: dict[str, Any] = {
        "metric": metric or ["success"],
        "margin": _margins(margin, metric or ["success"]),
        "reward": weights(rewards.reward or ["team"]),
        "success": success,
        "alpha": alpha,
        "looks": looks,
        "look": look,
        "broken": word(broken, "--broken", get_args(Broken)),
        "allow": allow or [],
    }
    if inject is not None and (junit or markdown):
        raise ParameterError("--junit and --markdown are of a verdict, not of --inject: leave them out")
    if junit is not None and not table.force:
        refuse_existing(path_of(junit))
    sides = [_side(path, RecordingOptions([path], format, mapping, threads), rewards) for path in (base, new)]
    if inject is not None:
        frame = evaluation.gate_power(*sides, effect=inject, draws=draws, seed=seed, **options)
        table.give(frame, "how often the gate decides", COLUMNS["power"])
        return
    frame = evaluation.gate(*sides, power=power, **options)
    for row in frame.rows(named=True):
        typer.echo(plain(line_of(row, power)), err=True)
    if junit is not None:
        with published_file(path_of(junit), overwrite=table.force) as file:
            file.write(junit_of(frame, power))
    if markdown is not None:
        with path_of(markdown).open("a", encoding="utf-8") as summary:
            summary.write(markdown_of(frame, power))
    table.give(frame, "metrics", COLUMNS["gate"])
    raise typer.Exit(_EXITS[verdict_of(frame)])


def _side(path: str, recordings: RecordingOptions, rewards: RewardOptions) -> Corpus:
    """The recordings of one side, with those of the rewards in a file of both that are theirs."""
    corpus = usable(recordings, replace(rewards, rewards=None))
    if rewards.rewards is None:
        return corpus
    frame = read_table(path_of(rewards.rewards), "rewards")
    if "trace_id" not in frame.columns:
        raise ParameterError(f"{plain(rewards.rewards)}: no column 'trace_id', which both sides need")
    names = corpus.traces.select(pl.col("trace_id").cast(pl.String)).collect(engine="streaming")
    ours = frame.with_columns(pl.col("trace_id").cast(pl.String)).join(names, on="trace_id", how="semi")
    if ours.is_empty():
        raise ParameterError(f"{plain(rewards.rewards)}: it has no run of {plain(path)}")
    return corpus.with_measures(ours)


def _margins(words: list[str] | None, metrics: list[str]) -> dict[str, float]:
    """The margin of each metric: a number is that of all that have none of their own."""
    common = 0.02
    margins: dict[str, float] = {}
    for text in words or []:
        name, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            raise ParameterError(
                f"--margin has '{number}', expected a number, or NAME=NUMBER for one metric"
            ) from None
        if sign:
            margins[name] = value
        else:
            common = value
    return {**dict.fromkeys(metrics, common), **margins}
