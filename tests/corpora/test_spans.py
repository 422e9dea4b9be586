"""Flat rows of spans of eight instrumentations: tokens and agents as their source has them."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

TOKENS = {
    "adk_live_spans": 463,
    "claude_live_spans": 982,
    "openai_agents_genai_adot_spans": 794,
    "openai_agents_genai_live_spans": 2_123,
    "openai_agents_openinference_adot_spans": 799,
    "openai_agents_openinference_live_spans": 1_422,
    "otel_genai_convention_spans": 260,
    "pydantic_ai_live_spans": 1_329,
    "smolagents_live_spans": 6_419,
}


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "strands-spans"


def read(folder: Path, name: str) -> ot.Corpus:
    corpus = ot.read_traces(folder / f"{name}.json")
    assert corpus.traces.collect()["importer"].to_list() == ["otel"]
    assert corpus.quarantine.collect().height == 0
    return corpus


def by_agent(corpus: ot.Corpus) -> dict[str, int]:
    rows = ot.metrics(corpus, by="agent").filter(pl.col("tokens") > 0)
    return dict(zip(rows["agent"].cast(pl.String), rows["tokens"], strict=True))


def findings(corpus: ot.Corpus, code: str) -> list[str]:
    rows = corpus.findings.collect()
    return rows.filter(pl.col("code").cast(pl.String) == code)["message"].to_list()


@pytest.mark.parametrize("name", TOKENS)
def test_every_token_counts_once(folder: Path, name: str) -> None:
    assert ot.metrics(read(folder, name))["tokens"].to_list() == [TOKENS[name]]


def test_a_sum_that_only_the_agent_has_is_used(folder: Path) -> None:
    corpus = read(folder, "claude_live_spans")
    assert by_agent(corpus) == {"ClaudeAgentSDK.query": 982}
    assert findings(corpus, "usage.repeated") == []
    agents = set(ot.metrics(corpus, by="agent")["agent"].cast(pl.String))
    assert agents == {
        "ClaudeAgentSDK.query",
        "research-specialist",
        "research-specialist#2",
        "math-specialist",
    }


def test_a_sum_that_differs_from_what_is_within_is_said(folder: Path) -> None:
    [said] = findings(read(folder, "otel_genai_convention_spans"), "usage.conflict")
    assert "192 tokens" in said and "260" in said


def test_a_price_is_that_of_the_responses(folder: Path) -> None:
    cost = ot.metrics(read(folder, "pydantic_ai_live_spans"))["cost_usd"].to_list()
    assert cost == pytest.approx([0.0054153])


def test_an_id_that_all_agents_have_is_nobodys(folder: Path) -> None:
    corpus = read(folder, "openai_agents_genai_adot_spans")
    assert by_agent(corpus) == {"coordinator": 195, "math_specialist": 599}
    assert by_agent(read(folder, "openai_agents_genai_live_spans")) == {
        "coordinator": 985,
        "research_specialist": 350,
        "math_specialist": 788,
    }


@pytest.mark.parametrize("name", ["openai_agents_genai_adot_spans", "openai_agents_openinference_adot_spans"])
def test_a_hand_over_is_a_decision_and_a_message(folder: Path, name: str) -> None:
    corpus = read(folder, name)
    row: dict[str, Any] = ot.metrics(corpus).row(0, named=True)
    assert (row["n_tool_calls"], row["n_tool_errors"], row["n_decisions"]) == (1, 0, 1)
    events = corpus.events.with_columns(pl.col("agent", "to").cast(pl.String)).collect()
    handed = events.filter((pl.col("agent") == "coordinator") & (pl.col("to") == "math_specialist"))
    assert handed.height == 1
