"""Outcome models fitted to planted recordings: what is recovered, how surely, and what is not told."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls

import orchestrace as ot
from orchestrace import _core
from orchestrace.outcomes.weight_estimation import Observations, Task, estimate, interval
from orchestrace.statistics.learners import one_thread
from reference.trace import Trace
from samples.examples import examples
from samples.planted_gates import TYPES, Floats, gate, planted_gates
from samples.random_runs import corpora, jsonl

THETA = np.array([0.2, 0.85, 0.5, 0.7, 0.4, 0.8, 0.6, 0.3])
MODELS = ("noisy_or", "noisy_and", "linear")


def weight(fit: ot.outcomes.FittedOutcome, name: str) -> dict[str, object]:
    return fit.weights.row(TYPES.index(name), named=True)


# --- predictions, from their definition -------------------------------------------------------------------


def predicted(trace: Trace, model: str, theta: Floats, leak: float, scores: bool) -> dict[int | None, float]:
    """Of every target its prediction; None is a virtual sink (D15)."""
    before: dict[int, dict[int, float]] = {v: {} for v in range(len(trace))}
    for (u, v), kinds in trace.edges.items():
        before[v][u] = sum(theta[TYPES.index(kind)] for kind in kinds)

    def made(v: int) -> float:
        pairs = [(w if model == "linear" else min(w, 1.0), value(u)) for u, w in before[v].items()]
        if model == "noisy_or":
            return 1.0 - (1.0 - leak) * math.prod(1.0 - w * x for w, x in pairs)
        if model == "noisy_and":
            return math.prod(1.0 - w * (1.0 - x) for w, x in pairs)
        return min(leak + sum(w * x for w, x in pairs), 1.0)

    known: dict[int, float] = {}

    def value(v: int) -> float:
        if v not in known:
            score = trace.events[v]["score"] if scores else None
            known[v] = min(max(score, 0.0), 1.0) if score is not None else made(v) if before[v] else 1.0
        return known[v]

    if scores:
        return {v: made(v) for v in range(len(trace)) if before[v] and trace.events[v]["score"] is not None}
    if trace.unknown:
        return {}
    if trace.outcome is not None:
        return {trace.outcome: made(trace.outcome)} if before[trace.outcome] else {}
    x = [value(v) for v in range(len(trace)) if not any(u == v for u, _ in trace.edges)]
    w = 1.0 - 0.25 ** (1.0 / len(x))
    if model == "noisy_or":
        return {None: (1.0 - math.prod(1.0 - w * one for one in x)) / 0.75}
    if model == "noisy_and":
        return {None: (math.prod(1.0 - w * (1.0 - one) for one in x) - 0.25) / 0.75}
    return {None: sum(x) / len(x)}


@examples(60)
@given(corpora(), st.integers(0, 2**32 - 1), st.sampled_from(MODELS), st.booleans())
def test_predictions_are_those_of_the_definition(
    documents: list[dict[str, object]], seed: int, model: str, scores: bool
) -> None:
    rng = np.random.default_rng(seed)
    theta = rng.random(8)
    leak = 0.0 if model == "noisy_and" else float(rng.random()) / 2
    corpus = read(jsonl(documents))
    gates = _core.OutcomeGates(corpus._store, targets="scores" if scores else "outcome")
    found = pl.DataFrame(gates.targets())
    values = pl.DataFrame(gates.predict(model, list(theta), leak))["value"]
    traces = [Trace(document) for document in documents]
    straight = [trace.topological(trace.weights()) is not None for trace in traces]
    assert gates.n_cyclic == straight.count(False)
    unknown = [bool(trace.unknown) and ok for trace, ok in zip(traces, straight, strict=True)]
    assert gates.n_unanswered == (0 if scores else sum(unknown))
    expected = {
        (number, v): value
        for number, (trace, ok) in enumerate(zip(traces, straight, strict=True))
        if ok
        for v, value in predicted(trace, model, theta, leak, scores).items()
    }
    keys = list(found.select("trace", "seq").rows())
    assert set(keys) == set(expected) and len(keys) == len(expected)
    assert_allclose(values.to_numpy(), [expected[key] for key in keys], rtol=0, atol=1e-9)


def read(content: bytes) -> ot.Corpus:
    import io

    return ot.read_traces(io.BytesIO(content))


# --- gates in NumPy: an engine apart, and cheap ------------------------------------------------------------


class Stars:
    """Gates with recorded inputs; predictions and slopes from the definition."""

    def __init__(
        self, model: str, theta: Floats, rng: np.random.Generator, n: int, leak: float = 0.0
    ) -> None:
        self.model = model
        self.kind = np.where(np.arange(3) < rng.integers(1, 4, n)[:, None], rng.integers(0, 8, (n, 3)), -1)
        self.x = (rng.random((n, 3)) < 0.7) * rng.random((n, 3)) ** 0.3
        self.p = gate(model, theta, leak, self.kind, self.x)
        self.there = self.kind >= 0
        self.cell = (9 * np.arange(n)[:, None] + self.kind)[self.there]  # of the table of slopes

    def predict(self, parameters: Floats) -> tuple[Floats, Floats]:
        leak = parameters[8]
        w = np.append(parameters[:8], 0.0)[self.kind]  # where nothing comes in, the last one
        factor = 1.0 - w * self.x if self.model == "noisy_or" else 1.0 - w * (1.0 - self.x)
        if self.model == "linear":
            total = leak + (w * self.x).sum(axis=1)
            by_input, by_leak = self.x, np.ones(len(total))
            value, free = np.minimum(total, 1.0), total <= 1.0
        else:
            a, b, c = factor.T
            others, all_three = np.stack([b * c, a * c, a * b], axis=1), a * b * c
            if self.model == "noisy_or":
                by_input, by_leak = (1.0 - leak) * self.x * others, all_three
                value = 1.0 - (1.0 - leak) * all_three
            else:
                by_input, by_leak = -(1.0 - self.x) * others, np.zeros(len(factor))
                value = all_three
            free = np.ones(len(value), bool)
        slopes = np.bincount(self.cell, by_input[self.there], 9 * len(value)).reshape(-1, 9)
        slopes[:, 8] = by_leak
        return value, slopes * free[:, None]


def draws(
    model: str, theta: Floats, loss: str, seed: int, clusters: int, per: int = 10, leak: float = 0.0
) -> tuple[Observations, Task]:
    """Gates in clusters; a third of the targets of a cluster hang on one number that they share."""
    rng = np.random.default_rng([seed, clusters])
    stars = Stars(model, theta, rng, clusters * per, leak)
    cluster = np.repeat(np.arange(clusters), per)
    u = np.where(rng.random(cluster.size) < 1 / 3, rng.random(clusters)[cluster], rng.random(cluster.size))
    seen = Observations(stars.predict, (u < stars.p).astype(float), cluster, np.ones(cluster.size, bool))
    return seen, Task(model, loss, leak > 0.0)  # type: ignore[arg-type]  # words from a table


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("model", "loss", "leak"),
    [
        ("noisy_or", "log", 0.0),
        ("noisy_or", "log", 0.15),
        ("noisy_and", "log", 0.0),
        ("linear", "squared", 0.0),
        ("linear", "log", 0.0),
    ],
)
def test_intervals_cover_the_truth_at_their_rate(model: str, loss: str, leak: float) -> None:
    theta = THETA / 3.2 if model == "linear" else THETA * 0.9
    hits, runs = 0, 0
    for seed in range(120):
        seen, task = draws(model, theta, loss, seed, 100, leak=leak)
        with one_thread():
            found = estimate(seen, task)
        assert found.converged
        for k in range(8):
            if not math.isnan(found.stderr[k]):
                lower, upper = interval(float(found.used[k]), float(found.stderr[k]), 100, task.most)
                hits += lower <= theta[k] <= upper
                runs += 1
    assert runs > 900
    # intervals of one run hang together, so the rate of 960 is known to about 0.8 %
    assert 0.93 <= hits / runs <= 0.97


@pytest.mark.statistical
@pytest.mark.parametrize("model", MODELS)
def test_errors_fall_with_the_root_of_the_data(model: str) -> None:
    theta = THETA / 3.2 if model == "linear" else THETA

    def deviation(clusters: int) -> float:
        with one_thread():
            fits = [estimate(*draws(model, theta, "log", seed, clusters), errors=False) for seed in range(12)]
        return float(np.sqrt(np.mean([np.square(fit.used[:8] - theta) for fit in fits])))

    few, many = deviation(50), deviation(800)
    assert 0.15 < many / few < 0.4  # 1/4, twelve runs each
    assert many < 0.04


@pytest.mark.parametrize("leak", [0.0, 0.1])
def test_linear_least_squares_are_those_of_scipy(leak: float) -> None:
    seen, task = draws("linear", THETA / 3.2, "squared", 1, 60, leak=leak)
    design = seen.predict(np.zeros(9))[1][:, : 9 if leak else 8]
    expected, _ = nnls(design, seen.targets)
    found = estimate(seen, task)
    assert (design @ expected).max() < 1.0  # no sum stops at 1, or this is not the same problem
    assert_allclose(found.used[: design.shape[1]], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "loss"), [("noisy_or", "log"), ("noisy_and", "squared"), ("linear", "log")]
)
def test_estimates_are_least(model: str, loss: str) -> None:
    """No point around the estimate has a smaller loss, which is written again from its definition."""
    theta = THETA / 3.2 if model == "linear" else THETA
    seen, task = draws(model, theta, loss, 5, 60)
    found = estimate(seen, task)

    def mean_loss(at: Floats) -> float:
        p = np.clip(seen.predict(at)[0], 1e-6, 1 - 1e-6)
        y = seen.targets
        return float(np.mean((y - p) ** 2 if loss == "squared" else -y * np.log(p) - (1 - y) * np.log(1 - p)))

    best = mean_loss(found.used)
    assert best == pytest.approx(found.loss, abs=1e-5)
    rng = np.random.default_rng(0)
    for _ in range(300):
        step = rng.normal(size=9) * 10.0 ** rng.uniform(-4, -1)
        at = np.clip(found.used + np.where(np.arange(9) < 8, step, 0.0), 0.0, 1.0)
        assert mean_loss(at) >= best - 1e-9


# --- recordings -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted() -> ot.Corpus:
    return planted_gates("noisy_or", THETA, np.random.default_rng(3), tasks=150)


def test_scores_give_the_weights_back(planted: ot.Corpus) -> None:
    fit = ot.outcomes.fit(planted)
    assert fit.converged and fit.support == 1.0 and fit.n_targets == 150 * 2 * 6 and fit.n_clusters == 150
    z = (fit.weights["weight"].to_numpy() - THETA) / fit.weights["stderr"].to_numpy()
    assert (np.abs(z) < 3.5).all() and np.square(z).sum() < 26.1  # 99.9 % of χ² with 8 degrees of freedom
    assert fit.weights["reason"].null_count() == 8
    assert fit.weights["n_edges"].sum() == planted.edges.select(pl.len()).collect().item()
    assert_array_equal(list(fit), fit.weights["used"].to_numpy())
    assert_array_equal(np.asarray(fit), fit.weights["used"].to_numpy())


def test_held_out_predictions_beat_the_base_rate_and_are_calibrated(planted: ot.Corpus) -> None:
    fit = ot.outcomes.fit(planted)
    assert fit.brier is not None and fit.brier_base is not None and fit.brier_gain is not None
    assert fit.brier < 0.7 * fit.brier_base and fit.brier_gain[0] > 0.0
    assert fit.brier_gain[0] < fit.brier_base - fit.brier < fit.brier_gain[1]
    assert fit.slope is not None and 0.93 < fit.slope < 1.07
    table = fit.calibration
    assert table["n"].sum() == fit.n_targets and table["expected"].is_sorted()
    inside = (table["lower"] <= table["expected"]) & (table["expected"] <= table["upper"])
    assert inside.sum() >= table.height - 2


@pytest.mark.every_nth(4)
def test_a_wrong_model_is_told_by_its_calibration_and_score() -> None:
    corpus = planted_gates("noisy_and", THETA, np.random.default_rng(4), tasks=150)
    right, wrong = ot.outcomes.fit(corpus, model="noisy_and"), ot.outcomes.fit(corpus, model="noisy_or")
    assert right.brier is not None and wrong.brier is not None and right.brier < wrong.brier - 0.02


def test_labels_at_random_do_not_beat_the_base_rate(planted: ot.Corpus) -> None:
    rng = np.random.default_rng(5)
    targets = planted.edges.select("trace", seq="dst").unique().sort("trace", "seq").collect()
    noise = targets.with_columns(score=pl.Series(rng.integers(0, 2, targets.height).astype(float)))
    fit = ot.outcomes.fit(planted.with_fields(noise))
    assert fit.brier is not None and fit.brier_base is not None
    assert fit.brier > fit.brier_base
    assert "the base rate predicts better" in repr(fit)


def test_types_that_are_absent_or_idle_have_no_weight() -> None:
    kinds = tuple(TYPES.index(name) for name in ("causal", "message", "return"))
    corpus = planted_gates("noisy_or", THETA, np.random.default_rng(6), kinds=kinds)
    # the inputs that messages bring are all worthless
    edges = corpus.edges.collect()
    idle = edges.filter(pl.col("type").cast(pl.String) == "message").select(
        "trace", seq="src", score=pl.lit(0.0)
    )
    fit = ot.outcomes.fit(corpus.with_fields(idle.unique()))
    common = set()
    for name in TYPES:
        row = weight(fit, name)
        if name in ("causal", "return"):
            assert row["reason"] is None and row["weight"] == row["used"]
            continue
        assert row["weight"] is None and row["stderr"] is None and row["lower"] is None
        assert row["reason"] == ("type.unmoved" if name == "message" else "type.absent")
        common.add(row["used"])
    assert len(common) == 1
    (used,) = common
    known = [weight(fit, name)["weight"] for name in ("causal", "return")]
    assert min(known) < used < max(known)  # type: ignore[type-var,operator]  # numbers, as was asserted
    assert "not known" in repr(fit)
    assert fit.params()["unknown"] == [name for name in TYPES if name not in ("causal", "return")]


def test_types_that_only_come_together_share_a_weight() -> None:
    corpus = planted_gates("noisy_or", THETA, np.random.default_rng(7), kinds=(1, 3))
    twice = corpus.edges.collect().filter(pl.col("type").cast(pl.String) == "message")
    both = pl.concat([corpus.edges.collect(), twice.with_columns(type=pl.lit("spawn", twice["type"].dtype))])
    tables = {name: getattr(corpus, name) for name in ("traces", "events")}
    fit = ot.outcomes.fit(ot.Corpus.from_arrow(**tables, edges=both.sort("trace", maintain_order=True)))
    spawn, message = weight(fit, "spawn"), weight(fit, "message")
    assert spawn["weight"] is None and spawn["reason"] == "type.collinear: message"
    assert message["weight"] is None and message["reason"] == "type.collinear: spawn"
    assert spawn["used"] == message["used"]
    alone = weight(ot.outcomes.fit(corpus), "message")["weight"]
    assert 2 * spawn["used"] == pytest.approx(alone, abs=1e-6)  # type: ignore[operator]
    assert weight(fit, "causal")["reason"] is None


def test_a_weight_at_its_bound_has_no_error() -> None:
    theta = np.where(np.arange(8) == 1, 1.0, THETA)
    corpus = planted_gates("noisy_or", theta, np.random.default_rng(8))
    row = weight(ot.outcomes.fit(corpus), "causal")
    assert row["weight"] == 1.0 and row["stderr"] is None and row["reason"] == "weight.bound"


def test_one_task_has_weights_without_errors() -> None:
    corpus = planted_gates("noisy_or", THETA, np.random.default_rng(9), tasks=1, traces=60)
    fit = ot.outcomes.fit(corpus)
    assert fit.weights["stderr"].null_count() == 8 and set(fit.weights["reason"]) == {"tasks.few"}
    assert fit.brier is None and fit.brier_gain is None and fit.calibration.height == 0
    assert "not known" in repr(fit)
    assert ot.outcomes.fit(corpus, by="trace").brier is not None


@pytest.mark.statistical
def test_runs_of_a_task_that_hang_together_widen_the_errors() -> None:
    made: Callable[[float], ot.Corpus] = lambda effect: planted_gates(  # noqa: E731  # two corpora of one kind
        "noisy_or", THETA, np.random.default_rng(10), tasks=80, traces=5, task_effect=effect
    )
    alone, together = (ot.outcomes.fit(made(effect), folds=2) for effect in (0.0, 0.95))
    assert together.weights["stderr"].mean() > 1.3 * alone.weights["stderr"].mean()  # type: ignore[operator]
    naive = ot.outcomes.fit(made(0.95), by="trace", folds=2)
    assert naive.weights["stderr"].mean() < together.weights["stderr"].mean()  # type: ignore[operator]


@pytest.mark.every_nth(4)
def test_the_leak_is_found_and_does_not_pass_for_weights() -> None:
    corpus = planted_gates("noisy_or", THETA, np.random.default_rng(11), tasks=150, leak=0.2)
    fit = ot.outcomes.fit(corpus, leak=True)
    assert fit.leak_stderr is not None and abs(fit.leak - 0.2) < 3.5 * fit.leak_stderr < 0.1
    z = (fit.weights["weight"].to_numpy() - THETA) / fit.weights["stderr"].to_numpy()
    assert (np.abs(z) < 3.5).all()
    with pytest.raises(ot.ParameterError, match="leak=False"):
        list(fit)
    without = ot.outcomes.fit(corpus)
    assert without.n_contradicted > 0 == fit.n_contradicted and without.leak == 0.0


@pytest.mark.every_nth(4)
def test_bits_do_not_depend_on_threads_and_folds_on_the_seed(planted: ot.Corpus) -> None:
    fits = [ot.outcomes.fit(planted, threads=n) for n in (1, 2, 7)]
    for other in fits[1:]:
        assert other.weights.equals(fits[0].weights) and other.calibration.equals(fits[0].calibration)
        assert other.brier == fits[0].brier
    seeded = ot.outcomes.fit(planted, seed=1)
    assert seeded.weights.equals(fits[0].weights) and seeded.brier != fits[0].brier


@pytest.mark.statistical
def test_no_run_is_predicted_by_its_own_task(planted: ot.Corpus) -> None:
    """Other targets of one task change its own errors, not its own predictions."""
    few = planted.filter(pl.col("task_id").is_in([f"t{k}" for k in range(30)]))
    one = pl.col("task_id") == "t7"
    fold = ot.outcomes.fit(few, folds=30)
    rest = ot.outcomes.fit(few.filter(~one))
    gates = _core.OutcomeGates(few.filter(one)._store, targets="scores")
    value = pl.DataFrame(gates.predict("noisy_or", list(rest)))["value"].to_numpy()
    y = pl.DataFrame(gates.targets())["score"].to_numpy()
    changed = few.filter(one).events.filter(pl.col("score").is_not_null()).select("trace", "seq").collect()
    targets = pl.DataFrame(gates.targets()).select("trace", "seq")
    flipped = few.with_fields(targets.with_columns(score=pl.Series(1.0 - y)))
    assert changed.height > targets.height
    other = ot.outcomes.fit(flipped, folds=30)
    assert fold.brier is not None and other.brier is not None
    # every other fold has t7 among what it was fitted to, so the difference is not exactly that of t7
    own = (np.square(value - 1.0 + y) - np.square(value - y)).sum() / fold.n_targets
    assert other.brier - fold.brier == pytest.approx(own, abs=0.3 * abs(own) + 2e-3)


# --- outcomes ---------------------------------------------------------------------------------------------


def relays(n: int, rng: np.random.Generator) -> Iterator[dict[str, object]]:
    """Runs that go over one to three messages and end in one to three parallel returns to an aggregate."""
    w = {"message": 0.8, "return": 0.5, "aggregate": 0.9}
    for k in range(n):
        hops, ways = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        kinds = ["message"] * (hops + 1) + ["return"] * ways + ["aggregate"]
        edges = [(v, v + 1, "message") for v in range(hops)]
        last = hops
        edges += [(last, last + 1 + j, "return") for j in range(ways)]
        edges += [(last + 1 + j, last + 1 + ways, "aggregate") for j in range(ways)]
        p = 1.0 - (1.0 - w["aggregate"] * w["return"] * w["message"] ** hops) ** ways
        yield {
            "trace_id": f"r{k}",
            "task_id": f"t{k // 4}",
            "events": [
                {"id": f"e{v}", "t": v, "type": kind, "agent": "lead"} for v, kind in enumerate(kinds)
            ],
            "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": kind} for u, v, kind in edges],
            "rewards": {"team": float(rng.random() < p)},
            "costs": {"tokens": 0, "wall_clock_s": 0},
        }


def test_outcomes_tell_what_the_graphs_tell_apart() -> None:
    """Returns and aggregates come in pairs: their product is known, neither of them is."""
    corpus = read(jsonl(list(relays(2000, np.random.default_rng(12)))))
    fit = ot.outcomes.fit(corpus, targets="outcome")
    message = weight(fit, "message")
    assert abs(message["weight"] - 0.8) < 3.5 * message["stderr"] < 0.1  # type: ignore[operator]
    assert weight(fit, "return")["reason"] == "type.collinear: aggregate"
    product = weight(fit, "return")["used"] * weight(fit, "aggregate")["used"]  # type: ignore[operator]
    assert abs(product - 0.45) < 0.04
    assert fit.brier is not None and fit.brier_gain is not None and fit.brier_gain[0] > 0.0
    assert fit.slope is not None and 0.8 < fit.slope < 1.2
    assert fit.support < 1.0


def test_a_noisy_and_of_sources_says_nothing_about_outcomes() -> None:
    corpus = read(jsonl(list(relays(40, np.random.default_rng(13)))))
    fit = ot.outcomes.fit(corpus, model="noisy_and", targets="outcome")
    assert fit.weights["weight"].null_count() == 8
    assert set(fit.weights["reason"]) == {"type.unmoved", "type.absent"}


@pytest.mark.every_nth(4)
def test_a_corpus_on_disk_gives_the_same(tmp_path: object, planted: ot.Corpus) -> None:
    import io

    few = planted.filter(pl.col("trace") < 60)
    buffer = io.BytesIO()
    few.write_jsonl(buffer)
    source = f"{tmp_path}/runs.jsonl"
    with open(source, "wb") as file:
        file.write(buffer.getvalue())
    ot.ingest(source, f"{tmp_path}/corpus", partitions=3)
    there = ot.outcomes.fit(ot.read_corpus(f"{tmp_path}/corpus"))
    here = ot.outcomes.fit(few)
    # sums are in another order
    assert_allclose(there.weights["used"], here.weights["used"], atol=1e-9)
    assert_allclose(there.weights["stderr"], here.weights["stderr"], atol=1e-9)
    assert there.brier == pytest.approx(here.brier, abs=1e-9)


# --- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": "max"}, "model is 'max', expected"),
        ({"model": "noisy_and", "leak": True}, "no leak"),
        ({"targets": "reward"}, "targets is .*, expected"),
        ({"by": "agent"}, "by is .*, expected"),
        ({"loss": "hinge"}, "loss is .*, expected"),
        ({"folds": 1}, "folds is 1"),
        ({"bins": 1}, "bins is 1"),
        ({"targets": "outcome", "reward": "nobody"}, "nobody"),
    ],
)
def test_mistakes_are_told(planted: ot.Corpus, options: dict[str, object], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.outcomes.fit(planted, **options)  # type: ignore[arg-type]  # that is the point


def test_what_cannot_be_fitted_is_told_with_what_to_do() -> None:
    silent = read(jsonl(list(relays(8, np.random.default_rng(14)))))
    with pytest.raises(ot.ParameterError, match="targets='outcome'"):
        ot.outcomes.fit(silent)
    traces = silent.traces.select("trace").collect()
    loud = silent.with_measures(traces.with_columns(team=pl.lit(3.0)))
    with pytest.raises(ot.ParameterError, match="expected 0 to 1: give it a weight"):
        ot.outcomes.fit(loud, targets="outcome")
    assert ot.outcomes.fit(loud, targets="outcome", reward={"team": 0.25}).n_targets == 8
    with pytest.raises(ot.ParameterError, match="no event with inputs has a score"):
        ot.outcomes.fit(silent.filter(pl.lit(False)))


def test_runs_without_the_reward_are_left_out_and_counted() -> None:
    documents = list(relays(40, np.random.default_rng(15)))
    for document in documents[:10]:
        document["rewards"] = {"format": 1.0}
    fit = ot.outcomes.fit(read(jsonl(documents)), targets="outcome")
    assert fit.n_unrewarded == 10 and fit.n_targets == 30
