"""All reference methods by name, and the way of their rows to every unit (D11)."""

import math
import statistics
from typing import Any

from reference import groups, returns, siblings
from reference.returns import ABSENT, DEGENERATE, Method, Rows, Value
from reference.trace import Trace

_LISTED = {**returns.METHODS, **groups.METHODS, **siblings.METHODS}
METHODS: dict[str, Method] = {name: function for name, (function, _) in _LISTED.items()}
VARIANTS: dict[str, list[dict[str, Any]]] = {name: params for name, (_, params) in _LISTED.items()}
"""Of each method the parameters to try beside the defaults."""
SHARES = ("uniform", "flow")


def valued(traces: list[Trace], method: str, reward: dict[str, float], params: dict[str, Any]) -> list[Rows]:
    """The rows of every trace; one without the reward has none and is nobody's sibling."""
    amounts = [trace.amount(reward) for trace in traces]
    known = [(trace, amount) for trace, amount in zip(traces, amounts, strict=True) if amount is not None]
    found = iter(METHODS[method]([trace for trace, _ in known], [amount for _, amount in known], **params))
    return ["reward.absent" if amount is None else next(found) for amount in amounts]


def rolled_up(
    trace: Trace, rows: Rows, level: str, share: bool, weight: str = "rows"
) -> dict[str | None, Value]:
    """Value and reason of every unit of a level; the one of None is what no unit owns.

    Rows weigh alike, or by the tokens that were written in them, where there are any.
    """
    units = trace.units(level)
    names = dict.fromkeys(units)
    if isinstance(rows, str):
        none = rows if share else "unit.none"
        return {name: (None, none if name is None else rows) for name in names}
    found: dict[str | None, Value] = {}
    for name in names:
        inside = {v for v, unit in enumerate(units) if unit == name}
        own = [row for row in rows if inside.intersection(row.events)]
        values = [row.value for row in own if row.value is not None]
        reasons = {row.reason for row in own if row.value is not None}
        if share:
            found[name] = (math.fsum(values), None)
        elif name is None or not own:
            found[name] = (None, "unit.none")
        elif not values:
            found[name] = (None, own[0].reason or ABSENT)
        else:
            written = [
                sum(trace.events[v]["tokens_out"] or 0 for v in row.events) if weight == "tokens_out" else 1
                for row in own
                if row.value is not None
            ]
            if len(values) > 1 and not any(written):
                found[name] = (None, ABSENT)
                continue
            middle = statistics.fmean(values, written if len(values) > 1 else None)
            found[name] = (middle, DEGENERATE if reasons == {DEGENERATE} else None)
    return found
