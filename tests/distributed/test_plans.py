"""Plans, tasks and reductions: the table of one machine, whatever happens to tasks."""

import errno
import json
import os
import pickle
import random
import threading
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.base.division import Arguments
from orchestrace.disk import partitioned
from orchestrace.disk.home import Home
from orchestrace.distributed.arguments import KINDS, arguments_of, text_of
from orchestrace.distributed.folder import part_file
from orchestrace.interventions import composition, content, timing
from orchestrace.storage.addresses import address_of
from samples import divided
from samples.divided import CALLS, assert_same_bits, one_machine, planned
from samples.examples import examples

D = ot.distributed


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def own_folder(tmp_path: Path) -> Path:
    """A corpus that a test may change."""
    (tmp_path / "own").mkdir()
    return divided.corpus_on_disk(tmp_path / "own", traces=48, partitions=3)


def finished(folder: Path, tmp_path: Path, call: str = "taint") -> D.Plan:
    plan = planned(folder, call, tmp_path / "plan")
    for task in plan.tasks:
        D.run_task(task)
    return plan


# --- the same bytes ---------------------------------------------------------------------------------------


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("call", CALLS)
def test_every_verb_gives_the_table_of_one_machine(folder: Path, tmp_path: Path, call: str) -> None:
    plan = planned(folder, call, tmp_path / "plan")
    assert len(plan.tasks) == 5
    order = random.Random(call)
    tasks = order.sample(plan.tasks, 5) + order.choices(plan.tasks, k=2)
    results = [D.run_task(task, threads=1 + n % 2, again=True) for n, task in enumerate(tasks)]
    order.shuffle(results)
    expected = one_machine(ot.read_corpus(folder), call)
    assert expected.height
    assert_same_bits(D.reduce(results), expected)
    assert_same_bits(D.reduce(tmp_path / "plan"), expected)
    scan = D.reduce(plan, sink=tmp_path / "table.parquet")
    assert_same_bits(scan.collect(), expected)


def test_every_verb_that_is_listed_is_tested() -> None:
    assert {verb for verb, _, _ in CALLS.values()} == set(D.list_verbs()["verb"])


