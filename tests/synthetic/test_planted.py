"""Corpora with planted contributions: what they hold, whether the truth fits, options that make no sense."""

import io
import math
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import orchestrace as ot

MODELS = ("linear", "noisy_or", "majority", "mixed")
FRAMES = {
    "contributions": {"seq": pl.UInt32, "contribution": pl.Float64},
    "agents": {"agent": pl.String, "contribution": pl.Float64, "shapley": pl.Float64},
    "decisive": {"seq": pl.UInt32, "agent": pl.String, "turn": pl.UInt32},
    "stopping": {
        "epoch": pl.UInt32,
        "payoff": pl.Float64,
        "recorded": pl.UInt32,
        "recorded_payoff": pl.Float64,
    },
    "outcomes": {"expected": pl.Float64, "outcome": pl.Float64, "noise": pl.Float64},
    "decisions": {
        "seq": pl.UInt32,
        "kind": pl.String,
        "action": pl.String,
        "state": pl.UInt32,
        "p": pl.Float64,
        "effect": pl.Float64,
        "without": pl.Float64,
    },
    "effects": {"seq": pl.UInt32, "agent": pl.String, "subtask": pl.UInt32, "effect": pl.Float64},
    "pairs": {"first": pl.UInt32, "second": pl.UInt32, "weight": pl.Float64},
}


@pytest.fixture(scope="module")
def planted() -> tuple[ot.Corpus, ot.synthetic.Truth]:
    return ot.synthetic.planted(traces=64, seed=3)


def test_recordings_are_valid_and_truth_has_its_frames(planted) -> None:
    corpus, truth = planted
    assert (len(corpus), corpus.events.collect().height) == (64, 6400)
    assert corpus.quarantine.collect().is_empty() and corpus.findings.collect().is_empty()
    for name, columns in FRAMES.items():
        frame = getattr(truth, name)
        assert dict(frame.schema) == {"trace": pl.UInt32, "trace_id": pl.String, **columns}
        ids = corpus.traces.select("trace", "trace_id").collect()
        known = frame.select("trace", "trace_id").unique().join(ids, on=["trace", "trace_id"])
        assert known.height == (0 if name in ("decisions", "pairs") else 64)
    keys = ["trace", "seq"]
    assert truth.contributions.select(keys).equals(corpus.events.select(keys).collect())
    with pytest.raises(AttributeError):
        truth.agents = truth.decisive


@pytest.mark.parametrize("outcome", MODELS)
def test_the_team_reward_is_the_sum_of_contributions_and_noise(outcome) -> None:
    corpus, truth = ot.synthetic.planted(traces=48, seed=1, outcome=outcome, interaction=0.4)
    team = corpus.measures.filter(kind="reward", name="team").select("trace", "value").collect()
    both = team.join(truth.outcomes, on="trace").with_columns(quiet=pl.col("value") - pl.col("noise"))
    for frame, column in [
        ("contributions", "contribution"),
        ("agents", "contribution"),
        ("agents", "shapley"),
    ]:
        sums = getattr(truth, frame).group_by("trace").agg(pl.col(column).sum().alias("sum"))
        joined = both.join(sums, on="trace")
        assert joined.height == 48
        assert (joined["quiet"] - joined["sum"]).abs().max() < 1e-9, (frame, column)


def test_agents_and_turns_are_those_of_credit(planted) -> None:
    corpus, truth = planted
    agents = ot.credit(corpus, method="uniform", unit="agent", reward="team")
    assert agents["unit_id"].null_count() == 0, "every event has an owner"
    named = agents.select("trace_id", agent="unit_id")
    pairs = ["trace_id", "agent"]
    assert named.sort(pairs).equals(truth.agents.select(pairs).sort(pairs))
    turns = ot.credit(corpus, method="uniform", unit="turn", reward="team").select("trace_id", "unit_id")
    guilty = truth.decisive.drop_nulls("seq").select("trace_id", unit_id=pl.format("{}/{}", "agent", "turn"))
    assert 5 < guilty.height < 30
    assert guilty.join(turns, on=["trace_id", "unit_id"]).height == guilty.height
    grpo = ot.credit(corpus, method="grpo", unit="team", reward="team")
    assert grpo["reason"].null_count() == grpo.height and grpo["credit"].abs().min() > 0


def test_rollouts_of_a_task_have_siblings() -> None:
    corpus, _ = ot.synthetic.planted(traces=160, seed=2, branches=2)
    events = corpus.events.select("trace", "seq", "prefix_key", "action", "type").collect()
    tasks = corpus.traces.select("trace", "task_id", "group_id").collect()
    assert tasks.group_by("task_id").len()["len"].to_list() == [8] * 20
    shared = (
        events.join(tasks, on="trace")
        .group_by("prefix_key")
        .agg(
            pl.col("task_id").n_unique(),
            pl.col("trace").n_unique().alias("traces"),
            pl.col("action").n_unique(),
        )
    )
    assert (shared["task_id"] == 1).all()
    # Every group forks at least once, into different actions in the same context.
    forked = shared.filter(pl.col("traces") > 1, pl.col("action") > 1)
    assert forked.height >= 20


