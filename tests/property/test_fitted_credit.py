"""Fitted credit against small references of its own, and against planted truth as data grow."""

import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace import _core
from orchestrace.fitted import learners
from orchestrace.fitted.folds import folds_of
from orchestrace.fitted.ridge import GRID, Moments, cross_fitted, penalty, ridge
from orchestrace.registry import rewards_of
from property.planted_teams import ACTIONS, ROLES, WORTH, Planted, correlation, teams

ROOT = Path(__file__).resolve().parents[2]
SHARES = ("rudder", "vdn", "qmix")
FITTED = ("hca", *SHARES)
# Methods written in Python reach the other levels by the roll-up of the core.
UNITS = ot.methods()["units"][0] if hasattr(_core, "roll_up") else ("team", "role", "agent", "event")


def corpus_of(runs: list[tuple[str, float | None, list[dict[str, object]]]]) -> ot.Corpus:
    """Runs of (task, reward, events); an event is given its fields, the rest has defaults."""
    events = [
        {"trace": n, "id": f"e{k}", "t": float(k), "type": "message", "agent": "a", **event}
        for n, (_, _, own) in enumerate(runs)
        for k, event in enumerate(own)
    ]
    traces = {
        "trace": range(len(runs)),
        "trace_id": [f"run {n}" for n in range(len(runs))],
        "task_id": [task for task, _, _ in runs],
    }
    measures = [
        {"trace": n, "kind": "reward", "name": "team", "value": reward}
        for n, (_, reward, _) in enumerate(runs)
        if reward is not None
    ]
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(traces),
        events=pl.DataFrame(events, infer_schema_length=None),
        measures=pl.DataFrame(measures),
    )


def fit_of(credits: pl.DataFrame) -> dict[str, float]:
    (params,) = credits["params"].cast(pl.String).unique()
    found: dict[str, float] = json.loads(params)["fit"]
    return found


def by_least_squares(x: np.ndarray, y: np.ndarray, w: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """Ridge as least squares on rows that are added for the penalty; no moments, no eigenvectors."""
    varies = x.std(axis=0) > 0
    share = w / w.sum()
    scale = np.sqrt(share @ np.square(x - share @ x))
    scale[~varies] = np.inf
    centred = (x - share @ x) / scale
    rows = np.concatenate([centred * np.sqrt(w)[:, None], np.sqrt(alpha) * np.eye(x.shape[1])])
    right = np.concatenate([(y - share @ y) * np.sqrt(w), np.zeros(x.shape[1])])
    weights = np.linalg.lstsq(rows, right, rcond=None)[0] / scale
    return weights, float(share @ y - share @ x @ weights)


# --- the regression ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.3, 50.0])
def test_ridge_is_least_squares_with_added_rows(alpha: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 5)) * [1, 10, 0.1, 1, 0] + 1e3
    y, w = x @ [1.0, 0.2, 3.0, 0.0, 9.0] + rng.standard_normal(200), rng.uniform(0.1, 2.0, 200)
    weights, intercept = by_least_squares(x, y, w, alpha)
    cut = Moments.of(x[:31], y[:31], w[:31]) + Moments.of(x[31:], y[31:], w[31:])
    for moments in (Moments.of(x, y, w), cut):
        found = ridge(moments, alpha)
        assert_allclose(found.weights, weights, rtol=1e-7, atol=1e-9)
        assert_allclose(found(x), x @ weights + intercept, rtol=1e-9)
        assert_allclose(found.error(moments), float(w @ np.square(y - found(x))), rtol=1e-7)


def test_without_a_penalty_it_is_the_solution_of_least_norm() -> None:
    rng = np.random.default_rng(2)
    one = rng.standard_normal((50, 1))
    found = ridge(Moments.of(np.concatenate([one, one, one], axis=1), 6.0 * one[:, 0]), 0.0)
    assert_allclose(found.weights, [2.0, 2.0, 2.0])


def test_the_penalty_is_the_one_that_predicts_the_other_parts() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((60, 20))
    y = x[:, 0] + 3.0 * rng.standard_normal(60)
    cuts = [slice(0, 20), slice(20, 40), slice(40, 60)]
    errors = []
    for alpha in GRID:
        error = 0.0
        for own in cuts:
            kept = np.ones(60, dtype=bool)
            kept[own] = False
            weights, intercept = by_least_squares(x[kept], y[kept], np.ones(40), alpha)
            error += float(np.square(y[own] - x[own] @ weights - intercept).sum())
        errors.append(error)
    parts = [Moments.of(x[own], y[own]) for own in cuts]
    assert penalty(parts) == GRID[int(np.argmin(errors))] not in (GRID[0], GRID[-1])
    assert cross_fitted(parts, None)[-1][1] == penalty(parts)
    assert cross_fitted(parts, 7.0)[0][0].weights.tolist() == ridge(parts[1] + parts[2], 7.0).weights.tolist()


