"""Flow and faithfulness against NumPy, written from docs/reference/definitions.md (D3, D5, D12, D15)."""

import itertools
import math
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.errors import ParameterError

WEIGHTS = {
    "temporal": 0.2,
    "causal": 1.0,
    "spawn": 0.5,
    "message": 0.7,
    "tool_dependency": 0.9,
    "return": 1.0,
    "aggregate": 1.2,
    "safety_flow": 0.3,
}
EPSILON = 0.25
KERNELS = ("uniform", "edge_type", "time_decay", "lrp", "shapley_gate")


class Trace:
    """One trace by rows, with its merged edges and its outcome."""

    def __init__(self, events, edges, topology):
        self.n = len(events)
        self.t = [row["t"] for row in events]
        self.type = [row["type"] for row in events]
        self.score = [row["score"] for row in events]
        self.ok = [row["ok"] for row in events]
        self.topology = topology
        self.into = [defaultdict(float) for _ in events]
        for row in edges:
            self.into[row["dst"]][row["src"]] += WEIGHTS[row["type"]]
        self.sinks = sorted(set(range(self.n)) - {u for row in self.into for u in row})
        self.order = self._order()
        canonical = sorted(range(self.n), key=lambda v: (self.t[v], v))
        first = [v for kind in ("orchestrator_decision", "spawn") for v in canonical if self.type[v] == kind]
        root = events[first[0]]["agent"] if first else None
        self.y = None
        own = [v for v in canonical if self.type[v] in ("aggregate", "return") and events[v]["agent"] == root]
        aggregates = [v for v in canonical if self.type[v] == "aggregate"]
        home = [v for v in canonical if self.type[v] == "return" and events[v]["to"] in (root, "user")]
        for rows in (own, aggregates, home):
            if rows:
                self.y = rows[-1]
                break

    def _order(self):
        order, done = [], set()

        def visit(v):
            if v not in done:
                done.add(v)
                for u in self.into[v]:
                    visit(u)
                order.append(v)

        for v in range(self.n):
            visit(v)
        return order

    def w(self, v):
        total = sum(self.into[v].values())
        return {u: 1 - EPSILON ** (weight / total) for u, weight in self.into[v].items()}

    def observed(self):
        x = [0.0] * self.n
        for v in self.order:
            x[v] = gate("noisy_or", self, v, x) if self.score[v] is None else self.score[v]
        return x

    def value(self, present, model):
        x = [0.0] * self.n
        for v in self.order:
            x[v] = gate(model, self, v, x) if v in present else 0.0
        if self.y is not None:
            return x[self.y]
        w = 1 - EPSILON ** (1 / len(self.sinks))
        return (1 - math.prod(1 - w * x[v] for v in self.sinks)) / (1 - EPSILON)


def gate(model, trace, v, x):
    kind = trace.type[v]
    if model == "typed" and kind == "safety_event" and trace.ok[v] is False:
        return 0.0
    inputs = trace.into[v]
    if not inputs:
        return 1.0
    if model == "typed":
        if kind in ("tool_result", "return"):
            return math.prod(x[u] for u in inputs)
        if kind == "safety_event":
            return min(x[u] for u in inputs)
        if kind == "aggregate" and trace.topology == "debate":
            yes = sum(weight for u, weight in inputs.items() if x[u] >= 0.5)
            return float(yes > sum(inputs.values()) / 2)
        if kind == "aggregate":
            return max(x[u] for u in inputs)
    return (1 - math.prod(1 - w * x[u] for u, w in trace.w(v).items())) / (1 - EPSILON)


def shapley(z):
    """Shapley values of 1 - prod(1 - z): over all coalitions, or by the integral along the diagonal."""
    k = len(z)
    if k > 10:
        values = []
        for i in range(k):
            others = np.poly1d([1.0])
            for j in range(k):
                others = others if j == i else others * np.poly1d([-z[j], 1.0])
            values.append(z[i] * others.integ()(1.0))
        return values
    values = [0.0] * k
    for size in range(k):
        share = math.factorial(size) * math.factorial(k - size - 1) / math.factorial(k)
        for i in range(k):
            for others in itertools.combinations([j for j in range(k) if j != i], size):
                values[i] += share * z[i] * math.prod(1 - z[j] for j in others)
    return values


def parts(trace, v, kernel, x):
    """What each predecessor of v is weighed by."""
    rows = list(trace.into[v])
    if kernel == "uniform":
        return rows, [1.0] * len(rows)
    if kernel == "edge_type":
        return rows, [trace.into[v][u] for u in rows]
    if kernel == "time_decay":
        tau = (max(trace.t) - min(trace.t)) / 10
        if tau == 0:
            return rows, [1.0] * len(rows)
        gaps = [max(0.0, trace.t[v] - trace.t[u]) for u in rows]
        return rows, [math.exp((min(gaps, default=0.0) - gap) / tau) for gap in gaps]
    z = [trace.w(v)[u] * x[u] for u in rows]
    return rows, z if kernel == "lrp" else [abs(value) for value in shapley(z)]


