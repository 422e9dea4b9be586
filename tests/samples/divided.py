"""Calls of every verb that a plan divides, and what it takes for two tables to be the same bytes."""

from pathlib import Path
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

import orchestrace as ot
from example_calls import example_of
from orchestrace.base.verbs import all_verbs

ACT = ot.interventions


Calls = dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]]
"""A verb, arguments in order beside the corpus, and those by name."""


def examples() -> Calls:
    """What docstrings show, but for decisions to spawn, whose effects are of all runs of a corpus."""
    verbs = [about for about in all_verbs() if about.division and about.name != "decisions.table"]
    calls = {about.name: example_of(about.function) for about in verbs}
    return {name: (name, call.several, call.beside_corpora()) for name, call in calls.items()}


CALLS: Calls = {
    "credit flow": ("credit", (), {"method": "flow", "unit": "event"}),
    "credit of two rewards": ("credit", (), {"unit": "agent", "reward": ["team", {"team": 0.5}]}),
    "credit sampled": ("credit", (), {"method": "shapley", "unit": "agent", "samples": 16, "seed": 3}),
    "credit of groups": ("credit", (), {"method": "grpo", "unit": "agent"}),
    "credit of siblings": ("credit", (), {"method": "c3", "unit": "turn"}),
    "replay of several": (
        "replay",
        (
            ACT.truncate(at=3.0),
            ACT.concurrency([1, 2, None]),
            ACT.drop(each="role"),
            ACT.speed_up(2.0, tool="bash"),
        ),
        {"sensitivity": False},
    ),
    "replay composed": ("replay", (ACT.drop(tool="bash") & ACT.truncate(at=9.0),), {"structure_alone": True}),
    "metrics by agent": ("metrics", (), {"by": "agent"}),
    "metrics by task": ("metrics", (), {"by": "task", "groups": ["span", "taint"]}),
    "metrics by topology": ("metrics", (), {"by": "topology", "pool_harnesses": True, "confidence": 0.9}),
    "taint of tools": (
        "taint",
        (),
        {"untrusted_tools": ["web.*"], "trusted_tools": ["*"], "probabilistic": (0.5, 0.1)},
    ),
    "tainted events": ("safety.tainted_events", (), {"untrusted_tools": ["web.*"]}),
    "attack vectors": (
        "safety.attack_vectors",
        (),
        {"privileged_tools": ["bash"], "memory_tools": ["web.*"]},
    ),
    "sanitizer cut": ("safety.sanitizer_cut", (), {"untrusted_tools": ["web.*"]}),
    "one reward": ("rewards.compute", ("speedup",), {"channels": None}),
    "schedule": ("schedules.simulate", (), {"slots": 2}),
    "scaling curve": ("schedules.scaling_curve", ([1, 2, None],), {}),
    "sub-agents": ("costs.spawns", (), {"reward": {"team": 0.5}, "method": "uniform", "prices": None}),
    "decisions to aggregate": ("decisions.table", ("aggregate",), {}),
    "decisions to send": ("decisions.table", ("communicate",), {"reward": "team"}),
    "decisions to stop": ("decisions.table", ("stop",), {"bounds": (0.0, 1.0)}),
    **examples(),
}


def function(verb: str) -> Any:
    """A verb by its name below the package."""
    found: Any = ot
    for name in verb.split("."):
        found = getattr(found, name)
    return found


def one_machine(corpus: ot.Corpus, call: str) -> pl.DataFrame:
    """What the verb itself gives."""
    verb, arguments, options = CALLS[call]
    found = function(verb)(corpus, *arguments, **options)
    assert isinstance(found, pl.DataFrame)
    return found


def planned(corpus: Any, call: str, folder: Path, **more: Any) -> ot.distributed.Plan:
    """A plan of the call."""
    verb, arguments, options = CALLS[call]
    return ot.distributed.plan(corpus, verb, *arguments, folder=folder, **{**options, **more})


def corpus_on_disk(folder: Path, *, traces: int = 160, partitions: int = 5) -> Path:
    """A corpus of generated runs, eight a task, in several partitions."""
    ot.generate(folder / "runs.jsonl", traces=traces, seed=7)
    ot.ingest(folder / "runs.jsonl", folder / "corpus", partitions=partitions)
    return folder / "corpus"


def bits(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with the bits of its numbers, so that -0.0 is not 0.0."""
    floats = [name for name, dtype in frame.schema.items() if dtype == pl.Float64]
    return frame.with_columns(pl.col(name).reinterpret(dtype=pl.UInt64) for name in floats)


def assert_same_bits(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Two tables are equal: columns, types, order, and every bit of every number."""
    assert found.schema == expected.schema
    assert_frame_equal(bits(found), bits(expected), check_exact=True)
