"""Peak memory of an ingest and of every verb on its result, each in a process of its own, beside the budget.

    python benches/python/budget.py --events 20000000 --memory 1GiB
    python benches/python/budget.py --input runs/ --memory 1GiB
    python benches/python/budget.py --events 1000000 10000000 100000000 --memory 1GiB

`--unique` gives every trace agents of its own name, the worst case for dictionaries. What a call may add to
its process is the budget; the column "added" is the peak less what the process held after its imports. Of
several sizes the steps take turns, and the last column is the rate beside that of the first size.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

import orchestrace as ot

NAMES = re.compile(rb'("(?:agent|from|to)":\s*")([^"]+)"')


def _peak() -> float:
    """Peak resident set of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _verbs(corpus: ot.Corpus, sink: Path) -> dict[str, Callable[[], object]]:
    own = pl.DataFrame({"trace": [0], "own": [1.0]})
    return {
        "report": lambda: ot.describe(corpus),
        "credit, flow, by agent": lambda: ot.credit(corpus, method="flow", unit="agent"),
        "metrics": lambda: ot.metrics(corpus),
        "metrics, by agent": lambda: ot.metrics(corpus, by="agent"),
        "credit, grpo, by agent": lambda: ot.credit(corpus, method="grpo", unit="agent"),
        "credit, flow, by event, to files": lambda: ot.credit(corpus, method="flow", unit="event", sink=sink),
        "filter": lambda: len(corpus.filter(pl.col("n_events") > 50)),
        "with_measures": lambda: corpus.with_measures(own).measures.select(pl.len()).collect(),
        "write_jsonl": lambda: corpus.write_jsonl("/dev/null"),
        "events by type": lambda: corpus.events.group_by("type").len().collect(engine="streaming"),
    }


def _step(step: str, source: str, folder: Path, memory: str) -> None:
    base, start = _peak(), time.perf_counter()
    if step == "ingest":
        ot.ingest(source, folder / "corpus", memory=memory)
    else:
        corpus = ot.read_corpus(folder / "corpus")
        _verbs(corpus, folder / "credits")[step]()
    seconds = time.perf_counter() - start
    print(json.dumps({"step": step, "base": base, "peak": _peak(), "seconds": seconds}))


def _rename(plain: Path, unique: Path) -> None:
    with plain.open("rb") as lines, unique.open("wb") as out:
        for number, line in enumerate(lines):
            tag = b'\\1\\2-%d"' % number
            out.write(NAMES.sub(tag, line))


def _measure(sources: list[str], folder: Path, memory: str) -> None:
    print("| step | events | seconds | events/s | peak MiB | added MiB | rate beside the first |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for step in ["ingest", *_verbs(ot.generate(traces=1, seed=0), folder)]:
        first = None
        for number, source in enumerate(sources):
            row = _of_process(step, source, folder / str(number), memory)
            traces = ot.read_corpus(folder / str(number) / "corpus").traces
            events = traces.select(pl.col("n_events").sum()).collect().item()
            rate = events / row["seconds"]
            first = first or rate
            cells = [step, f"{events:,}", f"{row['seconds']:.1f}", f"{rate:,.0f}", f"{row['peak']:.0f}"]
            print(
                f"| {' | '.join(cells)} | {row['peak'] - row['base']:.0f} | {rate / first:.2f} |", flush=True
            )


def _of_process(step: str, source: str, folder: Path, memory: str) -> dict[str, float]:
    """What a step takes in a process of its own."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--step", step, "--input", source, "--folder", str(folder)]
    made = subprocess.run([*command, "--memory", memory], check=True, capture_output=True, text=True)
    row: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=[2_000_000])
    parser.add_argument("--input", nargs="+", help="recordings, a path for each size; default: generated")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--unique", action="store_true", help="agents named for their trace")
    for internal in ("--step", "--folder"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        _step(given.step, given.input[0], Path(given.folder), given.memory)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = given.input or [str(folder / f"runs-{events}.jsonl") for events in given.events]
        if not given.input:
            for source, events in zip(sources, given.events, strict=True):
                ot.generate(source, events=events, seed=1)
        if given.unique:
            for number, source in enumerate(sources):
                _rename(Path(source), folder / f"unique-{number}.jsonl")
            sources = [str(folder / f"unique-{number}.jsonl") for number in range(len(sources))]
        size = ", ".join(f"{Path(source).stat().st_size / 1e9:.2f}" for source in sources)
        print(f"{size} GB, budget {given.memory}")
        _measure(sources, folder, given.memory)


if __name__ == "__main__":
    main()