# --- references, event by event ---------------------------------------------------------------------------


def runs_of(planted: Planted) -> Iterator[tuple[int, float, list[tuple[str, str, str]]]]:
    """(trace, reward, [(role, action, agent), …]) in plain Python."""
    rewards = dict(rewards_of(planted.corpus, {"team": 1.0}).iter_rows())
    columns = [pl.col(name).cast(pl.String) for name in ("role", "action", "agent")]
    events = planted.corpus.events.select("trace", *columns).collect()
    for (trace,), own in events.group_by("trace", maintain_order=True):
        yield trace, rewards[trace], own.drop("trace").rows()


def folds(planted: Planted, n: int) -> dict[int, int]:
    found = folds_of(planted.corpus, rewards_of(planted.corpus, {"team": 1.0}), n, 0)
    assert found.n == n
    return dict(found.traces.select("trace", "fold").iter_rows())


def vector(*counts: Counter[str]) -> list[float]:
    names = (ROLES, ACTIONS, ("agent",), ("message",))
    return [float(count[name]) for count, known in zip(counts, names, strict=True) for name in known]


@pytest.mark.parametrize("train", ["prefixes", "runs"])
@pytest.mark.parametrize("residual", ["spread", "last"])
def test_rudder_is_the_change_of_the_prediction(train: str, residual: str) -> None:
    planted = teams(40, seed=5)
    fold = folds(planted, 3)
    rows: dict[int, list[list[float]]] = {}
    rewards = {}
    for trace, reward, events in runs_of(planted):
        roles: Counter[str] = Counter()
        actions: Counter[str] = Counter()
        seen: set[str] = set()
        rows[trace] = [vector(roles, actions, Counter(), Counter())]
        rewards[trace] = reward
        for number, (role, action, agent) in enumerate(events, 1):
            roles[role] += 1
            actions[action] += 1
            seen.add(agent)
            rows[trace].append(vector(roles, actions, Counter(agent=len(seen)), Counter(message=number)))
    expected = {}
    for trace, own in rows.items():
        others = [one for one in rows if fold[one] != fold[trace]]
        x = [row for one in others for row in (rows[one] if train == "prefixes" else rows[one][-1:])]
        lengths = {one: len(rows[one]) if train == "prefixes" else 1 for one in others}
        y = [rewards[one] for one in others for _ in range(lengths[one])]
        w = [1 / lengths[one] for one in others for _ in range(lengths[one])]
        weights, intercept = by_least_squares(np.array(x), np.array(y), np.array(w), 2.0)
        g = np.array(own) @ weights + intercept
        left, change = rewards[trace] - g[-1], np.diff(g)
        if residual == "last":
            change[-1] += left
        else:
            change += left / len(change)
        expected[trace] = [*change, g[0]]
    credits = ot.credit(
        planted.corpus, method="rudder", unit="event", alpha=2.0, folds=3, train=train, residual=residual
    )
    found = {trace: own["credit"].to_list() for (trace,), own in credits.group_by("trace")}
    assert found.keys() == expected.keys()
    for trace, values in expected.items():
        assert_allclose(found[trace], values, rtol=1e-7, atol=1e-9)


def team_features(planted: Planted) -> tuple[dict[tuple[int, str], list[float]], dict[int, float]]:
    agents: dict[tuple[int, str], list[list[str]]] = defaultdict(list)
    rewards = {}
    for trace, reward, events in runs_of(planted):
        rewards[trace] = reward
        for role, action, agent in events:
            agents[trace, agent].append([role, action])
    features = {
        key: vector(
            Counter([own[0][0]]), Counter(a for _, a in own), Counter(agent=1), Counter(message=len(own))
        )
        for key, own in agents.items()
    }
    return features, rewards


def summed(features: dict[tuple[int, str], list[float]], trace: int) -> np.ndarray:
    return np.sum([own for (of, _), own in features.items() if of == trace], axis=0)


