"""Tokens of Claude Code in other places than usual: of other models, of caches, under unknown names."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.claude_lines import (
    Line,
    answers,
    asks,
    calls,
    codes,
    edges,
    gives,
    launches,
    notifies,
    read,
    says,
)


def iteration(kind: str, read: int, wrote: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "input_tokens": read, "output_tokens": wrote} | more


def usage(read: int, wrote: int, *iterations: dict[str, Any], **more: Any) -> dict[str, Any]:
    nothing = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {"input_tokens": read, "output_tokens": wrote, "iterations": list(iterations)} | nothing | more


def by_model(corpus: ot.Corpus) -> dict[str, int]:
    tokens = (
        corpus.events.filter(pl.col("tokens").is_not_null()).group_by("model").agg(pl.col("tokens").sum())
    )
    return {str(model): n for model, n in tokens.collect().iter_rows()}


@pytest.mark.parametrize("kind", ["advisor_message", "fallback_message"])
def test_what_another_model_did_is_its_own(tmp_path: Path, kind: str) -> None:
    other = iteration(kind, 300, 40, model="m-2", cache_read_input_tokens=7, cache_creation_input_tokens=3)
    whole = usage(5, 50, iteration("message", 2, 20), other, iteration("message", 3, 30))
    corpus = read(tmp_path, [asks(0, "go"), says(4, "m1", "done", usage=whole)])
    assert by_model(corpus) == {"m-1": 55, "m-2": 350}
    assert codes(corpus) == {}
    # Lines of one response repeat it.
    (tmp_path / "twice").mkdir()
    lines = [asks(0, "go"), says(4, "m1", "do", usage=whole), says(5, "m1", "ne", usage=whole)]
    assert by_model(read(tmp_path / "twice", lines)) == {"m-1": 55, "m-2": 350}


def test_another_model_within_the_sum_is_counted_once(tmp_path: Path) -> None:
    whole = usage(305, 90, iteration("message", 5, 50), iteration("fallback_message", 300, 40, model="m-2"))
    corpus = read(tmp_path, [asks(0, "go"), says(4, "m1", "done", usage=whole)])
    assert by_model(corpus) == {"m-1": 55, "m-2": 340}


def advised(*blocks: Line, last: float = 33) -> list[Line]:
    """A call with its result, and a response that asks an adviser before it speaks, a line a block."""
    adviser = iteration("advisor_message", 300, 40, model="m-2")
    whole = usage(5, 50, iteration("message", 2, 20), adviser, iteration("message", 3, 30))
    seconds = [9, 30, last][-len(blocks) :]
    lines = [answers(t, "m2", block, usage=whole) for t, block in zip(seconds, blocks, strict=True)]
    return [asks(0, "go"), calls(4, "m1", "t1", "Read", {}), gives(5, "t1", "x"), *lines]


ASKS_ADVISER: Line = {"type": "server_tool_use", "id": "s1", "name": "advisor", "input": {}}
ADVICE: Line = {"type": "advisor_tool_result", "tool_use_id": "s1", "content": {"type": "a", "text": "cas"}}
TEXT: Line = {"type": "text", "text": "Use cas."}


def told(corpus: ot.Corpus) -> list[tuple[float, str, str | None]]:
    rows = corpus.events.filter(pl.col("t") > 5).select("t", "type", "model").collect().rows()
    return [(t, str(kind), model) for t, kind, model in rows]


def test_an_adviser_of_the_last_response_is_heard_before_it(tmp_path: Path) -> None:
    corpus = read(tmp_path, advised(ASKS_ADVISER, ADVICE, TEXT))
    assert told(corpus) == [
        (9, "tool_call", "m-1"),
        (30, "message", "m-2"),
        (30, "tool_result", None),
        (33, "return", None),
    ]
    assert edges(corpus, "temporal") >= {(9, 30), (30, 33)}
    assert codes(corpus).keys() <= {"safety.conservative"}
    [lost] = ot.metrics(corpus)["dead_tokens"].to_list()
    assert lost == 0.0
    assert by_model(corpus) == {"m-1": 22 + 55, "m-2": 340}
    # What the response said before it asked is a message of its own.
    (tmp_path / "before").mkdir()
    lines = advised(ASKS_ADVISER, ADVICE, TEXT)
    lines[3]["message"]["content"].insert(0, {"type": "text", "text": "I ask."})
    assert told(read(tmp_path / "before", lines)) == [
        (9, "tool_call", "m-1"),
        (9, "message", None),
        (30, "message", "m-2"),
        (30, "tool_result", None),
        (33, "return", None),
    ]


def test_help_that_only_the_usage_knows_comes_first(tmp_path: Path) -> None:
    corpus = read(tmp_path, advised(TEXT))
    assert told(corpus) == [(33, "message", "m-2"), (33, "return", "m-1")]
    # Both read what the tool gave, and the response reads the help.
    assert edges(corpus, "causal") == {(5, 33), (33, 33)}
    assert ot.metrics(corpus)["dead_tokens"].to_list() == [0.0]


def test_compaction_is_part_of_its_response(tmp_path: Path) -> None:
    whole = usage(9, 210, iteration("compaction", 6, 150), iteration("message", 3, 60))
    corpus = read(tmp_path, [asks(0, "go"), says(4, "m1", "done", usage=whole)])
    assert by_model(corpus) == {"m-1": 219}


def test_a_cache_that_is_divided_by_age(tmp_path: Path) -> None:
    by_age = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12}
    none = {"cache_creation_input_tokens": None}
    corpus = read(tmp_path, [asks(0, "go"), says(4, "m1", "done", usage=none | {"cache_creation": by_age})])
    row = corpus.events.filter(pl.col("model").is_not_null()).select("tokens_cache_write", "tokens").collect()
    assert row.rows() == [(42, 60)]
    # The sum counts where it is there.
    (tmp_path / "both").mkdir()
    lines = [asks(0, "go"), says(4, "m1", "done", usage={"cache_creation": by_age})]
    assert by_model(read(tmp_path / "both", lines)) == {"m-1": 22}


def test_tokens_under_an_unknown_name_are_said(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        says(4, "m1", "do", usage={"audio_tokens": 5}),
        says(5, "m1", "ne", usage={"audio_tokens": 9, "service_level": 3}),
        says(6, "m2", "again", usage={"audio_tokens": 2}),
    ]
    corpus = read(tmp_path, lines)
    assert codes(corpus) == {"usage.incomplete": 1}
    message = corpus.findings.select("message").collect().item()
    assert "'usage.audio_tokens' holds 11 tokens of 2 responses" in message


def test_usage_of_agents_that_is_a_floor(tmp_path: Path) -> None:
    main = [
        asks(0, "go"),
        calls(1, "m1", "t1", "Agent", {"subagent_type": "x", "prompt": "left"}),
        calls(2, "m2", "t2", "Agent", {"subagent_type": "x", "prompt": "right"}),
        launches(3, "t2", "bb"),
        gives(9, "t1", "L", {"agentId": "aa", "totalTokens": 1022}),
        says(10, "m3", "one"),
        notifies(20, "bb", "R", more="<usage><subagent_tokens>522</subagent_tokens></usage>"),
        says(21, "m4", "done"),
    ]
    agents = {
        agent: [asks(3, prompt), says(8, f"{agent}1", prompt[0].upper(), ends=None)]
        for agent, prompt in {"aa": "left", "bb": "right"}.items()
    }
    corpus = read(tmp_path, main, **agents)
    assert codes(corpus) == {"usage.incomplete": 2}
    message = corpus.findings.select("message").collect().item()
    assert "of aa: 22 recorded, 1022 reported" in message
    assert "of bb: 22 recorded, 522 reported" in message
    told = ot.summary(corpus)
    (tokens,) = [text for about, text, _ in told.sentences("x") if about == "Tokens"]
    assert told.n_floor == 1 and tokens.startswith(f"At least {told.tokens['total']} in all")


def test_the_lines_themselves_say_what_is_a_floor(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        says(4, "m1", "do", ends=None),
        says(5, "m1", "ne"),
        says(6, "m2", "!", ends=None),
    ]
    corpus = read(tmp_path, lines)
    assert codes(corpus) == {"usage.incomplete": 1}
    assert "1 of 2 responses" in corpus.findings.select("message").collect().item()


def test_what_a_cache_keeps_for_an_hour_is_apart(tmp_path: Path) -> None:
    written = {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 200}
    whole = usage(5, 50) | {"cache_creation_input_tokens": 500, "cache_creation": written}
    corpus = read(tmp_path, [asks(0, "go"), says(4, "m1", "done", usage=whole)])
    told = corpus.events.filter(pl.col("tokens").is_not_null())
    kinds = ("tokens_in", "tokens_fresh", "tokens_cache_write", "tokens_cache_write_1h", "tokens")
    assert told.select(kinds).collect().rows() == [(505, 5, 500, 200, 555)]
    assert codes(corpus) == {}
    # import, export, import
    corpus.write_jsonl(tmp_path / "native.jsonl")
    assert (
        ot.read_traces(tmp_path / "native.jsonl").events.select(kinds).collect().drop_nulls().rows()
        == told.select(kinds).collect().rows()
    )
