"""Write one HTML page of runs that opens offline in a browser."""

from pathlib import Path
from typing import Annotated, Final

import typer

from ... import view
from ...base.paths import path_of
from ...base.publication import refuse_existing
from ...base.text import counted, plain
from ...view.verb import MAX_BYTES
from ..browser import open_page
from ..options import (
    Force,
    LongestGap,
    PriceList,
    PrivilegedTools,
    RewardOptions,
    StrictOptions,
    TrustedTools,
    UntrustedTools,
    gap_of,
    prices_of,
)
from ..recordings import report_quarantined, usable
from ..registry import command
from ..values import weights

EXAMPLES: Final = ("view runs.jsonl -o page.html",)
VIEW_FILE: Final = Path("view.html")
"""Name of the page where no option names it."""


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    file: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output file; default: view.html.", show_default=False),
    ] = None,
    force: Force = False,
    opened: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="Credit method; repeatable; default: flow, difference, grpo."),
    ] = None,
    runs: Annotated[int, typer.Option("--runs", min=0, help="Runs with all details, at most.")] = 30,
    trace: Annotated[
        list[str] | None, typer.Option("--trace", help="A run with all details, instead; repeatable.")
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="Embed the records of events, which may be private.")
    ] = False,
    max_gap: LongestGap = "auto",
    untrusted: UntrustedTools = None,
    trusted: TrustedTools = None,
    privileged: PrivilegedTools = None,
    prices: PriceList = "package",
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=0, help="Size of the page, at most.")
    ] = MAX_BYTES,
) -> None:
    file = file or VIEW_FILE
    if not force:
        refuse_existing(path_of(file))
    corpus = usable(recordings, rewards)
    page = view(
        corpus,
        file,
        methods=method or None,
        reward=weights(rewards.reward or ["team"]),
        runs=runs,
        trace_id=list(trace or []) or None,
        text=text,
        max_gap=gap_of(max_gap),
        untrusted_tools=untrusted or (),
        trusted_tools=trusted or (),
        privileged_tools=privileged or (),
        prices=prices_of(prices),
        max_bytes=max_bytes,
        overwrite=force,
        threads=recordings.threads,
        progress=True,
    )
    typer.echo(plain(f"{file}: {counted(page.n_detailed, 'run')} in detail, {page.bytes:,} bytes"))
    for sentence in page.left_out:
        typer.echo(sentence)
    if opened:
        open_page(path_of(file))
    report_quarantined(corpus, recordings, recordings.strict)
