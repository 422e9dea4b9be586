"""Two sides of a gate as native recordings: the same tasks, several attempts at each, stated outcomes."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orchestrace as ot

Outcomes = Mapping[str, Sequence[float | None]]


def written(
    path: Path, outcomes: Outcomes, *, tokens: float = 100.0, shift: float = 0.0, **changes: Any
) -> Path:
    """A file of runs: a reward per attempt of a task, None where it broke; `shift` tells recordings apart."""
    lines = []
    for at, (task, rewards) in enumerate(outcomes.items()):
        for attempt, reward in enumerate(rewards):
            spent = round(
                tokens * (1 + at % 7) * (1.0 + 0.1 * ((at * 5 + attempt * 3 + round(10 * shift)) % 4))
            )
            event = {"id": "end", "t": 3.51 + attempt / 8 + shift, "duration_s": 1.5, "type": "return"}
            event |= {
                "agent": "lead",
                "tokens_in": spent,
                "tokens_out": 10,
                "model": "m-1",
                "harness_hash": "h",
            }
            start = {
                "id": "go",
                "t": 0.0,
                "duration_s": 0.25 + shift,
                "type": "message",
                "agent": "lead",
                "to": "lead",
            }
            run: dict[str, Any] = {"trace_id": f"{path.stem}-{task}-{attempt}", "task_id": task}
            run["events"] = [start, event | changes]
            run["edges"] = [{"src": "go", "dst": "end", "type": "temporal"}]
            run["rewards"] = {} if reward is None else {"team": reward}
            run["costs"] = {"tokens": spent + 10, "wall_clock_s": 5.0 + attempt + shift}
            lines.append(json.dumps(run) + "\n")
    path.write_text("".join(lines))
    return path


def corpus(path: Path, outcomes: Outcomes, **changes: Any) -> ot.Corpus:
    """The same, read."""
    return ot.read_traces(written(path, outcomes, **changes))


def alike(n_tasks: int = 60) -> tuple[dict[str, list[float | None]], dict[str, list[float | None]]]:
    """Outcomes of two sides that differ in few tasks, as often up as down."""
    base: dict[str, list[float | None]] = {}
    new: dict[str, list[float | None]] = {}
    for task in range(n_tasks):
        passed = [float((task * 7 + attempt * 3) % 4 != 0) for attempt in range(2)]
        changed = [1.0, 1.0] if task % 10 == 0 else [0.0, 1.0] if task % 10 == 5 else passed
        base[f"t{task:03}"], new[f"t{task:03}"] = [*passed], [*changed]
    return base, new


def write_sides(folder: Path) -> None:
    """`base.jsonl` and `new.jsonl` of a change that did no harm."""
    base, new = alike()
    written(folder / "base.jsonl", base)
    written(folder / "new.jsonl", new, shift=0.5)
