"""The ledger of sub-agents on recorded sessions, beside a walk over the raw lines of each sub-agent."""

import datetime as dt
import gzip
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

SESSIONS = {
    "ef958aa1-0e93-49f0-bb71-150f63befcd1": "-experiments-worktrees",
    "29ccd257-68b1-427f-ae5f-6524b7cb6f20": "-src-experiments-claude_p",
    "a7da6a22-facc-4fcd-8bab-f83c87862004": "-src-deep-manifest",
}
"""Three sessions with sub-agents, and their folders."""

PRICES = {
    "claude-opus-4-7": (5.0, 0.5, 6.25, 10.0, 25.0),
    "claude-haiku-4-5-20251001": (1.0, 0.1, 1.25, 2.0, 5.0),
}
"""Input, read from a cache, written for minutes and for an hour, output; per million tokens."""


@dataclass
class Walked:
    """What the lines of a sub-agent say, without repetitions of a response."""

    usage: dict[tuple[str, str | None], dict[str, int]] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    errors: int = 0
    model: str = ""

    def add(self, line: dict[str, Any]) -> None:
        message = line.get("message") or {}
        blocks = message.get("content")
        for block in blocks if isinstance(blocks, list) else []:
            if block["type"] == "tool_use":
                self.calls.add(block["id"])
            self.errors += block["type"] == "tool_result" and bool(block.get("is_error"))
        if line["type"] != "assistant":
            return
        self.model = message["model"]
        usage = {name: n for name, n in message["usage"].items() if isinstance(n, int)}
        usage["hour"] = message["usage"].get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0)
        most = self.usage.setdefault((message["id"], line.get("requestId")), {})
        for name, n in usage.items():
            most[name] = max(most.get(name, 0), n)

    def of(self, name: str) -> int:
        return sum(usage.get(name, 0) for usage in self.usage.values())

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        fresh, cached, written, out = map(self.of, names)
        return fresh, cached, written, out

    @property
    def dollars(self) -> float:
        fresh, cached, written, out = self.tokens
        kinds = (fresh, cached, written - self.of("hour"), self.of("hour"), out)
        return sum(n * usd for n, usd in zip(kinds, PRICES[self.model], strict=True)) / 1e6


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as text:
        yield from map(json.loads, text)


def sub_agents(folder: Path, session: str) -> dict[str, Walked]:
    """By id of the program, what each sub-agent of a session did."""
    found: dict[str, Walked] = {}
    for path in sorted([*folder.glob("agent-*"), *(folder / session).glob("subagents/*")]):
        if ".jsonl" in path.suffixes:
            for line in lines(path):
                if line.get("sessionId") == session:
                    found.setdefault(path.name.partition(".")[0], Walked()).add(line)
    return found


@pytest.fixture(scope="module", params=SESSIONS)
def told(request: pytest.FixtureRequest, corpora: Path) -> tuple[pl.DataFrame, dict[str, Walked], Path, str]:
    folder = corpora / "claude-code" / "real" / SESSIONS[request.param]
    corpus = ot.read_traces(folder)
    rows = ot.costs.spawns(corpus).filter(trace_id=request.param)
    return rows, sub_agents(folder, request.param), folder, request.param


def test_tokens_calls_errors_and_dollars_are_those_of_the_lines(
    told: tuple[pl.DataFrame, dict[str, Walked], Path, str],
) -> None:
    rows, walked, *_ = told
    assert rows.height == len(walked) > 0
    left = sorted(walked.values(), key=lambda one: one.tokens)
    kinds = ("tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out")
    for row, one in zip(rows.sort(kinds).iter_rows(named=True), left, strict=True):
        assert tuple(row[kind] for kind in kinds) == one.tokens
        assert row["tokens"] == sum(one.tokens)
        assert (row["n_tool_calls"], row["n_tool_errors"]) == (len(one.calls), one.errors)
        assert math.isclose(row["cost_usd"], one.dollars, rel_tol=1e-12)
        assert (row["basis"], row["unpriced_share"]) == ("priced", 0.0)


