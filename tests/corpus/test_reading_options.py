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


def test_numbers_that_say_unknown_become_no_value(tmp_path):
    """Of a column of outcomes, of a metric, and of a reward of a native trace; other numbers stay."""
    talk = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    path = tmp_path / "rows.jsonl"
    lines = [
        {"task_id": "t", "run_id": f"r{run}", "messages": talk, "score": score, "loss": loss}
        for run, (score, loss) in enumerate([(-1, 0.5), (0, -100.0), (-1.5, 7)])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    unknown = {"score": [-1, -100.0], "loss": [-100]}

    def judged(corpus):
        kept = corpus.measures.filter(pl.col("kind") != "cost").sort("trace", "kind")
        return [(row["trace"], row["name"], row["value"]) for row in kept.collect().iter_rows(named=True)]

    assert judged(ot.read_traces(path)) == [
        *((0, "team", -1.0), (0, "loss", 0.5), (1, "team", 0.0), (1, "loss", -100.0)),
        *((2, "team", -1.5), (2, "loss", 7.0)),
    ]
    corpus = ot.read_traces(path, null_values=unknown)
    known = [(0, "loss", 0.5), (1, "team", 0.0), (2, "team", -1.5), (2, "loss", 7.0)]
    assert judged(corpus) == known
    said = corpus.findings.filter(pl.col("code") == "reward.unscored").select("trace", "message").collect()
    assert said.rows() == [
        (0, "'score' is -1, one of the null_values of this name: the outcome is not known")
    ]
    # A corpus on disk keeps them for what comes later, and refuses others.
    ot.ingest(path, tmp_path / "corpus", null_values=unknown)
    (tmp_path / "more.jsonl").write_text(json.dumps(lines[0] | {"run_id": "r3", "loss": -100}) + "\n")
    ot.ingest(tmp_path / "more.jsonl", tmp_path / "corpus")
    corpus = ot.read_corpus(tmp_path / "corpus")
    assert judged(corpus) == known
    assert corpus.findings.filter(pl.col("code") == "reward.unscored").select("trace").collect().height == 2
    with pytest.raises(ot.ParameterError, match=r"null_values is {'score': \[-2.0\]}, but .* made with"):
        ot.ingest(path, tmp_path / "corpus", null_values={"score": [-2]})
    native = {
        "trace_id": "a",
        "task_id": "t",
        "edges": [],
        "costs": {"tokens": 0, "wall_clock_s": 0},
        "rewards": {"team": -1, "judge": -1},
        "events": [{"id": "1", "type": "message", "agent": "m", "t": 0}],
    }
    corpus = ot.read_traces(io.BytesIO(json.dumps(native).encode()), null_values={"team": [-1]})
    assert judged(corpus) == [(0, "judge", -1.0)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"null_values": {"score": -1}},
            "null_values has 'score': -1, expected a name and a list of numbers",
        ),
        ({"null_values": {"score": [True]}}, "null_values has 'score': \\[True\\], expected a name"),
        ({"null_values": {"score": [float("nan")]}}, "null_values has 'score': \\[nan\\], expected a name"),
        ({"null_values": [-1]}, "null_values is \\[-1\\], expected numbers by name"),
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
