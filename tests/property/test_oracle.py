"""Credit against planted truth: what theory promises holds at the rate that it promises.

Intervals are over independent seeds (Student's t) or over tasks (bootstrap). No bound was fitted to pass:
it is the promised value and the width of the interval.
"""

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from scipy import stats

import orchestrace as ot
from property.planted_teams import WORTH, teams

SCRIPTS = Path(__file__).resolve().parents[2] / "benches" / "python"
SEEDS = range(5)


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("planted_truth")


@pytest.fixture(scope="module")
def found(script) -> pl.DataFrame:
    """Small corpora of the additive model, rewards recorded and shuffled; without the slow fits of shares."""
    options = {"outcome": "linear", "agents": 4, "events": 10, "decisive": 0.0, "density": 0.4}
    chosen = [run for run in script.runs() if run[0] not in ("rudder", "vdn", "qmix")]
    return script.measure(5 * 240, {"linear": options}, chosen)


def slope_interval(
    sizes: list[int], by_seed: list[list[float]], confidence: float = 0.95
) -> tuple[float, float]:
    """Interval of the mean over seeds of the log-log slope."""
    slopes = np.array([np.polyfit(np.log(sizes), np.log(own), 1)[0] for own in by_seed])
    half = stats.t.ppf((1 + confidence) / 2, slopes.size - 1) * slopes.std(ddof=1) / np.sqrt(slopes.size)
    return float(slopes.mean() - half), float(slopes.mean() + half)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_step_of_an_exact_critic_is_the_contribution(seed) -> None:
    options = {"traces": 64, "seed": seed, "decisive": 0.0, "noise": 0.0}
    for dense, times in ((False, 1.0), (True, 2.0)):
        # With `dense` a change of the outcome is paid twice: when it happens, and in the reward at the end.
        corpus, truth = ot.generate_planted(dense=dense, **options)
        credits = ot.credit(corpus, method="gae", unit="event", rows="events", lambda_=0.0, gamma=1.0)
        both = credits.join(truth.contributions, on=["trace", "seq"])
        assert both.height == 6400
        assert (both["credit"] - times * both["contribution"]).abs().max() < 1e-9
        agents = ot.credit(corpus, method="gae", unit="agent", rows="events", lambda_=0.0, gamma=1.0)
        # An advantage of a larger unit is the mean of its rows, whose sum is what the agent contributed.
        sizes = ot.credit(corpus, method="uniform", unit="agent").select(
            "trace", "unit_id", owned=100 * pl.col("credit") / pl.col("credit").sum().over("trace")
        )
        owned = agents.join(truth.agents, left_on=["trace", "unit_id"], right_on=["trace", "agent"])
        owned = owned.join(sizes, on=["trace", "unit_id"])
        assert owned.height == truth.agents.height
        assert (owned["credit"] * owned["owned"] - times * owned["contribution"]).abs().max() < 1e-9


def test_rewards_by_event_are_paid_where_they_are_earned() -> None:
    corpus, truth = ot.generate_planted(traces=64, seed=3, decisive=0.0, dense=True)
    credits = ot.credit(corpus, method="return_to_go", unit="event", rows="events", gamma=0.0)
    both = credits.join(truth.contributions, on=["trace", "seq"]).filter(
        pl.col("seq") < pl.col("seq").max().over("trace")
    )
    assert both.height == 6336
    assert (both["credit"] - both["contribution"]).abs().max() < 1e-9


def fork_errors(group_size: int, seed: int) -> dict[str, float]:
    """Root mean square error of `c3` at the forks of 40 groups, against its limit for many rollouts."""
    corpus, truth = ot.generate_planted(
        traces=40 * group_size,
        group_size=group_size,
        agents=2,
        events=6,
        density=0.5,
        decisive=0.0,
        seed=seed,
    )
    place = ["context", "role"]
    forks = (
        ot.contexts(corpus)
        .filter(pl.len().over(place) == group_size, pl.col("choice").n_unique().over(place) > 1)
        .select("trace", "seq")
        .join(truth.contributions, on=["trace", "seq"])
        .join(corpus.events.select("trace", "seq", "p_behavior").collect(), on=["trace", "seq"])
    )
    # Effects have mean 0 under the policy; leaving the own choice out divides by the share of the others.
    limits = {"mean": forks["contribution"], "loo": forks["contribution"] / (1 - forks["p_behavior"])}
    assert forks.height == 40 * group_size
    errors = {}
    for baseline, limit in limits.items():
        credits = ot.credit(corpus, method="c3", unit="event", baseline=baseline)
        own = forks.with_columns(limit=limit).join(credits, on=["trace", "seq"], maintain_order="left")
        errors[baseline] = float(((own["credit"] - own["limit"]) ** 2).mean()) ** 0.5
    return errors


