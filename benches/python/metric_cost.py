"""What the default metrics cost beside reading, and whether one long trace costs more per event.

    python benches/python/metric_cost.py [--events 1000000] [--rounds 7]

Medians over rounds in one process, after one round that is not counted; reading and measuring take turns on
the same files with the default threads. One trace is set against the same number of events in traces of the
mixed preset, on one thread, since a trace is one worker's.
"""

import argparse
import io
import json
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


def one_trace(events: int) -> ot.Corpus:
    """The events of generated runs as one trace, each run below the end of the one before."""
    text = io.BytesIO()
    ot.generate(text, preset="mixed", events=events, seed=1)
    joined: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    start = 0.0
    for number, line in enumerate(text.getvalue().splitlines()):
        run = json.loads(line)
        for event in run["events"]:
            joined.append(event | {"id": f"{number}/{event['id']}", "t": start + event["t"]})
        edges += [
            edge | {"src": f"{number}/{edge['src']}", "dst": f"{number}/{edge['dst']}"}
            for edge in run["edges"]
        ]
        start = joined[-1]["t"]
    document = {**run, "trace_id": "one", "events": joined, "edges": edges}
    return ot.read_traces(io.BytesIO(json.dumps(document).encode() + b"\n"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        ot.generate(path, preset="mixed", events=asked.events, seed=0)
        corpus = ot.read_traces(path)
        reading, measuring = [], []
        for _ in range(asked.rounds + 1):
            reading.append(seconds(lambda: ot.read_traces(path)))
            measuring.append(seconds(lambda: ot.metrics(corpus)))
    parse, measure = (statistics.median(times[1:]) for times in (reading, measuring))
    print(
        f"{asked.events:,} events: read {parse:.3f} s, metrics {measure:.3f} s, ratio {measure / parse:.2f}"
    )
    small = min(asked.events, 100_000)
    long, many = one_trace(small), ot.generate(preset="mixed", events=small, seed=1)
    costs = []
    for what in (long, many):
        kernel = [seconds(lambda what=what: ot.metrics(what, threads=1)) for _ in range(asked.rounds + 1)]
        costs.append(statistics.median(kernel[1:]) / small * 1e9)
    print(f"{small:,} events, one thread: {costs[0]:.0f} ns per event in one trace, {costs[1]:.0f} in many")


if __name__ == "__main__":
    main()
