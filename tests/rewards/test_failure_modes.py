"""Failure modes of orchestration: in plain Python, planted failures against honest teams, what is absent."""

import io
import json
from statistics import mean, median
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import rankdata, theilslopes

import orchestrace as ot
from orchestrace.rewards.gaming.failure_modes import FAILURES, MODES
from orchestrace.rewards.gaming.trends import theil_sen
from orchestrace.statistics.resampling import draws, percentiles

SLOPES = ("parallelism_slope", "spawn_slope", "steps_slope", "outcome_slope")
#: The mode that each planted failure is of.
PLANTED = {
    **{name: name for name in MODES if name != "stopping"},
    **{"late_stop": "stopping", "early_stop": "stopping"},
}


def found(corpus: ot.Corpus, **options: Any) -> dict[tuple[str, str], dict[str, Any]]:
    table = ot.rewards.failure_modes(corpus, n_boot=options.pop("n_boot", 200), **options)
    assert table.schema == FAILURES
    return {(row["family"], row["detector"]): row for row in table.iter_rows(named=True)}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-50, 50), st.floats(-9, 9)), min_size=2, unique_by=lambda pair: pair[0])
)
def test_slopes_are_those_of_scipy_and_follow_lines(points: list[tuple[int, float]]) -> None:
    x, y = (np.array(side, float) for side in zip(*sorted(points), strict=True))
    assert theil_sen(x, y[:, None])[0] == pytest.approx(theilslopes(y, x).slope, abs=1e-12)
    two = theil_sen(x, np.stack([3.0 * x - 1.0, -y], axis=1))
    assert two[0] == pytest.approx(3.0)
    assert two[1] == pytest.approx(-theil_sen(x, y[:, None])[0])


def test_slope_by_hand() -> None:
    """Steps 0, 1, 3 with means 2, 1, 4: slopes -1, 2/3, 3/2, whose median is 2/3."""
    assert theil_sen(np.array([0.0, 1.0, 3.0]), np.array([[2.0], [1.0], [4.0]]))[0] == pytest.approx(2 / 3)


def test_the_interval_of_a_slope_in_plain_python() -> None:
    """Tasks are drawn within each step: means, slopes between all pairs, medians, percentiles."""
    corpus, _, _ = ot.synthetic.gamed("serial_collapse", tasks=6, runs_per_task=2, seed=1)
    row = found(corpus, n_boot=60, seed=4)["serial_collapse", "spawn_slope"]
    told = ot.metrics(corpus, groups=["scale"]).select("task_id", "train_step", "n_spawned")
    steps = sorted(set(told["train_step"]))
    blocks = []
    for at, step in enumerate(steps):
        here = told.filter(train_step=step)
        # the verb numbers tasks in the order of their names
        sums = [here.filter(task_id=task)["n_spawned"].to_list() for task in sorted(set(here["task_id"]))]
        [times] = draws(len(sums), 60, 4, stream=at + 1)
        weighted = lambda weights, sums=sums: (  # noqa: E731
            sum(w * sum(v) for w, v in zip(weights, sums, strict=True))
            / sum(w * len(v) for w, v in zip(weights, sums, strict=True))
        )
        blocks.append([weighted(np.ones(len(sums))), *(weighted(weights) for weights in times)])
    slopes = [
        median(
            (means[j] - means[i]) / (steps[j] - steps[i])
            for i in range(len(steps))
            for j in range(i + 1, len(steps))
        )
        for means in zip(*blocks, strict=True)
    ]
    assert row["value"] == pytest.approx(slopes[0])
    assert (row["lower"], row["upper"]) == pytest.approx(percentiles(np.array(slopes[1:]), 6, 0.95))
    assert (row["n_traces"], row["n_tasks"], row["train_step"]) == (72, 6, None)


