"""A run that is recorded more than once: one recording is used, and nothing of the others is lost."""

import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

SESSION = "6cd458de-4900-4c62-882b-e5083346d405"
Row = dict[str, Any]


def said(text: str) -> Row:
    return {"type": "text", "text": text}


def message(number: int, written: int, *content: Row) -> Row:
    usage = {"input_tokens": 100, "output_tokens": written}
    return {"id": f"msg_{number}", "role": "assistant", "model": "m", "content": content, "usage": usage}


CALL: Row = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
BACK: Row = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]}


def session() -> list[Row]:
    """A prompt, a response that calls, its result, the answer: what a response wrote is known in full."""
    lines = [
        {"type": "user", "message": {"role": "user", "content": "Go."}},
        {"type": "assistant", "message": message(1, 40, CALL), "requestId": "req_1"},
        {"type": "user", "message": BACK},
        {"type": "assistant", "message": message(2, 60, said("Done.")), "requestId": "req_2"},
    ]
    for at, line in enumerate(lines):
        parent = f"u{at - 1}" if at else None
        line |= {"uuid": f"u{at}", "parentUuid": parent, "sessionId": SESSION}
        line["timestamp"] = f"2026-09-14T09:00:{at:02d}.000Z"
    return lines


def stream(**more: Any) -> list[Row]:
    """The same as the program prints it: what a response wrote is a floor, but the price is there."""
    lines = [
        {"type": "assistant", "message": message(1, 4, CALL), "request_id": "req_1"},
        {"type": "user", "message": BACK},
        {"type": "assistant", "message": message(2, 5, said("Done.")), "request_id": "req_2"},
        {"type": "result", "subtype": "success", "num_turns": 2, "total_cost_usd": 0.25} | more,
    ]
    common = {"session_id": SESSION, "parent_tool_use_id": None}
    return [line | common | {"uuid": f"p{at}"} for at, line in enumerate(lines)]


def document(**metrics: Any) -> Row:
    used = {"prompt_tokens": 100, "completion_tokens": 40}
    steps: list[Row] = [{"step_id": 1, "source": "user", "message": "Go."}]
    steps += [{"step_id": at, "source": "agent", "message": f"t{at}", "metrics": used} for at in (2, 3)]
    agent = {"name": "claude-code", "version": "2"}
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": SESSION,
        "agent": agent,
        "steps": steps,
        "final_metrics": metrics,
    }


def put(path: Path, rows: list[Row], cut: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text[: len(text) - cut])


def both(
    folder: Path, lines: list[Row], printed: list[Row], *, cut: int = 0, turned: bool = False
) -> ot.Corpus:
    own, out = ("b", "a") if turned else ("a", "b")
    put(folder / own / f"{SESSION}.jsonl", lines, cut)
    put(folder / out / "out.jsonl", printed)
    return ot.read_traces(folder)


def messages(corpus: ot.Corpus, code: str) -> list[str]:
    return corpus.findings.filter(pl.col("code").cast(pl.String) == code).collect()["message"].to_list()


def costs(corpus: ot.Corpus) -> dict[str, float]:
    rows = corpus.measures.filter(pl.col("kind").cast(pl.String) == "cost")
    return dict(rows.select(pl.col("name").cast(pl.String), "value").collect().rows())


def answers(corpus: ot.Corpus) -> list[tuple[str, str | None]]:
    events = corpus.events.with_columns(pl.col("type", "to").cast(pl.String)).collect()
    return (
        events.filter(pl.col("type") == "return", pl.col("to") == "user").select("id", "content_ref").rows()
    )


def is_partial(corpus: ot.Corpus) -> bool:
    return bool(corpus.traces.select("partial").collect().item())


