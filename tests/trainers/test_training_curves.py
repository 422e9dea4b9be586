"""Curves of a training run: against loops, planted changes, and what is not known."""

import io
import itertools
import math
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.corpus.reward import label_of
from orchestrace.statistics.influence import mean_interval
from orchestrace.trainers.staleness import effective_share
from orchestrace.trainers.strategies import strategies
from samples.hand_runs import event, read, run
from samples.random_runs import jsonl

Runs = list[dict[str, Any]]


def training(steps: int, seed: int = 0, tasks: int = 4, size: int = 4, breaks_at: int | None = None) -> Runs:
    """Rollouts of teams; from step `breaks_at` on all do the same, and write three times as much."""
    rng = np.random.default_rng(seed)
    runs: Runs = []
    for step, task, _ in itertools.product(range(steps), range(tasks), range(size)):
        collapsed = breaks_at is not None and step >= breaks_at
        events = [event(0, type="orchestrator_decision", role="lead")]
        for k in range(2 if collapsed else int(rng.integers(1, 4))):
            tool = "search" if collapsed else str(rng.choice(["search", "read"]))
            acted = {"tool": tool, "tokens_out": int(rng.poisson(300 if collapsed else 100)), "turn": k}
            old = float(rng.normal(-1, 0.3))
            scores = {"x_old": old, "x_new": old + float(rng.normal(0, 0.2))}
            scores["x_version"] = step - int(rng.integers(0, 3))
            events.append(event(k + 1, "worker", "tool_call", role="worker", **acted, **scores))
        rewards = {"team": float(rng.integers(0, 2)), "style": float(rng.normal())}
        measures = {"rewards": rewards, "metrics": {"train_step": step}}
        runs.append(run(len(runs), None, events, task=f"step {step} task {task}", **measures))
    return runs


LIFTED = {"x_version": pl.Int64, "x_old": pl.Float64, "x_new": pl.Float64}


def corpus_of(runs: Runs) -> ot.Corpus:
    corpus = ot.read_traces(io.BytesIO(jsonl(runs)), format="native", fields=LIFTED)
    assert len(corpus) == len(runs)
    return corpus


def by_step(runs: Runs) -> dict[int, Runs]:
    found = defaultdict(list)
    for one in runs:
        found[one["metrics"]["train_step"]].append(one)
    return found


def reference(runs: Runs, weights: dict[str, float]) -> dict[str, float]:
    """All statistics of one step in loops."""
    groups = defaultdict(list)
    for one in runs:
        groups[one["task_id"]].append(one)
    total = {id(one): sum(w * one["rewards"][name] for name, w in weights.items()) for one in runs}
    found: dict[str, list[float]] = defaultdict(list)
    for one in runs:
        found["reward_mean"].append(total[id(one)])
        calls = one["events"][1:]
        found["lag"].append(one["metrics"]["train_step"] - fmean(e["x_version"] for e in calls))
        versions = [e["x_version"] for e in calls]
        found["drift"].append(max(versions) - min(versions))
        found["tokens"].append(sum(e["tokens_out"] for e in calls))
        found["agents"].append(2)
        w = [math.exp(e["x_new"] - e["x_old"]) for e in calls]
        found["clipped"].append(fmean(abs(x - 1) > 0.2 for x in w))
    for own in groups.values():
        rewards = [total[id(one)] for one in own]
        found["degenerate"].append(max(rewards) - min(rewards) < 1e-12)
        found["all_pass"].append(min(rewards) >= 1)
        found["all_fail"].append(max(rewards) < 1)
        found["reward_sd"].append(stdev(rewards))
        counts = Counter(tuple(e["tool"] for e in one["events"][1:]) for one in own)
        n = len(own)
        found["diversity"].append(1 - sum(c * (c - 1) for c in counts.values()) / (n * (n - 1)))
        entropy = -sum(c / n * math.log(c / n) for c in counts.values())
        found["strategy_entropy"].append(entropy + (len(counts) - 1) / (2 * n))
        around = fmean(rewards)
        square = sum((r - around) ** 2 for r in rewards)
        if square > 1e-12:
            for name, w in weights.items():
                centre = fmean(one["rewards"][name] for one in own)
                both = sum(w * (one["rewards"][name] - centre) * (total[id(one)] - around) for one in own)
                found[f"variance_share {name}"].append(both / square)
    step = {name: fmean(values) for name, values in found.items()}
    events = [math.exp(e["x_new"] - e["x_old"]) for one in runs for e in one["events"][1:]]
    products = [math.prod(math.exp(e["x_new"] - e["x_old"]) for e in one["events"][1:]) for one in runs]
    for unit, w in (("event", events), ("run", products)):
        step[f"effective_{unit}s"] = sum(w) ** 2 / (len(w) * sum(x * x for x in w))
        step[f"largest_{unit}"] = max(w) / sum(w)
    return step


