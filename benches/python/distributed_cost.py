"""What it costs to divide a verb into tasks: overhead of a task, and two workers beside two threads.

    python benches/python/distributed_cost.py [--events 4000000] [--tasks 64] [--samples 200] [--rounds 3]

Overhead: the tasks of `credit` by `flow`, one after the other in one process on one thread, less the verb
itself with a sink, which reads and writes the same, over the number of tasks. Workers: `credit` by sampled
Shapley values, two worker processes of one thread, started for it, beside the verb with a sink on two
threads. Medians over rounds; both sides take turns. Every round compares the tables."""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

MEMORY = "256MiB"
Times = tuple[float, float]
"""Seconds on the wall, and of the processor."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        ot.generate(place / "runs.jsonl", preset="mixed", events=asked.events, seed=0)
        ot.ingest(place / "runs.jsonl", place / "corpus", partitions=asked.tasks)
        (place / "runs.jsonl").unlink()
        corpus = ot.read_corpus(place / "corpus", memory=MEMORY, verify=False)
        n_tasks, whole, tasks = overhead(corpus, place, asked.rounds)
        wall, cpu = (1e3 * (after - before) / n_tasks for before, after in zip(whole, tasks, strict=True))
        print(
            f"{asked.events:,} events in {n_tasks} tasks, credit by flow: {whole[0]:.2f} s as one call,"
            f" {tasks[0]:.2f} s as tasks; a task more: {wall:.1f} ms, of them {cpu:.1f} ms of the processor"
        )
        threads, workers = side_by_side(corpus, place, asked.rounds, asked.samples)
        print(
            f"{asked.events:,} events, credit by sampled Shapley values: {threads:.1f} s on two threads,"
            f" {workers:.1f} s by two workers, ratio of throughput {threads / workers:.2f}"
        )


def overhead(corpus: ot.Corpus, place: Path, rounds: int) -> tuple[int, Times, Times]:
    """Tasks, and medians of what the verb and all tasks take."""
    options = {"method": "flow", "unit": "agent"}

    def tasks(plan: ot.distributed.Plan) -> None:
        for task in plan.tasks:
            ot.distributed.run_task(task, threads=1)

    found = [turn(corpus, place, options, 1, tasks) for _ in range(rounds + 1)][1:]
    whole, divided = (medians([one[at] for one in found]) for at in (1, 2))
    return found[0][0], whole, divided


def side_by_side(corpus: ot.Corpus, place: Path, rounds: int, samples: int) -> tuple[float, float]:
    """Medians of seconds on two threads and by two workers."""
    options = {"method": "shapley", "unit": "agent", "samples": samples}

    def workers(plan: ot.distributed.Plan) -> None:
        ot.distributed.run(plan, workers=2, threads=1)

    found = [turn(corpus, place, options, 2, workers) for _ in range(rounds)]
    return medians([one[1] for one in found])[0], medians([one[2] for one in found])[0]


def medians(times: list[Times]) -> Times:
    """Of both clocks."""
    wall, cpu = zip(*times, strict=True)
    return statistics.median(wall), statistics.median(cpu)


def spent(call: Callable[[], object]) -> Times:
    """Seconds on the wall and of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def turn(
    corpus: ot.Corpus,
    place: Path,
    options: dict[str, Any],
    threads: int,
    run: Callable[[ot.distributed.Plan], None],
) -> tuple[int, Times, Times]:
    """Tasks, what the verb takes with a sink, what the plan takes; their tables are equal."""
    sink, folder = place / "sink", place / "plan"
    whole = spent(lambda: ot.credit(corpus, **options, threads=threads, sink=sink))
    plan = ot.distributed.plan(corpus, "credit", folder=folder, **options)
    divided = spent(lambda: run(plan))
    parts = [pl.read_parquet(path) for path in sorted(sink.glob("*.parquet"))]
    assert ot.distributed.reduce(plan).equals(pl.concat(parts))
    shutil.rmtree(sink)
    shutil.rmtree(folder)
    return len(plan.tasks), whole, divided


if __name__ == "__main__":
    main()
