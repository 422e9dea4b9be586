"""The notebooks run from the first cell to the last, on generated recordings."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

pytest.importorskip("marimo")
pytest.importorskip("altair")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.py"))


assert NOTEBOOKS


def run(path: Path) -> tuple[list[Any], dict[str, Any]]:
    """What the cells of a notebook show and define; an error in one is raised."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    outputs, definitions = module.app.run()
    return list(outputs), dict(definitions)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_shows_something(path: Path) -> None:
    outputs, _ = run(path)
    shown = [one for one in outputs if one is not None]
    # all but the imports
    assert len(shown) == len(outputs) - 1
    frames = [one for one in shown if isinstance(one, pl.DataFrame)]
    assert frames and all(frame.height for frame in frames)


def test_the_tour_shows_where_a_number_comes_from() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "first_tour"))
    assert made["metrics"].height == len(made["corpus"])
    assert made["credits"]["credit"].sum() == pytest.approx(
        made["corpus"].measures.filter(pl.col("name").cast(pl.String) == "team").collect()["value"].sum()
    )


def test_the_gap_shows_the_published_law() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "scaling_gap"))
    assert made["needed"]["rollouts"].to_list() == [79, 785, 7849, 31396]


def test_each_says_how_it_is_started() -> None:
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"marimo edit examples/notebooks/{path.name}", text)
