"""Langfuse: ten exports against an independent count of their observations, tokens and scores.

The source's texts are data that models and users wrote; nothing of them is kept here.
"""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import rows, trace_ids

TRACES, OBSERVATIONS, SCORES = 10, 88, 13


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "langfuse"


@pytest.fixture(scope="module")
def exports(folder: Path) -> dict[str, dict[str, Any]]:
    """Documents by the id of their trace."""
    documents = [json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))]
    return {document["trace"]["id"]: document for document in documents}


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(sorted(folder.glob("*.json")))


def innermost(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Generations that contain no generation."""
    parents = {o["id"]: o["parentObservationId"] for o in document["observations"]}
    around: set[str] = set()
    generations = [o for o in document["observations"] if o["type"] == "GENERATION"]
    for observation in generations:
        above = parents[observation["id"]]
        while above is not None:
            around.add(above)
            above = parents.get(above)
    return [o for o in generations if o["id"] not in around]


def test_the_source_is_what_is_said_of_it(exports: dict[str, dict[str, Any]]) -> None:
    assert len(exports) == TRACES
    assert sum(len(document["observations"]) for document in exports.values()) == OBSERVATIONS
    assert sum(len(document["trace"]["scores"]) for document in exports.values()) == SCORES


def test_every_record_is_accounted_for(corpus: ot.Corpus, exports: dict[str, dict[str, Any]]) -> None:
    assert len(corpus) == TRACES
    assert corpus.quarantine.collect().height == 0
    assert set(trace_ids(corpus)) == set(exports)
    inside = sum(len(document["trace"].get("observations", [])) for document in exports.values())
    counts = corpus.record_counts.group_by("status").agg(pl.col("count").sum())
    by_status = {row["status"]: row["count"] for row in rows(counts)}
    assert by_status["duplicate"] == inside, "inside and beside count once"
    assert by_status["used"] + by_status["ignored"] == TRACES + OBSERVATIONS + SCORES


def test_tokens_and_costs_are_those_of_the_innermost_generations(
    corpus: ot.Corpus, exports: dict[str, dict[str, Any]]
) -> None:
    names = dict(enumerate(trace_ids(corpus)))
    sums = corpus.events.group_by("trace").agg(
        pl.col("tokens_in").sum(), pl.col("tokens_out").sum(), pl.col("cost_usd").sum()
    )
    found = rows(sums)
    assert len(found) == TRACES
    for row in found:
        trace, tokens_in, tokens_out, cost = (
            row[key] for key in ("trace", "tokens_in", "tokens_out", "cost_usd")
        )
        generations = innermost(exports[names[trace]])
        usage = [o["usageDetails"] for o in generations]
        assert tokens_in == sum(u.get("input", 0) for u in usage)
        assert tokens_out == sum(u.get("output", 0) for u in usage)
        assert cost == pytest.approx(sum(o["totalCost"] for o in generations), rel=1e-12)


def test_scores_are_metrics_and_no_rewards(corpus: ot.Corpus, exports: dict[str, dict[str, Any]]) -> None:
    names = dict(enumerate(trace_ids(corpus)))
    found = {
        (names[row["trace"]], row["name"]): row["value"]
        for row in rows(corpus.measures)
        if row["kind"] == "metric"
    }
    given = {(t, s["name"]): s["value"] for t, d in exports.items() for s in d["trace"]["scores"]}
    assert len(given) == SCORES
    assert found == given
    assert not rows(corpus.measures.filter(pl.col("kind") == "reward"))


def test_every_trace_ends_or_is_partial(corpus: ot.Corpus) -> None:
    ended = {row["trace"] for row in rows(corpus.events) if row["type"] in ("return", "aggregate")}
    partial = {row["trace"] for row in rows(corpus.traces) if row["partial"]}
    assert ended | partial == set(range(TRACES))


def test_agents_have_the_names_that_people_gave_them(corpus: ot.Corpus) -> None:
    agents = {row["agent"] for row in rows(corpus.agents)}
    assert {
        "joke_agent",
        "joke_agent#2",
        "evaluator_agent",
        "qa_agent",
        "hello_agent",
        "Software developer",
    } <= agents
