"""`ot.grep` beside ripgrep, on the same bytes in one run: one large file, and many small ones.

    python benches/python/grep_peers.py [--megabytes 400] [--files 4000] [--rounds 7] [--rg PATH]

Both count all matches of a pattern, which has to be the same number, and read what the page cache has: each
call is made once before it is measured. Rounds alternate. ripgrep runs as a process of its own with its
defaults (`rg --count-matches`), its start included; `count_matches` is called in this process. `grep` is the
whole answer, with trace, agent and event of each match; it is measured where matches are rare, since it reads
the records that match. A line of JSON per row: medians in seconds and the ratio to ripgrep.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orchestrace as ot
from orchestrace.corpus.searching import count_matches

TEXT = "the agent reads a file of the plan and says that a test of the module fails with an error"
WORDS = tuple(TEXT.split(" "))
PATTERNS = {
    "rare text": ("needle in the hay", ["-F"]),
    "frequent text": ("return", ["-F"]),
    "expression": (r"turn \d+: the agent", []),
    "any case": ("NEEDLE in the hay", ["-F", "-i"]),
    "no text in it": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}T", []),
}


def record(number: int) -> str:
    """A native run with texts: eight events, one of them of some kilobytes."""
    events = []
    for seq in range(8):
        text = " ".join(WORDS[(number + seq * 7 + i) % len(WORDS)] for i in range(20 if seq else 200))
        needle = " needle in the hay" if number % 2000 == 7 and seq == 3 else ""
        said = f'turn {number * 8 + seq}: {text}\nthen "done"{needle} at 2026-01-0{1 + seq}T00:00'
        kind = "return" if seq == 7 else "message"
        event = {"id": f"e{seq}", "t": seq, "type": kind, "agent": f"a{seq % 3}", "x_text": said}
        events.append(event)
    costs = {"tokens": 100, "wall_clock_s": 8}
    run = {"trace_id": f"r{number}", "task_id": "q", "events": events, "edges": [], "rewards": {"team": 1}}
    return json.dumps({**run, "costs": costs}) + "\n"


def write(folder: Path, megabytes: int, files: int) -> dict[str, Path]:
    """One file of so many megabytes, and so many files of a run each."""
    large, small = folder / "large.jsonl", folder / "small"
    size, number = 0, 0
    with large.open("w") as out:
        while size < megabytes << 20:
            size += out.write(record(number))
            number += 1
    small.mkdir()
    for number in range(files):
        (small / f"{number:06}.jsonl").write_text(record(number))
    return {"one large file": large, "many small files": small}


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rg", default=shutil.which("rg"))
    options = parser.parse_args()
    if options.rg is None:
        sys.exit("no rg on PATH: cargo install ripgrep, or name it with --rg")
    with tempfile.TemporaryDirectory() as made:
        for data, path in write(Path(made), options.megabytes, options.files).items():
            for kind, (pattern, flags) in PATTERNS.items():
                row = compared(options.rg, path, pattern, flags, options.rounds)
                print(json.dumps({"data": data, "pattern": kind, **row}), flush=True)


def compared(rg: str, path: Path, pattern: str, flags: list[str], rounds: int) -> dict[str, float]:
    """Medians of one pattern on one input; both have to count the same."""
    words = {"fixed": "-F" in flags, "ignore_case": "-i" in flags}
    command = [rg, "--no-config", "--count-matches", "--no-filename", *flags, "-e", pattern, str(path)]

    def ripgrep() -> int:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        return sum(map(int, done.stdout.split()))

    def count() -> int:
        return count_matches(path, pattern, **words)

    matches, ours = ripgrep(), count()
    if matches != ours or not matches:
        sys.exit(f"{pattern!r}: rg counts {matches}, we {ours}")
    calls: dict[str, Callable[[], object]] = {"rg_s": ripgrep, "count_s": count}
    if matches < 1000:
        calls["grep_s"] = lambda: ot.grep(path, pattern, **words)
        calls["grep_s"]()
    walls: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            walls[name].append(seconds(call))
    medians = {name: statistics.median(times) for name, times in walls.items()}
    ratios = {
        f"{name.removesuffix('_s')}_ratio": round(wall / medians["rg_s"], 2)
        for name, wall in medians.items()
        if name != "rg_s"
    }
    return {"matches": matches, **{name: round(wall, 4) for name, wall in medians.items()}, **ratios}


if __name__ == "__main__":
    main()
