"""The command `orchestrace`: one verb per function of the library."""

import json
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from . import (
    __version__,
    aggregate_by,
    cli_values,
    compare,
    credit,
    drop,
    explain,
    export,
    generate,
    importers,
    ingest,
    methods,
    metrics,
    read_corpus,
    read_traces,
    replay,
    report,
    sanitizer_cut,
    survey,
    taint,
)
from .cli_frames import give, open_recordings, tell, tell_quarantined
from .cli_study import study_app
from .cli_values import credit_options, run_of
from .display import plain, plain_json
from .errors import OrchestraceError, ParameterError
from .export import default_name, export_size, exports, only_traces
from .publication import published_folder
from .samples import samples_path
from .schema import SCHEMAS, TraceBy
from .terminal import show, show_replays

FAILED, USAGE = 1, 2


class _Verbs(typer.core.TyperGroup):
    """Turns the errors of a user into one line and an exit code; bugs keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (OrchestraceError, OSError) as error:
            typer.echo(f"error: {plain(error)}", err=True)
            raise typer.Exit(USAGE if isinstance(error, ParameterError) else FAILED) from None


app = typer.Typer(
    cls=_Verbs,
    help="Measure recordings of multi-agent LLM runs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Paths = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Files, globs, folders; - is standard input.")
]
Recordings = Annotated[
    list[str], typer.Argument(metavar="PATH...", help="Files, globs, folders, or one corpus made by ingest.")
]
Format = Annotated[str, typer.Option("--format", help="Importer, or auto.")]
House = Annotated[
    Path | None, typer.Option("--mapping", help="TOML or JSON file that tells the fields of a house format.")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, max=1024, help="Default: all cores.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the table to this Parquet file.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 3 if records were quarantined.")]
Rewards = Annotated[list[str] | None, typer.Option("--reward", help="CHANNEL or CHANNEL=WEIGHT; repeatable.")]
Params = Annotated[list[str] | None, typer.Option("--param", "-P", help="NAME=VALUE; repeatable.")]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1)]


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the Parquet files.")] = Path(
        "orchestrace-demo"
    ),
    threads: Threads = None,
) -> None:
    """Read the sample corpus, show its tables, credit it by two methods, write everything as Parquet."""
    corpus = read_traces(samples_path(), threads=threads, progress=True)
    frames = {name: corpus._table(name).collect() for name in SCHEMAS}
    for method in ("flow", "grpo"):
        frames[f"credits_{method}"] = credit(corpus, method=method, unit="agent", threads=threads)
    for name, frame in frames.items():
        show(frame, f"{name}: {frame.height:,} rows", rows=5)
    show(report(corpus)["quarantine"], "quarantined, by code")
    records = corpus.records
    typer.echo(", ".join(f"{count} {what}" for what, count in records.items()))
    output.mkdir(parents=True, exist_ok=True)
    for name, frame in frames.items():
        frame.write_parquet(output / f"{name}.parquet")
    typer.echo(f"wrote {len(frames)} Parquet files to {plain(output)}")


@app.command()
def validate(
    paths: Paths,
    format: Format = "native",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Judge recordings by the published schema and the survey's rules; exit with 1 if any is invalid."""
    if mapping is not None and format == "native":
        format = "mapping"
    corpus = read_traces(paths, format=format, mapping=mapping, threads=threads, extras=False, progress=True)
    rejects, records = corpus.quarantine.collect(), corpus.records
    if as_json:
        typer.echo(plain_json(rejects.write_json()))
    else:
        for row in rejects.iter_rows(named=True):
            place = f" {row['path']}" if row["path"] else ""
            typer.echo(plain(f"{row['file']}:{row['line']}: {row['code']}{place}: {row['message']}"))
        typer.echo(f"{records['read']} traces: {records['used']} valid, {records['quarantined']} invalid")
    if records["quarantined"] or not records["read"]:
        raise typer.Exit(FAILED)


@app.command(name="ingest")
def ingest_(
    paths: Paths,
    out: Annotated[Path, typer.Option("--output", "-o", help="Folder of the corpus.")],
    memory: Annotated[
        str, typer.Option("--memory", help="What may be used beside the program itself.")
    ] = "2GiB",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Column that keeps traces together; repeatable.")
    ] = None,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, max=999)] = None,
    resume: Annotated[bool, typer.Option(help="Go on with a corpus that is there.")] = True,
    max_errors: Annotated[
        int | None, typer.Option("--max-errors", min=0, help="Stop beyond this many rejected records ...")
    ] = None,
    max_error_ratio: Annotated[
        float | None, typer.Option("--max-error-ratio", help="... if they are also more than this share.")
    ] = None,
    trace_by: Annotated[
        TraceBy | None, typer.Option("--trace-by", help="trace or conversation: what becomes one trace.")
    ] = None,
    reward_score: Annotated[
        list[str] | None, typer.Option("--reward-score", help="Score that is a reward; repeatable.")
    ] = None,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    strict: Strict = False,
) -> None:
    """Read recordings of any size into a corpus on disk, within a budget of memory; go on where it
    stopped."""
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
    if as_json:
        typer.echo(json.dumps({"records": done.records, "inputs": done.inputs.to_dicts()}))
    else:
        show(done.inputs, f"inputs of {done.path}", rows=20)
        typer.echo(", ".join(f"{count:,} {what}" for what, count in done.records.items()))
    tell_quarantined(read_corpus(out), strict)


