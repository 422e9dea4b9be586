"""Odd small corpora through every method and verb: numbers, null with a reason, or an error of ours."""

import io
import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from contract.verbs import METHODS, VERBS, answer, beyond_numbers, crediting
from samples.on_disk import document

Event = dict[str, Any]
UNITS = ("event", "agent", "team")


def event(number: int, **more: Any) -> Event:
    return {"id": f"e{number}", "t": number, "type": "message", "agent": f"a{number % 3}", **more}


def edge(src: int, dst: int, type: str = "causal") -> dict[str, Any]:
    return {"src": f"e{src}", "dst": f"e{dst}", "type": type}


def trace(name: str, events: list[Event], edges: list[dict[str, Any]] | None = None, **more: Any) -> Event:
    return {**document(name, 0), "events": events, "edges": edges or [], **more}


def group(**more: Any) -> list[Event]:
    """Four rollouts of a task with everything that methods ask for."""
    return [
        trace(
            f"r{n}",
            [
                event(
                    i,
                    turn=i // 2,
                    value=0.5,
                    state_key=f"s{i}",
                    role="worker",
                    tokens_out=3,
                    action_prob=0.5,
                    **({} if i else {"x_trace": {"group_id": "g"}}),
                    **more,
                )
                for i in range(5)
            ],
            [edge(i, i + 1) for i in range(4)],
            rewards={"team": n % 2},
        )
        for n in range(4)
    ]


CORPORA: dict[str, Callable[[], list[Event]]] = {
    "empty": lambda: [],
    "one event": lambda: [trace("x", [event(0)])],
    "one agent": lambda: [
        trace("x", [event(i, agent="a") for i in range(9)], [edge(i, i + 1) for i in range(8)])
    ],
    "a cycle": lambda: [trace("x", [event(i) for i in range(4)], [edge(i, (i + 1) % 4) for i in range(4)])],
    "edges to itself": lambda: [trace("x", [event(0), event(1)], [edge(0, 0), edge(1, 0), edge(0, 1)])],
    "no edges": lambda: [trace("x", [event(i) for i in range(12)])],
    "equal times": lambda: [
        trace("x", [event(i) | {"t": 0} for i in range(7)], [edge(0, i) for i in range(1, 7)])
    ],
    "times from far away": lambda: [
        trace("x", [event(i) | {"t": t} for i, t in enumerate((0, 5e-324, 1.7e308))])
    ],
    "a group": group,
    "rewards of 1.7e308": lambda: [
        one | {"rewards": {"team": (1.7e308, -1.7e308)[n % 2]}} for n, one in enumerate(group())
    ],
    "rewards of 5e-324": lambda: [one | {"rewards": {"team": 5e-324 * n}} for n, one in enumerate(group())],
    "values of 1.7e308": lambda: group(score=1.7e308, cost=1.7e308, latency_ms=1.7e308),
    "counts near 2^63": lambda: [
        *group(tokens_in=2**63 - 1),
        trace("y", [event(i, tokens_out=2**62, turn=2**32 - 1 - i) for i in range(10)]),
    ],
    "no rewards": lambda: [one | {"rewards": {}} for one in group()],
    "a role each": lambda: [trace("x", [event(i, agent=f"a{i}", role=f"r{i}") for i in range(300)])],
    "a star": lambda: [
        trace("x", [event(i, agent=f"a{i}") for i in range(150)], [edge(0, i) for i in range(1, 150)])
    ],
    "names of one letter and none": lambda: [trace("x", [event(0, agent="\u202e"), event(1, agent=" ")])],
    "an id twice": lambda: [trace("x", [event(0)]), trace("x", [event(0), event(1)])],
}


def corpus_of(name: str) -> ot.Corpus:
    data = b"".join(json.dumps(one).encode() + b"\n" for one in CORPORA[name]())
    return ot.read_traces(io.BytesIO(data), format="native")


@pytest.mark.every_nth(6)
@pytest.mark.parametrize("name", sorted(CORPORA))
def test_every_method_gives_a_number_or_a_reason(name: str) -> None:
    corpus = corpus_of(name)
    for method, units in METHODS:
        for unit in UNITS:
            if unit not in units:
                continue
            found = answer(crediting(method, unit), corpus)
            if isinstance(found, pl.DataFrame):
                assert not beyond_numbers(found), (method, unit, beyond_numbers(found))
                told = found["reason"].is_not_null() | found["credit"].is_not_null()
                assert told.all(), (method, unit)


@pytest.mark.every_nth(6)
@pytest.mark.parametrize("name", sorted(CORPORA))
def test_every_verb_answers(name: str) -> None:
    corpus = corpus_of(name)
    for verb in sorted(VERBS):
        found = answer(VERBS[verb], corpus)
        assert not beyond_numbers(found), (verb, beyond_numbers(found))


@pytest.mark.parametrize("name", sorted(CORPORA))
def test_what_is_written_is_what_was_read(name: str) -> None:
    corpus = corpus_of(name)
    assert corpus.records["quarantined"] == 0
    written, again = io.BytesIO(), io.BytesIO()
    corpus.write_jsonl(written)
    ot.read_traces(io.BytesIO(written.getvalue()), format="native").write_jsonl(again)
    assert written.getvalue() == again.getvalue()


def test_lists_of_more_tokens_than_can_be_counted_are_refused() -> None:
    corpus = corpus_of("counts near 2^63")
    corpus = corpus.filter(pl.col("trace_id") == "y")
    with pytest.raises(ot.ParameterError, match=r"46,116,860,184,273,879,040 tokens.*max_tokens"):
        ot.trainers.token_credits(corpus, ot.credit(corpus, method="broadcast", unit="token"))
    turns = ot.credit(corpus, method="broadcast", unit="turn")
    with pytest.raises(ot.ParameterError, match="max_tokens"):
        ot.trainers.trainer_table(corpus, turns, per="token")
