"""Check recordings by the survey's checklist, or as a benchmark."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ..options import EngineOptions, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "checklist runs.jsonl",
    "checklist runs.jsonl --each",
    "checklist attempts.jsonl --benchmark --license CC-BY-4.0",
    "checklist corpus --benchmark --each --engine processes --workers 1",
)
COLUMNS: Final = {
    "checklist": Columns("item n_filled n_missing fix", "area share found"),
    "each": Columns("trace_id item filled fix", "trace area found"),
    "benchmark": Columns("rule verdict numbers reason", "asks"),
    "counts": Columns("rule part n_traces n_tasks share needed", "lacks fix"),
}


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    benchmark: Annotated[
        bool, typer.Option("--benchmark", help="Verdicts on the survey's rules for benchmarks, B1 to B5.")
    ] = False,
    each: Annotated[
        bool, typer.Option("--each", help="A row per trace and item; of --benchmark the counts per part.")
    ] = False,
    share: Annotated[
        float | None,
        typer.Option("--share", help="Of --benchmark: how much has to meet a rule; default 0.9."),
    ] = None,
    width: Annotated[
        float | None,
        typer.Option("--width", help="Of --benchmark: widest interval in a stratum; default 0.2."),
    ] = None,
    license_name: Annotated[
        str | None, typer.Option("--license", help="Of --benchmark: the license of the recordings.")
    ] = None,
) -> None:
    running = engine.running(recordings.threads)
    options = {"share": share, "width": width, "license": license_name}
    chosen: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if not benchmark:
        if engine.engine is not None:
            chosen["engine"] = engine.engine
        for name in chosen:
            raise ParameterError(f"--{name} has no effect without --benchmark: add it, or drop --{name}")
    elif each and (idle := [name for name in ("share", "license") if name in chosen]):
        raise ParameterError(f"--{idle[0]} has no effect on the counts: drop it, or --each")
    corpus = usable(recordings)
    if not benchmark:
        kind = "each" if each else "checklist"
        table.give(evaluation.report_checklist(corpus, by_trace=each), "checklist", COLUMNS[kind])
    elif each:
        counts = evaluation.benchmark_counts(corpus, **chosen, **running)
        table.give(counts, "benchmark, part by part", COLUMNS["counts"])
    else:
        verdicts = evaluation.benchmark_verdict(corpus, **chosen, **running)
        table.give(verdicts, "benchmark", COLUMNS["benchmark"])
    report_quarantined(corpus, recordings, recordings.strict)