@app.command()
def quarantined(
    paths: Recordings,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the records, one per line.")],
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
) -> None:
    """Write the rejected records as they stand, so that they can be mended and read again."""
    corpus = open_recordings(paths, format, mapping, threads)
    count = corpus.write_quarantined(output, overwrite=True)
    typer.echo(f"wrote {plain(output)}: {count:,} records")


@app.command(name="report")
def report_(
    paths: Recordings,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    strict: Strict = False,
) -> None:
    """Summarise recordings: sizes, origins, measures, findings, and what was quarantined and why."""
    corpus = open_recordings(paths, format, mapping, threads)
    tables = report(corpus)
    if as_json:
        tell(tables)
    else:
        for name, frame in tables.items():
            show(frame, name)
    tell_quarantined(corpus, strict)


@app.command(name="credit")
def credit_(
    paths: Recordings,
    method: Annotated[str, typer.Option("--method", help="See the command methods.")] = "flow",
    unit: Annotated[str, typer.Option("--unit", help="team, role, agent, turn, event, ...")] = "event",
    reward: Rewards = None,
    param: Params = None,
    seed: Seed = 0,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    sink: Annotated[
        Path | None, typer.Option("--sink", help="A folder for a result that is larger than memory.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with that folder.")] = False,
    strict: Strict = False,
) -> None:
    """Divide the reward among units."""
    corpus = open_recordings(paths, format, mapping, threads)
    options = credit_options(unit, reward, seed, param) | {"method": method, "threads": threads}
    if sink is not None:
        rows = credit(corpus, **options, progress=True, sink=sink, resume=resume)
        typer.echo(f"wrote {plain(sink)}: {rows.select(pl.len()).collect().item():,} rows")
    else:
        give(credit(corpus, **options, progress=True), f"credit by {method}", as_json, output)
    tell_quarantined(corpus, strict)