def test_vdn_is_the_utility_less_its_mean() -> None:
    planted = teams(40, seed=6)
    fold = folds(planted, 3)
    features, rewards = team_features(planted)
    credits = ot.credit(planted.corpus, method="vdn", unit="agent", alpha=0.5, folds=3)
    found = {(row["trace"], row["unit_id"]): row["credit"] for row in credits.iter_rows(named=True)}
    assert len(found) == len(features) + len(rewards)
    for trace in rewards:
        others = [one for one in rewards if fold[one] != fold[trace]]
        x = np.array([summed(features, one) for one in others])
        y = np.array([rewards[one] for one in others])
        weights, intercept = by_least_squares(x, y, np.ones(len(y)), 0.5)
        mean = np.mean([np.array(own) @ weights for (of, _), own in features.items() if of in others])
        credit = {
            agent: np.array(own) @ weights - mean for (of, agent), own in features.items() if of == trace
        }
        for agent, value in credit.items():
            assert_allclose(found[trace, agent], value, rtol=1e-7, atol=1e-9)
        # what no agent holds: the constant, the means, the residual
        rest = (
            intercept + mean * len(credit) + (rewards[trace] - summed(features, trace) @ weights - intercept)
        )
        assert_allclose(found[trace, None], rest, rtol=1e-7, atol=1e-9)


def test_qmix_weighs_roles_by_non_negative_least_squares() -> None:
    planted = teams(60, seed=7, slopes=(2.0, 0.5, -1.0))
    fold = folds(planted, 3)
    features, rewards = team_features(planted)
    role_of = {(trace, agent): agent.split("-")[0] for trace, agent in features}

    def utility(left_out: set[int]) -> np.ndarray:
        kept = [one for one in rewards if fold[one] not in left_out]
        x, y = np.array([summed(features, one) for one in kept]), np.array([rewards[one] for one in kept])
        return by_least_squares(x, y, np.ones(len(y)), 0.5)[0]

    by_role = np.zeros((len(rewards), 3))
    for (trace, agent), own in features.items():
        by_role[trace, ROLES.index(role_of[trace, agent])] += np.array(own) @ utility({fold[trace]})
    x, y = by_role - by_role.mean(axis=0), np.array([rewards[trace] for trace in range(len(rewards))])
    y = y - y.mean()
    best, weights = math.inf, np.zeros(3)
    for chosen in itertools.chain.from_iterable(itertools.combinations(range(3), k) for k in range(4)):
        free = np.zeros(3)
        free[[*chosen]] = np.linalg.lstsq(x[:, [*chosen]], y, rcond=None)[0] if chosen else []
        error = float(np.square(y - x @ free).sum())
        if (free >= 0).all() and error < best:
            best, weights = error, free
    credits = ot.credit(planted.corpus, method="qmix", unit="agent", alpha=0.5, folds=3)
    fit = fit_of(credits)
    assert_allclose([fit[f"weight {role}"] for role in ROLES], weights, atol=1e-5)
    assert weights.min() == 0.0 < weights.max()
    assert all(value >= 0.0 for name, value in fit.items() if name.startswith("weight "))


def hindsight(rows: list[tuple[str, str, float, float]], bins: bool = False) -> dict[tuple[str, str], object]:
    """A of every (state, action) by its definition; None where a return is not supported. Rows are
    (state, action, p, return); p is the same for all rows of a pair."""
    found: dict[tuple[str, str], object] = {}
    for x, a in {(x, a) for x, a, _, _ in rows}:
        here = [row for row in rows if row[0] == x]
        own = [row for row in here if row[1] == a]
        h = {}
        for z in {row[3] for row in here}:
            ended = [row for row in here if row[3] == z]
            h[z] = Fraction(sum(row[1] == a for row in ended), len(ended))
        if min(h.values()) == 0:
            found[x, a] = None
            continue
        found[x, a] = sum((1 - Fraction(p) / h[z]) * Fraction(z) for _, _, p, z in own) / len(own)
    return found


def decisions(rows: list[tuple[str, str, float, float]], tasks: int = 2) -> ot.Corpus:
    """A run of one decision for each row."""
    return corpus_of(
        [
            (f"task {n % tasks}", z, [{"state_key": x, "action": a, "p_behavior": p}])
            for n, (x, a, p, z) in enumerate(rows)
        ]
    )


def test_hindsight_by_counting() -> None:
    rng = np.random.default_rng(8)
    odds = {"u": [0.5, 0.3, 0.2], "v": [0.2, 0.2, 0.6]}
    rows = []
    for _ in range(150):
        x = "uv"[int(rng.integers(2))]
        a = int(rng.choice(3, p=odds[x]))
        rows.append(
            (
                x,
                "abc"[a],
                odds[x][a],
                float(rng.choice([0.0, 0.5, 2.0], p=[0.2, 0.2, 0.6]) + (x + "abc"[a] == "vc")),
            )
        )
    expected = hindsight(rows)
    values = ot.credit(decisions(rows), method="hca", unit="event")
    assert any(value is None for value in expected.values()) and any(expected.values())
    for (x, a, _, _), value, reason in zip(rows, values["credit"], values["reason"], strict=True):
        if expected[x, a] is None:
            assert (value, reason is None) == (None, False)
        else:
            assert value == pytest.approx(float(expected[x, a]), abs=1e-12)


