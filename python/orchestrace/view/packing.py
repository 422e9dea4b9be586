"""Frames as JSON that a page unpacks: columns, with names once."""

import json
import math
from typing import Any, Final

import polars as pl

_UNSAFE: Final = {one: f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}
"""What may end a script, or a line of one, in a page that holds the text."""


def packed(frame: pl.DataFrame) -> dict[str, Any]:
    """A frame by columns, for `packed_json`.

    A column is a list; one of names, which repeat, is ``{"names": [...], "at": [...]}``: its values once, and
    the place of each row's value among them. A column that is null everywhere is left out.
    """
    columns = {one.name: _column(one) for one in frame if one.null_count() < len(one)}
    return {"height": frame.height, "columns": columns}


def _column(values: pl.Series) -> Any:
    if values.dtype == pl.Categorical or values.dtype == pl.Enum or values.dtype == pl.String:
        words = values.cast(pl.String)
        names = words.drop_nulls().unique(maintain_order=True)
        if len(names) <= len(words) // 2:
            place = {name: at for at, name in enumerate(names)}
            return {"names": names.to_list(), "at": [place.get(word, -1) for word in words]}
        return words.to_list()
    return values.to_list()


def packed_json(value: object) -> str:
    """JSON for a ``<script type="application/json">``: one line without ``<``, ``>`` and ``&``.

    JSON has no infinities: they become the words that JavaScript's ``Number`` reads.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"))
    for one, escape in _UNSAFE.items():  # ten times as fast as one translation
        text = text.replace(one, escape)
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
