"""Weights of tokens in a loss: the worked example, plain Python, and what they sum to."""

import io
import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given

import orchestrace as ot
from reference.rewards import token_weights
from samples.examples import examples
from samples.random_runs import Document, corpora, jsonl


def run(name: str, wrote: dict[str, list[int | None]], task: str = "task") -> Document:
    events: list[dict[str, Any]] = [
        {"type": "message", "agent": agent} | ({} if n is None else {"tokens_out": n})
        for agent, tokens in wrote.items()
        for n in tokens
    ]
    return {
        "trace_id": name,
        "task_id": task,
        "events": [{"id": f"e{n}", "t": n, **event} for n, event in enumerate(events)],
        "edges": [],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def read(*documents: Document) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))), time_basis="seconds")


def test_two_rollouts() -> None:
    """G = 2, tokens (10) and (5, 20): .05, and .05 and .0125."""
    table = ot.trainers.token_weights(read(run("x", {"a": [4, 6]}), run("y", {"a": [5], "b": [20]})))
    assert table["weight"].to_list() == [0.05, 0.05, 0.0125]
    assert table.select("trace", "agent", "tokens", "n_agents", "group_size").rows() == [
        (0, "a", 10, 1, 2),
        (1, "a", 5, 2, 2),
        (1, "b", 20, 2, 2),
    ]
    sums = table.group_by("trace", maintain_order=True).agg((pl.col("weight") * pl.col("tokens")).sum())
    assert sums["weight"].to_list() == [0.5, 0.5]


def test_who_has_no_tokens_has_no_weight_and_takes_none_from_others() -> None:
    runs = [
        run("x", {"a": [4], "b": [0], "c": [None]}),
        run("y", {"a": [None]}),
        run("z", {"a": [2]}, "more"),
    ]
    table = ot.trainers.token_weights(read(*runs))
    assert table["tokens"].to_list() == [4, 0, None, None, 2]
    assert table["weight"].to_list() == [1 / 8, None, None, None, 1 / 2]
    assert table["reason"].to_list() == [None, "field.absent", "field.absent", "field.absent", None]
    assert table["n_agents"].to_list() == [1, 1, 1, 0, 1]


@examples(100, derandomize=True)
@given(corpora(max_traces=6))
def test_weights_are_those_of_plain_python(documents: list[Document]) -> None:
    table = ot.trainers.token_weights(read(*documents))
    expected = token_weights(documents)
    found = {(row["trace"], row["agent"]): row["weight"] for row in table.iter_rows(named=True)}
    assert found.keys() == expected.keys()
    for key, weight in expected.items():
        assert found[key] == (None if weight is None else pytest.approx(float(weight), rel=1e-14)), key
    assert (table["weight"].is_null() == table["reason"].is_not_null()).all()


@examples(100, derandomize=True)
@given(corpora(max_traces=6))
def test_rollouts_of_a_group_share_it_equally(documents: list[Document]) -> None:
    table = ot.trainers.token_weights(read(*documents)).drop_nulls("weight")
    mass = pl.col("weight") * pl.col("tokens")
    agents = table.with_columns(mass=mass, share=1 / (pl.col("group_size") * pl.col("n_agents")))
    assert agents["mass"].to_list() == pytest.approx(agents["share"].to_list(), rel=1e-14)
    rollouts = table.group_by("trace", "group_id", "group_size", maintain_order=True).agg(mass=mass.sum())
    assert rollouts["mass"].to_list() == pytest.approx([1 / n for n in rollouts["group_size"]], rel=1e-14)
    groups = rollouts.group_by("group_id", "group_size").agg(pl.len(), pl.col("mass").sum())
    for _, size, told, whole in groups.iter_rows():
        assert whole == pytest.approx(told / size, rel=1e-14)


def test_tokens_beyond_a_count_keep_a_weight() -> None:
    table = ot.trainers.token_weights(read(run("x", {"a": [2**63 - 1, 2**63 - 1], "b": [1]})))
    assert table["tokens"].to_list() == [2**63 - 1, 1] and table["weight"][1] == 0.5
    assert table["weight"][0] == pytest.approx(0.5 / 2**63)


def test_rows_of_a_trainer_table_find_their_weight() -> None:
    corpus = read(run("x", {"a": [4, 6], "b": [None]}), run("y", {"a": [5], "b": [20]}))
    table = ot.trainers.trainer_table(corpus, ot.credit(corpus, method="grpo", unit="turn"))
    weights = ot.trainers.token_weights(corpus).select("trace", "agent", "weight")
    joined = table.join(weights, on=["trace", "agent"], how="left", maintain_order="left")
    assert joined.height == table.height
    told = joined.drop_nulls("response_length")
    assert (told["weight"] * told["response_length"]).sum() == pytest.approx(1.0)


def test_a_corpus_on_disk_weighs_the_same(tmp_path: Any) -> None:
    tasks = [run(f"{n}", {"a": [n], "b": [3, n % 4]}, f"task {n % 7}") for n in range(60)]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(json.dumps(one) for one in tasks))
    ot.ingest(str(path), tmp_path / "disk", partitions=4)
    disk = ot.read_corpus(tmp_path / "disk")
    here, there = (
        ot.trainers.token_weights(one, threads=n).sort("trace_id", "agent").drop("trace")
        for one, n in ((read(*tasks), 1), (disk, 2))
    )
    assert here.equals(there)
    assert here.with_columns(mass=pl.col("weight") * pl.col("tokens")).group_by("group_id").agg(
        pl.col("mass").sum()
    )["mass"].to_list() == pytest.approx([1.0] * 7)
