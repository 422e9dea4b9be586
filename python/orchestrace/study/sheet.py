"""The style that all charts share: looks, one color per method, the axis of steps."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from ..base.errors import ParameterError
from ..base.extras import install
from ..plot.palette import FONT, SERIES

COLORS: Final = [*SERIES[:6], "#882255", "#332288"]
"""The first six of all charts, and two of Tol's, which are dark: a report has a white page."""
DASHES: Final = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]]
"""Lines of the methods beyond the eighth, which share a color with an earlier one."""
GREY: Final = "#c4c8ce"
INK: Final = "#1f2328"
_LOOK: Final = {
    "background": "white",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": "#e7e9ec",
        "domainColor": "#8a9099",
        "tickColor": "#8a9099",
        "labelFontSize": 10,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
    },
    "legend": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 10.5,
        "symbolStrokeWidth": 2.5,
        "labelLimit": 260,
    },
}
"""One look for all: dark ink on white, hairline grids, no frames."""


class Look(NamedTuple):
    """How a method is drawn, in every figure of a report."""

    color: str
    dash: list[int]


Looks = Mapping[str, Look]


def looks(methods: Sequence[str], first: Sequence[str]) -> Looks:
    """The look of each method of a report, whichever figures it is in.

    Colors go by the order of `methods`. Where there are more methods than colors, those that `first` begins
    with have a color of their own, and the others the same colors with another line.
    """
    ordered = list(dict.fromkeys(methods))
    colored = [name for name in dict.fromkeys([*first, *ordered]) if name in ordered][: len(COLORS)]
    ordered.sort(key=lambda name: name not in colored)
    all_looks = [Look(color, dash) for dash in DASHES for color in COLORS]
    return {name: all_looks[place % len(all_looks)] for place, name in enumerate(ordered)}


class Sheet:
    """One chart on its way to a specification.

    Altair copies and checks everything it is given again for every layer and panel. So its charts name their
    rows only, and these are put in at the end.
    """

    def __init__(self, looks: Looks | None = None) -> None:
        self.alt = drawing()
        self._looks = looks or {}
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def chart(self, frame: pl.DataFrame) -> Any:
        """A chart over the rows of a frame."""
        name = f"rows{len(self._rows)}"
        self._rows[name] = frame.to_dicts()
        return self.alt.Chart(self.alt.NamedData(name=name))

    def of_methods(self, names: Sequence[str], orient: str, columns: int = 1) -> tuple[Any, Any]:
        """Color and dash of methods, each its own, with one legend for both."""
        domain = list(names)
        colors = [self._looks[name].color for name in domain]
        dashes = [self._looks[name].dash for name in domain]
        legend = {"orient": orient, "columns": columns, "symbolType": "stroke", "symbolOpacity": 1}
        legend |= {"symbolSize": 400}
        color = self.alt.Color("method:N", title=None, sort=domain).scale(domain=domain, range=colors)
        dash = self.alt.StrokeDash("method:N", title=None, sort=domain).scale(domain=domain, range=dashes)
        return color.legend(**legend), dash.legend(**legend)

    def steps(
        self, field: str, values: pl.Series, title: str = "steps in a run", room: float = math.log10(1.25)
    ) -> Any:
        """A logarithmic axis over values with a tick for each power of ten; `room` beside them in decades."""
        numbers = values.to_numpy()
        low, high = float(numbers.min()) / 10**room, float(numbers.max()) * 10**room
        tens = [10.0**n for n in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
        steps = (1, 2, 5) if high / low < 100 else (1,)
        ticks = [step * ten for ten in tens for step in steps if low <= step * ten <= high]
        axis = {"format": "~s", "grid": False, "values": ticks}
        x = self.alt.X(f"{field}:Q", title=title)
        return x.scale(type="log", domain=[low, high], nice=False).axis(**axis)

    def head(self, text: str) -> Any:
        """The title of a panel."""
        return self.alt.TitleParams(text, fontSize=11.5, anchor="start", color=INK, font=FONT)

    def finished(self, chart: Any) -> dict[str, Any]:
        """The specification of one chart, with its rows and the look that all charts have."""
        return self._specification(_plain(chart))

    def grid(self, panels: list[Any], columns: int, spacing: dict[str, int]) -> dict[str, Any]:
        """The specification of panels that share their colors."""
        # Joined as plain data: Altair would copy every panel for each that it adds.
        joined = {"concat": [_plain(panel) for panel in panels], "columns": columns, "spacing": spacing}
        return self._specification(
            {**joined, "resolve": {"scale": {"color": "shared", "strokeDash": "shared"}}}
        )

    def _specification(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {"$schema": self.alt.SCHEMA_URL, "config": _LOOK, "datasets": self._rows, **spec}


def _plain(chart: Any) -> dict[str, Any]:
    spec = chart.to_dict(validate=False)
    return {name: value for name, value in spec.items() if name not in ("$schema", "config")}


def drawing() -> Any:
    """Altair, or what to install."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401  # what makes SVG and PNG of a chart
    except ImportError:
        raise ParameterError(f"a report needs Altair and vl-convert: {install('plot')}") from None
    return alt
