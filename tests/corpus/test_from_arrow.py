"""Tables that come back are judged like documents, and what they change is what is written."""

import io
import json

import polars as pl
import pytest

import orchestrace as ot


def document(trace_id, first=None, second=None, **more):
    event = {"type": "message", "agent": "a"}
    return {
        "trace_id": trace_id,
        "task_id": "task",
        "events": [
            {"id": "e0", "t": 0, **event, **(first or {})},
            {"id": "e1", "t": 1, **event, **(second or {})},
        ],
        "edges": [{"src": "e0", "dst": "e1", "type": "causal"}],
        "rewards": {"team": 1},
        "costs": {"tokens": 3, "wall_clock_s": 2},
        **more,
    }


def read(*documents):
    lines = (d if isinstance(d, str) else json.dumps(d) for d in documents)
    return ot.read_traces(io.BytesIO("\n".join(lines).encode()))


def written(corpus):
    out = io.BytesIO()
    corpus.write_jsonl(out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def again(corpus, **changed):
    tables = ("traces", "events", "edges", "measures", "labels", "findings", "quarantine")
    return ot.Corpus.from_arrow(**{name: getattr(corpus, name).collect() for name in tables} | changed)


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("score", [None, float("nan")], r"events.score of trace 0 \(row 1\) is NaN"),
        ("value", [None, float("inf")], r"events.value of trace 0 \(row 1\) is inf"),
        ("duration_s", [None, -0.5], r"events.duration_s of trace 0 \(row 1\) is -0.5"),
        ("tokens_out", [None, -1], r"events.tokens_out of trace 0 \(row 1\) is -1"),
        ("p_actions", [None, [0.5, None]], r"events.p_actions of trace 0 \(row 1\) has null at position 1"),
        ("mine", [None, float("nan")], r"events.mine of trace 0 \(row 1\) is NaN"),
        ("x_trace", ["a", "b"], r"events.x_trace"),
        ("extras", [None, "[]"], r"events.extras of trace 0 \(row 1\) is not a JSON object"),
        ("extras", [None, '{"t": 1}'], r"events.extras of trace 0 \(row 1\) has the key 't'"),
        ("extras", [None, '{"b": 1, "b": 2}'], r"events.extras of trace 0 \(row 1\) has the key 'b' twice"),
    ],
)
def test_events_that_could_not_be_written_are_refused(column, values, message):
    corpus = read(document("x"))
    events = corpus.events.collect().with_columns(pl.Series(column, values, strict=False))
    with pytest.raises(ot.SchemaError, match=message):
        again(corpus, events=events)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            {"kind": ["reward"], "name": ["a"], "value": [float("nan")]},
            r"measures.value of trace 0 \(row 0\)",
        ),
        ({"kind": ["cost"], "name": ["a"], "value": [-1.0]}, r"is -1, expected at least 0"),
        ({"kind": ["cost"] * 2, "name": ["a"] * 2, "value": [1.0, 2.0]}, r"\(row 1\) repeats 'a'"),
    ],
)
def test_measures_that_could_not_be_written_are_refused(rows, message):
    corpus = read(document("x"))
    measures = pl.DataFrame({"trace": [0] * len(rows["kind"]), **rows})
    with pytest.raises(ot.SchemaError, match=message):
        again(corpus, measures=measures)


@pytest.mark.parametrize("column", ["trace_id", "task_id"])
def test_ids_are_not_empty(column):
    corpus = read(document("x"))
    with pytest.raises(ot.SchemaError, match=rf"traces.{column} of trace 0 \(row 0\) is empty"):
        again(corpus, traces=corpus.traces.with_columns(pl.lit("").alias(column)))


