"""Who used how many tokens, where spans of agents, tools, parts of programs and whole traces state usage."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot
from samples.spans import agent, chat, findings, read, span, tokens_by_agent, tool, usage


def spent(corpus: ot.Corpus) -> tuple[int | None, float | None]:
    row = ot.metrics(corpus).row(0, named=True)
    return row["tokens"], row["cost_usd"]


def test_an_agent_without_responses_has_what_it_states(tmp_path: Path) -> None:
    corpus = read(tmp_path, agent(1, 0, "remote", (0, 9), **usage(2000, 420), **{"gen_ai.usage.cost": 2.42}))
    assert spent(corpus) == (2420, pytest.approx(2.42))
    assert findings(corpus).keys() == set()


def test_what_a_remote_agent_states_is_added_to_what_is_recorded(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9)),
        chat(2, 1, (0.1, 1), **usage(100, 10)),
        tool(3, 1, "remote", (1.1, 6)),
        agent(4, 3, "remote", (1.2, 5.9), **usage(2000, 420)),
        chat(5, 1, (6.1, 8.9), **usage(150, 15)),
    )
    assert spent(corpus)[0] == 2695
    assert tokens_by_agent(corpus) == {"boss": 275, "remote": 2420}
    assert not {"usage.repeated", "usage.conflict"} & findings(corpus).keys()


def test_a_sum_that_repeats_is_left_out(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **usage(250, 25)),
        chat(2, 1, (0.1, 1), **usage(100, 10)),
        chat(3, 1, (2, 3), **usage(150, 15)),
    )
    assert spent(corpus)[0] == 275
    assert "repeats the usage of spans within it" in findings(corpus)["usage.repeated"]
    assert "usage.conflict" not in findings(corpus)


def test_sums_that_differ_are_both_said(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **usage(300, 25), **{"gen_ai.usage.cost": 0.5}),
        chat(2, 1, (0.1, 1), **usage(100, 10), **{"gen_ai.usage.cost": 0.2}),
    )
    assert spent(corpus) == (110, pytest.approx(0.2))
    said = findings(corpus)["usage.conflict"]
    assert "325 tokens" in said and "110" in said and "USD 0.5" in said and "USD 0.2" in said
    assert "usage.repeated" not in findings(corpus)


def test_more_than_its_parts_show_is_a_floor(tmp_path: Path) -> None:
    boss = agent(1, 0, "boss", (0, 9), **usage(2000, 695), **{"gen_ai.usage.cost": 0.5})
    told = chat(2, 1, (0.1, 1), **usage(250, 25), **{"gen_ai.usage.cost": 0.2})
    silent = chat(3, 1, (2, 3))
    corpus = read(tmp_path, boss, told, silent)
    assert spent(corpus) == (275, pytest.approx(0.2))
    said = findings(corpus)["usage.incomplete"]
    assert "2695 tokens" in said and "275" in said and "1 of the responses" in said and "a floor" in said
    assert "USD 0.5" in said and "USD 0.2" in said
    assert "usage.conflict" not in findings(corpus)
    # An agent of which nothing is recorded is such a part, too.
    hidden = agent(4, 1, "remote", (4, 6))
    assert "usage.incomplete" in findings(read(tmp_path, boss, told, hidden))
    # Where everybody states something, or the parts are more, the numbers contradict each other.
    assert "usage.incomplete" not in findings(read(tmp_path, boss, told))
    less = agent(1, 0, "boss", (0, 9), **usage(100, 10))
    assert findings(read(tmp_path, less, told, silent)).keys() & {"usage.conflict", "usage.incomplete"} == {
        "usage.conflict"
    }


def test_a_sum_that_is_met_leaves_nobody_out(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **usage(600, 25)),
        agent(2, 1, "left", (0, 4), **usage(250, 25)),
        chat(3, 2, (0.1, 1), **usage(250, 25)),
        chat(4, 2, (2, 3)),
    )
    # The silent response is within a sum that its neighbor meets.
    assert findings(corpus).keys() & {"usage.conflict", "usage.incomplete"} == {"usage.conflict"}


def test_tokens_and_price_are_floors_apart(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **usage(300, 25), **{"gen_ai.usage.cost": 0.5}),
        chat(2, 1, (0.1, 1), **usage(100, 10), **{"gen_ai.usage.cost": 0.2}),
        chat(3, 1, (2, 3), **usage(100, 10)),
    )
    said = findings(corpus)
    assert "325 tokens" in said["usage.conflict"] and "USD" not in said["usage.conflict"]
    assert "USD 0.5" in said["usage.incomplete"] and "325" not in said["usage.incomplete"]


def test_tokens_and_price_are_judged_apart(tmp_path: Path) -> None:
    corpus = read(
        tmp_path,
        agent(1, 0, "boss", (0, 9), **usage(100, 10), **{"gen_ai.usage.cost": 0.5}),
        chat(2, 1, (0.1, 1), **usage(100, 10)),
    )
    assert spent(corpus) == (110, pytest.approx(0.5))


def test_responses_without_usage_leave_it_to_their_agent(tmp_path: Path) -> None:
    corpus = read(tmp_path, agent(1, 0, "boss", (0, 9), **usage(250, 25)), chat(2, 1, (0.1, 8)))
    assert spent(corpus)[0] == 275
    assert tokens_by_agent(corpus) == {"boss": 275}


def test_a_tool_and_a_part_of_a_program_state_usage(tmp_path: Path) -> None:
    in_tool = read(tmp_path, agent(1, 0, "a", (0, 9)), tool(2, 1, "summarize", (1, 2), **usage(70, 7)))
    assert spent(in_tool)[0] == 77
    flow = span(1, 0, "flow", (0, 9), {"traceloop.span.kind": "workflow", **usage(70, 7)})
    assert spent(read(tmp_path, flow, chat(2, 1, (1, 2))))[0] == 77
    assert spent(read(tmp_path, flow, chat(2, 1, (1, 2), **usage(70, 7))))[0] == 77


def test_a_second_record_of_an_agent_adds_nothing(tmp_path: Path) -> None:
    corpus = read(
        tmp_path, agent(1, 0, "a", (0, 9), **usage(70, 7)), agent(2, 1, "a", (0.1, 8.9), **usage(70, 7))
    )
    assert spent(corpus)[0] == 77


def langfuse(observations: list[dict[str, Any]], **trace: Any) -> ot.Corpus:
    base = {"traceId": "t", "level": "DEFAULT", "parentObservationId": None}
    times = {"startTime": "2026-01-01T00:00:00.000Z", "endTime": "2026-01-01T00:00:05.000Z"}
    rows = [base | times | one for one in observations]
    whole = {"id": "t", "name": "n", "timestamp": times["startTime"]} | trace
    text = json.dumps({"trace": whole, "observations": rows})
    return ot.read_traces(io.BytesIO(text.encode()), format="langfuse")


def test_langfuse_agents_and_traces_state_usage() -> None:
    details = {"usageDetails": {"input": 2000, "output": 420, "total": 2420}, "totalCost": 2.42}
    alone = {"id": "a", "type": "AGENT", "name": "sdk"}
    assert spent(langfuse([alone | details], totalCost=2.42)) == (2420, pytest.approx(2.42))
    assert spent(langfuse([alone], totalCost=2.42)) == (None, pytest.approx(2.42))
    assert spent(langfuse([], totalCost=2.42)) == (None, pytest.approx(2.42))
    said = findings(langfuse([alone | details], totalCost=3.0))["usage.conflict"]
    assert "USD 3" in said and "USD 2.42" in said
    other = {"id": "b", "type": "AGENT", "name": "remote"}
    said = findings(langfuse([alone | details, other], totalCost=3.0))["usage.incomplete"]
    assert "the trace states USD 3, its spans USD 2.42" in said


def test_langsmith_runs_state_the_sum_of_what_is_below() -> None:
    def run(number: int, above: int | None, kind: str, **columns: Any) -> dict[str, Any]:
        ids = {"id": f"r{number}", "trace_id": "r1", "parent_run_id": above and f"r{above}"}
        times = {"start_time": "2026-01-01T00:00:00", "end_time": "2026-01-01T00:00:05"}
        return ids | times | {"name": kind, "run_type": kind, "inputs": {}, "outputs": {"x": 1}} | columns

    def corpus(*runs: dict[str, Any]) -> ot.Corpus:
        lines = "\n".join(json.dumps(one) for one in runs)
        return ot.read_traces(io.BytesIO(lines.encode()), format="langsmith")

    told = {"prompt_tokens": 250, "completion_tokens": 25, "total_tokens": 275, "total_cost": 0.4}
    assert spent(corpus(run(1, None, "chain", **told), run(2, 1, "llm"))) == (275, pytest.approx(0.4))
    assert spent(corpus(run(1, None, "chain", **told), run(2, 1, "llm", **told))) == (275, pytest.approx(0.4))


SPELLINGS = {
    "conventions": ("cache_read.input_tokens", "cache_creation.input_tokens", "reasoning.output_tokens"),
    "pydantic_ai": ("details.cache_read_tokens", "details.cache_write_tokens", "details.reasoning_tokens"),
    "genai_prices": ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens"),
    "sentry": ("input_tokens.cached", "input_tokens.cache_write", "output_tokens.reasoning"),
    "openai": (
        "input_tokens_details.cached_tokens",
        "input_tokens_details.cache_write_tokens",
        "output_tokens_details.reasoning_tokens",
    ),
}


@pytest.mark.parametrize("dialect", SPELLINGS)
def test_the_cache_has_many_names(tmp_path: Path, dialect: str) -> None:
    cached, written, thought = (f"gen_ai.usage.{name}" for name in SPELLINGS[dialect])
    counts = usage(130_213, 200, **{cached: 128_955, written: 1_253, thought: 76})
    corpus = read(tmp_path, agent(1, 0, "a", (0, 9)), chat(2, 1, (1, 2), **counts))
    row = ot.metrics(corpus).row(0, named=True)
    kinds = ("tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens_reasoning")
    assert [row[name] for name in kinds] == [5, 128_955, 1_253, 200, 76]
    assert "usage.unknown" not in findings(corpus)


def test_a_count_under_an_unknown_name_is_said(tmp_path: Path) -> None:
    strange = {
        "gen_ai.usage.wisdom_tokens": 7,
        "gen_ai.usage.luck_tokens": 0,
        "gen_ai.usage.text.input_tokens": 9,
    }
    corpus = read(tmp_path, agent(1, 0, "a", (0, 9)), chat(2, 1, (1, 2), **usage(9, 1, **strange)))
    assert findings(corpus)["usage.unknown"].startswith("1 count")
    assert "gen_ai.usage.wisdom_tokens" in findings(corpus)["usage.unknown"]
    assert spent(corpus)[0] == 10
