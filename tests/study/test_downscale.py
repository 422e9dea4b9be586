"""Beginnings of recorded runs: what is kept, against a plain definition; what the trend is made of."""

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from samples.examples import examples


def corpus_of(times, edges, traces=1, rewards=None):
    """Runs of the same events; times may tie and edges may lead back."""
    n = len(times)
    events = pl.DataFrame(
        {
            "trace": [t for t in range(traces) for _ in range(n)],
            "id": [f"e{i}" for _ in range(traces) for i in range(n)],
            "t": [float(t) for _ in range(traces) for t in times],
            "type": ["message"] * (n * traces),
            "agent": [f"a{i % 3}" for _ in range(traces) for i in range(n)],
        }
    )
    pairs = sorted(set(edges))
    links = pl.DataFrame(
        {
            "trace": [t for t in range(traces) for _ in pairs],
            "src": [a for _ in range(traces) for a, _ in pairs],
            "dst": [b for _ in range(traces) for _, b in pairs],
            "type": ["causal"] * (len(pairs) * traces),
        },
        schema={"trace": pl.UInt32, "src": pl.UInt32, "dst": pl.UInt32, "type": pl.String},
    )
    measures = pl.DataFrame(
        {
            "trace": list(range(traces)),
            "kind": ["reward"] * traces,
            "name": ["team"] * traces,
            "value": [float(i) for i in range(traces)] if rewards is None else rewards,
        }
    )
    names = pl.DataFrame({"trace": list(range(traces)), "trace_id": [f"run {t}" for t in range(traces)]})
    return ot.Corpus.from_arrow(traces=names, events=events, edges=links, measures=measures)


def kept(corpus):
    return corpus.events.select("trace", "id").collect().rows()


def test_a_beginning_by_hand():
    # e3 is first and waits for e4, which is last: it lacks its cause, and so does e2, which follows from it.
    corpus = corpus_of([1, 2, 3, 0, 9], [(0, 1), (4, 3), (3, 2)])
    assert kept(ot.study.prefixes(corpus, 0.8)) == [(0, "e0"), (0, "e1")]
    assert kept(ot.study.prefixes(corpus, 1.0)) == [(0, f"e{i}") for i in range(5)]
    # 0.3 of five events are rounded up to two: e3 and e0, of which one is lost.
    assert kept(ot.study.prefixes(corpus, 0.3)) == [(0, "e0")]
    half = ot.study.prefixes(corpus, 0.8)
    assert half.edges.select("src", "dst").collect().rows() == [(0, 1)]
    assert half.measures.select("name", "value").collect().rows() == [("team", 0.0)]
    assert half.traces.select("trace_id", "n_events", "n_agents").collect().rows() == [("run 0", 2, 2)]


def test_ties_go_by_place_in_the_document():
    assert kept(ot.study.prefixes(corpus_of([5, 5, 5, 5], []), 0.5)) == [(0, "e0"), (0, "e1")]


