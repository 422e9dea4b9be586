"""Where the time of a session went: hand-worked values, and that the columns add up to the clock."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.claude_lines import asks, calls, gives, read, says

COLUMNS = (
    *("model_time", "tool_time", "queue_time", "permission_wait"),
    *("human_wait", "scorer_time", "idle_time", "unaccounted"),
)


def times(corpus: ot.Corpus, **options: Any) -> dict[str, float]:
    """The columns of time that are not 0, and that their sum is the elapsed time."""
    row = ot.metrics(corpus, groups=["span", "time", "scale"], **options).row(0, named=True)
    found = {name: row[name] for name in COLUMNS if row[name]}
    assert sum(found.values()) == pytest.approx(row["elapsed"])
    return found


def test_a_duration_in_seconds_is_one(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", "WebSearch", {}),
        gives(3290, "t1", "found", {"durationSeconds": 15.0}),
        says(3295, "m2", "done"),
    ]
    assert times(read(tmp_path, lines)) == {"model_time": 10, "tool_time": 15, "queue_time": 3270}


def test_a_human_who_goes_on_after_a_result(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", "Edit", {}),
        gives(6, "t1", "ok"),
        asks(15_006, "continue"),
        says(15_011, "m2", "done"),
    ]
    corpus = read(tmp_path, lines)
    assert times(corpus, max_gap=None) == {"model_time": 10, "tool_time": 1, "human_wait": 15_000}
    assert times(corpus) == {"model_time": 10, "tool_time": 1, "idle_time": 15_000}


def test_a_human_who_speaks_while_a_call_is_open(tmp_path: Path) -> None:
    # Of two calls one is answered: the agent waits for the other.
    call = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}
    first = calls(5, "m1", "t1", "Edit", {})
    first["message"]["content"].append(call)
    more = [asks(10, "hurry"), gives(20, "t2", "ok"), says(25, "m2", "done")]
    lines = [asks(0, "go"), first, gives(6, "t1", "ok"), *more]
    row = ot.metrics(read(tmp_path, lines), groups=["time"]).row(0, named=True)
    assert (row["model_time"], row["tool_time"], row["human_wait"]) == (10, 16, 0)


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_what_a_human_answered_or_approved(tmp_path: Path, tool: str) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", tool, {}),
        gives(1105, "t1", "yes"),
        says(1110, "m2", "done"),
    ]
    assert times(read(tmp_path, lines)) == {"model_time": 10, "permission_wait": 1100}
    (tmp_path / "refused").mkdir()
    lines[2] = gives(
        1105, "t1", "The user doesn't want to proceed with this tool use.", "User rejected tool use"
    )
    assert times(read(tmp_path / "refused", lines)) == {"model_time": 10, "permission_wait": 1100}
    # What failed before anybody saw it is the tool's.
    (tmp_path / "failed").mkdir()
    lines[2] = gives(6, "t1", "InputValidationError")
    lines[2]["message"]["content"][0]["is_error"] = True
    lines[3] = says(11, "m2", "done")
    assert times(read(tmp_path / "failed", lines)) == {"model_time": 10, "tool_time": 1}


def test_agents_without_their_main_agent(tmp_path: Path) -> None:
    agents = {f"a{n}": [asks(2000 * n, "part"), says(2000 * n + 4, f"m{n}", "text")] for n in range(3)}
    corpus = read(tmp_path, [], **agents)
    assert times(corpus) == {"model_time": 12, "unaccounted": 3992}


def test_idle_time_counts_once(tmp_path: Path) -> None:
    main = [asks(0, "go"), says(3, "m1", "hello")]
    agents = {name: [asks(86_000, "Warmup"), says(86_002, name, "ready")] for name in ("aa", "bb")}
    corpus = read(tmp_path, main, **agents)
    assert times(corpus, max_gap=3600) == {"model_time": 3, "idle_time": 85_999}


def test_the_columns_cover_the_clock(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "claude-code")
    for max_gap in (None, 60, 3600):
        table = ot.metrics(corpus, groups=["span", "time", "scale"], max_gap=max_gap)
        total = sum((pl.col(name).fill_null(0) for name in COLUMNS), pl.lit(0.0))
        rows = table.filter(pl.col("elapsed").is_not_null()).select(
            total=total, elapsed="elapsed", idle="idle_time"
        )
        assert rows.height > 20
        assert (rows["total"] >= rows["elapsed"] * (1 - 1e-9) - 1e-6).all()
        assert (rows["idle"] <= rows["elapsed"] * (1 + 1e-9)).all()
