"""Agreement of two credits: against SciPy and plain loops, ties, nulls, intervals over tasks, refusals."""

import math
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import orchestrace as ot
from orchestrace.evaluation.rank_agreement import RANGES, statistics
from orchestrace.statistics import rankings
from orchestrace.statistics.influence import mean_interval


@pytest.fixture(scope="module")
def corpus():
    return ot.generate(traces=48, preset="mixed", seed=3)


def by_metric(table):
    return {row["metric"]: row for row in table.iter_rows(named=True)}


def random_segments(rng):
    sizes = rng.integers(1, 9, size=rng.integers(1, 7))
    segment = np.repeat(np.arange(sizes.size), sizes)
    a = rng.integers(-2, 4, size=segment.size).astype(float)
    b = rng.integers(-3, 3, size=segment.size).astype(float)
    return segment, a, b, rankings.segment_starts(segment)


def test_rank_correlations_are_those_of_scipy():
    rng = np.random.default_rng(0)
    defined = 0
    for _ in range(200):
        segment, a, b, starts = random_segments(rng)
        tau, rho = rankings.kendall(a, b, starts), rankings.spearman(a, b, starts)
        for i in range(starts.size):
            x, y = a[segment == i], b[segment == i]
            if len(set(x)) < 2 or len(set(y)) < 2:
                assert np.isnan(tau[i]) and np.isnan(rho[i])
                continue
            defined += 1
            assert tau[i] == pytest.approx(stats.kendalltau(x, y)[0], abs=1e-12)
            assert rho[i] == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)
    assert defined > 300


def test_kendall_of_one_long_ranking():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 500, 3000).astype(float), rng.normal(size=3000)
    (tau,) = rankings.kendall(a, b + a / 300, np.array([0]))
    assert tau == pytest.approx(stats.kendalltau(a, b + a / 300)[0], abs=1e-12)


def in_top(k, values, one):
    """The share of all cuts of k among equals that take one."""
    above, equal = sum(values > one), sum(values == one)
    return min(max((k - above) / equal, 0.0), 1.0)


def test_overlap_and_signs_by_plain_loops():
    rng = np.random.default_rng(2)
    for _ in range(100):
        segment, a, b, starts = random_segments(rng)
        overlap = rankings.top_overlap(a, b, starts, np.full(starts.size, 3))
        signs = rankings.sign_agreement(a, b, starts)
        for i in range(starts.size):
            x, y = a[segment == i], b[segment == i]
            counted = [(p, q) for p, q in zip(x, y, strict=True) if p or q]
            if counted:
                want = sum(np.sign(p) == np.sign(q) for p, q in counted) / len(counted)
                assert signs[i] == pytest.approx(want)
            else:
                assert np.isnan(signs[i])
            if len(x) <= 3:
                assert np.isnan(overlap[i])
                continue

            both = sum(min(in_top(3, x, p), in_top(3, y, q)) for p, q in zip(x, y, strict=True))
            assert overlap[i] == pytest.approx(both / 3)


def test_a_method_agrees_with_itself_and_with_its_reverse(corpus):
    flow = ot.credit(corpus, method="flow", unit="event")
    same = by_metric(ot.evaluation.agreement(corpus, flow, flow.sample(fraction=1.0, shuffle=True, seed=1)))
    # that tasks agree is no certainty: as many as that could differ, and not have been seen
    unseen = 1 - 0.025 ** (1 / same["kendall"]["n_tasks"])
    for metric, (least, most) in RANGES.items():
        row = same[metric]
        assert row["value"] == row["upper"] == 1.0 and least < row["lower"] < 1.0
        assert row["lower"] <= 1.0 - unseen * (most - least) + 1e-12  # of equal tasks it is that
    mirrored = by_metric(ot.evaluation.agreement(corpus, flow, flow.with_columns(-pl.col("credit"))))
    assert mirrored["kendall"]["value"] == mirrored["spearman"]["value"] == -1.0
    assert mirrored["sign_agreement"]["value"] == 0.0


def test_the_mean_over_traces_by_hand(corpus):
    a = ot.credit(corpus, method="flow", unit="agent")
    b = ot.credit(corpus, method="discounted", unit="agent")
    both = a.filter(pl.col("unit_id").is_not_null()).join(b, on=["trace", "unit_id"], suffix="_b")
    both = both.filter(pl.col("credit").is_not_null() & pl.col("credit_b").is_not_null())
    taus = []
    for _, own in both.group_by("trace"):
        tau = stats.kendalltau(own["credit"], own["credit_b"])[0] if own.height > 1 else float("nan")
        taus += [] if math.isnan(tau) else [tau]
    row = by_metric(ot.evaluation.agreement(corpus, a, b))["kendall"]
    assert row["value"] == pytest.approx(sum(taus) / len(taus))
    assert row["n_traces"] == len(taus) > 10
    assert row["lower"] < row["value"] < row["upper"]


