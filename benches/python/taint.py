"""Whether taint tells successful attacks from the rest: the tables of docs/safety.md.

    ORCHESTRACE_CORPORA=... python benches/python/taint.py

What is measured is in `tests/corpora/injections.py`, which the tests share. Nothing is timed, everything is
exact or seeded: the same files give the same tables.
"""

import os
import sys
import tempfile
from pathlib import Path

import orchestrace as ot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from corpora import injections  # the tests are no package: the line above says where it is

WAYS = {"tool": "through what a tool returned", "memory": "through a memory"}


def main() -> None:
    corpora = Path(os.environ["ORCHESTRACE_CORPORA"])
    with tempfile.TemporaryDirectory() as name:
        folder = injections.unpacked(corpora / "agentdojo/runs.tar.zst", Path(name))
        rows = injections.measured(ot.read_traces(folder), injections.sources(folder))
    for kind, way in WAYS.items():
        own = rows.filter(kind=kind)
        reached, tasks = own["reached"].sum(), own["task_id"].n_unique()
        print(f"**Attacks {way}: {own.height} runs of {tasks} tasks, {reached} reached their goal**\n")
        print("| measure of a run | AUC [95 % interval] | gain over tool calls |")
        print("| --- | ---: | ---: |")
        for row in injections.separation(own).iter_rows(named=True):
            point = f"{row['auc']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
            gain = f"{row['gain']:+.2f} [{row['gain_low']:+.2f}, {row['gain_high']:+.2f}]"
            prefix = "baseline: " if row["measure"] in injections.BASELINES else ""
            print(
                f"| {prefix}{row['measure']} | {point} | {'' if row['measure'] == 'tool calls' else gain} |"
            )
        print()


if __name__ == "__main__":
    main()
