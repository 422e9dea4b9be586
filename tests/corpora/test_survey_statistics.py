"""The paper pool of the survey artifact: every count and cross-tab that its page of statistics publishes."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

CREDIT = ["NA", "agent", "message", "orchestrator", "role", "turn"]
COUNTS = {
    "category": {
        **{"rl_method": 42, "benchmark": 18, "classical_marl": 10},
        **{"industry": 6, "survey": 5, "framework": 3},
    },
    "reward_type": {
        **{"NA": 33, "hybrid": 15, "shared": 10, "orchestration": 7, "verifier": 6},
        **{"debate": 4, "individual": 4, "role": 3, "process": 2},
    },
    "credit_granularity": {
        **{"NA": 36, "agent": 23, "role": 10, "orchestrator": 8, "turn": 5, "message": 2},
    },
}
REWARD_BY_CREDIT = {
    "NA": [32, 0, 0, 1, 0, 0],
    "debate": [0, 3, 1, 0, 0, 0],
    "hybrid": [0, 6, 0, 1, 4, 4],
    "individual": [0, 4, 0, 0, 0, 0],
    "orchestration": [0, 0, 0, 6, 1, 0],
    "process": [0, 1, 0, 0, 0, 1],
    "role": [0, 0, 0, 0, 3, 0],
    "shared": [0, 9, 1, 0, 0, 0],
    "verifier": [4, 0, 0, 0, 2, 0],
}
FORM_BY_CREDIT = {
    "NA": [31, 3, 0, 0, 0, 0],
    "centralized": [0, 14, 1, 3, 0, 0],
    "debate": [1, 3, 1, 0, 1, 2],
    "harness": [2, 1, 0, 0, 0, 0],
    "hierarchical": [0, 2, 0, 3, 5, 3],
    "planner_executor_critic": [0, 0, 0, 0, 4, 0],
    "swarm": [2, 0, 0, 2, 0, 0],
}


@pytest.fixture(scope="module")
def tables(corpora: Path) -> dict[str, pl.DataFrame]:
    return ot.scaling.survey(corpora / "survey-artifact")


def test_headline_counts(tables: dict[str, pl.DataFrame]) -> None:
    assert tables["headline"].rows() == [("retained", 84), ("excluded", 32), ("audited", 116)]


@pytest.mark.parametrize("field", COUNTS)
def test_counts_and_their_order(tables: dict[str, pl.DataFrame], field: str) -> None:
    found = tables["counts"].filter(log="retained", field=field).select("value", "records").rows()
    assert found == list(COUNTS[field].items())


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("reward_type_by_credit_granularity", REWARD_BY_CREDIT),
        ("orchestration_form_by_credit_granularity", FORM_BY_CREDIT),
    ],
)
def test_cross_tabs(tables: dict[str, pl.DataFrame], name: str, published: dict[str, list[int]]) -> None:
    table = tables[name]
    assert table.columns[1:] == CREDIT
    assert {row[0]: list(row[1:]) for row in table.rows()} == published
    assert table["NA"].to_list() == [row[0] for row in published.values()]


def test_every_field_counts_every_record(tables: dict[str, pl.DataFrame]) -> None:
    sums = tables["counts"].group_by("log", "field").agg(pl.col("records").sum())
    assert set(sums.filter(log="retained")["records"]) == {84} and sums.filter(log="retained").height == 8
    assert set(sums.filter(log="excluded")["records"]) == {32} and sums.filter(log="excluded").height == 3
    table = tables["category_by_verified"]
    assert table.select(pl.sum_horizontal(pl.exclude("category")).sum()).item() == 84


def test_message_credit_is_sparse_in_the_pool_and_computed_here(tables: dict[str, pl.DataFrame]) -> None:
    """Two papers, as the ledger of claims says; the engine credits messages by three dozen methods."""
    units = tables["credit_units"].filter(unit="message")
    assert units["papers"].to_list() == [2]
    assert units["methods"].list.len().to_list() == [
        sum("message" in units for units in ot.list_methods()["units"])
    ]


def test_the_pool_is_divided_among_families_and_units(tables: dict[str, pl.DataFrame]) -> None:
    assert tables["reward_families"]["papers"].to_list() == [10, 4, 3, 2, 0, 10, 7, 15, 33]
    assert tables["credit_units"]["papers"].to_list() == [0, 8, 10, 23, 5, 2, 0, 0, 36]
    once = tables["cells"].filter(decision="O1")
    # 48 name a unit; the reward of one of them, of an orchestrator, is tagged NA
    assert once["papers"].sum() == 48 - REWARD_BY_CREDIT["NA"][CREDIT.index("orchestrator")] == 47
