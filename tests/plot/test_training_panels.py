"""Curves of a training run as panels: what is drawn is what the table says."""

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.plot.training_panels import MOST_PANELS, MOST_STEPS
from orchestrace.trainers.training_curves import CURVES
from plot.picture_checks import faults_of


def curves_of(
    names: list[str], steps: int, alarm_at: int | None = None, reward: str | None = None
) -> pl.DataFrame:
    rows = [
        {
            "train_step": float(step),
            "statistic": name,
            "reward": reward,
            "value": step + 0.5,
            "lower": step + 0.0,
            "upper": step + 1.0,
            "alarm": step == alarm_at and name == names[-1],
            "jump": 3.0 if step == alarm_at and name == names[-1] else None,
        }
        for name in names
        for step in range(steps)
    ]
    return pl.DataFrame(rows, schema=CURVES)


def values(chart: object, column: str) -> list[list[float]]:
    data = chart.to_dict()["datasets"].values()  # type: ignore[attr-defined]
    return [[row[column] for row in rows] for rows in data if rows and column in rows[0]]


def test_each_panel_has_the_values_of_its_statistic() -> None:
    chart = ot.plot.training(curves_of(["tokens", "diversity"], 40, alarm_at=25))
    assert values(chart, "value") == [[step + 0.5 for step in range(40)]] * 2
    assert values(chart, "jump") == [[3.0]]
    spec = chart.to_dict()
    assert [panel["title"]["text"] for panel in spec["vconcat"]] == ["diversity", "tokens"]
    assert "Jumps: diversity by 3 at step 25." in spec["description"]
    assert faults_of(chart) == []


def test_more_steps_than_points_are_means_and_say_so() -> None:
    chart = ot.plot.training(curves_of(["tokens"], 3 * MOST_STEPS, alarm_at=1000))
    (points,) = values(chart, "value")
    assert len(points) == MOST_STEPS and points[0] == 1.5
    assert values(chart, "train_step")[1] == [1000.0]
    assert "each point is the mean of 3 steps" in chart.to_dict()["description"]


def test_more_statistics_than_panels_leave_those_with_alarms() -> None:
    names = [f"s{k}" for k in range(MOST_PANELS + 5)]
    chart = ot.plot.training(curves_of(names, 31, alarm_at=3))
    panels = [panel["title"]["text"] for panel in chart.to_dict()["vconcat"]]
    assert panels == [names[-1], *names[: MOST_PANELS - 1]]
    assert "12 of 17 statistics" in chart.to_dict()["description"]


def test_channels_of_one_statistic_are_panels_of_their_own() -> None:
    both = [curves_of(["reward_mean"], 31, reward=name) for name in ("tests", "a\x1b[31mb" + "x" * 90)]
    chart = ot.plot.training(pl.concat(both))
    first, second = (panel["title"]["text"] for panel in chart.to_dict()["vconcat"])
    assert first == "reward_mean of tests" and "\x1b" not in second
    assert faults_of(chart) == []


def test_steps_without_anything_are_a_picture_that_says_so() -> None:
    nothing = curves_of(["tokens"], 3).with_columns(value=pl.lit(None, pl.Float64))
    assert "No step has a value." in ot.plot.training(nothing).to_dict()["description"]


def test_an_unknown_statistic_is_named() -> None:
    with pytest.raises(ot.ParameterError, match=r"unknown statistic 'tokns'.*did you mean 'tokens'"):
        ot.plot.training(curves_of(["tokens"], 3), statistics=["tokns"])
