"""What tests of the command share: how it is run, and recordings small enough to be read in a test."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from orchestrace.cli import app

COST = {"cost_usd": 0.125, "tokens_in": 100_000, "tokens_out": 2_000}

RUN = {
    "trace_id": "5ed31c36-1e6f-4d0e-9f6e-0c2ce46b4e1f",
    "task_id": "q",
    "events": [
        {
            "id": "toolu_014VdYw2bSSpVvX1aUqdJ1Yo",
            "t": 0,
            "type": "message",
            "agent": "lead",
            "to": "w",
            **COST,
        },
        {"id": "call", "t": 3, "type": "tool_call", "agent": "w", "tool": "web", **COST},
        {"id": "found", "t": 5, "type": "tool_result", "agent": "w", "tool": "web", "trusted": False},
        {"id": "end", "t": 9, "type": "return", "agent": "lead", "duration_s": 2.5, **COST},
    ],
    "edges": [
        {"src": "toolu_014VdYw2bSSpVvX1aUqdJ1Yo", "dst": "call", "type": "message"},
        {"src": "call", "dst": "found", "type": "tool_dependency"},
        {"src": "found", "dst": "end", "type": "return"},
    ],
    "rewards": {"team": 1, "form": 0.5},
    "costs": {"tokens": 3, "wall_clock_s": 9},
}


def recordings(folder: Path, count: int = 3, **changes: object) -> Path:
    """A file of runs of one task that differ in their ids and rewards."""
    path = folder / "runs.jsonl"
    runs = [
        RUN | {"trace_id": f"{n:08}{RUN['trace_id']}", "rewards": {"team": n % 2, "form": 0.5}} | changes
        for n in range(count)
    ]
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return path


def run(*args: object, code: int = 0, columns: int | None = 80, stdin: str | None = None) -> Result:
    """Run the command, on a terminal of so many columns or, with None, where its output is no terminal."""
    env = {"COLUMNS": "" if columns is None else str(columns)}
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin, env=env)
    assert result.exit_code == code, result.output
    return result


def error_line(result: Result) -> str:
    """The one line of an error."""
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("error: "), result.stderr
    return result.stderr.removeprefix("error: ").rstrip("\n")