@pytest.mark.every_nth(4)
@pytest.mark.parametrize(
    "call", ["credit flow", "replay of several", "scaling curve", "metrics by task", "sub-agents"]
)
@pytest.mark.parametrize("kept", [False, True])
def test_partitions_beyond_the_budget_are_divided_as_on_one_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, kept: bool
) -> None:
    corpus = ot.read_corpus(divided.corpus_on_disk(tmp_path, partitions=2))
    groups = corpus.traces.group_by("group_id").agg(pl.col("n_events").sum()).collect()
    monkeypatch.setattr(partitioned, "EVENT_BYTES", corpus._memory // groups["n_events"].max())
    if kept:
        corpus = corpus.filter(pl.col("trace") % 3 != 1)
    expected = one_machine(corpus, call)
    n_pieces = sum(1 for _ in corpus.pieces())
    assert n_pieces > 2
    for tasks in (None, 2, 3):
        plan = planned(corpus, call, tmp_path / f"plan {tasks}", tasks=tasks)
        assert len(plan.tasks) == (tasks or n_pieces)
        assert sum(len(task.pieces) for task in plan.tasks) == n_pieces
        assert_same_bits(D.reduce([D.run_task(task) for task in reversed(plan.tasks)]), expected)


def test_prices_of_a_file_are_those_of_the_plan(folder: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    runs = ot.generate(traces=16, seed=2)
    models = runs.events.select("trace", "seq", model=pl.lit("ours")).collect()
    ot.export(runs.with_fields(models), "parquet", corpus)
    prices = tmp_path / "prices.csv"
    prices.write_text("model,input,output,valid_from\nours,0.1,0.30000000000000004,2020-01-01\n")
    expected = ot.costs.spawns(ot.read_corpus(corpus), prices=prices)
    assert expected["cost_usd"].count()
    plan = D.plan(corpus, "costs.spawns", prices=prices, folder=tmp_path / "plan")
    prices.unlink()  # no worker needs it
    assert_same_bits(D.reduce([D.run_task(task) for task in plan.tasks]), expected)
    prices.write_text("model,input,output\nours,0.1,0.3\n")
    with pytest.raises(ot.ParameterError, match="tasks are files of plain values"):
        D.plan(corpus, "costs.spawns", prices=ot.costs.read_prices(prices), folder=tmp_path / "frame")


def test_tasks_divide_the_events_about_evenly(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "taint", tmp_path / "plan", tasks=2)
    events = [task.events for task in plan.tasks]
    total = ot.read_corpus(folder).events.select(pl.len()).collect().item()
    assert sum(events) == total
    assert max(events) < 0.8 * total


def test_tasks_at_once_do_not_disturb_each_other(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "credit flow", tmp_path / "plan")
    results: list[D.TaskResult] = []
    work = [
        threading.Thread(target=lambda task=task: results.append(D.run_task(task, again=True)))
        for task in plan.tasks * 2
    ]
    for one in work:
        one.start()
    for one in work:
        one.join()
    assert len(results) == 10
    assert_same_bits(D.reduce(results), one_machine(ot.read_corpus(folder), "credit flow"))


def test_a_corpus_without_traces_has_the_table_of_one_machine(folder: Path, tmp_path: Path) -> None:
    nothing = ot.read_corpus(folder).filter(pl.lit(False))
    plan = planned(nothing, "credit flow", tmp_path / "plan")
    assert not plan.tasks
    assert_same_bits(D.reduce(plan), one_machine(nothing, "credit flow"))


def test_a_method_of_a_module_comes_along(folder: Path, tmp_path: Path) -> None:
    @ot.credit_method("even_of_tests", summary="the same for each event", quantity="share")
    def even(corpus, rewards, params, seed):
        n = pl.len().over("trace")
        events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
        return ot.EventValues(events.select(value=pl.col("amount") / n).collect())

    even.__module__ = "json"  # any module that a worker can import
    plan = D.plan(folder, "credit", method="even_of_tests", unit="agent", folder=tmp_path / "plan")
    assert plan.tasks[0].call.modules == ("json",)
    results = [D.run_task(task) for task in plan.tasks]
    expected = ot.credit(ot.read_corpus(folder), method="even_of_tests", unit="agent")
    assert_same_bits(D.reduce(results), expected)
    even.__module__ = "__main__"
    with pytest.raises(ot.ParameterError, match="put it into a module"):
        D.plan(folder, "credit", method="even_of_tests", folder=tmp_path / "other")


# --- what is written --------------------------------------------------------------------------------------


def test_tasks_survive_pickle_and_plans_survive_files(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "replay of several", tmp_path / "plan")
    for task in plan.tasks:
        assert pickle.loads(pickle.dumps(task)) == task
    assert len(pickle.dumps(plan.tasks[0])) < 3_000
    again = planned(folder, "replay of several", tmp_path / "plan")
    assert again == plan
    other = planned(folder, "replay of several", tmp_path / "elsewhere")
    assert other.id == plan.id
    with pytest.raises(ot.ParameterError, match="another plan"):
        planned(folder, "taint", tmp_path / "plan")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ot.ParameterError, match="not empty"):
        planned(folder, "taint", tmp_path / "full")


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_a_plan_that_could_not_be_written_is_made_by_the_same_call(
    folder: Path, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(ot.InputError, match="No space left on device"):
        patch.setattr(os, call, refused)
        ot.distributed.plan(folder, "taint", folder=tmp_path / "plan")
    half_written = tmp_path / "plan" / ".0123456789abcdef.plan.json.tmp"  # what a kill leaves
    half_written.write_text("{")
    plan = ot.distributed.plan(folder, "taint", folder=tmp_path / "plan")
    assert ot.distributed.status(plan)["state"].to_list() == ["missing"] * len(plan.tasks)


def test_a_plan_does_not_take_a_folder_with_parts_for_its_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "plan" / "parts").mkdir(parents=True)
    (tmp_path / "plan" / "parts" / "000000.json").write_text("{}")
    with pytest.raises(ot.ParameterError, match="is not empty and has no plan"):
        ot.distributed.plan(folder, "taint", folder=tmp_path / "plan")


def test_what_is_done_is_not_done_again(folder: Path, tmp_path: Path) -> None:
    plan = finished(folder, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "plan").rglob("*")}
    results = [D.run_task(task) for task in plan.tasks]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "plan").rglob("*")} == before
    assert D.status(plan)["state"].to_list() == ["done"] * 5
    assert D.status(plan)["rows"].sum() == D.reduce(results).height


