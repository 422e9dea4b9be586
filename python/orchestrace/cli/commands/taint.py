"""Follow untrusted content: what it reached, where to stop it."""

from typing import Annotated, Any, Final

import polars as pl
import typer

from ... import taint
from ...base.errors import ParameterError
from ...safety import attack_vectors, sanitizer_cut
from ..options import EngineOptions, MemoryTools, PrivilegedTools, StrictOptions, TrustedTools, UntrustedTools
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
) -> None:
    if cut and privileged:
        raise ParameterError(
            "--privileged-tool has no effect with --cut, which concerns the outcome: drop one of them"
        )
    if cut and vectors:
        raise ParameterError("--cut and --vectors are two tables: drop one of them")
    if memory and not vectors:
        raise ParameterError("--memory-tool has no effect without --vectors: add it, or drop --memory-tool")
    corpus = usable(recordings)
    options: dict[str, Any] = {"carry": carry, "untrusted_tools": untrusted or ()}
    options |= {"trusted_tools": trusted or (), **engine.running(recordings.threads)}
    if cut:
        table.give(sanitizer_cut(corpus, **options), "sanitizers", COLUMNS["cut"])
    elif vectors:
        rows = attack_vectors(corpus, privileged_tools=privileged or (), memory_tools=memory or (), **options)
        table.give(rows.filter(pl.col("n_events") > 0), "attack vectors", COLUMNS["vectors"])
    else:
        rows = taint(corpus, privileged_tools=privileged or (), **options)
        table.give(rows, "taint", COLUMNS["privileged" if privileged else "taint"])
    report_quarantined(corpus, recordings, recordings.strict)
