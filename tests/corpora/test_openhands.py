"""OpenHands: the sums of SOURCE.md against an independent walk of the files; every event is looked at."""

import gzip
import hashlib
import json
import math
import shutil
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

Record = dict[str, Any]
TEXT = pl.col("type", "agent", "tool", "from", "to", "model").cast(pl.String)
CODE, KIND = pl.col("code").cast(pl.String), pl.col("kind").cast(pl.String)

RUNS = {
    "scikit-learn__scikit-learn-13142": (42, 22, 21, 507_122, 4_465, 0.4090938, True),
    "sphinx-doc__sphinx-7757": (74, 38, 37, 1_412_013, 7_924, 1.07185665, True),
    "pydata__xarray-7229": (121, 61, 60, 2_035_802, 16_051, 1.21061565, False),
}
"""Events, actions, responses, tokens read and written, dollars and verdict of each instance."""

CONVERSATIONS = {
    "cd94562403b9487ebdd4018e3f531dfd": (8, 3, 3, 11_583, 94),
    "38868567ae624dcba5678b534b99575c": (8, 2, 1, 10, 5),
    "a3f2edad6f594a2f820cbabb09f93b3d": (11, 3, 1, 10, 5),
    "30692f28b39a4e4eab8257c4b6b50ded": (11, 3, 1, 10, 5),
}
"""Events, responses, responses with usage, tokens read and written of the conversations."""

DATASET, MODEL = (
    "princeton-nlp__SWE-bench_Verified-test",
    "litellm_proxy%2Fanthropic%2Fclaude-3-7-sonnet-20250219",
)

STATES = {"agent_state_changed", "change_agent_state", "null", "think"}


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "openhands"


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder)


@pytest.fixture(scope="module")
def steps(folder: Path) -> dict[str, list[Record]]:
    """The events of V0 by what their trace is called first."""
    lines = gzip.decompress((folder / "v0/output.jsonl.gz").read_bytes()).decode().splitlines()
    found = {run["instance_id"]: run["history"] for run in map(json.loads, lines)}
    return found | {"demo1": json.loads((folder / "v0/demo1.json").read_text())}


@pytest.fixture(scope="module")
def conversations(folder: Path) -> dict[str, tuple[Record, list[Record]]]:
    return {
        name: (
            json.loads((folder / "v1" / name / "base_state.json").read_text()),
            [json.loads(path.read_text()) for path in sorted((folder / "v1" / name / "events").iterdir())],
        )
        for name in CONVERSATIONS
    }


@pytest.fixture(scope="module")
def events(corpus: ot.Corpus) -> dict[str, list[Record]]:
    """Events by what their trace is called, without the hash."""
    table = corpus.events.with_columns(TEXT).join(corpus.traces.select("trace", "trace_id"), on="trace")
    found: dict[str, list[Record]] = defaultdict(list)
    for row in table.sort("trace", "seq").collect().iter_rows(named=True):
        found[row["trace_id"].split("/")[0]].append(row)
    return found


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def response(event: Record) -> Record:
    return (event.get("tool_call_metadata") or {}).get("model_response") or {}


def spent(rows: list[Record]) -> tuple[int, int, int]:
    paid = [row for row in rows if row["tokens"] is not None]
    return len(paid), sum(row["tokens_in"] for row in paid), sum(row["tokens_out"] for row in paid)


def gen(row: Record) -> str | None:
    return json.loads(row["extras"] or "{}").get("x_gen")


