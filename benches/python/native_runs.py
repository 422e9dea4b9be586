"""Recordings of one agent that takes turns, as native JSON lines."""

import io
import json
from collections.abc import Iterable


def native_lines(runs: Iterable[tuple[list[dict[str, object]], bool]], size: int) -> io.BytesIO:
    """A recording of each run, given the fields of its turns and whether it won; `size` share a task."""
    lines = []
    for run, (turns, won) in enumerate(runs):
        fields = {"type": "message", "agent": "solver"}
        events = [{"id": f"e{k}", "t": k, "turn": k, **fields, **own} for k, own in enumerate(turns)]
        edges = [{"src": f"e{k - 1}", "dst": f"e{k}", "type": "temporal"} for k in range(1, len(turns))]
        n = len(turns)
        line = {
            "trace_id": f"run-{run}",
            "task_id": f"task-{run // size}",
            "system": "stopping",
            "topology": "unknown",
            "events": events,
            "edges": edges,
            "rewards": {"team": float(won)},
            "costs": {"tokens": n, "wall_clock_s": n, "tool_calls": 0, "messages": n},
        }
        lines.append(line)
    return io.BytesIO("\n".join(map(json.dumps, lines)).encode())
