"""What a corpus promises: full schemas, filters, own measures and fields, tables from elsewhere, display."""

import io
import json
import re

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.base.schema import CREDITS, EXTENSION_FIELDS, SCHEMAS

TABLES = list(SCHEMAS)


def document(trace_id, events=("a", "b"), **more):
    return {
        "trace_id": trace_id,
        "task_id": "task",
        "events": [
            {"id": f"e{i}", "t": i, "type": "message", "agent": agent} for i, agent in enumerate(events)
        ],
        "edges": [{"src": f"e{i}", "dst": f"e{i + 1}", "type": "causal"} for i in range(len(events) - 1)],
        "rewards": {"team": 1},
        "costs": {"tokens": 3, "wall_clock_s": 2},
        **more,
    }


def read(*documents, **options):
    lines = (d if isinstance(d, str) else json.dumps(d) for d in documents)
    return ot.read_traces(io.BytesIO("\n".join(lines).encode()), **options)


@pytest.fixture
def corpus():
    return read(document("x"), document("y", system="swarm"), document("z"), "{broken")


def frame(corpus, table):
    return getattr(corpus, table).collect()


@pytest.mark.parametrize("table", TABLES)
def test_every_table_has_its_full_schema(corpus, table):
    expected = SCHEMAS[table]
    assert getattr(corpus, table).collect_schema() == expected
    assert frame(corpus, table).schema == expected
    assert frame(corpus.filter(pl.lit(False)), table).schema == expected


def test_tables_can_be_collected_many_times_and_projected(corpus):
    assert frame(corpus, "events").equals(frame(corpus, "events"))
    assert corpus.events.select("score", "id").collect().schema == {"score": pl.Float64, "id": pl.String}


def test_records_add_up(corpus):
    assert corpus.records == {"read": 4, "used": 3, "ignored": 0, "duplicate": 0, "quarantined": 1}
    assert len(corpus) == 3


def test_filter_keeps_whole_traces_and_their_numbers(corpus):
    kept = corpus.filter(pl.col("system") == "swarm")
    assert frame(kept, "traces")["trace_id"].to_list() == ["y"]
    for table in ("events", "edges", "agents", "measures"):
        assert frame(kept, table).equals(frame(corpus, table).filter(pl.col("trace") == 1)), table
    assert len(corpus.filter(pl.col("trace") > 0, pl.col("n_events") == 2)) == 2


def test_lifted_fields_come_last():
    said = document("x")
    said["events"][0]["note"], said["events"][1]["grade"] = "n", 2
    corpus = read(said, fields={"note": pl.String, "grade": pl.Float64})
    events = frame(corpus, "events")
    assert set(events.columns[-2:]) == {"note", "grade"}
    assert (events["note"][0], events["grade"][1]) == ("n", 2.0)
    own = corpus.with_fields(pl.DataFrame({"trace": [0], "seq": [0], "score": [0.5]}))
    assert frame(own, "events")["note"].to_list() == ["n", None]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": {"agent": pl.String}}, "column of events already"),
        ({"fields": {"note": pl.Date}}, "cannot be lifted"),
        ({"on_error": "rise"}, "did you mean 'raise'"),
    ],
)
def test_options_that_do_not_exist_are_said(options, message):
    with pytest.raises(ot.ParameterError, match=message):
        read(document("x"), **options)


def test_raise_on_error_shows_all_rejects():
    with pytest.raises(ot.QuarantineError, match="1 more") as caught:
        read(document("x"), "{broken", "[]", on_error="raise")
    assert caught.value.frame.height == 2
    assert caught.value.frame.schema == SCHEMAS["quarantine"]


# own measures


def values(corpus, name):
    return corpus.measures.filter(pl.col("name") == name).select("trace", "kind", "value").collect().rows()


def test_wide_measures_are_rewards_and_nulls_give_nothing(corpus):
    given = pl.DataFrame({"trace_id": ["z", "x"], "mine": [0.5, None], "team": [7, 8]})
    own = corpus.with_measures(given)
    assert values(own, "mine") == [(2, "reward", 0.5)]
    assert values(own, "team") == [(0, "reward", 8.0), (1, "reward", 1.0), (2, "reward", 7.0)]
    assert values(corpus, "team") == [(i, "reward", 1.0) for i in range(3)]
    assert values(own, "tokens") == values(corpus, "tokens")