WEIGHTS = {"team": 1.0, "style": 0.5}
COLUMNS: dict[str, Any] = {"policy_version": "x_version", "log_probs": ("x_new", "x_old")}


@pytest.mark.parametrize("seed", range(3))
def test_every_statistic_is_that_of_loops(seed: int) -> None:
    runs = training(3, seed)
    table = ot.trainers.training_curves(corpus_of(runs), reward=WEIGHTS, **COLUMNS)
    label = label_of(WEIGHTS)
    seen = set()
    for step, own in by_step(runs).items():
        expected = reference(own, WEIGHTS)
        rows = table.filter(train_step=step)
        for name, value in expected.items():
            statistic, _, channel = name.partition(" ")
            row = rows.filter(statistic=statistic)
            if channel:
                row = row.filter(reward=channel)
            elif statistic == "reward_mean":
                row = row.filter(reward=label)
            assert row.height == 1, name
            assert row["value"].item() == pytest.approx(value, abs=1e-12), name
            seen.add(statistic)
    assert seen | {"turns", "finish_rate"} == set(table["statistic"])
    shares = table.filter(statistic="variance_share").group_by("train_step").agg(pl.col("value").sum())
    assert_allclose(shares["value"], 1.0, rtol=1e-12)


def test_intervals_are_over_tasks() -> None:
    runs = training(2, seed=1)
    table = ot.trainers.training_curves(corpus_of(runs))
    for step, own in by_step(runs).items():
        tasks = np.unique([one["task_id"] for one in own], return_inverse=True)[1]
        rewards = np.array([one["rewards"]["team"] for one in own])
        around = mean_interval(rewards, tasks, confidence=0.95).around
        row = table.filter(train_step=step, statistic="reward_mean").row(0, named=True)
        assert (row["lower"], row["upper"]) == pytest.approx((around.lower, around.upper), rel=1e-12)
        assert (row["n_traces"], row["n_groups"], row["n_tasks"]) == (16, 4, 4)


def test_a_collapse_alarms_where_it_is_and_nowhere_else() -> None:
    table = ot.trainers.training_curves(corpus_of(training(60, seed=2, breaks_at=35)), **COLUMNS)
    alarms = table.filter("alarm")
    assert set(alarms["statistic"]) >= {"diversity", "strategy_entropy", "tokens"}
    assert set(alarms["statistic"]) <= {"diversity", "strategy_entropy", "tokens", "turns"}
    assert (alarms["train_step"] - 35).abs().max() <= 1
    assert alarms.filter(statistic="tokens")["jump"].item() == pytest.approx(400, rel=0.15)
    assert (alarms.filter(statistic="diversity")["jump"] < -0.5).all()
    untested = table.filter(pl.col("alarm_reason").is_not_null())
    assert set(untested["statistic"]) == {"finish_rate"}  # nobody was spawned
    of_series = table.group_by("statistic", "reward").agg(pl.col("p_value").n_unique())
    assert (of_series["p_value"] == 1).all()


def test_training_that_does_not_change_has_no_alarm() -> None:
    table = ot.trainers.training_curves(corpus_of(training(60, seed=3)), reward=WEIGHTS, **COLUMNS)
    tested = table.drop_nulls("alarm")
    assert tested["statistic"].n_unique() == table["statistic"].n_unique() - 1
    assert not tested["alarm"].any()


def test_fewer_than_thirty_steps_have_no_test() -> None:
    table = ot.trainers.training_curves(corpus_of(training(29, seed=0)))
    assert table["alarm"].null_count() == table.height == table["p_value"].null_count()
    assert (table["alarm_reason"] == "support.absent").all()


# --- what is not known ------------------------------------------------------------------------------------


def test_runs_without_a_step_are_a_step_of_their_own() -> None:
    runs = training(2)
    for one in runs[20:]:
        del one["metrics"]["train_step"]
    table = ot.trainers.training_curves(corpus_of(runs))
    counts = table.filter(statistic="reward_mean")
    assert counts["train_step"].to_list() == [0.0, 1.0, None]
    assert counts["n_traces"].to_list() == [16, 4, 12]


def test_a_step_without_what_a_statistic_needs_says_why() -> None:
    runs = training(2, tasks=1)
    runs = [*runs[:4], runs[4]]
    runs[4]["rewards"] = {}
    runs[4]["events"] = runs[4]["events"][:1]
    table = ot.trainers.training_curves(corpus_of(runs), **COLUMNS).filter(train_step=1.0)
    expected = {
        **dict.fromkeys(("degenerate", "all_pass", "all_fail", "reward_sd"), "siblings.absent"),
        **dict.fromkeys(("diversity", "strategy_entropy"), "siblings.absent"),
        **dict.fromkeys(("lag", "drift", "clipped", "effective_events", "largest_run"), "field.absent"),
        "reward_mean": "reward.absent",
    }
    for statistic, reason in expected.items():
        row = table.filter(statistic=statistic).row(0, named=True)
        assert (row["value"], row["reason"], row["n_traces"]) == (None, reason, 0), statistic


