"""The table of the five decisions in plain Python, from its definition (D32): loops, no frames."""

import math
from collections import defaultdict
from typing import Any

from reference.siblings import decision, lacks_order
from reference.trace import Trace

Row = dict[str, Any]
RULES = ("best", "mean", "majority")


def rows_of(documents: list[dict[str, Any]], kind: str) -> list[Row]:
    """Decisions of a kind other than stop, ordered by trace_id and time: state, action, siblings."""
    found = []
    for number, document in enumerate(documents):
        trace = Trace(document)
        cyclic = lacks_order(trace, "auto", "prefix_key")
        for v in trace.owned():
            if not is_one(trace, v, kind):
                continue
            event = trace.events[v]
            seen = [u for u in trace.order if trace.rank[u] < trace.rank[v]]
            context, choice = decision(trace, v, "recorded" if cyclic else "auto")
            done = action(trace, document, v, kind)
            said = event["action"] is not None and event["action"] in (done, event["to"])
            if kind != "delegate":
                said = event["action"] is not None and event["action"] == done
            found.append(
                {
                    **{"trace": number, "seq": v, "trace_id": document["trace_id"], "task_id": trace.task},
                    **{"group_id": trace.group, "actor": trace.owner[v], "action": done},
                    "context": None if cyclic else context,
                    "role": trace.told_role(trace.owner[v], trace.until(v)),
                    "choice": choice,
                    "p_behavior": event["p_behavior"] if said else None,
                    "outcome": trace.amount({"team": 1.0}),
                    **state(trace, document, seen),
                    **actor_state(trace, v),
                }
            )
    buckets: dict[Any, set[Any]] = defaultdict(set)
    for row in found:
        if row["context"] is not None and row["action"] is not None:
            buckets[row["group_id"], row["context"], row["role"]].add(row["action"])
    for row in found:
        known = row["context"] is not None and row["action"] is not None
        actions = buckets[row["group_id"], row["context"], row["role"]]
        row["alternatives"] = sorted(actions)[:32] if known else None
        row["n_alternatives"] = len(actions) if known else None
    return sorted(found, key=lambda row: (row["trace_id"], row["trace"]))


def is_one(trace: Trace, v: int, kind: str) -> bool:
    event, owner = trace.events[v], trace.owner[v]
    to_another = event["to"] not in (None, owner, "user", *trace.outside)
    match kind:
        case "spawn":
            return bool(event["type"] == "orchestrator_decision" and owner == trace.root)
        case "delegate":
            told = event["type"] == "message" and owner == trace.root
            return (event["type"] == "spawn" or told) and to_another
        case "communicate":
            return event["type"] == "message" and to_another
    return bool(event["type"] == "aggregate")


def action(trace: Trace, document: dict[str, Any], v: int, kind: str) -> str | None:
    event = trace.events[v]
    match kind:
        case "spawn":
            later = [
                u for u in trace.order if trace.rank[u] > trace.rank[v] and trace.owner[u] == trace.owner[v]
            ]
            kinds = [trace.events[u]["type"] for u in later]
            until = kinds.index("orchestrator_decision") if "orchestrator_decision" in kinds else None
            return "spawn" if "spawn" in kinds[:until] else "no_spawn"
        case "delegate":
            role = trace.told_role(event["to"], trace.until(v))
            return str(event["to"] if role is None else role)
        case "communicate":
            return "send"
    into = {src: kinds for (src, dst), kinds in trace.edges.items() if dst == v}
    own = [src for src, kinds in into.items() if "aggregate" in kinds]
    inputs = own or [src for src, kinds in into.items() if {"return", "message"} & set(kinds)]
    scores = [trace.events[u]["score"] for u in inputs]
    if not scores or None in scores or event["score"] is None:
        return None
    results = {
        "best": max(scores),
        "mean": sum(scores) / len(scores),
        "majority": float(2 * sum(score >= 0.5 for score in scores) > len(scores)),
    }
    close = [rule for rule in RULES if abs(results[rule] - event["score"]) < 1e-9]
    return close[0] if close else "other"


def actor_state(trace: Trace, v: int) -> Row:
    """What is known of the actor at its event: events up to this one."""
    owner = trace.owner[v]
    return {
        "x_role": None if owner is None else trace.told_role(owner, trace.until(v)),
        "x_depth": depth(trace, v),
        "x_state_key": trace.events[v]["state_key"],
        "x_subtask_id": trace.events[v]["subtask_id"],
    }


def depth(trace: Trace, v: int) -> float:
    """Agents above the owner, by the first spawn of each that was made before the event (D16)."""
    parent: dict[str, str] = {}

    def head(agent: str) -> str:
        return head(parent[agent]) if agent in parent else agent

    for u in trace.order[: trace.rank[v]]:
        child, spawner = trace.events[u]["to"], trace.owner[u]
        if trace.events[u]["type"] != "spawn" or spawner is None or child not in trace.agents:
            continue
        if child not in parent and child != trace.root and head(spawner) != child:
            parent[child] = spawner
    found, agent = 0, trace.owner[v]
    while agent in parent:
        found, agent = found + 1, parent[agent]
    return float(found)


def state(trace: Trace, document: dict[str, Any], seen: list[int]) -> Row:
    """What the events seen, in canonical order, tell together."""
    events = [trace.events[u] for u in seen]
    owners = [trace.owner[u] for u in seen]
    spent = [event["tokens"] for event in events if event["tokens"] is not None]
    paid = [cost for u in seen if (cost := document["events"][u].get("cost_usd")) is not None]
    judged = [event["ok"] for event in events if event["ok"] is not None]
    run = 0
    for ok in judged:
        run = 0 if ok else run + 1
    calls = [
        (event["tool"], key)
        for event in events
        if event["type"] == "tool_call"
        and event["tool"] is not None
        and (key := event["args_hash"] or event["content_ref"]) is not None
    ]
    balance = pending = 0
    for event in events:
        balance += (event["type"] == "tool_call") - (event["type"] == "tool_result")
    pending = max(0, balance)
    spawned: dict[str, int] = {}
    ended = set()
    for place, (event, owner) in enumerate(zip(events, owners, strict=True)):
        if event["type"] == "spawn" and event["to"] is not None:
            spawned.setdefault(event["to"], place)
        over = owner if event["type"] == "return" else event["to"] if event["type"] == "despawn" else None
        if over is not None and spawned.get(over, place) < place:
            ended.add(over)
    total = sum(spent) if spent else None
    return {
        "x_position": float(len(seen)),
        "x_step": float(math.floor(math.log2(1 + len(seen)))),
        "x_tokens_before": total,
        "x_budget": None if total is None else float(math.floor(math.log2(1 + total))),
        "x_usd": sum(paid) if paid else None,
        "x_seconds": events[-1]["t"] - events[0]["t"] if events else None,
        "x_n_tools": float(len({event["tool"] for event in events} - {None})),
        "x_n_agents": float(len(set(owners) - {None})),
        "x_open_agents": float(len(spawned) - len(ended)),
        "x_pending": float(pending),
        "x_duplicate_calls": 1.0 - len(set(calls)) / len(calls) if calls else None,
        "x_errors": float(len(judged) - sum(judged)) if judged else None,
        "x_error_run": float(run) if judged else None,
    }
