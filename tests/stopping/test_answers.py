"""Rules of stopping: by hand, against exact dynamic programs, against planted optima, and as properties."""

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom

import orchestrace as ot
from samples.examples import examples

#: Drafts of runs a to d: quality at each epoch; an epoch costs .1, the first is free.
HAND = {"a": (0.5, 0.9), "b": (0.5, 0.1), "c": (0.2, 0.6), "d": (0.2,)}


def epochs(runs: dict[str, tuple[float, ...]], tasks: dict[str, str] | None = None) -> pl.DataFrame:
    """Epochs of drafts; tokens are 0, 1, 2, ..., the only feature is the quality."""
    rows = [
        {
            **{"trace": n, "trace_id": name, "task_id": (tasks or {}).get(name, name), "k": k + 1},
            **{"q": q, "s": q, "tokens": float(k), "y": qs[-1], "x_q": q, "x_k": k + 1.0},
        }
        for n, (name, qs) in enumerate(runs.items())
        for k, q in enumerate(qs)
    ]
    return pl.DataFrame(rows, schema_overrides={"trace": pl.UInt32, "k": pl.UInt32})


def values(table: pl.DataFrame) -> dict[str, float]:
    return dict(zip(table["method"], table["value"], strict=True))


def one_fold(runs: dict[str, tuple[float, ...]], methods: list[str], **options: Any) -> pl.DataFrame:
    """Of runs of one task, which nothing can be held out of: rules see what they are judged by."""
    return ot.stopping.evaluate(
        epochs(runs, dict.fromkeys(runs, "task")), methods, cost="tokens", n_boot=10, **options
    )


def test_values_by_hand() -> None:
    """C(.5) = .4: stop; C(.2) = .5: go on; that is .425. Recorded .375, hindsight .5, dual .425."""
    table = one_fold(HAND, ["recorded", "fixed", "tabular", "oracle"], price=0.1)
    assert values(table) == pytest.approx(
        {"recorded": 0.375, "fixed": 0.375, "tabular": 0.425, "oracle": 0.5}
    )
    [bound] = table.filter(method="tabular")["bound"]
    assert bound == pytest.approx(0.425)
    # one task has no interval
    assert table["lower"].null_count() == 4 and set(table["reason"]) == {"support.absent"}


def test_a_fitted_rule_by_hand() -> None:
    rule = ot.stopping.fit(epochs(HAND), "tabular", price=0.1, cost="tokens")
    told = rule.apply(epochs({"x": (0.5, 0.7), "y": (0.2, 0.3)}))
    assert told["continuation"].to_list()[::2] == pytest.approx([0.4, 0.5])
    assert told["stop"].to_list() == [True, True, False, True]


def test_regret_by_hand() -> None:
    table = ot.stopping.regret(epochs(HAND), price=0.1, cost="tokens")
    assert table["regret"].to_list() == pytest.approx([0.0, 0.5, 0.0, 0.0])
    assert table["k_best"].to_list() == [2, 1, 2, 1]
    assert table["over_run"].to_list() == [False, True, False, False]
    assert table["under_run"].null_count() == 4
    # d is of one task with c, which went on and came to .5
    task = dict.fromkeys(HAND, "task")
    siblings = ot.stopping.regret(epochs(HAND, task), price=0.1, cost="tokens")
    assert siblings["under_run"].to_list()[:3] == [None, None, None]
    assert siblings["under_run"][3] == pytest.approx((0.6 + 0.0 + 0.3) / 3)


def test_termination_lag_by_hand() -> None:
    """Tokens so far are 0, 1, 2, 3: what passes at the second of four epochs spends two thirds afterwards."""
    runs = {"late": (0.5, 1.0, 0.2, 0.9), "ends": (0.5, 1.0), "never": (0.5, 0.9), "first": (1.0, 0.0)}
    table = ot.stopping.regret(epochs(runs), cost="tokens")
    assert table["termination_lag"].to_list() == pytest.approx([2 / 3, 0.0, None, 1.0])
    assert table["lag_reason"].to_list() == [None, None, "ratio.empty", None]
    free = ot.stopping.regret(epochs({"free": (1.0,)}), cost="tokens")
    assert free["lag_reason"].to_list() == ["ratio.empty"], "nothing was spent"
    counted = ot.stopping.regret(epochs(runs), cost="epochs")
    assert counted["termination_lag"].to_list() == pytest.approx([0.5, 0.0, None, 0.5])