@app.command(name="compare")
def compare_(
    paths: Recordings,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="NAME or NAME:PARAM=VALUE,...; repeatable; default: all."),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="team, role, agent, turn, event, ...")] = "agent",
    reward: Rewards = None,
    seed: Seed = 0,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Run several credit methods over recordings and put their cost and agreement into one table."""
    corpus = open_recordings(paths, format, mapping, threads)
    options = credit_options(unit, reward, seed, None)
    runs = list(map(run_of, method)) if method else None
    table = compare(corpus, runs, **options, threads=threads, progress=True)
    give(table, "methods compared", as_json, output)
    tell_quarantined(corpus, strict)


@app.command(name="explain")
def explain_(
    paths: Recordings,
    unit_id: Annotated[str, typer.Option("--id", help="The unit whose credit is asked about.")],
    trace: Annotated[
        str | None,
        typer.Option("--trace", help="Its trace, by number or trace_id; needed if several have it."),
    ] = None,
    method: Annotated[str, typer.Option("--method", help="See the command methods.")] = "flow",
    unit: Annotated[str, typer.Option("--unit", help="team, role, agent, turn, event, ...")] = "agent",
    reward: Rewards = None,
    param: Params = None,
    seed: Seed = 0,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
) -> None:
    """Show what made the credit of one unit: events, edges, turns or rollouts, and the rule."""
    corpus = open_recordings(paths, format, mapping, threads)
    options = credit_options(unit, reward, seed, param)
    credits = credit(corpus, method=method, **options, threads=threads, progress=True)
    number = int(trace) if trace is not None and trace.isdecimal() else trace
    give(explain(corpus, credits, unit_id, number), f"credit of {unit_id} by {method}", as_json, output)


def _list_exports(asked: bool) -> None:
    if asked:
        for one in exports().iter_rows(named=True):
            typer.echo(f"{one['name']:<9} {one['summary']}")
        raise typer.Exit


@app.command(name="export")
def export_(
    paths: Recordings,
    to: Annotated[str, typer.Option("--to", help="A name of --list.")] = "perfetto",
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", help="A trace_id; repeatable; mermaid and dot need one of several."),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="FROM,TO: only what happens between, since a trace began.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file (parquet: the folder); else trace.json or the like."),
    ] = None,
    effects: Annotated[
        bool, typer.Option("--effects", help="Tell of every event what the outcome would be without it.")
    ] = False,
    method: Annotated[
        str | None,
        typer.Option("--method", help="Credit to tell; verl and trl: whose advantages, default grpo."),
    ] = None,
    unit: Annotated[
        str, typer.Option("--unit", help="verl, trl: turn, event or token; where credit is computed.")
    ] = "turn",
    per: Annotated[str, typer.Option("--per", help="verl, trl: turn, or token for lists.")] = "turn",
    reward: Rewards = None,
    param: Params = None,
    seed: Seed = 0,
    size: Annotated[bool, typer.Option("--size", help="Say how large it would be, write nothing.")] = False,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", min=0, help="Limit; 64 MiB for what viewers load.")
    ] = None,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    _listed: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list_exports, help="List what can be written.")
    ] = False,
) -> None:
    """Write recordings for other tools: native JSONL, Parquet, Perfetto, Mermaid, DOT, OCEL, trainers."""
    corpus = open_recordings(paths, format, mapping, threads)
    names = list(trace or []) or None
    if names and (effects or method):  # no other trace is asked about
        corpus = only_traces(corpus, names)
    options: dict[str, Any] = {"format": to, "trace_id": names, "threads": threads, "per": per}
    options["window"] = None if window is None else window.split(",")
    trains = to in ("verl", "trl")
    if method or trains:
        asked = credit_options(unit if trains else "event", reward, seed, param)
        options["credits"] = credit(corpus, method=method or "grpo", **asked, threads=threads)
    if effects:
        options["effects"] = replay(corpus, drop(each="event"), threads=threads)
    if size:
        typer.echo(str(export_size(corpus, **options)))
    else:
        file = file or default_name(to)
        written = export(corpus, path=file, **options, max_bytes=max_bytes, overwrite=True, progress=True)
        typer.echo(plain(f"{file}: {written:,} bytes"))


@app.command(name="replay")
def replay_(
    paths: Recordings,
    dropped: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            help="agent, role, tool, spawn, type=NAME; event, call, message=ID; edge='ID->ID'; repeatable.",
        ),
    ] = None,
    each: Annotated[
        list[str] | None,
        typer.Option(
            "--each",
            help="Drop every agent, event, role, tool, call, spawn, message or edge in turn; repeatable.",
        ),
    ] = None,
    mode: Annotated[str, typer.Option("--mode", help="subtree or node: what goes with what is dropped.")] = (
        "subtree"
    ),
    lost: Annotated[
        str, typer.Option("--lost", help="An event is lost with all or any of its inputs.")
    ] = "all",
    values: Annotated[
        list[str] | None, typer.Option("--set", help="agent=NAME:VALUE, event=ID:VALUE, ...; repeatable.")
    ] = None,
    truncated: Annotated[
        list[str] | None,
        typer.Option("--truncate", help="A time after the first event, or event=ID; repeatable."),
    ] = None,
    aggregate: Annotated[
        list[str] | None,
        typer.Option("--aggregate", help="best, majority, mean or confidence; repeatable."),
    ] = None,
    faster: Annotated[
        list[str] | None, typer.Option("--speed-up", help="tool=NAME:FACTOR, agent=NAME:2, ...; repeatable.")
    ] = None,
    slots: Annotated[
        str | None, typer.Option("--slots", help="Numbers of slots: 1,2,4,none (none: as many as needed).")
    ] = None,
    pool: Annotated[str, typer.Option("--pool", help="What takes a slot: all, agents or tools.")] = "all",
    at_once: Annotated[
        bool, typer.Option("--together", help="All of them at once, not one scenario each.")
    ] = False,
    outcome: Annotated[str, typer.Option("--outcome", help="noisy_or, typed, linear, max, ...")] = "noisy_or",
    quorum: Annotated[float, typer.Option("--quorum", help="Share that a majority needs more than.")] = 0.5,
    sensitivity: Annotated[bool, typer.Option(help="Bound the effects over seven families of gates.")] = True,
    program_order: Annotated[
        bool, typer.Option("--program-order", help="Join consecutive events of an owner.")
    ] = False,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Replay recordings with something changed: effects on the outcome or the schedule, with their tiers."""
    asked: list[Any] = [cli_values.dropped(item, mode, lost) for item in dropped or []]
    asked += [drop(each=level, mode=mode, lost=lost) for level in each or []]  # type: ignore[arg-type]  # judged there
    asked += map(cli_values.valued, values or [])
    asked += map(cli_values.truncated, truncated or [])
    asked += [aggregate_by(rule) for rule in aggregate or []]  # type: ignore[arg-type]  # judged there
    asked += map(cli_values.faster, faster or [])
    if slots is not None:
        asked.append(cli_values.slots(slots, pool))
    if not asked:
        raise ParameterError(
            "replay what? Name --drop, --each, --set, --truncate, --aggregate, --speed-up or --slots"
        )
    if at_once:
        asked = [reduce(and_, asked)]
    corpus = open_recordings(paths, format, mapping, threads)
    table = replay(
        corpus,
        *asked,
        outcome=outcome,  # type: ignore[arg-type]  # judged there
        quorum=quorum,
        sensitivity=sensitivity,
        program_order=program_order,
        threads=threads,
        progress=True,
    )
    if not as_json and output is None:
        show_replays(table, rows=50)
    else:
        give(table, "replayed", as_json, output)
    tell_quarantined(corpus, strict)


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
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Write a seeded corpus of valid recordings."""
    counts = generate(
        out,
        preset=preset,
        events=events,
        traces=traces,
        seed=seed,
        overwrite=True,
        threads=threads,
        progress=True,
    )
    summary = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    typer.echo(json.dumps(counts) if as_json else f"wrote {plain(out)}: {summary}")


@app.command(name="metrics")
def metrics_(
    paths: Recordings,
    by: Annotated[
        str, typer.Option("--by", help="trace, agent, role; or means by importer, topology, system, task.")
    ] = "importer",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group of metrics; repeatable; default: all linear.")
    ] = None,
    seed: Seed = 0,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Measure how runs were organised: efficiency, collaboration, overhead, safety."""
    corpus = open_recordings(paths, format, mapping, threads)
    key: Any = None if by == "trace" else by
    table = metrics(corpus, by=key, groups=group or None, seed=seed, threads=threads, progress=True)
    give(table, f"metrics by {by}", as_json, output)
    tell_quarantined(corpus, strict)


