"""Metrics of random recordings, against plain Python and NetworkX, and against what must always hold."""

import io
import random
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.metrics import Measured
from reference.tables import PARTS, TOKENS
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import Document, jsonl, random_document

QUICK = examples(150, derandomize=True)
BASES = ["seconds", "partial", "ordinal", "unknown"]
FILLED = ("content_hash", "content_ref", "args_hash", "tokens_out", "role", "turn")
GROUPS = ("scale", "span", "time", "usage", "stages", "protocol", "utilization", "delegation", "dominators")
EFFICIENCY = set(ot.list_metrics().filter(pl.col("group").is_in(GROUPS))["metric"])
"""What the reference has to say; the other groups are those of `test_groups_reference.py`."""
SPENT = ("tokens", *PARTS, "tokens_reasoning", "cost_usd")


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Document], str]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    documents = []
    for number in range(draw(st.integers(1, 4))):
        filled = {name: r.choice([0.0, 0.5, 1.0]) for name in FILLED}
        one = random_document(r, number, r.randrange(1, 16), filled) | {"trace_id": f"t{number}"}
        timed, priced = r.choice([0.0, 0.4, 1.0]), r.choice([0.0, 0.5])
        for event in one["events"]:
            # quarters, so that sums are exact in any order
            if r.random() < timed:
                event["duration_s"] = r.randrange(12) / 4
            if r.random() < priced:
                event["cost_usd"] = r.randrange(12) / 4
            if r.random() < 0.3:
                event["ok"] = r.random() < 0.6
            for name in TOKENS:
                if r.random() < 0.2:
                    event[name] = r.randrange(9)
        documents.append(one)
    return documents, draw(st.sampled_from(BASES))


def read(documents: list[Document], basis: str) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)


@QUICK
@given(recordings(), st.sampled_from(["auto", None, 0.5, 2.0]))
def test_every_metric_is_that_of_plain_python(recorded: tuple[list[Document], str], max_gap: Any) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    table = ot.metrics(corpus, max_gap=max_gap)
    for row, document in zip(table.iter_rows(named=True), documents, strict=True):
        expected = Measured(Trace(document), basis, max_gap).all()
        assert expected.keys() == EFFICIENCY
        for name, value in expected.items():
            told = row[name]
            if value is None:
                assert told is None and row["reason"][name] is not None, (name, told)
            else:
                assert row["reason"][name] is None, (name, value, row["reason"][name])
                assert told == pytest.approx(value, rel=1e-9, abs=1e-9), (name, told, value)


@QUICK
@given(recordings())
def test_dominators_are_those_of_networkx(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    told = ot.schedules.dominators(read(documents, basis))
    for number, document in enumerate(documents):
        assert told.filter(trace=number)["seq"].to_list() == (
            Measured(Trace(document), basis).dominators() or []
        )


@QUICK
@given(recordings())
def test_members_add_up_to_their_trace(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    table = ot.metrics(corpus)
    acyclic = table["work"].is_not_null()
    for by in ("agent", "role"):
        rows = ot.metrics(corpus, by=by)  # type: ignore[arg-type]
        sums = rows.group_by("trace", maintain_order=True).agg(
            pl.col("n_events", "n_turns", "n_agents", *SPENT, "work", "critical_work").sum()
        )
        for name in ("n_events", "n_turns", "n_agents"):
            assert sums[name].to_list() == table[name].to_list()
        for name in SPENT:
            assert sums[name].to_list() == table[name].fill_null(0).to_list()
        for name, whole in (("work", "work"), ("critical_work", "span")):
            told = sums.filter(acyclic)[name]
            assert told.to_list() == pytest.approx(table.filter(acyclic)[whole].to_list())


@QUICK
@given(recordings(), st.sampled_from(["agent", "type", "tool"]))
def test_the_critical_path_divides_the_span(recorded: tuple[list[Document], str], by: Any) -> None:
    corpus = read(*recorded)
    table = ot.metrics(corpus)
    path = ot.schedules.critical_path(corpus, by=by)
    sums = path.group_by("trace", maintain_order=True).agg(
        pl.col("critical", "n_critical", "n_events").sum(), pl.col("reason").drop_nulls().first()
    )
    assert sums["trace"].to_list() == table["trace"].to_list()
    told = table["span"].is_not_null()
    assert sums.filter(told)["critical"].to_list() == pytest.approx(table.filter(told)["span"].to_list())
    assert sums.filter(told)["n_critical"].to_list() == table.filter(told)["n_critical"].to_list()
    assert set(sums.filter(~told)["reason"].to_list()) <= {"graph.cycle"}


@QUICK
@given(recordings())
def test_the_profile_peaks_where_lifetimes_meet(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    profile = ot.schedules.concurrency_profile(corpus)
    for number, document in enumerate(documents):
        measured = Measured(Trace(document), basis)
        rows = profile.filter(trace=number)
        lives = measured.lifetimes().values()
        for t, present, after in rows.select("t", "present", "after").iter_rows():
            assert present == sum(a <= t <= b for a, b in lives)
            assert after == sum(a <= t < b for a, b in lives)
        assert rows["present"].max() == (measured.peak() or None)


@QUICK
@given(recordings(), st.integers(0, 2**32 - 1))
def test_names_and_the_order_of_traces_do_not_matter(recorded: tuple[list[Document], str], seed: int) -> None:
    documents, basis = recorded
    table = ot.metrics(read(documents, basis))
    shuffled = list(documents)
    random.Random(seed).shuffle(shuffled)
    again = ot.metrics(read(shuffled, basis)).sort("trace_id")
    assert again.drop("trace").equals(table.sort("trace_id").drop("trace"))


@QUICK
@given(recordings())
def test_both_engines_of_replay_agree_with_work_and_span(recorded: tuple[list[Document], str]) -> None:
    corpus = read(*recorded)
    table = ot.metrics(corpus, groups=["span"])
    curve = ot.schedules.scaling_curve(corpus, [1, None])
    for column, k in (("work", 1), ("span", None)):
        at = curve.filter(pl.col("k").eq_missing(k))
        assert at["makespan"].to_list() == pytest.approx(table[column].to_list())
        assert at[column].to_list() == pytest.approx(table[column].to_list())
