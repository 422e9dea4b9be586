"""ReMax: plain Python on random groups, and what a maximum as a baseline does."""

from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

import orchestrace as ot
from samples.hand_runs import event, read, run

METHOD = "remax"
Runs = list[tuple[str, float | None, bool]]
"""Of each its task, its reward, and whether it was greedy."""


def corpus_of(runs: Runs) -> ot.Corpus:
    documents = [
        run(n, 0.0 if reward is None else reward, [event(0, "a"), event(1, "b")], task=task)
        for n, (task, reward, _) in enumerate(runs)
    ]
    corpus = read(documents)
    greedy = pl.DataFrame(
        {"trace": range(len(runs)), "value": [float(one) for _, _, one in runs]},
        schema_overrides={"trace": pl.UInt32},
    ).with_columns(kind=pl.lit("metric"), name=pl.lit("greedy"))
    silent = pl.col("trace").is_in([n for n, (_, reward, _) in enumerate(runs) if reward is None])
    rewards = corpus.measures.collect().filter(~silent | (pl.col("kind") != "reward"))
    tables: dict[str, Any] = {name: getattr(corpus, name).collect() for name in ("events", "traces")}
    columns = ["trace", "kind", "name", "value"]
    casts = [pl.col("kind", "name").cast(pl.String)]
    measures = pl.concat([rewards.with_columns(casts).select(columns), greedy.select(columns)])
    return ot.Corpus.from_arrow(**tables, measures=measures)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from("pq"), st.one_of(st.none(), st.integers(-2, 3).map(float)), st.booleans()),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from(["greedy", "max"]),
)
def test_it_is_its_definition(runs: Runs, baseline: str) -> None:
    assume(any(reward is not None for _, reward, _ in runs))
    table = ot.credit(corpus_of(runs), method=METHOD, unit="team", baseline=baseline).sort("trace")
    for n, (task, reward, _) in enumerate(runs):
        peers = [(paid, one) for other, paid, one in runs if other == task and paid is not None]
        bases = [paid for paid, one in peers if one or baseline == "max"]
        found = table.row(n, named=True)
        if reward is None:
            assert (found["credit"], found["reason"]) == (None, "reward.absent")
        elif not bases:
            assert (found["credit"], found["reason"]) == (None, "siblings.absent")
        else:
            base = max(bases) if baseline == "max" else fmean(bases)
            assert found["credit"] == pytest.approx(reward - base, abs=1e-12)
            flat = all(paid == base for paid, _ in peers)
            assert found["reason"] == ("group.degenerate" if flat else None)


def test_every_event_has_that_of_its_rollout() -> None:
    corpus = corpus_of([("p", 1.0, False), ("p", 0.25, True)])
    table = ot.credit(corpus, method=METHOD, unit="event")
    assert table.sort("trace")["credit"].to_list() == [0.75, 0.75, 0.0, 0.0]


def test_a_maximum_rewards_nothing_and_a_greedy_rollout_is_no_bias() -> None:
    """Two choices, of which one pays 0.2 more: the difference of their advantages is that, against the greedy
    rollout; against the best it is there, too, but no choice is ever above 0."""
    rng = np.random.default_rng(5)
    runs: Runs = []
    good = []
    for task in range(400):
        for place in range(5):
            chose = bool(rng.random() < 0.5)
            good.append(chose and place > 0)
            runs.append((f"t{task}", 0.2 * chose + 0.5 * rng.standard_normal(), place == 0))
    corpus = corpus_of(runs)
    sampled = np.array([not greedy for _, _, greedy in runs])
    chosen = np.array(good)
    for baseline, mean in (("greedy", 0.0), ("max", -0.6)):
        credits = ot.credit(corpus, method=METHOD, unit="team", baseline=baseline).sort("trace")["credit"]
        values = credits.to_numpy()[sampled]
        contrast = values[chosen[sampled]].mean() - values[~chosen[sampled]].mean()
        error = 0.5 * 2 / np.sqrt(len(values))
        assert contrast == pytest.approx(0.2, abs=4 * error)
        assert values.mean() == pytest.approx(mean, abs=0.12)
    assert (values <= 0.0).all()