def test_all_units_as_one_ranking(corpus):
    a = ot.credit(corpus, method="flow", unit="agent")
    b = ot.credit(corpus, method="discounted", unit="agent")
    both = a.join(b, on=["trace", "unit_id"], suffix="_b").drop_nulls(["credit", "credit_b", "unit_id"])
    table = by_metric(ot.evaluation.agreement(corpus, a, b, by="corpus", k=0.1, n_boot=30))
    assert table["kendall"]["value"] == pytest.approx(stats.kendalltau(both["credit"], both["credit_b"])[0])
    assert table["spearman"]["value"] == pytest.approx(stats.spearmanr(both["credit"], both["credit_b"])[0])
    assert table["kendall"]["lower"] < table["kendall"]["value"] < table["kendall"]["upper"]
    k = math.ceil(0.1 * both.height)
    ours = set(both.with_row_index().sort("credit", descending=True)["index"][:k])
    theirs = set(both.with_row_index().sort("credit_b", descending=True)["index"][:k])
    assert table["top_k_overlap"]["value"] == pytest.approx(len(ours & theirs) / k, abs=0.05)


def test_nulls_are_left_out_and_counted(corpus):
    a = ot.credit(corpus, method="uniform", unit="event")
    b = ot.credit(corpus, method="flow", unit="event")
    holes = b.with_columns(credit=pl.when(pl.int_range(pl.len()) % 3 > 0).then("credit"))
    table = ot.evaluation.agreement(corpus, b, holes.filter(pl.int_range(pl.len()) % 2 == 0))
    compared = holes.filter(pl.int_range(pl.len()) % 2 == 0)["credit"].count()
    assert table["n_rows"].unique().to_list() == [compared]
    assert table["n_null"].unique().to_list() == [b.height - compared]
    assert by_metric(table)["kendall"]["value"] == 1.0
    # equal credit ranks nothing
    constant = by_metric(ot.evaluation.agreement(corpus, a, b))
    assert (constant["kendall"]["value"], constant["kendall"]["n_traces"]) == (None, 0)
    empty = ot.evaluation.agreement(corpus, a.clear(), b.clear())
    assert empty["value"].to_list() == [None] * 4 and empty["n_rows"].to_list() == [0] * 4
    pooled = ot.evaluation.agreement(corpus, a.clear(), b.clear(), by="corpus")
    assert pooled.drop("value").equals(empty.drop("value")) and pooled["value"].null_count() == 4


def test_rollouts_of_one_task_are_one_draw():
    # four tasks, values equal within: the interval must be that of four numbers, however many rollouts
    values = np.array([0.0, 1.0, 2.0, 3.0])
    few = mean_interval(values, np.arange(4), confidence=0.95)
    many = mean_interval(np.repeat(values, 100), np.repeat(np.arange(4), 100), confidence=0.95)
    assert few.around[:3] == pytest.approx(many.around[:3])
    by_hand = stats.t.interval(0.95, 3, loc=1.5, scale=stats.sem(values))
    assert few.around[1:3] == pytest.approx(by_hand)


def test_intervals_are_those_of_means_over_tasks(corpus):
    a, b = (ot.credit(corpus, method=m, unit="agent") for m in ("flow", "discounted"))
    table = by_metric(ot.evaluation.agreement(corpus, a, b, k=1, confidence=0.9))
    rows = a.join(b, on=["trace", "unit_id"], suffix="_b").drop_nulls(["credit", "credit_b", "unit_id"])
    rows = rows.sort("trace", "unit_id")
    values = statistics(*(rows[name].to_numpy() for name in ("credit", "credit_b")), *_starts(rows), 1)  # type: ignore[call-arg]
    tasks = (
        rows.select("trace")
        .unique(maintain_order=True)
        .join(corpus.traces.collect(), on="trace", maintain_order="left")
    )
    task = tasks["task_id"].rank("dense").cast(pl.Int64).to_numpy()
    for metric, within in RANGES.items():
        mean = mean_interval(values[metric], task, confidence=0.9, within=within)
        row = table[metric]
        assert (row["value"], row["n_tasks"]) == (mean.estimate, mean.n_clusters)
        assert (row["lower"], row["upper"]) == (mean.around.lower, mean.around.upper)
        assert within[0] <= row["lower"] < row["value"] < row["upper"] <= within[1]


def _starts(rows):
    return [np.flatnonzero(np.diff(rows["trace"].to_numpy(), prepend=-1))]


