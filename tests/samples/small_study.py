"""A study of a second or two, in which every kind of cell occurs, and what of it is the same on every run."""

from pathlib import Path
from typing import Any, Final

from polars.testing import assert_frame_equal

import orchestrace as ot

STUDY: Final[dict[str, Any]] = {
    "sizes": [
        {"events": 12, "agents": 3, "traces": 40},
        {"events": 40, "agents": 6, "traces": 40},
    ],
    "presets": {"additive": {"outcome": "linear"}, "gates": {"outcome": "mixed"}},
    "methods": ["flow", "grpo", {"name": "shapley", "params": {"samples": 16}, "units": ["agent"]}],
    "slots": [1, 2],
    "rewards": ["parl"],
    "stopping": ["fixed"],
    "seed": 3,
}
SLOW: Final[dict[str, Any]] = {
    "sizes": [{"events": 3000, "agents": 60, "traces": 40}],
    "presets": {"one": {"branching": 20}},
    "methods": [{"name": "shapley", "params": {"samples": 500_000}}, "uniform"],
    "units": ["agent"],
    "budget_s": 0.5,
}
"""A call that takes far more than its budget, and one that does not."""
TIMELESS: Final = ("cells", "schedules", "rewards", "stops", "tasks")


def assert_same_study(found: Path, expected: Path) -> None:
    """All tables but that of costs are the same, to the last bit."""
    for table in TIMELESS:
        ours, theirs = (ot.study.load(folder, table) for folder in (found, expected))
        assert ours.height
        assert_frame_equal(ours, theirs, check_exact=True)
