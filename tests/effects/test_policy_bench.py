"""The bench of off-policy evaluation: both sides answer alike, and the page has the table of the result."""

import json
from pathlib import Path
from types import ModuleType

import pytest

import orchestrace as ot
from samples.scripts import loaded

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "benches" / "results" / "policy_values.json"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return loaded("policy_values")


def test_both_sides_give_the_same_estimates(bench: ModuleType) -> None:
    decisions, _ = ot.synthetic.choices(runs=600, runs_per_task=10, seed=1)
    ours, theirs = bench.of_ours(decisions, 0), bench.of_numpy(bench.arrays(decisions), 0)
    assert ours == pytest.approx(theirs, abs=1e-9)
    assert [row["peer"] for row in bench.measured(decisions, 1)] == ["orchestrace", "NumPy"] * 2


def test_the_page_has_the_table_of_the_result(bench: ModuleType) -> None:
    """Run the script, write its rows to benches/results, and copy its table where this fails."""
    rows = json.loads(RESULT.read_text(encoding="utf-8"))
    assert bench.table(rows) in (ROOT / "benches" / "README.md").read_text(encoding="utf-8")
