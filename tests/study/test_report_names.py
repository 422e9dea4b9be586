"""Names that act in Markdown and HTML come out of the report of a study as words."""

import re
from pathlib import Path

import pytest

import orchestrace as ot
from orchestrace.study.page import Cell, Figure, Grid, Section, markdown_page

pytest.importorskip("altair")

NAMES = (
    "<script>alert(1)</script>",
    "[x](javascript:alert(1))",
    "![x](https://example.org/a.png)",
    "a`b<img src=x onerror=alert(1)>",
    "# heading",
    "x\n\n# heading | cell",
    "*bold* _slanted_ ~~gone~~",
    "&lt;b&gt;",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_words_in_markdown(name: str) -> None:
    parts: list[str | Figure | Grid] = [
        name,
        Grid([name, "b"], [[Cell(name), Cell(f"`{name}`")]], caption=name),
        Figure("figure", "<svg/>", name),
    ]
    text = markdown_page("title", name, [Section(name, parts)])
    # outside of code nothing of it begins a tag, a link, a heading, an entity or another cell
    bare = re.sub(r"`[^`\n]*`", "", text.replace("![figure](figures/figure.svg)", ""))
    assert not re.search(r"(?<!\\)<[a-z/]", bare), bare
    assert not re.search(r"(?<!\\)\](?=\()", bare), bare
    assert not re.search(r"(?<!\\)&[a-z#]", bare), bare
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert len(headings) == 2, headings
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 and all(len(re.findall(r"(?<!\\)\|", row)) == 3 for row in rows), rows


def test_a_study_with_such_names_is_reported(tmp_path: Path) -> None:
    config = {
        "sizes": [{"events": n, "agents": 3, "traces": 48} for n in (10, 40)],
        "presets": {"<script>alert(1)</script>": {"outcome": "linear"}},
        "methods": ["flow", "gae"],
    }
    ot.study.run(config, tmp_path / "study", workers=0)
    recorded = {"[x](javascript:alert(1))": ot.generate(traces=4, seed=0)}
    ot.study.report(tmp_path / "study", corpora=recorded)
    text = (tmp_path / "study" / "report.md").read_text()
    assert "alert(1)" in text
    bare = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"(?<!\\)<script", bare)
    assert not re.search(r"(?<!\\)\]\(javascript", bare)
