"""Who&When: the mapping against an independent walk of the source, the labels, and the first localization.

The source's texts are data that models and web pages wrote; nothing of them is kept here.
"""

import gzip
import hashlib
import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from orchestrace.credit.registry import FITTED
from samples.inputs import by_trace, edges_by_trace, reconcile, rows

SUBSETS = {"algorithm_generated": (64, 561), "hand_crafted": (29, 1526)}
EXECUTOR = "Computer_terminal"
PLAIN_ANSWER = "There is no code"


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "who-and-when"


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, dict[str, Any]]:
    """The source by the trace_id that its file gives."""
    found = {}
    for subset in SUBSETS:
        for line in gzip.decompress((folder / f"{subset}.jsonl.gz").read_bytes()).splitlines():
            run = json.loads(line)
            found[run["_file"].removesuffix(".json")] = run
    return found


@pytest.fixture(scope="module")
def subsets(folder: Path) -> dict[str, ot.Corpus]:
    return {subset: ot.read_traces(folder / f"{subset}.jsonl.gz") for subset in SUBSETS}


@pytest.fixture(scope="module")
def whole(folder: Path) -> ot.Corpus:
    return ot.read_traces([folder / f"{subset}.jsonl.gz" for subset in SUBSETS])


@pytest.fixture(scope="module")
def events(whole: ot.Corpus) -> dict[str, list[dict[str, Any]]]:
    """Events by trace_id, in document order."""
    return by_trace(whole, whole.events)


@pytest.fixture(scope="module")
def edges(whole: ot.Corpus) -> dict[str, list[tuple[int, int, str]]]:
    return edges_by_trace(whole)


def is_hand_crafted(run: dict[str, Any]) -> bool:
    return str(run["_file"]).startswith("Hand-Crafted/")


def speaker(run: dict[str, Any], turn: int) -> str:
    entry = run["history"][turn]
    return str(entry["role"]).split(" (")[0] if is_hand_crafted(run) else str(entry["name"])


def addressee(run: dict[str, Any], turn: int) -> str | None:
    """X of `Orchestrator (-> X)`."""
    role = str(run["history"][turn]["role"])
    return role.split("(-> ")[1].rstrip(")") if is_hand_crafted(run) and "(-> " in role else None


