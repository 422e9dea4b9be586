"""What a corpus of 10^12 events takes on n nodes: a model of measured rates, and of the terms that bend it.

    python benches/python/cluster_model.py --measure benches/results/cluster_model.json [--events 4000000]
    python benches/python/cluster_model.py --svg docs/pictures/cluster-model.svg

The first measures rates on this machine, one thread each: an ingest; tasks of `credit` by `flow` and by
sampled Shapley values on two corpora, one eight times the other, so that seconds a task and seconds an event
come apart; how much the same task varies; planning, a task; reducing, a row. The second takes this result
and runs clusters of every size on paper: a task goes to the core that is free first. What one machine cannot
measure is assumed, and stands in `ASSUMED`.
"""

import argparse
import heapq
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import vl_convert

import orchestrace as ot
from orchestrace.study.sheet import COLORS, Sheet

RESULT = Path(__file__).resolve().parents[1] / "results" / "cluster_model.json"
MEMORY = "256MiB"
ROUNDS = 3
VERBS: dict[str, dict[str, Any]] = {
    "flow": {"method": "flow", "unit": "agent"},
    "shapley": {"method": "shapley", "unit": "agent", "samples": 64},
}
EVENTS = 1e12
EVENTS_A_TASK = 5_000_000
"""About what a budget of 1 GiB holds."""
CORES = 16
"""Of a node."""
NODES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]

ASSUMED: dict[str, float] = {
    "node_bytes_per_second": 1.25e9,  # a node's network, 10 Gbit/s
    "list_seconds": 0.1,  # a page of a listing
    "list_names": 1000,  # names on a page
    "node_start_seconds": 60.0,  # until a node does its first task
    "slow_share": 0.001,  # of the tasks, on a core that somebody else uses
    "slow_times": 10.0,  # longer, what such a task takes
    "largest_group_events": 5e6,  # one group, which no plan divides: as much as a task holds
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--measure", help="file for the rates of this machine")
    parser.add_argument("--events", type=int, default=4_000_000, help="events of the corpus that is measured")
    parser.add_argument("--tasks", type=int, default=32)
    parser.add_argument("--svg", help="file for the plot")
    asked = parser.parse_args()
    if asked.measure:
        Path(asked.measure).write_text(json.dumps(measured(asked.events, asked.tasks), indent=1) + "\n")
        return
    rates = json.loads(RESULT.read_text())
    rows = pl.concat(simulated(rates, verb) for verb in VERBS)
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160):
        print(rows)
    if asked.svg:
        Path(asked.svg).write_text(vl_convert.vegalite_to_svg(picture(rows)))


# --- what one machine measures ----------------------------------------------------------------------------