def test_long_measures_have_a_kind(corpus):
    long = pl.DataFrame(
        {"trace": [1, 1], "kind": ["cost", "metric"], "name": ["tokens", "f1"], "value": [9.0, 0.25]}
    )
    own = corpus.with_measures(long.lazy())
    assert values(own, "tokens")[1] == (1, "cost", 9.0)
    assert values(own, "f1") == [(1, "metric", 0.25)]
    assert values(corpus.with_measures(long.drop("kind").tail(1)), "f1") == [(1, "reward", 0.25)]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            {"trace_id": ["x", "w", "v"], "m": [1, 2, 3]},
            ot.ParameterError,
            "unknown trace: trace_id 'w'; trace_id 'v'",
        ),
        ({"trace": [7], "m": [1]}, ot.ParameterError, "unknown trace: trace 7"),
        ({"trace": [0], "trace_id": ["y"], "m": [1]}, ot.ParameterError, "unknown trace"),
        ({"m": [1]}, ot.ParameterError, "neither a column 'trace' nor 'trace_id'"),
        ({"trace": [0]}, ot.ParameterError, "no column beside the key"),
        (
            {"trace": [0], "m": ["high"]},
            ot.SchemaError,
            "measures: column 'm' is String \\(it has 'high'\\), expected numbers",
        ),
        ({"trace": [0], "m": [float("nan")]}, ot.ParameterError, "finite"),
        ({"trace": [0, 0], "m": [1, 2]}, ot.ParameterError, "given twice"),
        ({"trace": [0.5], "m": [1]}, ot.SchemaError, "whole numbers"),
        (
            {"trace": [0], "name": ["a"], "value": [1], "kin": ["cost"]},
            ot.ParameterError,
            "did you mean 'kind'",
        ),
        (
            {"trace": [0], "name": ["a"], "value": [1], "kind": ["price"]},
            ot.SchemaError,
            "unknown word 'price'",
        ),
    ],
)
def test_measures_that_do_not_fit_are_said(corpus, given, error, message):
    with pytest.raises(error, match=message):
        corpus.with_measures(pl.DataFrame(given))


def test_ambiguous_trace_ids_need_the_number():
    corpus = read(document("x"), document("x", system="other"), document("y"))
    with pytest.raises(
        ot.ParameterError, match="not unique in the corpus: trace_id 'x'; give the column 'trace'"
    ):
        corpus.with_measures(pl.DataFrame({"trace_id": ["x"], "m": [1]}))
    assert values(corpus.with_measures(pl.DataFrame({"trace_id": ["y"], "m": [1]})), "m") == [
        (2, "reward", 1.0)
    ]
    assert values(corpus.with_measures(pl.DataFrame({"trace": [1], "m": [1]})), "m") == [(1, "reward", 1.0)]


# own fields


def test_fields_replace_and_nulls_leave(corpus):
    first = corpus.with_fields(
        pl.DataFrame({"trace": [0, 0], "seq": [0, 1], "score": [0.1, 0.2], "turn": [4, 5]})
    )
    given = pl.DataFrame(
        {
            "trace_id": ["x", "x", "z"],
            "id": ["e1", "e0", "e0"],
            "score": [9, None, 3],
            "ok": [None, None, True],
        }
    )
    events = frame(first.with_fields(given), "events")
    assert events["score"].to_list() == [0.1, 9.0, None, None, 3.0, None]
    assert events["turn"].to_list() == [4, 5, None, None, None, None]
    assert events["ok"].to_list() == [None] * 4 + [True, None]
    unchanged = [name for name in events.columns if name not in ("score", "turn", "ok")]
    assert events.select(unchanged).equals(frame(corpus, "events").select(unchanged))


