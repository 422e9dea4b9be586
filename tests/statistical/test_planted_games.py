"""Values of games against planted truth: methods with a proof on the planted model have no error there."""

import importlib
import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import orchestrace as ot
from samples.hand_runs import event, read, run

SCRIPTS = Path(__file__).resolve().parents[2] / "benches" / "python"
#: Solutions that give everybody the own worth where worths add up, with what each needs to know.
ADDITIVE: list[tuple[str, dict[str, Any]]] = [
    ("difference", {}),
    ("shapley", {}),
    ("shapley", {"samples": 3, "sampler": "permutation"}),
    ("shapley", {"samples": 4, "sampler": "antithetic"}),
    ("banzhaf", {}),
    ("normalized_banzhaf", {}),
    ("owen", {"unions": 2}),
    ("winter", {"unions": 2}),
    ("myerson", {"links": 2}),
    ("precedence_shapley", {"parents": 1}),
]


def structure(needs: dict[str, Any], n: int) -> dict[str, Any]:
    """Unions of two, a chain of links, a chain of spawns."""
    made: dict[str, Any] = dict(needs)
    if "unions" in needs:
        made["unions"] = [list(range(k, min(k + 2, n))) for k in range(0, n, 2)]
    if "links" in needs:
        made["links"] = list(itertools.pairwise(range(n)))
    if "parents" in needs:
        made["parents"] = [None, *range(n - 1)]
    return made


@pytest.mark.parametrize(("method", "needs"), ADDITIVE, ids=str)
def test_additive_games_have_one_solution(method: str, needs: dict[str, Any]) -> None:
    _, truth = ot.synthetic.planted(traces=24, agents=6, seed=1)
    ranks = []
    for trace_id in truth.outcomes["trace_id"]:
        game = truth.game(trace_id)
        n = len(game.players)
        found = ot.games.values(game, n, method, **structure(needs, n))
        own = truth.agents.filter(trace_id=trace_id)["contribution"].to_numpy()
        values = found["value"].to_numpy()
        if method == "normalized_banzhaf":
            assert values.sum() == pytest.approx(own.sum(), abs=1e-9)
        np.testing.assert_allclose(values, own, atol=1e-9)
        if n > 1:
            ranks.append(stats.spearmanr(values.round(9), own.round(9)).statistic)
    assert len(ranks) > 20 and min(ranks) > 1 - 1e-9


@pytest.mark.parametrize("outcome", ["linear", "noisy_or", "majority", "mixed"])
def test_shapley_values_of_runs_are_the_true_ones(outcome: str) -> None:
    _, truth = ot.synthetic.planted(
        traces=24, agents=6, events=6, seed=2, outcome=outcome, interaction=0.5, decisive=0.5
    )
    for trace_id in truth.outcomes["trace_id"]:
        own = truth.agents.filter(trace_id=trace_id)["shapley"].to_numpy()
        found = ot.games.values(truth.game(trace_id), own.size)["value"].to_numpy()
        np.testing.assert_allclose(found, own, atol=1e-12)


@pytest.mark.parametrize("outcome", ["linear", "noisy_or", "majority", "mixed"])
def test_the_truth_may_be_the_outcome_of_credit(outcome: str) -> None:
    corpus, truth = ot.synthetic.planted(traces=24, agents=6, events=6, seed=2, outcome=outcome, decisive=0.5)
    found = ot.credit(corpus, method="shapley", unit="agent", outcome=truth.value)
    assert found["residual"].abs().max() < 1e-12
    both = truth.agents.join(
        found.filter(pl.col("unit_id").is_not_null()),
        left_on=["trace", "agent"],
        right_on=["trace", "unit_id"],
    )
    assert both.height == truth.agents.height
    np.testing.assert_allclose(both["credit"], both["shapley"], rtol=0, atol=1e-12)
    whole = found.group_by("trace", maintain_order=True).agg(pl.col("credit").sum())["credit"]
    np.testing.assert_allclose(whole, truth.outcomes["outcome"], rtol=0, atol=1e-12)


