"""Write what a release leaves on disk, for every later one to read: run it once, with that release installed.

    python tests/archive/write.py        # writes tests/archive/VERSION.tar.gz

In it: ``recordings``, ``corpus`` (ingested in two calls, with damage), ``plan`` (its tasks are done),
``begun`` (one of them is), ``study``, and ``expected``: what the release itself read in them.
0.2.0 is the engine of 24 November 2026, with tables 1.1.
"""

import json
import os
import random
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any, Final

import polars as pl

import orchestrace as ot

TABLES: Final = ("traces", "events", "edges", "measures", "agents", "labels", "quarantine", "findings")
CREDIT: Final[dict[str, Any]] = {"method": "flow", "unit": "agent", "reward": "team"}
STUDY: Final[dict[str, Any]] = {
    "sizes": [{"events": 12, "agents": 3, "traces": 40}],
    "presets": {"additive": {"outcome": "linear"}},
    "methods": ["flow", "grpo"],
    "slots": [1, 2],
    "rewards": ["parl"],
    "stopping": ["fixed"],
    "seed": 3,
}


def recordings(folder: Path) -> tuple[Path, Path]:
    """Two files of runs: generated ones, and some by hand with damage and fields of their own."""
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    ot.generate(first, traces=12, seed=1)
    random.seed(2)
    lines = []
    for number in range(6):
        events: list[dict[str, Any]] = [
            {"id": f"e{n}", "t": n / 2, "type": kind, "agent": agent, "tokens_out": random.randrange(90)}
            for n, (kind, agent) in enumerate(
                [
                    ("orchestrator_decision", "lead"),
                    ("spawn", "lead"),
                    ("tool_call", "worker-ü"),
                    ("tool_result", "worker-ü"),
                    ("return", "worker-ü"),
                    ("aggregate", "lead"),
                ]
            )
        ]
        events[1]["to"] = events[4]["agent"]
        events[2] |= {"tool": "search", "args_hash": f"h{number % 2}", "my_field": {"kept": number}}
        events[3] |= {"tool": "search", "ok": number % 3 != 0}
        document = {
            "trace_id": f"hand-{number}",
            "task_id": f"task-{number % 2}",
            "events": events,
            "edges": [
                {"src": "e1", "dst": "e2", "type": "spawn"},
                {"src": "e4", "dst": "e5", "type": "return"},
            ],
            "rewards": {"team": float(number % 2), "format": 0.25},
            "costs": {"tokens": 0, "wall_clock_s": 2.5},
            "metrics": {"train_step": float(number)},
        }
        lines.append(json.dumps(document))
    lines.insert(2, '{"trace_id": "cut", "events": [')
    lines.insert(4, json.dumps({"trace_id": "no-events"}))
    second.write_text("\n".join(lines) + "\n")
    return first, second


def rows(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """A table with words as text, so that no code of theirs is compared."""
    words = pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    return frame.lazy().with_columns(words).collect()


def write(folder: Path) -> None:
    expected = folder / "expected"
    expected.mkdir()
    (folder / "recordings").mkdir()
    for path in recordings(folder / "recordings"):
        ot.ingest(path, folder / "corpus", partitions=2)
    corpus = ot.read_corpus(folder / "corpus")
    for name in TABLES:
        rows(getattr(corpus, name)).write_parquet(expected / f"{name}.parquet")
    rows(ot.credit(corpus, **CREDIT)).write_parquet(expected / "credit.parquet")
    for name, n_done in (("plan", 2), ("begun", 1)):
        plan = ot.distributed.plan(folder / "corpus", "credit", **CREDIT, folder=folder / name, tasks=2)
        for task in plan.tasks[:n_done]:
            ot.distributed.run_task(task)
    ot.study.run(STUDY, folder / "study")
    rows(ot.study.load(folder / "study")).write_parquet(expected / "study.parquet")


def main() -> None:
    target = Path(__file__).parent / f"{ot.__version__}.tar.gz"
    if target.exists():
        sys.exit(f"{target} is there: what a release wrote is never written again")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        with tarfile.open(target, "w:gz") as archive:
            for name in sorted(os.listdir(folder)):
                archive.add(Path(folder) / name, name)


if __name__ == "__main__":
    main()