def test_every_value_is_a_plain_mean_of_what_other_verbs_say() -> None:
    corpus, _, _ = ot.synthetic.gamed("dominant_agent", strength=0.5, tasks=8, seed=3)
    rows = found(corpus, tolerance=0.1)
    table = ot.metrics(
        corpus, groups=["scale", "span", "stages", "protocol", "delegation", "quality"]
    ).to_dicts()

    def of(name: str) -> float:
        return mean(one[name] for one in table if one[name] is not None)

    plain = {
        ("spurious_parallelism", "finish_rate"): of("finish_rate"),
        ("spurious_parallelism", "idle_spawns"): 0.0,
        ("dominant_agent", "delegation_dominance"): of("delegation_dominance"),
        ("over_communication", "message_density"): of("message_density"),
        ("over_communication", "redundancy"): of("message_redundancy"),
        ("aggregation_leakage", "leakage"): of("aggregation_leakage"),
        ("aggregation_leakage", "uplift"): of("aggregation_uplift_mean"),
        ("team_size", "team_efficiency"): mean(one["work"] / one["span"] / one["n_agents"] for one in table),
    }
    lost = ot.stopping.regret(ot.stopping.epochs(corpus, "draft"))
    plain["stopping", "late_stop"] = lost["regret"].to_numpy().mean()
    plain["stopping", "early_stop"] = lost["under_run"].drop_nulls().to_numpy().mean()
    for name, value in plain.items():
        assert rows[name]["value"] == pytest.approx(value), name
    assert rows["stopping", "late_stop"]["bound"] == "> 0.1"
    outcome = corpus.measures.filter(pl.col("name") == "team").collect()["value"].to_numpy()
    tasks = np.array([one["task_id"] for one in table])
    sides = []
    for values in (np.array([one["n_agents"] for one in table], float), outcome):
        ranks = np.zeros(len(table))
        for task in set(tasks):
            here = tasks == task
            ranks[here] = rankdata(values[here]) - (here.sum() + 1) / 2
        sides.append(ranks)
    a, b = sides
    rho = (a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum())
    assert rows["team_size", "size_rank"]["value"] == pytest.approx(rho)


def test_messages_are_worth_what_their_siblings_say() -> None:
    corpus, _ = ot.synthetic.planted(traces=64, seed=1)
    row = found(corpus)["over_communication", "message_utility"]
    told = ot.effects.message(corpus).drop_nulls("utility")
    by_trace = [one["utility"].mean() for one in told.partition_by("trace")]
    assert row["value"] == pytest.approx(mean(by_trace)) and row["n_traces"] == len(by_trace) > 20
    # what nobody did otherwise is not known
    assert found(ot.generate(traces=4, seed=0))["over_communication", "message_utility"]["reason"] is not None


def test_one_delegate_of_one_is_no_dominance() -> None:
    """Two agents: the lead and the only one to ask. Three: all goes to one of two."""

    def team(n: int, others: int) -> dict[str, Any]:
        lead = {"agent": "lead", "type": "orchestrator_decision"}
        events = [lead, *({"agent": "lead", "type": "message", "to": "w0"} for _ in range(5))]
        events += [{"agent": f"w{at}", "type": "tool_call", "tool": "x"} for at in range(others)]
        return {
            **{"trace_id": f"t{n}", "task_id": f"k{n}", "edges": []},
            "events": [{"id": f"e{at}", "t": at, **event} for at, event in enumerate(events)],
            **{"rewards": {"team": 1.0}, "costs": {"tokens": 0, "wall_clock_s": 0}},
        }

    for others, n in ((1, 0), (2, 30)):
        lines = [json.dumps(team(n, others)).encode() + b"\n" for n in range(30)]
        row = found(ot.read_traces(io.BytesIO(b"".join(lines))))["dominant_agent", "delegation_dominance"]
        assert (row["n_traces"], row["alarm"]) == (n, n > 0)
        assert row["value"] == (1.0 if n else None) and row["reason"] == (None if n else "field.absent")


def test_a_mode_without_its_inputs_stands_there_with_null() -> None:
    call = {"id": "e0", "t": 0, "agent": "a", "type": "tool_call", "tool": "x"}
    document = {"events": [call], "edges": [], "rewards": {"team": 1.0}}
    document["costs"] = {"tokens": 0, "wall_clock_s": 0}
    lines = [json.dumps({"trace_id": f"t{n}", "task_id": f"k{n}", **document}).encode() for n in range(30)]
    rows = found(ot.read_traces(io.BytesIO(b"\n".join(lines))))
    assert {family for family, _ in rows} == set(MODES)
    for (_, detector), row in rows.items():
        assert not row["alarm"]
        if detector not in ("message_density", "team_efficiency", "size_rank"):
            absent = "siblings.absent" if detector in ("message_utility", "early_stop") else "field.absent"
            assert (row["value"], row["lower"], row["reason"]) == (None, None, absent), detector


