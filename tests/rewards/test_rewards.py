"""Rules by hand: the worked examples of the literature, what is null and why, and mistakes of callers."""

import io
import json
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.random_runs import Document, jsonl


def document(events: list[dict[str, Any]], edges: list[tuple[int, int, str]] = [], **more: Any) -> Document:  # noqa: B006
    return {
        "trace_id": "run",
        "task_id": "task",
        "events": [{"id": f"e{n}", "t": n, **event} for n, event in enumerate(events)],
        "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": kind} for u, v, kind in edges],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
        **more,
    }


def read(*documents: Document) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))), time_basis="seconds")


def paid(one: Document, name: str, /, **params: Any) -> list[float | None]:
    return ot.rewards.compute(read(one), {name: params})["value"].to_list()


LEAD = {"agent": "lead", "type": "orchestrator_decision"}


def staged(stages: list[list[int]]) -> Document:
    """A lead with one step a stage, whose sub-agents take so many steps each, and return."""
    events: list[dict[str, Any]] = []
    for at, steps in enumerate(stages):
        events.append(LEAD)
        names = [f"{at}-{n}" for n in range(len(steps))]
        events += [{"agent": "lead", "type": "spawn", "to": name} for name in names]
        for name, n in zip(names, steps, strict=True):
            events += [{"agent": name, "type": "tool_call", "tool": "run"}] * (n - 1)
            events.append({"agent": name, "type": "return", "to": "lead"})
    return document(events)


def test_stages_of_parl() -> None:
    """(1, [3, 5, 2]), (1, []), (1, [4]): 12 critical steps of 17."""
    run = staged([[3, 5, 2], [], [4]])
    assert paid(run, "critical_steps") == [-12.0]
    assert paid(run, "speedup") == [5 / 17]
    assert paid(run, "finish") == [1.0]
    assert paid(run, "instantiation", n_target=8) == [0.5]
    assert paid(run, "instantiation", n_target=2) == [1.0]
    assert paid(run, "instantiation") == [None]
    assert paid(run, "parl") == [1.0 + 0.1 * (5 / 17) + 0.1]
    assert paid(run, "parl", parallel="instantiation", n_target=8, lambda_finish=0.0) == [1.0 + 0.1 * 0.5]


def stepped(train_step: float | None, stages: list[list[int]]) -> Document:
    """Such a run at a step of training."""
    return staged(stages) | ({} if train_step is None else {"metrics": {"train_step": train_step}})


def test_weights_follow_from_the_windows_of_training() -> None:
    """Step 1: one of four runs has two agents, ¾ is left. Step 2: all have, nothing is left."""
    team, alone = [[2, 2]], [[]]
    runs = [stepped(1, team), *(stepped(1, alone) for _ in range(3)), stepped(2, team), stepped(None, team)]
    corpus = read(*(run | {"trace_id": f"run {n}"} for n, run in enumerate(runs)))
    asked = {"anneal": "diagnostic", "lambda_parallel": 0.4, "lambda_finish": 0.8}
    table = ot.rewards.compute(corpus, {"parl": asked})
    speedup = ot.rewards.compute(corpus, "speedup")["value"][0]
    assert table["value"].to_list()[0] == (1.0 + 0.4 * 0.75 * speedup) + 0.8 * 0.75
    assert table["value"].to_list()[1:] == [1.0, 1.0, 1.0, 1.0, None]
    assert table["reason"].to_list() == [None] * 5 + ["field.absent"]
    left = [json.loads(told)["anneal_left"] for told in table["params"]]
    assert left == [0.75, 0.75, 0.75, 0.75, 0.0, None]
    for number in range(6):  # one trace is explained by what all of them say
        parts = ot.rewards.explain(corpus, number, "parl", params=asked)
        assert set(parts["params"]) == {table["params"][number]}
        assert set(parts["total"]) == {table["value"][number]}
    assert sum(ot.rewards.explain(corpus, 0, "parl", params=asked)["value"]) == table["value"][0]
    rest = ot.rewards.compute(corpus.filter(pl.col("trace") == 0), {"parl": asked})
    assert rest["value"].to_list() == [1.0]  # alone in its step, with two agents


