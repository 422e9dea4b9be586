"""When agents answered whose spans are closed late, and what follows for whoever waited."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.spans import agent, chat, findings, read, tool, usage

LATE = 60


def returns(corpus: ot.Corpus) -> dict[str, float]:
    """When each agent gave its answer to another one."""
    rows = corpus.events.filter(pl.col("type").cast(pl.String) == "return").collect()
    return {str(name): t for name, t in rows.select(pl.col("agent").cast(pl.String), "t").iter_rows()}


def closed_late(end: float) -> list[dict[str, Any]]:
    """A query with two agents by tools, which end at 6 and 12; their spans end with the session."""
    return [
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 6)),
        agent(3, 2, "left", (1.5, end)),
        tool(4, 3, "Bash", (3, 5)),
        tool(5, 1, "Agent", (7, 12)),
        agent(6, 5, "right", (7.5, end)),
        tool(7, 6, "Bash", (8, 9)),
    ]


@pytest.mark.parametrize("end", [LATE, LATE - 1])
def test_an_agent_answers_when_its_tool_gives_back(tmp_path: Path, end: float) -> None:
    corpus = read(tmp_path, *closed_late(end))
    assert {name: returns(corpus)[name] for name in ("left", "right")} == {"left": 6, "right": 12}
    assert "time.reversed" not in findings(corpus)
    # The answer is there before the next agent is asked.
    edges = corpus.edges.filter(pl.col("type").cast(pl.String) == "return").collect()
    times = corpus.events.collect()["t"].to_list()
    into = {(times[src], times[dst]) for src, dst in edges.select("src", "dst").iter_rows()}
    assert {(6, 7), (12, LATE)} <= into


def test_nobody_answers_before_the_last_thing_that_it_did(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 2)),
        agent(3, 2, "behind", (1.5, LATE)),
        tool(4, 3, "Bash", (3, 9)),
    )
    assert returns(corpus)["behind"] == 9


def test_who_ends_in_time_answers_at_its_end(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 6)),
        agent(3, 2, "left", (1.5, 5.5)),
    )
    assert returns(corpus)["left"] == 5.5
    # Without a tool around it nothing else says when it answered.
    alone = read(tmp_path, agent(1, 0, "query", (0, LATE)), agent(3, 1, "left", (1.5, 50)))
    assert returns(alone)["left"] == 50


def test_the_text_of_a_response_has_its_own_time(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 6)),
        agent(3, 2, "left", (1.5, LATE)),
        chat(4, 3, (2, 5), **usage(10, 1)),
    )
    assert returns(corpus)["left"] == 5


def test_each_visit_is_answered_in_its_time(tmp_path: Path) -> None:
    same = {"gen_ai.agent.id": "x"}
    corpus = read(
        tmp_path,
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 6)),
        agent(3, 2, "left", (1.5, LATE), **same),
        tool(4, 3, "Bash", (3, 5)),
        tool(5, 1, "Agent", (7, 12)),
        agent(6, 5, "left", (7.5, LATE), **same),
        tool(7, 6, "Bash", (8, 9)),
    )
    rows = corpus.events.collect().filter(pl.col("agent").cast(pl.String) == "left")
    said = [(t, str(kind)) for t, kind in rows.select("t", "type").iter_rows() if str(kind) != "tool_call"]
    assert said == [(6, "message"), (12, "return")]


def test_a_nested_agent_that_is_closed_late_holds_nobody(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "query", (0, LATE)),
        tool(2, 1, "Agent", (1, 10)),
        agent(3, 2, "outer", (1.5, LATE)),
        tool(4, 3, "Agent", (3, 8)),
        agent(5, 4, "inner", (3.5, LATE)),
    )
    answered = returns(corpus)
    assert (answered["inner"], answered["outer"]) == (8, 10)
    assert "time.reversed" not in findings(corpus)


def test_the_order_of_spans_changes_nothing(tmp_path: Path) -> None:
    spans = closed_late(LATE)
    folder = tmp_path / "back"
    folder.mkdir()
    assert returns(read(tmp_path, *spans)) == returns(read(folder, *reversed(spans)))