def test_every_extension_field_can_be_given(corpus):
    example = {
        pl.Float64(): 0.5, pl.Int64(): 3, pl.UInt32(): 3, pl.Boolean(): True, pl.String(): "s",
        pl.Categorical(): "s", pl.List(pl.Float64()): [0.25, 0.75],
    }  # fmt: skip
    given = {name: [example[SCHEMAS["events"][name]]] for name in EXTENSION_FIELDS}
    given |= {"tokens_in": [9], "tokens": [12]}  # the sums of their parts
    events = frame(corpus.with_fields(pl.DataFrame({"trace": [1], "seq": [1], **given})), "events")
    for name, (value,) in given.items():
        assert events.filter(trace=1, seq=1)[name].to_list() == [value], name
        assert events[name].null_count() == events.height - 1, name


def test_a_group_regroups_only_the_traces_named(corpus):
    given = pl.DataFrame({"trace": [0, 2], "seq": [1, 0], "group_id": ["g", None]})
    own = corpus.with_fields(given)
    assert frame(own, "traces")["group_id"].to_list() == ["g", "task", "task"]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"trace": [0], "seq": [0], "scor": [1.0]}, ot.ParameterError, "did you mean 'score'"),
        ({"trace": [0], "seq": [0], "agent": ["me"]}, ot.ParameterError, "unknown extension field 'agent'"),
        ({"trace": [0], "seq": [9], "score": [1.0]}, ot.ParameterError, "unknown event: trace 0, seq 9"),
        (
            {"trace_id": ["x"], "id": ["no"], "score": [1.0]},
            ot.ParameterError,
            "unknown event: trace 0, id 'no'",
        ),
        ({"trace": [0], "score": [1.0]}, ot.ParameterError, "neither a column 'seq' nor 'id'"),
        ({"trace": [0, 0], "seq": [0, 0], "score": [1.0, 2.0]}, ot.ParameterError, "event given twice"),
        ({"trace": [0], "seq": [0], "score": ["high"]}, ot.SchemaError, "fields.score has type String"),
        ({"trace": [0], "seq": [0], "turn": [1.5]}, ot.SchemaError, "fields.turn has the value 1.5"),
        ({"trace": [0], "seq": [0], "turn": [-1]}, ot.SchemaError, "fields.turn"),
        ({"trace": [0], "seq": [0], "ok": [1]}, ot.SchemaError, "fields.ok has type Int64"),
    ],
)
def test_fields_that_do_not_fit_are_said(corpus, given, error, message):
    with pytest.raises(error, match=message):
        corpus.with_fields(pl.DataFrame(given))


# tables from elsewhere


