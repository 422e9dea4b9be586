"""What direct advantage estimation says of published recordings; docs/credit-fitted.md has the table."""

import json
import re
import warnings
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

PAGE = Path(__file__).resolve().parents[2] / "docs/credit-fitted.md"


def quality(corpus: ot.Corpus, reward: str) -> dict[str, float]:
    (params,) = ot.credit(corpus, method="dae", unit="team", reward=reward)["params"].unique()
    found: dict[str, float] = json.loads(params)["quality"]
    return found


@pytest.mark.parametrize(
    ("name", "reward", "line"),
    [("agentdojo", "safety", 0), ("agentdojo", "team", 1), ("tau-bench", "team", 2)],
)
def test_the_page_says_what_choices_predict(corpora: Path, name: str, reward: str, line: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = ot.read_traces(corpora / name)
    found = quality(corpus, reward)
    rows = (
        PAGE.read_text(encoding="utf-8")
        .replace("\N{MINUS SIGN}", "-")
        .partition("## What `dae` says")[2]
        .split("\n")
    )
    cells = [
        cell.strip() for cell in [row for row in rows if row.startswith("|")][2 + line].strip("|").split("|")
    ]
    written = [float(cell) for cell in cells[2:6]]
    assert written == pytest.approx([found[key] for key in ("n", "r2_cv", "p_value", "overlap")], abs=0.006)
    table = ot.values.prefix(corpus, reward=reward)
    if name == "tau-bench":
        assert set(table["reason"].cast(pl.String)) == {"signal.absent"}
        return
    tools = corpus.events.select("trace", "seq", pl.col("tool").cast(pl.String)).collect()
    means = table.filter(part="skill").join(tools, on=["trace", "seq"]).group_by("tool")
    of = {tool: rest for tool, *rest in means.agg(pl.col("change", "lower", "upper").mean()).iter_rows()}
    number = r"(-?[\d.]+) \[(-?[\d.]+), (-?[\d.]+)\]"
    names = re.findall(r"of `(\w+)`", cells[6])
    assert len(names) == 2
    for tool, text in zip(names, re.findall(number, cells[6]), strict=True):
        assert [float(part) for part in text] == pytest.approx(of[tool], abs=0.006)


def test_runs_that_all_failed_say_nothing(corpora: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = ot.read_traces(corpora / "who-and-when")
    credits = ot.credit(corpus, method="dae", unit="team")
    assert "group.degenerate" in set(credits["reason"].cast(pl.String))
    assert set(credits["credit"].drop_nulls()) <= {0.0}