def test_hindsight_with_exact_tables_is_q_minus_v() -> None:
    # Counts in exact proportion to p(x) π(a|x) p(z|x,a), so that counting gives the Bayes table.
    policy = {("u", "a"): 0.25, ("u", "b"): 0.75, ("v", "a"): 0.5, ("v", "b"): 0.5}
    outcome = {
        ("u", "a"): [0.5, 0.25, 0.25],
        ("u", "b"): [0.25, 0.25, 0.5],
        ("v", "a"): [0.125, 0.125, 0.75],
        ("v", "b"): [0.5, 0.375, 0.125],
    }
    returns = [-1.0, 0.0, 3.0]
    rows = [
        (x, a, pi, z)
        for (x, a), pi in policy.items()
        for z, p in zip(returns, outcome[x, a], strict=True)
        for _ in range(round(pi * p * 64))
    ]
    q = {key: sum(z * p for z, p in zip(returns, chances, strict=True)) for key, chances in outcome.items()}
    v = {x: sum(policy[x, a] * q[x, a] for a in "ab") for x in "uv"}
    values = ot.credit(decisions(rows), method="hca", unit="event")["credit"]
    assert_allclose(values, [q[x, a] - v[x] for x, a, _, _ in rows], atol=1e-12)


def test_hindsight_is_zero_where_the_return_does_not_depend_on_the_action() -> None:
    rows = [("u", a, 0.5, z) for a in "ab" for z in (0.0, 1.0, 1.0, 5.0)]
    assert_allclose(ot.credit(decisions(rows), method="hca", unit="event")["credit"], 0.0, atol=1e-12)


def test_hindsight_without_support_is_null_not_biased() -> None:
    rows = [("u", "a", 0.5, 1.0), ("u", "b", 0.5, 2.0)] * 4
    credits = ot.credit(decisions(rows), method="hca", unit="event")
    assert credits["credit"].null_count() == len(rows) and credits["reason"].null_count() == 0
    assert fit_of(credits)["supported"] == 0.0
    # The formula alone would give .5 and 1, instead of Q - V = -.5 and .5.
    biased = ot.credit(decisions(rows), method="hca", unit="event", smoothing=1e-9)
    assert biased["credit"].null_count() == len(rows)


def test_smoothing_draws_h_to_the_uniform_one() -> None:
    rows = (
        [("u", "a", 0.5, 0.0)] * 2 + [("u", "b", 0.5, 0.0)] * 4 + [("u", "a", 0.5, 1.0), ("u", "b", 0.5, 1.0)]
    )
    values = ot.credit(decisions(rows), method="hca", unit="event", smoothing=2.0)["credit"]
    # h(a|0) = (2+2)/(6+4), h(a|1) = (1+2)/(2+4)
    a = (1 - 0.5 / (3 / 6)) * 1.0 / 3
    assert_allclose(values.head(2), a, atol=1e-12)


def test_hindsight_rows_are_decisions() -> None:
    decision = {"action": "x", "p_behavior": 0.5}
    runs = [
        ("one", 1.0, [decision, {}, {"action": "x"}, {"agent": "b"}]),
        ("two", 0.0, [decision, {"p_behavior": 0.5}]),
        ("two", 1.0, [{}, {}]),
        ("two", 0.0, [decision]),
        ("two", None, [decision]),
        ("one", 1.0, [decision]),
    ]
    credits = ot.credit(corpus_of(runs), method="hca", unit="event")
    given = credits.select("trace", "seq", pl.col("reason").cast(pl.String)).rows()
    reasons = {(trace, seq): reason for trace, seq, reason in given}
    assert reasons == {
        **{(0, 0): None, (0, 1): "unit.none", (0, 2): "field.absent", (0, 3): "unit.none"},
        **{(1, 0): None, (1, 1): "field.absent", (2, 0): "field.absent", (2, 1): "field.absent"},
        **{(3, 0): None, (4, 0): "reward.absent", (5, 0): None},
    }
    assert credits["credit"].is_null().to_list() == [reason is not None for reason in reasons.values()]
    agents = ot.credit(corpus_of(runs), method="hca", unit="agent")
    assert agents.row(0, named=True)["credit"] == credits.row(0, named=True)["credit"]
    assert agents.row(1, named=True)["reason"] == "unit.none"