def measured(events: int, tasks: int) -> dict[str, Any]:
    """The rates of this machine, one thread each."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        large, found = _corpus(place / "large", events, tasks)
        small, _ = _corpus(place / "small", events // 8, tasks)
        for verb, options in VERBS.items():
            found[verb] = _of_verb([small, large], place / verb, options)
        return found


def _corpus(place: Path, events: int, tasks: int) -> tuple[ot.Corpus, dict[str, Any]]:
    place.mkdir()
    recording = place / "runs.jsonl"
    ot.generate(recording, preset="mixed", events=events, seed=0)
    ingest = _spent(lambda: ot.ingest(recording, place / "corpus", partitions=tasks, threads=1))
    corpus = ot.read_corpus(place / "corpus", memory=MEMORY, verify=False)
    held = corpus.traces.select(pl.col("n_events").sum()).collect().item()
    on_disk = sum(path.stat().st_size for path in (place / "corpus").rglob("*.parquet"))
    rates = {
        "events": held,
        "ingest_seconds_per_event": ingest / held,
        "recorded_bytes_per_event": recording.stat().st_size / held,
        "corpus_bytes_per_event": on_disk / held,
    }
    recording.unlink()
    return corpus, rates


def _of_verb(corpora: list[ot.Corpus], folder: Path, options: dict[str, Any]) -> dict[str, float]:
    """Seconds of tasks of two sizes, and of the plan and the reduction of the larger corpus."""
    events, seconds, spread = [], [], 0.0
    for corpus in corpora:
        plans = [folder / f"{len(events)}-{round_}" for round_ in range(ROUNDS)]
        times = np.array([_tasks(corpus, one, options) for one in plans])
        plan = ot.distributed.plan(corpus, "credit", folder=plans[0], **options)
        events.append(statistics.mean(task.events for task in plan.tasks))
        seconds.append(float(np.median(times, axis=0).mean()))
        spread = float(np.log(times / np.median(times, axis=0)).std())
    slope = (seconds[1] - seconds[0]) / (events[1] - events[0])
    sink = folder / "table.parquet"
    reduced = _spent(lambda: ot.distributed.reduce(plan, sink=sink))
    rows = pl.scan_parquet(sink).select(pl.len()).collect().item()
    planned = _spent(lambda: ot.distributed.plan(corpora[1], "credit", folder=folder / "again", **options))
    return {
        "plan_seconds_per_task": planned / len(plan.tasks),
        "seconds_per_task": max(0.0, seconds[0] - slope * events[0]),
        "seconds_per_event": slope,
        "spread": spread,
        "rows_per_event": rows / (events[1] * len(plan.tasks)),
        "reduce_seconds_per_row": reduced / rows,
    }


def _tasks(corpus: ot.Corpus, folder: Path, options: dict[str, Any]) -> list[float]:
    plan = ot.distributed.plan(corpus, "credit", folder=folder, **options)
    return [_spent(lambda task=task: ot.distributed.run_task(task, threads=1)) for task in plan.tasks]


def _spent(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


# --- on paper ---------------------------------------------------------------------------------------------


def simulated(rates: dict[str, Any], verb: str) -> pl.DataFrame:
    """A row per size of cluster: hours of each term, in the order in which they are passed."""
    own = rates[verb]
    n_tasks = round(EVENTS / EVENTS_A_TASK)
    random = np.random.default_rng(0)
    compute = own["seconds_per_task"] + own["seconds_per_event"] * EVENTS_A_TASK
    noise = random.lognormal(0.0, own["spread"], n_tasks)
    slow = random.random(n_tasks) < ASSUMED["slow_share"]
    lasting = compute * noise * np.where(slow, ASSUMED["slow_times"], 1.0)
    lasting[0] += own["seconds_per_event"] * max(0.0, ASSUMED["largest_group_events"] - EVENTS_A_TASK)
    read = EVENTS * rates["corpus_bytes_per_event"] / ASSUMED["node_bytes_per_second"]
    before = ASSUMED["node_start_seconds"] + n_tasks / ASSUMED["list_names"] * ASSUMED["list_seconds"]
    planned = own["plan_seconds_per_task"] * n_tasks
    reduced = own["reduce_seconds_per_row"] * own["rows_per_event"] * EVENTS
    rows = []
    for nodes in NODES:
        tasks = max(_makespan(lasting, nodes * CORES), read / nodes)
        whole = before + planned + tasks
        rows.append(
            {
                "verb": verb,
                "nodes": nodes,
                "start and listing": before / 3600,
                "planning": planned / 3600,
                "tasks": tasks / 3600,
                "even tasks": float(lasting.sum()) / nodes / CORES / 3600,
                "reducing": reduced / 3600,
                "hours": whole / 3600,
                "hours with one table": (whole + reduced) / 3600,
                "node hours": whole * nodes / 3600,
            }
        )
    return pl.DataFrame(rows)


def _makespan(lasting: Any, cores: int) -> float:
    """When the last task ends, if each goes to the core that is free first."""
    if cores >= len(lasting):
        return float(lasting.max())
    free = [0.0] * cores
    for seconds in lasting:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


LINES = {
    "even tasks": "tasks, divided evenly",
    "hours": "parts in a folder: start, listing, planning, tasks",
    "hours with one table": "parts joined to one file",
}


def picture(rows: pl.DataFrame) -> dict[str, Any]:
    """Hours against nodes, for each verb a panel."""
    sheet = Sheet()
    alt = sheet.alt
    names = list(LINES.values())
    long = rows.unpivot(
        list(LINES), index=["verb", "nodes"], variable_name="line", value_name="h"
    ).with_columns(pl.col("line").replace_strict(LINES))
    legend = {"orient": "top", "columns": 1, "symbolType": "stroke", "labelLimit": 400}
    color = alt.Color("line:N", title=None, sort=names).scale(domain=names, range=COLORS[:3]).legend(**legend)
    dash = (
        alt.StrokeDash("line:N", sort=names).scale(domain=names, range=[[4, 3], [1, 0], [2, 2]]).legend(None)
    )
    panels = []
    for verb in VERBS:
        own = long.filter(verb=verb)
        y = (
            alt.Y("h:Q", title="hours")
            .scale(type="log")
            .axis(format="~g", values=[10.0**n for n in range(-2, 4)])
        )
        x = sheet.steps("nodes", own["nodes"], title=f"nodes of {CORES} cores")
        lines = sheet.chart(own).mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash)
        panels.append(lines.properties(width=300, height=240, title=sheet.head(f"credit by {verb}")))
    return {**sheet.grid(panels, 2, {"row": 10, "column": 24}), "padding": 8}


if __name__ == "__main__":
    main()
