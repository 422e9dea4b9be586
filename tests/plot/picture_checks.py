"""What is wrong with a picture: text out of it, text over text, panes without a mark.

Boxes of text are computed with the widths of Helvetica, which are those of Liberation Sans and Arial.
"""

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from plot.renderers import Fonts, renderer

_SVG = "{http://www.w3.org/2000/svg}"
_WIDTHS = dict(
    zip(
        map(chr, range(32, 127)),
        [
            *(278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278),
            *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015),
            *(667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, 667, 778, 722),
            *(667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333),
            *(556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333),
            *(500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584),
        ],
        strict=True,
    )
)
_BOLD_WIDTHS = dict(
    zip(
        map(chr, range(32, 127)),
        [
            *(278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278),
            *(556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975),
            *(722, 722, 722, 722, 667, 611, 778, 722, 278, 556, 722, 611, 833, 722, 778, 667, 778, 722),
            *(667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584, 556, 333),
            *(556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389),
            *(556, 333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584),
        ],
        strict=True,
    )
)
_EDGE = 1.5
"""Pixels that a text may be estimated to lie outside."""
_TOUCH = 1.0
"""Pixels by which two texts may be estimated to overlap."""
Matrix = tuple[float, float, float, float, float, float]
_SAME: Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
Point = tuple[float, float]


@dataclass(frozen=True)
class Text:
    """A line of text in a picture, and the corners of its box."""

    words: str
    corners: tuple[Point, Point, Point, Point]


@dataclass(frozen=True)
class Picture:
    """What the checks look at."""

    width: float
    height: float
    texts: list[Text]
    panes: list[int]
    """Of each pane how many marks it has that show something."""
    colors: set[str]


def svg_of(chart: Any, fonts: Fonts = "none") -> str:
    """The SVG of a chart of Altair, from a renderer with these fonts."""
    return renderer(fonts).svg(chart.to_dict())


def width_of(words: str, size: float, *, bold: bool = False) -> float:
    """Pixels of a line of text."""
    widths = _BOLD_WIDTHS if bold else _WIDTHS
    total = 0.0
    for letter in words:
        if unicodedata.combining(letter):
            continue
        wide = unicodedata.east_asian_width(letter) in "WF"
        total += widths.get(letter, 1000 if wide else 600)
    return total * size / 1000


def _times(a: Matrix, b: Matrix) -> Matrix:
    return (
        a[0] * b[0] + a[2] * b[1],
        a[1] * b[0] + a[3] * b[1],
        a[0] * b[2] + a[2] * b[3],
        a[1] * b[2] + a[3] * b[3],
        a[0] * b[4] + a[2] * b[5] + a[4],
        a[1] * b[4] + a[3] * b[5] + a[5],
    )


def _transform(told: str | None) -> Matrix:
    whole = _SAME
    for name, numbers in re.findall(r"(\w+)\(([^)]*)\)", told or ""):
        given = [float(one) for one in re.split(r"[ ,]+", numbers.strip())]
        if name == "translate":
            step: Matrix = (1.0, 0.0, 0.0, 1.0, given[0], given[1] if len(given) > 1 else 0.0)
        elif name == "rotate":
            turn = math.radians(given[0])
            step = (math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0.0, 0.0)
        elif name == "scale":
            step = (given[0], 0.0, 0.0, given[-1], 0.0, 0.0)
        else:
            raise AssertionError(f"a picture has the transform {name}, which these checks do not know")
        whole = _times(whole, step)
    return whole


def _at(matrix: Matrix, x: float, y: float) -> Point:
    return (
        matrix[0] * x + matrix[2] * y + matrix[4],
        matrix[1] * x + matrix[3] * y + matrix[5],
    )


def _lines(node: ElementTree.Element, size: float) -> Iterator[tuple[str, float, float]]:
    """Lines of a text with where they begin."""
    spans = list(node.iter(f"{_SVG}tspan"))
    x, y = float(node.get("x", 0)), float(node.get("y", 0))
    if not spans:
        yield node.text or "", x, y
    for span in spans:
        x = float(span.get("x", x))
        y += float((span.get("dy") or "0").removesuffix("px"))
        yield span.text or "", x, y


