"""The classes of wrong advantages as batches: an estimator is asked, and the audit says what it did.

A batch has what the class needs to show: several rows of one rollout, groups of one, equal rewards. What
comes back is a dump like any other. `.ci/conformance.py` makes the table of the documents of it.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import orchestrace as ot

RESULTS = Path(__file__).resolve().parents[2] / "benches" / "results" / "conformance.json"
Estimate = Callable[..., np.ndarray]
"""(rows, tokens) of advantages, of ``rewards`` and ``mask``, (rows, tokens), and ``groups``, (rows,)."""


class Batch(NamedTuple):
    """Rows of a batch, and what the audit is told besides."""

    rewards: np.ndarray
    lengths: np.ndarray
    groups: np.ndarray
    columns: Mapping[str, Any] = MappingProxyType({})
    options: Mapping[str, Any] = MappingProxyType({})
    gaps: bool = False
    """Whether a tool speaks in the middle of each row."""


def _ragged(seed: int, sizes: tuple[int, ...] = (2, 3, 5, 7, 4)) -> Batch:
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"p{at}" for at in range(len(sizes))], sizes)
    rewards = rng.permutation(np.linspace(0.05, 0.95, len(groups)).round(2))
    return Batch(rewards, rng.integers(3, 12, len(groups)), groups)


def _fanned_out() -> Batch:
    """Rollouts that are written as one to three rows, each with the reward of its rollout."""
    whole = _ragged(1, (3, 3, 4))
    times = np.arange(10) % 3 + 1
    rows = [np.repeat(part, times) for part in (whole.rewards, np.arange(10), whole.groups)]
    lengths = np.random.default_rng(2).integers(3, 12, times.sum())
    return Batch(rows[0], lengths, rows[2], {"rollout": rows[1]}, {"rollout": "rollout"})


def _apart() -> Batch:
    """Rows of a group that do not stand side by side, as after sampling or where batches are cut."""
    whole = _ragged(3, (4, 4, 4, 4))
    order = np.random.default_rng(4).permutation(16)
    return Batch(whole.rewards[order], whole.lengths[order], whole.groups[order])


def _alone() -> Batch:
    return _ragged(5, (1, 4, 4))


def _lengths() -> Batch:
    whole = _ragged(6)
    return whole._replace(lengths=np.random.default_rng(7).integers(2, 40, len(whole.groups)))


def _equal() -> Batch:
    """Seven rewards of .35, whose mean is another number in 32 bits."""
    whole = _ragged(8, (7, 4, 4))
    return whole._replace(rewards=np.where(whole.groups == "p0", 0.35, whole.rewards))


def _agents() -> Batch:
    """Two agents of each task, one of whom is paid more."""
    whole = _ragged(9, (6, 6, 6))
    agents = np.tile(["lead", "coder"], 9)
    rewards = whole.rewards + (agents == "lead")
    return Batch(rewards, whole.lengths, whole.groups, {"agent": agents}, {"group": ["group", "agent"]})


def _filtered() -> Batch:
    """A fourth of the rows is not trained on: their masks are empty."""
    whole = _ragged(10, (4, 4, 4, 4))
    trained = np.arange(16) % 4 != 1
    lengths = np.where(trained, whole.lengths, 0)
    return Batch(whole.rewards, lengths, whole.groups, {"trained": trained}, {"trained": "trained"})


def _best() -> Batch:
    return _ragged(11, (4, 4, 4))


def _turns() -> Batch:
    """Rows are turns, which are paid one by one, of rollouts of one to four turns."""
    sizes = np.array([1, 3, 2, 4, 2, 3])
    rollouts = np.repeat(np.arange(6), sizes)
    turns = np.concatenate([np.arange(size) for size in sizes])
    rewards = np.random.default_rng(12).permutation(np.linspace(0.05, 0.95, sizes.sum()).round(2))
    columns = {"rollout": rollouts, "turn": turns}
    lengths = np.random.default_rng(13).integers(3, 12, sizes.sum())
    groups = np.array([f"p{at // 3}" for at in rollouts])
    return Batch(rewards, lengths, groups, columns, {name: name for name in columns})


CLASSES: dict[str, tuple[str, Callable[[], Batch]]] = {
    "a": ("several rows of one rollout", _fanned_out),
    "b": ("rows of a group apart", _apart),
    "c": ("a group of one", _alone),
    "d": ("groups of several sizes", lambda: _ragged(14)),
    "e": ("rows of several lengths", _lengths),
    "f": ("equal rewards", _equal),
    "g": ("agents of one task", _agents),
    "h": ("rows that are filtered out", _filtered),
    "i": ("a tool within each row", lambda: _ragged(15)._replace(gaps=True)),
    "j": ("one best of each group", _best),
    "k": ("groups of two and of seven", lambda: _ragged(16, (2, 7))),
    "l": ("turns that are paid one by one", _turns),
}
"""By the letter of the documents."""


def dump(estimate: Estimate, batch: Batch) -> tuple[pl.DataFrame, dict[str, Any]]:
    """What the estimator makes of a batch, and how an audit reads it."""
    width = int(batch.lengths.max()) + 2
    at = np.arange(width)
    mask = at < batch.lengths[:, None]
    if batch.gaps:
        mask &= at != 1
    rewards = np.zeros(mask.shape, np.float32)
    rewards[np.arange(len(mask)), np.maximum(batch.lengths - 1, 0)] = batch.rewards
    advantages = estimate(rewards=rewards, mask=mask, groups=batch.groups, **batch.columns)
    rows = {"reward": batch.rewards, "group": batch.groups, "mask": mask.astype(int), "advantage": advantages}
    return pl.DataFrame({**rows, **batch.columns}), {"mask": "mask", **batch.options}


def verdict(estimate: Estimate, letter: str) -> str:
    """``holds``, the fault that is named, ``refused``, or ``unexplained``: by no rule that is known."""
    try:
        rows, options = dump(estimate, CLASSES[letter][1]())
    except (ValueError, AssertionError, RuntimeError, ot.ParameterError):
        return "refused"
    found = ot.trainers.audit(rows, **options).row(0, named=True)
    return "holds" if found["explained"] == 1.0 else found["fault"] or "unexplained"


def verdicts(trainer: str, estimators: dict[str, Estimate]) -> dict[str, dict[str, str]]:
    """The verdict of each estimator and class, written where `ORCHESTRACE_CONFORMANCE` names a folder."""
    found = {name: {letter: verdict(one, letter) for letter in CLASSES} for name, one in estimators.items()}
    written(trainer, found)
    return found


def written(trainer: str, found: dict[str, dict[str, str]]) -> None:
    """Leave verdicts where `.ci/conformance.py` makes the table of the documents of them."""
    if folder := os.environ.get("ORCHESTRACE_CONFORMANCE"):
        Path(folder, f"{trainer}.json").write_text(json.dumps(found, indent=1) + "\n")


def recorded(trainer: str, found: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """The verdicts of the documents; those that were found, where they are about to be written anew."""
    if "ORCHESTRACE_CONFORMANCE" in os.environ or not RESULTS.exists():
        return found
    stated: dict[str, dict[str, str]] = json.loads(RESULTS.read_text()).get(trainer, {}).get("verdicts", {})
    return stated