@pytest.mark.parametrize("size", [1e160, 1e300])
def test_rewards_beyond_the_floats_have_no_deviation(size: float) -> None:
    runs = training(1, tasks=2)
    for k, one in enumerate(runs):
        one["rewards"] = {"team": size * (-1) ** k}
    row = ot.trainers.training_curves(corpus_of(runs)).filter(statistic="reward_sd").row(0, named=True)
    assert row["value"] is None and row["reason"] == "result.range"


def test_mistakes_are_named() -> None:
    corpus = corpus_of(training(1))
    follow = ot.trainers.training_curves
    with pytest.raises(ot.ParameterError, match="no trace has the metric train_step: expected recordings"):
        follow(read([run(0, 1.0)]))
    with pytest.raises(ot.ParameterError, match=r"'x_verson'.*did you mean 'x_version'"):
        follow(corpus, policy_version="x_verson")
    with pytest.raises(ot.ParameterError, match="log_probs names the column 'agent' of type"):
        follow(corpus, log_probs=("x_new", "agent"))
    with pytest.raises(ot.ParameterError, match="log_probs is 'x_new', expected the names of two columns"):
        follow(corpus, log_probs="x_new")  # type: ignore[arg-type]
    with pytest.raises(ot.ParameterError, match="policy_version is 3, expected the name of a column, or of"):
        follow(corpus, policy_version=3)  # type: ignore[arg-type]
    with pytest.raises(ot.ParameterError, match="reward channel"):
        follow(corpus, reward="teem")


def test_nothing_at_all_is_an_empty_table() -> None:
    table = ot.trainers.training_curves(ot.read_traces(io.BytesIO(b""), format="native"))
    assert table.height == 0 and "alarm" in table.columns


def test_versions_of_two_columns_are_of_beginning_and_end() -> None:
    """An event that began under version 5 and ended under 7, and one without an end: they moved by 2."""
    events = [event(0, x_old=5, x_new=7), event(1, x_old=6)]
    runs = [run(0, 1.0, events, metrics={"train_step": 8})]
    table = ot.trainers.training_curves(corpus_of(runs), policy_version=("x_old", "x_new"))
    assert table.filter(statistic="lag")["value"].item() == 2.5
    assert table.filter(statistic="drift")["value"].item() == 2.0


# --- its parts --------------------------------------------------------------------------------------------


def test_who_was_first_is_no_strategy() -> None:
    """Two agents at once, in either order: one strategy. Other tools, other roles: another."""

    def team(first: str, second: str, tool: str = "read") -> list[dict[str, Any]]:
        return [
            event(0, first, "tool_call", role=first, tool="search"),
            event(1, second, "tool_call", role=second, tool="search" if tool == "read" else tool),
        ]

    runs = [run(0, 1.0, team("a", "b")), run(1, 1.0, team("b", "a")), run(2, 1.0, team("a", "b", "run"))]
    found = strategies(read(runs))["strategy"].to_list()
    assert found[0] == found[1] != found[2]


def test_the_effective_share_of_vast_weights_is_that_of_small_ones() -> None:
    w = np.array([0.0, 0.0, math.log(2), math.log(4)])
    n = np.array([1.0, 1.0, 1.0, 1.0])
    small, around = effective_share(w, 2 * w, n)
    vast, _ = effective_share(w + 800.0, 2 * (w + 800.0), n)
    assert small == pytest.approx(8 / 11) and vast == pytest.approx(small, rel=1e-12)
    assert around.sum() == pytest.approx(0.0, abs=1e-12)
    assert effective_share(np.zeros(5), np.zeros(5), np.ones(5))[0] == 1.0


def test_the_influence_of_a_weight_is_its_derivative() -> None:
    w = np.array([1.0, 2.0, 0.5, 3.0])
    share, influence = effective_share(np.log(w), 2 * np.log(w), np.ones(4))

    def weighted(p: np.ndarray) -> float:
        return float((p @ w) ** 2 / (p @ w**2) / p.sum())

    for k in range(4):
        step = 1e-6
        p = np.full(4, (1 - step) / 4)
        p[k] += step
        assert (weighted(p) - share) / step == pytest.approx(influence[k] * 4, abs=1e-4)


def test_on_disk_and_on_any_threads_it_is_the_same(tmp_path: Path) -> None:
    corpus = corpus_of(training(32, seed=4, breaks_at=20))
    tables = [ot.trainers.training_curves(corpus, reward=WEIGHTS, threads=n, **COLUMNS) for n in (1, 2)]
    assert_frame_equal(*tables, check_exact=True)
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", fields=LIFTED, partitions=3)
    stored = ot.read_corpus(tmp_path / "corpus")
    on_disk = ot.trainers.training_curves(stored, reward=WEIGHTS, **COLUMNS)
    assert_frame_equal(tables[0], on_disk, abs_tol=1e-12)