def flow(trace, reward, kernel, retention, epsilon=0.0, gamma=1.0):
    """What each event receives, and what it keeps."""
    c, kept = np.zeros(trace.n), np.zeros(trace.n)
    if trace.y is None:
        c[trace.sinks] = reward / len(trace.sinks)
    else:
        c[trace.y] = reward
    x = trace.observed() if kernel in ("lrp", "shapley_gate") else None
    for v in reversed(trace.order):
        rows, weights = parts(trace, v, kernel, x)
        total = sum(weights)
        sent = (1 - retention) * total / (total + epsilon) if total > 0 else 0.0
        kept[v] = (1 - sent) * c[v]
        for u, weight in zip(rows, weights, strict=True):
            if sent:
                c[u] += gamma * sent * c[v] * weight / total
    return c, kept


def scored(seed):
    """A corpus with a quality on two of three events; nothing on the others."""
    corpus = ot.generate(traces=12, seed=seed)
    keys = corpus.events.select("trace", "seq").collect()
    rng = np.random.default_rng(seed)
    some = keys.filter(pl.Series(rng.random(keys.height) < 2 / 3))
    return corpus.with_fields(some.with_columns(score=pl.Series(rng.random(some.height))))


def traces(corpus):
    words = ["type", "agent", "to"]
    columns = ["trace", "t", "type", "agent", "to", "score", "ok"]
    events = corpus.events.select(columns).with_columns(pl.col(words).cast(pl.String)).collect()
    edges = corpus.edges.select("trace", "src", "dst", pl.col("type").cast(pl.String)).collect()
    for trace, topology in corpus.traces.select("trace", pl.col("topology").cast(pl.String)).collect().rows():
        own = [frame.filter(pl.col("trace") == trace).to_dicts() for frame in (events, edges)]
        yield trace, Trace(*own, topology)  # type: ignore[call-arg]


def rewards(corpus):
    team = corpus.measures.filter(
        pl.col("kind").cast(pl.String) == "reward", pl.col("name").cast(pl.String) == "team"
    )
    return dict(team.select("trace", "value").collect().rows())


@pytest.fixture(scope="module", params=[0, 1, 2])
def corpus(request):
    return scored(request.param)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("retention", "epsilon"), [(0.1, 0.0), (0.0, 0.3)])
def test_flow_is_the_reference(corpus, kernel, retention, epsilon):
    paid = rewards(corpus)
    options = {"kernel": kernel, "retention": retention, "epsilon": epsilon}
    kept = ot.credit(corpus, method="flow", **options)
    received = ot.credit(corpus, method="flow_discounted", gamma=0.9, **options)
    seen = 0
    for number, trace in traces(corpus):
        own = kept.filter(pl.col("trace") == number, pl.col("seq").is_not_null())["credit"]
        back = received.filter(pl.col("trace") == number, pl.col("seq").is_not_null())["credit"]
        if number not in paid:
            assert own.null_count() == len(own) == back.null_count()
            continue
        seen += trace.n
        used = epsilon if kernel == "lrp" else 0.0
        _, want = flow(trace, paid[number], kernel, retention, used)
        np.testing.assert_allclose(own.to_numpy(), want, rtol=1e-9, atol=1e-12)
        want, _ = flow(trace, paid[number], kernel, retention, used, gamma=0.9)
        np.testing.assert_allclose(back.to_numpy(), want, rtol=1e-9, atol=1e-12)
    assert seen > 100


@pytest.mark.parametrize("kernel", ["lrp", "shapley_gate"])
def test_shares_sum_to_the_reward(corpus, kernel):
    paid = rewards(corpus)
    for unit in ("event", "turn", "agent", "role", "team", "message"):
        rows = ot.credit(corpus, method="flow", kernel=kernel, epsilon=0.2, unit=unit)
        sums = dict(rows.drop_nulls("credit").group_by("trace").agg(pl.col("credit").sum()).rows())
        assert sums.keys() == paid.keys()
        for trace, total in sums.items():
            assert total == pytest.approx(paid[trace], abs=1e-9)


def some_credit(corpus, seed=0):
    keys = corpus.events.select("trace", "seq").collect()
    values = np.random.default_rng(seed).random(keys.height)
    return keys.with_columns(credit=pl.Series(values), method=pl.lit("mine"))


