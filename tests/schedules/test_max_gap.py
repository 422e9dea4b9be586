"""The longest gap that counts as work: one default in every verb (D7)."""

import io
import json
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

HOUR = 3600.0


def corpus_of(times: list[float], basis: str = "seconds") -> ot.Corpus:
    """A run in which one agent acts at these times, each event because of the one before."""
    events = [
        {"id": f"e{n}", "t": t, "type": "message", "agent": "a", "to": "a"} for n, t in enumerate(times)
    ]
    edges = [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "causal"} for n in range(len(times) - 1)]
    costs = {"tokens": 0, "wall_clock_s": 0}
    run = {"trace_id": "run", "task_id": "task", "rewards": {"team": 1}, "costs": costs}
    run |= {"events": events, "edges": edges}
    return ot.read_traces(io.BytesIO(json.dumps(run).encode()), time_basis=basis)


def work(corpus: ot.Corpus, **options: Any) -> tuple[float, float]:
    row = ot.metrics(corpus, **options).row(0, named=True)
    return row["work"], row["idle_time"]


def test_an_hour_where_times_are_in_seconds() -> None:
    # 10 s, exactly an hour, and an hour and a second
    corpus = corpus_of([0, 10, 10 + HOUR, 11 + 2 * HOUR])
    assert work(corpus) == work(corpus, max_gap="auto") == (10 + HOUR, HOUR + 1)
    assert work(corpus, max_gap=HOUR) == work(corpus)
    assert work(corpus, max_gap=None) == (11 + 2 * HOUR, 0)
    assert work(corpus, max_gap=5) == (0, 11 + 2 * HOUR)


def test_no_limit_where_times_are_steps() -> None:
    corpus = corpus_of([0, 10, 10_000], "ordinal")
    assert work(corpus) == work(corpus, max_gap=None) == (10_000, 0)


def test_every_verb_has_the_same_default() -> None:
    corpus = corpus_of([0, 10, 10 + 3 * HOUR, 20 + 3 * HOUR])
    assert ot.schedules.simulate(corpus)["duration"].sum() == 20
    assert ot.schedules.critical_path(corpus, by="agent")["critical"].sum() == 20
    assert ot.schedules.scaling_curve(corpus)["work"].unique().to_list() == [20]
    assert ot.metrics(corpus, by="agent")["work"].sum() == 20
    assert ot.replay(corpus, ot.interventions.concurrency((1,)))["makespan_cf"].to_list() == [20]
    told = ot.summary(corpus)
    assert (told.seconds["model"], told.seconds["idle"], told.max_gap) == (20, 3 * HOUR, HOUR)
    drawn = ot.plot.timeline(corpus, 0).to_dict()["description"]
    assert drawn == ot.plot.timeline(corpus, 0, max_gap=HOUR).to_dict()["description"]


@pytest.mark.parametrize("wrong", ["hour", True, -1, float("nan"), float("inf")])
def test_what_is_no_gap_is_refused_in_a_line(wrong: Any) -> None:
    with pytest.raises(ot.ParameterError, match=r"^max_gap is .*, expected .*auto"):
        ot.metrics(corpus_of([0, 1]), max_gap=wrong)


def test_results_do_not_hang_on_other_runs() -> None:
    # a corpus with runs in seconds and in steps gives each its own limit
    seconds, steps = corpus_of([0, 10_000]), corpus_of([0, 10_000], "ordinal")
    both = pl.concat([ot.metrics(seconds), ot.metrics(steps)], how="vertical_relaxed")
    assert both["work"].to_list() == [0, 10_000]