@app.command(name="taint")
def taint_(
    paths: Recordings,
    carry: Annotated[str, typer.Option("--carry", help="all, context or safety_flow.")] = "all",
    untrusted: Annotated[
        list[str] | None,
        typer.Option("--untrusted-tool", help="A tool whose results are untrusted; repeatable."),
    ] = None,
    cut: Annotated[bool, typer.Option("--cut", help="Where sanitisers would keep outcomes clean.")] = False,
    format: Format = "auto",
    mapping: House = None,
    threads: Threads = None,
    as_json: Json = False,
    output: Output = None,
    strict: Strict = False,
) -> None:
    """Follow untrusted content through recordings: what it reached, and where it could be stopped."""
    corpus = open_recordings(paths, format, mapping, threads)
    options: dict[str, Any] = {"carry": carry, "untrusted_tools": untrusted or (), "threads": threads}
    if cut:
        give(sanitizer_cut(corpus, **options, progress=True), "sanitisers", as_json, output)
    else:
        table = taint(corpus, **options, progress=True)
        shown = ["trace_id", "n_tainted", "taint_share", "outcome_tainted", "first_agent", "path", "reason"]
        plain_sight = not as_json and output is None
        give(table.select(shown) if plain_sight else table, "taint", as_json, output)
    tell_quarantined(corpus, strict)


@app.command(name="methods")
def methods_(as_json: Json = False, output: Output = None) -> None:
    """List the credit methods."""
    frame = methods()
    if not as_json and output is None:
        names = pl.col("params").list.eval(pl.element().struct["name"]).list.join(" ")
        frame = frame.select("name", "quantity", names, "summary", "reference")
    give(frame, "methods", as_json, output)


@app.command(name="importers")
def importers_(as_json: Json = False, output: Output = None) -> None:
    """List the formats that can be read."""
    give(importers(), "importers", as_json, output)


@app.command(name="survey")
def survey_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with papers.csv and excluded.csv.")],
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a Parquet file of each table to this folder.")
    ] = None,
) -> None:
    """Recompute the survey's statistics; show what of its taxonomy can be computed here."""
    tables = survey(path)
    if output is not None:
        with published_folder(output) as folder:
            for name, frame in tables.items():
                frame.write_parquet(folder / f"{name}.parquet")
        typer.echo(f"wrote {len(tables)} Parquet files to {plain(output)}", err=as_json)
    if as_json:
        tell(tables)
    elif output is None:
        for name, frame in tables.items():
            words = frame.with_columns(pl.col(pl.List(pl.String)).list.join(" "))
            show(words, f"{name}: {frame.height:,} rows", rows=20 if name == "cells" else None)


app.add_typer(study_app, name="study")


def main() -> None:
    """What the installed command runs."""
    app()
