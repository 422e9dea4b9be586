"""The ledger of sub-agents on runs by hand."""

import io
import json
from typing import Any

import pytest

import orchestrace as ot


def run(*events: dict[str, Any], edges: tuple[tuple[str, str, str], ...] = (), **trace: Any) -> ot.Corpus:
    document = {
        "trace_id": "t",
        "task_id": "t",
        "events": list(events),
        "edges": [{"src": src, "dst": dst, "type": kind} for src, dst, kind in edges],
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 5.5},
        "metrics": {},
        **trace,
    }
    return ot.read_traces(io.BytesIO(json.dumps(document).encode()))


def event(name: str, t: float, kind: str, agent: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "t": t, "type": kind, "agent": agent, **fields}


SPENT = {"model": "gpt-4o-mini", "tokens_in": 1_000_000, "tokens_out": 0}
TEAM = (
    event("task", 0, "human_intervention", "user", to="lead"),
    event("s1", 1, "spawn", "lead", to="used", role="lead", subtask_id="search"),
    event("s2", 1.5, "spawn", "lead", to="unread"),
    event("s3", 1.6, "spawn", "lead", to="failed"),
    event("s4", 1.7, "spawn", "lead", to="silent"),
    event("s5", 1.8, "spawn", "lead", to="absent"),
    event("u1", 2, "tool_call", "used", tool="web", role="searcher", **SPENT),
    event("u2", 3, "tool_result", "used", tool="web", ok=False),
    event("u3", 4.5, "return", "used", to="lead"),
    event("n1", 2.5, "return", "unread", to="lead"),
    event("f1", 2.7, "return", "failed", to="lead", ok=False),
    event("q1", 2.8, "message", "silent", to="lead"),
    event("y", 5.5, "aggregate", "lead", to="user", model="ours", tokens_in=4, tokens_out=1),
)
EDGES = (
    ("task", "s1", "causal"),
    *((f"s{k}", f"s{k + 1}", "causal") for k in range(1, 5)),
    ("s1", "u1", "spawn"),
    ("s2", "n1", "spawn"),
    ("s3", "f1", "spawn"),
    ("s4", "q1", "spawn"),
    ("u1", "u2", "tool_dependency"),
    ("u2", "u3", "causal"),
    ("u3", "y", "return"),
    ("f1", "y", "return"),
    ("s5", "y", "causal"),
)


def test_every_sub_agent_has_its_row() -> None:
    rows = ot.costs.spawns(run(*TEAM, edges=EDGES))
    told = rows.select("agent", "parent", "depth", "n_spawns", "answered", "used", "critical").rows()
    assert told == [
        ("used", "lead", 1, 1, True, True, True),
        ("unread", "lead", 1, 1, True, False, False),
        ("failed", "lead", 1, 1, False, False, False),
        ("silent", "lead", 1, 1, False, False, False),
        ("absent", "lead", 1, 1, False, False, False),
    ]
    used, *_, absent = rows.iter_rows(named=True)
    assert (used["role"], used["n_tool_calls"], used["n_tool_errors"]) == ("searcher", 1, 1)
    assert (used["tokens"], used["cost_usd"], used["basis"]) == (1_000_000, 0.15, "priced_undated")
    assert (used["seconds"], used["reason"]["seconds"]) == (3.5, None)
    # it was asked for, and did nothing
    assert (absent["tokens"], absent["cost_usd"], absent["reason"]["cost_usd"]) == (
        None,
        None,
        "field.absent",
    )


def test_what_needs_a_reward_is_null_without_one() -> None:
    rows = ot.costs.spawns(run(*TEAM, edges=EDGES))
    assert rows["credit"].null_count() == rows.height
    assert {row["credit"] for row in rows["reason"]} == {"reward.absent"}
    paid = run(*TEAM, edges=EDGES, rewards={"team": 1.0})
    agents = ot.credit(paid, unit="agent").filter(unit_id="used")
    assert ot.costs.spawns(paid).filter(agent="used")["credit"].item() == agents["credit"].item()
    with pytest.raises(ot.ParameterError, match="unknown reward channel 'outcome'"):
        ot.costs.spawns(paid, reward="outcome")


def test_without_an_outcome_nobody_knows_what_was_used() -> None:
    rows = ot.costs.spawns(run(*TEAM[:-1], edges=EDGES[:-3]))
    assert rows["used"].to_list() == [None, None, False, False, False]
    assert [row["used"] for row in rows["reason"]] == ["outcome.absent"] * 2 + [None] * 3
    assert rows["answered"].to_list() == [True, True, False, False, False]


def test_a_sub_agent_that_is_asked_again_is_one_row() -> None:
    again = event("s6", 4.7, "spawn", "lead", to="used")
    rows = ot.costs.spawns(run(*TEAM[:-1], again, TEAM[-1], edges=EDGES))
    assert rows.filter(agent="used")["n_spawns"].to_list() == [2] and rows.height == 5


def test_who_is_not_of_the_team_is_no_sub_agent() -> None:
    judge = (
        event("s6", 4.7, "spawn", "lead", to="judge"),
        event("j1", 4.8, "message", "judge", role="scorer", **SPENT),
        event("j2", 4.9, "return", "judge", role="scorer", to="lead"),
    )
    rows = ot.costs.spawns(run(*TEAM[:-1], *judge, TEAM[-1], edges=(*EDGES, ("s6", "j1", "spawn"))))
    assert rows["agent"].to_list() == ["used", "unread", "failed", "silent", "absent"]


def test_who_never_returns_runs_to_the_end() -> None:
    rows = ot.costs.spawns(run(*TEAM, edges=EDGES))
    assert rows.filter(agent="silent")["seconds"].to_list() == [5.5 - 1.7]


def test_steps_are_no_seconds() -> None:
    first, *rest = ({**one, "t": at} for at, one in enumerate(TEAM))
    rows = ot.costs.spawns(run({**first, "x_trace": {"time_basis": "ordinal"}}, *rest, edges=EDGES))
    assert rows["seconds"].null_count() == rows.height == 5
    assert [row["seconds"] for row in rows["reason"]] == ["time.steps"] * 4 + ["field.absent"]


def test_a_run_without_spawns_has_no_row() -> None:
    rows = ot.costs.spawns(run(event("y", 1, "aggregate", "lead", to="user")))
    assert rows.is_empty() and "cost_usd" in rows.columns
