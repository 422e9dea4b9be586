"""Errors of sampled values of games: 95 % intervals hold the exact value in 93 to 97 % of 2,000 runs."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import orchestrace as ot

N = 11
RUNS = 2000
#: Two of eleven were spawned, in two chains, so that nearly every coalition can be.
PARENTS = [0 if p == 5 else 1 if p == 6 else None for p in range(N)]
#: Samples are so few that exact values, which would have no error, take more evaluations.
SAMPLERS: dict[str, dict[str, Any]] = {
    "shapley by permutation": {"samples": 64, "sampler": "permutation"},
    "shapley by antithetic": {"samples": 128, "sampler": "antithetic"},
    "shapley by stratified": {"samples": 128, "sampler": "stratified"},
    "shapley by kernel": {"samples": 256, "sampler": "kernel"},
    "owen": {"samples": 64, "unions": [range(2), range(2, 5)]},
    "winter": {"samples": 64, "unions": [[[0, 1], 2], [3, 4]]},
    "myerson": {"samples": 64, "links": [(p, p + 1) for p in range(N - 1)]},
    "precedence_shapley": {"samples": 64, "parents": PARENTS},
    "permission": {"samples": 64, "parents": PARENTS},
    "banzhaf": {"samples": 256},
    "normalized_banzhaf": {"samples": 256},
}


@pytest.fixture(scope="module")
def game() -> np.ndarray:
    """Size counts with falling returns, and every coalition is worth something of its own."""
    sizes = np.array([s.bit_count() for s in range(1 << N)])
    return np.random.default_rng(3).normal(size=1 << N) + 2.0 * np.sqrt(sizes)


@pytest.mark.every_nth(9)
@pytest.mark.parametrize("name", SAMPLERS)
def test_intervals_cover_the_exact_value_at_the_nominal_rate(name: str, game: np.ndarray) -> None:
    method, options = name.split(" ")[0], SAMPLERS[name]
    structure = {key: value for key, value in options.items() if key not in ("samples", "sampler")}
    exact = ot.games.values(game, N, method, **structure)["value"].to_numpy()
    away, covered = np.empty((RUNS, N)), 0
    for seed in range(RUNS):
        found = ot.games.values(game, N, method, seed=seed, threads=1, **options)
        draws, error = found["n_samples"][0], found["stderr"].to_numpy()
        away[seed] = found["value"].to_numpy() - exact
        # a few draws ask for Student's quantile, as the page on games says
        covered += int((np.abs(away[seed]) <= stats.t.ppf(0.975, draws - 1) * error).sum())
    assert 0.93 <= covered / (RUNS * N) <= 0.97, covered / (RUNS * N)
    if method != "normalized_banzhaf":  # a ratio is unbiased only in the limit
        z = away.mean(axis=0) / (away.std(axis=0, ddof=1) / np.sqrt(RUNS))
        assert np.abs(z).max() < 4.5, z
