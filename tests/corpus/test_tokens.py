"""Counts of tokens: what follows from them, of documents, tables and corpora of this layout and the last."""

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples import on_disk

TOKENS = (
    *("tokens_in", "tokens_fresh", "tokens_cached", "tokens_cache_write"),
    *("tokens_out", "tokens_reasoning", "tokens"),
)


def document(*events: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [
        {"id": f"e{n}", "t": n, "type": "message", "agent": "a", **event} for n, event in enumerate(events)
    ]
    empty = {"edges": [], "rewards": {"team": 1}, "costs": {"tokens": 0, "wall_clock_s": 0}}
    return {"trace_id": "t", "task_id": "k", "events": rows, **empty, **more}


def read(*documents: dict[str, Any]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(b"\n".join(json.dumps(one).encode() for one in documents)))


def counts(events: pl.LazyFrame) -> list[tuple[int | None, ...]]:
    return events.select(TOKENS).collect().rows()


def test_parts_and_total_follow() -> None:
    corpus = read(
        document(
            {
                "tokens_in": 100,
                "tokens_cached": 90,
                "tokens_cache_write": 4,
                "tokens_out": 7,
                "tokens_reasoning": 5,
            },
            {"tokens_in": 3, "tokens_out": 2, "tokens": 5},
            {"tokens_out": 2},
            {"tokens": 8},
            {},
        )
    )
    none = None
    assert counts(corpus.events) == [
        (100, 6, 90, 4, 7, 5, 107),
        (3, 3, none, none, 2, none, 5),
        (none, none, none, none, 2, none, 2),
        (none, none, none, none, none, none, 8),
        (none,) * 7,
    ]
    assert corpus.findings.collect().is_empty()
    target = io.BytesIO()
    corpus.write_jsonl(target)
    written = json.loads(target.getvalue())["events"]
    assert [{name for name in TOKENS if name in event} for event in written] == [
        {"tokens_in", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens_reasoning"},
        {"tokens_in", "tokens_out"},
        {"tokens_out"},
        {"tokens"},
        set(),
    ]
    again = ot.read_traces(io.BytesIO(target.getvalue()))
    assert counts(again.events) == counts(corpus.events)


def test_a_contradiction_is_told_and_the_parts_count() -> None:
    corpus = read(
        document({"tokens_in": 4, "tokens_cached": 96, "tokens_out": 1, "tokens": 5}, {"tokens_out": 1})
    )
    assert counts(corpus.events)[0] == (100, 4, 96, None, 1, None, 101)
    found = corpus.findings.select("code", "count", "seq", "message").collect().row(0)
    assert found[:3] == ("usage.conflict", 1, 0)
    assert found[3] == (
        "tokens_in is 4, but its parts sum to 100, tokens is 5, but its parts sum to 101; the parts are used"
    )


def test_tables_are_settled_when_they_are_taken_over() -> None:
    corpus = read(document({"tokens_in": 10, "tokens_out": 1}))
    events = corpus.events.collect().with_columns(
        tokens_cached=pl.lit(7, pl.Int64), tokens_fresh=pl.lit(None, pl.Int64), tokens=pl.lit(None, pl.Int64)
    )
    taken = ot.Corpus.from_arrow(traces=corpus.traces.collect(), events=events)
    assert counts(taken.events) == [(10, 3, 7, None, 1, None, 11)]


@pytest.mark.parametrize("columns", [["tokens"], ["tokens_fresh"], ["tokens_cached", "seq"]])
def test_one_column_needs_the_others(columns: list[str], tmp_path: Path) -> None:
    source = tmp_path / "runs.jsonl"
    source.write_text(json.dumps(document({"tokens_in": 10, "tokens_cached": 7, "tokens_out": 1})))
    found = ot.scan_events(source).select(columns).collect().row(0, named=True)
    whole = {"tokens": 11, "tokens_fresh": 3, "tokens_cached": 7, "seq": 0}
    assert found == {name: whole[name] for name in columns}


def test_documents_of_before_have_parts_among_the_unknown_fields() -> None:
    corpus = read(document({"tokens_in": 10, "tokens_out": 3, "x_tokens_cached": 7, "x_tokens_reasoning": 2}))
    assert counts(corpus.events) == [(10, 3, 7, None, 3, 2, 13)]
    assert corpus.events.select("extras").collect().item() is None


def test_a_corpus_on_disk_of_layout_1_0_is_read_with_the_columns_of_today(tmp_path: Path) -> None:
    source, folder = tmp_path / "runs.jsonl", tmp_path / "corpus"
    source.write_text(
        json.dumps(
            document({"tokens_in": 10, "tokens_cached": 7, "tokens_out": 3}, {"tokens": 5}, {"tokens_out": 1})
        )
    )
    ot.ingest(source, folder)
    for path in folder.glob("part=*/events/*.parquet"):
        events = pl.read_parquet(path, hive_partitioning=False)
        extras = pl.when(pl.col("seq") == 0).then(pl.lit('{"x_tokens_cached":7}'))
        old = events.drop("tokens_fresh", "tokens_cached").with_columns(
            tokens=pl.when(pl.col("seq") == 1).then("tokens"), extras=extras
        )
        old.write_parquet(path)
    on_disk.forget_checksums(folder)  # that layout had none
    on_disk.rewrite_manifest(folder, schema_version="1.0")
    want = [
        (10, 3, 7, None, 3, None, 13),
        (None, None, None, None, None, None, 5),
        (None, None, None, None, 1, None, 1),
    ]
    corpus = ot.read_corpus(folder)
    assert counts(corpus.events) == want
    assert [row for piece in corpus.slices() for row in counts(piece.events)] == want
    table = ot.metrics(corpus)
    assert table.select("tokens", "tokens_fresh", "tokens_cached", "tokens_out").row(0) == (19, 3, 7, 4)
    target = io.BytesIO()
    corpus.write_jsonl(target)
    assert counts(ot.read_traces(io.BytesIO(target.getvalue())).events) == want


def test_graders_and_stand_ins_are_no_cost_of_the_team() -> None:
    corpus = read(
        document(
            {"tokens_in": 10, "tokens_out": 2, "cost_usd": 0.5},
            {"agent": "judge", "role": "scorer", "tokens_in": 70, "tokens_out": 3, "cost_usd": 0.25},
            {"agent": "tester", "role": "user", "tokens": 1000, "cost_usd": 8.0},
        )
    )
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["tokens"], row["cost_usd"]) == (12, 0.5)
    assert (row["scorer_tokens"], row["scorer_cost_usd"]) == (73, 0.25)
    agents = ot.metrics(corpus, by="agent")
    assert agents.select(pl.col("tokens", "tokens_fresh", "cost_usd").sum()).row(0) == (12, 10, 0.5)
    bare = ot.metrics(read(document({}))).row(0, named=True)
    for name in ("tokens_fresh", "tokens_cached", "tokens_reasoning", "scorer_tokens", "scorer_cost_usd"):
        assert (bare[name], bare["reason"][name]) == (None, "field.absent")
