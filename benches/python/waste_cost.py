"""What classes of waste and signs of failure cost beside reading.

    python benches/python/waste_cost.py [--events 1000000] [--rounds 5]

Medians over rounds in one process, after one round that is not counted, on the same file with the default
threads.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orchestrace as ot


def seconds(task: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    task()
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        ot.generate(path, preset="mixed", events=options.events, seed=0)
        corpus = ot.read_traces(path)
        tasks: dict[str, Callable[[], Any]] = {
            "read": lambda: ot.read_traces(path),
            "costs.table": lambda: ot.costs.table(corpus),
            "costs.waste": lambda: ot.costs.waste(corpus),
            "costs.waste_events": lambda: ot.costs.waste_events(corpus),
            "evaluation.failure_classes": lambda: ot.evaluation.failure_classes(corpus),
        }
        taken: dict[str, list[float]] = {name: [] for name in tasks}
        for _ in range(options.rounds + 1):
            for name, task in tasks.items():
                taken[name].append(seconds(task))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    for name, median in medians.items():
        ratio = median / medians["read"]
        print(f"{options.events:,} events: {name} {median:.3f} s, {ratio:.2f} times reading")


if __name__ == "__main__":
    main()
