"""Peak memory of every ingest peer, each in a process of its own.

    python benches/python/memory.py --events 200000 --json memory.json

A child imports its libraries, notes its resident set, reads the corpus once and notes the peak. The reading
process imports nothing large, since a child begins with the peak of its parent.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from ingest_peers import PEERS


def _peak() -> float:
    """Peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _read(name: str, path: Path, threads: int | None) -> None:
    peer = next(peer for peer in PEERS if peer.name == name)
    for module in peer.modules:
        importlib.import_module(module)
    base = _peak()
    rows = peer.read(path, threads).rows
    print(json.dumps({"peer": name, "rows": rows, "base_mb": base, "peak_mb": _peak()}))


def _generate(path: Path, events: int) -> None:
    import orchestrace as ot

    ot.generate(path, events=events, seed=1)


def _child(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _measure(events: int, threads: int, target: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.jsonl"
        _child("--generate", str(path), "--events", str(events))
        shared = ("--path", str(path), "--threads", str(threads))
        rows = [json.loads(_child("--read", peer.name, *shared)) for peer in PEERS]
        size = path.stat().st_size
    if len({tuple(row["rows"]) for row in rows}) != 1:
        raise SystemExit(f"peers read different numbers of rows: {rows}")
    print(f"{events:,} events, {size / 1e6:.0f} MB of JSON lines")
    for row in rows:
        extra = row["peak_mb"] - row["base_mb"]
        print(f"{row['peer']:30} peak {row['peak_mb']:7.0f} MB, above imports {extra:7.0f} MB")
    if target:
        target.write_text(json.dumps(rows, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--threads", type=int, default=0, help="0: each peer's own default")
    parser.add_argument("--json", type=Path, help="file for `table.py --memory`")
    for internal in ("--generate", "--read", "--path"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.generate:
        _generate(Path(given.generate), given.events)
    elif given.read:
        _read(given.read, Path(given.path), given.threads or None)
    else:
        _measure(given.events, given.threads, given.json)


if __name__ == "__main__":
    main()
