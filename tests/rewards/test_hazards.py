"""Signs of gamed rewards: by hand, in plain Python, planted gaming against honest runs, mistakes."""

import io
import json
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from scipy.stats import rankdata, spearmanr

import orchestrace as ot
from orchestrace.statistics.resampling import centered_correlation_of, rank_correlation_of, resampled
from orchestrace.synthetic.gaming import Hazard


def tool_runs(
    calls: list[int], outcomes: list[float], channel: list[float], tasks: list[str] | None = None
) -> tuple[ot.Corpus, pl.DataFrame]:
    """Runs of an agent that calls a tool so often; a tool reward of theirs, as rows."""
    documents = []
    for n, (k, y) in enumerate(zip(calls, outcomes, strict=True)):
        call = {"agent": "a", "type": "tool_call", "tool": "run"}
        events = [{"id": f"e{at}", "t": at, "args_hash": str(at), **call} for at in range(k)]
        events.append({"id": "end", "t": k, "agent": "a", "type": "return", "to": "user"})
        documents.append(
            {
                **{"trace_id": f"t{n}", "task_id": tasks[n] if tasks else f"task {n}", "events": events},
                "edges": [{"src": f"e{at}", "dst": "end", "type": "causal"} for at in range(k)],
                **{"rewards": {"team": y, "tool": channel[n]}, "costs": {"tokens": 0, "wall_clock_s": 0}},
            }
        )
    corpus = ot.read_traces(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in documents)))
    rows = ot.rewards.compute(corpus, "outcome", channels={"outcome": "tool"})
    return corpus, rows.with_columns(reward=pl.lit("tool", pl.Categorical), family=pl.lit("R5"))


def found(corpus: ot.Corpus, rows: pl.DataFrame, detector: str, **options: Any) -> dict[str, Any]:
    table = ot.rewards.detect_hacking(corpus, rows, n_boot=options.pop("n_boot", 200), **options)
    [row] = table.filter(detector=detector).iter_rows(named=True)
    return row


def test_size_excess_by_hand() -> None:
    """Channel (1, 2, 3, 4), calls (1, 2, 3, 4), R (1, 0, 0, 1): correlations 1 and 0, excess 1."""
    corpus, rows = tool_runs([1, 2, 3, 4], [1, 0, 0, 1], [1, 2, 3, 4])
    row = found(corpus, rows, "tool_spam", within="corpus")
    assert row["value"] == pytest.approx(1.0)
    assert row["reason"] == "support.absent" and row["alarm"] is False and row["n_traces"] == 4
    same, rows = tool_runs([1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4])
    assert found(same, rows, "tool_spam", within="corpus")["value"] == pytest.approx(0.0)


def test_a_reward_that_is_the_outcome_never_alarms() -> None:
    rng = np.random.default_rng(0)
    outcomes = rng.integers(0, 2, 60).astype(float).tolist()
    tasks = [f"k{n % 12}" for n in range(60)]
    corpus, rows = tool_runs((1 + rng.integers(0, 6, 60)).tolist(), outcomes, outcomes, tasks)
    table = ot.rewards.detect_hacking(corpus, rows)
    assert not table.filter(pl.col("detector").is_in(["tool_spam", "fake_success"]))["alarm"].any()


def test_statistics_are_those_of_scipy_over_rows_drawn_anew() -> None:
    rng = np.random.default_rng(1)
    tasks = np.repeat(np.arange(9), [3, 1, 4, 2, 5, 3, 1, 2, 4])
    a, b = (rng.integers(0, 4, tasks.size).astype(float) for _ in range(2))
    over = rank_correlation_of(a, b, tasks)
    times = rng.integers(0, 3, (40, 9)).astype(float)
    for weights, told in zip(times, over(times), strict=True):
        rows = np.repeat(np.arange(tasks.size), weights[tasks].astype(int))
        assert told == pytest.approx(spearmanr(a[rows], b[rows]).statistic, nan_ok=True)
    ranks = [
        np.concatenate([rankdata(v[tasks == k]) - (np.sum(tasks == k) + 1) / 2 for k in range(9)])
        for v in (a, b)
    ]
    within = centered_correlation_of(ranks[0], ranks[1], tasks, 9)
    for weights, told in zip(times, within(times), strict=True):
        rows = np.repeat(np.arange(tasks.size), weights[tasks].astype(int))
        x, y = ranks[0][rows], ranks[1][rows]
        assert told == pytest.approx((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))
    value, lower, upper = resampled(over, 9, n_boot=200, confidence=0.95, seed=0)
    assert value is not None and lower is not None and upper is not None and lower <= upper


