"""What comparing the files of a corpus on disk with its checksums costs the verbs that read them.

    python benches/python/verification.py --events 4000000

Every run opens the corpus anew, so that each pays for all files that it scans; in use the first verb pays
for those that follow. Runs with `verify=True` and `verify=False` alternate, after one of each that is not
counted; the figures are medians. The cost is the processor time inside the comparison, measured in the same
run, as a share of the rest of that run: the difference of two runs is less than what other work on the
machine moves.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from orchestrace.disk import integrity, manifest

VERBS: dict[str, Callable[[ot.Corpus], pl.DataFrame]] = {
    "metrics": lambda corpus: ot.metrics(corpus),
    "credit, discounted by agent": lambda corpus: ot.credit(corpus, method="discounted", unit="agent"),
    "replay, each agent dropped": lambda corpus: ot.replay(corpus, ot.interventions.drop(each="agent")),
}


def _timed(folder: Path, verb: Callable[[ot.Corpus], pl.DataFrame], verify: bool) -> tuple[float, ...]:
    """Seconds that passed, seconds of all processors, and those of them that went into comparing."""
    compared, spent = integrity._compared, [0.0]

    def watched(*args: Any, **kwargs: Any) -> Any:
        begin = time.process_time()
        found = compared(*args, **kwargs)
        spent[0] += time.process_time() - begin
        return found

    integrity._compared = watched
    try:
        begin, worked = time.perf_counter(), time.process_time()
        verb(ot.read_corpus(folder, verify=verify))
        return time.perf_counter() - begin, time.process_time() - worked, spent[0]
    finally:
        integrity._compared = compared


def _measure(folder: Path, rounds: int) -> None:
    known = manifest.load(folder)
    assert known is not None
    files = list(known.stored())
    size = sum(one.expected.size for one in files if one.expected is not None)
    print(f"{size / 1e6:.0f} MB in {len(files)} files, {known.rows('events'):,} events")
    took = []
    for _ in range(2 * rounds):
        worked = time.process_time()
        for one in files:
            integrity.fingerprint(folder / one.name)
        took.append(time.process_time() - worked)
    print(f"BLAKE3 of all of it, read from the cache: {size / 1e9 / statistics.median(took):.1f} GB/s\n")
    print("| verb | s, without | s, with | processor s, without | processor s, with | comparing, s | cost |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, verb in VERBS.items():
        runs: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}
        for number in range(rounds + 1):
            for verify in (False, True) if number % 2 else (True, False):
                one = _timed(folder, verb, verify)
                runs[verify] += [one] if number else []
        wall, work = ([statistics.median(run[i] for run in runs[v]) for v in (False, True)] for i in (0, 1))
        spent = statistics.median(run[2] for run in runs[True])
        cost = statistics.median(100 * run[2] / (run[1] - run[2]) for run in runs[True])
        shown = " | ".join(f"{value:.2f}" for value in (*wall, *work))
        print(f"| {name} | {shown} | {spent:.3f} | {cost:.1f} % |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--corpus", type=Path, help="a corpus on disk, in place of a generated one")
    given = parser.parse_args()
    if given.corpus is not None:
        _measure(given.corpus, given.rounds)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ot.generate(folder / "mixed.jsonl", events=given.events, seed=1)
        ot.ingest(folder / "mixed.jsonl", folder / "corpus")
        _measure(folder / "corpus", given.rounds)


if __name__ == "__main__":
    main()
