"""Show where two runs part, or what changed task by task."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import polars as pl
import typer

from ... import view
from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ...base.paths import path_of
from ...base.publication import refuse_existing
from ...base.text import counted, plain
from ...corpus.corpus import Corpus
from ..differences import parting_story, run_of
from ..options import Format, MappingFile, RecordingOptions, RewardOptions, Strict, Threads
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights, word

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "diff runs.jsonl --run-a 0 --run-b 1 --page two.html",
    "diff attempts.jsonl runs.jsonl --success 0.5",
    "diff runs.jsonl runs.jsonl --sort -change --limit 5",
)
COLUMNS: Final = {
    "steps": Columns("agent edit seq_a seq_b step"),
    "tasks": Columns(
        "task_id pass_rate_a pass_rate_b change similarity step_a step_b", "label share alike n_a n_b reason"
    ),
}
_AROUND: Final = 2
"""Equal steps that are shown before and after those that differ."""


@command
def run(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A file, glob, folder or corpus.", show_default=False)
    ],
    rewards: RewardOptions,
    table: TableOptions,
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Another one; default: A.", show_default=False)
    ] = None,
    run_a: Annotated[str | None, typer.Option("--run-a", help="A run of A, by number or trace_id.")] = None,
    run_b: Annotated[str | None, typer.Option("--run-b", help="A run of B.")] = None,
    key: Annotated[str, typer.Option("--key", help="Equal steps: shape, or exact (texts too).")] = "shape",
    order: Annotated[
        str, typer.Option("--order", help="lanes: agent by agent; canonical: in the order of time.")
    ] = "lanes",
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    full: Annotated[bool, typer.Option("--full", help="Of two runs also all steps that are equal.")] = False,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page that has two runs of A side by side.")
    ] = None,
    format: Format = "auto",
    mapping: MappingFile = None,
    threads: Threads = None,
    strict: Strict = False,
) -> None:
    keys: Literal["shape", "exact"] = word(key, "--key", ("shape", "exact"))
    orders: Literal["lanes", "canonical"] = word(order, "--order", ("lanes", "canonical"))
    read = [RecordingOptions([path], format, mapping, threads) for path in dict.fromkeys((a, b or a))]
    corpora = [usable(recordings, rewards) for recordings in read]
    sides = corpora[0], corpora[-1]
    paid: dict[str, Any] = {"reward": weights(rewards.reward or ["team"]), "success": success}
    options: dict[str, Any] = {"key": keys, "order": orders, "threads": threads}
    if b is None and (run_a is None or run_b is None):
        raise ParameterError(
            f"{plain(a)} has {counted(len(sides[0]), 'run')}: name two of them with --run-a and --run-b, or"
            " give other recordings"
        )
    runs = [run_of(*of_side) for of_side in zip(sides, (run_a, run_b), ("--run-a", "--run-b"), strict=True)]
    if page is not None and (None in runs or b not in (None, a)):
        raise ParameterError(
            "--page shows two runs of one input: name them with --run-a and --run-b, without B"
        )
    if page is not None and not table.force:
        refuse_existing(path_of(page))
    if None not in runs:
        pair = pl.DataFrame(
            {"trace_a": [runs[0]], "trace_b": [runs[1]]}, schema={"trace_a": pl.UInt32, "trace_b": pl.UInt32}
        )
        script = _two_runs(sides, pair, paid, options, table, full=full)
        if page is not None:
            _write_page(page, sides[0], script, paid["reward"], table)
    elif run_a is not None or run_b is not None:
        raise ParameterError(
            "one run is named and the other is not: give both --run-a and --run-b, or neither"
        )
    else:
        frame = evaluation.task_differences(sides[0], sides[1], **paid, **options, progress=True)
        both = frame.filter(pl.col("reason").is_null())
        changed = both.filter(pl.col("change") != 0.0)
        typer.echo(
            f"{counted(both.height, 'task')} in both, {counted(frame.height - both.height, 'task')} in one or"
            f" not comparable; pass rates differ in {changed.height:,}",
            err=True,
        )
        table.give(frame, "tasks", COLUMNS["tasks"])
    for corpus, recordings in zip(corpora, read, strict=True):
        report_quarantined(corpus, recordings, strict)


def _two_runs(
    sides: tuple[Corpus, Corpus],
    pair: pl.DataFrame,
    paid: dict[str, Any],
    options: dict[str, Any],
    table: TableOptions,
    *,
    full: bool,
) -> pl.DataFrame:
    aligned = evaluation.align(sides[0], sides[1], pairs=pair, **paid, **options)
    script = evaluation.edit_script(sides[0], sides[1], pairs=pair, **options)
    for line in parting_story(sides, aligned, script):
        typer.echo(plain(line), err=True)
    agent = (
        pl.when(pl.col("ordinal") > 0)
        .then(pl.concat_str("label", pl.lit(" "), pl.col("ordinal") + 1))
        .otherwise("label")
    )
    differs = pl.col("edit") != "same"
    near = pl.max_horizontal(
        differs.cast(pl.Int8).shift(by, fill_value=0).over("label", "ordinal")
        for by in range(-_AROUND, _AROUND + 1)
    )
    steps = script.with_columns(
        agent=agent, step=pl.concat_str("type", "tool", separator=" ", ignore_nulls=True), near=near > 0
    )
    table.give((steps if full else steps.filter("near")).drop("near"), "steps", COLUMNS["steps"])
    return script


def _write_page(page: Path, corpus: Corpus, script: pl.DataFrame, reward: Any, table: TableOptions) -> None:
    """The page of the two runs, which have a tab in which they stand side by side."""
    traces = {*script["trace_a"].to_list(), *script["trace_b"].to_list()}
    both = corpus.filter(pl.col("trace").is_in(traces))
    written = view(both, page, reward=reward, beside=script, overwrite=table.force)
    typer.echo(plain(f"{page}: {counted(written.n_detailed, 'run')} side by side"), err=True)