def test_sums_are_those_of_the_source(corpus: ot.Corpus, events: dict[str, list[Record]]) -> None:
    assert events.keys() == {*RUNS, "demo1", *CONVERSATIONS}
    costs = corpus.measures.filter(KIND == "cost", pl.col("name").cast(pl.String) == "cost_usd")
    table = costs.join(corpus.traces.select("trace", "trace_id"), on="trace").select("trace_id", "value")
    dollars = {name.split("/")[0]: value for name, value in table.collect().iter_rows()}
    for name, (_, _, responses, read, written, usd, _) in RUNS.items():
        assert spent(events[name]) == (responses, read, written), name
        assert dollars[name] == pytest.approx(usd, rel=1e-12), name
    assert spent(events["demo1"]) == (4, 17_297, 2_024) and "demo1" not in dollars
    for name, (_, responses, paid, read, written) in CONVERSATIONS.items():
        assert spent(events[name]) == (paid, read, written), name
        assert len({gen(row) for row in events[name] if gen(row)}) == responses, name
    real = events["cd94562403b9487ebdd4018e3f531dfd"]
    assert sum(row["tokens_cached"] or 0 for row in real) == 7_552
    assert dollars["cd94562403b9487ebdd4018e3f531dfd"] == pytest.approx(0.00122745, rel=1e-12)


def test_a_response_counts_once_though_it_stands_twice(
    steps: dict[str, list[Record]], events: dict[str, list[Record]]
) -> None:
    for name, (n, actions, responses, read, written, _, _) in RUNS.items():
        history = steps[name]
        assert (len(history), sum("action" in event for event in history)) == (n, actions)
        usages = [response(event)["usage"] for event in history if response(event)]
        once = {response(event)["id"]: response(event)["usage"] for event in history if response(event)}
        assert (len(once), len(usages) > responses) == (responses, True)
        assert sum(usage["prompt_tokens"] for usage in once.values()) == read
        assert sum(usage["completion_tokens"] for usage in once.values()) == written
        assert {gen(row) for row in events[name] if row["tokens"] is not None} == once.keys()
    first = steps["scikit-learn__scikit-learn-13142"]
    assert (
        sum(response(event)["usage"]["prompt_tokens"] for event in first if response(event))
        + sum(response(event)["usage"]["completion_tokens"] for event in first if response(event))
        != 507_122 + 4_465
    )


def test_every_step_is_an_event_or_counted_by_kind(
    corpus: ot.Corpus, steps: dict[str, list[Record]], events: dict[str, list[Record]]
) -> None:
    ignored = Counter[str]()
    for name, history in steps.items():
        by_id = {row["id"]: row for row in events[name]}
        for event in history:
            kind = event.get("action") or event["observation"]
            row = by_id.pop(str(event["id"]), None)
            if kind in STATES and (kind != "think" or "observation" in event):
                assert row is None, (name, event["id"])
                ignored[f"openhands.{kind}"] += 1
                continue
            assert row is not None, (name, event["id"])
            if "observation" in event:
                assert (row["type"], row["trusted"]) == ("tool_result", False)
                assert row["content_ref"] == digest(event["content"])
                code = (event["extras"].get("metadata") or {}).get("exit_code")
                assert row["ok"] == (None if code is None else code == 0)
            elif event["source"] == "user":
                assert (row["type"], row["content_ref"]) == ("message", digest(event["args"]["content"]))
            elif kind == "finish":
                assert (row["type"], row["to"]) == ("return", "user")
                assert row["content_ref"] == digest(event["args"]["final_thought"])
            elif kind not in {"message", "think"}:
                assert row["tool"] == event["tool_call_metadata"]["function_name"]
                assert row["type"] == "tool_call"
        # what is left is what models said beside their calls
        assert all(key.endswith(":t") for key in by_id), name
        aloud = [event for event in history if event.get("args", {}).get("thought") and "action" in event]
        assert len(by_id) == sum(event["action"] not in {"think", "finish"} for event in aloud), name
    counts = corpus.record_counts.filter(pl.col("status").cast(pl.String) == "ignored").collect()
    found = dict(counts.group_by(KIND).agg(pl.col("count").sum()).iter_rows())
    assert {kind: n for kind, n in found.items() if kind.split(".")[1] in STATES} == ignored


