"""Agents present over time, against plain Python that asks at every moment."""

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.plot.presence import MOST_STEPS
from plot.picture_checks import faults_of
from plot.test_plotted_values import rows_with
from samples.examples import examples

Run = list[tuple[float, int]]


def profile_of(runs: list[Run]) -> pl.DataFrame:
    """What `concurrency_profile` says of runs, each a list of moments and who is there after them."""
    rows = [(trace, t, after) for trace, run in enumerate(runs) for t, after in run]
    schema = {"trace": pl.UInt32, "t": pl.Float64, "after": pl.UInt32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def steps_of(profile: pl.DataFrame) -> list[dict[str, Any]]:
    return rows_with(ot.plot.concurrency(profile), "begin", "mean")


def present_at(run: Run, time: float) -> int | None:
    """Agents of a run so long after it began; None once it is over."""
    moments = [(t - run[0][0], after) for t, after in run]
    if time >= moments[-1][0]:
        return None
    return [after for t, after in moments if t <= time][-1]


@st.composite
def drawn_runs(draw: st.DrawFn) -> list[Run]:
    times = st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True).map(sorted)
    runs = []
    for moments in draw(st.lists(times, min_size=1, max_size=5)):
        counts = draw(st.lists(st.integers(0, 4), min_size=len(moments), max_size=len(moments)))
        runs.append([(float(t), n) for t, n in zip(moments, [*counts[:-1], 0], strict=True)])
    return runs


@examples(60)
@given(drawn_runs())
def test_steps_are_means_over_the_runs_that_are_going(runs: list[Run]) -> None:
    steps = steps_of(profile_of(runs))
    longest = max(run[-1][0] - run[0][0] for run in runs)
    assert sum(step["end"] - step["begin"] for step in steps) == longest
    for step in steps:
        for time in (step["begin"], (step["begin"] + step["end"]) / 2):
            counts = [n for run in runs if (n := present_at(run, time)) is not None]
            assert step["mean"] == pytest.approx(sum(counts) / len(counts))
            assert step["going"] == pytest.approx(len(counts) / len(runs))


def test_many_moments_are_joined_and_keep_their_mean() -> None:
    runs: list[Run] = [
        [(t + n / 7, (t + n) % 5) for t in range(400 * n)] + [(400.0 * n + n / 7, 0)] for n in (1, 2, 3)
    ]
    profile = profile_of(runs)
    steps = steps_of(profile)
    assert len(steps) == MOST_STEPS and faults_of(ot.plot.concurrency(profile)) == []
    agent_time = sum(n * (end - t) for run in runs for (t, n), (end, _) in pairwise(run))
    shown = sum(step["mean"] * step["going"] * len(runs) * (step["end"] - step["begin"]) for step in steps)
    assert shown == pytest.approx(agent_time)
    subtitle = " ".join(ot.plot.concurrency(profile).to_dict()["title"]["subtitle"])
    assert f"steps shown as {MOST_STEPS} of 2.4 each" in subtitle


def test_the_peak_of_one_run_is_the_metric() -> None:
    corpus = ot.generate(traces=8, seed=0)
    profile = ot.schedules.concurrency_profile(corpus)
    for trace in range(8):
        after = profile.filter(pl.col("trace") == trace)
        assert max(step["mean"] for step in steps_of(after)) == after["after"].max()


@pytest.mark.parametrize("runs", [[], [[(3.0, 0)]]])
def test_without_time_a_picture_says_so(runs: list[Run]) -> None:
    chart = ot.plot.concurrency(profile_of(runs))
    assert faults_of(chart) == [] and "No run of the profile takes time" in chart.to_dict()["description"]