def test_siblings_tell_the_effect_of_an_action() -> None:
    corpus, truth = ot.synthetic.planted(traces=8000, agents=3, events=8, density=0.4, decisive=0.0, seed=4)
    team = corpus.measures.filter(kind="reward", name="team").select("trace", "value").collect()
    siblings = pl.len().over("prefix_key") == 8
    forks = (
        corpus.events.select("trace", "seq", "prefix_key", "action")
        .collect()
        .join(truth.contributions, on=["trace", "seq"])
        .join(team, on="trace")
        .filter(siblings, pl.col("action").n_unique().over("prefix_key") > 1)
    )
    assert forks.height > 4000 and forks.n_unique("trace") == forks.height
    within = [(pl.col(c) - pl.col(c).mean().over("prefix_key")).alias(c) for c in ("value", "contribution")]
    x, y = (forks.select(within)[c].to_numpy() for c in ("contribution", "value"))
    slope = (x @ y) / (x @ x)
    error = (((y - slope * x) ** 2).sum() / (len(x) * 7 / 8) / (x @ x)) ** 0.5
    # What siblings earned differs by what was planted, and by what came later, independent of it.
    assert abs(slope - 1) < 4 * error < 0.25, (slope, error)


def test_rewards_by_event_are_contributions_where_these_are_additive() -> None:
    corpus, truth = ot.synthetic.planted(traces=24, seed=5, decisive=0.0, dense=True)
    reward = corpus.events.select("trace", "seq", "reward", "value").collect()
    both = reward.join(truth.contributions, on=["trace", "seq"]).sort("trace", "seq")
    assert both.height == 2400 and (both["reward"] - both["contribution"]).abs().max() < 1e-12
    after = pl.col("value").shift(-1).over("trace")
    change = both.select((after - pl.col("value") - pl.col("contribution")).abs().max())
    assert change.item() < 1e-12
    plain, _ = ot.synthetic.planted(traces=4, seed=5)
    assert plain.events.select("reward").collect()["reward"].null_count() == 400


