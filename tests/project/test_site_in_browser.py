"""The site in a browser: search, two widths, light and dark, no errors, no other hosts, accessibility."""

import functools
import os
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from project.site_build import built

pytest.importorskip("zensical", reason="the site needs pip install '.[docs]'")
playwright = pytest.importorskip("playwright.sync_api", reason="a browser is driven by playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe judges the pages")

CHROMIUM = os.environ.get("ORCHESTRACE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH, and ORCHESTRACE_CHROMIUM names none"),
]

JUDGED = ("index.html", "replay-schedule.html", "python/credit.html", "codes/graph.cycle.html")
PAGES = (
    *JUDGED,
    "credit.html",
    "reference/definitions.html",
    "python/stopping/index.html",
    "command-line/credit.html",
    "notebooks/first_tour.html",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return built(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        one = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield one
        one.close()


@pytest.fixture
def page(request: pytest.FixtureRequest, browser: Any) -> Iterator[Any]:
    """A page of the width and scheme of the test, which fails on errors and on requests to other hosts."""
    width, scheme = getattr(request, "param", (1280, "light"))
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    one = context.new_page()
    wrong: list[str] = []
    one.on("console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None)
    one.on("pageerror", lambda error: wrong.append(str(error)))
    own = ("http://127.0.0.1:", "file:", "data:", "blob:")
    one.on("request", lambda asked: None if asked.url.startswith(own) else wrong.append(asked.url))
    yield one
    context.close()
    assert wrong == []


def searched(page: Any, words: str) -> list[str]:
    """The addresses that search shows, the best first."""
    page.keyboard.press("/")
    box = page.get_by_role("combobox", name="Search")
    box.wait_for()
    box.press_sequentially(words, delay=30)
    options = page.get_by_role("option")
    # results of what was typed before are shown until those of all words are there
    asked = re.compile(re.escape(f"?h={words.replace(' ', '+')}") + r"($|#)")
    playwright.expect(options.first).to_have_attribute("href", asked, timeout=30_000)
    return [str(one.get_attribute("href")) for one in options.all()]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("ot.credit", "python/credit.html"),
        ("fit_abort", "python/stopping/fit_abort.html"),
        ("graph.cycle", "codes/graph.cycle.html"),
        ("orchestrace taint", "command-line/taint.html"),
    ],
)
@pytest.mark.parametrize("how", ["http", "file"])
def test_search_finds_names(page: Any, address: str, site: Path, how: str, words: str, place: str) -> None:
    base = address if how == "http" else site.as_uri()
    page.goto(f"{base}/index.html")
    first, *_ = searched(page, words)
    assert first.partition("?")[0] == f"{base}/{place}"
    page.goto(first)
    assert page.locator("h1").count() == 1


@pytest.mark.parametrize(
    "page", [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")], indirect=True
)
def test_pages_fit_and_are_accessible(page: Any, address: str, tmp_path: Path) -> None:
    judge = axe.Axe()
    for place in PAGES:
        page.goto(f"{address}/{place}")
        page.wait_for_load_state("networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{place} is {wide} px wider than the window"
        picture = tmp_path / f"{place.replace('/', '-')}.png"
        page.screenshot(path=picture)
        assert picture.stat().st_size > 8_000, f"{place} is all but empty"
        broken = "[...document.images].filter(one => one.complete && !one.naturalWidth).map(one => one.src)"
        assert page.evaluate(broken) == []
        found = judge.run(page).response["violations"] if place in JUDGED else []
        serious = [
            (one["id"], node["html"][:200], node.get("failureSummary", "")[:200])
            for one in found
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]
        assert serious == [], place


def test_the_first_page_leads_to_the_reference_by_keyboard(page: Any, address: str) -> None:
    page.goto(f"{address}/index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    page.get_by_role("link", name="Reference", exact=True).first.click()
    page.wait_for_load_state()
    assert page.locator("h1").count() == 1