@examples(60)
@given(
    st.integers(1, 9).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 4), min_size=n, max_size=n),
            st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12),
            st.floats(0.05, 1.0),
        )
    )
)
def test_what_is_kept_is_the_largest_closed_part_of_the_first(drawn):
    times, edges, share = drawn
    edges = [(a, b) for a, b in edges if a != b]
    order = sorted(range(len(times)), key=lambda i: (times[i], i))
    want = set(order[: -int(-(len(times) * share - 1e-9) // 1)])
    while lost := {b for a, b in edges if b in want and a not in want}:
        want -= lost
    corpus = corpus_of(times, edges, traces=2)
    if not want:
        return
    found = ot.study.prefixes(corpus, share)
    assert kept(found) == [(t, f"e{i}") for t in range(2) for i in sorted(want)]
    ids = found.events.select("trace", "seq", "id").collect()
    ends = found.edges.collect()
    for side in ("src", "dst"):
        ends = ends.join(ids.rename({"seq": side, "id": f"{side}_id"}), on=["trace", side])
    inside = {(f"e{a}", f"e{b}") for a, b in edges if a in want and b in want}
    assert set(ends.filter(trace=0).select("src_id", "dst_id").rows()) == inside


def test_short_runs_are_left_out_and_numbers_still_meet():
    corpus, _ = ot.synthetic.planted(traces=40, agents=3, events=8, length_spread=0.9, seed=2)
    long = corpus.traces.filter(pl.col("n_events") >= 24).collect()
    assert 0 < long.height < 40
    cut = ot.study.prefixes(corpus, 0.5, min_events=24)
    assert cut.traces.collect()["trace_id"].to_list() == long["trace_id"].to_list()
    events = cut.events.group_by("trace").len().collect().sort("trace")["len"]
    assert events.to_list() == [-(-n // 2) for n in long["n_events"]]


def test_the_trend_is_that_of_credit_on_the_parts():
    corpus, _ = ot.synthetic.planted(traces=64, agents=5, events=12, seed=5)
    trend = ot.study.downscale(corpus, ["flow", ("gae", {"lambda_": 0.5})], shares=[0.25, 0.5])
    assert trend["method"].unique().sort().to_list() == ["flow", "gae (lambda_=0.5)"]
    assert trend["metric"].unique().sort().to_list() == [
        "sign_agreement",
        "spearman",
        "top_k_overlap",
        "top_share",
    ]
    assert trend.height == 2 * 4 * 3
    whole = trend.filter(share=1.0, metric="spearman")
    assert whole["value"].to_list() == whole["upper"].to_list() == [1.0, 1.0]
    # eight tasks that all agree with themselves: as many as differ could have been missed
    assert whole["lower"].to_list() == pytest.approx([2.0 * 0.025 ** (1 / 8) - 1.0] * 2, abs=0.1)
    part = ot.study.prefixes(corpus, 0.5)
    table = ot.evaluation.agreement(
        corpus,
        ot.credit(part, method="flow", unit="agent"),
        ot.credit(corpus, method="flow", unit="agent"),
        k=0.05,
    )
    own = trend.filter(share=0.5, method="flow", metric="spearman").row(0, named=True)
    assert own["value"] == pytest.approx(table["value"][1]) and own["lower"] == pytest.approx(
        table["lower"][1]
    )
    assert own["mean_events"] == 30.0 and own["mean_lost"] == 0.0 and own["null_share"] == 0.0
    # One of at most 20 agents is the top 5 %: the share of the largest.
    credits = ot.credit(corpus, method="flow", unit="agent").drop_nulls("unit_id")
    size = pl.col("credit").abs()
    shares = credits.group_by("trace").agg(top=size.max() / size.sum())["top"]
    told = trend.filter(share=1.0, method="flow", metric="top_share")["value"][0]
    assert told == pytest.approx(shares.mean())
    assert trend.equals(ot.study.downscale(corpus, ["flow", ("gae", {"lambda_": 0.5})], shares=[0.25, 0.5]))


def test_a_method_that_refuses_says_so_and_costs_no_other_its_rows():
    corpus, _ = ot.synthetic.planted(traces=16, agents=40, length=400, branching=40, seed=1)
    trend = ot.study.downscale(corpus, ["shapley", "flow"], shares=[0.5], min_events=100)
    wrong = trend.filter(method="shapley", share=1.0)
    assert wrong.height == 1 and "exact up to" in wrong["error"][0] and wrong["value"][0] is None
    assert trend.filter(method="flow")["error"].null_count() == 8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: ot.study.prefixes(c, 0.0), "share is 0.0"),
        (lambda c: ot.study.prefixes(c, 1.5), "share is 1.5"),
        (lambda c: ot.study.prefixes(c, True), "share is True"),
        (lambda c: ot.study.prefixes("c", 0.5), "expected a corpus"),
        (lambda c: ot.study.downscale(c, "flow"), "methods is 'flow', expected a list"),
        (lambda c: ot.study.downscale(c, []), "expected a list"),
        (lambda c: ot.study.downscale(c, ["flw"]), "did you mean 'flow'"),
        (lambda c: ot.study.downscale(c, ["flow"], shares=[0.5, -1]), "share is -1"),
        (lambda c: ot.study.downscale(c, ["flow"], min_events=10**6), "no trace has 1000000 events"),
        (lambda c: ot.study.downscale(c, ["flow"], confidence=2), "confidence is 2"),
    ],
)
def test_mistakes_have_one_clear_line(call, words):
    with pytest.raises(ot.ParameterError, match=words):
        call(ot.generate(traces=3, seed=0))


def test_a_corpus_on_disk_is_refused(tmp_path):
    ot.generate(str(tmp_path / "a.jsonl"), traces=4, seed=0)
    ot.ingest(str(tmp_path / "a.jsonl"), tmp_path / "corpus")
    with pytest.raises(ot.ParameterError, match="prefixes need a corpus in memory"):
        ot.study.prefixes(ot.read_corpus(tmp_path / "corpus"), 0.5)


def test_recorded_runs_of_others(corpora):
    corpus = ot.read_traces(corpora / "who-and-when")
    half = ot.study.prefixes(corpus, 0.5, min_events=20)
    sizes = corpus.traces.filter(pl.col("n_events") >= 20).select("trace_id", "n_events").collect()
    both = half.traces.select("trace_id", kept="n_events").collect().join(sizes, on="trace_id")
    assert both.height == sizes.height > 10
    assert (both["kept"] <= (both["n_events"] + 1) // 2).all()
