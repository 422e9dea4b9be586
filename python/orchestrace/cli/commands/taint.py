"""Follow untrusted content: what it reached, where to stop it."""

from typing import Annotated, Any, Final

import polars as pl
import typer

from ... import taint
from ...base.errors import ParameterError
from ...base.text import counted
from ...safety import attack_vectors, sanitizer_cut
from ..options import (
    EngineOptions,
    MemoryTools,
    PrivilegedTools,
    StrictOptions,
    TrustedTools,
    UntrustedTools,
    Verifiers,
)
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions

EXAMPLES: Final = (
    "taint runs.jsonl",
    "taint runs.jsonl --privileged-tool '*'",
    "taint runs.jsonl --cut",
    "taint runs.jsonl --vectors",
    "taint corpus --engine processes --workers 1",
)
COLUMNS: Final = {
    "taint": Columns(
        "trace_id outcome_tainted n_tainted taint_share path", "first_agent reason time_to_privileged_call"
    ),
    "privileged": Columns(
        "trace_id n_tainted_privileged privileged_path n_seeds reason",
        "first_privileged_call time_to_privileged_call outcome_tainted n_tainted",
    ),
    "cut": Columns("trace_id event_id agent type cost reason"),
    "vectors": Columns(
        "trace_id vector name n_events n_events_lower entry path", "n_seeds first_event reason task_id"
    ),
}


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
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Show which attack vectors AV1 to AV8 there is a way of.")
    ] = False,
    memory: MemoryTools = None,
    verifiers: Verifiers = None,
) -> None:
    if cut and privileged:
        raise ParameterError(
            "--privileged-tool has no effect with --cut, which concerns the outcome: drop one of them"
        )
    if cut and vectors:
        raise ParameterError("--cut and --vectors are two tables: drop one of them")
    for option, names in (("--memory-tool", memory), ("--verifier", verifiers)):
        if names and not vectors:
            raise ParameterError(f"{option} has no effect without --vectors: add it, or drop {option}")
    corpus = usable(recordings)
    options: dict[str, Any] = {"carry": carry, "untrusted_tools": untrusted or ()}
    options |= {"trusted_tools": trusted or (), **engine.running(recordings.threads)}
    if cut:
        table.give(sanitizer_cut(corpus, **options), "sanitizers", COLUMNS["cut"])
    elif vectors:
        options |= {"memory_tools": memory or (), "verifiers": verifiers or ()}
        rows = attack_vectors(corpus, privileged_tools=privileged or (), **options)
        _report_undecided(rows)
        # on a terminal what is undecided is in the lines above
        counts = pl.col("n_events").fill_null(0 if table.is_plain else 1)
        table.give(rows.filter(counts > 0), "attack vectors", COLUMNS["vectors"])
    else:
        rows = taint(corpus, privileged_tools=privileged or (), **options)
        table.give(rows, "taint", COLUMNS["privileged" if privileged else "taint"])
    report_quarantined(corpus, recordings, recordings.strict)


def _report_undecided(rows: pl.DataFrame) -> None:
    """Say of how many runs the recording does not say whether there is a way."""
    undecided = rows.filter(pl.col("reason").is_not_null())
    reasons = undecided.group_by("vector", maintain_order=True).agg(
        runs=pl.len(), reason=pl.col("reason").cast(pl.String).unique(maintain_order=True).str.join(", ")
    )
    for vector, runs, reason in reasons.sort("vector").iter_rows():
        typer.echo(f"{vector} cannot be decided in {counted(runs, 'run')} ({reason})", err=True)
