"""How soon a page of `ot.view` is there, in Chromium, and its picture for docs/view.md.

    python benches/python/view_paint.py
    python benches/python/view_paint.py --picture docs/pictures/view.png

Needs pip install '.[browser-tests]' and a Chromium, found on PATH or by ORCHESTRACE_CHROMIUM. Prints, for
runs of 1,000, 10,000 and 20,000 events, the median of five loads in fresh contexts, in milliseconds since
navigation began: first paint, and when the timeline is drawn and every control works. With --picture it draws
the picture and times nothing.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

import orchestrace as ot

LOADS = 5
READY = """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done([
    performance.getEntriesByName("first-paint")[0].startTime,
    performance.getEntriesByName("drawn")[0].startTime]))))"""


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("ORCHESTRACE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise SystemExit("no Chromium on PATH: install one, or name it with ORCHESTRACE_CHROMIUM")
    return found


def timed(browser: Any, page: Path) -> tuple[float, float]:
    """Medians of first paint and of the page being ready, in milliseconds."""
    paints, readies = [], []
    for _ in range(LOADS):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        tab = context.new_page()
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready=yes]")
        paint, ready = tab.evaluate(READY)
        paints.append(paint)
        readies.append(ready)
        context.close()
    return statistics.median(paints), statistics.median(readies)


def measure(browser: Any, folder: Path) -> None:
    print("events  seconds to write  bytes      first paint, ms  ready, ms")
    for per_agent in (50, 500, 1000):
        corpus, _ = ot.synthetic.planted(traces=1, agents=20, events=per_agent, seed=1)
        events = corpus.events.collect().height
        begun = time.perf_counter()
        made = ot.view(corpus, folder / f"{events}.html")
        took = time.perf_counter() - begun
        paint, ready = timed(browser, folder / f"{events}.html")
        print(f"{events:<7} {took:<17.2f} {made.bytes:<10} {paint:<16.0f} {ready:.0f}")


def picture(browser: Any, folder: Path, target: Path) -> None:
    """The chosen run of a generated corpus, with its timeline and one event."""
    os.chdir(folder)
    ot.synthetic.planted("runs.jsonl", traces=5, agents=8, events=14, depth=3, seed=4)
    ot.view(ot.read_traces("runs.jsonl"), "page.html")
    tab = browser.new_page(viewport={"width": 1240, "height": 1060}, color_scheme="light")
    tab.goto((folder / "page.html").as_uri())
    tab.wait_for_selector("html[data-ready=yes]")
    tab.focus("canvas")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    tab.evaluate("scrollTo(0, 0)")
    tab.wait_for_timeout(300)
    tab.screenshot(path=target)
    print(f"{target}: {target.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--picture", type=Path, help="write the picture of docs/view.md, and time nothing")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, sync_playwright() as running:
        # a container has no sandbox for root
        browser = running.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        if given.picture is None:
            measure(browser, Path(made))
        else:
            picture(browser, Path(made), given.picture.resolve())
        browser.close()


if __name__ == "__main__":
    main()
