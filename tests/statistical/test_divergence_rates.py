"""How often tests of branches find what is planted, and what is not: theory against corpora drawn anew."""

import math
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from samples.hand_runs import event, read, run
from samples.random_runs import Document

CORPORA = 150
GROUPS = 20
RATE = 0.3


def corpus_of(seed: int, size: int, bad: float) -> ot.Corpus:
    """Groups of runs that choose among three steps, then among two; X adds to the chance of failure."""
    rng = np.random.default_rng(seed)
    documents: list[Document] = []
    for group in range(GROUPS):
        hardness = rng.uniform(-0.15, 0.15)
        for _ in range(size):
            tools = "A" + rng.choice(list("XYZ")) + rng.choice(list("PQ"))
            failed = rng.random() < RATE + hardness + bad * ("X" in tools)
            events = [event(n, "a", "tool_call", tool=tool) for n, tool in enumerate(tools)]
            documents.append(run(len(documents), float(not failed), events, task=f"task{group}"))
    return read(documents)


def test_without_an_effect_any_finding_is_as_rare_as_stated() -> None:
    findings = 0
    for seed in range(CORPORA):
        tested = ot.evaluation.branch_tests(corpus_of(seed, 6, 0.0), alpha=0.1, draws=199, seed=seed)
        findings += bool(tested["finding"].any())
    assert findings <= 0.1 * CORPORA + 3.0 * math.sqrt(0.09 * CORPORA)


@pytest.mark.parametrize("size", [4, 8, 16])
def test_a_planted_branch_is_found_at_the_rate_of_theory(size: int) -> None:
    bad, found = 0.2, 0
    for seed in range(CORPORA):
        tested = ot.evaluation.branch_tests(corpus_of(1000 + seed, size, bad), draws=199, seed=seed)
        found += tested.filter(pl.col("tool") == "X")["p_value"].item() <= 0.05
    mean = RATE + bad / 3
    # E n(N - n)/N = (N - 1) 2/9 for a step that one run in three takes
    shift = bad * math.sqrt(GROUPS * (size - 1) * (2 / 9) / (mean * (1 - mean)))
    normal = NormalDist()
    bound = normal.inv_cdf(0.975)
    power = normal.cdf(shift - bound) + normal.cdf(-shift - bound)
    error = math.sqrt(power * (1 - power) / CORPORA)
    assert abs(found / CORPORA - power) <= 3.0 * error + 0.03


def test_a_bad_branch_ranks_first_in_most_groups() -> None:
    first, groups = 0, 200
    rng = np.random.default_rng(0)
    for _ in range(groups):
        documents = []
        for failed in [True] * 8 + [False] * 8:
            bad = rng.random() < (0.9 if failed else 0.1)
            tools = "A" + ("X" if bad else "Y") + rng.choice(list("PQ"))
            events = [event(n, "a", "tool_call", tool=tool) for n, tool in enumerate(tools)]
            documents.append(run(len(documents), float(not failed), events))
        branches = ot.evaluation.divergence(read(documents)).drop_nulls("effect")
        first += branches.sort("effect", descending=True)["tool"][0] == "X"
    assert first >= 0.9 * groups
