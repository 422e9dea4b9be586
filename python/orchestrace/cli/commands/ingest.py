"""Commands that read, judge and generate recordings."""

import json
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from .. import credit, generate, importers, ingest, read_corpus, read_traces, report, story, view
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.publication import write_parquet, write_text
from ..base.schema import SCHEMAS, TraceBy
from ..base.terminal import terminal_width
from ..base.text import counted, plain, plain_json
from ..corpus.parts import table_of
from ..corpus.samples import samples_path
from .application import app
from .browser import open_page
from .options import (
from ... import credit, generate, importers, ingest, read_corpus, read_traces, report, story, view
from ...base.errors import InputError, ParameterError
from ...base.paths import path_of
from ...base.publication import write_parquet, write_text
from ...base.schema import SCHEMAS, TraceBy
from ...base.terminal import terminal_width
from ...base.text import counted, plain, plain_json
from ...corpus.samples import samples_path
from ..application import app
from ..browser import open_page
from ..options import (
    Force,
    Format,
    House,
    Json,
    LongestGap,
    PriceList,
    PrivilegedTools,
    RecordingOptions,
    Scores,
    Seed,
    Strict,
    StrictOptions,
    Threads,
    TrustedTools,
    UntrustedTools,
    gap_of,
    grouped,
    prices_of,
)
from ..output import FAILED, STOPPED
from ..recordings import opened, refuse_unused, tell_quarantined, usable
from ..tables import TableOptions, print_line, show, tell

_DEMO: Final = ".orchestrace-demo"
"""Marks a folder that the command demo made, and may write to again."""
_DEMO_PAGE: Final = "runs.html"


@app.command(name="demo")
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the Parquet files.")] = Path(
        "orchestrace-demo"
    ),
    force: Force = False,
    opened_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    threads: Threads = None,
) -> None:
    """Read and credit the sample corpus; write tables and a page."""
    folder = _demo_folder(output, force)
    corpus = read_traces(samples_path(), threads=threads, progress=True)
    frames = {name: table_of(corpus, name).collect() for name in SCHEMAS}
    for method in ("flow", "grpo"):
        frames[f"credits_{method}"] = credit(corpus, method=method, unit="agent", threads=threads)
    for name, frame in frames.items():
        show(frame, name, "credit" if name.startswith("credits") else name, limit=5, rest="")
    show(report(corpus)["quarantine"], "quarantined, by code", "report quarantine", rest="")
    typer.echo(", ".join(f"{count} {what}" for what, count in corpus.records.items()))
    write_text("", folder / _DEMO)
    for name, frame in frames.items():
        write_parquet(frame, folder / f"{name}.parquet", overwrite=True)
    typer.echo(f"wrote {len(frames)} Parquet files to {plain(output)}\n")
    samples = shlex.quote(str(samples_path()))
    typer.echo(story(corpus, threads=threads).text(samples, terminal_width() or 80))
    view(corpus, folder / _DEMO_PAGE, overwrite=True, threads=threads)
    if opened_page:
        open_page(folder / _DEMO_PAGE)
    again = shlex.join(["orchestrace", "demo", "-o", str(output), "--open"])
    typer.echo(f"\nA page of the runs is in {plain(output / _DEMO_PAGE)}. To open it in a browser:")
    typer.echo(f"$ {plain(again)}")


def _demo_folder(output: Path, force: bool) -> Path:
    folder = path_of(output)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"'{output}' is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if not force and not (folder / _DEMO).exists() and any(folder.iterdir()):
        raise InputError(f"the demo did not make folder '{output}'; give --force to write into it")
    return folder


@app.command(name="validate")
@grouped
def validate(recordings: RecordingOptions, as_json: Json = False) -> None:
    """List rejected records and why; exit with 1 if there are any."""
    corpus = opened(recordings, extras=False)
    rejects, records = corpus.quarantine.collect(), corpus.records
    if as_json:
        typer.echo(plain_json(rejects.write_json()))
    else:
        for row in rejects.iter_rows(named=True):
            place = f" {row['path']}" if row["path"] else ""
            print_line(f"{row['file']}:{row['line']}: {row['code']}{place}: {row['message']}")
        counts = [f"{count:,} {what}" for what, count in records.items() if count and what != "read"]
        traces = counted(len(corpus), "trace")
        typer.echo(f"{counted(records['read'], 'record')}: {', '.join(counts) or 'none'}; {traces}")
    if records["quarantined"] or not records["used"]:
        raise typer.Exit(FAILED)