def planted(gamed: bool, seed: int) -> tuple[ot.Corpus, pl.DataFrame]:
    """A tool reward that follows the outcome, or one that follows the number of calls."""
    rng = np.random.default_rng(seed)
    n = 120
    tasks = [f"k{i % 24}" for i in range(n)]
    calls = 1 + rng.integers(0, 8, n)
    outcome = (rng.random(n) < 0.5).astype(float)
    noise = rng.normal(0, 0.5, n)
    channel = (calls / 4.0 if gamed else outcome) + noise
    return tool_runs(calls.tolist(), outcome.tolist(), channel.tolist(), tasks)


@pytest.mark.statistical
def test_planted_tool_spam_is_found_and_honest_runs_are_left_alone() -> None:
    seeds = range(15)
    hits = sum(found(*planted(True, seed), "tool_spam")["alarm"] for seed in seeds)
    false = sum(found(*planted(False, 100 + seed), "tool_spam")["alarm"] for seed in seeds)
    assert hits >= 14 and false <= 1, (hits, false)


def test_fake_success_and_shuffled_outcomes() -> None:
    rng = np.random.default_rng(2)
    n = 100
    outcome = (rng.random(n) < 0.5).astype(float)
    tasks = [f"k{i % 20}" for i in range(n)]
    fake = tool_runs([1] * n, outcome.tolist(), (1.0 - outcome).tolist(), tasks)
    row = found(*fake, "fake_success")
    assert row["value"] == 1.0 and row["alarm"]
    honest = tool_runs([1] * n, outcome.tolist(), outcome.tolist(), tasks)
    row = found(*honest, "fake_success")
    assert row["value"] == -1.0 and not row["alarm"]


def test_hard_tasks_that_are_long_and_fail_are_no_fake_success() -> None:
    """Calls pay, hard tasks take many and fail more; within a task who fails is paid less."""
    rng = np.random.default_rng(4)
    tasks = np.repeat(np.arange(20), 6)
    hard = tasks % 2 == 1
    outcome = (rng.random(120) < np.where(hard, 0.25, 0.75)).astype(float)
    channel = np.where(hard, 9.0, 3.0) - 0.5 * (1 - outcome)
    given = tool_runs([1] * 120, outcome.tolist(), channel.tolist(), [f"k{n}" for n in tasks])
    over = found(*given, "fake_success", within="corpus")
    assert over["value"] == pytest.approx(channel[outcome == 0].mean() - channel[outcome == 1].mean())
    assert over["value"] > 0 and over["alarm"]
    row = found(*given, "fake_success")
    failed = 1 - outcome
    x = failed - np.array([failed[tasks == k].mean() for k in tasks])
    assert row["value"] == pytest.approx((x * channel).sum() / (x * x).sum()) == pytest.approx(-0.5)
    assert not row["alarm"]


def test_a_lead_that_no_rule_pays_makes_no_gap_of_shares() -> None:
    """Workers are paid, a lead is not: the gap is that among workers, by hand from the shares."""
    corpus, rewards, _ = ot.synthetic.gamed(tasks=6, runs_per_task=4, seed=2)
    row = found(corpus, rewards, "share_gap")
    shares = ot.credit(corpus, method="flow", unit="agent").drop_nulls("unit_id")
    gaps = []
    for trace in corpus.traces.select("trace").collect()["trace"]:
        phi = dict(shares.filter(trace=trace).select("unit_id", "credit").iter_rows())
        pay = dict(
            rewards.filter(pl.col("reward") == "agent", trace=trace).select("unit_id", "value").iter_rows()
        )
        assert pay.pop("lead") == 0.0 and phi.pop("lead") >= 0.0
        if sum(phi.values()) > 0:
            gaps.append(max(abs(pay[i] / sum(pay.values()) - phi[i] / sum(phi.values())) for i in pay))
    assert row["value"] == pytest.approx(sum(gaps) / len(gaps))
    assert row["n_traces"] == len(gaps)


