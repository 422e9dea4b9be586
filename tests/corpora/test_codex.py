"""Codex: the totals of the source, every line accounted for.

The source's texts are data that models and tools wrote; nothing of them is kept here.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import documents

TOTALS = {"12-40-23": 7_240_100, "12-47-42": 6_777_923, "13-19-38": 34_900}
LINES = 1_558


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "codex" / "real-redacted"


@pytest.fixture(scope="module")
def whole(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder)


def lines_of(path: Path) -> list[str]:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("rollout-*"))


def fates(corpus: ot.Corpus) -> Counter[str]:
    rows = corpus.record_counts.collect().iter_rows(named=True)
    out: Counter[str] = Counter()
    for row in rows:
        out[row["kind"] or row["status"]] += row["count"]
    return out


def test_totals_are_those_of_the_source(whole: ot.Corpus, folder: Path) -> None:
    found = documents(whole)
    assert len(found) == len(TOTALS)
    for path in files(folder):
        trace = found[path.name.split(".")[0][-36:]]
        stamp = next(stamp for stamp in TOTALS if stamp in path.name)
        assert trace["costs"]["tokens"] == TOTALS[stamp]
        events = trace["events"]
        assert sum(e.get("tokens_in", 0) + e.get("tokens_out", 0) for e in events) == TOTALS[stamp]
        assert "x_reported_tokens" not in {key for event in events for key in event}
    partial = dict(whole.traces.select("trace_id", "partial").collect().iter_rows())
    ended = {id: ends_with_a_turn(path) for path in files(folder) for id in [path.name.split(".")[0][-36:]]}
    assert partial == {id: not end for id, end in ended.items()}


def ends_with_a_turn(path: Path) -> bool:
    turns = [json.loads(line)["payload"].get("type") for line in lines_of(path)]
    turns = [turn for turn in turns if turn in ("task_started", "task_complete")]
    return turns[-1] == "task_complete"


def test_calls_and_results_are_those_of_the_source(whole: ot.Corpus, folder: Path) -> None:
    items: Counter[str] = Counter()
    for path in files(folder):
        for line in lines_of(path):
            record = json.loads(line)
            if record["type"] == "response_item":
                items[record["payload"]["type"]] += 1
    types = Counter(whole.events.select("type").collect()["type"].cast(pl.String).to_list())
    calls = items["function_call"] + items["custom_tool_call"] + items["web_search_call"]
    results = items["function_call_output"] + items["custom_tool_call_output"] + items["web_search_call"]
    assert (types["tool_call"], types["tool_result"]) == (calls, results)


def test_every_line_is_accounted_for(whole: ot.Corpus) -> None:
    counts = fates(whole)
    assert sum(counts.values()) == LINES
    assert counts["quarantined"] == 0
    # Every running total but the first of each file is written twice.
    assert counts["codex.token_count"] == 3


def test_fixtures_of_all_kinds_of_lines(corpora: Path) -> None:
    folder = corpora / "agent-cli-fixtures" / "codex"
    corpus = ot.read_traces(folder, format="codex")
    n = sum(bool(line.strip()) for path in folder.rglob("*.jsonl") for line in path.read_text().splitlines())
    assert sum(fates(corpus).values()) == n
    found = documents(corpus)
    tokens = {id: trace["costs"]["tokens"] for id, trace in found.items()}
    assert tokens["019fc8be-3658-7ca3-9e29-000000000000"] == 16_422
    assert tokens["test-legacy-session"] == 1_420 + 910
    assert tokens["test-ratelimit-session"] == 12_273


FORKS = {
    "archived-fork-33ce-3869": [1_911_065, 13_398_113],
    "live-fork-4d90-52bf": [1_809_519, 24_992_392],
    # Nobody has their parent's file: the 135 requests that both begin with count once.
    "missing-parent-siblings": [3_093, 15_309_178],
}


@pytest.mark.parametrize("name", FORKS)
def test_forks_count_what_they_inherit_once(corpora: Path, name: str) -> None:
    frame = ot.metrics(ot.read_traces(corpora / "codex-forks" / name))
    assert sorted(frame["tokens"]) == FORKS[name]


def test_what_exec_prints_is_a_run(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "cli-streams" / "codex")
    assert corpus.quarantine.collect().height == 0
    events = corpus.events.collect()
    assert (events["tokens_in"].sum(), events["tokens_out"].sum()) == (106_753, 1_330)
    assert ot.metrics(corpus)["tokens"].sum() == 108_083
    traces = corpus.traces.collect()
    assert (traces.height, traces["partial"].any()) == (6, False)
    failed = events.filter(pl.col("ok") == False)  # noqa: E712
    assert failed["type"].cast(pl.String).to_list() == ["tool_result"]


OVERLAP = {"096fc09a30ab90d2431778f9ee2b3936"}
"""A run whose recorder ended its model calls late: they lie one inside the other."""


def test_no_agent_works_twice_at_once(corpora: Path) -> None:
    frame = ot.metrics(ot.read_traces(corpora)).filter(pl.col("time_unit") == "seconds")
    room = pl.col("wall_clock_s") * pl.max_horizontal("n_agents", 1) + 1e-6
    assert set(frame.filter(pl.col("model_time") > room)["trace_id"]) == OVERLAP
    assert frame["model_time"].is_not_null().sum() > 100
