"""Follow untrusted content: what it reached, where to stop it."""

from typing import Annotated, Any

import typer

from ... import taint
from ...base.errors import ParameterError
from ...safety import sanitizer_cut
from ..options import (
    EngineOptions,
    PrivilegedTools,
    StrictOptions,
    TrustedTools,
    UntrustedTools,
)
from ..recordings import tell_quarantined, usable
from ..registry import command
from ..tables import TableOptions


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    carry: Annotated[str, typer.Option("--carry", help="all, context or safety_flow.")] = "all",
    untrusted: UntrustedTools = None,
    trusted: TrustedTools = None,
    privileged: PrivilegedTools = None,
    cut: Annotated[
        bool, typer.Option("--cut", help="Show where sanitizers would keep outcomes clean.")
    ] = False,
) -> None:
    if cut and privileged:
        raise ParameterError(
            "--privileged-tool has no effect with --cut, which concerns the outcome: drop one of them"
        )
    corpus = usable(recordings)
    options: dict[str, Any] = {"carry": carry, "untrusted_tools": untrusted or ()}
    options |= {"trusted_tools": trusted or (), **engine.running(recordings.threads)}
    if cut:
        table.give(sanitizer_cut(corpus, **options), "sanitizers", "taint cut")
    else:
        found = taint(corpus, privileged_tools=privileged or (), **options)
        table.give(found, "taint", "taint privileged" if privileged else "taint")
    tell_quarantined(corpus, recordings, recordings.strict)