def test_every_cause_is_an_edge(
    corpus: ot.Corpus, steps: dict[str, list[Record]], events: dict[str, list[Record]]
) -> None:
    ids = corpus.events.select("trace", "seq", "id")
    edges = corpus.edges.filter(pl.col("type").cast(pl.String) == "return")
    pairs = edges.join(ids, left_on=["trace", "src"], right_on=["trace", "seq"])
    pairs = pairs.join(ids, left_on=["trace", "dst"], right_on=["trace", "seq"], suffix="_result")
    found = set(pairs.select("trace", "id", "id_result").collect().iter_rows())
    expected = Counter[str]()
    for name, history in steps.items():
        trace = events[name][0]["trace"]
        for event in history:
            if "observation" in event and event["observation"] not in STATES:
                assert (trace, str(event["cause"]), str(event["id"])) in found, (name, event["id"])
                expected[name] += 1
    assert dict(expected) == {
        "scikit-learn__scikit-learn-13142": 20,
        "sphinx-doc__sphinx-7757": 35,
        "pydata__xarray-7229": 59,
        "demo1": 4,
    }


def test_verdicts_groups_and_the_limit_of_iterations(corpus: ot.Corpus) -> None:
    traces = {row["trace_id"].split("/")[0]: row for row in corpus.traces.collect().iter_rows(named=True)}
    name = pl.col("name").cast(pl.String)
    rewards = corpus.measures.filter(KIND == "reward").select("trace", name, "value")
    by_trace = {trace: (name, value) for trace, name, value in rewards.collect().iter_rows()}
    for task, (*_, resolved) in RUNS.items():
        assert by_trace.pop(traces[task]["trace"]) == ("team", float(resolved))
        assert traces[task]["task_id"] == f"{DATASET}/{task}"
        assert traces[task]["group_id"] == f"{DATASET}%2F{task}/model={MODEL}/harness=CodeActAgent"
    assert not by_trace
    assert [task for task, row in traces.items() if row["partial"]] == ["pydata__xarray-7229"]


def test_local_times_are_moved_by_whole_hours(
    corpus: ot.Corpus, steps: dict[str, list[Record]], events: dict[str, list[Record]]
) -> None:
    begun = dict(corpus.traces.select("trace", "started_at").collect().iter_rows())
    for name, history in steps.items():
        hours = 8 if name == "demo1" else 0
        rows = {row["id"]: row for row in events[name]}
        start = begun[events[name][0]["trace"]].timestamp()
        for event in history:
            if str(event["id"]) in rows:
                written = datetime.fromisoformat(event["timestamp"]).replace(tzinfo=UTC).timestamp()
                assert start + rows[str(event["id"])]["t"] == pytest.approx(written + hours * 3600, abs=1e-4)
            if response(event) and "action" in event:
                assert abs(response(event)["created"] - written - hours * 3600) < 60


def test_events_of_conversations_become_what_the_table_says(
    corpus: ot.Corpus,
    conversations: dict[str, tuple[Record, list[Record]]],
    events: dict[str, list[Record]],
) -> None:
    expected: Counter[str] = Counter()
    for name, (state, records) in conversations.items():
        assert (state["id"].replace("-", ""), len(records)) == (name, CONVERSATIONS[name][0])
        rows = {row["id"]: row for row in events[name]}
        for record in records:
            kind = (record.get("action") or record.get("observation") or {}).get("kind", record["kind"])
            row = rows.pop(record["id"], None)
            expected[kind] += 1
            if kind in {"SystemPromptEvent", "SystemPromptUpdateEvent", "FinishObservation"}:
                assert row is None
                continue
            assert row is not None, (name, record["id"])
            if kind == "TerminalAction":
                assert (row["type"], row["tool"], row["privileged"]) == ("tool_call", "terminal", False)
            elif kind == "TerminalObservation":
                assert (row["type"], row["ok"]) == ("tool_result", True)
            elif kind == "FinishAction":
                assert row["content_ref"] == digest(record["action"]["message"])
            else:
                said = "".join(part["text"] for part in record["llm_message"]["content"])
                assert row["content_ref"] == digest(said)
        assert not rows
        usages = [
            usage
            for metrics in state["stats"]["usage_to_metrics"].values()
            for usage in metrics["token_usages"]
        ]
        paid = {gen(row): row for row in events[name] if row["tokens"] is not None}
        assert paid.keys() == {usage["response_id"] for usage in usages}
        for usage in usages:
            assert paid[usage["response_id"]]["tokens_in"] == usage["prompt_tokens"]
    assert expected["FinishAction"] == 1 + 2 + 3 + 3
    labels = corpus.labels.with_columns(pl.col("annotator", "label").cast(pl.String)).collect()
    assert Counter(labels["label"]) == {"LOW": 1, "UNKNOWN": 9}


