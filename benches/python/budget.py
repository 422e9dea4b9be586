"""Peak memory of an ingest and of every verb on its result, each in a process of its own, beside the budget.

    python benches/python/budget.py --events 20000000 --memory 1GiB
    python benches/python/budget.py --input runs/ --memory 1GiB

`--unique` gives every trace agents of its own name, the worst case for dictionaries. What a call may add to
its process is the budget; the column "added" is the peak less what the process held after its imports.
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
        "report": lambda: ot.report(corpus),
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


def _measure(source: str, folder: Path, memory: str) -> None:
    print("| step | seconds | peak MiB | added MiB |\n|---|---:|---:|---:|")
    for step in ["ingest", *_verbs(ot.generate(traces=1, seed=0), folder)]:
        command = [sys.executable, __file__, "--step", step, "--input", source, "--folder", str(folder)]
        made = subprocess.run([*command, "--memory", memory], check=True, capture_output=True, text=True)
        row = json.loads(made.stdout.splitlines()[-1])
        added = row["peak"] - row["base"]
        print(f"| {step} | {row['seconds']:.1f} | {row['peak']:.0f} | {added:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--input", help="recordings; default is a generated corpus")
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--unique", action="store_true", help="agents named for their trace")
    for internal in ("--step", "--folder"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        _step(given.step, given.input, Path(given.folder), given.memory)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = given.input or str(folder / "runs.jsonl")
        if not given.input:
            ot.generate(source, events=given.events, seed=1)
        if given.unique:
            _rename(Path(source), folder / "unique.jsonl")
            source = str(folder / "unique.jsonl")
        print(f"{Path(source).stat().st_size / 1e9:.2f} GB, budget {given.memory}")
        _measure(source, folder, given.memory)


if __name__ == "__main__":
    main()
