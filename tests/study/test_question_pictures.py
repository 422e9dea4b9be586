"""The pictures of the pages about questions: the committed ones show the committed results."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest

from samples.scripts import loaded

pytest.importorskip("altair")
vl_convert = pytest.importorskip("vl_convert")

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
PAGES = ("gaming", "stopping", "off-policy", "rewards", "decisions")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("question_pictures")


def points(svg: str) -> list[str]:
    """What the points of a picture say of themselves: their fields and values, rounded."""
    found = [
        element.get("aria-label", "")
        for element in ET.fromstring(svg).iter()
        if element.get("aria-roledescription") == "point"
    ]
    assert all(found)
    return [re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.3f}", label) for label in found]


@pytest.mark.parametrize("page", ["gaming", "stopping"])
def test_committed_pictures_are_those_of_committed_results(script: ModuleType, page: str) -> None:
    """Run `python benches/python/question_pictures.py PAGE --svg docs/pictures/PAGE.svg` where this fails."""
    measured, draw = script.PAGES[page]
    rows = measured()
    drawn = points(vl_convert.vegalite_to_svg(draw(rows)))
    assert len(drawn) == rows.height
    assert points((PICTURES / f"{page}.svg").read_text(encoding="utf-8")) == drawn


@pytest.mark.parametrize("page", PAGES)
def test_every_page_shows_its_picture_and_how_it_is_made(script: ModuleType, page: str) -> None:
    assert tuple(script.PAGES) == PAGES
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    (alt,) = re.findall(rf"!\[(.*)\]\(pictures/{page}\.svg\)", text)
    assert len(alt) > 40
    assert f"python benches/python/question_pictures.py {page} --svg docs/pictures/{page}.svg\n" in text
    assert re.search(r"^## When (it|the detectors) lies?$", text, re.MULTILINE)
    svg = (PICTURES / f"{page}.svg").read_text(encoding="utf-8")
    assert len(points(svg)) > 5 and "NaN" not in svg and "undefined" not in svg and "null" not in svg