def test_nothing_is_lost_or_refused(corpus: ot.Corpus, folder: Path) -> None:
    n_steps = sum(n for n, *_ in RUNS.values()) + 18
    n_records = sum(n for n, *_ in CONVERSATIONS.values()) + 1
    # a line for each instance; states: of each conversation, of the oldest one, of one without events
    n_states = len(RUNS) + len(CONVERSATIONS) + 1 + 1
    assert corpus.records["read"] == n_steps + n_records + n_states
    assert corpus.records["quarantined"] == 0
    assert corpus.records["duplicate"] == 9, "what ends a turn is said twice"
    counts = corpus.record_counts.filter(KIND == "openhands.no_events").collect()
    assert counts["count"].sum() == 2


def test_responses_without_a_record_are_told(corpus: ot.Corpus, events: dict[str, list[Record]]) -> None:
    reported = corpus.findings.filter(CODE == "usage.incomplete").collect()
    silent = {"demo1", *CONVERSATIONS} - {"cd94562403b9487ebdd4018e3f531dfd"}
    assert set(reported["trace"]) == {events[name][0]["trace"] for name in silent}
    assert corpus.findings.filter(CODE == "usage.conflict").collect().is_empty()


def test_files_in_any_order_and_other_folders_give_the_same(
    corpus: ot.Corpus, folder: Path, tmp_path: Path
) -> None:
    paths = sorted(path for path in folder.rglob("*.json*") if path.is_file())
    other = ot.read_traces(paths[::-1])
    columns = ("trace_id", "partial", "started_at", "n_events", "n_edges")
    assert (
        other.traces.select(columns).sort("trace_id").collect().to_dicts()
        == corpus.traces.select(columns).sort("trace_id").collect().to_dicts()
    )
    shutil.copytree(folder / "v1", tmp_path / "a/v1")
    shutil.copytree(folder / "v1", tmp_path / "b/again")
    copies = ot.read_traces(tmp_path)
    assert sorted(copies.traces.collect()["trace_id"]) == sorted(CONVERSATIONS)
    tokens = copies.measures.filter(pl.col("name").cast(pl.String) == "tokens").collect()["value"]
    assert math.fsum(tokens) == 11_583 + 94 + 3 * 15


def test_pages_of_a_converter_are_read(corpora: Path) -> None:
    """Their events name no source; one lies behind a null, one has no id."""
    folder = corpora / "cli-sessions" / "openhands"
    for name in ("cleanup", "tool-calls"):
        source = json.loads((folder / f"{name}.json").read_text())
        items = source["items"] if isinstance(source, dict) else source
        found = ot.read_traces(folder / f"{name}.json")
        kinds = Counter(item["kind"] for item in items if item is not None)
        unknown = kinds["StateEvent"]  # nobody knows whose it is
        used = kinds.total() - unknown
        balance = {"read": kinds.total(), "used": used, "ignored": 0, "duplicate": 0, "quarantined": unknown}
        assert found.records == balance