@app.command(name="story")
@grouped
def story_(
    recordings: StrictOptions,
    max_gap: LongestGap = "auto",
    untrusted: UntrustedTools = None,
    trusted: TrustedTools = None,
    privileged: PrivilegedTools = None,
    prices: PriceList = "package",
    as_json: Json = False,
) -> None:
    """Show what is worth knowing first, on one screen."""
    corpus = usable(recordings)
    told = story(
        corpus,
        max_gap=gap_of(max_gap),
        untrusted_tools=untrusted or (),
        trusted_tools=trusted or (),
        privileged_tools=privileged or (),
        prices=prices_of(prices),
        threads=recordings.threads,
        progress=True,
    )
    if as_json:
        typer.echo(plain_json(told.to_json()))
    else:
        typer.echo(told.text(recordings.words(), terminal_width() or 80))
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="ingest")
@grouped
def ingest_(
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
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    strict: Strict = False,
) -> None:
    """Read recordings of any size into a corpus on disk, or resume."""
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
            format=format,
            mapping=mapping,
            threads=threads,
            progress=True,
        )
    except KeyboardInterrupt:
        _tell_stopped(out)
        raise typer.Exit(STOPPED) from None
    if as_json:
        typer.echo(
            json.dumps({"records": done.records, "inputs": done.inputs.to_dicts(), "repaired": done.repaired})
        )
    else:
        show(done.inputs, f"inputs of {done.path}", "ingest")
        typer.echo(", ".join(f"{count:,} {what}" for what, count in done.records.items()))
        if done.repaired:
            typer.echo(plain(f"damaged files, rebuilt: {', '.join(done.repaired)}"))
    corpus = read_corpus(out)
    refuse_unused(corpus)
    tell_quarantined(corpus, RecordingOptions([out]), strict)


def _tell_stopped(out: str) -> None:
    """Say what is kept of an ingest that was stopped."""
    try:
        traces = len(read_corpus(out))
    except InputError:  # it was stopped before there was a corpus
        traces = 0
    kept = f"{counted(traces, 'trace')} kept in {plain(out)}" if traces else "nothing is kept yet"
    typer.echo(f"stopped: {kept}; run the same command again to resume", err=True)


@app.command(name="quarantined")
@grouped
def quarantined(
    recordings: RecordingOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the records, one per line.")],
    force: Force = False,
) -> None:
    """Write rejected records to a file, where you can repair them."""
    corpus = opened(recordings)
    if not corpus.records["quarantined"]:
        refuse_unused(corpus, recordings)
    count = corpus.write_quarantined(output, overwrite=force)
    typer.echo(f"wrote {plain(output)}: {counted(count, 'record')}")


@app.command(name="report")
@grouped
def report_(recordings: StrictOptions, as_json: Json = False) -> None:
    """Summarize recordings: sizes, origins, measures, what is odd."""
    corpus = opened(recordings)
    tables = report(corpus)
    if as_json:
        tell(tables)
    else:
        for name, frame in tables.items():
            if frame.height:
                show(frame, name, f"report {name}")
    refuse_unused(corpus, recordings)
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="importers")
@grouped
def importers_(table: TableOptions) -> None:
    """List the formats that can be read."""
    table.give(importers(), "importers", "importers")


@app.command(name="generate")
def generate_(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSONL file to write.")],
    preset: Annotated[str, typer.Option("--preset")] = "mixed",
    events: Annotated[
        int | None, typer.Option("--events", min=1, max=10**12, help="About how many events in all.")
    ] = None,
    traces: Annotated[
        int | None, typer.Option("--traces", min=1, max=10**12, help="How many traces.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write a seeded corpus of valid recordings."""
    if events is not None and traces is not None:
        raise ParameterError("give --traces or --events, not both")
    counts = generate(
        out,
        preset=preset,
        events=events,
        traces=traces,
        seed=seed,
        overwrite=force,
        threads=threads,
        progress=True,
    )
    summary = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    typer.echo(json.dumps(counts) if as_json else f"wrote {plain(out)}: {summary}")
