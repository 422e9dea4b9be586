"""What each published format lets `metrics` say: the table of docs/metrics.md.

    ORCHESTRACE_CORPORA=... python benches/python/recorded_metrics.py

A row per metric, a column per format: the mean over its traces, or why there is none. Nothing is timed and
everything is exact: the same files give the same table.
"""

import os
import sys
from pathlib import Path

import polars as pl

import orchestrace as ot

#: Folders of the corpora whose formats carry whole runs, by the importer that reads them.
FORMATS = {
    "tau_bench": "tau-bench",
    "agentdojo": "agentdojo",
    "trail": "trail",
    "claude_code": "claude-code",
    "codex": "codex",
    "inspect": "inspect-ai",
    "otel": "otel-kagent",
    "swe_agent": "swe-agent",
    "langfuse": "langfuse",
    "who_and_when": "who-and-when",
}


def told(row: dict[str, object]) -> str:
    """A mean, with the share of traces that have it where that is not all."""
    n, missing = int(str(row["n_traces"])), int(str(row["n_null"]))
    if not n:
        return str(row["reason"] or "-")
    share = "" if not missing else f" ({100 * n / (n + missing):.0f} %)"
    return f"{float(str(row['mean'])):.3g}{share}"


def main() -> None:
    root = os.environ.get("ORCHESTRACE_CORPORA")
    if not root:
        sys.exit("set ORCHESTRACE_CORPORA to the folder of the published corpora")
    columns: dict[str, dict[str, str]] = {}
    sizes: dict[str, int] = {}
    units: dict[str, dict[str, str]] = {}
    for name, folder in FORMATS.items():
        corpus = ot.read_traces(Path(root) / folder)
        # a folder may hold labels or tasks in other formats beside its runs
        kind = corpus.traces.group_by("importer").len().sort("len").collect()["importer"][-1]
        of_kind = corpus.filter(pl.col("importer") == kind)
        sizes[name] = len(of_kind)
        rows = ot.metrics(of_kind, by="importer", pool_harnesses=True)
        columns[name] = {row["metric"]: told(row) for row in rows.iter_rows(named=True)}
        for unit, metric in (("time_unit", "work"), ("clock_unit", "elapsed")):
            usual = rows.filter(metric=metric)["time_unit"].item()
            units.setdefault(unit, {})[name] = usual or "-"
    names = list(next(iter(columns.values())))
    print("| metric | " + " | ".join(f"{name} ({sizes[name]})" for name in columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for unit, words in units.items():
        print(f"| `{unit}` | " + " | ".join(words[name] for name in columns) + " |")
    for metric in names:
        print(f"| `{metric}` | " + " | ".join(columns[name].get(metric, "-") for name in columns) + " |")


if __name__ == "__main__":
    main()
