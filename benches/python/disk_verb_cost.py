"""What a verb costs on a corpus on disk, beside reading the same recordings and the verb in memory.

    python benches/python/disk_verb_cost.py --events 1000000

Processor seconds, medians of rounds in which each takes its turn, after one round that is not counted. Every
run opens the corpus anew, so that each compares the checksums of its files.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orchestrace as ot


def spent(call: Callable[[], object]) -> float:
    """Processor seconds of all threads."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        file, folder = Path(name) / "mixed.jsonl", Path(name) / "corpus"
        ot.generate(file, events=asked.events, seed=0)
        ot.ingest(file, folder)
        corpus = ot.read_traces(file)

        def verb(recordings: ot.Corpus) -> object:
            return ot.credit(recordings, method="flow", unit="event")

        ways: dict[str, Callable[[], object]] = {
            "read the recordings": lambda: ot.read_traces(file),
            "flow by event, in memory": lambda: verb(corpus),
            "flow by event, on disk": lambda: verb(ot.read_corpus(folder)),
        }
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(asked.rounds + 1):
            for way, call in ways.items():
                taken[way].append(spent(call))
    medians = {way: statistics.median(times[1:]) for way, times in taken.items()}
    whole = medians["read the recordings"]
    print(f"| {asked.events:,} events | processor s | beside reading |\n|---|---:|---:|")
    for way, median in medians.items():
        print(f"| {way} | {median:.3f} | {median / whole:.2f} |")


if __name__ == "__main__":
    main()