class Foreign:
    """A table of some other engine."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self.frame.__arrow_c_stream__(requested_schema)


def test_tables_come_back_as_they_were():
    corpus = ot.generate(traces=20, seed=3)
    given = {table: frame(corpus, table) for table in TABLES if table != "agents"}
    for wrap in (pl.DataFrame.lazy, Foreign, lambda f: f.sample(fraction=1, shuffle=True, seed=1)):
        tables = {name: wrap(f) if name not in ("edges", "measures") else f for name, f in given.items()}
        again = ot.Corpus.from_arrow(**tables)
        for table in ("traces", "events", "edges", "agents", "measures"):
            assert_frame_equal(frame(again, table), frame(corpus, table))
    first, second = io.BytesIO(), io.BytesIO()
    corpus.write_jsonl(first)
    again.write_jsonl(second)
    assert first.getvalue() == second.getvalue()


TRACES = {"trace": [5, 3], "trace_id": ["five", "three"]}
EVENTS = {
    "trace": [3, 5, 5],
    "id": ["a", "a", "b"],
    "t": [0, 0, 1],
    "type": ["message", "return", "return"],
    "agent": ["m", "m", "m"],
}
EDGES = {"trace": [5], "src": [0], "dst": [1], "type": ["causal"]}


def build(traces=TRACES, events=EVENTS, edges=EDGES, **more):
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(traces), events=pl.DataFrame(events), edges=pl.DataFrame(edges), **more
    )


def test_what_is_not_given_is_derived():
    corpus = build(events=EVENTS | {"group_id": [None, "g", None], "mine": [1, 2, 3]})
    columns = [
        "trace",
        "trace_id",
        "task_id",
        "group_id",
        "importer",
        "partial",
        "n_events",
        "n_edges",
        "n_agents",
    ]
    assert corpus.traces.select(columns).collect().rows() == [
        (3, "three", "three", "three", "arrow", False, 1, 0, 1),
        (5, "five", "five", "g", "arrow", False, 2, 1, 1),
    ]
    events = frame(corpus, "events")
    assert events["seq"].to_list() == [0, 0, 1]
    assert events["mine"].to_list() == [1, 2, 3]
    assert corpus.records == {"read": 2, "used": 2, "ignored": 0, "duplicate": 0, "quarantined": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traces": {"trace": [3, 5]}}, "traces has no column 'trace_id'"),
        ({"traces": {"trace": [3, 3], "trace_id": ["a", "b"]}}, "3 more than once"),
        ({"traces": TRACES | {"trase": [1, 2]}}, "did you mean 'trace'"),
        ({"traces": TRACES | {"topology": ["swarm", "swrm"]}}, "unknown word 'swrm'; did you mean 'swarm'"),
        ({"events": {k: v for k, v in EVENTS.items() if k != "agent"}}, "events has no column 'agent'"),
        ({"events": EVENTS | {"agent": ["m", None, "m"]}}, "events.agent has a null in row 1"),
        ({"events": EVENTS | {"t": ["0", "1", "2"]}}, "events.t has type String, expected Float64"),
        ({"events": EVENTS | {"trace": [3, 5, 6]}}, "6"),
        ({"events": EVENTS | {"id": ["a", "a", "a"]}}, "'a'|id"),
        ({"edges": EDGES | {"dst": [2]}}, "2"),
        ({"edges": EDGES | {"type": ["causes"]}}, "edges.type: unknown word 'causes'"),
        ({"measures": pl.DataFrame({"trace": [3]})}, "measures has no column 'kind'"),
        ({"labels": [1, 2]}, "labels is of type list"),
    ],
)
def test_tables_that_do_not_fit_are_said(change, message):
    with pytest.raises(ot.SchemaError, match=message):
        build(**change)


# credit and display


def test_credit_has_its_schema(corpus):
    for reward in ("team", {"team": 2.0}):
        credits = ot.credit(corpus, method="uniform", unit="agent", reward=reward)
        assert credits.schema == CREDITS
    assert credits["reward"].unique().to_list() == ["2.0*team"]
    assert credits.group_by("trace").agg(pl.col("credit").sum())["credit"].to_list() == pytest.approx(
        [2.0] * 3
    )


def test_a_mapping_of_rewards_is_spelt_in_one_way(corpus):
    own = corpus.with_measures(pl.DataFrame({"trace": [0, 1, 2], "b": [1.0, 1.0, 1.0]}))
    labels = {
        ot.credit(own, unit="team", reward=r)["reward"][0]
        for r in ({"team": 1, "b": 0.5}, {"b": 0.5, "team": 1})
    }
    assert labels == {"0.5*b + 1.0*team"}


def test_methods_and_importers_are_frames():
    expected = ["name", "summary", "quantity", "scope", "tier", "units", "axioms", "params", "reference"]
    assert ot.list_methods().columns == expected
    assert {"native"} <= set(ot.list_importers()["name"])


def test_text_shows_counts(corpus):
    text = repr(corpus)
    assert text.startswith("Corpus of 3 traces (4 records read, 1 quarantined)")
    assert any(line.split() == ["events", "6"] for line in text.splitlines())


def test_html_escapes_names():
    source = io.BytesIO(b"{broken\n" + json.dumps(document("x")).encode())
    source.name = "<script>alert(1)</script>.jsonl"
    corpus = ot.read_traces(source)
    traces = corpus.traces.with_columns(importer=pl.lit("<b>&\"'"))
    own = ot.Corpus.from_arrow(traces=traces, events=corpus.events, quarantine=corpus.quarantine)
    html = own._repr_html_()
    assert "&lt;b&gt;&amp;&quot;&#x27;" in html
    assert "<b>" not in html and "<script>" not in html
    assert "json.syntax" in html


def test_columns_of_the_table_stay_apart_where_a_page_resets_styles():
    html = ot.generate(traces=2, seed=0)._repr_html_()
    text = re.sub(r"<[^>]*>", "", html)
    assert "importer rows" in text and "table rows" in text
    headings = re.findall(r"<th style=\"([^\"]*)\">", html)
    assert headings and all("padding" in style for style in headings)
