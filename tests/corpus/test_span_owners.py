"""Who did what, where spans share ids, tools ask models, and conversations change hands."""

import json
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot
from samples.spans import agent, chat, findings, read, span, tokens_by_agent, tool, usage


def test_an_id_that_agents_of_several_names_have_is_nobodys(tmp_path: Path) -> None:
    shared = {"gen_ai.agent.id": "agent"}
    corpus = read(
        tmp_path,
        agent(1, 0, "flow", (0, 9), **shared),
        agent(2, 1, "coordinator", (0, 3), **shared),
        chat(3, 2, (1, 2), **usage(148, 47)),
        agent(4, 1, "solver", (3, 9), **shared),
        chat(5, 4, (4, 5), **usage(257, 19)),
        chat(6, 4, (6, 7), **usage(287, 36)),
    )
    assert {k: v for k, v in tokens_by_agent(corpus).items() if v} == {"coordinator": 195, "solver": 599}


def test_visits_to_one_agent_are_one_by_id_and_name(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **{"gen_ai.agent.id": "b"}),
        agent(2, 1, "solver", (0, 3), **{"gen_ai.agent.id": "s"}),
        agent(3, 1, "solver", (4, 6), **{"gen_ai.agent.id": "s"}),
        agent(4, 1, "solver", (7, 8), **{"gen_ai.agent.id": "other"}),
    )
    assert set(tokens_by_agent(corpus)) == {"boss", "solver", "solver#2"}
    assert "agent.merged" not in findings(corpus)


def test_a_merge_by_an_id_alone_is_said(tmp_path: Path) -> None:
    def unnamed(number: int, name: str, seconds: tuple[float, float]) -> dict[str, Any]:
        words = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.id": "x"}
        return span(number, 1, name, seconds, words)

    corpus = read(
        tmp_path, agent(1, 0, "boss", (0, 9)), unnamed(2, "look", (1, 2)), unnamed(3, "write", (3, 4))
    )
    assert set(tokens_by_agent(corpus)) == {"boss", "look"}
    said = findings(corpus)["agent.merged"]
    assert "'look'" in said and "'write'" in said and "'x'" in said


def test_a_tool_that_asks_a_model_works_for_itself(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "geo", (0, 9)),
        chat(2, 1, (0.1, 1), **usage(100, 10)),
        tool(3, 1, "pick", (1.1, 4)),
        span(4, 3, "rank", (1.2, 3.9), {"traceloop.span.kind": "task"}),
        chat(5, 4, (1.3, 3), **usage(40, 4)),
        tool(6, 1, "plain", (4.1, 5)),
        chat(7, 1, (6, 8), **usage(200, 20)),
    )
    assert tokens_by_agent(corpus) == {"geo": 330, "pick": 44}
    turns = ot.metrics(corpus, by="agent").select(pl.col("agent").cast(pl.String), "n_turns")
    assert dict(turns.iter_rows()) == {"geo": 2, "pick": 1}
    types = corpus.events.collect()["type"].cast(pl.String).value_counts()
    assert dict(types.iter_rows())["tool_call"] == 1, "the other one is a spawn"


def test_a_sub_agent_is_called_as_the_call_says(tmp_path: Path) -> None:
    asked = {"gen_ai.tool.call.arguments": json.dumps({"subagent_type": "searcher", "prompt": "x"})}
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9)),
        tool(2, 1, "Agent", (1, 4), **asked),
        agent(3, 2, "Agent", (1, 4), **usage(10, 1)),
        tool(4, 1, "Agent", (5, 6), **asked),
        chat(5, 4, (5, 6), **usage(20, 2)),
    )
    assert {k: v for k, v in tokens_by_agent(corpus).items() if v} == {"searcher": 11, "searcher#2": 22}


