"""The estimator ``mrdr``, of policies without chance: by hand, against NumPy, over all logs, its rates."""

import itertools
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.effects.logged_decisions import logged
from orchestrace.effects.policy_estimators import Weights, terms_of
from orchestrace.statistics.folds import folds_over
from reference.policies import more_robust
from samples.examples import examples

OPEN: dict[str, Any] = {"min_ess": 0.0, "max_share": 1.0, "max_unsupported": 1.0, "n_boot": 20}
"""Nothing is refused that has a weight, and little is resampled."""
ALWAYS = {"1": 1.0, "0": 0.0}
WHERE_HARD = {
    "spawn": (pl.col("x_state") == "hard").cast(pl.Float64),
    "no_spawn": (pl.col("x_state") == "easy").cast(pl.Float64),
}
"""The best policy of `synthetic.choices`."""
ROWS = pl.DataFrame(
    {
        "trace": [0, 1, 2, 3],
        "task_id": ["a", "b", "c", "d"],
        "action": ["1", "0", "1", "0"],
        "p_behavior": [0.5, 0.5, 0.8, 0.2],
        "outcome": [1.0, 0.0, 0.5, 1.0],
    }
)


def row(table: pl.DataFrame, estimator: str = "mrdr") -> dict[str, Any]:
    return table.row(by_predicate=pl.col("estimator") == estimator, named=True)


def evaluated(rows: pl.DataFrame, policy: Any, **options: Any) -> pl.DataFrame:
    return ot.effects.policy_values(rows, policy, **(OPEN | options))


def test_the_numbers_of_a_case_by_hand() -> None:
    """Two decisions follow the policy: weights 2 and 0.3125 in the regression, 2 and 1.25 in the estimate."""
    both = (2.0 * 1.0 + 0.3125 * 0.5) / 2.3125  # for the tasks whose decision did something else
    terms = [0.5 + 2.0 * (1.0 - 0.5), both, 1.0 + 1.25 * (0.5 - 1.0), both]
    found = row(evaluated(ROWS, ALWAYS, bounds=(0.0, 1.0)))
    assert found["value"] == pytest.approx(sum(terms) / 4) == pytest.approx(0.9349662, abs=5e-8)
    assert found["tier"] == "observed" and found["reason"] == "support.absent"  # four tasks have no interval


@st.composite
def logs(draw: st.DrawFn) -> pl.DataFrame:
    """Decisions of several tasks among three actions, and what a policy does in each."""
    n = draw(st.integers(6, 30))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    names = np.array(["a", "b", "c"])
    return pl.DataFrame(
        {
            "trace": np.arange(n),
            "task_id": [f"t{i // 2:02d}" for i in range(n)],
            "action": rng.choice(names, n),
            "p_behavior": rng.uniform(draw(st.sampled_from([0.01, 0.3])), 0.99, n),
            "outcome": rng.normal(size=n),
            "x_load": rng.normal(size=n),
            "x_depth": rng.integers(0, 3, n),
            "choice": rng.choice(names, n),
        }
    )


def chosen(rows: pl.DataFrame) -> dict[str, pl.Expr]:
    """The policy that does what the column ``choice`` says."""
    return {name: (pl.col("choice") == name).cast(pl.Float64) for name in ("a", "b", "c")}


