"""One Markdown table of each group of a pytest-benchmark result.

    pytest benches/python --benchmark-json bench.json
    python benches/python/table.py bench.json [--memory memory.json]

A ratio above 1 is how many times faster orchestrace is.
"""

import argparse
import json
from pathlib import Path
from typing import Any

OURS = "orchestrace"


def table(runs: list[dict[str, Any]], memory: dict[str, dict[str, float]]) -> str:
    """The rows of one group, ours first, then by median."""
    ours = next(run for run in runs if run["extra_info"]["peer"] == OURS)
    runs = sorted(runs, key=lambda run: (run is not ours, run["stats"]["median"]))
    with_memory = ours["extra_info"]["task"] == "ingest" and bool(memory)
    header = ["peer", "median ms", "min ms", "ratio to ours"]
    header += ["peak MB", "peak above imports MB"] if with_memory else []
    lines = [header, ["---"] + ["---:"] * (len(header) - 1)]
    for run in runs:
        peer, stats = run["extra_info"]["peer"], run["stats"]
        ratio = stats["median"] / ours["stats"]["median"]
        cells = [peer, f"{stats['median'] * 1e3:.1f}", f"{stats['min'] * 1e3:.1f}", f"{ratio:.2f}"]
        if with_memory:
            found = memory[peer]
            cells += [f"{found['peak_mb']:.0f}", f"{found['peak_mb'] - found['base_mb']:.0f}"]
        lines.append(cells)
    threads, rounds = ours["extra_info"]["threads"], ours["stats"]["rounds"]
    caption = f"{ours['group']}; threads: {threads}; {rounds} rounds"
    return "\n".join([f"**{caption}**", "", *("| " + " | ".join(cells) + " |" for cells in lines)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="what `pytest --benchmark-json` wrote")
    parser.add_argument("--memory", type=Path, help="what `memory.py --json` wrote")
    given = parser.parse_args()
    rows = json.loads(given.memory.read_text()) if given.memory else []
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in json.loads(given.result.read_text())["benchmarks"]:
        groups.setdefault(run["group"], []).append(run)
    print("\n\n".join(table(runs, {row["peer"]: row for row in rows}) for runs in groups.values()))


if __name__ == "__main__":
    main()
