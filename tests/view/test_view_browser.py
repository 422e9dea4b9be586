"""The page in Chromium: what a reader sees and does, by mouse, by keyboard, and with assistive technology."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from view.pages import HOSTILE, hostile_corpus, session

CHROMIUM = os.environ.get("ORCHESTRACE_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH; ORCHESTRACE_CHROMIUM names one"),
]
WIDTHS = {1280: 900, 390: 844}
WIDE = 1400
"""A screen on which no table has a column that one has to scroll to."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        # a container has no sandbox for root
        options = {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        started = running.chromium.launch(**options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    ot.view(ot.generate(traces=14, seed=3), folder / "usual.html")
    ot.view(hostile_corpus(folder), folder / "hostile.html", text=True)
    ot.view(ot.generate(traces=1, seed=0).filter(False), folder / "empty.html")
    return {path.stem: path for path in folder.glob("*.html")}


class Opened:
    """A page in a browser, with everything that it should not have done."""

    def __init__(self, browser: Any, path: Path, width: int = 1280, **options: Any) -> None:
        size = {"width": width, "height": WIDTHS.get(width, 900)}
        self.page = browser.new_page(viewport=size, **options)
        self.said: list[str] = []
        self.page.on("console", lambda one: self.said.append(f"{one.type}: {one.text}"))
        self.page.on("pageerror", lambda one: self.said.append(str(one)))
        self.page.on("dialog", lambda one: (self.said.append(f"dialog: {one.message}"), one.dismiss()))
        self.page.on("request", self._requested)
        self._own = path.as_uri()
        self.page.goto(self._own)
        self.page.wait_for_selector("html[data-ready=yes]")

    def _requested(self, request: Any) -> None:
        if request.url != self._own:
            self.said.append(f"request: {request.url}")

    def tab(self, name: str) -> None:
        self.page.click(f"#tab-{name}")
        self.page.wait_for_selector(f"#pane-{name}:not([hidden]) > *")

    def column(self, table: str, at: int) -> list[str]:
        cells = self.page.locator(f"{table} tbody tr > :nth-child({at})")
        return [text.strip() for text in cells.all_inner_texts()]

    def focused(self) -> str:
        return str(self.page.evaluate("document.activeElement.id || document.activeElement.className"))


TABS = ("timeline", "agents", "credit", "effects", "events", "findings")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["usual", "hostile", "empty"])
def test_nothing_overflows_fails_or_is_fetched(
    browser: Any, pages: dict[str, Path], name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    opened = Opened(browser, pages[name], width, color_scheme=scheme)
    for tab in () if name == "empty" else TABS:
        opened.tab(tab)
        beside = opened.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert beside == 0, tab
        shot = tmp_path / f"{name}-{width}-{scheme}-{tab}.png"
        opened.page.screenshot(path=shot, full_page=True)
        assert shot.stat().st_size > 10_000
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize("name", ["usual", "hostile"])
def test_axe_has_no_serious_finding(browser: Any, pages: dict[str, Path], name: str) -> None:
    # what the scheme changes are colors alone
    for scheme, rules in (("light", None), ("dark", {"runOnly": ["color-contrast"]})):
        opened = Opened(browser, pages[name], color_scheme=scheme)
        for tab in TABS if name == "usual" else ("timeline", "events"):
            opened.tab(tab)
            found = axe.Axe().run(opened.page, options=rules).response["violations"]
            serious = [one for one in found if one["impact"] in ("serious", "critical")]
            assert not serious, [(one["id"], one["nodes"][0]["html"]) for one in serious]
        opened.page.close()


def test_hostile_names_are_shown_and_do_nothing(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["hostile"])
    shown = [text.split("\n")[0] for text in opened.column("#run-table", 1)]
    assert len(shown) == len(HOSTILE)
    assert "<script>window.stolen = 1; alert(1)</script> 0" in shown
    assert "abc\\u{202e}gnp.exe\\u{2066}x\\u{2069} 0" in shown
    assert "a\\u{7}b\\u{1b}[31mc\\u{0}d\\u{d}\\u{a}e 0" in shown
    assert "a\\u{2028}b\\u{2029}c 0" in shown
    assert any(name.endswith("(100,002 characters)") and len(name) < 200 for name in shown)
    for at in range(len(HOSTILE)):
        opened.page.locator("#run-table button.choose").nth(at).click()
        for tab in TABS:
            opened.tab(tab)
        opened.tab("events")
        opened.page.locator("#pane-events button.choose").first.click()
    assert opened.page.evaluate("window.stolen") is None
    assert opened.page.locator("img, iframe, object, embed").count() == 0
    text = opened.page.evaluate("document.body.innerText")
    assert not any(ord(c) in (0x202E, 0x2066, 0x1B, 0x07) for c in text)
    assert opened.said == []
    opened.page.close()


def test_the_keyboard_is_enough(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["usual"])
    page, keys = opened.page, opened.page.keyboard
    keys.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["x"] >= 0
    keys.press("/")
    assert opened.focused() == "search"
    keys.type("zzz")
    playwright.expect(page.locator("#matches")).to_have_text(re.compile("^0 of"))
    keys.press("Escape")
    assert page.input_value("#search") == ""
    page.focus("#tab-timeline")
    for name in (*TABS[1:], TABS[0]):
        keys.press("ArrowRight")
        assert opened.focused() == f"tab-{name}"
        assert page.get_attribute(f"#tab-{name}", "aria-selected") == "true"
        assert page.locator("[role=tabpanel]:visible").get_attribute("id") == f"pane-{name}"
    page.focus("canvas")
    told = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        keys.press(key)
        told.append(page.inner_text(".cursor"))
    assert len(set(told)) == 4
    keys.press("Enter")
    assert opened.focused() == "event"
    assert "recorded in" in page.inner_text("#event")
    keys.press("Escape")
    assert opened.focused() == "canvas"
    page.locator("#run-table button.choose").first.focus()
    keys.press("ArrowDown")
    second = page.locator("#run-table button.choose").nth(1).inner_text()
    keys.press("Enter")
    playwright.expect(page.locator("#run")).to_be_focused()
    assert page.inner_text("#run-title") == f"Run {second}"
    # focus is seen
    page.focus("#tab-timeline")
    keys.press("ArrowRight")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert opened.said == []
    page.close()


def test_columns_sort_both_ways(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["usual"])
    header = opened.page.locator("#run-table thead th", has_text="Tokens").first
    at = opened.page.locator("#run-table thead th").all_inner_texts().index("Tokens") + 1
    for direction in ("descending", "ascending"):
        header.locator("button").click()
        assert header.get_attribute("aria-sort") == direction
        numbers = [int(text.replace(",", "")) for text in opened.column("#run-table", at) if text]
        assert numbers == sorted(numbers, reverse=direction == "descending")
    opened.page.close()


def test_search_finds_runs_and_events(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["usual"])
    opened.tab("events")
    tool = next(name for name in opened.column("#pane-events", 5) if name)
    opened.page.fill("#search", tool.upper())
    playwright.expect(opened.page.locator("#matches")).not_to_be_empty()
    assert all(tool in " ".join(row) for row in _rows(opened, "#pane-events"))
    assert "match; in the chosen run" in opened.page.inner_text("#matches")
    opened.page.close()


def _rows(opened: Opened, table: str) -> list[list[str]]:
    rows = opened.page.locator(f"{table} tbody tr").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def test_the_timeline_shows_every_event_that_is_clicked(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["usual"])
    opened.page.locator("canvas").scroll_into_view_if_needed()
    box = opened.page.locator("canvas").bounding_box()
    for color in ("critical", "taint", "tokens", "cost_usd", "credit flow"):
        opened.page.select_option(".tools select >> nth=0", color)
        assert opened.page.locator(".legend li").count() >= 2
    found = set()
    for x in range(int(box["width"] * 0.2), int(box["width"]) - 10, 12):
        opened.page.mouse.click(box["x"] + x, box["y"] + 36)
        found.add(opened.page.inner_text("#event-title"))
    assert len(found) > 2
    opened.page.click("button[aria-label='Zoom in']")
    opened.page.click("button[aria-label='Show the whole run']")
    assert opened.said == []
    opened.page.close()


def claude_runs(folder: Path) -> ot.Corpus:
    """Sessions with every kind of token, titles, and a name of an agent that is an id."""
    for number in range(3):
        (folder / f"session-{number}.jsonl").write_text(session(number))
    return ot.read_traces(folder)


@pytest.mark.parametrize("name", ["usual", "hostile", "claude"])
def test_no_column_is_off_a_screen_of_1400_pixels(
    browser: Any, pages: dict[str, Path], name: str, tmp_path: Path
) -> None:
    path = pages.get(name) or tmp_path / "claude.html"
    if name == "claude":
        (tmp_path / "sessions").mkdir()
        ot.view(claude_runs(tmp_path / "sessions"), path, text=True)
    opened = Opened(browser, path, WIDE)
    for tab in TABS:
        opened.tab(tab)
        beside = opened.page.evaluate(
            "[...document.querySelectorAll('.scroll')].filter((one) => one.offsetParent)"
            ".map((one) => one.scrollWidth - one.clientWidth)"
        )
        assert beside and max(beside) == 0, tab
    assert opened.said == []
    opened.page.close()


def test_a_page_begins_with_the_story_and_where_time_and_tokens_went(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    corpus = claude_runs(tmp_path / "sessions")
    ot.view(corpus, tmp_path / "page.html", text=True)
    opened = Opened(browser, tmp_path / "page.html", WIDE)
    page = opened.page
    sections = page.eval_on_selector_all("main > section", "(all) => all.map((one) => one.id)")
    assert sections == ["story", "runs", "run", "recordings"]
    drawn = page.locator(".stack").all()
    names = [str(one.get_attribute("aria-label")).partition(":")[0] for one in drawn]
    assert names == ["Where time went", "Where tokens went, by agent"]
    # parts of a bar are as wide as what they stand for
    spent = ot.metrics(corpus, by="agent").group_by("agent").agg(pl.col("tokens").sum())
    most = spent["tokens"].max() / spent["tokens"].sum()  # type: ignore[operator]
    first, whole = drawn[1].locator("span").first.bounding_box(), drawn[1].bounding_box()
    assert first["width"] / whole["width"] == pytest.approx(most, abs=0.01)
    shown = [text.split("\n") for text in opened.column("#run-table", 1)]
    assert shown[0][0].startswith("2026-01-0") and "claude-opus-4-7" in shown[0][0]
    assert sorted(lines[1] for lines in shown) == ["Fix the parser 0", "Fix the parser 1", "do task 2"]
    heads = page.locator("#run-table thead th").all_inner_texts()
    assert "Cache write" in heads and "Format" not in heads and "Task" not in heads
    cells = [opened.column("#run-table", at + 1) for at in range(1, len(heads))]
    assert len({tuple(cell) for cell in cells}) == len(cells)
    # the story names runs as the list does, and opens them
    page.locator("#story-body button.choose").first.click()
    assert page.inner_text("#run-title").removeprefix("Run ") in page.inner_text("#story-body")
    assert opened.said == []
    page.close()


def test_print_leaves_out_what_only_a_screen_can_do(browser: Any, pages: dict[str, Path]) -> None:
    opened = Opened(browser, pages["usual"])
    opened.page.emulate_media(media="print")
    assert not opened.page.locator("#search-form").is_visible()
    assert opened.page.locator("#run-table table").is_visible()
    opened.page.close()