def test_times_and_answers_are_those_that_the_session_states(
    told: tuple[pl.DataFrame, dict[str, Walked], Path, str],
) -> None:
    """The program states of each sub-agent how long it ran and how many tools it used."""
    rows, _, folder, session = told
    (path,) = [one for one in folder.iterdir() if one.name.startswith(f"{session}.jsonl")]
    results = [line["toolUseResult"] for line in lines(path) if isinstance(line.get("toolUseResult"), dict)]
    stated = {
        (one["totalToolUseCount"], one["totalDurationMs"] / 1000)
        for one in results
        if "totalToolUseCount" in one
    }
    assert len(stated) == rows.height
    for calls, seconds in stated:
        like = rows.filter(n_tool_calls=calls).filter((pl.col("seconds") - seconds).abs() < 0.5)
        assert like.height == 1, (calls, seconds)
    # each returned a result that the lead read before it answered
    assert rows["answered"].to_list() == rows["used"].to_list() == [True] * rows.height
    assert rows["parent"].unique().to_list() == ["main"]


def test_a_lead_with_two_rounds_waited_for_one_of_each(corpora: Path) -> None:
    """Of six agents in two rounds, those that ended last are on the critical path."""
    (session, folder), *_ = SESSIONS.items()
    rows = ot.costs.spawns(ot.read_traces(corpora / "claude-code" / "real" / folder))
    assert rows["trace_id"].unique().to_list() == [session]
    assert rows["agent"].to_list() == ["alice", "bob", "carol", "alice2", "bob2", "carol2"]
    assert rows["role"].unique().to_list() == ["general-purpose"]
    assert rows.filter("critical")["agent"].to_list() == ["alice", "alice2"]
    assert rows["n_spawns"].to_list() == [1] * 6


def test_sums_over_agents_are_those_of_the_runs(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "claude-code")
    runs, agents = ot.costs.table(corpus, by="trace"), ot.costs.table(corpus, by="agent")
    added = agents.group_by("trace").agg(pl.col("cost_usd", "tokens", "unpriced_tokens").sum())
    both = runs.join(added, on="trace")
    assert both.filter(pl.col("tokens").fill_null(0) != pl.col("tokens_right")).is_empty()
    assert both.filter(pl.col("unpriced_tokens") != pl.col("unpriced_tokens_right")).is_empty()
    assert both.filter((pl.col("cost_usd").fill_null(0.0) - pl.col("cost_usd_right")).abs() > 1e-9).is_empty()
    assert runs["cost_usd"].sum() > 38
    # what a recording lacks makes its dollars a floor
    incomplete = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.incomplete")
    lacking = incomplete.select(pl.col("trace").unique()).collect()["trace"]
    priced = runs.filter(pl.col("tokens").is_not_null())
    assert 0 < priced["floor"].sum() < priced.height
    assert priced.filter("floor")["trace"].is_in(lacking.to_list()).all()


def test_prices_of_the_list_are_those_that_recordings_state(corpora: Path) -> None:
    """Langfuse prices by a list of its own: without its prices ours gives the same dollars."""
    corpus = ot.read_traces(corpora / "langfuse")
    recorded = corpus.events.filter(pl.col("cost_usd") > 0).select("trace", "seq", "cost_usd").collect()
    bare = corpus.with_fields(recorded.select("trace", "seq", cost_usd=pl.lit(None, pl.Float64)))
    ours, theirs = ot.costs.table(bare), ot.costs.table(corpus)
    assert theirs["basis"].unique().to_list() == ["recorded"]
    alike = ours.join(theirs, on="model").filter(pl.col("cost_usd").is_not_null())
    assert alike.height >= 5
    for model, mine, their in alike.select("model", "cost_usd", "cost_usd_right").iter_rows():
        assert math.isclose(mine, their, rel_tol=1e-9), model


def test_streams_that_end_early_cost_less_than_they_state(corpora: Path) -> None:
    """A stream has the output of a response as it began: its dollars are a floor of the stated total."""
    runs = ot.costs.table(ot.read_traces(corpora / "cli-streams" / "claude"), by="trace")
    stated = runs.filter(pl.col("stated_usd").is_not_null())
    assert stated.height == 2 and stated.filter(pl.col("cost_usd") > pl.col("stated_usd")).is_empty()


def test_a_price_is_of_a_time(corpora: Path) -> None:
    """All runs of one corpus are dated, so that no price is one of today."""
    corpus = ot.read_traces(corpora / "claude-code" / "real")
    dated = corpus.traces.select(pl.col("started_at").is_not_null().all()).collect().item()
    bases = set(ot.costs.table(corpus, by="trace")["basis"].drop_nulls())
    assert dated and bases == {"priced"}
    assert ot.costs.list_prices()["retrieved"].min() > dt.date(2025, 1, 1)  # type: ignore[operator]
