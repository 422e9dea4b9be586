"""Colors of every chart, and the looks of light and dark pages."""

from collections.abc import Sequence
from typing import Any, Final, Literal

Theme = Literal["auto", "light", "dark"]

BLUE: Final = "#0072b2"
VERMILION: Final = "#d55e00"
GREEN: Final = "#009e73"
PINK: Final = "#cc79a7"
SKY: Final = "#56b4e9"
ORANGE: Final = "#e69f00"
PURPLE: Final = "#8a63c9"
BROWN: Final = "#9a6c43"
GREY: Final = "#8a9099"
"""What has no color of its own; as far from white as from black."""
SERIES: Final = (BLUE, VERMILION, GREEN, PINK, SKY, ORANGE, PURPLE, BROWN)
"""Six of Okabe and Ito's and two more, which stand out from white and from black pages alike."""
CRITICAL: Final = VERMILION
DIVERGING: Final = (ORANGE, GREY, BLUE)
"""Below zero, zero, above zero: orange and blue differ for every kind of color vision."""

KINDS: Final[dict[str, tuple[str, str]]] = {
    "orchestrator_decision": ("decision", BLUE),
    "message": ("message", SKY),
    "tool_call": ("tool", ORANGE),
    "tool_result": ("tool", ORANGE),
    "spawn": ("spawn", GREEN),
    "despawn": ("spawn", GREEN),
    "return": ("return", PINK),
    "aggregate": ("aggregate", PURPLE),
    "human_intervention": ("human", BROWN),
    "safety_event": ("safety", GREY),
}
"""What a chart calls each type of event, and its color: calls and results of tools share one."""
KIND_COLORS: Final = dict(KINDS.values())

_INK: Final[dict[Theme, tuple[str, str, str]]] = {
    "auto": ("#767c85", "#8a909955", "transparent"),
    "light": ("#1f2328", "#d8dbe0", "white"),
    "dark": ("#e6e8eb", "#3a3f46", "#16181b"),
}
"""Of each theme: text, hairlines, background."""
FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
"""Fonts whose letters have one width. vl-convert brings the first: files are laid out alike everywhere."""


def ink(theme: Theme) -> str:
    """The color of text and of marks that must be seen on the page of a theme."""
    return _INK[theme][0]


def looks(theme: Theme) -> dict[str, Any]:
    """The configuration of Vega-Lite for a theme: no frames, hairline grids, one font."""
    text = ink(theme)
    _, line, page = _INK[theme]
    return {
        "background": page,
        "font": FONT,
        "view": {"stroke": None},
        "title": {
            "anchor": "start",
            "color": text,
            "fontSize": 13,
            "fontWeight": "bold",
            "subtitleColor": text,
            "subtitleFontSize": 11,
            "subtitlePadding": 4,
            "offset": 10,
        },
        "axis": {
            "labelColor": text,
            "titleColor": text,
            "gridColor": line,
            "domainColor": GREY,
            "tickColor": GREY,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
        },
        "header": {"labelColor": text, "titleColor": text, "labelFontSize": 11},
        "legend": {
            "labelColor": text,
            "titleColor": text,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
            "labelLimit": 0,  # names are short, and cutting one may halve a letter, which vl-convert refuses
        },
        "text": {"color": text, "fontSize": 11},
    }


def colors_of(names: Sequence[str]) -> list[str]:
    """A color for each of some names, in order; a ninth begins again with the first."""
    return [SERIES[place % len(SERIES)] for place in range(len(names))]
