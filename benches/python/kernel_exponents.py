"""How time and memory of our own kernels grow with the size of what they get, as exponents with intervals.

    python benches/python/kernel_exponents.py --sizes 10000 30000 100000 300000 1000000 --rounds 7
    python benches/python/kernel_exponents.py --shape trace --kernels flow schedule

Every measurement is a process of its own: it imports, notes its resident memory, reads the corpus, calls the
kernel once, and says how long the call took and what the peak was above the imports. So memory holds the
corpus too. Rounds go over all sizes, one after the other; they are the clusters of the intervals, of which
`fit_law` wants five or more.

`--shape corpus` has more traces of the preset `mixed` (parse: their JSON lines); `--shape trace` has one run
that gets longer. An exponent of 1 is linear. Times below some milliseconds hold the cost of a call, which
does not grow: look at the exponent after the break, where a broken law is chosen. A corpus so small that
nothing is added to the process has no exponent of memory (`y.not_positive`): choose larger sizes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUANTITIES = {"seconds": "time", "mib": "memory"}


def _peak() -> float:
    """Peak resident set of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _kernels() -> dict[str, Callable[[Any, str], object]]:
    """What is measured, of a corpus and the path of its recording."""
    import orchestrace as ot

    drop = ot.interventions.drop(type="message")
    return {
        "parse": lambda corpus, path: ot.read_traces(path, threads=1),
        "flow": lambda corpus, path: ot.credit(corpus, method="flow", unit="event", threads=1),
        "return_to_go": lambda corpus, path: ot.credit(
            corpus, method="return_to_go", unit="event", threads=1
        ),
        "shapley": lambda corpus, path: ot.credit(
            corpus, method="shapley", unit="agent", samples=64, threads=1
        ),
        "replay": lambda corpus, path: ot.replay(corpus, drop, threads=1),
        "schedule": lambda corpus, path: ot.schedules.simulate(corpus, slots=4, threads=1),
    }


NAMES = ("parse", "flow", "return_to_go", "shapley", "replay", "schedule")


def _generate(path: str, events: int, shape: str) -> None:
    import orchestrace as ot

    if shape == "corpus":
        ot.generate(path, events=events, seed=1)
    else:
        ot.synthetic.planted(path, traces=1, agents=5, events=events // 5, seed=1)


def _measure(kernel: str, path: str) -> None:
    import orchestrace as ot

    called = _kernels()[kernel]
    # what the first call of anything costs is no matter of size
    small = ot.generate(traces=2, seed=0)
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        small.write_jsonl(file.name, overwrite=True)
        called(small, file.name)
    base = _peak()
    corpus = None if kernel == "parse" else ot.read_traces(path)
    start = time.perf_counter()
    made = called(corpus, path)
    seconds = time.perf_counter() - start
    if not len(made):  # type: ignore[arg-type]  # a corpus or a frame
        raise SystemExit(f"{kernel} made nothing of {path}")
    print(json.dumps({"kernel": kernel, "seconds": seconds, "mib": _peak() - base}))


def _child(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _collect(sizes: list[int], kernels: list[str], rounds: int, shape: str) -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        paths = {size: str(Path(folder) / f"{size}.jsonl") for size in sizes}
        for size, path in paths.items():
            _child("--generate", path, "--sizes", str(size), "--shape", shape)
        for number in range(rounds):
            for kernel in kernels:
                for size, path in paths.items():
                    told = json.loads(_child("--measure", kernel, "--path", path).splitlines()[-1])
                    rows.append({"round": f"{number}", "events": size, **told})
    return rows


def _table(rows: list[dict[str, Any]], sizes: list[int]) -> str:
    """Medians of the rounds and exponents, a line for each kernel and quantity."""
    import polars as pl

    import orchestrace as ot

    measured = pl.DataFrame(rows)
    head = "".join(f" {size:,} |" for size in sizes)
    lines = [f"| kernel | |{head} law | exponent | 95 % |", f"|---|---|{'---:|' * len(sizes)}---|---:|---|"]
    for quantity, word in QUANTITIES.items():
        for (kernel,), own in measured.group_by("kernel", maintain_order=True):
            law = ot.scaling.fit_law(
                own, x="events", y=quantity, cluster="round", models=["power", "broken_power"], n_boot=500
            )
            median = own.group_by("events").agg(pl.col(quantity).median()).sort("events")[quantity]
            unit = (lambda v: f"{1e3 * v:,.1f} ms") if word == "time" else (lambda v: f"{v:,.1f} MiB")
            cells = "".join(f" {unit(value)} |" for value in median)
            if not law["chosen"].any():
                law = law.with_columns(chosen=pl.col("model") == "power")
            name = "exponent_after" if "exponent_after" in law.filter("chosen")["parameter"] else "exponent"
            row = law.filter(pl.col("chosen"), pl.col("parameter") == name).row(0, named=True)
            told = str(row["reason"]) if row["estimate"] is None else f"{row['estimate']:.2f}"
            spread = "-" if row["lower"] is None else f"{row['lower']:.2f} to {row['upper']:.2f}"
            lines.append(f"| {kernel} | {word} |{cells} {row['model']} | {told} | {spread} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--kernels", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shape", choices=["corpus", "trace"], default="corpus")
    parser.add_argument("--json", type=Path, help="file for every single measurement")
    for internal in ("--generate", "--measure", "--path"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        _generate(given.generate, given.sizes[0], given.shape)
    elif given.measure:
        _measure(given.measure, given.path)
    else:
        # this process imports nothing large before the last child is done: a child begins with its peak
        rows = _collect(sorted(given.sizes), given.kernels, given.rounds, given.shape)
        if given.json:
            given.json.write_text(json.dumps(rows, indent=1) + "\n")
        print(_table(rows, sorted(given.sizes)))


if __name__ == "__main__":
    main()