def test_the_error_of_siblings_falls_with_the_root_of_their_number() -> None:
    sizes = [
        32,
        64,
        128,
        256,
    ]  # every action of the policy has a share of 0.15 or more: in 32 none is missing
    errors = [[fork_errors(size, seed) for size in sizes] for seed in SEEDS]
    for baseline in ("mean", "loo"):
        low, high = slope_interval(sizes, [[own[baseline] for own in row] for row in errors])
        assert low <= -0.5 <= high and high - low < 0.3, (baseline, low, high)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_broadcast_credit_diffuses_with_the_root_of_the_length(noise) -> None:
    lengths = [8, 16, 32, 64, 128]
    seen, ratios = [], []
    for seed in SEEDS:
        row = []
        for n in lengths:
            corpus, truth = ot.generate_planted(
                traces=800,
                group_size=1,
                agents=2,
                events=n // 2,
                density=1.0,
                decisive=0.0,
                noise=noise,
                seed=seed,
            )
            credits = ot.credit(corpus, method="broadcast", unit="event")
            both = credits.join(truth.contributions, on=["trace", "seq"])
            x, y = both["credit"].to_numpy(), both["contribution"].to_numpy()
            assert x.size == 800 * n
            row.append(float(np.corrcoef(x, y)[0, 1]))
            # methods of the design, 6.9: rho = sigma_i / sqrt(sum sigma_j^2 + sigma_noise^2), units alike
            ratios.append(row[-1] / (y.std() / np.sqrt(n * y.var() + noise**2)))
        seen.append(row)
    mean, error = np.mean(ratios), stats.sem(ratios)
    assert abs(mean - 1) < stats.t.ppf(0.975, len(ratios) - 1) * error < 0.03, (mean, error)
    low, high = slope_interval(lengths, seen)
    if noise:
        assert low > -0.5, "noise hides a short run's units too, so that length costs less"
    else:
        assert low <= -0.5 <= high and high - low < 0.1, (low, high)


@pytest.mark.parametrize("control", ["shuffled", "centred"])
def test_shuffled_rewards_find_nothing(script, found, control) -> None:
    rows = found.filter(rewards=control)
    outside, counted = script.outside_the_band(rows)
    assert counted > 50
    assert len(outside) <= stats.binom.ppf(0.999, counted, 0.05), outside
    for unit in script.UNITS:
        mean, low, high = script.interval(rows.filter(unit=unit), "rho")
        assert low <= 0 <= high, (unit, mean, low, high)
    # The control can see: siblings find the truth in the rewards as they are.
    for run in ("c3", "broadcast"):
        _, low, _ = script.interval(found.filter(rewards="recorded", unit="siblings", run=run), "rho")
        assert low > 0.1, run


def test_the_sign_of_rewards_alone_ranks_agents_where_none_is_negative(script) -> None:
    corpus, truth = ot.generate_planted(traces=400, outcome="noisy_or", seed=1)
    low, high = {}, {}
    for centred in (False, True):
        given = script.shuffled(corpus, 1, centred=centred)
        (own,) = [v for _, unit, v in script.compared(given, truth, [("uniform", {})]) if unit == "agent"]
        _, low[centred], high[centred] = script.interval(own, "rho")
    assert low[False] > 0.1, "who did more earned more, whichever run it was"
    assert low[True] <= 0 <= high[True]


def test_the_order_of_methods_is_stable_over_seeds(script, found) -> None:
    for unit, table in script.orders(found).items():
        taus = script.agreement_of_seeds(table)
        assert len(taus) == 10 and len(table) > 10
        # What two random orders of as many methods reach in one of a thousand cases (normal law of tau).
        n = len(table)
        chance = stats.norm.ppf(0.999) * np.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1)))
        assert np.mean(taus) > chance, (unit, np.mean(taus), chance)
        # Methods that are clearly apart never change places; those about 0 may.
        means = {run: np.array(by_seed) for run, by_seed in table.items()}
        for (a, x), (b, y) in itertools.combinations(means.items(), 2):
            gap = x - y
            clear = abs(gap.mean()) > stats.t.ppf(0.9995, 4) * gap.std(ddof=1)
            assert not clear or (np.sign(gap) == np.sign(gap.mean())).all(), (unit, a, b, gap)


def test_an_exact_critic_ranks_as_the_truth(script) -> None:
    corpus, truth = ot.generate_planted(traces=80, seed=1, decisive=0.0, noise=0.0, density=1.0)
    credits = ot.credit(corpus, method="gae", unit="event", rows="events", lambda_=0.0, gamma=1.0)
    # Many effects are equal: without rounding the last bits of the critic's differences would rank them.
    rows = credits.join(truth.contributions, on=["trace", "seq"]).select(
        "trace", "unit_id", pl.col("credit", "contribution").round(12), task=pl.lit("t")
    )
    assert script.values(rows, ["trace"])["rho"].min() > 1 - 1e-9


def test_the_error_of_a_fitted_sum_falls_with_the_root_of_the_runs() -> None:
    sizes = [75, 150, 300, 600]
    worth_of_an_agent = 5.5 * WORTH.mean()  # 3 to 8 events, actions drawn uniformly
    errors = []
    for seed in SEEDS:
        row = []
        for n in sizes:
            planted = teams(n, seed=100 * seed + n)
            credits = ot.credit(planted.corpus, method="vdn", unit="agent").drop_nulls("unit_id")
            truth = planted.truth.group_by("trace", unit_id="agent").agg(pl.col("worth").sum())
            both = credits.join(truth, on=["trace", "unit_id"])
            assert both.height == credits.height
            row.append(float(((both["credit"] - both["worth"] + worth_of_an_agent) ** 2).mean()) ** 0.5)
        errors.append(row)
    low, high = slope_interval(sizes, errors)
    assert low <= -0.5 <= high and high < -0.2, (low, high, errors)


def test_counting_turns_misjudges_the_decision_to_stop() -> None:
    script = loaded("length_bias")
    worse, better = script.WORLDS
    for world in (worse, better):
        corpus = ot.read_traces(script.recordings(world, 17, seed=17))
        truth, limit = world.truth(), world.weighted(17)
        fair = script.estimates(corpus, "grpo", False)
        assert all(low <= truth[name] <= high for name, (_, low, high) in fair.items()), (world, fair)
        _, low, high = script.estimates(corpus, "grpo", True)["contrast"]
        assert low <= limit["contrast"] <= high
        _, low, _ = script.estimates(corpus, "dr_mas", False)["stop"]
        assert low > 0.5 > truth["stop"], "stopping is praised, whether or not it is the worse choice"
    assert better.truth()["contrast"] > 0 > better.weighted(17)["contrast"]
