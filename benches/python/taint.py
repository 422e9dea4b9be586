"""What flows show about injected texts: the tables of docs/safety.md.

    ORCHESTRACE_CORPORA=... python benches/python/taint.py

What is measured is in `tests/corpora/injections.py`, which the tests share. Nothing is timed, everything is
exact or seeded: the same files give the same tables.
"""

import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from corpora import injections  # the tests are no package: the line above says where it is
from reference.injected_requests import DEFAULT, Rule

WAYS = {"tool": "through what a tool returned", "memory": "through a memory"}


def main() -> None:
    corpora = Path(os.environ["ORCHESTRACE_CORPORA"])
    with tempfile.TemporaryDirectory() as name:
        folder = injections.unpacked(corpora / "agentdojo/runs.tar.zst", Path(name))
        runs = injections.sources(folder)
        rows = injections.measured(ot.read_traces(folder), runs)
    for kind, way in WAYS.items():
        separation(kind, way, rows)
    held = injections.attacks(runs, injections.GRID)
    for by, heading in (("suite", "Leave one suite out"), ("injection", "Leave one injection out")):
        left_out(held, by, heading)
    sensitivity(injections.attacks(runs, tuple(injections.VARIANTS.values())))
    print("**Texts that the run never read**\n")
    print("| runs | pairs of run and text | with a flow |\n| --- | ---: | ---: |")
    chance = pl.DataFrame(list(injections.placebos(runs)), schema=["kind", "follows"], orient="row")
    for (kind,), own in chance.group_by("kind", maintain_order=True):
        shown = {"alone": "without an attack"}.get(str(kind), f"failed attacks, {kind}")
        print(f"| {shown} | {own.height:,} | {share(int(own['follows'].sum()), own.height)} |")


def separation(kind: str, way: str, rows: pl.DataFrame) -> None:
    own = rows.filter(kind=kind)
    reached, tasks = own["reached"].sum(), own["task_id"].n_unique()
    print(f"**Attacks {way}: {own.height} runs of {tasks} tasks, {reached} reached their goal**\n")
    print("| measure of a run | AUC [95 % interval] | gain over tool calls |")
    print("| --- | ---: | ---: |")
    for row in injections.separation(own).iter_rows(named=True):
        point = f"{row['auc']:.2f} [{row['lower']:.2f}, {row['upper']:.2f}]"
        gain = f"{row['gain']:+.2f} [{row['gain_lower']:+.2f}, {row['gain_upper']:+.2f}]"
        prefix = "baseline: " if row["measure"] in injections.BASELINES else ""
        print(f"| {prefix}{row['measure']} | {point} | {'' if row['measure'] == 'tool calls' else gain} |")
    print()


def left_out(rows: pl.DataFrame, by: str, heading: str) -> None:
    found, runs = injections.left_out(rows, by)
    print(f"**{heading}**\n")
    print("| held out | way in | rule | successes without a flow | failures with a flow | AUC |")
    print("| --- | --- | --- | ---: | ---: | ---: |")
    for row in found.iter_rows(named=True):
        cells = (row[by], row["kind"], spelt(injections.GRID[row["rule"]]), *counts(row))
        print(f"| {' | '.join(cells)} |")
        if row["rule"]:
            own = injections.judged(rows.filter(pl.col(by) == row[by], kind=row["kind"]), "0")
            cells = ("", row["kind"], "the importer's, for comparison", *counts(own))
            print(f"| {' | '.join(cells)} |")
    for (kind,), own in runs.group_by("kind", maintain_order=True):
        told = injections.judged(own, "held")
        beside = ""
        if by == "injection":  # there are too few suites to draw from
            low, high = injections.auc_interval(own["held"], own["reached"], own[by])
            beside = f"; [{low:.2f}, {high:.2f}] over injected texts"
        cells = ("**all**", str(kind), "", *counts(told))
        print(f"| {' | '.join(cells)}{beside} |")
    print()


def sensitivity(rows: pl.DataFrame) -> None:
    print("**One choice changed at a time**\n")
    print("| rule | way in | successes without a flow | failures with a flow | AUC |")
    print("| --- | --- | ---: | ---: | ---: |")
    for number, name in enumerate(injections.VARIANTS):
        for kind in WAYS:
            told = injections.judged(rows.filter(kind=kind), str(number))
            print(f"| {name} | {kind} | {' | '.join(counts(told))} |")
    print()


def counts(row: dict[str, Any]) -> tuple[str, str, str]:
    missed = share(row["missed"], row["reached"])
    drawn = share(row["drawn"], row["failed"])
    if math.isnan(row["auc"]):
        return missed, drawn, ""
    interval = "" if math.isnan(row["auc_lower"]) else f" [{row['auc_lower']:.2f}, {row['auc_upper']:.2f}]"
    return missed, drawn, f"{row['auc']:.2f}{interval}"


def share(hits: int, n: int) -> str:
    if not n:
        return ""
    low, high = injections.wilson(hits, n)
    return f"{hits} of {n:,} [{100 * low:.0f} %, {100 * high:.0f} %]"


def spelt(rule: Rule) -> str:
    """What the rule has that the importer's has not."""
    if rule == DEFAULT:
        return "the importer's"
    names = ("shortest", "shortest_number", "long", "tool_names", "other_content")
    changed = {name: getattr(rule, name) for name in names if getattr(rule, name) != getattr(DEFAULT, name)}
    return ", ".join(f"`{name}={value}`" for name, value in changed.items())


if __name__ == "__main__":
    main()
