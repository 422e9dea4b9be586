"""Decisions and matched siblings in plain Python (6.5), from their definitions only."""

import math
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from reference.siblings import DECISIONS, decision, is_computed, lacks_order
from reference.trace import Trace

Row = dict[str, Any]


def rows_of(documents: list[dict[str, Any]], reward: str = "team") -> list[Row]:
    """Every decision with what came before and after it, ordered by trace_id and time."""
    found = []
    for number, document in enumerate(documents):
        trace = Trace(document)
        cyclic = lacks_order(trace, "auto", "prefix_key")
        spent = [tokens(event) for event in trace.events]
        counted = any(n is not None for n in spent)
        for v in trace.owned(*DECISIONS):
            event, owner = trace.events[v], trace.owner[v]
            before = [u for u in trace.order if trace.rank[u] < trace.rank[v]]
            after = [u for u in trace.order if trace.rank[u] > trace.rank[v]]
            # a choice needs no order, a computed context does
            context, choice = decision(trace, v, "recorded" if cyclic else "auto")
            context = None if cyclic else context
            own_after = [u for u in after if trace.owner[u] == owner]
            block = []
            for u in own_after:
                if trace.events[u]["type"] == "orchestrator_decision":
                    break
                block.append(trace.events[u]["type"])
            total = sum(spent[u] or 0 for u in before) if counted else None
            found.append(
                {
                    "trace": number,
                    "seq": v,
                    "trace_id": document["trace_id"],
                    "task_id": trace.task,
                    "group_id": trace.group,
                    "type": event["type"],
                    "agent": owner,
                    "role": trace.told_role(owner, trace.until(v)),
                    "to": event["to"],
                    "tokens": (spent[v] or 0) if counted else None,
                    "context": context,
                    "cyclic": cyclic,
                    "assumed": None
                    if context is None
                    else is_computed(trace, "auto", "prefix_key") and trace.is_assumed(v),
                    "choice": choice,
                    "position": len(before),
                    "step": int(math.log2(1 + len(before))),
                    "tokens_before": total,
                    "budget": None if total is None else int(math.log2(1 + total)),
                    "tokens_after": sum(spent[u] or 0 for u in after) if counted else None,
                    "tools": frozenset(t for u in before if (t := trace.events[u]["tool"]) is not None),
                    "n_agents": len({trace.owner[u] for u in before} - {None}),
                    "spawned": "spawn" in block if event["type"] == "orchestrator_decision" else None,
                    "reward": trace.amount({reward: 1.0}),
                }
            )
    return sorted(found, key=lambda row: (row["trace_id"], row["trace"]))


def tokens(event: Row) -> int | None:
    parts = [event["tokens_in"], event["tokens_out"]]
    if event["tokens"] is not None:
        return int(event["tokens"])
    return None if parts == [None, None] else sum(p or 0 for p in parts)


def buckets(rows: list[Row], keys: list[str]) -> tuple[list[list[Row]], list[Row]]:
    """Rows of equal keys in which both arms occur, a run once in each; and the rows of all others."""
    gathered: dict[Hashable, list[Row]] = defaultdict(list)
    for row in rows:
        gathered[tuple(row[key] for key in keys)].append(row)
    own, others = [], []
    for members in gathered.values():
        firsts = list({row["trace"]: row for row in reversed(members)}.values())
        if {row["treated"] for row in firsts} == {True, False}:
            own.append(firsts)
        else:
            others += members
    return own, others


def agreed(rows: list[Row], every: list[Row]) -> list[Row]:
    """Without decisions that several runs made alike in one context."""

    def shared(row: Row) -> bool:
        if row["context"] is None:
            return False
        alike = [o for o in every if all(o[k] == row[k] for k in ("group_id", "context", "role"))]
        return len({o["trace"] for o in alike}) > 1 and len({o["treated"] for o in alike}) == 1

    return [row for row in rows if not shared(row)]


def matched(rows: list[Row], features: list[str]) -> dict[str, list[list[Row]]]:
    """Buckets of the first two stages."""
    known = [row for row in rows if row["context"] is not None]
    exact, left = buckets(known, ["group_id", "context", "role"])
    left += [row for row in rows if row["context"] is None]
    order = {(row["trace"], row["seq"]): n for n, row in enumerate(rows)}
    left.sort(key=lambda row: order[row["trace"], row["seq"]])
    coarse, _ = buckets(agreed(left, rows), ["task_id", *features])
    return {"exact": exact, "coarse": coarse}


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def effect(found: list[list[Row]]) -> float | None:
    n = sum(len(bucket) for bucket in found)
    if not n:
        return None
    parts = []
    for bucket in found:
        arms = [[row["reward"] for row in bucket if row["treated"] == arm] for arm in (True, False)]
        parts.append(len(bucket) / n * (mean(arms[0]) - mean(arms[1])))
    return math.fsum(parts)


def task_error(found: list[list[Row]]) -> float | None:
    """√(Σ_c (Σ_{b in c} n_b (d_b - effect) / n)² / (1 - n_c/n)), where every bucket is in one task."""
    tasks = sorted({row["task_id"] for bucket in found for row in bucket})
    if len(tasks) < 2:
        return None
    n, whole = sum(len(bucket) for bucket in found), effect(found)
    assert whole is not None
    squares = []
    for task in tasks:
        own = [bucket for bucket in found if bucket[0]["task_id"] == task]
        moved = [len(bucket) / n * ((effect([bucket]) or 0.0) - whole) for bucket in own]
        share = sum(len(bucket) for bucket in own) / n
        squares.append(math.fsum(moved) ** 2 / (1.0 - share))
    return math.sqrt(math.fsum(squares))
