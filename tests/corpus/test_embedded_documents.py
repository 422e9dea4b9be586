"""ATIF documents that lie in others: they work for the one that holds them, referred to or not."""

import io
import json
from typing import Any

import polars as pl

import orchestrace as ot


def document(name: str, *texts: str, **more: Any) -> dict[str, Any]:
    times = (f"2026-01-01T00:00:{second:02d}Z" for second in range(60))
    steps = [
        {"step_id": n + 1, "source": "agent" if n else "user", "message": text, "timestamp": time}
        for n, (text, time) in enumerate(zip(texts, times, strict=False))
    ]
    agent = {"name": name, "version": "1", "model_name": "m"}
    return {"schema_version": "ATIF-v1.7", "session_id": name, "agent": agent, "steps": steps} | more


def read(one: dict[str, Any]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(json.dumps(one).encode()), format="atif")


def parents(corpus: ot.Corpus) -> dict[str, str]:
    spawns = corpus.events.with_columns(pl.col("type", "agent", "to").cast(pl.String)).collect()
    return dict(spawns.filter(pl.col("type") == "spawn").select("to", "agent").iter_rows())


def test_an_embedded_document_is_a_child_of_its_holder() -> None:
    inner = document("helper", "look", "found")
    corpus = read(document("boss", "do it", "done", subagent_trajectories=[inner]))
    assert parents(corpus) == {"helper": "boss"}
    outcome = ot.summary(corpus)
    assert "1 of 1 run ended with an answer, by boss." in str(outcome)
    said = corpus.events.with_columns(pl.col("from").cast(pl.String)).collect()["from"]
    assert said.to_list().count("user") == 1, "the task of the child is no message of the user"


def test_documents_lie_in_documents() -> None:
    innermost = document("third", "look", "found")
    inner = document("second", "look", "found", subagent_trajectories=[innermost])
    corpus = read(document("first", "do it", "done", subagent_trajectories=[inner]))
    assert parents(corpus) == {"second": "first", "third": "second"}