def test_errors_of_sampled_values_cover_the_truth() -> None:
    """95 % intervals of 2,000 values hold the true one in 93 to 97 % of the cases."""
    _, truth = ot.synthetic.planted(traces=400, agents=9, events=8, seed=3, outcome="mixed", group_size=1)
    covered, counted = 0, 0
    for trace_id in truth.outcomes["trace_id"]:
        own = truth.agents.filter(trace_id=trace_id)
        game = truth.game(trace_id)
        found = ot.games.values(game, own.height, samples=100, sampler="permutation", seed=counted)
        error, value = found["stderr"].to_numpy(), found["value"].to_numpy()
        # Who does nothing has no error to cover.
        some = error > 0.0
        covered += int((np.abs(value - own["shapley"].to_numpy())[some] <= 1.96 * error[some]).sum())
        counted += int(some.sum())
    assert counted > 1900 and 0.93 <= covered / counted <= 0.97, covered / counted


def test_flow_finds_what_the_graph_makes() -> None:
    """Where the outcome is the surrogate's, flow ranks agents nearly as their exact Shapley values do."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        script = importlib.import_module("planted_structure")
    finally:
        sys.path.remove(str(SCRIPTS))
    found = script.measure(400)
    for gates in script.GATES:
        bands = {
            run: script.interval(own, "rho") for (run,), own in found.filter(gates=gates).group_by("run")
        }
        assert bands["uniform"][2] < 0.3 < 0.6 < bands["flow"][1], (gates, bands)
        assert bands["flow"][2] < bands["difference"][1] and bands["banzhaf"][1] > 0.9, (gates, bands)


#: One weight for each type of edge, in the order of the schema.
WEIGHTS = [0.5, 0.9, 0.6, 0.8, 0.4, 0.7, 0.95, 0.3]
TYPES = ["temporal", "causal", "spawn", "message", "tool_dependency", "return", "aggregate", "safety_flow"]


def lines(rng: np.random.Generator, trace: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Agents who each work along a line of their own that ends in the sink; what each then contributes."""
    n = int(rng.integers(2, 7))
    events, edges, truth = [], [], {}
    for agent in range(n):
        truth[f"agent {agent}"] = 1.0 / n
        for step in range(int(rng.integers(1, 4))):
            seq = len(events)
            events.append(event(seq, f"agent {agent}"))
            if step:
                kind = int(rng.integers(len(TYPES)))
                edges.append({"src": f"e{seq - 1}", "dst": f"e{seq}", "type": TYPES[kind]})
                truth[f"agent {agent}"] *= WEIGHTS[kind]
    return run(trace, 1.0, events) | {"edges": edges}, truth


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("difference", {}),
        ("shapley", {}),
        ("shapley", {"samples": 2, "sampler": "permutation"}),
        ("banzhaf", {}),
        ("owen", {}),
        ("precedence_shapley", {}),
    ],
    ids=str,
)
def test_linear_gates_with_the_weights_that_made_the_outcome(method: str, params: dict[str, Any]) -> None:
    """The outcome is a sum of products of weights, written as edges: the surrogate is what made it."""
    rng = np.random.default_rng(4)
    made = [lines(rng, trace) for trace in range(40)]
    corpus = read([document for document, _ in made])
    options: dict[str, Any] = {"outcome": "linear", "weights": WEIGHTS} | params
    credits = ot.credit(corpus, method=method, unit="agent", **options)
    ranks = []
    for trace, (_, truth) in enumerate(made):
        own = dict(
            credits.filter(pl.col("trace") == trace, pl.col("unit_id").is_not_null())
            .select("unit_id", "credit")
            .iter_rows()
        )
        assert own.keys() == truth.keys()
        found, true = (np.array([side[name] for name in truth]) for side in (own, truth))
        np.testing.assert_allclose(found, true * found.sum() / true.sum(), atol=1e-9)
        if np.unique(true.round(9)).size > 1:
            ranks.append(stats.spearmanr(found.round(9), true.round(9)).statistic)
    assert len(ranks) > 25 and min(ranks) > 1 - 1e-9
