"""Sizes of random runs and their nearest envelopes, against loops written from the definitions only."""

import io
import json
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.corpus.owners import owners
from orchestrace.scaling.axes import AXES, scale_of
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import corpora

Document = dict[str, Any]


def lifetimes(events: list[dict[str, Any]], trace: Trace) -> list[tuple[float, float]]:
    """By D19: everybody who owns an event or is named by a spawn."""
    order = sorted(events, key=lambda e: (e["t"], e["seq"]))
    owned = [e for e in order if e["owner"] is not None]
    root = trace.root
    times = [e["t"] for e in events]
    named = [e["to"] for e in order if e["type"] == "spawn" and e["to"] not in (None, *trace.outside)]
    lives = []
    for name in {e["owner"] for e in owned} | set(named):
        own = [e for e in owned if e["owner"] == name]
        if name == root:
            lives.append((min(times), max(times)))
        elif name in named:
            start = next(e["t"] for e in order if e["type"] == "spawn" and e["to"] == name)
            over = [e["t"] for e in own if e["type"] == "return"]
            over += [e["t"] for e in events if e["type"] == "despawn" and e["to"] == name]
            lives.append((start, max(start, max(over, default=max(times)))))
        else:
            lives.append((own[0]["t"], own[-1]["t"]))
    return lives


@examples(150)
@given(corpora())
def test_sizes_are_those_of_the_definitions(documents: list[Document]) -> None:
    corpus = ot.read_traces(io.BytesIO("\n".join(map(json.dumps, documents)).encode()))
    scale = scale_of(corpus)
    table = corpus.events.collect().with_columns(owners(corpus)["owner"])
    groups = corpus.traces.select("group_id").collect()["group_id"].to_list()
    assert scale.height == len(documents)
    for row, group, document in zip(scale.iter_rows(named=True), groups, documents, strict=True):
        events = table.filter(trace=row["trace"]).rows(named=True)
        lives = lifetimes(events, Trace(document))
        # somebody is alive at the most somewhere at which somebody begins
        at_once = [sum(a <= start <= b for a, b in lives) for start, _ in lives]
        assert row["peak_concurrency"] == (max(at_once) if lives else None)
        steps = [e for e in events if e["owner"] and e["type"] not in ("message", "spawn", "despawn")]
        assert row["n_steps"] == len(steps)
        assert row["n_tool_calls"] == sum(e["type"] == "tool_call" for e in events)
        assert row["n_agents"] == len({e["owner"] for e in events} - {None})
        of_team = [
            e
            for e in events
            if e["type"] != "human_intervention" and e["agent"] not in Trace(document).outside
        ]
        told = [e["tokens_out"] for e in of_team if e["tokens_out"] is not None]
        assert row["tokens"] == (sum(told) if told else None)
        assert row["group_size"] == groups.count(group)


SIZES = st.one_of(st.none(), st.sampled_from([0, 1, 2, 10, 1000]), st.floats(0, 1e9, allow_nan=False))
RUNS = st.lists(st.fixed_dictionaries({axis.name: SIZES for axis in AXES}), min_size=1, max_size=6)


@examples(150)
@given(RUNS, st.integers(1, 4), st.integers(0, 34))
def test_nearest_and_ratios_are_those_of_a_loop(
    runs: list[dict[str, Any]], min_axes: int, other: int
) -> None:
    table = ot.scaling.list_envelopes()
    frame = pl.DataFrame(runs, schema={axis.name: pl.Float64 for axis in AXES})
    against = table["system"][other]
    found = ot.scaling.distance_to_published(frame, min_axes=min_axes, against=against)
    rows = table.rows(named=True)

    def point(values: dict[str, Any], key: Any) -> dict[str, float]:
        sizes = {axis.name: (values.get(key(axis)), axis.offset) for axis in AXES}
        return {
            name: math.log10(size + offset)
            for name, (size, offset) in sizes.items()
            if size is not None and size + offset > 0
        }

    for run, row in zip(runs, found.iter_rows(named=True), strict=True):
        here = point(run, lambda axis: axis.name)
        candidates = []
        for place, envelope in enumerate(rows):
            if envelope["scope"] != "trace":
                continue
            there = point(envelope, lambda axis: axis.envelope)
            common = here.keys() & there.keys()
            if len(common) >= min_axes:
                mean = sum(abs(here[name] - there[name]) for name in common) / len(common)
                candidates.append((mean, -len(common), place))
        for name in here:
            assert row[f"log10_{name}"] == pytest.approx(here[name], abs=1e-12)
        if not candidates:
            assert row["nearest"] is None
            assert row["reason"] == ("support.absent" if here else "field.absent")
        else:
            least = min(candidates)
            assert row["distance"] == pytest.approx(least[0], abs=1e-12) and row["reason"] is None
            # rounding may choose another one of those that are equally near
            near = {rows[place]["system"] for mean, _, place in candidates if mean <= least[0] + 1e-12}
            assert row["nearest"] in near
        named = point(rows[other], lambda axis: axis.envelope)
        for axis in AXES:
            both = axis.name in here and axis.name in named
            expected = here[axis.name] - named[axis.name] if both else None
            ratio = row[f"log10_ratio_{axis.name}"]
            assert ratio == (None if expected is None else pytest.approx(expected, abs=1e-12))


@examples(50)
@given(RUNS, st.randoms(use_true_random=False))
def test_a_row_does_not_depend_on_the_place_of_others(runs: list[dict[str, Any]], chance: Any) -> None:
    """Coordinates, percentiles and nearest envelopes go with the row, whatever the order."""
    frame = pl.DataFrame(runs, schema={axis.name: pl.Float64 for axis in AXES})
    order = list(range(len(runs)))
    chance.shuffle(order)
    assert ot.scaling.distance_to_published(frame[order]).equals(
        ot.scaling.distance_to_published(frame)[order]
    )
