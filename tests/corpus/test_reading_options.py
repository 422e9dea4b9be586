"""Options of reading that say what becomes a trace, and which scores are rewards."""

import io
import json

import polars as pl
import pytest

import orchestrace as ot


def span(trace, number, name, conversation=None, **attributes):
    """A generation of the agent `name`, `number` seconds after the first."""
    given = {"gen_ai.operation.name": "chat", "gen_ai.agent.name": name, "gen_ai.usage.output_tokens": 3}
    given |= attributes | ({"gen_ai.conversation.id": conversation} if conversation else {})
    typed = {str: "stringValue", int: "intValue", float: "doubleValue"}
    return {
        "traceId": f"{trace:032x}",
        "spanId": f"{16 * trace + number:016x}",
        "name": f"chat {name}",
        "startTimeUnixNano": str((1_800_000_000 + number) * 10**9),
        "endTimeUnixNano": str((1_800_000_001 + number) * 10**9),
        "attributes": [{"key": k, "value": {typed[type(v)]: v}} for k, v in given.items()],
    }


def request(*spans):
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode() + b"\n"


TURNS = (
    request(span(1, 0, "clerk", "chat-7"), span(2, 10, "clerk"))
    + request(span(3, 20, "clerk", "chat-7"))
    + request(span(4, 30, "clerk", **{"session.id": "chat-8"}))
)


def test_a_trace_for_each_conversation():
    apart = ot.read_traces(io.BytesIO(TURNS))
    assert apart.traces.collect()["trace_id"].to_list() == [f"{n:032x}" for n in (1, 2, 3, 4)]
    together = ot.read_traces(io.BytesIO(TURNS), trace_by="conversation")
    traces = together.traces.sort("trace_id").collect()
    assert traces.select("trace_id", "n_events").rows() == [(f"{2:032x}", 2), ("chat-7", 3), ("chat-8", 2)]
    assert together.records == apart.records
    # Every turn, and the end of the whole, which no span is of.
    (first,) = traces.filter(trace_id="chat-7")["trace"]
    assert together.events.filter(trace=first).select("t").collect()["t"].to_list() == [1.0, 21.0, 21.0]


@pytest.mark.parametrize("key", ["sessionId", "session_id"])
def test_sessions_of_langfuse(key):
    def export(trace, session):
        at = "2026-01-01T00:00:00Z"
        whole = {"id": trace, "timestamp": at, "name": "run", "projectId": "p", key: session}
        one = {"id": f"{trace}-1", "traceId": trace, "type": "GENERATION", "name": "answer", "startTime": at}
        return json.dumps({"trace": whole, "observations": [one | {"endTime": at}]}).encode() + b"\n"

    given = export("a", "s") + export("b", "s") + export("c", None)
    found = ot.read_traces(io.BytesIO(given), trace_by="conversation")
    assert sorted(found.traces.collect()["trace_id"]) == ["c", "s"]
    assert found.records == ot.read_traces(io.BytesIO(given)).records
    assert found.records["duplicate"] == 0
    # Traces of which no observation is there are an event each.
    alone = b"".join(
        json.dumps(
            {
                "id": trace,
                "timestamp": at,
                "name": "run",
                "projectId": "p",
                "tags": [],
                "output": trace,
                key: "s",
            }
        ).encode()
        + b"\n"
        for trace, at in (("b", "2026-01-01T00:00:09Z"), ("a", "2026-01-01T00:00:00Z"))
    )
    (trace,) = (
        ot.read_traces(io.BytesIO(alone), trace_by="conversation").events.collect().partition_by("trace")
    )
    assert trace.select("id", "t").rows() == [("a", 0.0), ("b", 9.0)]


def test_scores_are_rewards_where_their_owner_says_so():
    at = "2026-01-01T00:00:00Z"
    scores = [
        {"id": f"s{i}", "name": name, "value": value, "dataType": "NUMERIC", "source": "API", "traceId": "a"}
        for i, (name, value) in enumerate([("success", 1.0), ("toxicity", 0.25)])
    ]
    one = {"id": "o", "traceId": "a", "type": "GENERATION", "name": "x", "startTime": at, "endTime": at}
    whole = {"id": "a", "timestamp": at, "name": "run", "projectId": "p", "scores": scores}
    given = json.dumps({"trace": whole, "observations": [one]}).encode()

    def told(**options):
        corpus = ot.read_traces(io.BytesIO(given), **options)
        kept = corpus.measures.filter(pl.col("kind") != "cost").select("kind", "name", "value")
        return corpus, sorted(kept.collect().cast({"kind": pl.String, "name": pl.String}).rows())

    _, metrics = told()
    assert metrics == [("metric", "success", 1.0), ("metric", "toxicity", 0.25)]
    corpus, rewards = told(reward_scores=["success", "absent"])
    assert rewards == [("metric", "toxicity", 0.25), ("reward", "success", 1.0)]
    assert ot.credit(corpus, method="uniform", unit="team", reward="success")["credit"].sum() == 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_scores": "success"}, "reward_scores is 'success', expected a list of names"),
        ({"reward_scores": [1]}, "reward_scores is \\[1\\], expected a list of names"),
        ({"trace_by": "turn"}, "trace_by is 'turn', expected"),
    ],
)
def test_slips(options, message):
    with pytest.raises(ot.ParameterError, match=message):
        ot.read_traces(io.BytesIO(TURNS), **options)


def test_a_corpus_on_disk_keeps_what_it_was_begun_with(tmp_path):
    source = tmp_path / "spans.jsonl"
    source.write_bytes(TURNS)
    ot.ingest(source, tmp_path / "corpus", trace_by="conversation", reward_scores=["success"])
    (tmp_path / "more.jsonl").write_bytes(request(span(5, 40, "clerk", "chat-7")))
    ot.ingest([source, tmp_path / "more.jsonl"], tmp_path / "corpus")
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert sorted(corpus.traces.collect()["trace_id"]) == [f"{2:032x}", "chat-7", "chat-8"]
    for options, message in (
        ({"trace_by": "trace"}, "trace_by is 'trace', but .* made with 'conversation'"),
        ({"reward_scores": ["other"]}, "reward_scores is \\['other'\\], but .* made with \\['success'\\]"),
    ):
        with pytest.raises(ot.ParameterError, match=message):
            ot.ingest(source, tmp_path / "corpus", **options)
