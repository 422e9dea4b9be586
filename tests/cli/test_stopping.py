"""The command `stopping abort`: what it fits, what it asks, what it refuses."""

import json
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from cli.commands import error_line, run


def scored(path: Path, count: int, **changes: Any) -> Path:
    """Runs of four scored steps each, whose scores tell how they end."""
    rng = random.Random(3)
    lines = []
    for n in range(count):
        won = n % 2
        steps = [
            {"id": f"e{k}", "t": k, "type": "message", "agent": "lead", "score": rng.gauss(won, 0.7)}
            for k in range(4)
        ]
        document = {"trace_id": f"r{n}", "task_id": f"q{n // 2}", "events": steps, "edges": []}
        document |= {"rewards": {"team": won}, "costs": {"tokens": 0, "wall_clock_s": 0}, **changes}
        lines.append(json.dumps(document) + "\n")
    path.write_text("".join(lines))
    return path


def test_half_of_the_tasks_are_asked(tmp_path: Path) -> None:
    path = scored(tmp_path / "runs.jsonl", 1200)
    rows = json.loads(run("stopping", "abort", path, "--alpha", "0.2", "--json").stdout)
    assert [row["rule"] for row in rows] == ["ville", "conformal", "pac"]
    assert {(row["n"], row["n_tasks"], row["alpha"]) for row in rows} == {(600, 300, 0.2)}
    conformal = rows[1]
    assert conformal["far_lower"] <= 0.2 and conformal["power"] > 0.3 and conformal["saved_failed"] > 0.0
    # another division of tasks, and the same runs in another order
    other = json.loads(run("stopping", "abort", path, "--alpha", "0.2", "--seed", "1", "--json").stdout)
    assert other[1]["far"] != conformal["far"] or other[1]["power"] != conformal["power"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(reversed(lines)))
    again = json.loads(run("stopping", "abort", path, "--alpha", "0.2", "--json").stdout)
    assert [row["saved_failed"] for row in again] == [row["saved_failed"] for row in rows]


def test_the_command_fits_and_asks_as_the_library_does(tmp_path: Path) -> None:
    path = scored(tmp_path / "runs.jsonl", 120)
    rows = json.loads(run("stopping", "abort", path, "--json").stdout)
    epochs = ot.stopping.epochs(ot.read_traces(path))
    asked = set(json.loads(rows[1]["params"])) if rows[1]["params"] else set()
    assert asked
    halves = [epochs.filter(pl.col("task_id").is_in(list(part))) for part in divided(epochs)]
    for past, new in (halves, halves[::-1]):
        rule = ot.stopping.fit_abort(past)
        found = ot.stopping.evaluate_abort(new, {"conformal": rule}).row(0, named=True)
        if found["n"] == rows[1]["n"] and found["far"] == rows[1]["far"]:
            assert found["saved_failed"] == rows[1]["saved_failed"]
            return
    pytest.fail("neither half is the one that was asked")


def divided(epochs: pl.DataFrame) -> list[set[str]]:
    from orchestrace.statistics.folds import folds_over

    names = epochs["task_id"].to_list()
    half = folds_over(names, 2, 0)
    return [{name for name, one in zip(names, half, strict=True) if one == part} for part in (0, 1)]


def test_runs_without_an_outcome_are_refused_in_one_line(tmp_path: Path) -> None:
    path = scored(tmp_path / "runs.jsonl", 6, rewards={})
    assert "reward" in error_line(run("stopping", "abort", path, code=2))
    plain = tmp_path / "plain.jsonl"
    ot.generate(plain, traces=8, seed=0)
    assert "score" in error_line(run("stopping", "abort", plain, "--source", "turn", code=2))


def test_estimands_are_those_of_the_library(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    ot.generate(path, traces=64, seed=0)
    options = ("--source", "attempt", "--price", "0.02", "--method", "fixed", "--json")
    stops = ot.stopping.epochs(ot.read_traces(path), "attempt")
    estimands: list[Any] = ["capped", "uncapped"]
    for estimand in estimands:
        [row] = json.loads(run("stopping", "evaluate", path, *options, "--estimand", estimand).stdout)
        found = ot.stopping.evaluate(stops, ["fixed"], estimand=estimand, price=0.02)
        assert row == json.loads(found.write_json())[0]
        [point] = json.loads(run("stopping", "frontier", path, *options, "--estimand", estimand).stdout)
        assert point["estimand"] == estimand and point["value"] == row["value"]
    said = error_line(
        run("stopping", "evaluate", path, "--source", "attempt", "--estimand", "uncaped", code=2)
    )
    assert "did you mean 'uncapped'?" in said
