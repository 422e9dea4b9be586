"""The order in which a table lists its edges says nothing: ties go by the canonical order of events."""

import io
import json
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from contract.verbs import VERBS, answer, frames
from orchestrace import _core
from samples.cut_runs import documents_of
from samples.examples import examples
from samples.hand_runs import event, run
from samples.random_runs import Document, corpora

WRITES_EDGES = ("export", "write_jsonl", "view")
"""Verbs that list the edges themselves."""


def read(documents: list[Document]) -> ot.Corpus:
    data = "\n".join(map(json.dumps, documents)).encode()
    return ot.read_traces(io.BytesIO(data), format="native", time_basis="seconds")


def shuffled(documents: list[Document], r: random.Random) -> list[Document]:
    return [one | {"edges": r.sample(one["edges"], len(one["edges"]))} for one in documents]


def addressing_two(edges: list[tuple[int, int]], **human: Any) -> ot.Corpus:
    """A human's one event leads to events of two agents."""
    events = [
        event(0, agent="user", type="message", **human),
        event(1, agent="ann", type="message", to="bob"),
        event(2, agent="bob", type="message", to="ann"),
        event(3, agent="ann", type="aggregate", to="user"),
        event(4, agent="bob", type="aggregate", to="user"),
    ]
    return read([run(0, 1.0, events, edges)])


def root_of(corpus: ot.Corpus) -> set[str]:
    owned = pl.DataFrame(_core.ownership(corpus._store)).filter("is_root")
    return set(owned["owner"].cast(pl.String))


@pytest.mark.parametrize("edges", [[(0, 1), (0, 2)], [(0, 2), (0, 1)]])
def test_the_root_is_the_first_that_one_message_reached(edges: list[tuple[int, int]]) -> None:
    assert root_of(addressing_two(edges)) == {"ann"}
    assert root_of(addressing_two(edges, to="bob")) == {"ann"}, "a name comes after where edges lead"


@examples(150)
@given(corpora(), st.randoms(use_true_random=False))
def test_owners_and_agents_do_not_hang_on_it(documents: list[Document], r: random.Random) -> None:
    one, other = read(documents), read(shuffled(documents, r))
    for table in ("traces", "events", "agents"):
        places = ["offset", "length"]
        left, right = (getattr(c, table).drop(places, strict=False).collect() for c in (one, other))
        assert_frame_equal(left, right)
    left, right = (pl.DataFrame(_core.ownership(c._store)) for c in (one, other))
    assert_frame_equal(left, right)


@pytest.mark.parametrize("name", [name for name in VERBS if not name.startswith(WRITES_EDGES)])
@pytest.mark.every_nth(4)
def test_no_answer_hangs_on_it(name: str) -> None:
    """Sums may differ in their last bits: they run over inputs as they are listed."""
    documents = documents_of(ot.generate(traces=24, seed=0))
    answers = [
        list(frames(answer(VERBS[name], read(one))))
        for one in (documents, shuffled(documents, random.Random(0)))
    ]
    for left, right in zip(*answers, strict=True):
        measured = [column for column in ("seconds", "events_per_s", "params") if column in left.columns]
        assert_frame_equal(left.drop(measured), right.drop(measured), rel_tol=1e-9, abs_tol=1e-9)