def test_the_same_rows_are_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "credit sampled", tmp_path / "plan")
    digests = {D.run_task(plan.tasks[0], threads=threads, again=True).blake3 for threads in (1, 2, 1, 3)}
    assert len(digests) == 1


def test_every_intervention_can_be_in_a_file() -> None:
    specified = {
        name
        for module in (content, timing, composition)
        for name, one in vars(module).items()
        if isinstance(one, type)
        and issubclass(one, composition.Composable)
        and one.__module__ == module.__name__
        and "spec" in vars(one)
    }
    assert specified == set(KINDS) - {"PlannedPrices"}  # which a test above writes and reads


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: (
            st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner)
        ),
    )
)
@examples(300)
def test_arguments_come_back_from_their_text(value: object) -> None:
    given_ = Arguments((value,), {"name": value})
    again = arguments_of(text_of(given_))
    assert again == given_ and repr(again) == repr(given_)


# --- what goes wrong --------------------------------------------------------------------------------------


def test_absent_and_damaged_parts_are_named(folder: Path, tmp_path: Path) -> None:
    plan = finished(folder, tmp_path)
    expected = D.reduce(plan)
    parts = [tmp_path / "plan" / part_file(number) for number in range(5)]
    parts[0].write_bytes(parts[0].read_bytes()[:-7])
    parts[1].unlink()
    flipped = bytearray(parts[3].read_bytes())
    flipped[len(flipped) // 2] ^= 1
    parts[3].write_bytes(flipped)
    parts[4].with_suffix(".json").write_text("{")
    assert D.status(plan)["state"].to_list() == ["damaged", "missing", "done", "damaged", "damaged"]
    with pytest.raises(ot.InputError) as told:
        D.reduce(plan)
    message = str(told.value)
    assert "4 of 5 tasks" in message and message.endswith(f"run-task {plan.folder} 0-1,3-4")
    assert "bytes, expected" in message and "BLAKE3" in message and "is gone" in message
    assert "\n" not in message
    for task in plan.tasks:
        D.run_task(task)
    assert_same_bits(D.reduce(plan), expected)


def test_results_of_which_some_are_absent_are_refused(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "taint", tmp_path / "plan")
    results = [D.run_task(task) for task in plan.tasks]
    with pytest.raises(ot.InputError, match=r"2 of 5 tasks .* 1 \(it has no result\), 3 .* 1,3$"):
        D.reduce([results[0], results[4], results[2], results[0]])
    torn = replace(results[2], blake3="0" * 64)
    with pytest.raises(ot.InputError, match=r"task 2 gave two results .* 2$"):
        D.reduce([*results, torn])
    other = planned(folder, "metrics", tmp_path / "other")
    with pytest.raises(ot.ParameterError, match="several plans"):
        D.reduce([*results, D.run_task(other.tasks[0])])
    with pytest.raises(ot.ParameterError, match="no result"):
        D.reduce([])
    with pytest.raises(ot.ParameterError, match="of type int"):
        D.reduce([*results, 7])
    with pytest.raises(ot.ParameterError, match="expected a plan"):
        D.reduce(7)


def test_a_part_of_another_plan_does_not_count(folder: Path, tmp_path: Path) -> None:
    plan = finished(folder, tmp_path)
    other = planned(folder, "metrics", tmp_path / "other")
    for path in (tmp_path / "plan" / "parts").iterdir():
        (tmp_path / "other" / "parts" / path.name).write_bytes(path.read_bytes())
    assert D.status(other)["state"].to_list() == ["damaged"] * 5
    assert_same_bits(
        D.reduce([D.run_task(task) for task in other.tasks]), one_machine(ot.read_corpus(folder), "metrics")
    )
    assert D.status(plan)["state"].to_list() == ["done"] * 5


def test_another_version_is_refused(folder: Path, tmp_path: Path) -> None:
    plan = planned(folder, "taint", tmp_path / "plan")
    task = plan.tasks[0]
    with pytest.raises(ot.SchemaError, match="version 99 of plans"):
        D.run_task(replace(task, version=99))
    call = replace(task.call, engine="0.0.0")
    with pytest.raises(ot.SchemaError, match=r"orchestrace 0\.0\.0 .* same version everywhere"):
        D.run_task(replace(task, call=call))
    with pytest.raises(ot.SchemaError, match=r"orchestrace 0\.0\.0"):
        D.run(replace(plan, call=call))
    path = tmp_path / "plan" / "plan.json"
    value = json.loads(path.read_text())
    for changed, match in (
        ({**value, "version": 2}, "version 2 of plans"),
        ({**value, "id": "0"}, "damaged"),
        ({**value, "tasks": value["tasks"][1:]}, "damaged"),
        ({**value, "tasks": [{}]}, "not a plan"),
        ({**value, "call": None}, "not a plan"),
        ([], "not a JSON object"),
    ):
        path.write_text(json.dumps(changed))
        with pytest.raises(ot.SchemaError, match=match):
            D.reduce(tmp_path / "plan")
    path.write_text("{")
    with pytest.raises(ot.SchemaError, match="not JSON"):
        D.status(tmp_path / "plan")
    path.write_bytes(b"\xff")
    with pytest.raises(ot.SchemaError, match="not UTF-8"):
        D.status(tmp_path / "plan")
    path.unlink()
    with pytest.raises(ot.InputError, match="no plan in"):
        D.status(tmp_path / "plan")


def test_a_corpus_that_changed_is_refused(own_folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(own_folder)
    plan = planned(corpus, "metrics by task", tmp_path / "plan")
    D.run_task(plan.tasks[0])
    opened = ot.read_corpus(own_folder)
    moved = own_folder.rename(tmp_path / "moved")
    with pytest.raises(ot.InputError, match="no corpus in"):
        D.run_task(plan.tasks[1])
    results = [D.run_task(task, corpus=moved) for task in plan.tasks]
    assert_same_bits(D.reduce(results, corpus=moved), one_machine(ot.read_corpus(moved), "metrics by task"))
    more = tmp_path / "more.jsonl"
    ot.generate(more, traces=3, seed=99)
    more.write_bytes(more.read_bytes().replace(b'"trace-', b'"more-'))
    ot.ingest(more, moved)
    with pytest.raises(ot.InputError, match="not as it was planned"):
        D.run_task(plan.tasks[1], corpus=moved, again=True)
    moved.rename(own_folder)
    with pytest.raises(ot.ParameterError, match="has changed since it was opened"):
        planned(opened, "taint", tmp_path / "other")


def test_a_damaged_file_of_the_corpus_is_told(own_folder: Path, tmp_path: Path) -> None:
    plan = planned(own_folder, "taint", tmp_path / "plan")
    file = next((own_folder / f"part={plan.tasks[1].pieces[0][0]}" / "events").iterdir())
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    D.run_task(plan.tasks[0])
    with pytest.raises(ot.InputError, match="damaged"):
        D.run_task(plan.tasks[1])
    assert D.status(plan)["state"].to_list() == ["done", "missing", "missing"]


# --- what cannot be divided -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "arguments", "options", "match"),
    [
        ("compare", (), {}, "plan 'credit' for each method"),
        ("effects.spawn", (), {}, "estimates from all runs"),
        ("costs.table", (), {}, "may be of all traces"),
        ("metrix", (), {}, "did you mean 'metrics'"),
        (7, (), {}, "verb is 7, expected text"),
        ("credit", (), {"method": "floww"}, "did you mean 'flow'"),
        ("credit", (), {"method": "flow", "gama": 1}, "gama"),
        ("credit", (), {"reward": "teem"}, "did you mean 'team'"),
        ("credit", (), {"threads": 2}, "threads is not an option of a plan"),
        ("credit", (), {"method": "shapley", "outcome": len}, "plain values"),
        ("replay", (), {}, "needs an intervention"),
        ("replay", (ot.interventions.drop(agent="nobody"),), {}, "unknown agent 'nobody'"),
        ("replay", (ot.interventions.truncate(at=2), ot.interventions.truncate(at=2)), {}, "two scenarios"),
        ("taint", (), {"untrusted_tools": ["wep.*"]}, "unknown tool"),
        ("taint", (), {"untrusted_tool": ["web.*"]}, "untrusted_tool"),
        ("metrics", (), {"by": "taks"}, "taks"),
        ("decisions.table", ("spawn",), {}, "estimated from all runs"),
        ("stopping.epochs", ("attempt",), {}, "numbered by its group"),
        ("rewards.compute", ("outcom",), {}, "outcom"),
        ("rewards.compute", ({"parl": {"anneal": "diagnostic"}},), {}, "compares all traces of a step"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_planned(
    folder: Path, tmp_path: Path, verb, arguments, options, match
) -> None:
    with pytest.raises((ot.ParameterError, TypeError), match=match):
        D.plan(folder, verb, *arguments, folder=tmp_path / "plan", **options)
    assert not (tmp_path / "plan").exists()


def test_a_name_that_some_parts_lack_is_known(folder: Path, tmp_path: Path) -> None:
    corpus = ot.read_corpus(folder)
    event = corpus.events.select("id").tail(1).collect().item()
    agent = corpus.filter(pl.col("trace") == 0).agents.filter(kind="agent").select("agent").collect()[0, 0]
    for one in (ot.interventions.drop(event=event), ot.interventions.drop(agent=str(agent))):
        plan = D.plan(corpus, "replay", one, folder=tmp_path / str(one))
        results = [D.run_task(task) for task in plan.tasks]
        assert_same_bits(D.reduce(results), ot.replay(corpus, one))


def test_a_composed_scenario_of_unknown_names_is_refused_as_on_one_machine(
    folder: Path, tmp_path: Path
) -> None:
    one = ot.interventions.drop(agent="nobody") & ot.interventions.drop(agent="no one")
    with pytest.raises(ot.ParameterError, match="unknown agent 'nobody'"):
        ot.replay(ot.read_corpus(folder), one)
    plan = D.plan(folder, "replay", one, folder=tmp_path / "plan")
    results = [D.run_task(task) for task in plan.tasks]
    with pytest.raises(ot.ParameterError, match="unknown agent 'nobody'"):
        D.reduce(results)


def test_corpora_that_no_task_sees_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ot.ParameterError, match="expected one on disk"):
        D.plan(ot.generate(traces=2, seed=0), "taint", folder=tmp_path / "plan")
    own = ot.read_corpus(folder).with_measures(pl.DataFrame({"trace": [0], "own": [1.0]}))
    with pytest.raises(ot.ParameterError, match=r"export\(corpus, 'parquet'"):
        D.plan(own, "taint", folder=tmp_path / "plan")
    remote = ot.read_corpus(folder)
    remote._manifest.home = Home(address_of("https://me:secret@host/corpus"))
    with pytest.raises(ot.ParameterError, match="'https://host/corpus' has a query or a password"):
        D.plan(remote, "taint", folder=tmp_path / "plan")
    with pytest.raises(ot.InputError, match="no corpus"):
        D.plan(tmp_path, "taint", folder=tmp_path / "plan")
    with pytest.raises(ot.ParameterError, match="tasks is 0"):
        planned(folder, "taint", tmp_path / "plan", tasks=0)


def test_a_sink_is_not_written_over(folder: Path, tmp_path: Path) -> None:
    plan = finished(folder, tmp_path)
    (tmp_path / "table.parquet").write_text("mine")
    with pytest.raises(ot.InputError, match="exists"):
        D.reduce(plan, sink=tmp_path / "table.parquet")
    made = D.reduce(plan, sink=tmp_path / "table.parquet", overwrite=True)
    assert_same_bits(made.collect(), D.reduce(plan))