def test_idle_spawns_and_drowned_outcomes() -> None:
    lead = {"agent": "lead", "type": "orchestrator_decision"}
    documents = []
    for n in range(30):
        events = [lead, *({"agent": "lead", "type": "spawn", "to": f"s{at}"} for at in range(4))]
        events += [{"agent": "s0", "type": "return", "to": "lead"}, {"agent": "lead", "type": "aggregate"}]
        edges = [(0, 1, "spawn"), (1, 5, "spawn"), (5, 6, "return")]
        documents.append(
            {
                **{"trace_id": f"t{n}", "task_id": f"k{n % 10}"},
                "events": [{"id": f"e{at}", "t": at, **event} for at, event in enumerate(events)],
                "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": kind} for u, v, kind in edges],
                "rewards": {"team": float((n + n // 10) % 2), "noise": float((n + 7 * (n // 10)) % 5)},
                "costs": {"tokens": 0, "wall_clock_s": 0},
            }
        )
    corpus = ot.read_traces(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in documents)))
    paid = ot.rewards.compute(corpus, "outcome")
    noise = ot.rewards.compute(corpus, "outcome", channels={"outcome": "noise"})
    noise = noise.with_columns(reward=pl.lit("noise", pl.Categorical))
    mixed = ot.rewards.combine(pl.concat([paid, noise]), {"outcome": 0.1, "noise": 1.0})
    table = ot.rewards.detect_hacking(corpus, pl.concat([paid, mixed]))
    rows = {row["detector"]: row for row in table.iter_rows(named=True)}
    assert rows["idle_spawns"]["value"] == pytest.approx(0.75) and rows["idle_spawns"]["alarm"]
    told = ot.rewards.balance(corpus, pl.concat([paid, noise]), {"outcome": 0.1, "noise": 1.0})
    share = told.filter(reward="outcome", statistic="variance_share")["value"][0]
    assert rows["drowned"]["value"] == pytest.approx(share) and rows["drowned"]["alarm"]
    flips = told.filter(statistic="sign_flip")["value"][0]
    assert rows["sign_flip"]["value"] == pytest.approx(flips)
    # what no reward of the table is about stands there, too
    assert rows["tool_spam"]["reason"] == "field.absent" and rows["tool_spam"]["value"] is None
    assert set(table["family"]) == {f"R{n}" for n in range(1, 9)}


@pytest.mark.statistical
@pytest.mark.parametrize("game", get_args(Hazard))
def test_every_planted_game_is_found_by_its_detector(game: Any) -> None:
    """In three corpora of four at least; benches/python/gaming_detectors.py has the rates."""
    hits = 0
    for seed in range(4):
        corpus, rewards, truth = ot.synthetic.gamed(game, seed=seed)
        if game == "judge_drift":
            table = ot.rewards.verifier_health(corpus, judge="judge", n_boot=400)
            hits += table.filter(statistic="drift")["alarm"].item()
            continue
        table = ot.rewards.detect_hacking(corpus, rewards, n_boot=400).filter("alarm")
        alarms = table.select("detector", "reward", "unit_id").rows()
        hits += truth.alarms.row(0) in alarms
        # of units and rewards it names the one that is gamed
        assert [one for one in alarms if one[0] == game] in ([], truth.alarms.rows())
    assert hits >= 3


@pytest.mark.statistical
def test_honest_teams_are_left_alone() -> None:
    """But for tool_spam, which is about the reward: a sum over calls pays for calls (docs/gaming.md)."""
    alarms = []
    for seed in range(12):
        corpus, rewards, _ = ot.synthetic.gamed(seed=seed)
        alarms += ot.rewards.detect_hacking(corpus, rewards, n_boot=400).filter("alarm")["detector"].to_list()
    assert len([name for name in alarms if name != "tool_spam"]) <= 2, alarms


def test_same_seed_same_bits() -> None:
    corpus, rows = planted(True, 0)
    first, second = (ot.rewards.detect_hacking(corpus, rows, seed=5, threads=n) for n in (1, 2))
    assert first.equals(second)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"within": "tasks"}, "within is 'tasks', expected 'task', 'corpus' or None"),
        ({"outcome": "taem"}, "unknown reward channel 'taem'"),
        ({"n_boot": -1}, "n_boot"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    corpus, rows = tool_runs([1, 2], [0, 1], [1, 2])
    with pytest.raises(ot.ParameterError, match=said):
        ot.rewards.detect_hacking(corpus, rows, **options)
    with pytest.raises(ot.ParameterError, match="not in the corpus"):
        ot.rewards.detect_hacking(corpus, rows.with_columns(trace=pl.lit(9, pl.UInt32)))
