"""The cells of rewards and of stopping: their numbers against other ways to them, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.study.cells import REWARD, STOP, cells
from orchestrace.study.measure import Bench

CONFIG: dict[str, Any] = {
    "sizes": [{"events": 12, "agents": 3, "traces": 48}, {"events": 30, "agents": 5, "traces": 48}],
    "presets": {"additive": {"outcome": "linear"}, "gates": {"outcome": "mixed"}},
    "methods": ["flow"],
    "units": ["agent"],
    "rewards": ["outcome", "shaping", {"name": "parl", "params": {"lambda_parallel": 0.5}}, "usd"],
    "stopping": ["recorded", "fixed", "lsm", "oracle"],
    "seed": 5,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    ot.study.run(CONFIG, place, workers=0)
    return place


def test_what_a_rule_pays_against_the_outcome_run_by_run(folder: Path) -> None:
    """The correlation inside tasks in plain Python, from the rows that the verb pays."""
    config = ot.study.parse_config(CONFIG)
    table = ot.study.load(folder, "rewards")
    assert table.height == 2 * 2 * 4
    bench = Bench(config)
    for cell in cells(config):
        if cell.kind != REWARD:
            continue
        corpus, _ = bench._corpus(cell)
        paid: dict[int, list[float | None]] = {}
        for row in ot.rewards.compute(corpus, {cell.run.name: cell.run.params}).iter_rows(named=True):
            paid.setdefault(row["trace"], []).append(row["value"])
        ends = corpus.measures.filter(kind="reward", name="team").collect()
        outcome = dict(ends.select("trace", "value").iter_rows())
        task = dict(corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).collect().iter_rows())
        by_task: dict[str, list[tuple[float, float]]] = {}
        for trace, values in paid.items():
            if None not in values:
                whole = sum(x for x in values if x is not None)
                by_task.setdefault(task[trace], []).append((whole, outcome[trace]))
        centered = [np.array(pairs) - np.mean(np.array(pairs), axis=0) for pairs in by_task.values()] or [
            np.zeros((0, 2))
        ]
        x, y = np.concatenate(centered).T
        here = table.filter(
            preset=cell.preset, events=cell.size.events, method=cell.run.label, replicate=0
        ).row(0, named=True)
        assert here["status"] == "ok" and here["n_traces"] == len(x)
        if len(x) and np.ptp(x) > 1e-9:
            assert here["follows"] == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-9)
        else:
            assert here["follows"] is None
    # nobody recorded money: null, with the reason, and never 0
    money = table.filter(method="usd")
    assert set(money["null_share"]) == {1.0} and set(money["null_reason"]) == {"field.absent"}
    assert money["mean"].null_count() == money.height
    assert table.filter(method="outcome")["follows"].to_list() == pytest.approx([1.0] * 4)


def test_regret_is_what_the_best_rule_pays_more(folder: Path) -> None:
    config = ot.study.parse_config(CONFIG)
    table = ot.study.load(folder, "stops")
    assert table.height == 2 * 4 and set(table["preset"]) == {"stops"}
    for row in table.iter_rows(named=True):
        assert row["regret"] == pytest.approx(row["truth"] - row["value"], abs=1e-12)
        assert row["regret_lower"] <= row["regret"] <= row["regret_upper"]
    by_size = table.select("events", "n_epochs", "truth").unique()
    assert by_size.height == 2  # every rule is asked the same runs
    mean = {name: table.filter(method=name)["regret"].mean() for name in CONFIG["stopping"]}
    assert mean["oracle"] < mean["lsm"] < mean["fixed"] < mean["recorded"]
    held = Bench(config)
    for cell in cells(config):
        if cell.kind == STOP:
            found = held.measure(cell)
            own = table.filter(events=cell.size.events, method=cell.run.name).row(0, named=True)
            assert found["rows"][0] == {name: own[name] for name in found["rows"][0]}


@pytest.mark.nightly
def test_the_same_numbers_with_workers_and_after_a_second_run(folder: Path, tmp_path: Path) -> None:
    ot.study.run(CONFIG, tmp_path, workers=2, threads=2)
    ot.study.run(CONFIG, tmp_path, workers=0)
    for name in ("rewards", "stops", "cells"):
        assert_frame_equal(ot.study.load(folder, name), ot.study.load(tmp_path, name))  # type: ignore[arg-type]


def test_one_rule_more_changes_no_other_number(folder: Path, tmp_path: Path) -> None:
    less = CONFIG | {"rewards": ["usd"], "stopping": ["fixed"]}
    ot.study.run(less, tmp_path, workers=0)
    for name, method in (("rewards", "usd"), ("stops", "fixed")):
        both = [ot.study.load(place, name).filter(method=method) for place in (folder, tmp_path)]  # type: ignore[arg-type]
        assert both[0].height and both[0].equals(both[1])


def test_the_report_has_a_row_for_each_rule(folder: Path) -> None:
    ot.study.report(folder)
    text = (folder / "report.md").read_text()
    follow = text.partition("## What rewards follow")[2].partition("\n## ")[0]
    assert "| `outcome` | 1.00 " in follow and "| `usd` | field.absent | field.absent |" in follow
    give_up = text.partition("## What rules of stopping give up")[2].partition("\n## ")[0]
    rows = [line for line in give_up.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == CONFIG["stopping"]


def test_a_rule_beyond_the_budget_is_a_row_that_says_so(tmp_path: Path) -> None:
    larger = {"events": 60, "agents": 5, "traces": 48}
    ot.study.run(CONFIG | {"budget_s": 1e-7, "sizes": [*CONFIG["sizes"], larger]}, tmp_path, workers=0)
    for name in ("rewards", "stops"):
        table = ot.study.load(tmp_path, name)  # type: ignore[arg-type]
        slow = table.filter(events=60)
        assert slow.height == table.height // 3 > 0
        assert set(slow["status"]) == {"too_slow"} and set(slow["reason"]) == {"budget"}
        assert slow["n_traces"].null_count() == slow.height


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rewards": ["outcom"]}, "unknown reward 'outcom'; did you mean 'outcome'"),
        ({"rewards": "outcome"}, "rewards is 'outcome', expected a list"),
        ({"rewards": [3]}, "reward 3, expected a name or a table with name and params"),
        ({"rewards": ["usd", "usd"]}, "reward 'usd' is given twice"),
        ({"rewards": [{"name": "usd", "units": ["event"]}]}, "unknown units of reward 'usd' 'event'"),
        ({"rewards": [{"name": "parl", "params": {"lambda": 1}}]}, "reward 'parl (lambda=1)': "),
        ({"rewards": [{"name": "parl", "params": 3}]}, "params of reward 'parl' is 3, expected a table"),
        ({"stopping": ["lsn"]}, "unknown stopping 'lsn'; did you mean 'lsm'"),
        ({"stopping": ["lsm", "lsm"]}, "stopping names 'lsm' twice"),
    ],
    ids=json.dumps,
)
def test_what_is_wrong_is_said_before_anything_runs(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        ot.study.parse_config(CONFIG | given)
    assert words in str(error.value) and "\n" not in str(error.value)
