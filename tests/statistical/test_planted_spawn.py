"""The effect of a planted decision to spawn, found from recordings: with overlap, and where there is none."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.effects.spawning import FEATURES

ACTION = pl.col("action").cast(pl.String)
PLANTED: dict[str, Any] = {
    "treatment": ACTION == "spawn",
    "among": ACTION.is_in(["spawn", "no_spawn"]),
    "costs": False,
}
SEEDS = range(12)


def made(overlap: float, seed: int) -> tuple[ot.Corpus, ot.synthetic.Truth]:
    return ot.synthetic.planted(
        traces=1600, agents=3, events=4, seed=seed, spawn_effect=1.0, spawn_overlap=overlap, decisive=0.0
    )


@pytest.mark.parametrize("how", ["recorded", "fitted", "blind"])
def test_a_planted_spawn_effect_is_found_at_the_rate_that_is_told(how: str) -> None:
    options: dict[str, Any] = {
        "recorded": {"propensity": "recorded"},
        "fitted": {"propensity": "fitted", "features": ["state_key"]},
        "blind": {"propensity": "fitted", "features": ["n_agents"]},
    }[how]
    errors, inside = [], 0
    for seed in SEEDS:
        corpus, truth = made(0.2, seed)
        found = ot.effects.spawn(corpus, bounds=(-8.0, 8.0), **PLANTED, **options)
        aipw, bounds = found.row(0, named=True), found.row(1, named=True)
        assert (aipw["estimate"], bounds["estimate"]) == ("aipw", "bounds")
        effect = truth.decisions["effect"].mean()
        assert isinstance(effect, float)
        errors.append((aipw["effect"] - effect) / aipw["stderr"])
        inside += aipw["lower"] <= effect <= aipw["upper"]
        assert bounds["lower"] <= effect <= bounds["upper"], "bounds assume nothing, and always hold it"
    if how == "blind":
        # Without the state the confounding is taken for an effect.
        assert np.mean(errors) > 3.0 and inside <= 2
    else:
        assert abs(np.mean(errors)) < 3.3 / np.sqrt(len(errors)) and inside >= 9, (errors, inside)


@pytest.mark.nightly
def test_the_default_knows_the_state_where_it_is_recorded() -> None:
    """Nothing said but the reward's bounds: all decisions of orchestrators, most of them the planted one.

    At the others spawning is worth nothing on average, since their effects have mean 0 under the policy.
    """
    errors, without = [], []
    for seed in SEEDS:
        corpus, truth = made(0.2, seed)
        planted = truth.decisions["effect"].sum()
        for into, options in (
            (errors, {}),
            (without, {"features": [name for name in FEATURES if name != "state_key"]}),
        ):
            row = ot.effects.spawn(corpus, costs=False, **options).row(0, named=True)
            assert row["tier"] == "surrogate"
            mean = planted / (row["n_treated"] + row["n_control"])
            into.append((row["effect"] - mean) / row["stderr"])
    assert abs(np.mean(errors)) < 3.3 / np.sqrt(len(errors)), errors
    assert np.mean(without) > 5.0, "what is not recorded misleads, and the error does not tell"


def test_without_overlap_there_is_no_number_for_all() -> None:
    for seed in SEEDS:
        corpus, truth = made(0.0, seed)
        found = ot.effects.spawn(corpus, bounds=(-8.0, 8.0), propensity="recorded", **PLANTED)
        aipw, bounds = found.row(0, named=True), found.row(1, named=True)
        both = truth.decisions.filter(pl.col("p").is_between(0.05, 0.95))
        assert aipw["overlap"] == pytest.approx(both.height / truth.decisions.height)
        if aipw["overlap"] < 0.5:
            assert aipw["effect"] is None and aipw["reason"] == "overlap.absent"
        else:
            # What is told is the effect where both happened, and says so by its support.
            assert abs(aipw["effect"] - both["effect"].mean()) < 4 * aipw["stderr"]
            assert aipw["support"] < 1.0
        effect = truth.decisions["effect"].mean()
        assert isinstance(effect, float) and bounds["lower"] <= effect <= bounds["upper"]
