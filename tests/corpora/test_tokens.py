"""Tokens and prices: every column against an independent count of the files, and what must hold of any event.

The sources' texts are data that models and tools wrote; nothing of them is kept here.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from corpora import test_claude_code, test_codex, test_inspect, test_langfuse
from reference.tables import INPUT, PARTS, TOKENS

Sums = Counter[str]


def summed(corpus: ot.Corpus) -> Sums:
    """The sum of every column of tokens; of what no event tells there is none."""
    sums = corpus.events.select(
        pl.when(pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(name) for name in TOKENS
    ).collect()
    return Counter({name: count for name, count in sums.row(0, named=True).items() if count is not None})


def followed(sums: dict[str, int]) -> Sums:
    """With the input and the total that the parts make."""
    whole = Counter(sums)
    whole["tokens_in"] = sum(sums[name] for name in INPUT if name in sums)
    whole["tokens"] = whole["tokens_in"] + sums["tokens_out"]
    return whole


@pytest.mark.parametrize("part", test_claude_code.SUMS)
def test_claude_code_by_responses(corpora: Path, part: str) -> None:
    """A response is several lines, each with the usage so far; compaction is no work of an agent."""
    folder = corpora / "claude-code" / part
    responses: dict[tuple[str, str], dict[str, int]] = {}
    for _, line in test_claude_code.lines(folder):
        if line.get("type") != "assistant" or str(line.get("agentId")).startswith("acompact-"):
            continue
        usage = line["message"]["usage"]
        told = {
            "tokens_fresh": usage["input_tokens"],
            "tokens_cached": usage.get("cache_read_input_tokens"),
            "tokens_cache_write": usage.get("cache_creation_input_tokens"),
            "tokens_out": usage["output_tokens"],
        }
        before = responses.setdefault((line["message"]["id"], line["requestId"]), {})
        for name, count in told.items():
            if count is not None:
                before[name] = max(before.get(name, 0), count)
    sums: Sums = Counter()
    for one in responses.values():
        sums.update(one)
    assert summed(ot.read_traces(test_claude_code.files(folder))) == followed(sums)
    assert sums["tokens_cached"] > sums["tokens_fresh"] > 0


def test_codex_by_requests(corpora: Path) -> None:
    """A request is told where the running total has changed; input holds the cache, output the reasoning."""
    folder = corpora / "codex" / "real-redacted"
    sums: Sums = Counter()
    for path in test_codex.files(folder):
        last: Any = None
        for line in map(json.loads, test_codex.lines_of(path)):
            payload = line.get("payload") or {}
            if payload.get("type") != "token_count" or not payload.get("info"):
                continue
            before, last = last, payload["info"]["total_token_usage"]
            if last == before:
                continue
            usage = payload["info"]["last_token_usage"]
            sums.update(
                tokens_fresh=usage["input_tokens"] - usage["cached_input_tokens"],
                tokens_cached=usage["cached_input_tokens"],
                tokens_out=usage["output_tokens"],
                tokens_reasoning=usage["reasoning_output_tokens"],
            )
    found = summed(ot.read_traces(folder))
    assert found == followed(sums)
    assert found["tokens_cached"] > 9 * found["tokens_fresh"], "nearly all of it was read from caches"


def test_inspect_by_models(corpora: Path) -> None:
    """What a log says that its models used; where the total says so, the cache lies beside the input."""
    compared = 0
    for path in test_inspect.logs(corpora / "inspect-ai"):
        used = test_inspect.log_of(path)["stats"]["model_usage"].values()
        corpus = ot.read_traces(path, format="inspect")
        found = summed(corpus)
        if not found:
            continue  # of two logs no usage is known of the events
        sums: Sums = Counter()
        for usage in used:
            cached, write = (usage.get(f"input_tokens_cache_{kind}") or 0 for kind in ("read", "write"))
            reasoning = usage.get("reasoning_tokens") or 0
            read, wrote = usage["input_tokens"], usage["output_tokens"]
            ways = [(i, o) for o in (wrote, wrote + reasoning) for i in (read, read + cached + write)]
            read, wrote = next(way for way in ways if sum(way) == usage["total_tokens"])
            sums.update(
                tokens_in=read,
                tokens_fresh=read - cached - write,
                tokens_cached=cached,
                tokens_cache_write=write,
                tokens_out=wrote,
                tokens_reasoning=reasoning,
                tokens=usage["total_tokens"],
            )
        assert {name: found[name] for name in TOKENS} == {name: sums[name] for name in TOKENS}, path.name
        compared += 1
        # what graders use is no cost of the team
        table = ot.metrics(corpus, groups=["scale", "usage"])
        team, scorer = (table[name].fill_null(0).sum() for name in ("tokens", "scorer_tokens"))
        assert team + scorer == found["tokens"]
        costs = corpus.measures.filter(pl.col("kind") == "cost").collect()
        for name, want in (("tokens", team), ("scorer_tokens", scorer)):
            assert costs.filter(pl.col("name") == name)["value"].sum() == want
    assert compared >= 7


def test_langfuse_by_generations(corpora: Path) -> None:
    """The innermost generations; parts of `input` and `output` are told beside the total that they make."""
    paths = sorted((corpora / "langfuse").glob("*.json"))
    corpus = ot.read_traces(paths)
    sums: Sums = Counter()
    cost = 0.0
    for path in paths:
        for one in test_langfuse.innermost(json.loads(path.read_bytes())):
            usage = one["usageDetails"]
            sums.update(tokens_in=usage.get("input", 0), tokens_out=usage.get("output", 0))
            for word, name in (("cache_read", "tokens_cached"), ("reasoning", "tokens_reasoning")):
                sums[name] += sum(count for key, count in usage.items() if word in key)
            cost += one["totalCost"]
    found = summed(corpus)
    assert {name: found[name] for name in sums} == dict(sums)
    assert found["tokens_fresh"] == sums["tokens_in"] - sums["tokens_cached"]
    assert found["tokens"] == sums["tokens_in"] + sums["tokens_out"]
    assert corpus.events.select(pl.col("cost_usd").sum()).collect().item() == pytest.approx(cost, rel=1e-12)


CORPORA = (
    "claude-code/real",
    "codex",
    "inspect-ai",
    "langfuse",
    "otel-kagent",
    "trail",
    "tau-bench",
    "swe-agent",
)
CORPORA += ("agentdojo", "atif-goldens", "who-and-when")


@pytest.mark.parametrize("name", CORPORA)
def test_counts_of_every_event_add_up(corpora: Path, name: str) -> None:
    """The total is never null beside its parts, and is their sum wherever they are all told."""
    events = ot.read_traces(corpora / name, format="auto").events.select(TOKENS).collect()
    parts = pl.sum_horizontal(PARTS)
    told = pl.any_horizontal(pl.col("tokens_in", *PARTS).is_not_null())
    whole = pl.all_horizontal(pl.col("tokens_in", "tokens_out").is_not_null())
    wrong = events.filter(
        (told & pl.col("tokens").is_null())
        | (whole & (pl.col("tokens") != parts))
        | (pl.col("tokens") < parts)
        | (pl.col("tokens_in") != pl.sum_horizontal(INPUT))
        | (pl.col("tokens_reasoning") > pl.col("tokens_out"))
    )
    assert wrong.is_empty()