def test_sub_agents_of_mgrpo() -> None:
    """Format ½, quality .7, outcome 1 with .1, .4, .5: .05 + .28 + .5. The root is not paid."""
    run = document(
        [
            LEAD,
            {"agent": "lead", "type": "spawn", "to": "a"},
            {"agent": "a", "type": "tool_call", "tool": "run", "ok": True, "score": 0.5, "reward": 0.25},
            {"agent": "a", "type": "tool_call", "tool": "run", "ok": False},
            {"agent": "a", "type": "return", "to": "lead", "score": 0.9, "reward": 0.5},
            {"agent": "b", "type": "return", "to": "lead"},
        ]
    )
    table = ot.rewards.compute(read(run), "mgrpo_sub")
    assert table["unit_id"].to_list() == ["a", "b"]
    assert table["value"].to_list() == [0.1 * 0.5 + 0.4 * 0.7 + 0.5, None]
    assert table["reason"].to_list() == [None, "field.absent"]
    assert paid(run, "mgrpo_sub", alpha_format=0.0, quality="reward") == [0.4 * 0.75 + 0.5, 0.5]
    assert paid(run, "mgrpo_sub", alpha_format=0.0, alpha_quality=0.0) == [0.5, 0.5]
    parts = ot.rewards.explain(read(run), 0, "mgrpo_sub").filter(unit_id="a")
    assert parts["addend"].to_list() == ["format", "quality", "outcome"]
    assert parts["value"].to_list() == [0.1 * 0.5, 0.4 * 0.7, 0.5]
    del run["rewards"]["team"]
    table = ot.rewards.compute(read(run), {"mgrpo_sub": {"alpha_format": 0.0, "alpha_quality": 0.0}})
    assert table["reason"].to_list() == ["reward.absent"] * 2


def test_shaping_leaves_no_trace_in_differences_of_rollouts_that_begin_alike() -> None:
    def run(name: str, values: list[float]) -> Document:
        events = [{"agent": "a", "type": "message", "turn": n, "value": v} for n, v in enumerate(values)]
        return document(events) | {"trace_id": name, "rewards": {"team": values[-1]}}

    runs = [run("x", [0.3, 0.9, 0.1]), run("y", [0.3, 0.2]), run("z", [0.3, 0.4, 0.8, 0.5])]
    gamma = 0.9
    table = ot.rewards.compute(read(*runs), {"shaping": {"gamma": gamma}})
    whole = table.group_by("trace", maintain_order=True).agg(
        (pl.col("value") * gamma ** pl.int_range(pl.len())).sum()
    )
    assert whole["value"].to_list() == pytest.approx([-0.3] * 3)
    base = read(*runs)
    shaped = base.with_measures(
        ot.rewards.compute(base, "outcome").select("trace", shaped=pl.col("value") + whole["value"])
    )
    advantages = [
        ot.credit(shaped, method="grpo", unit="team", reward=name)["credit"] for name in ("team", "shaped")
    ]
    assert advantages[0].to_list() == pytest.approx(advantages[1].to_list())


def test_puppeteer() -> None:
    """r = 1, λ = .1, φ = 1, no discount, two choices: R_2 = .890139, R_1 = .820824."""
    assert paid(document([LEAD, LEAD]), "puppeteer") == pytest.approx([0.820824, 0.890139], abs=5e-7)


def test_split() -> None:
    """Agents on {1}, {1, 2} with work (2, 4): ⅔, ¾, 1, hence .793701."""
    step = {"type": "tool_call", "tool": "run"}
    run = document(
        [
            {**LEAD, "duration_s": 0},
            {"agent": "lead", "type": "spawn", "to": "a", "duration_s": 0},
            {"agent": "lead", "type": "spawn", "to": "b", "duration_s": 0},
            {"agent": "a", **step, "subtask_id": "1", "duration_s": 2},
            {"agent": "b", **step, "subtask_id": "1", "duration_s": 2},
            {"agent": "b", **step, "subtask_id": "2", "duration_s": 2},
        ]
    )
    assert paid(run, "split") == [pytest.approx(0.793701, abs=5e-7)]


