"""Decisions know nothing of what came after them: each run cut behind each decision says the same of it."""

import io
import json
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.decisions.tables.verb import KINDS
from samples.cut_runs import documents_of, known_behind_the_cut
from samples.hand_runs import event, run
from samples.random_runs import Document


def read(documents: list[Document]) -> ot.Corpus:
    data = "\n".join(map(json.dumps, documents)).encode()
    return ot.read_traces(io.BytesIO(data), format="native", time_basis="seconds")


GENERATED: dict[str, Any] = {
    "generate": lambda: ot.generate(traces=40, seed=3),
    "planted": lambda: ot.synthetic.planted(traces=48, seed=1, spawn_effect=1.0)[0],
    "gamed": lambda: ot.synthetic.gamed(tasks=6, runs_per_task=2, seed=1)[0],
}


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ends_with_the_decision_says_the_same(name: str, kind: Any) -> None:
    corpus = read(documents_of(GENERATED[name]()))
    whole, cut = known_behind_the_cut(
        corpus, kind, "seconds", **({"source": "turn"} if kind == "stop" else {})
    )
    assert whole.height > 10 or name == "gamed"
    assert_frame_equal(whole, cut)


def crashing_team(task: int, *, answers: bool) -> Document:
    """The lead spawns a worker, whose role only its own events tell; it may crash before it has any."""
    events = [
        event(0, agent="lead", type="orchestrator_decision", role="lead"),
        event(1, agent="lead", type="spawn", to="w", subtask_id="s"),
    ]
    if answers:
        events.append(event(2, agent="w", type="return", to="lead", role="coder"))
    return run(task, 0.9 if answers else 0.0, events, []) | {"trace_id": f"{task} {answers}"}


def test_delegates_that_crash_do_not_drop_out() -> None:
    """Roles read from the future made coders look better: those that crashed never told theirs."""
    corpus = read([crashing_team(task, answers=answers) for task in range(8) for answers in (True, False)])
    table = ot.decisions.table(corpus, "delegate")
    assert table["action"].to_list() == ["w"] * 16
    (row,) = ot.effects.delegation(corpus, delegate="role").to_dicts()
    assert (row["delegate"], row["n_delegations"]) == ("w", 16) and row["mean"] == pytest.approx(0.45)
    assert json.loads(row["params"])["roles_told_later"] == 8


def test_a_role_that_the_spawn_tells_is_known() -> None:
    events = [
        event(0, agent="lead", type="orchestrator_decision"),
        event(1, agent="lead", type="spawn", to="w", role="coder"),
        event(2, agent="lead", type="message", to="w"),
    ]
    table = ot.decisions.table(read([run(0, 1.0, events, [])]), "delegate")
    assert table["action"].to_list() == ["coder", "coder"]


def test_a_spawn_belongs_to_the_decision_before_it() -> None:
    """Whatever was heard in between: the table and the estimate count the same decisions as spawning."""
    calls = [
        event(0, agent="lead", type="orchestrator_decision"),
        event(1, agent="lead", type="tool_call", tool="search"),
        event(2, agent="lead", type="tool_result", tool="search"),
        event(3, agent="lead", type="spawn", to="w"),
        event(4, agent="w", type="return", to="lead"),
        event(5, agent="lead", type="orchestrator_decision"),
        event(6, agent="lead", type="aggregate", to="user"),
    ]
    documents = [run(task, 1.0, calls, []) for task in range(4)]
    corpus = read([one | {"trace_id": f"r{n}"} for n, one in enumerate(documents)])
    table = ot.decisions.table(corpus, "spawn")
    assert table["action"].to_list() == ["spawn", "no_spawn"] * 4
    bounds = ot.effects.spawn(corpus, costs=False).filter(estimate="bounds").row(0, named=True)
    assert (bounds["n_treated"], bounds["n_control"]) == (4, 4)


@pytest.mark.parametrize("seed", range(3))
def test_the_table_and_the_estimate_have_one_definition_of_spawning(seed: int) -> None:
    corpus, _ = ot.synthetic.planted(traces=40, seed=seed, spawn_effect=1.0)
    table = ot.decisions.table(corpus, "spawn")
    root = (pl.col("type") == "orchestrator_decision") & pl.col("is_root")
    found = ot.effects.spawn(corpus, among=root, costs=False)
    bounds = found.filter(estimate="bounds").row(0, named=True)
    spawning = table.filter(action="spawn").height
    assert 0 < spawning == bounds["n_treated"]
    assert table.height - spawning == bounds["n_control"]
    assert table.filter(pl.col("effect").is_not_null())["n_action"].n_unique() <= 2
