"""Frontiers of stopping: areas by hand, the picture, the command."""

import json
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from cli.commands import error_line, run


def curve(**lines: list[tuple[float, float | None]]) -> pl.DataFrame:
    rows = [
        {"price": float(n), "method": name, "cost": cost, "quality": quality, "n_runs": 10, "n_tasks": 5}
        for name, points in lines.items()
        for n, (cost, quality) in enumerate(points)
    ]
    return pl.DataFrame(rows)


def test_the_area_by_hand() -> None:
    made = curve(a=[(1.0, 0.5), (3.0, 0.9)], b=[(2.0, 0.4), (4.0, 0.8)])
    # both cover 2 to 3: a from .7 to .9, b from .4 to .6
    assert ot.stopping.frontier_area(made, "a", "b") == pytest.approx(0.3, abs=1e-12)
    assert ot.stopping.frontier_area(made, "b", "a") == pytest.approx(-0.3, abs=1e-12)
    assert ot.stopping.frontier_area(made, "a", "a") == 0.0


def test_a_kink_between_the_points_of_the_other_counts() -> None:
    made = curve(a=[(0.0, 0.0), (1.0, 1.0), (2.0, 1.0)], b=[(0.0, 0.0), (2.0, 0.0)])
    assert ot.stopping.frontier_area(made, "a", "b") == pytest.approx(0.5 + 1.0, abs=1e-12)


def test_no_shared_cost_is_no_area() -> None:
    made = curve(a=[(1.0, 0.5), (2.0, 0.9)], b=[(2.0, 0.4), (4.0, 0.8)], c=[(1.5, None)])
    assert ot.stopping.frontier_area(made, "a", "b") is None
    assert ot.stopping.frontier_area(made, "a", "c") is None
    # of one cost the best quality counts
    twice = curve(a=[(0.0, 0.1), (0.0, 0.5), (1.0, 0.5)], b=[(0.0, 0.0), (1.0, 0.0)])
    assert ot.stopping.frontier_area(twice, "a", "b") == pytest.approx(0.5)


def test_learned_rules_cover_an_area_over_the_best_fixed_epoch() -> None:
    epochs, truth = ot.synthetic.stops(runs=1500, seed=2)
    found = ot.stopping.frontier(
        epochs, ["fixed", "lsm"], prices=[0.0, truth.price / 2, truth.price, 2 * truth.price], n_boot=20
    )
    area = ot.stopping.frontier_area(found, "lsm", "fixed")
    assert area is not None and area > 0.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": "c"}, "unknown rule of the curve 'c'"),
        ({"curve": pl.DataFrame({"method": ["a"]})}, "column"),
    ],
)
def test_what_the_area_refuses(given: dict[str, object], words: str) -> None:
    call: dict[str, object] = {"curve": curve(a=[(1.0, 0.5)]), "method": "a", "other": "a"}
    with pytest.raises(ot.OrchestraceError) as error:
        ot.stopping.frontier_area(**(call | given))  # type: ignore[arg-type]
    assert words in str(error.value)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frontier") / "runs.jsonl"
    ot.generate(path, traces=60, seed=4)
    return path


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_the_command_draws_and_lists_it(recorded: Path, tmp_path: Path, suffix: str) -> None:
    picture = tmp_path / f"frontier.{suffix}"
    call = ["stopping", "frontier", recorded, "--source", "attempt", "--method", "fixed", "--json"]
    done = run(*call, "--price", "0", "--price", "0.1", "--plot", picture)
    assert [row["price"] for row in json.loads(done.stdout)] == [0.0, 0.1]
    begin = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>"}[suffix]
    assert picture.read_bytes().lstrip().startswith(begin)
    again = run(*call, "--price", "0", "--plot", picture, code=1)
    assert "exists; give --force to replace it" in error_line(again)


def test_the_command_says_what_is_missing(recorded: Path, tmp_path: Path) -> None:
    assert "no price is given: --price 0" in error_line(run("stopping", "frontier", recorded, code=2))
    odd = run("stopping", "frontier", recorded, "--price", "0", "--plot", tmp_path / "x.pdf", code=2)
    assert "must end in one of .svg, .png, .html" in error_line(odd)