def coalitions(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def shapley(worth: np.ndarray, n: int) -> list[float]:
    """By the definition, over all coalitions."""
    values = []
    for player in range(n):
        without = [s for s in range(2**n) if not s >> player & 1]
        weight = [1 / (n * math.comb(n - 1, s.bit_count())) for s in without]
        values.append(
            sum(w * (worth[s | 1 << player] - worth[s]) for s, w in zip(without, weight, strict=True))
        )
    return values


@pytest.mark.parametrize("outcome", MODELS)
def test_the_game_of_a_run_has_the_values_that_the_truth_tells(outcome) -> None:
    _, truth = ot.synthetic.planted(
        traces=24, agents=4, events=3, seed=6, outcome=outcome, interaction=0.5, decisive=0.5, density=0.5
    )
    for trace, trace_id in truth.outcomes.select("trace", "trace_id").iter_rows():
        own = truth.agents.filter(trace=trace)
        game = truth.game(trace_id)
        n = len(game.players)
        assert game.players == own["agent"].to_list() and game.trace_id == trace_id
        worth = game(coalitions(n))
        assert worth[0] == 0.0 and abs(worth[-1] - truth.outcomes["outcome"][trace]) < 1e-12
        assert shapley(worth, n) == pytest.approx(own["shapley"].to_list(), abs=1e-12)
        backwards = SimpleNamespace(trace_id=trace_id, players=game.players[::-1])
        assert truth.value(coalitions(n)[:, ::-1], backwards) == pytest.approx(worth, abs=1e-12)
        if trace < 4:
            events = truth.game(trace_id, unit="event")
            assert events.players == list(range(12))
            found = shapley(events(coalitions(12)), 12)
            assert found == pytest.approx(
                truth.contributions.filter(trace=trace)["contribution"].to_list(), abs=1e-12
            )
    with pytest.raises(ot.ParameterError, match=r"^masks have the shape \(2, 9\), expected \(m, "):
        game(np.ones((2, 9), bool))
    with pytest.raises(ot.ParameterError, match="no trace of this corpus has the trace_id 'run'"):
        truth.game("run")
    with pytest.raises(ot.ParameterError, match="unit is 'agents', expected"):
        truth.game(trace_id, unit="agents")
    with pytest.raises(ot.ParameterError, match=r"the players are not the . agents of trace"):
        truth.value(np.ones((1, 1), bool), SimpleNamespace(trace_id=trace_id, players=["nobody"]))


def test_a_planted_decision_to_spawn_is_told_and_confounded() -> None:
    corpus, truth = ot.synthetic.planted(
        traces=4000, agents=3, events=4, seed=2, spawn_effect=1.0, decisive=0.0
    )
    team = corpus.measures.filter(kind="reward", name="team").select("trace", reward="value").collect()
    first = corpus.events.filter(pl.col("seq") == 0).select("trace", "p_behavior", action="action").collect()
    both = truth.decisions.join(team, on="trace").join(first, on="trace", suffix="_recorded")
    assert both.height == 4000
    assert (both["action"] == both["action_recorded"].cast(pl.String)).all()
    spawned = both["action"] == "spawn"
    assert (
        both["p_behavior"] - pl.select(pl.when(spawned).then(both["p"]).otherwise(1 - both["p"])).to_series()
    ).abs().max() < 1e-12
    effect = both["effect"].mean()
    naive = both.filter(spawned)["reward"].mean() - both.filter(~spawned)["reward"].mean()
    weighted = (both["reward"] * (spawned / both["p"] - (~spawned) / (1 - both["p"]))).to_numpy()
    # Groups of eight share a task and its state, not the draw.
    error = weighted.reshape(-1, 8).mean(axis=1).std(ddof=1) / math.sqrt(500)
    assert abs(weighted.mean() - effect) < 4 * error < 0.6, (weighted.mean(), effect)
    assert naive - effect > 0.5, "states that are better anyway spawn more"
    plain = ot.synthetic.planted(traces=8, seed=2)[1].decisions
    assert plain.is_empty() and plain.columns == both.columns[:9]


def test_games_of_large_teams_are_left_open_under_gates() -> None:
    for outcome, nulls in [("mixed", True), ("linear", False)]:
        _, truth = ot.synthetic.planted(traces=8, agents=14, seed=1, outcome=outcome)
        large = truth.agents.filter(pl.len().over("trace") > 12)
        assert large.height > 50
        assert large["shapley"].null_count() == (large.height if nulls else 0)


@pytest.mark.parametrize("outcome", MODELS)
def test_one_seed_gives_the_same_bits_on_any_threads(tmp_path, outcome) -> None:
    made = []
    for threads in (1, 2, 7):
        path = tmp_path / f"{threads}.jsonl"
        counts, truth = ot.synthetic.planted(
            path, traces=400, events=60, seed=9, outcome=outcome, threads=threads
        )
        assert (counts["traces"], counts["events"], counts["bytes"]) == (400, 120_000, path.stat().st_size)
        made.append((path.read_bytes(), truth))
    for data, truth in made[1:]:
        assert data == made[0][0]
        for name in FRAMES:
            one, other = getattr(made[0][1], name), getattr(truth, name)
            assert one.equals(other, null_equal=True)
    memory = io.BytesIO()
    ot.synthetic.planted(memory, traces=400, events=60, seed=9, outcome=outcome)
    assert memory.getvalue() == made[0][0]
    again = ot.read_traces(io.BytesIO(made[0][0]))
    assert len(again) == 400 and again.quarantine.collect().is_empty()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"traces": 0}, "traces is 0, expected 1 to"),
        ({"agents": -1}, "agents is -1"),
        ({"agents": None}, "agents is None, expected a whole number"),
        ({"events": 2.5}, "events is 2.5"),
        ({"events": 2**40}, "events is 1099511627776"),
        ({"agents": 1000, "events": 1000}, r"agents \* events is 1000000, expected 1 to 200000"),
        ({"actions": 9}, "actions is 9, expected 2 to 5"),
        ({"density": 2.0}, "density is 2, expected 0 to 1"),
        ({"density": "all"}, "density is 'all', expected a number"),
        ({"decisive": float("nan")}, "decisive is nan, expected a finite number"),
        ({"noise": -1}, "noise is -1, expected a finite number"),
        ({"interaction": True}, "interaction is True, expected a number"),
        ({"outcome": "noisyor"}, "outcome is 'noisyor', expected"),
        ({"effects": "tools"}, "effects is 'tools', expected"),
        ({"length_spread": 2}, "length_spread is 2, expected 0 to 1"),
        ({"spawn_effect": "all"}, "spawn_effect is 'all', expected a number"),
        ({"spawn_effect": 1, "outcome": "mixed"}, "spawn_effect needs outcome 'linear'"),
        ({"spawn_effect": 1, "spawn_overlap": 0.7}, "spawn_overlap is 0.7, expected 0 to 0.5"),
        ({"topology": "debat"}, "unknown topology 'debat'; did you mean 'debate'"),
        ({"topology": 3}, "topology is 3, expected text"),
        ({"threads": 0}, "threads is 0"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, message) -> None:
    target = tmp_path / "never.jsonl"
    with pytest.raises(ot.ParameterError, match=f"^[^\n]*{message}[^\n]*$"):
        ot.synthetic.planted(target, **options)
    assert not target.exists()


def test_a_truth_is_shown_by_the_sizes_of_its_frames() -> None:
    _, truth = ot.synthetic.planted(traces=3, seed=1)
    first, *rows = repr(truth).splitlines()
    assert first == "Truth of a planted corpus, model 'linear'; rows and columns:"
    assert rows[0].split() == ["contributions", "300", "trace,", "trace_id,", "seq,", "contribution"]
    assert len(rows) == 8