def _texts(node: ElementTree.Element, matrix: Matrix) -> Iterator[Text]:
    size = float((node.get("font-size") or "11px").removesuffix("px"))
    bold = node.get("font-weight") == "bold"
    for words, x, y in _lines(node, size):
        if not words.strip():
            continue
        width = width_of(words, size, bold=bold)
        left = x - {"middle": width / 2, "end": width}.get(node.get("text-anchor", ""), 0.0)
        top, bottom = y - 0.72 * size, y + 0.2 * size
        corners = ((left, top), (left + width, top), (left + width, bottom), (left, bottom))
        a, b, c, d = (_at(matrix, *corner) for corner in corners)
        yield Text(words, (a, b, c, d))


_PANE = re.compile(r"root$|cell$|.*concat_\d+_group$")
"""Classes of the whole plot, of a cell of a facet, and of a part of a concatenation."""
_EMPTY = re.compile(r"^(M[^a-zA-Z]*(h0v0h0)?Z?)?$")


def _shows(node: ElementTree.Element) -> bool:
    """Whether an element of a mark can be seen."""
    if float(node.get("opacity", 1)) == 0:
        return False
    if node.tag == f"{_SVG}path":
        return not _EMPTY.match((node.get("d") or "").replace(" ", ""))
    return node.tag in (f"{_SVG}text", f"{_SVG}line", f"{_SVG}rect", f"{_SVG}image")


def picture_of(svg: str) -> Picture:
    """A picture as Vega writes it."""
    root = ElementTree.fromstring(svg)
    box = [float(one) for one in (root.get("viewBox") or "").split()]
    texts: list[Text] = []
    panes: list[int] = []
    colors: set[str] = set()

    def walk(node: ElementTree.Element, matrix: Matrix, pane: int | None, marks: bool) -> None:
        matrix = _times(matrix, _transform(node.get("transform")))
        kinds = (node.get("class") or "").split()
        if "mark-group" in kinds and any(_PANE.match(kind) for kind in kinds):
            panes.append(0)
            pane = len(panes) - 1
        marks = marks or "role-mark" in kinds
        if node.tag == f"{_SVG}text":
            texts.extend(_texts(node, matrix))
        if marks and pane is not None and _shows(node):
            panes[pane] += 1
            colors.update(one for name in ("fill", "stroke") if (one := node.get(name)) not in (None, "none"))
        for child in node:
            walk(child, matrix, pane, marks)

    walk(root, _SAME, None, False)
    return Picture(box[2], box[3], texts, panes, {one for one in colors if one})


def _spread(corners: tuple[Point, ...], axis: Point) -> tuple[float, float]:
    along = [x * axis[0] + y * axis[1] for x, y in corners]
    return min(along), max(along)


def overlap(a: Text, b: Text) -> bool:
    """Whether two boxes share more than an edge; turned ones, too (separating axes)."""
    for one in (a, b):
        for (x0, y0), (x1, y1) in zip(one.corners[:2], one.corners[1:3], strict=True):
            length = math.hypot(x1 - x0, y1 - y0) or 1.0
            axis = ((x1 - x0) / length, (y1 - y0) / length)
            (low, high), (other_low, other_high) = _spread(a.corners, axis), _spread(b.corners, axis)
            if high - other_low <= _TOUCH or other_high - low <= _TOUCH:
                return False
    return True


def faults_of(chart_or_svg: Any, fonts: Fonts = "none") -> list[str]:
    """What is wrong with a chart of Altair, or with an SVG that Vega wrote."""
    picture = picture_of(chart_or_svg if isinstance(chart_or_svg, str) else svg_of(chart_or_svg, fonts))
    faults = []
    for text in picture.texts:
        xs, ys = zip(*text.corners, strict=True)
        if min(xs) < -_EDGE or max(xs) > picture.width + _EDGE:
            faults.append(f"out of the picture at the side: {text.words!r}")
        if min(ys) < -_EDGE or max(ys) > picture.height + _EDGE:
            faults.append(f"out of the picture at the top or bottom: {text.words!r}")
    boxes = sorted(picture.texts, key=lambda text: min(x for x, _ in text.corners))
    for at, text in enumerate(boxes):
        right = max(x for x, _ in text.corners)
        for other in boxes[at + 1 :]:
            if min(x for x, _ in other.corners) >= right:
                break
            if overlap(text, other):
                faults.append(f"{text.words!r} overlaps {other.words!r}")
    if not picture.panes or not sum(picture.panes):
        faults.append("nothing is drawn")
    faults += [f"pane {at} is empty" for at, marks in enumerate(picture.panes[1:], start=1) if not marks]
    return faults
