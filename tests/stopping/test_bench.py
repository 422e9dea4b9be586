"""The bench of abort rules: its split, its rows, and the table of docs/stopping.md."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest

from samples.scored_runs import planted, steps
from samples.scripts import loaded

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benches" / "results" / "stopping_scores.json"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded("stopping_scores")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task in the layout of the E-valuator, with outcomes spelled as words."""
    path = tmp_path_factory.mktemp("scores")
    names = {"run": "uq_problem_idx", "step": "num_steps", "score": "judge_probability", "success": "solved"}
    frame = steps(planted(np.random.default_rng(0), 500)).rename({**names, "tokens": "generated_tokens"})
    frame.drop("task").with_columns(pl.col("solved").cast(pl.String)).write_csv(path / "own.csv")
    return path


def test_halves_share_no_problem(bench: ModuleType, folder: Path) -> None:
    epochs = bench.read(folder / "own.csv", "auto")
    halves = bench.halves(epochs, 0)
    names = [set(half["trace_id"]) for half in halves]
    assert [len(one) for one in names] == [250, 250] and not names[0] & names[1]
    assert set(bench.halves(epochs.reverse(), 0)[0]["trace_id"]) == names[0]
    assert set(bench.halves(epochs, 1)[0]["trace_id"]) != names[0]


def test_rows_without_the_package(
    bench: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["stopping_scores.py", "--calibrate", str(folder), "--evaluate", str(folder)]
    arguments += ["--alpha", "0.2", "--null", "1", "--workers", "1", "--json", "-"]
    monkeypatch.setattr("sys.argv", arguments)
    bench.main()
    out, err = capsys.readouterr()
    if not bench.has_package():
        assert err.startswith("without the package: pip install e-valuator==1.0.0\n")
    rows = {row["rule"]: row for row in json.loads(out)}
    assert set(bench.OURS) <= set(rows)
    for name in bench.OURS:
        row = rows[name]
        assert list(row) == list(bench.COLUMNS)
        assert row["task"] == "own" and row["alpha"] == 0.2 and row["cost"] == "tokens"
        assert row["null_power"] is not None
    assert rows["pac"]["guarantee"] == "pac" and rows["e_process"]["guarantee"] == "anytime"
    assert rows["e_process"]["false_alarm_lower"] <= 0.2 and rows["e_process"]["saved_failed"] > 0.02


def test_folders_that_differ_are_not_split(
    bench: ModuleType, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pl.read_csv(folder / "own.csv").filter(pl.col("uq_problem_idx") < "r00100").write_csv(
        tmp_path / "own.csv"
    )
    out = tmp_path / "rows.json"
    arguments = ["stopping_scores.py", "--calibrate", str(folder), "--evaluate", str(tmp_path), "--null", "0"]
    monkeypatch.setattr("sys.argv", [*arguments, "--alpha", "0.1", "--workers", "1", "--json", str(out)])
    bench.main()
    rows = {row["rule"]: row for row in json.loads(out.read_text(encoding="utf-8"))}
    assert rows["pac"]["n"] == 100 and rows["fixed_k"]["n_calibration"] > 200
    assert rows["pac"]["null_power"] is None


def test_permuted_outcomes_are_those_of_whole_runs(bench: ModuleType, folder: Path) -> None:
    epochs = bench.read(folder / "own.csv", "auto")
    other = bench.permuted(epochs, np.random.default_rng(0))
    assert other["y"].to_list() != epochs["y"].to_list()
    assert other.group_by("trace").agg(pl.col("y").n_unique())["y"].max() == 1
    assert other.filter("last")["y"].sum() == epochs.filter("last")["y"].sum()


def test_the_page_has_the_table_of_the_result(bench: ModuleType) -> None:
    """Run the script, write its rows to benches/results, and copy its table where this fails."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))
    assert bench.table(rows) in (ROOT / "docs" / "stopping.md").read_text(encoding="utf-8")


def test_the_result_keeps_its_promises() -> None:
    rows = json.loads(RESULT.read_text(encoding="utf-8"))
    ours = [row for row in rows if row["rule"] in ("e_process", "pac")]
    assert len(ours) == 5 * 3 * 2
    assert all(row["false_alarm_lower"] <= row["alpha"] for row in ours)
    behind = {(row["task"], row["rule"], row["alpha"]) for row in ours if row["gain_upper"] < 0}
    assert behind <= {("chessgames", "e_process", 0.05)}  # where the package is far above its level
