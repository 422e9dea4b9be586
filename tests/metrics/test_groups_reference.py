"""The groups of metrics beyond efficiency on random recordings, against plain Python and against replay."""

import io
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace import _core
from reference.judged import Judged
from reference.replay import Replay
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import Document, jsonl, random_document

QUICK = examples(150, derandomize=True)
BASES = ["seconds", "partial", "ordinal", "unknown"]
FILLED = ("content_hash", "content_ref", "tokens_out", "role", "score")
#: Fields beyond those of random recordings, and how they are filled.
EXTRA = {
    "trusted": lambda r: r.random() < 0.5,
    "corrupted": lambda r: r.random() < 0.5,
    "sanitizer": lambda r: r.random() < 0.2,
    "privileged": lambda r: r.random() < 0.5,
    "sandbox_id": lambda r: r.choice("ab"),
    "harness_hash": lambda r: r.choice("hk"),
    "subtask_id": lambda r: r.choice("123"),
    "draft_score": lambda r: r.choice([0.5, 0.9, 1.0]),
}


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Document], str]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    documents = []
    for number in range(draw(st.integers(1, 4))):
        filled = {name: r.choice([0.0, 0.5, 1.0]) for name in FILLED}
        one = random_document(r, number, r.randrange(1, 16), filled) | {"trace_id": f"t{number}"}
        shares = {name: r.choice([0.0, 0.4, 1.0]) for name in EXTRA}
        timed = r.choice([0.0, 0.4, 1.0])
        for event in one["events"]:
            if r.random() < timed:
                event["duration_s"] = r.randrange(12) / 4  # quarters: sums are exact in any order
            event |= {name: EXTRA[name](r) for name, share in shares.items() if r.random() < share}
        documents.append(one)
    return documents, draw(st.sampled_from(BASES))


def read(documents: list[Document], basis: str) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)


def same(row: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        told, reason = row[name], row[f"{name}.reason"]
        if value is None:
            assert told is None and reason is not None, (name, told)
        else:
            assert reason is None, (name, value, reason)
            assert told == pytest.approx(value, rel=1e-9, abs=1e-9), (name, told, value)


TIMES: dict[str, Any] = {"durations": "auto", "max_gap": "auto", "program_order": False}
DEFAULTS: dict[str, Any] = {**TIMES, "tools": {}}
"""What `ot.metrics` asks for where nothing is said."""


@QUICK
@given(
    recordings(),
    st.none() | st.dictionaries(st.sampled_from(["task", "other"]), st.sets(st.sampled_from("1234"))),
    st.none()
    | st.fixed_dictionaries(
        {},
        optional={
            "types": st.lists(st.sampled_from(["message", "spawn", "tool_call", "return"])),
            "tools": st.lists(st.sampled_from(["search", "run", "unheard of"])),
            "roles": st.lists(st.sampled_from(["worker", "critic"])),
        },
    ),
    st.sampled_from([None, 0.0, 0.25, 1.0]),
)
def test_every_metric_is_that_of_plain_python(
    recorded: tuple[list[Document], str],
    subtasks: dict[str, set[str]] | None,
    harness: dict[str, list[str]] | None,
    at: float | None,
) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    groups = ["quality", "errors", "taint", "conformance", "cut", "diversity", "drag", "steering"]
    groups.append("termination")
    options: dict[str, Any] = {"subtasks": subtasks, "harness": harness, "intervention_at": at}
    table = pl.DataFrame(_core.trace_metrics(corpus._store, groups, **DEFAULTS, **options))
    drags = pl.DataFrame(_core.drag(corpus._store, **TIMES))
    for number, (row, document) in enumerate(zip(table.iter_rows(named=True), documents, strict=True)):
        judged = Judged(Trace(document), basis)
        same(row, judged.quality((subtasks or {}).get(document["task_id"])))
        same(row, judged.errors())
        same(row, judged.taint())
        same(row, judged.cut())
        same(row, judged.conformance(harness))
        same(row, judged.diversity())
        same(row, judged.termination())
        same(row, judged.reach(0.5 if at is None else at))
        expected = judged.drags()
        same(row, {"drag_max": None if expected is None else max(expected.values())})
        same(row, {"drag_total": None if expected is None else sum(expected.values())})
        told = drags.filter(trace=number)
        assert dict(told.select("seq", "drag").iter_rows()) == pytest.approx(expected or {})
        assert told["seq"].to_list() == list(reversed(expected or {})), "first to last"
        if expected is not None:
            assert told["duration"].sum() == pytest.approx(max(judged.longest(judged.timed.d)))


@QUICK
@given(recordings(), st.booleans())
def test_utility_and_points_of_no_return_are_those_of_replay(
    recorded: tuple[list[Document], str], program_order: bool
) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    store = corpus._store
    table = pl.DataFrame(
        _core.trace_metrics(store, ["utility", "steering"], **DEFAULTS | {"program_order": program_order})
    )
    without = ot.interventions.drop(each="event", mode="node").spec()
    for row, document in zip(table.iter_rows(named=True), documents, strict=True):
        judged = Judged(Trace(document), basis)
        replay = Replay(judged.trace, program_order=program_order)
        replay.refused = judged.trace.unknown
        answers = {answer.unit: answer for answer in replay.answers([without])}
        effect = [
            None
            if (one := answers.get(event["id"])) is None or one.outcome is None
            else one.outcome_cf - one.outcome  # type: ignore[operator]
            for event in judged.events
        ]
        if None in effect:
            reasons = ("graph.cycle", judged.trace.unknown)
            assert row["point_of_no_return.reason"] in reasons
            assert row["message_utility_mean.reason"] in (*reasons, "ratio.empty")
            continue
        messages = [v for v in judged.messages() if (judged.tokens(v) or 0) > 0]
        utility = [-effect[v] / judged.tokens(v) for v in messages]  # type: ignore[operator]
        mean = sum(utility) / len(utility) if utility else None
        same(row, {"message_utility_mean": mean, "message_utility_min": min(utility, default=None)})
        y, order = judged.trace.outcome, judged.trace.order
        last = next((v for v in reversed(order) if v != y and abs(effect[v] or 0.0) > 1e-12), None)
        late = None if last is None else judged.times[last] - min(judged.times)
        elapsed = max(judged.times) - min(judged.times)
        same(row, {"point_of_no_return": late})
        same(row, {"point_of_no_return_share": None if late is None or not elapsed else late / elapsed})


def test_what_is_declared_is_checked() -> None:
    store = ot.generate(traces=2, seed=0)._store
    with pytest.raises(ot.ParameterError, match="unknown part of a harness 'tool'; did you mean 'tools'"):
        _core.trace_metrics(store, ["conformance"], harness={"tool": []}, **DEFAULTS)
    with pytest.raises(ot.ParameterError, match="unknown event type 'tool_cal'; did you mean 'tool_call'"):
        _core.trace_metrics(store, ["conformance"], harness={"types": ["tool_cal"]}, **DEFAULTS)
    with pytest.raises(ot.ParameterError, match=r"intervention_at is 1\.5, expected a share"):
        _core.trace_metrics(store, ["steering"], intervention_at=1.5, **DEFAULTS)
