"""Units in Python against those of the core: the same names, the same events, on any traces."""

import math

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.corpus.units import TracesByNumber
from samples.examples import examples

UNITS = ("team", "role", "agent", "turn", "event", "orchestrator", "message", "tool", "token")
TYPES = SCHEMAS["events"]["type"].categories.to_list()  # type: ignore[attr-defined]
EDGES = SCHEMAS["edges"]["type"].categories.to_list()  # type: ignore[attr-defined]


def compare(corpus):
    """Sums of equal parts count the events of a unit; means of powers tell which events they are."""
    corpus = corpus.with_measures(corpus.traces.select("trace", one=pl.lit(1.0)).collect())
    traces = TracesByNumber(corpus)
    for unit in UNITS:
        equal = ot.credit(corpus, method="uniform", unit=unit, reward="one")
        powers = ot.credit(corpus, method="discounted", unit=unit, reward="one", gamma=0.9)
        wanted, means = {}, {}
        for trace, name, share in equal.select("trace", "unit_id", "credit").iter_rows():
            wanted.setdefault(trace, {})[name] = share
        for trace, name, mean in powers.select("trace", "unit_id", "credit").iter_rows():
            means.setdefault(trace, {})[name] = mean
        for number, trace in traces.items():
            members = {}
            for seq, name in enumerate(trace.units(unit)):
                members.setdefault(name, []).append(seq)
            assert members.keys() == wanted.get(number, {}).keys(), (unit, number)
            place = {seq: at for at, seq in enumerate(trace.order)}
            n = len(trace)
            for name, seqs in members.items():
                assert wanted[number][name] == pytest.approx(len(seqs) / n, abs=1e-12)
                if name is not None:
                    mean = math.fsum(0.9 ** (n - 1 - place[seq]) for seq in seqs) / len(seqs)
                    assert means[number][name] == pytest.approx(mean, rel=1e-9)


@st.composite
def corpora(draw):
    names = ["a", "b", "c", "user"]
    n = draw(st.integers(1, 14))
    optional = {
        "to": st.sampled_from([None, *names, "ghost"]),
        "role": st.sampled_from([None, "lead", "coder"]),
        "tool": st.sampled_from([None, "search", "shell"]),
        "turn": st.sampled_from([None, None, 0, 1, 2]),
        "tokens_out": st.sampled_from([None, 0, 3]),
    }
    rows = [
        {
            "trace": 0,
            "id": f"e{i}",
            "t": float(draw(st.integers(0, 4))),
            "type": draw(st.sampled_from(TYPES)),
            "agent": draw(st.sampled_from([*names, "search"])),
            **{name: draw(values) for name, values in optional.items()},
        }
        for i in range(n)
    ]
    ends = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(ends, ends, st.sampled_from(EDGES)), max_size=12))
    text = dict.fromkeys(("to", "role", "tool"), pl.String)
    events = pl.DataFrame(rows, schema_overrides={**text, "turn": pl.UInt32, "tokens_out": pl.Int64})
    edges = pl.DataFrame(
        [(0, s, d, kind) for s, d, kind in pairs],
        schema={"trace": pl.UInt32, "src": pl.UInt32, "dst": pl.UInt32, "type": pl.String},
        orient="row",
    )
    traces = pl.DataFrame({"trace": [0], "trace_id": ["x"]})
    return ot.Corpus.from_arrow(traces=traces, events=events, edges=edges)


@examples(150)
@given(corpora())
def test_any_trace_is_divided_as_the_core_divides_it(corpus):
    compare(corpus)


def test_generated_traces_are_divided_as_the_core_divides_them():
    compare(ot.generate(traces=20, preset="mixed", seed=4))
