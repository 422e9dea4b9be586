"""Show what is worth knowing first, on one screen."""

from typing import Final

import typer

from ... import summary
from ...base.terminal import terminal_width
from ...base.text import plain_json
from ..options import (
    Json,
    LongestGap,
    PriceList,
    PrivilegedTools,
    StrictOptions,
    TrustedTools,
    UntrustedTools,
    gap_of,
    prices_of,
)
from ..recordings import report_quarantined, usable
from ..registry import command

EXAMPLES: Final = ("summary runs.jsonl",)


@command
def run(
    recordings: StrictOptions,
    max_gap: LongestGap = "auto",
    untrusted: UntrustedTools = None,
    trusted: TrustedTools = None,
    privileged: PrivilegedTools = None,
    prices: PriceList = "package",
    as_json: Json = False,
) -> None:
    corpus = usable(recordings)
    narrative = summary(
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
        typer.echo(plain_json(narrative.to_json()))
    else:
        typer.echo(narrative.text(recordings.words(), terminal_width() or 80))
    report_quarantined(corpus, recordings, recordings.strict)