def test_an_x_trace_follows_the_tables():
    facts = {"group_id": "g7", "unknown_costs": ["tokens"], "theirs": [1]}
    given = document("x", {"x_trace": facts, "mine": 2}, costs={"tokens": 0, "wall_clock_s": 2})
    corpus = read(given)
    assert written(corpus) == written(again(corpus)) == [given]
    regrouped = corpus.with_fields(pl.DataFrame({"trace": [0], "seq": [1], "group_id": ["h"]}))
    (event, _) = written(regrouped)[0]["events"]
    assert "group_id" not in event["x_trace"]
    assert (event["x_trace"]["unknown_costs"], event["x_trace"]["theirs"]) == (["tokens"], [1])
    assert read(*written(regrouped)).traces.collect()["group_id"].to_list() == ["h"]
    zero = pl.DataFrame({"trace": [0], "kind": ["cost"], "name": ["tokens"], "value": [0.0]})
    zero = zero.cast(dict(corpus.measures.collect_schema()))
    counted = again(corpus, measures=pl.concat([corpus.measures.collect(), zero]))
    names = read(*written(counted)).measures.filter(pl.col("kind") == "cost").collect()["name"]
    assert set(names) == {"tokens", "wall_clock_s"}


def test_labels_of_native_traces_leave_the_events_as_they_are():
    labels = pl.DataFrame({"trace_id": ["x"], "annotator": ["ann"], "label": ["blame"], "agent": ["a"]})
    corpus = again(read(document("x", {"mine": 2})), labels=labels)
    back = read(*written(corpus))
    assert back.labels.collect().equals(corpus.labels.collect())
    assert back.events.collect().equals(corpus.events.collect())
    assert written(back) == written(corpus)


def test_a_conflict_of_groups_follows_the_groups():
    corpus = read(document("x", {"group_id": "g"}, {"group_id": "h"}))
    assert corpus.findings.select("code", "count").collect().rows() == [("group.conflict", 1)]
    assert again(corpus).findings.collect().equals(corpus.findings.collect())
    agreed = corpus.with_fields(pl.DataFrame({"trace": [0], "seq": [1], "group_id": ["g"]}))
    assert agreed.findings.collect().height == 0
    other = corpus.with_fields(pl.DataFrame({"trace": [0], "seq": [1], "group_id": ["i"]}))
    assert other.findings.collect()["message"].to_list() == ["found group_id 'i' beside 'g'; 'g' is used"]


def test_findings_keep_their_own_counts():
    corpus = read(document("x"))
    rows = {"trace": [0, 0, 0], "code": ["clock.skew", "usage.repeated", "clock.skew"], "count": [3, 5, 4]}
    own = again(corpus, findings=pl.DataFrame(rows | {"message": ["first", "other", "second"]}))
    found = own.findings.select("code", "count", "message").collect().rows()
    assert found == [("clock.skew", 7, "first"), ("usage.repeated", 5, "other")]
    with pytest.raises(ot.SchemaError, match=r"findings.count of trace 0 \(row 2\) is 0"):
        again(corpus, findings=pl.DataFrame(rows | {"count": [3, 5, 0], "message": ["", "", ""]}))


def test_records_reconcile_after_a_filter():
    corpus = read(document("x"), "{broken", document("y"), document("z"))
    assert corpus.records == {"read": 4, "used": 3, "ignored": 0, "duplicate": 0, "quarantined": 1}
    some = corpus.filter(pl.col("trace_id") != "y")
    assert some.records == corpus.records, "they are about the reading"
    assert again(some, record_counts=corpus.record_counts.collect()).records == corpus.records
    # Without them a record is a trace or a row of the quarantine.
    told = {"read": 3, "used": 2, "ignored": 0, "duplicate": 0, "quarantined": 1}
    assert again(some).records == told


def test_names_go_to_the_core_by_code_however_many_others_this_process_holds():
    corpus = ot.generate(traces=30, seed=2)
    derived = ("traces", "edges", "agents", "measures")
    want = {name: getattr(corpus, name).collect() for name in ("events", *derived)}
    held = pl.Series([f"someone {i}" for i in range(50 * want["events"].height)], dtype=pl.Categorical())
    new = want["events"].with_columns(pl.lit("someone new").cast(pl.Categorical()).alias("model"))
    for events in (want["events"], new):  # the last name has a code behind those of all others
        back = again(corpus, events=events)
        assert back.events.collect().equals(events)
        for name in derived:
            assert getattr(back, name).collect().equals(want[name])
    assert held.len() > 0
