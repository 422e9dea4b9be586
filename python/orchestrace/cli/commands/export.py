"""Write recordings for viewers, process mining and trainers."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ... import credit, export, replay
from ...base.errors import InputError
from ...base.paths import path_of
from ...base.publication import refuse_existing
from ...base.text import plain
from ...exports.targets import EXPORTS
from ...exports.verb import default_name, export_size, list_exports, only_traces
from ...interventions import drop
from ..options import Force, Params, RewardOptions, Seed, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..values import credit_options

EXAMPLES: Final = (
    "export runs.jsonl --to jsonl -o out.jsonl",
    "export --list",
)


def _list_exports(wanted: bool) -> None:
    if wanted:
        for row in list_exports().iter_rows(named=True):
            typer.echo(f"{row['name']:<9} {row['summary']}")
        raise typer.Exit


def _secret(path: Path) -> bytes:
    try:
        return path_of(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    to: Annotated[str, typer.Option("--to", help="Target; --list shows all.")] = "perfetto",
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", help="A trace_id; repeatable; a chart needs one of several."),
    ] = None,
    window: Annotated[
        str | None, typer.Option("--window", help="FROM,TO: only events between these times of a trace.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Output file (parquet: folder); default: trace.json or the like."
        ),
    ] = None,
    force: Force = False,
    effects: Annotated[
        bool, typer.Option("--effects", help="Show for every event what the outcome would be without it.")
    ] = False,
    method: Annotated[
        str | None,
        typer.Option("--method", help="Credit to show; for trainers: whose advantages, default grpo."),
    ] = None,
    unit: Annotated[
        str,
        typer.Option("--unit", help="For trainers: turn, event or token; where credit is computed."),
    ] = "turn",
    per: Annotated[str, typer.Option("--per", help="Of trainer tables: turn, or token for lists.")] = "turn",
    param: Params = None,
    seed: Seed = 0,
    anonymize: Annotated[
        Path | None,
        typer.Option(
            "--anonymize",
            help="A file with a secret of 16 bytes or more: names become pseudonyms (jsonl, parquet).",
        ),
    ] = None,
    size: Annotated[
        bool, typer.Option("--size", help="Print the size it would have; write nothing.")
    ] = False,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", min=0, help="Size limit; 64 MiB for viewers.")
    ] = None,
    listed: Annotated[
        bool, typer.Option("--list", is_eager=True, callback=_list_exports, help="List the targets.")
    ] = False,
) -> None:
    file = file or default_name(to)
    if not (force or size):
        refuse_existing(path_of(file))
    corpus = usable(recordings, rewards)
    names = list(trace or []) or None
    if names and (effects or method):  # no other trace is asked about
        corpus = only_traces(corpus, names)
    options: dict[str, Any] = {"format": to, "trace_id": names, "threads": recordings.threads, "per": per}
    secret = None if anonymize is None else _secret(anonymize)
    options["window"] = None if window is None else window.split(",")
    trains = EXPORTS[to].scope == "corpus" and "credits" in EXPORTS[to].options
    if method or trains:
        settings = credit_options(unit if trains else "event", rewards.reward, seed, param)
        options["credits"] = credit(corpus, method=method or "grpo", **settings, threads=recordings.threads)
    if effects:
        options["effects"] = replay(corpus, drop(each="event"), threads=recordings.threads)
    if size:
        typer.echo(str(export_size(corpus, **options)))
    else:
        limits: dict[str, Any] = {"max_bytes": max_bytes, "overwrite": force, "progress": True}
        written = export(corpus, path=file, **options, anonymize=secret, **limits)
        typer.echo(plain(f"{file}: {written:,} bytes"))
    report_quarantined(corpus, recordings, recordings.strict)