def test_what_is_absent_is_null_with_a_reason() -> None:
    run = document([LEAD])
    del run["rewards"]["team"]
    other = document([LEAD]) | {"trace_id": "other"}
    table = ot.rewards.compute(read(run, other), ot.rewards.list_rules()["reward"].to_list())
    told = {(row["trace"], row["reward"]): row for row in table.iter_rows(named=True)}
    assert told[0, "outcome"]["reason"] == "reward.absent" and told[1, "outcome"]["value"] == 1.0
    assert told[0, "puppeteer"]["reason"] == "reward.absent"
    assert told[0, "agent"]["reason"] == "field.absent"
    assert told[0, "tokens"]["reason"] == "field.absent"
    assert told[1, "matpo"]["reason"] == "reward.absent"
    assert (table["value"].is_null() == table["reason"].is_not_null()).all()


def test_a_sum_beyond_the_floats_is_null() -> None:
    run = document([LEAD], rewards={"team": 1e308})
    table = ot.rewards.compute(read(run), {"outcome": {"weight": 1e9}})
    assert table["value"].to_list() == [None] and table["reason"].to_list() == ["result.range"]


def test_channels_are_told_by_name() -> None:
    run = document([LEAD], rewards={"accuracy": 1.0, "tidy": 0.5})
    table = ot.rewards.compute(
        read(run), ["matpo", "outcome"], channels={"outcome": "accuracy", "format": "tidy"}
    )
    assert table["value"].to_list() == [1.05, 1.0]
    params = json.loads(table["params"][0])
    assert params["channels.format"] == "tidy" and params["alpha_format"] == 0.1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("outcom",), "unknown reward 'outcom'; did you mean 'outcome'?"),
        (([],), "rewards names no rule"),
        ((["parl", "parl"],), "'parl' is requested twice"),
        (({"parl": 3},), "rewards['parl'] is 3, expected parameters by name"),
        (({"parl": {"lamda_finish": 1.0}},), "did you mean 'lambda_finish'?"),
        (({"parl": {"anneal": "linaer"}},), "did you mean 'linear'?"),
        ((3,), "rewards is 3, expected a list of names"),
    ],
)
def test_mistakes_are_said_in_a_line(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        ot.rewards.compute(ot.generate(traces=2, seed=0), *arguments)
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("channels", "said"),
    [
        ({"outcom": "team"}, "did you mean 'outcome'?"),
        ({"outcome": "taem"}, "did you mean 'team'?"),
        ({"outcome": 3}, "channels['outcome'] is 3, expected the name of a reward"),
        ("team", "channels is 'team', expected names by channel"),
    ],
)
def test_mistakes_about_channels(channels: Any, said: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        ot.rewards.compute(ot.generate(traces=2, seed=0), "outcome", channels=channels)
    assert said in str(error.value)


def test_rewards_of_the_team_become_channels() -> None:
    corpus = ot.generate(traces=6, seed=0)
    table = ot.rewards.compute(corpus, ["parl", "tokens"])
    own = ot.rewards.attach(corpus, table)
    assert {"parl", "tokens"} <= set(own.reward_channels())
    credits = ot.credit(own, reward="parl", unit="agent")
    sums = credits.group_by("trace", maintain_order=True).agg(pl.col("credit").sum())["credit"]
    assert sums.to_list() == pytest.approx(table.filter(reward="parl")["value"].to_list())
    with pytest.raises(ot.ParameterError, match="reward 'agent' pays the unit 'agent'"):
        ot.rewards.attach(corpus, ot.rewards.compute(corpus, "agent"))


def test_explain_names_a_trace() -> None:
    corpus = ot.generate(traces=3, seed=0)
    name = corpus.traces.select("trace_id").collect()["trace_id"][1]
    assert ot.rewards.explain(corpus, name, "parl").equals(ot.rewards.explain(corpus, 1, "parl"))
    for wrong, said in [
        (7, "unknown trace 7"),
        (True, "trace is True"),
        ("x", "unknown trace 'x'"),
    ]:
        with pytest.raises(ot.ParameterError, match=said):
            ot.rewards.explain(corpus, wrong, "parl")