@pytest.mark.parametrize(("price", "value"), [(0.05, 0.693275), (0.2, 0.27731), (0.31, 0.0)])
def test_steps_that_solve_with_a_fixed_chance(price: float, value: float) -> None:
    """Each of 5 steps solves with chance .3 at a price; all 2^5 paths as runs, as often as they happen."""
    runs, times = [], []
    for solved in range(1, 7):  # the step that solves; 6: none does
        chance = 0.3 * 0.7 ** (solved - 1) if solved < 6 else 0.7**5
        runs.append(tuple(0.0 if k < solved else 1.0 for k in range(6)))
        times.append(round(chance * 100_000))
    drawn = {
        f"{n}-{m}": qs
        for n, (qs, many) in enumerate(zip(runs, times, strict=True))
        for m in range(many // 50)
    }
    table = one_fold(drawn, ["tabular"], price=price)
    assert values(table)["tabular"] == pytest.approx(value, abs=1e-3)


grid = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
some_runs = st.lists(st.lists(grid, min_size=1, max_size=4).map(tuple), min_size=1, max_size=12)


def exact(runs: list[tuple[float, ...]], price: float) -> float:
    """The best rule that sees the history, of runs that are all there is, in plain Python."""

    def worth(history: tuple[float, ...]) -> float:
        inside = [run for run in runs if run[: len(history)] == history]
        pay = history[-1] - price * (len(history) - 1)
        later = [run for run in inside if len(run) > len(history)]
        whole = pay * (len(inside) - len(later))
        nexts = sorted({run[: len(history) + 1] for run in later})
        go_on = sum(worth(one) for one in nexts)
        return whole + max(pay * len(later), go_on)

    return sum(worth(first) for first in sorted({run[:1] for run in runs})) / len(runs)


@examples(80)
@given(some_runs, st.sampled_from([0.0, 0.1, 0.3]))
def test_tabular_is_the_exact_program_and_its_dual_meets_it(
    runs: list[tuple[float, ...]], price: float
) -> None:
    named = {str(n): run for n, run in enumerate(runs)}
    table = one_fold(named, ["recorded", "fixed", "tabular", "oracle"], price=price)
    told, best = values(table), exact(runs, price)
    assert told["tabular"] == pytest.approx(best)
    assert table.filter(method="tabular")["bound"][0] >= best - 1e-9
    assert told["recorded"] <= best + 1e-9 and told["fixed"] <= best + 1e-9 <= told["oracle"] + 2e-9
    if price == 0 and all(list(run) == sorted(run) for run in runs):
        assert told["tabular"] == pytest.approx(told["recorded"])


@examples(40)
@given(some_runs, st.sampled_from(ot.stopping.list_rules()["method"].to_list()))
def test_adding_to_all_payoffs_adds_to_all_values(runs: list[tuple[float, ...]], method: str) -> None:
    named = {str(n): run for n, run in enumerate(runs)}
    tasks = {name: f"k{n % 3}" for n, name in enumerate(named)}
    plain = epochs(named, tasks)
    more = plain.with_columns(pl.col("q") + 1.0)
    first, second = (
        ot.stopping.evaluate(one, [method], price=0.1, cost="tokens", n_boot=10) for one in (plain, more)
    )
    for column in ("value", "bound"):
        a, b = first[column][0], second[column][0]
        assert (a is None) == (b is None)
        assert a is None or b == pytest.approx(a + 1.0, abs=1e-8)


def test_a_dearer_epoch_never_stops_later() -> None:
    rng = np.random.default_rng(0)
    runs = {str(n): tuple(rng.integers(0, 5, rng.integers(1, 6)) / 4) for n in range(60)}
    stops = []
    for price in (0.0, 0.1, 0.2, 0.4, 1.0):
        table = one_fold(runs, ["tabular"], price=price)
        stops.append(table["mean_k"][0])
    assert stops == sorted(stops, reverse=True)


def test_the_recorded_stop_pays_what_was_recorded() -> None:
    drawn, truth = ot.synthetic.stops(runs=300, seed=4)
    last = drawn.filter("last")
    paid = float((last["q"] - truth.price * last["k"]).mean())  # type: ignore[arg-type]
    table = ot.stopping.evaluate(drawn, ["recorded"], price=truth.price, n_boot=50)
    assert table["value"][0] == pytest.approx(paid, abs=1e-12)
    assert table["early"][0] == 0.0 and table["estimand"][0] == "capped" and table["tier"][0] == "observed"


# --- planted optima --------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("seeds", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_bounds_hold_the_planted_optimum_at_the_nominal_rate(seeds: int) -> None:
    below, above, wrong_below, wrong_above, beats = [], [], [], [], []
    for seed in range(seeds):
        drawn, truth = ot.synthetic.stops(runs=400, seed=seed)
        table = ot.stopping.evaluate(drawn, ["lsm"], price=truth.price, n_boot=200)
        [row] = table.iter_rows(named=True)
        below.append(row["lower"] <= truth.value)
        above.append(row["bound_upper"] >= truth.value)
        beats.append(row["gain_lower"] > 0)
        # a model that sees the epoch alone cannot follow quality: its value stays below all the same
        [row] = ot.stopping.evaluate(
            drawn, ["lsm"], price=truth.price, n_boot=200, features=["x_k"]
        ).iter_rows(named=True)
        wrong_below.append(row["lower"] <= truth.value)
        wrong_above.append(row["bound_upper"] >= truth.value)
    told = [sum(held) for held in (below, above, wrong_below, wrong_above)]
    print(f"{seeds} seeds: below {told[0]}, above {told[1]}, wrong model below {told[2]}, above {told[3]}")
    # 97.5 % each: fewer than this with a chance of one in a thousand
    assert min(told) >= binom.ppf(0.001, seeds, 0.975), told
    assert sum(beats) == seeds


@pytest.mark.statistical
def test_stops_gain_nothing_where_runs_of_others_are_paid() -> None:
    """When a rule stops says nothing of how another run of the same length goes: no fixed epoch is beaten."""
    above = []
    for seed in range(20):
        fitted, truth = ot.synthetic.stops(1000, seed=2 * seed)
        rule = ot.stopping.fit(fitted, "lsm", price=truth.price)
        new, _ = ot.synthetic.stops(1000, seed=2 * seed + 1)
        told = rule.apply(new).sort("trace", "k")
        paid = told["payoff"].to_numpy()
        begin = np.flatnonzero(told["k"].to_numpy() == 1)
        length = np.diff(np.append(begin, len(paid)))
        stop = told["stop"].to_numpy() | (np.append(told["k"].to_numpy()[1:], 1) == 1)
        at = np.array([np.flatnonzero(stop[b : b + n])[0] for b, n in zip(begin, length, strict=True)])
        other = np.arange(1000)
        rng = np.random.default_rng(seed)
        for n in np.unique(length):
            same = np.flatnonzero(length == n)
            other[same] = rng.permutation(same)
        gained = paid[begin[other] + at]
        fixed = max(
            (paid[begin[other] + np.minimum(k, length - 1)] for k in range(8)),
            key=lambda one: float(one.mean()),
        )
        gain = gained - fixed
        above.append(gain.mean() > 1.96 * gain.std(ddof=1) / math.sqrt(1000))
        # while the runs that it looked at pay for it
        assert paid[begin + at].mean() > gained.mean()
    assert sum(above) <= 2


@pytest.mark.statistical
def test_permuted_outcomes_gain_nothing() -> None:
    """Giving up pays where failure shows: not where outcomes are those of other runs of the same length."""
    lower = {True: 0, False: 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        signal = rng.normal(size=(400, 4)).cumsum(axis=1)
        y = (signal[:, -1] + 0.3 * rng.normal(size=400) > 0.0).astype(float)
        for permuted in lower:
            ends = rng.permutation(y) if permuted else y
            drawn = pl.DataFrame(
                {
                    **{"trace": np.repeat(np.arange(400), 4), "k": np.tile([1, 2, 3, 4], 400)},
                    **{"s": signal.ravel(), "x_s": signal.ravel(), "y": np.repeat(ends, 4)},
                }
            ).with_columns(
                **{"trace_id": pl.format("r{}", "trace"), "task_id": pl.format("t{}", pl.col("trace") // 2)},
                **{"q": pl.lit(None, pl.Float64), "tokens": pl.col("k").cast(pl.Float64)},
                last=pl.col("k") == 4,
            )
            [row] = ot.stopping.evaluate(
                drawn.with_columns(pl.col("trace", "k").cast(pl.UInt32)),
                ["lsm"],
                problem="abort",
                price=0.1,
                features=["x_s"],
                n_boot=200,
            ).iter_rows(named=True)
            lower[permuted] += row["gain_lower"] > 0
    assert lower[True] <= 2 and lower[False] >= 15, lower


def test_trees_find_the_steps_of_a_state() -> None:
    """Many copies of the runs by hand: what going on is worth hangs on q_1 alone, which trees can cut."""
    many = {f"{name}{n}": qs for name, qs in HAND.items() for n in range(40)}
    rule = ot.stopping.fit(epochs(many), "lsm", price=0.1, cost="tokens", features=["x_q"], trees=True)
    told = rule.apply(epochs({"x": (0.5, 0.7), "y": (0.2, 0.3)}))
    assert told["continuation"].to_list()[::2] == pytest.approx([0.4, 0.5], abs=1e-3)
    assert told["stop"].to_list()[::2] == [True, False]
    assert '"trees": true' in rule.params


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["lsm", "tvr"])
def test_trees_beat_the_best_fixed_epoch_out_of_fold(method: str) -> None:
    drawn, truth = ot.synthetic.stops(runs=600, seed=5)
    [row] = ot.stopping.evaluate(
        drawn, [method], price=truth.price, trees=True, n_boot=200, features=["x_q", "x_k"]
    ).iter_rows(named=True)
    assert row["gain_lower"] > 0.0 and row["lower"] <= truth.value <= row["bound_upper"]
    ridge = ot.stopping.evaluate(drawn, [method], price=truth.price, n_boot=200, features=["x_q", "x_k"])
    assert row["value"] != ridge["value"][0]


# --- what rules are for ----------------------------------------------------------------------------------


def test_one_step_is_optimal_where_gains_only_fall() -> None:
    """The monotone case: each epoch adds less than the one before; the rule stops where that is the price."""
    rng = np.random.default_rng(1)
    runs = {}
    for n in range(120):
        talent = rng.choice([0.5, 1.0])
        runs[str(n)] = tuple(talent * (1 - 0.5 ** (k + 1)) for k in range(7))
    drawn = epochs(runs, {name: f"k{int(name) % 12}" for name in runs}).with_columns(
        x_gain=(pl.col("q") - pl.col("q").shift(1).over("trace")).fill_null(pl.col("q"))
    )
    table = ot.stopping.evaluate(
        drawn, ["one_step", "oracle"], price=0.05, cost="tokens", features=["x_gain", "x_q"], n_boot=50
    )
    told = values(table)
    assert told["one_step"] >= told["oracle"] - 0.005


def test_export_is_valued_out_of_fold_and_has_no_positive_advantage() -> None:
    drawn, truth = ot.synthetic.stops(runs=300, seed=2)
    rows = ot.stopping.export(drawn, "lsm", price=truth.price)
    assert rows.height == drawn.height
    ends = rows.filter(action="stop")
    assert ends["continuation"].null_count() == ends.height == 300
    assert (rows["advantage_stop"] <= 0).all() and (rows["advantage_continue"].drop_nulls() <= 0).all()
    assert rows["potential"].equals(rows["value"].rename("potential"))
    for row in rows.drop_nulls("margin").head(50).iter_rows(named=True):
        assert row["value"] == max(row["payoff"], row["continuation"])
    with pytest.raises(ot.ParameterError, match="does not say what going on is worth"):
        ot.stopping.export(drawn, "fixed")


def test_frontier_spends_less_at_a_higher_price() -> None:
    drawn, _ = ot.synthetic.stops(runs=500, seed=3)
    curve = ot.stopping.frontier(drawn, ["fixed", "lsm"], prices=[0.0, 0.05, 0.2], n_boot=20)
    for _, of in curve.group_by("method", maintain_order=True):
        assert of["cost"].is_sorted(descending=True)
    with pytest.raises(ot.ParameterError, match="expected a list of numbers"):
        ot.stopping.frontier(drawn, prices=[])


def test_an_abort_pays_the_outcome_at_the_end_alone() -> None:
    runs = {str(n): (0.1, 0.1, float(n % 2)) for n in range(40)}
    drawn = epochs(runs).with_columns(x_q=pl.when(pl.col("k") == 3).then(0.0).otherwise(pl.col("y")), q=None)
    with pytest.raises(ot.SchemaError, match="no quality q"):
        ot.stopping.evaluate(drawn)
    table = ot.stopping.evaluate(
        drawn, ["recorded", "tvr"], problem="abort", price=0.2, features=["x_q"], n_boot=50
    )
    told = values(table)
    assert told["recorded"] == pytest.approx(0.5 - 0.6)
    # who will fail is known at once: a failed run stops at .2 instead of .6
    assert told["tvr"] == pytest.approx(0.5 * 0.4 - 0.5 * 0.2, abs=0.02)


def test_same_seed_same_bits() -> None:
    drawn, truth = ot.synthetic.stops(runs=120, seed=0)
    shuffled = drawn.sample(fraction=1.0, shuffle=True, seed=1)
    first, second = (ot.stopping.evaluate(one, price=truth.price, n_boot=50) for one in (drawn, shuffled))
    assert first.equals(second)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"methods": "lsm"}, "methods is 'lsm', expected a list of names"),
        ({"methods": ["lms"]}, "did you mean 'lsm'?"),
        ({"price": math.nan}, "price is nan"),
        ({"price": {"tokns": 1.0}}, "did you mean 'tokens'?"),
        ({"cost": "token"}, "did you mean 'tokens'?"),
        ({"features": ["x_p"]}, "unknown feature 'x_p'"),
        ({"features": ["trace_id"]}, "expected numbers"),
        ({"folds": 1}, "folds is 1, expected a whole number from 2"),
        ({"problem": "anwser"}, "did you mean 'answer'?"),
        ({"price": 1e308, "cost": "tokens"}, "beyond the range of a float"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    drawn = epochs(HAND).with_columns(pl.col("tokens") * 100)
    with pytest.raises(ot.OrchestraceError) as error:
        ot.stopping.evaluate(drawn, **options)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_no_run_is_a_table_without_values() -> None:
    table = ot.stopping.evaluate(epochs(HAND).head(0), ["fixed", "lsm"])
    assert table["value"].null_count() == 2 and set(table["reason"]) == {"support.absent"}
    assert ot.stopping.regret(epochs(HAND).head(0)).height == 0
    assert ot.stopping.export(epochs(HAND).head(0)).height == 0
    with pytest.raises(ot.ParameterError, match="no run to fit on"):
        ot.stopping.fit(epochs(HAND).head(0))


@pytest.mark.parametrize(
    ("option", "value"), [("runs", 0), ("deepest", 0), ("end", 1.0), ("runs_per_task", 0)]
)
def test_mistakes_about_planted_runs(option: str, value: Any) -> None:
    with pytest.raises(ot.ParameterError, match=option):
        ot.synthetic.stops(**{option: value})


def test_bits_do_not_depend_on_threads_of_blas() -> None:
    """Sums over so many rows are those that BLAS divides among threads."""
    code = """
import hashlib
import orchestrace as ot
epochs, truth = ot.synthetic.stops(25_000, seed=1)
rows = ot.stopping.export(epochs, "fqi", price=truth.price, folds=2)
print(hashlib.md5(rows["continuation"].fill_null(0.0).to_numpy().tobytes()).hexdigest())
"""
    said = []
    for threads in ("1", "4"):
        held = {name: threads for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        run = [sys.executable, "-c", code]
        said.append(subprocess.run(run, env=os.environ | held, capture_output=True, check=True).stdout)
    assert said[0] == said[1] != b""
