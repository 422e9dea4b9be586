"""What k attempts give: all orders of few attempts one by one, intervals of the reference, planted truth."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import orchestrace as ot
from reference.intervals import score, student
from samples.examples import examples

Outcomes = Mapping[str, Sequence[float | None]]
"""What each attempt at a task earned; None was never judged."""
INTERVAL = ("value", "lower", "upper")


def corpus_of(
    earned: Outcomes, costs: Mapping[str, Sequence[float | None]] | None = None, groups: int = 1
) -> ot.Corpus:
    """A run of one event per attempt; so many groups of each task, of neighbours."""
    rows = [(task, at, paid) for task, each in earned.items() for at, paid in enumerate(each)]
    size = {task: max(1, math.ceil(len(each) / groups)) for task, each in earned.items()}
    traces = pl.DataFrame(
        {
            "trace": range(len(rows)),
            "trace_id": [f"{task} {at}" for task, at, _ in rows],
            "task_id": [task for task, _, _ in rows],
            "group_id": [f"{task} {at // size[task]}" for task, at, _ in rows],
        }
    )
    spent = [None if costs is None else costs[task][at] for task, at, _ in rows]
    events = traces.select(
        "trace", id=pl.lit("e0"), t=pl.lit(0.0), type=pl.lit("message"), agent=pl.lit("solo")
    ).with_columns(cost_usd=pl.Series(spent, dtype=pl.Float64))
    paid = [(at, value) for at, (_, _, value) in enumerate(rows) if value is not None]
    measures = pl.DataFrame(
        {
            "trace": [at for at, _ in paid],
            "kind": "reward",
            "name": "team",
            "value": [value for _, value in paid],
        },
        schema={"trace": pl.Int64, "kind": pl.String, "name": pl.String, "value": pl.Float64},
    )
    return ot.Corpus.from_arrow(traces=traces, events=events, measures=measures)


def rows_of(table: pl.DataFrame) -> dict[tuple[str, int | None], dict[str, Any]]:
    return {(row["metric"], row["k"]): row for row in table.iter_rows(named=True)}


def drawn(rng: np.random.Generator, tasks: int, n: int, rates: Any = None) -> dict[str, list[float | None]]:
    """n attempts at each task, whose rates are beta(2, 2) unless given."""
    rates = rng.beta(2, 2, tasks) if rates is None else rates
    right = (rng.random((tasks, n)) < np.asarray(rates)[:, None]).astype(float)
    return {f"t{at:04}": row.tolist() for at, row in enumerate(right)}


outcomes = st.dictionaries(
    st.sampled_from("abcdefg"), st.lists(st.sampled_from([0.0, 0.4, 1.0, None]), min_size=1, max_size=5)
)


def over_orders(judged: list[tuple[bool, float]], k: int) -> dict[str, float]:
    """Means over all orders of the attempts of what the first k of them give: of passes and costs."""
    orders = [order[:k] for order in itertools.permutations(judged)]
    ended = []
    for order in orders:
        passes = [at for at, (passed, _) in enumerate(order) if passed]
        ended.append(order[: passes[0] + 1] if passes else order)
    mean = lambda values: float(np.mean(list(values)))  # noqa: E731
    rate = mean(any(passed for passed, _ in order) for order in orders)
    return {
        "pass_any": rate,
        "pass_all": mean(all(passed for passed, _ in order) for order in orders),
        "without_signal": mean(len({passed for passed, _ in order}) == 1 for order in orders),
        "attempts_until_pass": mean(len(order) for order in ended),
        "gain_all_paid": 5.0 * rate - mean(sum(cost for _, cost in order) for order in orders),
        "gain_until_pass": 5.0 * rate - mean(sum(cost for _, cost in order) for order in ended),
    }


@examples(120)
@given(outcomes, st.integers(0, 2**32))
def test_numbers_are_means_over_all_orders_of_the_attempts(earned: Outcomes, seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs = {task: rng.uniform(0.0, 2.0, len(each)).tolist() for task, each in earned.items()}
    judged = {
        task: [
            (one >= 1.0, cost) for one, cost in zip(earned[task], costs[task], strict=True) if one is not None
        ]
        for task in sorted(earned)
    }
    judged = {task: each for task, each in judged.items() if each}
    if not judged:
        return  # below
    rows = rows_of(ot.evaluation.attempts(corpus_of(earned, costs), worth=5.0, confidence=0.9))
    for k in range(1, max(map(len, judged.values())) + 1):
        orders = [over_orders(each, k) for each in judged.values() if len(each) >= k]
        for metric in orders[0]:
            row = rows[metric, k]
            values = np.array([of[metric] for of in orders])
            assert row["value"] == pytest.approx(values.mean(), abs=1e-12)
            assert (row["n_tasks"], row["few_tasks"]) == (len(orders), len(orders) < 0.8 * len(judged))
            if len(orders) < 2:
                assert (row["lower"], row["interval_reason"]) == (
                    (1.0, None) if (metric, k) == ("attempts_until_pass", 1) else (None, "support.absent")
                )
            elif metric.startswith("pass") or metric == "without_signal":
                expected = score(values, np.arange(len(values)), 0.9)
                assert (row["lower"], row["upper"]) == pytest.approx(expected, abs=1e-9)
            elif metric.startswith("gain") and np.ptp(values) > 1e-9:
                expected = student(values, np.arange(len(values)), 0.9)
                assert (row["lower"], row["upper"]) == pytest.approx(expected, abs=1e-9)
            elif metric == "attempts_until_pass" and k > 1:
                low, high = score((values - 1.0) / (k - 1.0), np.arange(len(values)), 0.9)
                ends = (1.0 + low * (k - 1.0), 1.0 + high * (k - 1.0))
                assert (row["lower"], row["upper"]) == pytest.approx(ends, abs=1e-9)
    rates = ot.evaluation.pass_rates(corpus_of(earned))
    for of in rates.iter_rows(named=True):
        assert rows["pass_any", of["k"]]["value"] == pytest.approx(of["pass_any"])
        assert rows["pass_all", of["k"]]["value"] == pytest.approx(of["pass_all"])
    means = [
        np.mean([one for one in each if one is not None]) for each in earned.values() if any_judged(each)
    ]
    assert rows["mean_reward", None]["value"] == pytest.approx(np.mean(means))
    shares = [each.count(None) / len(each) for each in map(list, earned.values())]
    assert rows["broken", None]["value"] == pytest.approx(np.mean(shares))
    degenerate = [len({passed for passed, _ in each}) == 1 for each in judged.values()]
    assert rows["without_signal", None]["value"] == pytest.approx(np.mean(degenerate))


def any_judged(each: Sequence[float | None]) -> bool:
    return any(one is not None for one in each)


def test_two_passes_of_five() -> None:
    table = ot.evaluation.attempts(corpus_of({"t": [1.0, 0.0, 1.0, 0.0, 0.0]}))
    rows = rows_of(table)
    assert [rows["pass_any", k]["value"] for k in (1, 2, 3)] == pytest.approx([0.4, 0.7, 0.9])
    assert [rows["pass_all", k]["value"] for k in (1, 2, 3)] == pytest.approx([0.4, 0.1, 0.0])
    assert rows["without_signal", 2]["value"] == pytest.approx(0.4)
    assert table["interval_reason"].drop_nulls().unique().to_list() == ["support.absent"]


@examples(60)
@given(outcomes)
def test_bounds_are_what_broken_attempts_could_have_been(earned: Outcomes) -> None:
    rows = rows_of(ot.evaluation.attempts(corpus_of(earned), k=[1, 2, 3])) if judged_somewhere(earned) else {}
    for side, amount in (("lowest", 0.0), ("highest", 1.0)):
        instead = {task: [amount if one is None else one for one in each] for task, each in earned.items()}
        if not rows:
            continue
        of = rows_of(ot.evaluation.attempts(corpus_of(instead), k=[1, 2, 3]))
        for metric in ("pass_any", "pass_all"):
            for k in (1, 2, 3):
                assert rows[metric, k][side] == pytest.approx(of[metric, k]["value"])
    if rows:
        row = rows["pass_any", 1]
        assert row["lowest"] - 1e-12 <= row["value"] <= row["highest"] + 1e-12


def judged_somewhere(earned: Outcomes) -> bool:
    return any(map(any_judged, earned.values()))


def test_a_harness_that_breaks_on_hard_tasks_cannot_hide_it() -> None:
    """A rate of 0.9 among those judged; the bounds hold the 0.5 of all attempts."""
    easy = {f"easy {at}": [1.0] * 9 + [0.0] for at in range(5)}
    hard = {f"hard {at}": [0.0] + [None] * 9 for at in range(5)}
    hidden = {task: [None] * 10 for task in hard}
    for broken in (hard, hidden):
        row = rows_of(ot.evaluation.attempts(corpus_of(easy | broken), k=1))["pass_any", 1]
        assert row["lowest"] <= 0.45 <= row["highest"]
    assert row["value"] == pytest.approx(0.9)
    assert (row["n_tasks"], row["lowest"], row["highest"]) == (5, pytest.approx(0.45), pytest.approx(0.95))


def test_pass_any_rises_pass_all_falls_and_order_changes_nothing() -> None:
    earned = drawn(np.random.default_rng(3), 12, 6)
    table = ot.evaluation.attempts(corpus_of(earned), worth=1.0, cost=0.1)
    of = lambda metric: table.filter(pl.col("metric") == metric, pl.col("k").is_not_null())["value"]  # noqa: E731
    assert of("pass_any").is_sorted() and of("pass_all").is_sorted(descending=True)
    assert of("without_signal").is_sorted(descending=True) and of("attempts_until_pass").is_sorted()
    assert of("detectable_difference").is_sorted(descending=True) and of("tasks_needed").len() == 6
    passes = [sum(one or 0.0 for one in each) for each in earned.values()]
    assert of("pass_any")[-1] == pytest.approx(np.mean([c > 0 for c in passes]))
    assert of("pass_all")[-1] == pytest.approx(np.mean([c == 6 for c in passes]))
    turned = {task: list(reversed(earned[task])) for task in reversed(list(earned))}
    assert ot.evaluation.attempts(corpus_of(turned), worth=1.0, cost=0.1).equals(table)


def test_more_tasks_narrow_and_more_of_the_same_attempts_do_not() -> None:
    earned = drawn(np.random.default_rng(4), 8, 4)
    usual = rows_of(ot.evaluation.attempts(corpus_of(earned)))["pass_any", 1]
    twice = {task: [*each, *each] for task, each in earned.items()}
    longer = rows_of(ot.evaluation.attempts(corpus_of(twice)))["pass_any", 1]
    assert [longer[name] for name in INTERVAL] == pytest.approx([usual[name] for name in INTERVAL])
    renamed = earned | {f"again {task}": each for task, each in earned.items()}
    wider = rows_of(ot.evaluation.attempts(corpus_of(renamed)))["pass_any", 1]
    assert wider["value"] == pytest.approx(usual["value"])
    assert wider["upper"] - wider["lower"] < 0.75 * (usual["upper"] - usual["lower"])


@pytest.mark.statistical
@pytest.mark.parametrize(("tasks", "rate"), [(10, 0.879), (25, 0.926), (5, 0.817)])
def test_intervals_cover_the_rate_of_all_tasks(tasks: int, rate: float) -> None:
    """1 - (1 - p)**4 is 6/7 on average over beta(2, 2), where most tasks are near 1 and few are not.

    The rates are those of 6,000 samples of `mean_interval`; docs/how-to/pass-at-k.md names them.
    """
    rng, hits = np.random.default_rng(tasks), 0
    for _ in range(400):
        row = rows_of(ot.evaluation.attempts(corpus_of(drawn(rng, tasks, 8)), k=4))["pass_any", 4]
        hits += row["lower"] <= 6 / 7 <= row["upper"]
    low, high = stats.binom.ppf([0.0005, 0.9995], 400, rate)  # 999 times in 1000
    assert low <= hits <= high


def test_the_best_k_is_judged_by_the_choice_of_other_tasks() -> None:
    rng = np.random.default_rng(1)
    earned = drawn(rng, 15, 6) | {"few": [1.0, 0.0]}
    signal, worth, cost = 0.6, 1.0, 0.08
    table = ot.evaluation.attempts(corpus_of(earned), signal=signal, worth=worth, cost=cost)
    best = table.filter(pl.col("metric").str.starts_with("best_"))
    assert best["metric"].to_list() == ["best_for_signal", "best_all_paid", "best_until_pass"]
    each = {
        task: [over_orders([(one == 1.0, cost) for one in outcome], k) for k in range(1, len(outcome) + 1)]
        for task, outcome in earned.items()
    }
    values = {
        "best_for_signal": lambda of: 1.0 - of["without_signal"],
        "best_all_paid": lambda of: of["pass_any"] - cost * of["k"],
        "best_until_pass": lambda of: of["pass_any"] - cost * of["attempts_until_pass"],
    }
    for row in best.iter_rows(named=True):
        value = values[row["metric"]]
        table_of = {
            task: [value(of | {"k": k}) for k, of in enumerate(orders, 1)] for task, orders in each.items()
        }

        def chosen(names: list[str], table_of: Any = table_of, metric: str = row["metric"]) -> int:
            means = [
                np.mean([table_of[name][k] for name in names if len(table_of[name]) > k]) for k in range(6)
            ]
            if metric == "best_for_signal":
                return next(k for k, mean in enumerate(means) if mean >= signal)
            return next(k for k, mean in enumerate(means) if mean >= max(means) - 1e-12)

        out = [
            table_of[name][k]
            for name in table_of
            if len(table_of[name]) > (k := chosen([other for other in table_of if other != name]))
        ]
        assert row["k"] == chosen(list(table_of)) + 1
        assert (row["value"], row["n_tasks"]) == (pytest.approx(np.mean(out)), len(out))
        assert row["lower"] < row["value"] < row["upper"]


def test_no_k_is_recommended_that_few_tasks_reach() -> None:
    """Two easy tasks of ten have six attempts: what k = 6 gains is of these alone."""
    earned = {f"hard {at}": [1.0, 0.0] if at < 2 else [0.0, 0.0] for at in range(8)}
    easy = {f"easy {at}": [1.0, 1.0, 1.0, 0.0, 0.0, 0.0] for at in range(2)}
    table = ot.evaluation.attempts(corpus_of(earned | easy), worth=1.0, cost=0.001, signal=0.3)
    rows = rows_of(table)
    assert rows["gain_all_paid", 6]["value"] > rows["gain_all_paid", 2]["value"]
    assert (rows["gain_all_paid", 6]["few_tasks"], rows["gain_all_paid", 2]["few_tasks"]) == (True, False)
    best = table.filter(pl.col("metric").str.starts_with("best_")).select("metric", "k").rows()
    assert best == [("best_for_signal", 2), ("best_all_paid", 2), ("best_until_pass", 2)]


@pytest.mark.statistical
def test_the_gain_of_the_best_k_is_not_the_largest_of_several_by_chance() -> None:
    """All rates are 1/2, and k = 1 and 2 gain the same: the larger estimate is too large on average."""
    rng, best, largest = np.random.default_rng(0), [], []
    for _ in range(300):
        table = ot.evaluation.attempts(
            corpus_of(drawn(rng, 6, 2, np.full(6, 0.5))), k=[1, 2], worth=1.0, cost=0.25
        )
        rows = rows_of(table)
        best.append(table.filter(pl.col("metric") == "best_all_paid")["value"].item())
        largest.append(max(rows["gain_all_paid", k]["value"] for k in (1, 2)))
    error = np.std(best) / math.sqrt(300)
    assert np.mean(best) <= 0.25 + 3 * error
    assert np.mean(largest) > 0.25 + 3 * np.std(largest) / math.sqrt(300)


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_the_detectable_difference_is_that_of_its_variance(k: int, correlation: float) -> None:
    earned = drawn(np.random.default_rng(7), 20, 4) | {"one": [1.0], "two": [0.0, 1.0], "none": [None]}
    table = ot.evaluation.attempts(
        corpus_of(earned), k=k, correlation=correlation, difference=0.1, power=0.9, alpha=0.01
    )
    rows = rows_of(table)
    judged = [each for each in earned.values() if any_judged(each)]
    rates = [np.mean(np.array(each, dtype=float)) for each in judged]
    within = np.mean([np.var(np.array(each, dtype=float), ddof=1) for each in judged if len(each) > 1])
    noise = [
        np.var(np.array(each, dtype=float), ddof=1) / len(each) if len(each) > 1 else within
        for each in judged
    ]
    between = max(0.0, np.var(rates, ddof=1) - np.mean(noise))
    deviation = math.sqrt(2 * (1 - correlation) * between + 2 * within / k)

    def power(difference: float, tasks: int) -> float:
        at, critical = difference * math.sqrt(tasks) / deviation, stats.t.ppf(0.995, tasks - 1)
        return float(stats.nct.sf(critical, tasks - 1, at) + stats.nct.cdf(-critical, tasks - 1, at))

    row = rows["detectable_difference", k]
    assert row["n_tasks"] == 22 and power(row["value"], 22) == pytest.approx(0.9, abs=1e-6)
    needed = int(rows["tasks_needed", k]["value"])
    assert power(0.1, needed - 1) < 0.9 <= power(0.1, needed)


@pytest.mark.statistical
def test_comparisons_of_the_tasks_needed_find_the_difference() -> None:
    """Two systems, one with rates beta(2, 2), one 0.1 above on average: planned from one, tested on both."""
    rng = np.random.default_rng(5)
    rows = rows_of(ot.evaluation.attempts(corpus_of(drawn(rng, 1500, 4)), k=4, difference=0.1))
    tasks = int(rows["tasks_needed", 4]["value"])
    rates = rng.beta(2.0, 2.0, (4000, tasks)), rng.beta(2.4, 1.6, (4000, tasks))
    found = (stats.ttest_rel(*(rng.binomial(4, of) / 4 for of in rates), axis=1).pvalue < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.03)


def test_groups_of_one_task_count_as_one_in_intervals() -> None:
    earned = drawn(np.random.default_rng(6), 6, 8)
    rows = rows_of(ot.evaluation.attempts(corpus_of(earned, groups=2), by="group", k=2))
    halves = [half for each in earned.values() for half in (each[:4], each[4:])]
    values = np.array([1 - math.comb(half.count(0.0), 2) / 6 for half in halves])
    row = rows["pass_any", 2]
    assert row["n_tasks"] == 12
    assert [row[name] for name in INTERVAL] == pytest.approx(
        [values.mean(), *score(values, np.arange(12) // 2, 0.95)]
    )
    assert rows["detectable_difference", 2]["reason"] == "support.absent"
    whole = rows_of(ot.evaluation.attempts(corpus_of(earned), by="group", k=2))
    assert whole["detectable_difference", 2]["value"] > 0


def test_what_recordings_cannot_say_is_null_with_a_reason() -> None:
    single = ot.evaluation.attempts(corpus_of(drawn(np.random.default_rng(8), 9, 1)), k=[1, 2], worth=1.0)
    rows = rows_of(single)
    rate = rows["pass_any", 1]["value"]
    spread = math.sqrt(2 * rate * (1 - rate) * 9 / 8)  # of 0 and 1, ddof 1
    factor = rows["detectable_difference", 1]["value"] * 3 / spread
    assert factor == pytest.approx(3.2, abs=0.05)
    assert rows["detectable_difference", 2]["reason"] == rows["pass_any", 2]["reason"] == "support.absent"
    assert rows["gain_all_paid", 1]["reason"] == rows["best_all_paid", None]["reason"] == "field.absent"
    assert rows["best_for_signal", None]["reason"] == "support.absent"
    same = rows_of(ot.evaluation.attempts(corpus_of({"a": [1.0, 1.0], "b": [1.0, 1.0]})))
    assert (
        same["tasks_needed", 1]["reason"] == same["detectable_difference", 2]["reason"] == "group.degenerate"
    )
    # no run has both channels
    apart = corpus_of({"a": [None], "b": [1.0]})
    apart = apart.with_measures(pl.DataFrame({"trace": [0], "tool": [1.0]}))
    unjudged = ot.evaluation.attempts(apart, reward={"team": 0.5, "tool": 0.5})
    by_metric = {row["metric"]: row for row in unjudged.iter_rows(named=True)}
    assert by_metric.pop("broken")["value"] == 1.0
    assert (by_metric["pass_any"]["lowest"], by_metric["pass_any"]["highest"]) == (0.0, 1.0)
    assert {row["reason"] for row in by_metric.values()} == {"reward.absent"}
    assert {row["value"] for row in by_metric.values()} == {None}
    huge = rows_of(ot.evaluation.attempts(corpus_of({"a": [1.0], "b": [0.0]}), worth=1e308, cost=1.7e308))
    gain = huge["gain_all_paid", 1]
    assert (gain["value"], gain["lower"], gain["reason"]) == (None, None, "result.range")
    assert ot.evaluation.attempts(corpus_of({"a": [1.0]}), k=[3, 1, 3])["k"].drop_nulls().unique().len() == 2


def test_costs_that_only_some_attempts_have() -> None:
    """Of a, the pass has a cost; of b, only the failure, which its pass cannot be priced by."""
    earned = {"a": [1.0, 1.0], "b": [1.0, 0.0]}
    costs: dict[str, list[float | None]] = {"a": [0.5, None], "b": [None, 0.25]}
    row = rows_of(ot.evaluation.attempts(corpus_of(earned, costs), worth=1.0, k=1))["gain_all_paid", 1]
    assert (row["value"], row["n_tasks"], row["few_tasks"]) == (0.5, 1, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cost": 1.0}, "cost is 1.0, expected None without worth: give what a solved task is worth"),
        ({"power": 0.05}, "power is 0.05, expected a number above alpha, which is 0.05"),
        ({"k": 2**40}, "k is 1099511627776, expected at most 4,294,967,295"),
        ({"k": 0}, "k is 0, expected whole numbers above 0"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=f"^{message}$"):
        ot.evaluation.attempts(corpus_of({"a": [1.0]}), **options)
