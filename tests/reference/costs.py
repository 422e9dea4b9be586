"""Dollars by a list of prices, again in plain Python, from D33 of docs/reference/definitions.md."""

import datetime as dt
import re
from fractions import Fraction
from typing import Any

Row = dict[str, Any]


def listed(model: str, prices: list[Row]) -> list[Row]:
    """The rows of a recorded model."""
    names = {row["model"] for row in prices}
    provider, slash, bare = model.partition("/")
    for name, of in ((model, None), (bare if slash else None, provider)):
        if name is None:
            continue
        match = re.fullmatch(r"(.+?)(?:[-@:](?:20\d{6}|20\d\d-\d\d-\d\d|latest)|@default)", name)
        base = name if name in names else match[1] if match and match[1] in names else None
        rows = [row for row in prices if row["model"] == base]
        if of is None:
            whose = {row["provider"] for row in rows}
            rows = rows if len(whose) == 1 else []
        else:
            named = [row for row in rows if (row["provider"] or "").lower() == of.lower()]
            rows = named or [row for row in rows if row["provider"] is None]
        if rows:
            return rows
    return []


def price(event: Row, day: dt.date | None, prices: list[Row]) -> Fraction | str:
    """The dollars of an event without a price of its own, or the reason why there are none."""
    if event["model"] is None or event["tokens_fresh"] is None or event["tokens_out"] is None:
        return "field.absent"
    written, hour = event["tokens_cache_write"] or 0, event["tokens_cache_write_1h"] or 0
    if hour and event["tokens_cache_write"] is None:
        return "field.absent"
    if hour > written:
        return "result.range"
    days = [row["retrieved"] for row in prices if row["retrieved"] is not None]
    day = day or max(days, default=None)
    valid = []
    for row in listed(event["model"], prices):
        begins, ends = row["valid_from"], row["valid_to"]
        holds = (
            ends is None
            if day is None
            else (begins is None or begins <= day) and (ends is None or day < ends)
        )
        above = row["context_above"]
        if holds and (above is None or event["tokens_in"] > above):
            valid.append((-1 if above is None else above, begins or dt.date.min, row))
    if not valid:
        return "price.absent"
    row = max(valid, key=lambda one: one[:2])[2]
    total = Fraction(0)
    for tokens, kind in (
        (event["tokens_fresh"], "input"),
        (event["tokens_cached"] or 0, "cache_read"),
        (written - hour, "cache_write"),
        (hour, "cache_write_1h"),
        (event["tokens_out"], "output"),
    ):
        if tokens and row[kind] is None:
            return "price.absent"
        total += tokens * Fraction(str(row[kind] or 0))
    return total / 1_000_000