def test_states_are_coarse_without_a_key() -> None:
    rng = np.random.default_rng(9)
    runs = []
    rows = []
    for n in range(60):
        reward = float(rng.integers(2))
        events = []
        for k in range(4):
            action = "ab"[int(rng.integers(2))]
            events.append({"action": action, "p_behavior": 0.5, "role": "r"})
            rows.append((str(int(math.log2(k + 1))), action, 0.5, reward))
        runs.append((f"task {n % 3}", reward, events))
    expected = hindsight(rows)
    values = ot.credit(corpus_of(runs), method="hca", unit="event")["credit"]
    assert_allclose(values, [float(expected[x, a]) for x, a, _, _ in rows], atol=1e-12)
    by_task = ot.credit(corpus_of(runs), method="hca", unit="event", by_task=True)["credit"]
    expected = hindsight([(f"{n // 4 % 3} {x}", a, p, z) for n, (x, a, p, z) in enumerate(rows)])
    keys = [(f"{n // 4 % 3} {x}", a) for n, (x, a, _, _) in enumerate(rows)]
    assert_allclose(by_task, [float(expected[key]) for key in keys], atol=1e-12)


def test_returns_are_cut_at_quantiles() -> None:
    rng = np.random.default_rng(10)
    rows = [("u", "ab"[int(rng.integers(2))], 0.5, float(z)) for z in rng.permutation(40)]
    # Two bins at the median: h is by half, the returns are as they are.
    cut = {(n, a): 0 for n in (0, 1) for a in "ab"}
    for _, a, _, z in rows:
        cut[int(z > 19), a] += 1
    values = ot.credit(decisions(rows), method="hca", unit="event", bins=2)["credit"]
    for a in "ab":
        own = [z for _, b, _, z in rows if b == a]
        h = [cut[n, a] / (cut[n, "a"] + cut[n, "b"]) for n in (0, 1)]
        expected = sum((1 - 0.5 / h[int(z > 19)]) * z for z in own) / len(own)
        assert values[[b for _, b, _, _ in rows].index(a)] == pytest.approx(expected, abs=1e-12)


# --- what holds whatever the data -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted() -> Planted:
    return teams(120, seed=11)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("method", SHARES)
def test_shares_sum_to_the_reward(method: str, unit: str) -> None:
    corpus = ot.generate(traces=60, seed=3)
    weights = {"team": 1.0, "tool": 0.5}
    credits = ot.credit(corpus, method=method, unit=unit, reward=weights)
    rewards = rewards_of(corpus, weights)
    sums = credits.group_by("trace").agg(pl.col("credit").sum(), nulls=pl.col("credit").null_count())
    both = sums.join(rewards, on="trace")
    absent = both.filter(pl.col("amount").is_null())
    given = both.filter(pl.col("amount").is_not_null())
    assert absent.height and (absent["nulls"] > 0).all() and (given["nulls"] == 0).all()
    assert_allclose(given["credit"], given["amount"], atol=1e-9)
    reasons = credits.filter(pl.col("credit").is_null())["reason"].cast(pl.String)
    assert reasons.unique().to_list() == ["reward.absent"]


