"""The site: every page in the navigation, every name found by search, no broken link, Markdown beside."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

from namespaces import SPACES, public
from orchestrace import _core
from orchestrace.cli import app
from project.site_build import ROOT, built

pytest.importorskip("zensical", reason="the site needs pip install '.[docs]'")

LISTED = re.compile(r"^- \[([^\]]+)\]\(([^)]+\.md)\)", re.MULTILINE)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return built(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture(scope="session")
def found(site: Path) -> dict[str, str]:
    """What search shows: titles by place."""
    items = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    return {item["location"]: item["title"] for item in items}


def listed(site: Path) -> list[str]:
    return [place for _, place in LISTED.findall((site / "llms.txt").read_text(encoding="utf-8"))]


def html_of(place: str) -> str:
    return place.removesuffix(".md") + ".html"


def test_every_page_is_in_the_navigation_once(site: Path) -> None:
    """llms.txt is written from the navigation, which refuses pages that have no place in it."""
    pages = listed(site)
    assert [place for place, count in Counter(pages).items() if count > 1] == []
    documents = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    expected = {re.sub(r"(^|/)README\.md$", r"\1index.md", place) for place in documents}
    assert expected - set(pages) == set()
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")} - {"404.html"}
    assert built == {html_of(place) for place in pages}


def test_every_page_has_its_markdown_beside_it(site: Path) -> None:
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    for place in listed(site):
        text = (site / place).read_text(encoding="utf-8")
        assert text.startswith("# ") and text.strip() in whole, place
    twins = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    assert twins == set(listed(site))


def test_llms_txt_has_the_standard_form(site: Path) -> None:
    """A title, a summary as a quotation, sections of links; https://llmstxt.org."""
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# orchestrace" and lines[2].startswith("> ")
    sections = [line for line in lines if line.startswith("#")][1:]
    assert len(sections) > 4 and all(line.startswith("## ") for line in sections)
    assert sum(line.startswith("- [") for line in lines) == len(listed(site))


def test_search_finds_every_public_name(found: dict[str, str]) -> None:
    titles = {title.replace("<wbr>", "") for title in found.values()}
    page = (ROOT / "docs" / "names.md").read_text(encoding="utf-8")
    names = re.findall(r"^(?:\| |## )`(ot\.[\w.]+)", page, re.MULTILINE)
    offered = {name for name, _ in public()} | SPACES.keys()
    assert {f"ot.{name}" for name in offered if not name.startswith("__")} <= set(names)
    assert [name for name in names if name not in titles] == []


def test_search_finds_members_of_classes(found: dict[str, str]) -> None:
    assert {"ot.Corpus.filter", "ot.Corpus.events", "ot.stopping.AbortRule.apply"} <= set(found.values())


def test_every_code_has_a_page(site: Path, found: dict[str, str]) -> None:
    for level, code, _, meaning in _core.codes():
        text = (site / "codes" / f"{code}.md").read_text(encoding="utf-8")
        heading = "an ignored record" if level == "ignored" else f"a {level}"
        assert f"## As {heading}" in text and meaning in text
        assert text.count("**Example.**") == text.count("**What to do.**") == text.count("## As a")
        assert found[f"codes/{code}.html"] == code


def test_every_command_and_option_is_on_its_page(site: Path) -> None:
    def options(command: typer.core.TyperCommand) -> list[str]:
        own = [word for one in command.params for word in one.opts if word.startswith("-")]
        return own + [word for inner in getattr(command, "commands", {}).values() for word in options(inner)]

    root = typer.main.get_command(app)
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        text = (site / "command-line" / f"{name}.md").read_text(encoding="utf-8")
        assert [word for word in options(command) if f"`{word}`" not in text] == [], name


def test_no_link_is_broken_and_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    """The build ends with this check, which the next test shows to find faults."""
    done = (site.parent / "site.built").read_text(encoding="utf-8")
    assert re.match(rf"{len(listed(site)) + 1} pages in .+ without a broken link", done), done


BROKEN = runpy.run_path(str(ROOT / ".ci" / "site" / "links.py"))["broken"]


def test_the_check_of_links_finds_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(
        '<a href="other.html#here">a</a><a href="other.html#gone">b</a><a href="gone.html">c</a>'
        '<img src="gone.svg"><script src="https://example.org/x.js"></script><a href="https://example.org">d</a>'
    )
    (tmp_path / "other.html").write_text('<h1 id="here"></h1><a href="./">up</a><a href="#none">e</a>')
    (tmp_path / "x.css").write_text("a { background: url(https://example.org/x.png) }")
    assert sorted(BROKEN(tmp_path)) == [
        "index.html: fetches https://example.org/x.js",
        "index.html: gone.html leads nowhere",
        "index.html: gone.svg leads nowhere",
        "index.html: other.html#gone has no such anchor",
        "other.html: #none has no such anchor",
        "x.css: fetches https://example.org/x.png",
    ]


def counted(markup: str) -> Counter[str]:
    """Elements by name; of those in which a generator wraps code, the code alone."""
    return Counter(re.findall(r"<(li|tr|table|pre|h[1-4]|img|blockquote)\b", markup))


def test_pages_show_what_a_reader_of_the_repository_sees(site: Path) -> None:
    """Another renderer, of CommonMark, finds as many lists, tables, blocks of code, headings and pictures."""
    commonmark = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for place in listed(site):
        text = (site / place).read_text(encoding="utf-8")
        page = (site / html_of(place)).read_text(encoding="utf-8")
        article = page.partition("<article")[2].partition("</article>")[0]
        shown = counted(re.sub(r"<(nav|aside)\b.*?</\1>", "", article, flags=re.DOTALL))
        assert shown == counted(commonmark.render(text)), place


def test_a_page_without_a_section_or_a_section_without_its_page_is_refused(tmp_path: Path) -> None:
    told = (
        "import navigation\n"
        "navigation.sections = lambda: [{'title': 'A', 'pages': ['a.md', 'b/*.md']}]\n"
        "print(navigation.flat(navigation.arranged({'b/c.md': 'C', 'a.md': 'A', 'b/d.md': 'B'})))\n"
        "for pages in ({'a.md': 'A', 'x.md': 'X'}, {'b/c.md': 'C'}):\n"
        "    try:\n"
        "        navigation.arranged(pages)\n"
        "    except SystemExit as error:\n"
        "        print(error)\n"
    )
    folder = ROOT / ".ci" / "site"
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[('A', 'A', 'a.md'), ('A', 'B', 'b/d.md'), ('A', 'C', 'b/c.md')]",
        "docs/navigation.toml has no section for: x.md",
        "docs/navigation.toml names pages that are not there: a.md",
    ]
