"""Hierarchical GRPO: the published algorithm in loops, and who is nobody's peer."""

import random
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from samples.hand_runs import credited, event, read, run
from samples.random_runs import Document

Paid = list[tuple[str, float | None]]
"""Agents of a rollout and what each was paid."""


def rollout(trace: int, task: str, paid: Paid, team: float | None = 1.0) -> Document:
    seen: dict[str, int] = defaultdict(int)
    events = []
    for n, (name, reward) in enumerate(paid):
        seen[name] += 1
        agent = name if seen[name] == 1 else f"{name}#{seen[name]}"
        own = {} if reward is None else {"reward": reward}
        # Half of it is paid at each of two answers.
        halves = {field: value / 2 for field, value in own.items()}
        events += [event(2 * n, agent, role="executor", **halves), event(2 * n + 1, agent, **halves)]
    return run(trace, team, events, task=task)


def published(group: dict[int, Paid], episode_agents: set[str]) -> dict[tuple[int, str], float]:
    """prime-rl's rule: peers by name, and by episode for some names; reward less their mean."""
    peers: dict[tuple[str, int | None], list[tuple[tuple[int, str], float]]] = defaultdict(list)
    for episode, paid in group.items():
        seen: dict[str, int] = defaultdict(int)
        for name, reward in paid:
            seen[name] += 1
            agent = name if seen[name] == 1 else f"{name}#{seen[name]}"
            assert reward is not None
            peers[name, episode if name in episode_agents else None].append(((episode, agent), reward))
    return {
        who: reward - fmean(r for _, r in members) for members in peers.values() for who, reward in members
    }


REWARDS = st.integers(-3, 3).map(float)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(REWARDS, st.lists(REWARDS, min_size=1, max_size=4)), min_size=1, max_size=5),
    st.sampled_from(["auto", "group", "rollout"]),
)
def test_it_is_the_published_rule(episodes: list[tuple[float, list[float]]], peers: str) -> None:
    group: dict[int, Paid] = {
        at: [("proposer", first), *(("solver", reward) for reward in solvers)]
        for at, (first, solvers) in enumerate(episodes)
    }
    several = any(len(solvers) > 1 for _, solvers in episodes)
    within = {"auto": {"solver"} if several else set(), "group": set(), "rollout": {"proposer", "solver"}}
    documents = [rollout(at, "task", paid) for at, paid in group.items()]
    found = credited(documents, "hierarchical_grpo", "agent", peers=peers)
    expected = published(group, within[peers])
    assert {who: value for who, (value, _) in found.items()} == pytest.approx(expected, abs=1e-12)
    sums: dict[object, float] = defaultdict(float)
    for (episode, agent), (value, reason) in found.items():
        name = agent.partition("#")[0] if agent else ""
        sums[name, episode if name in within[peers] else None] += value or 0.0
        assert (value == 0.0) >= (reason == "group.degenerate")
    assert all(abs(total) < 1e-12 for total in sums.values())


def test_harder_problems_do_not_make_worse_solvers() -> None:
    """Solvers of a hard problem fail more; within it the one that solves it is better than the others."""
    easy, hard = [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]
    documents = [
        rollout(at, "task", [("proposer", 0.5 + at), *(("solver", reward) for reward in own)])
        for at, own in enumerate([easy, hard])
    ]
    apart = credited(documents, "hierarchical_grpo", "agent")
    together = credited(documents, "hierarchical_grpo", "agent", peers="group")
    assert apart[1, "solver#3"][0] == 0.75 and apart[0, "solver"][0] == 0.25
    assert together[1, "solver#3"][0] == together[0, "solver"][0] == 0.5
    assert apart[0, "proposer"][0] == -0.5 and apart[1, "proposer"][0] == 0.5


def test_roles_pool_names() -> None:
    documents = [rollout(0, "task", [("ann", 1.0), ("bob", 0.0)]), rollout(1, "task", [("ann", 1.0)])]
    by_name = credited(documents, "hierarchical_grpo", "agent")
    assert by_name[0, "ann"] == by_name[1, "ann"] == (0.0, "group.degenerate")
    by_role = credited(documents, "hierarchical_grpo", "agent", by="role")
    assert by_role[0, "ann"][0] == 0.5 and by_role[1, "ann"] == (0.0, "group.degenerate")


def test_groups_do_not_touch_and_an_agent_without_a_reward_has_none() -> None:
    documents = [
        rollout(0, "a", [("solver", 1.0), ("critic", None)]),
        rollout(1, "a", [("solver", 0.0), ("critic", 3.0)]),
        rollout(2, "b", [("solver", 9.0)]),
    ]
    found = credited(documents, "hierarchical_grpo", "agent")
    assert found[0, "solver"][0] == 0.5 and found[2, "solver"] == (0.0, "group.degenerate")
    assert found[0, "critic"] == (None, "field.absent") and found[1, "critic"][0] == 0.0


def test_where_no_agent_is_paid_the_run_is() -> None:
    documents = [rollout(n, "a", [("solver", None)], team=float(n)) for n in range(3)]
    found = credited(documents, "hierarchical_grpo", "agent")
    assert [found[n, "solver"][0] for n in range(3)] == [-1.0, 0.0, 1.0]


def test_parts_on_disk_and_orders_of_files_are_one_corpus(tmp_path: Path) -> None:
    chance = random.Random(1)
    documents = [
        rollout(n, f"task {n % 7}", [("p", chance.random()), *(("s", chance.random()) for _ in range(n % 3))])
        for n in range(40)
    ]
    corpus = read(documents)
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    chance.shuffle(documents)
    others = [ot.read_corpus(tmp_path / "corpus"), read(documents)]
    here, *there = (
        ot.credit(one, method="hierarchical_grpo", unit="agent").select(
            "trace_id", pl.col("unit_id").cast(pl.String), "credit"
        )
        for one in (corpus, *others)
    )
    for other in there:
        both = here.join(other, on=["trace_id", "unit_id"], how="full", coalesce=True)
        assert (both["credit"] - both["credit_right"]).abs().max() < 1e-12  # type: ignore[operator]
        assert both["credit"].count() == here.height
