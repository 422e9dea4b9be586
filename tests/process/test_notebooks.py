"""The notebooks run from the first cell to the last, on generated recordings."""

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

pytest.importorskip("marimo")
pytest.importorskip("altair")

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples" / "notebooks").glob("*.py"))
TO_HTML = NOTEBOOKS[0].parents[1] / "notebook_to_html.py"
OF_RECORDINGS = [path for path in NOTEBOOKS if "--path" in path.read_text(encoding="utf-8")]

assert len(NOTEBOOKS) > len(OF_RECORDINGS) > 1


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


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_page_that_asks_for_nothing(path: Path) -> None:
    spec = importlib.util.spec_from_file_location("notebook_to_html", TO_HTML)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page(path)
    assert "default-src 'none'" in page and "<table>" in page
    if "alt.Chart" in path.read_text(encoding="utf-8"):
        assert "<svg" in page
    # links are for readers; whatever a browser would fetch by itself is not there
    assert not re.search(r"<(script|link|iframe|img|object|embed|marimo-)|@import|url\((?!#|data:)", page)
    assert "<h1" in page and "mo.md(" not in page.partition("<h1")[0]


@pytest.mark.parametrize("path", OF_RECORDINGS, ids=lambda path: path.stem)
def test_every_cell_runs_on_recordings_of_ones_own(path: Path, tmp_path: Path, monkeypatch: Any) -> None:
    ot.generate(tmp_path / "mine.jsonl", traces=24, seed=5)
    monkeypatch.setattr("sys.argv", [path.name, "--", "--path", str(tmp_path)])
    outputs, made = run(path)
    assert all(one is not None for one in outputs[1:]) and made["path"] == str(tmp_path)


def test_the_tour_shows_where_a_number_comes_from() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "first_tour"))
    assert made["metrics"].height == len(made["corpus"])
    assert made["credits"]["credit"].sum() == pytest.approx(
        made["corpus"].measures.filter(pl.col("name").cast(pl.String) == "team").collect()["value"].sum()
    )


def shown(output: Any) -> str:
    """What a reader sees of an output."""
    return output.text if hasattr(output, "text") else str(output)


def test_the_tour_has_something_to_show_in_every_table() -> None:
    outputs, made = run(next(path for path in NOTEBOOKS if path.stem == "first_tour"))
    told = next(shown(one) for one in outputs if "What was rejected" in shown(one))
    assert "field.missing" in told and made["corpus"].records["quarantined"] == 7
    # What is empty of a corpus of one's own is said in words.
    assert "No results" not in told


def test_methods_are_charted_from_the_best_to_the_worst() -> None:
    outputs, made = run(next(path for path in NOTEBOOKS if path.stem == "compare_methods"))
    chart = next(one for one in outputs if hasattr(one, "to_dict") and hasattr(one, "layer")).to_dict()
    ranked = made["marked"].drop_nulls("truth_spearman").sort("truth_spearman", descending=True)["method"]
    orders = [layer["encoding"]["y"].get("sort") for layer in chart["layer"]]
    assert orders == [ranked.to_list()] * 2


def test_numbers_of_compared_methods_are_shown_with_few_digits() -> None:
    outputs, _ = run(next(path for path in NOTEBOOKS if path.stem == "compare_methods"))
    frames = [one.select(pl.col(pl.Float64)) for one in outputs if isinstance(one, pl.DataFrame)]
    assert len(frames) == 2
    for frame in frames:
        assert frame.equals(frame.with_columns(pl.all().round_sig_figs(3)))


def test_extras_have_what_notebooks_and_reports_draw_with() -> None:
    root = Path(__file__).resolve().parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    drawing = {one for one in extras["optional-dependencies"]["plot"]}
    assert drawing <= set(extras["optional-dependencies"]["notebooks"])
    assert "__marimo__/" in (root / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_the_gap_shows_the_published_law() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "scaling_gap"))
    assert made["needed"]["rollouts"].to_list() == [79, 785, 7849, 31396]


def test_an_own_method_is_ranked_beside_others_in_every_world() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "own_method"))
    ranks = dict(made["marked"].select("method", "truth_spearman").iter_rows())
    # The critic of this world is exact, and `flow` does not ask it.
    assert ranks["value_gain"] > 0.5 > ranks["flow"]
    assert made["faded"]["method"].to_list() == made["methods"]
    assert len(made["faded"].columns) == 5


def test_the_notebook_of_stopping_holds_the_planted_optimum() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "stopping"))
    learned = made["table"].row(by_predicate=pl.col("method") == "lsm", named=True)
    assert learned["lower"] <= made["truth"].value <= learned["bound_upper"]
    fixed = made["table"].row(by_predicate=pl.col("method") == "fixed", named=True)
    assert learned["value"] > fixed["value"]


def test_rollouts_become_a_file_that_a_trainer_reads() -> None:
    _, made = run(next(path for path in NOTEBOOKS if path.stem == "rollouts_to_advantages"))
    written = pl.read_parquet(made["written"])
    assert written.height == made["table"].height > 0
    known = made["credits"].drop_nulls("credit").group_by("trace").agg(pl.col("credit").abs().sum())
    assert known.filter(pl.col("credit") > 0).height > 0
    assert {"uid", "trajectory_id", "advantages"} <= set(written.columns)


def test_each_says_how_it_is_started() -> None:
    for path in NOTEBOOKS:
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"marimo edit examples/notebooks/{path.name}", text)