@pytest.mark.parametrize("outcome", ["noisy_or", "typed"])
@pytest.mark.parametrize("steps", [1, 7, 20, 50])
def test_curves_are_the_reference(corpus, outcome, steps):
    credits = some_credit(corpus)
    table = ot.evaluation.faithfulness(corpus, credits, outcome=outcome, steps=steps, orders=2)
    assert table["trace"].to_list() == corpus.traces.collect()["trace"].to_list()
    for (number, trace), row in zip(traces(corpus), table.iter_rows(named=True), strict=True):
        credit = credits.filter(pl.col("trace") == number)["credit"].to_numpy()
        ranked = np.argsort(-credit, kind="stable")
        cuts = [k * trace.n // steps for k in range(steps + 1)]
        for name, sets in (
            ("deletion", [ranked[k:] for k in cuts]),
            ("insertion", [ranked[:k] for k in cuts]),
        ):
            curve = np.array([trace.value(set(there.tolist()), outcome) for there in sets])
            want = ((curve[:-1] + curve[1:]) / 2).mean()
            assert row[name] == pytest.approx(want, abs=1e-9), (number, name)
        gap = (row["deletion_random"] - row["deletion"] + row["insertion"] - row["insertion_random"]) / 2
        assert row["gap"] == pytest.approx(gap, abs=1e-12)


def test_methods_are_told_apart_and_chance_is_shared(corpus):
    credits = pl.concat(ot.credit(corpus, method="flow", kernel=kernel) for kernel in ("uniform", "lrp"))
    table = ot.evaluation.faithfulness(corpus, credits)
    assert table["method"].unique(maintain_order=True).to_list() == [
        "flow(kernel=uniform)",
        "flow(kernel=lrp)",
    ]
    left, right = table.partition_by("method", maintain_order=True)
    assert left["deletion_random"].equals(right["deletion_random"])
    assert left["gap"].drop_nulls().mean() > 0


def test_equal_credit_has_no_gap(corpus):
    table = ot.evaluation.faithfulness(corpus, some_credit(corpus).with_columns(credit=pl.lit(0.5)))
    assert set(table["gap"]) == {0.0}


def test_what_has_no_credit_is_null_with_the_reason(corpus):
    credits = some_credit(corpus).with_columns(reason=pl.lit(None, pl.String))
    first, second, third = credits["trace"].unique().sort()[:3]
    here = pl.col("trace")
    gone = here.eq(first) & pl.col("seq").eq(0)
    null = (here == second) | gone
    changed = credits.filter(~(here.eq(third) & pl.col("seq").eq(0))).with_columns(
        credit=pl.when(null).then(None).otherwise("credit"),
        reason=pl.when(here == second).then(pl.lit("reward.absent")).when(gone).then(pl.lit("unit.none")),
    )
    rows = {row["trace"]: row for row in ot.evaluation.faithfulness(corpus, changed).iter_rows(named=True)}
    # an event without a value of its own is the last; one without a row, or without a reward, has no curve
    assert rows[first]["deletion"] is not None and rows[first]["reason"] is None
    assert (rows[second]["gap"], rows[second]["reason"]) == (None, "reward.absent")
    assert (rows[third]["gap"], rows[third]["reason"]) == (None, "field.absent")
    lowest = credits.with_columns(credit=pl.when(gone).then(-1.0).otherwise("credit"))
    assert rows[first]["deletion"] == ot.evaluation.faithfulness(corpus, lowest)["deletion"][0]
    none = credits.with_columns(credit=pl.lit(None, pl.Float64), reason=pl.lit("unit.none"))
    assert set(ot.evaluation.faithfulness(corpus, none)["reason"]) == {"unit.none"}


def test_mistakes_are_told(corpus):
    credits = some_credit(corpus)
    for frame, message in [
        (credits.drop("seq"), "no column 'seq'"),
        (credits.with_columns(unit=pl.lit("agent")), "unit='event'"),
        (pl.concat([credits, credits.head(1)]), "two credits of method 'mine'"),
        (credits.with_columns(trace=pl.col("trace") + 10**6), "no trace of the credits is in the corpus"),
    ]:
        with pytest.raises(ParameterError, match=message):
            ot.evaluation.faithfulness(corpus, frame)
    for options, message in [
        ({"outcome": "noisyor"}, "did you mean 'noisy_or'"),
        ({"steps": 0}, "steps is 0, expected a whole number from 1 to 10,000"),
        ({"orders": 1.5}, "orders is 1.5, expected a whole number"),
    ]:
        with pytest.raises(ParameterError, match=message):
            ot.evaluation.faithfulness(corpus, credits, **options)
    assert ot.evaluation.faithfulness(corpus, credits.clear()).is_empty()
