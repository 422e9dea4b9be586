"""Read recordings of any size into a corpus on disk, or resume."""

import json
from typing import Annotated, Final

import typer

from ... import ingest, read_corpus
from ...base.errors import InputError
from ...base.schema import TraceBy
from ...base.text import counted, plain
from ..options import Format, Json, MappingFile, NullValues, RecordingOptions, Scores, Strict, Threads
from ..output import STOPPED
from ..recordings import refuse_unused, report_quarantined
from ..registry import command
from ..tables import Columns, show
from ..values import null_values

EXAMPLES: Final = ("ingest runs.jsonl -o recordings",)
COLUMNS: Final = Columns("input importer status records used quarantined ignored duplicate", "size")


@command
def run(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, globs, folders, s3:// and the like.")
    ],
    out: Annotated[str, typer.Option("--output", "-o", help="Folder of the corpus, or s3:// and the like.")],
    memory: Annotated[
        str, typer.Option("--memory", help="Memory budget, beside the program itself.")
    ] = "2GiB",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Column that keeps traces together; repeatable.")
    ] = None,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, max=999)] = None,
    resume: Annotated[bool, typer.Option(help="Add to an existing corpus.")] = True,
    max_errors: Annotated[
        int | None, typer.Option("--max-errors", min=0, help="Stop beyond this many rejected records ...")
    ] = None,
    max_error_ratio: Annotated[
        float | None, typer.Option("--max-error-ratio", help="... if they are also more than this share.")
    ] = None,
    trace_by: Annotated[
        TraceBy | None, typer.Option("--trace-by", help="What becomes one trace: trace or conversation.")
    ] = None,
    reward_score: Scores = None,
    null_value: NullValues = None,
    format: Format = "auto",
    mapping: MappingFile = None,
    threads: Threads = None,
    as_json: Json = False,
    strict: Strict = False,
) -> None:
    try:
        done = ingest(
            paths,
            out,
            memory=memory,
            group=group,
            partitions=partitions,
            resume=resume,
            max_errors=max_errors,
            max_error_ratio=max_error_ratio,
            trace_by=trace_by,
            reward_scores=reward_score or (),
            null_values=null_values(null_value or ()),
            format=format,
            mapping=mapping,
            threads=threads,
            progress=True,
        )
    except KeyboardInterrupt:
        _report_stopped(out)
        raise typer.Exit(STOPPED) from None
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "records": done.records,
                    "inputs": done.inputs.to_dicts(),
                    "repaired": done.repaired,
                    "gone": done.gone.to_dicts(),
                }
            )
        )
    else:
        show(done.inputs, f"inputs of {done.path}", COLUMNS)
        typer.echo(", ".join(f"{count:,} {status}" for status, count in done.records.items()))
        if done.repaired:
            typer.echo(plain(f"damaged files, rebuilt: {', '.join(done.repaired)}"))
        if done.gone_line:
            typer.echo(done.gone_line)
    corpus = read_corpus(out)
    refuse_unused(corpus)
    report_quarantined(corpus, RecordingOptions([out]), strict)


def _report_stopped(out: str) -> None:
    """Say what is kept of an ingest that was stopped."""
    try:
        traces = len(read_corpus(out))
    except InputError:  # it was stopped before there was a corpus
        traces = 0
    state = f"{counted(traces, 'trace')} kept in {plain(out)}" if traces else "nothing is kept yet"
    typer.echo(f"stopped: {state}; run the same command again to resume", err=True)