def hashed(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("turned", [True, False])
def test_the_price_that_only_the_stream_has_is_kept(tmp_path: Path, turned: bool) -> None:
    corpus = both(tmp_path, session(), stream(), turned=turned)
    assert ot.metrics(corpus).select("tokens", "cost_usd").rows() == [(100 + 40 + 100 + 60, 0.25)]
    assert not is_partial(corpus)
    [told] = messages(corpus, "trace.set_aside")
    kept, aside = told.split("; set aside")
    assert kept.startswith("the session's own record (claude_code, '")
    assert f"{SESSION}.jsonl')" in kept
    assert "what the program printed (claude_code, '" in aside
    assert "out.jsonl')" in aside
    assert aside.endswith("which alone states a cost of 0.25 USD (kept)")
    assert messages(corpus, "usage.incomplete") == []
    counts = corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
    assert dict(counts.rows()) == {"used": 4, "duplicate": 4}


def test_a_stream_that_states_nothing_more_is_named_and_no_more(tmp_path: Path) -> None:
    [told] = messages(both(tmp_path, session(), stream()[:-1]), "trace.set_aside")
    assert told.endswith("out.jsonl')")


@pytest.mark.parametrize("turned", [True, False])
def test_a_cut_session_does_not_hide_the_answer_of_a_whole_stream(tmp_path: Path, turned: bool) -> None:
    corpus = both(tmp_path, session(), stream(), cut=30, turned=turned)
    # What the session has of the first response is whole, the second is in the stream alone: 100 + 5.
    assert ot.metrics(corpus).select("tokens", "cost_usd").rows() == [(140, 0.25)]
    assert is_partial(corpus)
    assert answers(corpus) == [("msg_2:return", hashed("Done."))]
    [told] = messages(corpus, "trace.set_aside")
    assert "a cost of 0.25 USD (kept), 1 of 2 responses, of 105 tokens (in no sum)" in told
    assert f"the answer {hashed('Done.')[:15]}… (kept)" in told
    [low] = messages(corpus, "usage.incomplete")
    assert low.startswith("recorded tokens are too low; what the program printed")
    assert low.endswith("alone has 1 of 2 responses, of 105 tokens")


def test_a_session_that_ends_within_its_last_response_gets_the_answer_too(tmp_path: Path) -> None:
    lines = session()
    lines[3]["message"] = message(2, 60, {"type": "thinking", "thinking": "?", "signature": ""})
    corpus = both(tmp_path, lines, stream())
    assert ot.metrics(corpus)["tokens"].to_list() == [300]
    assert [ref for _, ref in answers(corpus)] == [hashed("Done.")]
    assert messages(corpus, "usage.incomplete") == []


def test_an_answer_before_the_last_is_not_that_of_a_session_that_went_on(tmp_path: Path) -> None:
    more = {"type": "user", "uuid": "u4", "parentUuid": "u3", "sessionId": SESSION}
    more |= {"timestamp": "2026-09-14T09:10:00.000Z", "message": {"role": "user", "content": "And?"}}
    call = CALL | {"id": "c2"}
    last = more | {"type": "assistant", "uuid": "u5", "parentUuid": "u4", "requestId": "req_3"}
    last |= {"message": message(3, 7, call)}
    corpus = both(tmp_path, [*session(), more, last], stream())
    assert answers(corpus) == []
    assert is_partial(corpus)
    [told] = messages(corpus, "trace.set_aside")
    assert told.endswith("which alone states a cost of 0.25 USD (kept)")


def test_a_session_without_a_response_gives_way_to_the_stream(tmp_path: Path) -> None:
    corpus = both(tmp_path, session()[:1], stream())
    assert ot.metrics(corpus).select("tokens", "cost_usd").rows() == [(104 + 105, 0.25)]
    assert [ref for _, ref in answers(corpus)] == [hashed("Done.")]
    [told] = messages(corpus, "trace.set_aside")
    assert told.startswith("what the program printed")
    counts = corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
    assert dict(counts.rows()) == {"used": 4, "duplicate": 1}


def test_what_stopped_a_run_is_said(tmp_path: Path) -> None:
    corpus = both(
        tmp_path, session()[:3], stream(subtype="error_max_turns")[:2] + stream(subtype="error_max_turns")[3:]
    )
    assert answers(corpus) == []
    assert "the run was stopped by error_max_turns" in messages(corpus, "trace.partial")
    [told] = messages(corpus, "trace.set_aside")
    assert told.endswith("a cost of 0.25 USD (kept), that it was stopped by error_max_turns (kept)")
    (tmp_path / "alone").mkdir()
    put(tmp_path / "alone" / "out.jsonl", stream(subtype="error_max_turns"))
    alone = ot.read_traces(tmp_path / "alone")
    assert "the run was stopped by error_max_turns" in messages(alone, "trace.partial")


def test_the_price_of_a_document_that_is_set_aside_is_kept(tmp_path: Path) -> None:
    put(tmp_path / f"{SESSION}.jsonl", session())
    put(tmp_path / "trajectory.json", [document(total_cost_usd=0.5)])
    corpus = ot.read_traces(tmp_path)
    assert ot.metrics(corpus).select("tokens", "cost_usd").rows() == [(300, 0.5)]
    [told] = messages(corpus, "trace.set_aside")
    assert "set aside is a document made of the run (atif, '" in told
    assert told.endswith("which alone states a cost of 0.5 USD (kept)")


def test_prices_that_differ_are_told(tmp_path: Path) -> None:
    put(tmp_path / "trajectory.json", [document(total_cost_usd=0.5)])
    corpus = both(tmp_path, session(), stream())
    # The stream is nearer to the run.
    assert costs(corpus)["cost_usd"] == 0.25
    [told] = messages(corpus, "usage.conflict")
    assert "says 0.5 USD, the recording 0.25 USD, which is used" in told


def test_of_a_document_of_several_sessions_the_price_is_named_and_not_kept(tmp_path: Path) -> None:
    other = "99999999-ec16-4f6f-83a0-fc4819daef44"
    put(tmp_path / f"{SESSION}.jsonl", session())
    put(
        tmp_path / f"{other}.jsonl",
        [line | {"sessionId": other, "uuid": f"o{line['uuid']}"} for line in session()],
    )
    both_of = document(total_cost_usd=0.5)
    results = [{"content": "x", "subagent_trajectory_ref": [{"session_id": other}]}]
    step = {"step_id": 9, "source": "agent", "message": "s", "observation": {"results": results}}
    both_of["steps"].append(step)
    put(tmp_path / "trajectory.json", [both_of])
    child = document() | {"session_id": other}
    put(tmp_path / "child.json", [child])
    corpus = ot.read_traces(tmp_path)
    assert corpus.traces.collect().height == 2
    assert "cost_usd" not in costs(corpus)
    [told] = messages(corpus, "trace.set_aside")
    assert told.endswith("which alone states a cost of 0.5 USD of several sessions (not kept)")


def test_nothing_depends_on_threads_or_blocks(tmp_path: Path) -> None:
    recordings = tmp_path / "in"
    put(recordings / "a" / f"{SESSION}.jsonl", session(), cut=30)
    put(recordings / "b" / "out.jsonl", stream())
    put(recordings / "c" / "trajectory.json", [document(total_cost_usd=0.5)])
    tables = [
        [frame.collect().rows() for frame in (corpus.events, corpus.measures, corpus.findings)]
        for corpus in (ot.read_traces(recordings, threads=threads) for threads in (1, 3))
    ]
    assert tables[0] == tables[1]
    ot.ingest(recordings, tmp_path / "disk")
    on_disk = ot.read_corpus(tmp_path / "disk")
    assert costs(on_disk)["cost_usd"] == 0.25