def by_turn(found: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    turns: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        turns[row["turn"]].append(row)
    return turns


def test_nothing_is_lost(whole: ot.Corpus, subsets: dict[str, ot.Corpus]) -> None:
    assert whole.records == {"read": 93, "used": 93, "ignored": 0, "duplicate": 0, "quarantined": 0}
    assert whole.events.select("trace", "turn").unique().collect().height == 2_087
    for subset, (n_traces, n_turns) in SUBSETS.items():
        corpus = subsets[subset]
        reconcile(corpus)
        assert len(corpus) == n_traces
        assert corpus.events.select("trace", "turn").unique().collect().height == n_turns
    assert set(whole.traces.collect()["importer"].cast(pl.String)) == {
        ot.list_importers().filter(pl.col("name").str.contains("who"))["name"].item()
    }


def test_traces(whole: ot.Corpus, runs: dict[str, dict[str, Any]]) -> None:
    found = {row["trace_id"]: row for row in rows(whole.traces)}
    assert list(found) == list(runs)
    for trace_id, row in found.items():
        run = runs[trace_id]
        assert row["task_id"] == run["question_ID"]
        assert row["topology"] in ({"centralized"} if is_hand_crafted(run) else {"mixed", "swarm"})
        assert row["time_basis"] == "ordinal"
        assert row["started_at"] is None


def test_the_reward_is_that_all_runs_failed(whole: ot.Corpus) -> None:
    measures = whole.measures.collect().with_columns(pl.col("kind", "name").cast(pl.String))
    rewards = measures.filter(pl.col("kind") == "reward")
    assert rewards.select("trace", "name", "value").rows() == [(n, "team", 0.0) for n in range(93)]
    unknown = measures.filter((pl.col("kind") == "cost") & pl.col("name").is_in(["tokens", "wall_clock_s"]))
    assert unknown.height == 0
    for name in ("tokens", "tokens_in", "tokens_out", "cost_usd", "duration_s", "score", "reward"):
        assert whole.events.collect()[name].null_count() == whole.events.collect().height


def test_every_turn_has_events_and_times_do_not_fall(
    runs: dict[str, dict[str, Any]], events: dict[str, list[dict[str, Any]]]
) -> None:
    for trace_id, run in runs.items():
        found = events[trace_id]
        assert sorted({row["turn"] for row in found}) == list(range(len(run["history"])))
        assert [row["turn"] for row in found] == sorted(row["turn"] for row in found)
        times = [row["t"] for row in found]
        assert times == sorted(times) and all(t == int(t) >= 0 for t in times)
        assert len({row["id"] for row in found}) == len(found)


def test_turns_of_group_chats(
    runs: dict[str, dict[str, Any]], events: dict[str, list[dict[str, Any]]]
) -> None:
    kinds: Counter[str] = Counter()
    for trace_id, run in runs.items():
        if is_hand_crafted(run):
            continue
        turns, history = by_turn(events[trace_id]), run["history"]
        for turn, entry in enumerate(history):
            types = sorted(row["type"] for row in turns[turn])
            is_result = entry["name"] == EXECUTOR and not entry["content"].startswith(PLAIN_ANSWER)
            following = history[turn + 1] if turn + 1 < len(history) else None
            runs_code = (
                entry["name"] != EXECUTOR
                and "```" in entry["content"]
                and following is not None
                and following["name"] == EXECUTOR
                and not following["content"].startswith(PLAIN_ANSWER)
            )
            is_last = following is None and "TERMINATE" in entry["content"]
            if is_result:
                assert types == ["tool_result"]
                (row,) = turns[turn]
                assert (row["tool"], row["trusted"]) == ("python", False)
                kinds["result"] += 1
            elif runs_code:
                assert types == ["message", "tool_call"]
                call = next(row for row in turns[turn] if row["type"] == "tool_call")
                assert (call["tool"], call["agent"]) == ("python", entry["name"])
                kinds["call"] += 1
            elif is_last and entry["name"] != EXECUTOR:
                assert types == ["return"]
                kinds["return"] += 1
            elif is_last:
                assert types in (["message"], ["return"])
            else:
                assert types == ["message"]
                kinds["message"] += 1
            for row in turns[turn]:
                if row["type"] in ("message", "return"):
                    assert row["agent"] == entry["name"]
                    assert row["content_ref"] == reference(entry["content"])
                if row["type"] == "message":
                    assert row["to"] is None
    assert kinds == {"result": 121, "call": 121, "return": 40, "message": 561 - 121 - 121 - 40 - 2}


def test_turns_of_orchestrated_runs(
    runs: dict[str, dict[str, Any]], events: dict[str, list[dict[str, Any]]]
) -> None:
    kinds: Counter[str] = Counter()
    for trace_id, run in runs.items():
        if not is_hand_crafted(run):
            continue
        turns, spawned = by_turn(events[trace_id]), set()
        for turn, entry in enumerate(run["history"]):
            found = turns[turn]
            types = sorted(row["type"] for row in found)
            role, target = entry["role"], addressee(run, turn)
            if role == "human":
                assert [(row["type"], row["agent"]) for row in found] == [("message", "user")]
                kinds["human"] += 1
            elif target is not None:
                first = target not in spawned
                spawned.add(target)
                assert types == (["message", "spawn"] if first else ["message"])
                assert {row["agent"] for row in found} == {"Orchestrator"}
                assert {row["to"] for row in found} == {target}
                kinds["delegation"] += 1
            elif role == "Orchestrator (thought)":
                assert [(row["type"], row["agent"]) for row in found] == [
                    ("orchestrator_decision", "Orchestrator")
                ]
                kinds["thought"] += 1
            elif role == "Orchestrator (termination condition)":
                assert [(row["type"], row["agent"]) for row in found] == [("aggregate", "Orchestrator")]
                kinds["termination"] += 1
            else:
                assert [(row["type"], row["agent"], row["to"]) for row in found] == [
                    ("return", role, "Orchestrator")
                ]
                kinds["worker"] += 1
            for row in found:
                if row["type"] != "spawn":
                    assert row["content_ref"] == reference(entry["content"])
    assert kinds == {"human": 29, "delegation": 353, "thought": 796, "termination": 15, "worker": 333}


def reference(content: str) -> str:
    return "sha256:" + hashlib.sha256(content.encode()).hexdigest()


def test_delegations_lead_to_the_next_turn_of_the_one_addressed(
    runs: dict[str, dict[str, Any]],
    events: dict[str, list[dict[str, Any]]],
    edges: dict[str, list[tuple[int, int, str]]],
) -> None:
    reached = silent = far = 0
    for trace_id, run in runs.items():
        if not is_hand_crafted(run):
            continue
        found = events[trace_id]
        for row in found:
            target = addressee(run, row["turn"])
            if target is None or row["type"] != "message":
                continue
            later = [
                turn for turn in range(row["turn"] + 1, len(run["history"])) if speaker(run, turn) == target
            ]
            ends = [
                found[dst] for src, dst, kind in edges[trace_id] if src == row["seq"] and kind == "message"
            ]
            assert [end["agent"] for end in ends] == [target] * len(ends)
            assert [end["turn"] for end in ends] == later[:1]
            reached += len(ends)
            silent += not later
            far += bool(later) and later[0] != row["turn"] + 1
    assert reached + silent == 353
    assert far > 250  # mostly a thought of the orchestrator comes between


def test_edges_run_forward_and_each_result_answers_one_call(
    events: dict[str, list[dict[str, Any]]], edges: dict[str, list[tuple[int, int, str]]]
) -> None:
    for trace_id, found in events.items():
        assert all(src < dst for src, dst, _ in edges[trace_id])
        results = [row["seq"] for row in found if row["type"] == "tool_result"]
        for seq in results:
            calls = [src for src, dst, kind in edges[trace_id] if dst == seq and kind == "return"]
            assert [found[src]["type"] for src in calls] == ["tool_call"]
            assert found[calls[0]]["turn"] == found[seq]["turn"] - 1


def test_graphs_have_no_cycle_and_time_runs_forward(whole: ot.Corpus) -> None:
    codes = set(whole.findings.collect()["code"].cast(pl.String))
    assert not codes & {"graph.cycle", "time.reversed", "field.ignored", "number.rounded"}


def test_spawned_agents_are_children_of_the_orchestrator(subsets: dict[str, ot.Corpus]) -> None:
    agents = subsets["hand_crafted"].agents.collect()
    users = agents.filter(pl.col("kind") == "user")
    assert set(users["agent"].cast(pl.String)) == {"user"}
    workers = agents.filter((pl.col("kind") == "agent") & (pl.col("agent").cast(pl.String) != "Orchestrator"))
    assert set(workers["parent"].cast(pl.String)) == {"Orchestrator"}
    assert set(workers["depth"]) == {1}
    chats = subsets["algorithm_generated"].agents.collect()
    assert "python" not in chats.filter(pl.col("kind") == "agent")["agent"].cast(pl.String).to_list()


def test_labels(
    whole: ot.Corpus, runs: dict[str, dict[str, Any]], events: dict[str, list[dict[str, Any]]]
) -> None:
    labels = rows(whole.labels)
    assert [label["trace_id"] for label in labels] == list(runs)
    assert len({label["annotator"] for label in labels}) == 1
    elsewhere = 0
    for label in labels:
        run = runs[label["trace_id"]]
        assert label["agent"].casefold() == run["mistake_agent"].casefold()
        assert label["turn"] == int(run["mistake_step"])
        turn = [row for row in events[label["trace_id"]] if row["turn"] == label["turn"]]
        own = [row for row in turn if row["agent"].casefold() == label["agent"].casefold()]
        assert label["event_id"] == (own or turn)[0]["id"]
        elsewhere += not own
    assert elsewhere == 3  # named in SOURCE.md


def test_a_broken_run_never_costs_its_neighbors(folder: Path, tmp_path: Path) -> None:
    lines = gzip.decompress((folder / "algorithm_generated.jsonl.gz").read_bytes()).splitlines()
    mutated = [lines[0], lines[1][:-30], b'{"history": 5, "mistake_agent": "x"}', b"{}", lines[2]]
    (tmp_path / "runs.jsonl").write_bytes(b"\n".join(mutated))
    corpus = ot.read_traces(tmp_path)
    reconcile(corpus)
    assert len(corpus) == 2
    assert corpus.quarantine.collect()["line"].to_list() == [2, 3, 4]


# --- localization -----------------------------------------------------------------------------------------


def all_credits(corpus: ot.Corpus, reward: str) -> pl.DataFrame:
    """Every method of the package, at the units that localization reads."""
    found = []
    ours = [method["name"] for method in _core.methods()] + list(FITTED)  # examples register others
    known = ot.list_methods().filter(pl.col("name").is_in(ours))
    for method, units, params in known.select("name", "units", "params").rows():
        # exact values of games end at twenty players
        drawn = {"samples": 64} if "samples" in {param["name"] for param in params} else {}
        found += [
            ot.credit(corpus, method=method, unit=unit, reward=reward, **drawn).with_columns(
                pl.col("method").cast(pl.String)
            )
            for unit in ("turn", "agent")
            if unit in units
        ]
    return pl.concat(found)


@pytest.mark.parametrize("subset", SUBSETS)
@pytest.mark.parametrize("reward", ["team", "failed"])
def test_localization_of_all_methods(subsets: dict[str, ot.Corpus], subset: str, reward: str) -> None:
    corpus = subsets[subset]
    failed = corpus.traces.select("trace_id").collect().with_columns(failed=pl.lit(1.0))
    table = ot.evaluation.failure_attribution(
        all_credits(corpus.with_measures(failed), reward), corpus.labels, within=(1, 5)
    )
    methods = set(table["method"])
    assert {"uniform", "discounted", "flow", "grpo"} <= methods
    baselines = {method for method in methods if method.startswith("baseline: ")}
    assert len(baselines) == 5
    assert table["n_traces"].unique().to_list() == [SUBSETS[subset][0]]
    for metric in ("agent_accuracy", "step_accuracy", "within_1", "within_5", "mrr"):
        assert table[metric].is_between(0, 1).all()
        assert (table[f"{metric}_lower"] <= table[metric] + 1e-12).all()
        assert (table[metric] <= table[f"{metric}_upper"] + 1e-12).all()
    assert table.filter(pl.col("step_accuracy") > pl.col("within_1")).height == 0
    marks = table.filter(~pl.col("method").is_in(list(baselines)))
    for verdict, metric in (("agent_vs_best", "agent_accuracy"), ("step_vs_best", "step_accuracy")):
        assert set(marks[verdict].drop_nulls()) <= {"better", "worse", "indistinct"}
        assert (marks[verdict].is_null() == marks[metric].is_null()).all()


def owner(row: dict[str, Any], found: list[dict[str, Any]]) -> str:
    """A result belongs to the turn before it, whose code it ran, unless its agent acts in other ways too."""
    acting = {other["agent"] for other in found if other["type"] != "tool_result"}
    if row["type"] != "tool_result" or row["agent"] in acting:
        return str(row["agent"])
    return str(next(other["agent"] for other in found if other["turn"] == row["turn"] - 1))


@pytest.mark.parametrize("subset", SUBSETS)
def test_positional_baselines(
    subsets: dict[str, ot.Corpus],
    runs: dict[str, dict[str, Any]],
    events: dict[str, list[dict[str, Any]]],
    subset: str,
) -> None:
    corpus = subsets[subset]
    n_traces = SUBSETS[subset][0]
    table = ot.evaluation.failure_attribution(ot.credit(corpus, method="uniform", unit="turn"), corpus.labels)
    rules = table.with_columns(rule=pl.col("method").str.strip_prefix("baseline: "))
    agents = {rule: share * n_traces for rule, share in rules.select("rule", "agent_accuracy").rows()}
    steps = {rule: share * n_traces for rule, share in rules.select("rule", "step_accuracy").rows()}

    expected: Counter[str] = Counter()
    for trace_id in corpus.traces.collect()["trace_id"]:
        run, found = runs[trace_id], events[trace_id]
        owners = {row["turn"]: owner(row, found) for row in found if row["agent"] != "user"}
        said = [name.casefold() for _, name in sorted(owners.items())]
        blamed, step = run["mistake_agent"].casefold(), int(run["mistake_step"])
        expected["first"] += said[0] == blamed
        expected["last"] += said[-1] == blamed
        expected["most"] += max(said, key=lambda name: (said.count(name), -said.index(name))) == blamed
        expected["first step"] += step == min(owners)
        expected["last step"] += step == max(owners)
    for rule, key in (
        ("first speaker", "first"),
        ("last speaker", "last"),
        ("most frequent speaker", "most"),
    ):
        assert agents[rule] == pytest.approx(expected[key]), rule
    assert steps["first speaker"] == pytest.approx(expected["first step"])
    assert steps["last speaker"] == pytest.approx(expected["last step"])
    if subset == "hand_crafted":  # every turn is one speaker's, so these are the numbers of SOURCE.md
        assert (expected["last"], expected["most"]) == (17, 10)
    else:  # SOURCE.md counts the executor as a speaker, which no label ever blames
        assert expected["last"] >= 21 and expected["most"] >= 23


def test_the_numbers_of_the_source_description(runs: dict[str, dict[str, Any]]) -> None:
    """The positional baselines as SOURCE.md counts them, from the source itself."""
    found: Counter[tuple[bool, str]] = Counter()
    for run in runs.values():
        said = [speaker(run, turn) for turn in range(len(run["history"]))]
        blamed, hand = run["mistake_agent"].casefold(), is_hand_crafted(run)
        found[hand, "last"] += said[-1].casefold() == blamed
        found[hand, "most"] += Counter(said).most_common(1)[0][0].casefold() == blamed
        found[hand, "step 1"] += run["mistake_step"] == "1"
    assert (found[False, "last"], found[True, "last"]) == (21, 17)
    assert (found[False, "most"], found[True, "most"]) == (23, 10)
    assert found[False, "step 1"] == 15
