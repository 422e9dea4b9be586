"""Every verb gives the same bits on any number of threads, and of a corpus on disk those of memory."""

from functools import cache
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from contract.verbs import VERBS, answer, frames
from example_calls import parameters
from samples import divided

APART = {
    "explain": "a row in the middle of a table whose order differs",
    "stopping.evaluate": "of epochs, which are compared, and in a minute",
    "study.downscale": "refuses what is not in memory",
}
"""Calls that are not compared with themselves on disk, and why."""
MEASURED = ("seconds", "events_per_s")
PLACES = ("file", "line", "offset", "length")


def groups() -> list[str]:
    """The groups of metrics of traces."""
    return list(dict.fromkeys(ot.list_metrics().filter(pl.col("group") != "members")["group"]))


CALLS: divided.Calls = {
    **divided.CALLS,
    "metrics of all groups": ("metrics", (), {"groups": groups()}),
    "all rewards": ("rewards.compute", (ot.rewards.list_rules()["reward"].to_list(),), {}),
    "effects of all events": ("replay", (ot.interventions.drop(each="event"),), {}),
    "effects of all edges": ("replay", (ot.interventions.drop(each="edge"),), {}),
    "taint through contexts": (
        "safety.tainted_events",
        (),
        {"carry": "context", "probabilistic": (0.3, 0.1)},
    ),
}


def threaded() -> list[str]:
    """The calls that take threads."""
    names = {name: parameters(divided.function(verb)) for name, (verb, *_) in CALLS.items()}
    return [name for name, of in names.items() if any(one.name == "threads" for one in of)]


@cache
def generated() -> ot.Corpus:
    return ot.generate(traces=80, preset="mixed", seed=3)


@pytest.mark.parametrize("name", threaded())
def test_threads_change_no_bit(name: str) -> None:
    verb, several, named = CALLS[name]
    one, *others = [
        divided.function(verb)(generated(), *several, **named, threads=threads) for threads in (1, 2, 7)
    ]
    assert one.height
    for other in others:
        divided.assert_same_bits(other, one)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ot.Corpus, ot.Corpus]:
    """The same runs in memory, and on disk in three partitions."""
    folder = tmp_path_factory.mktemp("runs")
    ot.generate(folder / "runs.jsonl", traces=60, preset="mixed", seed=5)
    ot.ingest(folder / "runs.jsonl", folder / "corpus", partitions=3)
    stored = ot.read_corpus(folder / "corpus")
    assert len(list(stored.pieces())) == 3
    return ot.read_traces(folder / "runs.jsonl"), stored


def answer_of(name: str, corpus: ot.Corpus) -> Any:
    if name in VERBS:
        return answer(VERBS[name], corpus)
    verb, several, named = CALLS[name]
    return divided.function(verb)(corpus, *several, **named)


@pytest.mark.parametrize("name", [name for name in {**VERBS, **CALLS} if name not in APART])
def test_a_corpus_on_disk_says_the_same(both: tuple[ot.Corpus, ot.Corpus], name: str) -> None:
    """Rows may come in another order, by partitions."""
    here, there = (list(frames(answer_of(name, corpus))) for corpus in both)
    assert len(here) == len(there)
    for memory, disk in zip(here, there, strict=True):
        assert memory.schema == disk.schema
        pair = [one.drop(*MEASURED, *PLACES, strict=False) for one in (memory, disk)]
        assert_frame_equal(*map(divided.bits, pair), check_exact=True, check_row_order=False)
