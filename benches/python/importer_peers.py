"""Foreign recordings to tables: `read_traces` beside an importer of orjson and plain Python.

    python benches/python/importer_peers.py [--megabytes 100] [--rounds 5] [--formats otel pi ...]

The corpora are those of `importer_corpora`: spans of agents as JSON lines of OTLP, a folder of sessions of
Claude Code with sub-agents, one of sessions of Pi, and conversations as JSON lines. Both importers end
with frames of traces, events, edges, measures, agents, findings and record counts, by
docs/reference/importer-rules.md. Every reading has a process of its own: it imports its libraries, notes its
resident set, reads once and notes time, time of the processor and peak. Rounds go through all peers in turn;
the files are in the page cache.

The first round of each peer keeps its tables, and every value of them must be equal: rows in any order,
floats to nine digits, names as text. Only where a trace lies within its file (`line`, `offset`, `length`)
is ours alone, with columns that hold nothing here.
"""

import argparse
import gc
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

TABLES = ("traces", "events", "edges", "measures", "agents", "findings", "record_counts")
KEYS = {"edges": ("trace", "src", "dst", "type"), "measures": ("trace", "kind", "name")}
KEYS |= {"traces": ("trace",), "events": ("trace", "seq"), "agents": ("trace", "agent")}
KEYS |= {"findings": ("trace", "code"), "record_counts": ("file", "status", "kind")}
PLACES = {"line", "offset", "length"}
"""Where a trace lies in its file, which the peer does not know."""


def _orchestrace(path: Path, threads: int | None) -> tuple[Any, ...]:
    import orchestrace as ot

    corpus = ot.read_traces(path, threads=threads)
    return tuple(getattr(corpus, table).collect() for table in TABLES)


def _python(path: Path, threads: int | None) -> tuple[Any, ...]:
    from importer_python import read

    return read(path)


Read = Callable[[Path, int | None], tuple[Any, ...]]
PEERS: dict[str, tuple[Read, int | None, tuple[str, ...]]] = {
    "orchestrace, 2 threads": (_orchestrace, 2, ("orchestrace", "polars")),
    "orchestrace, 1 thread": (_orchestrace, 1, ("orchestrace", "polars")),
    "orjson + Python": (_python, None, ("importer_python",)),
}
FORMATS = {"otel": "otlp.jsonl", "claude_code": "sessions", "pi": "pi", "messages": "conversations.jsonl"}


def paired_tables(
    ours: Mapping[str, pl.DataFrame], theirs: Mapping[str, pl.DataFrame]
) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Each table of two importers in one order and with names as text, to be compared value by value."""
    names = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    for table, key in KEYS.items():
        one, other = ours[table].with_columns(names), theirs[table].with_columns(names)
        told = {column for column in one.columns if one[column].null_count() < one.height}
        if missing := told - set(other.columns) - PLACES:
            raise SystemExit(f"{table}: the peer lacks {sorted(missing)}")
        columns = [column for column in other.columns if column not in PLACES]
        yield one.select(columns).sort(key), other.select(columns).sort(key)


def _must_be_equal(ours: Path, theirs: Path) -> None:
    from polars.testing import assert_frame_equal

    kept = [
        {table: pl.read_parquet(folder / f"{table}.parquet") for table in TABLES} for folder in (ours, theirs)
    ]
    for one, other in paired_tables(*kept):
        assert_frame_equal(one, other, check_dtypes=False, rel_tol=1e-9, abs_tol=1e-9)


def _peak() -> float:
    """Peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _read(name: str, path: Path, keep: Path | None) -> None:
    read, threads, modules = PEERS[name]
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    base, cpu, start = _peak(), time.process_time(), time.perf_counter()
    frames = read(path, threads)
    row: dict[str, Any] = {"seconds": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    row |= {"base_mb": base, "peak_mb": _peak()}
    row["rows"] = {table: frame.height for table, frame in zip(TABLES, frames, strict=True)}
    if keep is not None:
        keep.mkdir()
        for table, frame in zip(TABLES, frames, strict=True):
            frame.write_parquet(keep / f"{table}.parquet")
    print(json.dumps(row))


def _generate(folder: Path, kind: str, megabytes: int) -> None:
    from importer_corpora import WRITERS

    WRITERS[FORMATS[kind]](folder / FORMATS[kind], megabytes)


def _child(*arguments: str, threads: int | None = None) -> str:
    """Output of a process of its own, whose Polars has as many threads as its importer."""
    environment = os.environ | ({"POLARS_MAX_THREADS": str(threads)} if threads else {})
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def _measure(kind: str, path: Path, rounds: int) -> None:
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files) / 1e6
    runs: dict[str, list[dict[str, Any]]] = defaultdict(list)
    kept: list[Path] = []
    for number in range(rounds):
        for name, (_, threads, _) in PEERS.items():
            command = ["--read", name, "--path", str(path)]
            if number == 0:
                kept.append(path.parent / f"tables-{len(kept)}")
                command += ["--keep", str(kept[-1])]
            runs[name].append(json.loads(_child(*command, threads=threads)))
    for other in kept[1:]:
        _must_be_equal(kept[0], other)
    rows = next(iter(runs.values()))[0]["rows"]
    print(f"\n**{kind}**: {size:.0f} MB in {len(files)} files, {rows['traces']:,} traces, ", end="")
    print(f"{rows['events']:,} events, {rows['edges']:,} edges; {rounds} rounds\n")
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
    for internal in ("--generate", "--read", "--path", "--keep"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        _generate(Path(given.path), given.generate, given.megabytes)
        return
    if given.read:
        _read(given.read, Path(given.path), Path(given.keep) if given.keep else None)
        return
    for kind in given.formats:
        with tempfile.TemporaryDirectory() as folder:
            _child("--generate", kind, "--path", folder, "--megabytes", str(given.megabytes))
            _measure(kind, Path(folder) / FORMATS[kind], given.rounds)


if __name__ == "__main__":
    main()
