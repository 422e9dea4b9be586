"""pass^k and pass@k: trials that were never judged, successes to rounding, costs and ends of tau2-bench."""

import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

#: What the four trials of four tasks earned; None was never judged, for want of a server.
EARNED: dict[str, list[float | None]] = {
    "t1": [1.0, None, None, None],
    "t2": [1.0, 0.5, 0.5, 0.0],
    "t3": [None] * 4,
    "t4": [1.0, 0.9999999, 0.0, 1.0],
}


def simulation(task: str, trial: int, reward: float | None, **more: Any) -> dict[str, Any]:
    return {
        **{
            "id": f"sim-{task}-{trial}",
            "task_id": task,
            "trial": trial,
            "agent_cost": 0.01,
            "user_cost": 0.002,
        },
        "termination_reason": "infrastructure_error" if reward is None else "user_stop",
        "reward_info": None if reward is None else {"reward": reward},
        "messages": [
            {"role": "assistant", "content": "Hello", "turn_idx": 0, "cost": None},
            {"role": "user", "content": "Book it", "turn_idx": 1, "cost": 0.001},
            {"role": "assistant", "content": "Done", "turn_idx": 2, "cost": 0.01},
        ][: 2 if reward is None else 3],
        **more,
    }


def benchmark(folder: Path, simulations: list[dict[str, Any]]) -> ot.Corpus:
    path = folder / "results.json"
    info = {"agent_info": {"llm": "m"}, "environment_info": {"domain_name": "airline"}}
    document = {"timestamp": "2026-01-01T00:00:00", "info": info, "tasks": [], "simulations": simulations}
    path.write_text(json.dumps(document), encoding="utf-8")
    return ot.read_traces(path)


@pytest.fixture
def corpus(tmp_path: Path) -> ot.Corpus:
    rows = [simulation(task, at, one) for task, paid in EARNED.items() for at, one in enumerate(paid)]
    return benchmark(tmp_path, rows)


def test_trials_that_were_never_judged_are_no_failures(corpus: ot.Corpus) -> None:
    rates = ot.evaluation.pass_rates(corpus)
    assert rates["k"].to_list() == [1, 2, 3, 4]
    first, second, *_ = rates.rows(named=True)
    assert first["pass_all"] == first["pass_any"] == pytest.approx((1 + 1 / 4 + 3 / 4) / 3)
    assert (first["n_tasks"], first["n_tasks_unjudged"], first["n_tasks_short"]) == (3, 1, 0)
    assert (first["n_runs"], first["n_runs_unjudged"]) == (16, 7)
    assert (second["pass_all"], second["pass_any"], second["n_tasks"]) == (0.25, 0.75, 2)
    assert second["n_tasks_short"] == 1
    each = ot.evaluation.pass_rates(corpus, each=True)
    assert each.rows() == [
        *[("airline/t1", 4, 1, 1), ("airline/t2", 4, 4, 1)],
        *[("airline/t3", 4, 0, 0), ("airline/t4", 4, 4, 3)],
    ]
    assert ot.evaluation.pass_rates(corpus, by="group").drop("k").equals(rates.drop("k"))


def test_rates_are_shares_of_all_choices_of_k_trials(corpus: ot.Corpus) -> None:
    for k in (1, 2, 3, 4):
        every, some = [], []
        for paid in EARNED.values():
            judged = [one >= 1 - 1e-6 for one in paid if one is not None]
            if len(judged) >= k:
                chosen = list(itertools.combinations(judged, k))
                every.append(sum(map(all, chosen)) / len(chosen))
                some.append(sum(map(any, chosen)) / len(chosen))
        row = ot.evaluation.pass_rates(corpus, k=k).row(0, named=True)
        assert row["pass_all"] == pytest.approx(sum(every) / len(every))
        assert row["pass_any"] == pytest.approx(sum(some) / len(some))
    assert ot.evaluation.pass_rates(corpus, k=5)["pass_all"].to_list() == [None]
    for k in (0, -1, 1.5, True, []):
        with pytest.raises(ot.ParameterError, match="expected whole numbers above 0"):
            ot.evaluation.pass_rates(corpus, k=k)  # type: ignore[arg-type]
    with pytest.raises(ot.ParameterError, match=r"^k is 1099511627776, expected at most 4,294,967,295$"):
        ot.evaluation.pass_rates(corpus, k=[1, 2**40])


def test_success_is_reached_to_rounding_everywhere(corpus: ot.Corpus) -> None:
    paid = ot.rewards.compute(corpus, "success").filter(pl.col("task_id") == "airline/t4")
    assert paid["value"].to_list() == [1.0, 1.0, 0.0, 1.0]
    strict = ot.rewards.compute(corpus, {"success": {"threshold": 0.99999}})
    assert strict.filter(pl.col("task_id") == "airline/t4")["value"].to_list() == [1.0, 1.0, 0.0, 1.0]
    assert ot.evaluation.pass_rates(corpus, success=0.5, k=1, each=True)["n_passed"].to_list() == [1, 3, 0, 3]
    suspects = ot.credit(corpus, method="spectrum", unit="team", by="agent", threshold=1.0)
    counted = suspects.filter(pl.col("reason").is_null()).height
    assert counted == 8  # two tasks have failures and successes among their judged trials


def test_the_run_states_what_its_agent_cost(corpus: ot.Corpus, tmp_path: Path) -> None:
    """The message of the user has a price; that of the agent's model stands in the run's own sum."""
    costs = corpus.measures.filter(pl.col("kind") == "cost").collect()
    of = lambda name: costs.filter(pl.col("name") == name)["value"]  # noqa: E731
    assert of("cost_usd").sum() == pytest.approx(0.16) and len(of("cost_usd")) == 16
    assert of("user_cost_usd").to_list() == [0.002] * 16
    assert corpus.findings.filter(pl.col("code") == "usage.conflict").collect().height == 0
    # a sum below its parts is none
    low = benchmark(tmp_path, [simulation("t", 0, 1.0, agent_cost=0.0, user_cost=None)])
    told = low.measures.filter(pl.col("name").cast(pl.String).str.ends_with("cost_usd")).collect()
    assert sorted(told["value"]) == [0.001, 0.01]
    finding = low.findings.filter(pl.col("code") == "usage.conflict").collect()
    assert finding["message"].to_list() == ["agent_cost is 0, the messages cost 0.01 in all, which is used"]


def test_why_a_run_ended_is_kept(tmp_path: Path) -> None:
    ends = ["user_stop", "max_steps", "infrastructure_error"]
    rows = [simulation("t", at, 0.0, termination_reason=end) for at, end in enumerate(ends)]
    corpus = benchmark(tmp_path, rows)
    events = corpus.events.select("trace", end=pl.col("extras").str.json_path_match("$.x_termination_reason"))
    assert events.unique().sort("trace").collect()["end"].to_list() == ends
    assert corpus.traces.select("partial").collect()["partial"].to_list() == [False, True, True]
    assert ot.evaluation.pass_rates(corpus, k=1)["n_runs_unjudged"].to_list() == [1]
