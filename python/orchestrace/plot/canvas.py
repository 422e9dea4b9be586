"""One chart under construction: rows by name, titles that say what was left out, text for those who cannot
see it."""

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from polars import selectors

from ..base.errors import ParameterError
from ..base.extras import install
from ..base.text import plain
from .palette import Theme, ink, looks

_LINE: Final = 100
"""Characters of a line under a title."""
_UNKNOWN_LINE: Final = 64
"""The same with letters that a renderer may have no font for: it would not widen the chart for them."""
_TITLE: Final = 13.8
"""Pixels of the letters of a title of 13 in bold."""
_MARKS: Final = frozenset("\u2013\u2014\u2018\u2019\u201c\u201d\u2022\u2026")
"""Dashes, quotes, bullet, ellipsis: beyond Latin, but in every font."""
NAME: Final = 28
"""Characters of a name beside a chart."""


def drawing() -> Any:
    """Altair; where it is not installed, the error says what to install."""
    try:
        import altair as alt
    except ImportError:
        raise ParameterError(f"plots need Altair: {install('plot')}") from None
    return alt


def labeled(frame: pl.DataFrame) -> bool:
    """Whether marks have labels for screen readers one by one: thousands say less than one description."""
    return frame.height <= 200


def finite(rows: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """The rows with nulls in place of NaN and infinities."""
    numbers = pl.col(columns).cast(pl.Float64)
    return rows.with_columns(pl.when(numbers.is_finite()).then(numbers))


def extent(*numbers: pl.Series) -> tuple[float, float]:
    """The least and the greatest of some numbers, of which there is at least one."""
    values = np.concatenate([column.drop_nulls().to_numpy() for column in numbers])
    return float(values.min()), float(values.max())


class Canvas:
    """Layers over named rows, which the finished chart holds once however many layers show them."""

    def __init__(self, theme: Theme) -> None:
        self.ink = ink(theme)
        self.alt = drawing()
        self._theme = theme
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def chart(self, frame: pl.DataFrame) -> Any:
        """A chart over the rows of a frame."""
        name = f"rows{len(self._rows)}"
        frame = frame.with_columns(selectors.decimal().cast(pl.Float64), selectors.temporal().cast(pl.String))
        floats = selectors.float()
        frame = frame.with_columns(pl.when(floats.is_finite()).then(floats))  # JSON has no other numbers
        # names are text of strangers, and an SVG bears no control characters
        self._rows[name] = frame.with_columns(
            frame[column].map_elements(plain, return_dtype=pl.String)
            for column, dtype in frame.schema.items()
            if dtype == pl.String
        ).to_dicts()
        return self.alt.Chart(self.alt.NamedData(name=name))

    def finished(self, chart: Any, title: str, notes: Iterable[str], description: str) -> Any:
        """The chart with its rows, look, title, the lines below that, and its text for screen readers."""
        heads = _title_lines(title)
        lines = [line for note in notes if note for line in _title_lines(note)]
        heading = self.alt.TitleParams(heads or "", subtitle=lines)
        chart = chart.properties(title=heading, description=plain(description), datasets=self._rows)
        config = looks(self._theme)
        width = chart.vconcat[0].width if isinstance(chart, self.alt.VConcatChart) else chart.width
        lacking = max(unknown_width(heads, _TITLE), unknown_width(lines)) - width
        if lacking > 0:
            config["padding"] = {"left": 5, "top": 5, "bottom": 5, "right": 5 + lacking}
        return chart.configure(**config)

    def empty(self, title: str, why: str, *, width: int = 480) -> Any:
        """A chart that says why it shows nothing."""
        lines = pl.DataFrame({"why": _wrapped(why, 64)}).with_row_index("line")
        y = self.alt.Y("line:Q", axis=None).scale(domain=[max(lines.height, 4), -1], nice=False)
        chart = self.chart(lines).mark_text(fontSize=12, baseline="middle").encode(text="why:N", y=y)
        return self.finished(chart.properties(width=width, height=80), title, [], f"{title}: {why}")


def _title_lines(text: str) -> list[str]:
    return _wrapped(text, _UNKNOWN_LINE if unknown_width([text]) else _LINE)


def _wrapped(text: str, columns: int) -> list[str]:
    """Lines of a text without control characters; wide letters count twice."""
    counted = "".join(letter + "\0" * (_columns(letter) - 1) for letter in plain(text))
    return [line.replace("\0", "") for line in textwrap.wrap(counted, columns)]


def name_axis(canvas: Canvas, field: str, names: list[str]) -> Any:
    """An axis of names, from the top, each whole."""
    room = max(map(text_width, names), default=0.0) + 10
    y = canvas.alt.Y(f"{field}:N", title=None, sort=names).scale(domain=names)
    # renderers without the font of a name think that it is narrower
    return y.axis(domain=False, ticks=False, labelPadding=6, labelLimit=0, minExtent=room)


def legend_columns(names: Sequence[str], width: float) -> int:
    """Columns of a legend of names that stay within a chart, in renderers without their fonts as well.

    A renderer puts a column where it thinks that the one before it ends: names that it may have no font for
    stand below each other.
    """
    if unknown_width(names):
        return 1
    return max(1, min(4, int(width // legend_width(names))))


def legend_width(names: Sequence[str]) -> float:
    """Pixels of the widest entry of a legend of names, with its symbol and the space beside it."""
    return max(map(text_width, names)) + 32


def unknown_width(texts: Sequence[str], size: float = 11) -> float:
    """Pixels of the widest text that a renderer may have no font for, and then takes for narrower.

    It leaves room as it thinks. Zero where all letters are Latin, which every renderer has a font for.
    """
    unknown = (text for text in texts if any(map(_is_unknown, text)))
    return max(map(text_width, unknown), default=0.0) * size / 11


def _is_unknown(letter: str) -> bool:
    return letter >= "\u0250" and letter not in _MARKS


PLAINLY: Final = "abs(datum.value) >= 1e4 ? format(datum.value, '~s') : format(datum.value, '.4~g')"
"""How axes write numbers: 0.02, 150, 20k."""


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, and where these are few also twice and five times."""
    steps = (1, 2, 5) if high / low < 300 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    tens = range(first, last + 1, 1 + (last - first) // 10)
    return [step * 10.0**n for n in tens for step in steps if low <= step * 10.0**n <= high]


def shown_names(names: Sequence[str | None], length: int = NAME) -> list[str]:
    """Names as a chart shows them: without control characters, cut in the middle, no two alike.

    Examples
    --------
    >>> shown_names(["lead", "a worker whose name goes on and on and on", None])
    ['lead', 'a worker whose…and on and on', '(none)']
    """
    taken: set[str] = set()
    # The last number that each short form has: names that begin and end alike have one short form.
    numbers: dict[str, int] = {}
    shown = []
    for name in names:
        text = "(none)" if name is None else plain(name).strip() or "(blank)"
        alike = short = shortened(text, length)
        number = numbers.get(alike, 1)
        while short in taken:
            number += 1
            tail = f" ({number})"
            short = shortened(text, length - len(tail)) + tail
        numbers[alike] = number
        taken.add(short)
        shown.append(short)
    return shown


def shortened(text: str, length: int = NAME) -> str:
    """A text with its middle left out where it is longer; wide letters count twice."""
    if sum(map(_columns, text)) <= length:
        return text
    tail = (length - 1) // 2
    return f"{_beginning(text, length - 1 - tail)}…{_beginning(text[::-1], tail)[::-1]}"


def _columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _beginning(text: str, columns: int) -> str:
    at = 0
    while at < len(text) and (columns := columns - _columns(text[at])) >= 0:
        at += 1
    return text[:at]


def text_width(text: str) -> float:
    """Pixels that a text of 11 takes at most, whatever the font: an estimate."""
    wide = sum(_columns(letter) - 1 for letter in text)
    capitals = sum(letter.isupper() for letter in text)
    others = sum(map(_is_unknown, text)) - wide
    return 5.9 * len(text) + 5.4 * wide + 1.6 * capitals + 0.9 * others


def number(value: float) -> str:
    """A number for people: three digits and a unit of thousands."""
    if abs(value) >= 1e12:
        return f"{value:.2e}"
    for factor, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g}{sign}"
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:,.0f}"


def duration(value: float, unit: str) -> str:
    """A duration for people."""
    if unit != "seconds":
        return f"{value:,.0f} steps" if value != 1 else "1 step"
    factor, name = time_scale(value, unit)
    return (
        f"{value / factor:,.3g} {_SHORT[name]}"
        if value / factor < 1000
        else f"{value / factor:,.0f} {_SHORT[name]}"
    )


def time_scale(span: float, unit: str) -> tuple[float, str]:
    """The unit that suits a span: its length in the given unit, and its name."""
    if unit != "seconds":
        return 1.0, unit
    if span < 1:
        return 1e-3, "milliseconds"
    return next((step for step in _SCALES if span < 3 * step[0] * 60), (86400.0, "days"))


_SCALES: Final = ((1.0, "seconds"), (60.0, "minutes"), (3600.0, "hours"))
_SHORT: Final = {"milliseconds": "ms", "seconds": "s", "minutes": "min", "hours": "h", "days": "days"}
