"""CCPO: plain Python on random ablations, a planted free rider, and what is not recorded."""

import math
from statistics import fmean, stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

from orchestrace.corpus.reward import amounts
from orchestrace.credit.fitted.ccpo import differences
from samples.hand_runs import credited, event, read, run
from samples.random_runs import Document

METHOD = "ccpo"
TEAMS = ("ab", "a", "b", "abc", "")


def team(trace: int, task: str, agents: str, reward: float) -> Document:
    return run(trace, reward, [event(n, agent) for n, agent in enumerate(agents or "z")], task=task)


def by_hand(runs: list[tuple[str, str, float]], form: str, scale: str) -> dict[tuple[int, str], float | None]:
    """Differences, payments and advantages by their definitions; bonus and slope are 1, epsilon 0.01."""
    differences = {}
    for n, (task, agents, reward) in enumerate(runs):
        for agent in agents:
            rest = sorted(set(agents) - {agent})
            alone = [paid for other, whom, paid in runs if other == task and sorted(whom or "z") == rest]
            if alone:
                differences[n, agent] = reward - fmean(alone)

    def around(values: dict[Any, float], keys: dict[Any, Any]) -> dict[Any, float]:
        out = {}
        for one, value in values.items():
            peers = [values[other] for other in values if keys[other] == keys[one]]
            spread = stdev(peers) if len(peers) > 1 else 0.0
            out[one] = 0.0 if value == fmean(peers) else (value - fmean(peers)) / (spread + 0.01)
        return out

    if form == "standardized":
        apart = around(differences, {one: one[1] for one in differences})
        paid = {one: math.tanh(value) for one, value in apart.items()}
    else:
        paid = {one: runs[one[0]][2] + value for one, value in differences.items()}
    groups = {one: (runs[one[0]][0], one[1]) for one in paid}
    if scale == "none":
        means = {one: fmean(paid[other] for other in paid if groups[other] == groups[one]) for one in paid}
        return {one: value - means[one] for one, value in paid.items()}
    return dict(around(paid, groups))


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.sampled_from(TEAMS), st.integers(0, 4).map(lambda n: n / 4)),
        min_size=1,
        max_size=14,
    ),
    st.sampled_from(["bonus", "standardized"]),
    st.sampled_from(["deviation", "none"]),
)
def test_it_is_its_definition(runs: list[tuple[str, str, float]], form: str, scale: str) -> None:
    documents = [team(n, *one) for n, one in enumerate(runs)]
    found = credited(documents, METHOD, "agent", form=form, scale=scale, epsilon=0.01)
    wanted = by_hand(runs, form, scale)
    for n, (_, agents, _) in enumerate(runs):
        for agent in agents or "z":
            value, reason = found[n, agent]
            if (n, agent) in wanted:
                assert value == pytest.approx(wanted[n, agent], abs=1e-9)
            else:
                assert (value, reason) == (None, "siblings.absent")


def planted(seed: int, tasks: int = 60) -> list[Document]:
    """Two workers, of whom one adds 0.3 on average, and the other nothing; each works alone, too."""
    rng = np.random.default_rng(seed)
    runs: list[tuple[str, str, float]] = []
    for task in range(tasks):
        for agents in ("hr", "r", "h") * 4:
            helped = 0.6 * rng.random() if "h" in agents else 0.0
            runs.append((f"t{task}", agents, 0.4 + helped + 0.05 * rng.standard_normal()))
    return [team(n, *one) for n, one in enumerate(runs)]


def test_a_free_rider_makes_no_difference() -> None:
    """The mean difference of who helps is what it adds, and that of the other is 0."""
    corpus = read(planted(3))
    found = differences(corpus, pl.DataFrame(amounts(corpus, "team").select("trace", amount="reward")))
    of_agents = found.drop_nulls("difference").group_by(pl.col("owner").cast(pl.String))
    means = dict(of_agents.agg(pl.col("difference").mean()).rows())
    errors = dict(of_agents.agg(pl.col("difference").std() / 60**0.5).rows())
    assert abs(means["r"]) < 4 * errors["r"] and means["h"] == pytest.approx(0.3, abs=4 * errors["h"])


def test_a_team_without_ablations_has_none() -> None:
    found = credited(
        [team(0, "p", "ab", 1.0), team(1, "p", "abc", 0.0), team(2, "q", "a", 1.0)], METHOD, "agent"
    )
    assert found[1, "c"] == (0.0, "group.degenerate")
    for place in ((0, "a"), (0, "b"), (1, "a"), (1, "b"), (2, "a")):
        assert found[place] == (None, "siblings.absent")