def test_one_task_has_no_interval_and_says_so(corpus):
    task = corpus.traces.collect().filter(pl.col("task_id") == pl.col("task_id").first())
    alone = corpus.filter(pl.col("trace").is_in(task["trace"].implode()))
    a, b = (ot.credit(alone, method=m, unit="agent") for m in ("flow", "discounted"))
    table = ot.evaluation.agreement(alone, a, b, k=1)
    assert table["value"].null_count() == 0 and table["n_tasks"].unique().to_list() == [1]
    assert table["lower"].null_count() == table["upper"].null_count() == 4
    assert table["interval_reason"].to_list() == ["support.absent"] * 4
    runs = [ot.credit(corpus, method=m, unit="agent") for m in ("flow", "discounted")]
    both = ot.evaluation.agreement(corpus, *runs, k=1)
    assert both["interval_reason"].null_count() == 4 and both["lower"].null_count() == 0


def test_one_ranking_of_few_tasks_is_not_resampled(corpus):
    few = corpus.filter(pl.col("task_id").cast(pl.String).rank("dense") <= 3)
    a, b = (ot.credit(few, method=m, unit="agent") for m in ("flow", "discounted"))
    table = by_metric(ot.evaluation.agreement(few, a, b, by="corpus", k=0.1))
    assert {row["n_tasks"] for row in table.values()} == {3}
    signs = table.pop("sign_agreement")  # a mean of units: three tasks are enough
    assert (signs["interval_reason"], signs["lower"] < signs["value"] < signs["upper"]) == (None, True)
    for row in table.values():
        assert (row["lower"], row["upper"], row["interval_reason"]) == (None, None, "support.absent")
    same = by_metric(
        ot.evaluation.agreement(corpus, *[ot.credit(corpus, method="flow", unit="agent")] * 2, by="corpus")
    )
    assert same["kendall"]["interval_reason"] == "group.degenerate" and same["kendall"]["lower"] is None
    # every task agrees in all its signs: as much as tasks that differ could have been missed
    unseen = 0.025 ** (1 / same["sign_agreement"]["n_tasks"])
    assert 0.0 < same["sign_agreement"]["lower"] <= unseen  # of tasks with as many units it is that


def test_the_seed_decides(corpus):
    a, b = (ot.credit(corpus, method=m, unit="agent") for m in ("flow", "discounted"))
    options = {"by": "corpus", "n_boot": 50}
    first, again, other = (ot.evaluation.agreement(corpus, a, b, seed=s, **options) for s in (1, 1, 2))
    assert first.equals(again) and not first.equals(other)


def test_credits_on_disk_are_taken_too(corpus, tmp_path):
    a = ot.credit(corpus, method="flow", unit="agent", sink=tmp_path / "a")
    assert isinstance(a, pl.LazyFrame)
    assert ot.evaluation.agreement(corpus, a, a)["value"][0] == 1.0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop("unit_id"), "a has no column 'unit_id'"),
        (lambda f: pl.concat([f, f]), "two credits for unit"),
        (lambda f: pl.concat([f, f.with_columns(method=pl.lit("x").cast(pl.Categorical))]), "several values"),
        (lambda f: f.with_columns(unit=pl.lit("turn")), "a is at unit 'turn', b at 'agent'"),
        (lambda f: f.with_columns(trace=pl.lit("x")), "a.trace has type String, expected numbers"),
        (lambda f: f.with_columns(credit=pl.lit("x")), "a.credit has type String, expected numbers"),
        (lambda f: f.to_dict(), "a is a value of type dict, expected a frame"),
    ],
)
def test_what_is_refused(corpus, change, words):
    frame = ot.credit(corpus, method="flow", unit="agent")
    with pytest.raises(ot.ParameterError, match=words):
        ot.evaluation.agreement(corpus, change(frame), frame)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "task"}, "by is 'task', expected"),
        ({"k": 0}, "from 1"),
        ({"k": 1.5}, "a share"),
        ({"k": True}, "k is True"),
        ({"confidence": 1}, "between 0 and 1"),
        ({"n_boot": 0}, "n_boot is 0"),
    ],
)
def test_options_out_of_range(corpus, options, words):
    frame = ot.credit(corpus, method="flow", unit="agent")
    with pytest.raises(ot.ParameterError, match=words):
        ot.evaluation.agreement(corpus, frame, frame, **options)


def test_another_corpus_is_refused(corpus):
    frame = ot.credit(corpus, method="flow", unit="agent")
    with pytest.raises(ot.ParameterError, match="not in the corpus"):
        ot.evaluation.agreement(corpus.filter(pl.col("trace") < 3), frame, frame)


def test_pairs_are_counted_once_each():
    a, b = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 1.0, 4.0, 3.0])
    discordant = sum((p[0] - q[0]) * (p[1] - q[1]) < 0 for p, q in combinations(zip(a, b, strict=True), 2))
    assert rankings.kendall(a, b, np.array([0]))[0] == pytest.approx(1 - 2 * discordant / 6)
