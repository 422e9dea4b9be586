"""Verdicts on published recordings by the survey's rules for benchmarks: the table of docs/checklist.md.

    ORCHESTRACE_CORPORA=... python benches/python/benchmark_rules.py --json FILE

FILE is benches/results/benchmark_rules.json, from which `python .ci/pages.py write` makes the table. Nothing
is timed, and the same files give the same verdicts. Corpora are read by their importers alone.
"""

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orchestrace as ot


def verdicts(folder: Path) -> Iterator[dict[str, Any]]:
    """A row per corpus below a folder that has a trace."""
    for path in sorted(folder.iterdir()):
        if not path.is_dir():
            continue
        try:
            corpus = ot.read_traces(path)
        except ot.InputError:
            continue  # no recordings
        if not len(corpus):
            continue
        table = ot.evaluation.benchmark_verdict(corpus)
        counts = ot.evaluation.benchmark_counts(corpus)
        yield {
            "corpus": path.name,
            "traces": len(corpus),
            "tasks": corpus.traces.select("task_id").collect()["task_id"].n_unique(),
            "verdicts": dict(table.select("rule", "verdict").iter_rows()),
            "counts": dict(counts.select("part", "n_traces").iter_rows()),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="file for the verdicts; - is standard output", default="-")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = list(verdicts(Path(os.environ["ORCHESTRACE_CORPORA"])))
    text = json.dumps(rows, indent=1) + "\n"
    if options.json == "-":
        print(text, end="")
    else:
        Path(options.json).write_text(text)


if __name__ == "__main__":
    main()
