"""Foreign recordings to tables: `read_traces` beside an importer of orjson and plain Python.

    python benches/python/importer_peers.py [--megabytes 100] [--rounds 5] [--formats otel claude_code]

The corpora are those of `importer_corpora`: spans of agents as JSON lines of OTLP, and a folder of
sessions of Claude Code with sub-agents. Both importers end with frames of traces, events, edges and
measures, by the rules of ARCHITECTURE.md, section 14. Every reading has a process of its own: it imports
its libraries, notes its resident set, reads once and notes time, time of the processor and peak. Rounds
go through all peers in turn; the files are in the page cache.

What must be equal: traces, events by type, edges by type, agents, tokens and other costs, the sums of
times, durations and turns, who is trusted and what failed, and the hashes of all contents. What is not:
the Python importer knows no more than these corpora hold, writes 18 of the columns of events, no `x_`
fields, and neither agents nor findings nor fates of records.
"""

import argparse
import gc
import hashlib
import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any


def _orchestrace(path: Path, threads: int | None) -> tuple[Any, ...]:
    import orchestrace as ot

    corpus = ot.read_traces(path, threads=threads)
    return tuple(table.collect() for table in (corpus.traces, corpus.events, corpus.edges, corpus.measures))


def _python(path: Path, threads: int | None) -> tuple[Any, ...]:
    from importer_python import read

    return read(path)


Read = Callable[[Path, int | None], tuple[Any, ...]]
PEERS: dict[str, tuple[Read, int | None, tuple[str, ...]]] = {
    "orchestrace, 2 threads": (_orchestrace, 2, ("orchestrace", "polars")),
    "orchestrace, 1 thread": (_orchestrace, 1, ("orchestrace", "polars")),
    "orjson + Python": (_python, None, ("importer_python",)),
}
FORMATS = {"otel": "otlp.jsonl", "claude_code": "sessions"}


def _facts(frames: tuple[Any, ...]) -> dict[str, Any]:
    """What must be equal whoever read."""
    import polars as pl

    traces, events, edges, measures = frames
    kinds = [dict(sorted(Counter(frame["type"].cast(pl.String)).items())) for frame in (events, edges)]
    costs = dict(measures.group_by(pl.col("name").cast(pl.String)).agg(pl.col("value").sum()).iter_rows())
    content = hashlib.sha256("\n".join(sorted(events["content_ref"].drop_nulls())).encode())
    sums = {name: events[name].sum() for name in ("tokens_in", "tokens_out", "turn", "t", "duration_s")}
    flags = {name: events[name].value_counts().sort(name).rows() for name in ("trusted", "ok")}
    names = sorted(set(events["agent"].cast(pl.String)))
    return {
        "traces": traces.height,
        "events": kinds[0],
        "edges": kinds[1],
        "content": content.hexdigest(),
        "agents": names,
        **sums,
        **costs,
        **flags,
    }


def _equal(one: Any, other: Any) -> bool:
    """Sums of floats depend on the order of rows."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _peak() -> float:
    """Peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _read(name: str, path: Path) -> None:
    read, threads, modules = PEERS[name]
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    base, cpu, start = _peak(), time.process_time(), time.perf_counter()
    frames = read(path, threads)
    row: dict[str, Any] = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    row |= {"base_mb": base, "peak_mb": _peak()}
    row["facts"] = _facts(frames)
    print(json.dumps(row))


def _generate(folder: Path, kind: str, megabytes: int) -> None:
    from importer_corpora import write_otlp, write_sessions

    write = {"otel": write_otlp, "claude_code": write_sessions}[kind]
    write(folder / FORMATS[kind], megabytes)


def _child(*arguments: str, threads: int | None = None) -> str:
    """Output of a process of its own, whose Polars has as many threads as its importer."""
    environment = os.environ | ({"POLARS_MAX_THREADS": str(threads)} if threads else {})
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def _measure(kind: str, path: Path, rounds: int) -> None:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files) / 1e6
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _ in range(rounds):
        for name, (_, threads, _) in PEERS.items():
            runs[name].append(json.loads(_child("--read", name, "--path", str(path), threads=threads)))
    facts = [run["facts"] for found in runs.values() for run in found]
    for other in facts[1:]:
        differ = {key: (facts[0][key], other[key]) for key in other if not _equal(facts[0][key], other[key])}
        if differ:
            raise SystemExit(f"{kind}: the peers read different things: {differ}")
    events, edges = (sum(facts[0][key].values()) for key in ("events", "edges"))
    print(f"\n**{kind}**: {size:.0f} MB in {len(files)} files, {facts[0]['traces']:,} traces, ", end="")
    print(f"{events:,} events, {edges:,} edges; {rounds} rounds\n")
    print("| peer | median s (min-max) | CPU s | MB/s | ratio to ours | peak MB | peak above imports MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    medians = {name: statistics.median(run["seconds"] for run in found) for name, found in runs.items()}
    for name, found in runs.items():
        seconds = [run["seconds"] for run in found]
        peak = statistics.median(run["peak_mb"] for run in found)
        above = statistics.median(run["peak_mb"] - run["base_mb"] for run in found)
        cpu = statistics.median(run["cpu_s"] for run in found)
        ratio = medians[name] / next(iter(medians.values()))
        print(f"| {name} | {medians[name]:.2f} ({min(seconds):.2f}-{max(seconds):.2f}) ", end="")
        print(f"| {cpu:.2f} | {size / medians[name]:.0f} | {ratio:.2f} | {peak:.0f} | {above:.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=100, help="size of each corpus")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    for internal in ("--generate", "--read", "--path"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        _generate(Path(given.path), given.generate, given.megabytes)
        return
    if given.read:
        _read(given.read, Path(given.path))
        return
    for kind in given.formats:
        with tempfile.TemporaryDirectory() as folder:
            _child("--generate", kind, "--path", folder, "--megabytes", str(given.megabytes))
            _measure(kind, Path(folder) / FORMATS[kind], given.rounds)


if __name__ == "__main__":
    main()