def test_a_slope_alarms_with_the_other_of_its_mode() -> None:
    """Fewer spawns alone are no collapse, more steps with more success not spurious."""

    def corpus(spawns: Any, steps: Any, outcome: Any) -> ot.Corpus:
        documents = []
        for n in range(150):
            step, task = divmod(n, 25)
            events: list[dict[str, Any]] = [{"agent": "lead", "type": "orchestrator_decision"}]
            events += [
                {"agent": "lead", "type": "spawn", "to": f"s{at}"} for at in range(spawns(step) + task % 2)
            ]
            events += [
                {"agent": "w", "type": "tool_call", "tool": "x"} for _ in range(steps(step) + task % 3)
            ]
            documents.append(
                {
                    **{"trace_id": f"t{n}", "task_id": f"k{task}", "edges": []},
                    "events": [{"id": f"e{at}", "t": at, **event} for at, event in enumerate(events)],
                    "rewards": {"team": outcome(step) + 0.1 * (task % 2)},
                    "metrics": {"train_step": 10 * step},
                    "costs": {"tokens": 0, "wall_clock_s": 0},
                }
            )
        return ot.read_traces(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in documents)))

    falling = found(corpus(lambda s: 8 - s, lambda s: 4 + s, lambda s: 0.2))
    assert falling["serial_collapse", "spawn_slope"]["value"] == pytest.approx(-0.1)
    assert falling["serial_collapse", "spawn_slope"]["upper"] < 0
    assert not any(falling["serial_collapse", name]["alarm"] for name in ("spawn_slope", "parallelism_slope"))
    both = ("steps_slope", "outcome_slope")
    assert falling["spurious_parallelism", "steps_slope"]["value"] == pytest.approx(0.1)
    assert all(falling["spurious_parallelism", name]["alarm"] for name in both)
    earned = found(corpus(lambda s: 3, lambda s: 4 + s, lambda s: 0.1 * s))
    assert earned["spurious_parallelism", "steps_slope"]["lower"] > 0
    assert not any(earned["spurious_parallelism", name]["alarm"] for name in both)
    # four steps are too few
    few = corpus(lambda s: 8 - s, lambda s: 4 + s, lambda s: 0.2).filter(pl.col("trace") < 100)
    row = found(few)["serial_collapse", "spawn_slope"]
    assert (row["reason"], row["lower"], row["alarm"]) == ("support.absent", None, False)
    assert row["value"] == pytest.approx(-0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("game", PLANTED)
def test_planted_failures_are_found(game: Any) -> None:
    for seed in range(4):
        corpus, _, _ = ot.synthetic.gamed(game, seed=seed)
        told = ot.rewards.failure_modes(corpus, n_boot=400)
        assert PLANTED[game] in told.filter("alarm")["family"].to_list(), seed


@pytest.mark.statistical
def test_honest_teams_have_few_alarms() -> None:
    """Chance alone gives each detector 1 in 40 on one side; early stops lie (docs/rewards.md)."""
    alarms = []
    for seed in range(12):
        corpus, _, _ = ot.synthetic.gamed(seed=seed)
        told = ot.rewards.failure_modes(corpus, n_boot=400).filter("alarm")["detector"].to_list()
        alarms += [name for name in told if name != "early_stop"]
    assert len(alarms) <= 3, alarms


def test_same_seed_same_bits_in_any_order_of_runs() -> None:
    corpus, _, _ = ot.synthetic.gamed("serial_collapse", tasks=6, runs_per_task=2, seed=2)
    first, second = (ot.rewards.failure_modes(corpus, n_boot=50, seed=5, threads=n) for n in (1, 2))
    assert first.equals(second)
    written = io.BytesIO()
    corpus.write_jsonl(written)
    backward = b"\n".join(reversed(written.getvalue().splitlines()))
    again = ot.rewards.failure_modes(ot.read_traces(io.BytesIO(backward)), n_boot=50, seed=5)
    for name in ("value", "lower", "upper"):
        assert again[name].to_list() == pytest.approx(first[name].to_list(), nan_ok=True), name
    assert again["alarm"].equals(first["alarm"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"within": "tasks"}, "within is 'tasks', expected 'task', 'corpus' or None"),
        ({"outcome": "taem"}, "unknown reward channel 'taem'"),
        ({"tolerance": -1.0}, "tolerance is -1.0, expected a number from 0"),
        ({"price": float("nan")}, "price is nan"),
        ({"n_boot": -1}, "n_boot"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    corpus, _, _ = ot.synthetic.gamed(tasks=2, runs_per_task=1)
    with pytest.raises(ot.ParameterError, match=said):
        ot.rewards.failure_modes(corpus, **options)