def handing(*asked: str, status: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """OpenInference for the OpenAI Agents SDK: calls of `transfer_to_x`, a TOOL span beside."""
    calls: dict[str, Any] = {}
    for n, name in enumerate(asked):
        call = f"llm.output_messages.0.message.tool_calls.{n}.tool_call"
        calls |= {f"{call}.id": f"c{n}", f"{call}.function.name": f"transfer_to_{name}"}
        calls |= {f"{call}.function.arguments": "{}"}
    words = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    said = {"llm.output_messages.0.message.content": "294"}
    return [
        span(1, 0, "Agent workflow", (0, 9), {"openinference.span.kind": "AGENT"}),
        span(
            2, 1, "coordinator", (0, 3), {"openinference.span.kind": "AGENT", "graph.node.id": "coordinator"}
        ),
        span(3, 2, "response", (0, 2), words | calls),
        span(
            4,
            2,
            "handoff to solver",
            (2, 2.1),
            {"openinference.span.kind": "TOOL", "input.value": "coordinator", "output.value": "solver"},
            status=status or {},
        ),
        span(5, 1, "solver", (3, 9), {"openinference.span.kind": "AGENT", "graph.node.id": "solver"}),
        span(6, 5, "response", (4, 8), words | said),
    ]


def handed(corpus: ot.Corpus) -> tuple[int, int, int, list[tuple[str, str]]]:
    row = ot.metrics(corpus).row(0, named=True)
    events = corpus.events.with_columns(pl.col("type", "agent", "to").cast(pl.String)).collect()
    said = events.filter((pl.col("type") == "message") & (pl.col("to") == "solver"))
    told = list(said.select("agent", "to").iter_rows())
    return row["n_decisions"], row["n_tool_calls"], row["n_tool_errors"] or 0, told


def test_a_hand_over_as_a_tool_span_is_a_hand_over(tmp_path: Path) -> None:
    right = (1, 0, 0, [("coordinator", "solver")])
    assert handed(read(tmp_path, *handing("solver"))) == right
    two = read(tmp_path, *handing("solver", "writer", status={"code": 2}))
    assert handed(two) == right
    assert "transfer_to_writer" in findings(two)["field.ignored"]


def test_hand_overs_of_the_conventions(tmp_path: Path) -> None:
    for words in (
        {"gen_ai.operation.name": "agent_handoff", "gen_ai.handoff.to_agent": "solver"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.agent.handoff.target.name": "solver"},
    ):
        corpus = read(
            tmp_path,
            agent(1, 0, "flow", (0, 9)),
            agent(2, 1, "coordinator", (0, 3)),
            chat(3, 2, (0, 1), **usage(5, 1)),
            span(4, 2, "handoff", (2, 2.1), words, status={"code": 2}),
            agent(5, 1, "solver", (3, 9)),
            chat(6, 5, (4, 8), **usage(7, 1)),
        )
        assert handed(corpus) == (1, 0, 0, [("coordinator", "solver")])


def claude(number: int, above: int, step: str, seconds: tuple[float, float], **words: Any) -> dict[str, Any]:
    return span(number, above, f"claude_code.{step}", seconds, {"session.id": "s"} | words)


def test_spans_of_claude_code(tmp_path: Path) -> None:
    def request(
        number: int, above: int, at: float, counts: tuple[int, int, int, int], **words: Any
    ) -> dict[str, Any]:
        names = ("input_tokens", "cache_creation_tokens", "cache_read_tokens", "output_tokens")
        words |= dict(zip(names, counts, strict=True)) | {"gen_ai.request.model": "opus"}
        return claude(number, above, "llm_request", (at, at + 1), **words)

    corpus = read(
        tmp_path,
        claude(1, 0, "interaction", (0, 60)),
        request(2, 1, 1, (2, 7096, 84562, 1200)),
        claude(3, 1, "tool", (3, 6), tool_name="Bash", tool_use_id="u1"),
        claude(4, 3, "tool.blocked_on_user", (3, 4), decision="accept", source="user_temporary"),
        claude(5, 3, "tool.execution", (4, 6), success=True),
        claude(6, 1, "tool", (7, 40), tool_name="Agent", tool_use_id="u2"),
        claude(7, 6, "tool.blocked_on_user", (7, 7), decision="accept", source="config"),
        claude(8, 6, "tool.execution", (7, 40)),
        request(9, 8, 8, (3, 12000, 0, 220), agent_id="a2"),
        claude(10, 8, "tool", (10, 11), tool_name="Read", tool_use_id="u3", agent_id="a2"),
        request(11, 8, 20, (2, 400, 12000, 500), agent_id="a2"),
        request(12, 1, 50, (1, 700, 92500, 150)),
    )
    assert tokens_by_agent(corpus) == {"main": 92_860 + 93_351, "Agent": 12_223 + 12_902}
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["tokens_cached"], row["tokens_cache_write"]) == (
        84562 + 12000 + 92500,
        7096 + 12000 + 400 + 700,
    )
    assert row["permission_wait"] == 1
    events = corpus.events.with_columns(pl.col("type", "tool", "agent").cast(pl.String)).collect()
    calls = events.filter(pl.col("type") == "tool_call")
    assert list(calls.select("agent", "tool").iter_rows()) == [("main", "Bash"), ("Agent", "Read")]


def test_a_joined_run_has_the_name_of_the_outer_session(tmp_path: Path) -> None:
    outer, inner = {"session.id": "session-main"}, {"session.id": "0a-inner"}
    corpus = read(
        tmp_path,
        agent(1, 0, "top", (0, 9), **outer),
        tool(2, 1, "sub", (1, 8), **outer),
        agent(3, 2, "sub", (2, 7), **inner),
        chat(4, 3, (3, 6), **usage(20, 2), **inner),
        trace_by="conversation",
    )
    assert corpus.traces.collect()["trace_id"].to_list() == ["session-main"]