@pytest.mark.parametrize("method", FITTED)
def test_no_run_is_scored_by_its_own_task(method: str, planted: Planted) -> None:
    """Rewards of a task change its credit through the residual only."""
    corpus = planted.corpus
    own = corpus.traces.filter(pl.col("task_id") == "task-3").select("trace").collect()["trace"]
    changed = corpus.with_measures(pl.DataFrame({"trace": own, "team": [9.0, -50.0] * (len(own) // 2)}))
    if method == "hca":  # counts are those of the whole corpus; its quality is told on unseen tasks
        noise = teams(120, seed=11, noise=1e6).corpus
        fit = fit_of(ot.credit(noise, method="hca"))
        assert fit["r2"] > 0 > fit["r2_cv"]
        return
    options = {"residual": "last"} if method == "rudder" else {}
    before = ot.credit(corpus, method=method, **options)
    after = ot.credit(changed, method=method, **options)
    here = pl.col("trace").is_in(own.implode())
    # The row without a unit holds the residual, of rudder its last event does.
    last = pl.col("seq") == pl.col("seq").max().over("trace")
    kept = ~last if method == "rudder" else pl.col("seq").is_not_null()
    pair = [frame.filter(here & kept)["credit"].to_list() for frame in (before, after)]
    assert len(pair[0]) > 50 and pair[0] == pair[1]
    others = [frame.filter(~here)["credit"].to_list() for frame in (before, after)]
    assert others[0] != others[1]


@pytest.mark.parametrize("method", FITTED)
def test_the_order_of_runs_does_not_matter(method: str) -> None:
    order = np.random.default_rng(12).permutation(60)
    key = ["trace_id", "seq"]
    columns = [*key, "credit", "reason"]
    one, two = (teams(60, seed=13, order=order_).corpus for order_ in (None, order))
    credits = [ot.credit(corpus, method=method).select(columns).sort(key) for corpus in (one, two)]
    assert_frame_equal(*credits, abs_tol=1e-9)
    assert credits[0]["credit"].null_count() < credits[0].height / 2


@pytest.mark.parametrize("method", FITTED)
def test_bits_do_not_depend_on_threads(method: str, planted: Planted) -> None:
    frames = [ot.credit(planted.corpus, method=method, unit="agent", threads=n) for n in (1, 2, 7)]
    assert frames[0].equals(frames[1]) and frames[0].equals(frames[2])


@pytest.mark.parametrize("method", FITTED)
def test_a_corpus_on_disk_is_fitted_as_a_whole(method: str, planted: Planted, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    planted.corpus.write_jsonl(str(path))
    ot.ingest(path, tmp_path / "corpus", partitions=3)
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert sum(1 for _ in corpus.pieces()) == 3
    key = ["trace_id", "seq"]
    columns = [*key, "credit", "residual", "reason"]
    there = ot.credit(corpus, method=method)
    here = ot.credit(planted.corpus, method=method)
    assert fit_of(there) == pytest.approx(fit_of(here), abs=1e-6)
    pair = [frame.select(columns).sort(key) for frame in (there, here)]
    assert_frame_equal(*pair, abs_tol=1e-9)


@pytest.mark.parametrize("method", FITTED)
def test_runs_without_a_reward_are_left_out_of_the_fit(method: str, planted: Planted) -> None:
    corpus = planted.corpus
    kept = corpus.traces.select("trace").collect()["trace"].to_list()[:90]
    measures = corpus.measures.filter(pl.col("trace").is_in(kept)).collect()
    part = ot.Corpus.from_arrow(
        traces=corpus.traces.collect(), events=corpus.events.collect(), measures=measures
    )
    alone = ot.credit(corpus.filter(pl.col("trace").is_in(kept)), method=method)
    among = ot.credit(part, method=method)
    columns = ["trace", "seq", "credit", "reason"]
    assert_frame_equal(
        among.filter(pl.col("trace").is_in(kept)).select(columns), alone.select(columns), abs_tol=1e-9
    )
    rest = among.filter(~pl.col("trace").is_in(kept))
    assert rest["credit"].null_count() == rest.height > 0
    assert rest["reason"].cast(pl.String).unique().to_list() == ["reward.absent"]


@pytest.mark.parametrize("method", FITTED)
@pytest.mark.parametrize("rewards", [(2.0,), (2.0, 2.0, 2.0), (2.0, None)])
def test_a_corpus_that_says_nothing_gives_zeros(method: str, rewards: tuple[float | None, ...]) -> None:
    decision = {"action": "x", "p_behavior": 1.0}
    corpus = corpus_of([(f"task {n}", reward, [decision] * 2) for n, reward in enumerate(rewards)])
    credits = ot.credit(corpus, method=method).filter(pl.col("reason") != "reward.absent")
    assert credits["reason"].cast(pl.String).unique().to_list() == ["group.degenerate"]
    assert credits.drop_nulls("seq")["credit"].unique().to_list() == [0.0]
    if method != "hca":
        assert credits.filter(pl.col("seq").is_null())["credit"].unique().to_list() == [2.0]
    assert fit_of(credits)["folds"] == 0


@pytest.mark.parametrize("method", FITTED)
def test_nothing_cycles_and_single_events(method: str) -> None:
    nothing = ot.generate(traces=2, seed=0).filter(pl.lit(False))
    assert ot.credit(nothing, method=method).height == 0
    runs: list[tuple[str, float | None, list[dict[str, object]]]] = [
        (f"task {n}", float(n % 3), [{"agent": "user"}] if n % 2 else [{}]) for n in range(8)
    ]
    corpus = corpus_of(runs)
    loops = pl.DataFrame({"trace": [0, 1], "src": [0, 0], "dst": [0, 0], "type": ["causal", "causal"]})
    cyclic = ot.Corpus.from_arrow(
        traces=corpus.traces.collect(),
        events=corpus.events.collect(),
        measures=corpus.measures.collect(),
        edges=loops,
    )
    plain, looped = (ot.credit(one, method=method).drop("params") for one in (corpus, cyclic))
    assert_frame_equal(plain, looped)
    assert plain.height >= 8 and (plain["credit"].null_count() == 0) == (method != "hca")


# --- planted truth ----------------------------------------------------------------------------------------


def test_a_perfect_prediction_gives_all_to_the_key_event() -> None:
    rng = np.random.default_rng(14)
    runs = []
    for n in range(60):
        events: list[dict[str, object]] = [
            {"action": "ab"[int(rng.integers(2))], "agent": f"x{int(rng.integers(3))}"}
            for _ in range(6 + n % 5)
        ]
        if n % 2:
            events[int(rng.integers(6))]["action"] = "key"
        runs.append((f"task {n % 6}", 3.0 if n % 2 else 0.0, events))
    credits = ot.credit(corpus_of(runs), method="rudder", train="runs", alpha=0.0)
    actions = [event["action"] for _, _, events in runs for event in events]
    events = credits.drop_nulls("seq").with_columns(action=pl.Series(actions))
    assert_allclose(events["credit"], np.where(events["action"] == "key", 3.0, 0.0), atol=1e-9)
    assert fit_of(credits)["r2_cv"] == 1.0
    # Learnt from prefixes, g knows that the key may still come: it is credited with the surprise.
    credits = ot.credit(corpus_of(runs), method="rudder")
    events = credits.drop_nulls("seq").with_columns(action=pl.Series(actions))
    means = events.group_by("action").agg(pl.col("credit").mean())
    of = dict(means.iter_rows())
    assert of["key"] > 1.5 and max(abs(of["a"]), abs(of["b"])) < 0.3


@pytest.mark.parametrize(
    ("method", "unit", "options", "bound"),
    [
        ("rudder", "event", {"train": "runs"}, 0.99),
        ("rudder", "event", {}, 0.95),
        ("vdn", "agent", {}, 0.995),
        ("qmix", "agent", {}, 0.99),
        ("hca", "event", {}, 0.95),
    ],
)
def test_truth_is_approached_as_data_grow(
    method: str, unit: str, options: dict[str, str], bound: float
) -> None:
    few, many = (correlation(teams(n), unit, method, **options) for n in (50, 800))
    assert few < many and many > bound


def test_the_error_of_vdn_falls_with_the_root_of_the_runs() -> None:
    """Four times the data, half the error, on average over seeds."""

    def error(n: int, seed: int) -> float:
        planted = teams(n, seed=seed, noise=3.0)
        credits = ot.credit(planted.corpus, method="vdn", unit="agent", alpha=0.0).drop_nulls("unit_id")
        truth = planted.truth.group_by("trace", "agent").agg(pl.col("worth").sum())
        both = credits.join(truth, left_on=["trace", "unit_id"], right_on=["trace", "agent"])
        apart = both["credit"] - (both["worth"] - both["worth"].mean())
        return float(np.square(apart.to_numpy()).mean())

    small, large = (np.mean([error(n, seed) for seed in range(8)]) for n in (150, 600))
    assert 1.5 < math.sqrt(small / large) < 2.7


def test_shuffled_rewards_earn_nothing(planted: Planted) -> None:
    values = rewards_of(planted.corpus, {"team": 1.0})["amount"].to_numpy()
    found = defaultdict(list)
    for seed in range(20):
        mixed = np.random.default_rng(seed).permutation(values)
        corpus = planted.corpus.with_measures(pl.DataFrame({"trace": range(len(mixed)), "team": mixed}))
        for method in ("vdn", "qmix", "rudder"):
            unit = "event" if method == "rudder" else "agent"
            options = {"residual": "last"} if method == "rudder" else {}
            credits = Planted(corpus, planted.truth)
            found[method].append(correlation(credits, unit, method, **options))
    for method, values_ in found.items():
        spread = np.std(values_, ddof=1)
        assert abs(np.mean(values_)) < 3 * spread / math.sqrt(20) + 0.02, method


def test_weights_of_qmix_are_the_slopes_of_roles() -> None:
    planted = teams(800, seed=15, slopes=(2.0, 0.5, 0.0))
    fit = fit_of(ot.credit(planted.corpus, method="qmix"))
    weights = [fit[f"weight {role}"] for role in ROLES]
    assert_allclose(weights[1] / weights[0], 0.25, atol=0.2)
    assert weights[2] < 0.15
    assert correlation(planted, "agent", "qmix") > correlation(planted, "agent", "vdn") + 0.1
    # A role that does harm is beyond a monotone mix: it gets no weight, and nothing says that it does harm.
    harm = fit_of(ot.credit(teams(800, seed=15, slopes=(1.0, 1.0, -1.0)).corpus, method="qmix"))
    assert harm["weight critic"] == 0.0


# --- regressions of scikit-learn --------------------------------------------------------------------------


def test_boosting_finds_what_is_not_linear() -> None:
    rng = np.random.default_rng(16)
    runs = []
    for n in range(120):
        events: list[dict[str, object]] = [{"action": "c"} for _ in range(4)]
        one, two = rng.integers(2, size=2)
        events[1]["action"], events[2]["action"] = "na"[one], "nb"[two]
        runs.append((f"task {n % 8}", float(one != two), events))
    corpus = corpus_of(runs)
    linear = ot.credit(corpus, method="rudder")
    boosted = ot.credit(corpus, method="rudder", fit="boosting")
    assert fit_of(linear)["r2_cv"] < 0.1 < 0.9 < fit_of(boosted)["r2_cv"]
    assert boosted["residual"].abs().max() < 1e-9
    assert boosted.equals(ot.credit(corpus, method="rudder", fit="boosting", threads=1))


def test_the_logistic_h_is_that_of_the_model_it_assumes() -> None:
    # logit P(a|x,z) = s_x + z: additive, so that the regression is right, and counts are exact.
    rows = []
    for x, shift in (("u", -0.5), ("v", 0.7)):
        for z in (0.0, 1.0):
            chance = 1 / (1 + math.exp(-shift - z))
            rows += [(x, "a", 0.5, z)] * round(2000 * chance)
            rows += [(x, "b", 0.5, z)] * round(2000 * (1 - chance))
    counted, fitted = (
        ot.credit(decisions(rows), method="hca", fit=fit, **more)["credit"].to_numpy()
        for fit, more in (("count", {}), ("logistic", {"penalty": 1e-6}))
    )
    assert_allclose(fitted, counted, atol=2e-3)
    single = ot.credit(decisions([("u", "a", 1.0, z) for z in (0.0, 1.0)]), method="hca", fit="logistic")
    assert_allclose(single["credit"], 0.0, atol=1e-12)


@pytest.mark.parametrize(("method", "fit"), [("rudder", "boosting"), ("hca", "logistic")])
def test_without_scikit_learn_it_says_what_to_install(
    method: str, fit: str, planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(learners.importlib, "import_module", absent)
    with pytest.raises(ot.ParameterError) as caught:
        ot.credit(planted.corpus, method=method, fit=fit)
    assert str(caught.value) == f"fit='{fit}' needs scikit-learn: pip install orchestrace[fit]"


# --- the page ---------------------------------------------------------------------------------------------


def tables(page: str) -> list[list[list[str]]]:
    """Rows of every table of a page, without the header."""
    found = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    cells = [[[c.strip() for c in line.strip("|").split("|")] for line in one.splitlines()] for one in found]
    return [one[2:] for one in cells]


def test_the_page_says_what_comes_out() -> None:
    growing, lying = tables((ROOT / "docs/credit-fitted.md").read_text(encoding="utf-8"))[-2:]
    for call, unit, *written in growing:
        method, *options = call.strip("`").split()
        params = dict(option.split("=") for option in options)
        for n, number in zip((50, 200, 800), written, strict=True):
            assert float(number) == pytest.approx(correlation(teams(n), unit, method, **params), abs=0.006)
    worlds = {
        "harm": {"slopes": (1.0, 1.0, -1.0)},
        "slopes": {"slopes": (2.0, 0.5, 0.0)},
        "tasks": {"difficulty": 3.0},
    }
    for world, *written in lying:
        planted = teams(800, **worlds[world.split(":")[0]])
        found = [correlation(planted, "agent", method) for method in ("vdn", "qmix", "rudder")]
        assert [float(number) for number in written] == pytest.approx(found, abs=0.006)


def test_a_hard_task_makes_its_habits_look_bad() -> None:
    """What the page warns of: retries cause nothing, but hard tasks have more of them."""
    planted = teams(800, difficulty=3.0)
    credits = ot.credit(planted.corpus, method="rudder").drop_nulls("seq")
    actions = planted.corpus.events.select(pl.col("action").cast(pl.String)).collect()["action"]
    of = dict(
        credits.with_columns(action=actions).group_by("action").agg(pl.col("credit").mean()).iter_rows()
    )
    assert WORTH[2] == 0.0 and of["retry"] < of["write"] - 0.1