@examples(60)
@given(logs(), st.sampled_from([0.1, 1.0, 20.0]), st.integers(0, 5))
def test_it_is_that_of_plain_numpy(rows: pl.DataFrame, penalty: float, seed: int) -> None:
    found = evaluated(rows, chosen(rows), penalty=penalty, seed=seed, buckets=[])
    followed = (rows["action"] == rows["choice"]).to_numpy()
    if not followed.any():
        assert row(found)["reason"] == "overlap.absent"
        return
    want = more_robust(
        rows.select("x_load", "x_depth").cast(pl.Float64).to_numpy(),
        rows.select((pl.col("choice") == name).cast(pl.Float64).alias(name) for name in "abc").to_numpy(),
        followed,
        rows["p_behavior"].to_numpy(),
        rows["outcome"].to_numpy(),
        folds_over(sorted(set(rows["task_id"])), 5, seed)[np.arange(rows.height) // 2],
        penalty,
    )
    assert row(found)["value"] == pytest.approx(want, rel=1e-8, abs=1e-8)


@pytest.mark.nightly
@examples(20)
@given(
    st.lists(st.floats(0.1, 0.9), min_size=4, max_size=4),
    st.lists(st.floats(-2.0, 2.0), min_size=8, max_size=8),
)
def test_it_is_right_on_average_over_all_logs(p: list[float], paid: list[float]) -> None:
    """Whatever the regression learns: it never sees the task that it judges."""
    mean, total = 0.0, 0.0
    for drawn in itertools.product((0, 1), repeat=4):
        chance = float(np.prod([p[i] if d else 1.0 - p[i] for i, d in enumerate(drawn)]))
        rows = pl.DataFrame(
            {
                "trace": range(4),
                "task_id": list("abcd"),
                "action": [str(d) for d in drawn],
                "p_behavior": [p[i] if d else 1.0 - p[i] for i, d in enumerate(drawn)],
                "outcome": [paid[2 * i + d] for i, d in enumerate(drawn)],
                "x_load": [0.0, 1.0, 1.5, 3.0],
            }
        )
        value = row(evaluated(rows, ALWAYS))["value"]
        # a log that never follows the policy is refused; its estimate is 0, since nothing was learnt
        assert (value is None) == (not any(drawn))
        mean += chance * (value or 0.0)
        total += chance
    assert total == pytest.approx(1.0)
    assert mean == pytest.approx(np.mean(paid[1::2]), abs=1e-9)


def test_a_regression_that_says_nothing_leaves_inverse_propensity_weighting() -> None:
    decisions, _ = ot.synthetic.choices(runs=200, seed=3)
    log = logged(decisions, unit="decision", at=1, order="seq", reward=None)
    hard = (log.rows["x_state"] == "hard").to_numpy().astype(float)
    target = np.stack([1.0 - hard, hard], axis=1)
    weights = Weights.of(log, target[np.arange(len(target)), log.action], None)
    zero = np.zeros(len(log))
    terms = terms_of(log, weights, target, np.zeros_like(target), 1.0, None, zero)
    assert terms["mrdr"].value == terms["is"].value
    # what an outcome costs more, the value is more
    before = row(evaluated(decisions, WHERE_HARD))["value"]
    after = row(evaluated(decisions.with_columns(pl.col("outcome") + 3.0), WHERE_HARD))["value"]
    assert after - before == pytest.approx(3.0, abs=1e-9)


def test_a_log_that_always_follows_is_worth_what_was_paid() -> None:
    """No weight is left for the regression, and nothing to correct."""
    rows = ROWS.with_columns(action=pl.lit("1"), p_behavior=1.0)
    assert row(evaluated(rows, ALWAYS))["value"] == pytest.approx(rows["outcome"].mean(), abs=1e-12)


def test_tiny_probabilities_are_no_overflow() -> None:
    rows = ROWS.with_columns(p_behavior=pl.Series([1e-200, 0.5, 1e-190, 0.5]))
    found = row(evaluated(rows, ALWAYS))
    assert found["value"] is not None and np.isfinite(found["value"])


def test_only_policies_without_chance_have_it() -> None:
    for policy in ({"1": 0.9, "0": 0.1}, {"1": 1.0 - 1e-9, "0": 1e-9}):
        assert "mrdr" not in evaluated(ROWS, policy)["estimator"]
    one = pl.DataFrame({"action": ["1"], "p": [1.0]})
    assert_frame_equal(
        evaluated(ROWS, one).drop("params"), evaluated(ROWS, ALWAYS).drop("params"), check_exact=True
    )
    runs, _ = ot.synthetic.choices(runs=100, steps=2, seed=0)
    assert "mrdr" not in evaluated(runs, WHERE_HARD, unit="sequence")["estimator"]
    # no decision says whether the policy draws
    assert "mrdr" not in evaluated(ROWS.clear(), ALWAYS)["estimator"]


def test_it_is_refused_where_the_others_are() -> None:
    few = ot.effects.policy_values(ROWS, ALWAYS, n_boot=20)
    assert row(few)["value"] is None and row(few)["reason"] == "overlap.absent"
    for rows, reason in (
        (ROWS.drop("p_behavior"), "field.absent"),
        (ROWS.with_columns(p_behavior=pl.lit(0.0)), "result.range"),
        (ROWS.with_columns(p_behavior=pl.lit(-0.1)), "result.range"),
        (ROWS.with_columns(p_behavior=pl.lit(float("nan"))), "result.range"),
    ):
        assert row(evaluated(rows, ALWAYS))["reason"] == reason


def test_a_given_model_does_not_move_it() -> None:
    own = evaluated(ROWS, ALWAYS)
    given_ = evaluated(ROWS, ALWAYS, outcome_model={"1": 0.7, "0": 0.1})
    assert row(own)["value"] == row(given_)["value"] and row(own, "dr")["value"] != row(given_, "dr")["value"]
    params = json.loads(row(given_)["params"])
    assert (params["folds"], params["penalty"]) == (5, 1.0)
    drawn = json.loads(evaluated(ROWS, {"1": 0.9, "0": 0.1}, outcome_model={"1": 0.7, "0": 0.1})["params"][0])
    assert (drawn["folds"], drawn["penalty"]) == (None, None)


def uneven(seed: int, runs: int = 400) -> tuple[pl.DataFrame, float]:
    """Decisions that seldom follow the policy where the outcome is high, and what the policy is worth."""
    rng = np.random.default_rng(seed)
    load = rng.uniform(size=runs)
    p = np.where(load > 0.7, 0.1, 0.8)
    spawn = rng.random(runs) < p
    outcome = 4.0 * load**3 * spawn + rng.normal(0.0, 0.2, runs)
    rows = pl.DataFrame(
        {
            "trace": np.arange(runs),
            "task_id": [f"t{i}" for i in range(runs)],
            "action": np.where(spawn, "spawn", "no_spawn"),
            "p_behavior": np.where(spawn, p, 1.0 - p),
            "outcome": outcome,
            "x_load": load,
        }
    )
    return rows, 1.0


@pytest.mark.nightly
@pytest.mark.statistical
def test_its_intervals_cover_at_the_rate_that_they_claim() -> None:
    """Over 200 seeds. At 95 % a rate below 0.905 has a chance of 0.003. As good as ``dr``, and no better."""
    inside, shares = 0, {"easy": 0.0, "hard": 1.0}
    values: dict[str, list[float]] = {"mrdr": [], "dr": []}
    for seed in range(200):
        decisions, truth = ot.synthetic.choices(runs=400, seed=seed)
        table = ot.effects.policy_values(decisions, WHERE_HARD, n_boot=400, seed=seed)
        found = row(table)
        inside += found["lower"] <= truth.value(shares) <= found["upper"]
        for name, own in values.items():
            own.append(row(table, name)["value"])
    assert 0.905 <= inside / 200 <= 0.99, inside
    assert np.std(values["mrdr"]) == pytest.approx(np.std(values["dr"]), rel=0.05)


@pytest.mark.nightly
@pytest.mark.statistical
def test_where_the_model_is_wrong_it_errs_less_than_doubly_robust() -> None:
    """A line through a cubic, and few decisions where it matters: what the estimator was made for."""
    errors: dict[str, list[float]] = {"mrdr": [], "dr": []}
    for seed in range(150):
        rows, exact = uneven(seed)
        table = evaluated(rows, {"spawn": 1.0, "no_spawn": 0.0})
        for name, own in errors.items():
            own.append(row(table, name)["value"] - exact)
    spread = {name: float(np.std(own)) for name, own in errors.items()}
    assert spread["mrdr"] < 0.7 * spread["dr"], spread
    for own in errors.values():
        assert abs(np.mean(own)) < 4.0 * np.std(own) / np.sqrt(150)
