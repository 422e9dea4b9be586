"""Fitted credit against small references of its own, event by event."""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

import orchestrace as ot
from orchestrace.corpus.reward import amounts
from orchestrace.credit.fitted import ridge as regression
from orchestrace.credit.fitted.ridge import GRID, Moments, all_but_one, cross_fitted, penalty, ridge
from orchestrace.statistics.folds import folds_of
from samples.planted_teams import (
    ACTIONS,
    ROLES,
    Planted,
    corpus_of,
    decisions,
    fit_of,
    teams,
)


def by_least_squares(x: np.ndarray, y: np.ndarray, w: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """Ridge as least squares on rows that are added for the penalty; no moments, no eigenvectors."""
    varies = x.std(axis=0) > 0
    share = w / w.sum()
    scale = np.sqrt(share @ np.square(x - share @ x))
    scale[~varies] = np.inf
    centered = (x - share @ x) / scale
    rows = np.concatenate([centered * np.sqrt(w)[:, None], np.sqrt(alpha) * np.eye(x.shape[1])])
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


def test_what_is_left_out_leaves_no_trace() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((70, 3)) + 1e3, rng.standard_normal(70)
    cut = [np.arange(70) % 7 == number for number in range(7)]
    parts = [Moments.of(x[own], y[own]) for own in cut]
    for own, found in zip(cut, all_but_one(parts, 3), strict=True):
        whole = Moments.of(x[~own], y[~own])
        assert found.weight == whole.weight
        assert_allclose(found.mean, whole.mean, rtol=1e-12)
        assert_allclose(found.scatter, whole.scatter, atol=1e-8)
    changed = [*parts[:3], Moments.of(x[cut[3]], 1e9 * y[cut[3]]), *parts[4:]]
    assert np.array_equal(all_but_one(changed, 3)[3].scatter, all_but_one(parts, 3)[3].scatter)


@pytest.mark.parametrize("method", ["rudder", "vdn", "qmix"])
def test_what_folds_cost_grows_with_their_number(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in decompositions of the scatter, not in seconds."""
    solved = []
    real = regression.ridges

    def counted(*arguments: object) -> object:
        solved.append(1)
        return real(*arguments)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(regression, "ridges", counted)
    rng = np.random.default_rng(6)
    events: list[list[dict[str, object]]] = [
        [{"action": a} for a in rng.choice([*"ab"], 4)] for _ in range(60)
    ]
    corpus = corpus_of([(f"task {n}", float(rng.normal()), own) for n, own in enumerate(events)])
    found = []
    for folds in (10, 20, 40):
        solved.clear()
        assert fit_of(ot.credit(corpus, method=method, unit="team", folds=folds))["folds"] == folds
        found.append(len(solved))
    assert found[1] < 2.1 * found[0] and found[2] < 2.1 * found[1]
    with pytest.raises(ot.ParameterError, match="folds must be a whole number from 2 to 50, found 51"):
        ot.credit(corpus, method=method, folds=51)


# --- references, event by event ---------------------------------------------------------------------------


def runs_of(planted: Planted) -> Iterator[tuple[int, float, list[tuple[str, str, str]]]]:
    """(trace, reward, [(role, action, agent), …]) in plain Python."""
    rewards = dict(amounts(planted.corpus, "team").select("trace", "reward").iter_rows())
    columns = [pl.col(name).cast(pl.String) for name in ("role", "action", "agent")]
    events = planted.corpus.events.select("trace", *columns).collect()
    for (trace,), own in events.group_by("trace", maintain_order=True):
        yield trace, rewards[trace], own.drop("trace").rows()


def folds(planted: Planted, n: int) -> dict[int, int]:
    rewards = amounts(planted.corpus, "team").select("trace", amount="reward")
    found = folds_of(planted.corpus, rewards, n, 0)
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
