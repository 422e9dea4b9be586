"""Context siblings and suspicious classes in plain Python (5.3), after their definitions only."""

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable
from typing import Any

from reference.returns import ABSENT, CYCLE, DEGENERATE, Method, Row, Rows, Value
from reference.trace import Trace

DECISIONS = ("orchestrator_decision", "message", "return", "spawn", "tool_call", "aggregate")
#: Events whose content is what they are about; the others are known without it.
SAYING = (
    "orchestrator_decision",
    "message",
    "return",
    "aggregate",
    "tool_call",
    "tool_result",
    "human_intervention",
)


def is_computed(trace: Trace, context: str, field: str) -> bool:
    recorded = any(event[field] is not None for event in trace.events)
    return context == "computed" or (context == "auto" and not recorded)


def lacks_order(trace: Trace, context: str, field: str) -> bool:
    return (
        is_computed(trace, context, field)
        and trace.topological(dict.fromkeys(trace.heard_edges, 1.0)) is None
    )


def content_key(event: dict[str, Any]) -> str | None:
    first = "args_hash" if event["type"] == "tool_call" else "content_hash"
    key: str | None = event["content_ref"] if event[first] is None else event[first]
    return key


def computed_context(trace: Trace, v: int) -> Hashable:
    """What led to an event, by edges and by what its actor did before; None if a content of it is unknown."""
    into = [src for src, dst in trace.heard_edges if dst == v]
    causes = []
    for u in into:
        event, before = trace.events[u], computed_context(trace, u)
        key = content_key(event)
        if before is None or (key is None and event["type"] in SAYING):
            return None
        causes.append((event["type"], event["agent"], event["to"], event["tool"], key, before))
    return (trace.task, tuple(sorted(causes, key=repr)))


def decision(trace: Trace, v: int, context: str) -> tuple[Hashable, Hashable]:
    """Context and choice of a decision, each None if a field is missing."""
    event = trace.events[v]
    key = content_key(event)
    known = key is not None or event["type"] not in SAYING
    choice = (event["type"], event["to"], event["tool"], key) if known else None
    computed = is_computed(trace, context, "prefix_key")
    return (computed_context(trace, v) if computed else event["prefix_key"]), choice


def c3(traces: list[Trace], rewards: list[float], baseline: str = "loo", context: str = "auto") -> list[Rows]:
    buckets: dict[Hashable, dict[Hashable, list[float]]] = defaultdict(lambda: defaultdict(list))
    places: list[list[tuple[int, Hashable, Hashable]] | str] = []
    for trace, reward in zip(traces, rewards, strict=True):
        if lacks_order(trace, context, "prefix_key"):
            places.append(CYCLE)
            continue
        listed: list[tuple[int, Hashable, Hashable]] = []
        for v in trace.owned(*DECISIONS):
            where, choice = decision(trace, v, context)
            bucket = None if where is None else (trace.group, where, trace.role[trace.owner[v]])
            listed.append((v, bucket, choice))
            if bucket is not None and choice is not None:
                buckets[bucket][choice].append(reward)
        places.append(listed)

    def value(bucket: Hashable, choice: Hashable) -> Value:
        if bucket is None or choice is None:
            return None, ABSENT
        candidates = buckets[bucket]
        everything = [reward for listed in candidates.values() for reward in listed]
        if len(candidates) < 2 or max(everything) - min(everything) <= 1e-12 * max(map(abs, everything)):
            return 0.0, DEGENERATE
        own = candidates[choice]
        rest = [x for name, listed in candidates.items() if name != choice for x in listed]
        return statistics.fmean(own) - statistics.fmean(rest if baseline == "loo" else everything), None

    return [
        place if isinstance(place, str) else [Row([v], *value(bucket, choice)) for v, bucket, choice in place]
        for place in places
    ]


# --- suspicious classes ---------------------------------------------------------------------------------


def suspects(trace: Trace, by: str) -> dict[int, Hashable]:
    """The class of every event that has one, None where it is unknown. Each class of a trace is one row."""
    if by == "message":
        messages = trace.units("message")
        return {v: content_key(trace.events[v]) for v in range(len(trace)) if messages[v] is not None}
    if by == "agent":
        return {v: trace.owner[v] for v in trace.owned()}
    return {v: (trace.events[v]["type"], trace.events[v]["tool"]) for v in trace.owned()}


def suspiciousness(
    formula: str, star: float, failed: int, passed: int, n_failed: int, n_passed: int
) -> float:
    """How much a class that is in `failed` of the failing, `passed` of the passing rollouts is suspected."""
    if failed == 0:
        return 0.0
    if formula == "ochiai":
        return failed / math.sqrt(n_failed * (failed + passed))
    if formula == "tarantula":
        return (failed / n_failed) / (failed / n_failed + passed / n_passed)
    if formula == "dstar":
        # Half an event keeps the order of all that is possible, and the number finite.
        return float(failed**star / (passed + n_failed - failed or 0.5))
    return (failed / n_failed + failed / (failed + passed)) / 2


def spectrum(
    traces: list[Trace],
    rewards: list[float],
    formula: str = "ochiai",
    by: str = "action",
    threshold: float = 0.5,
    star: float = 2.0,
) -> list[Rows]:
    classes = [suspects(trace, by) for trace in traces]
    passes = [reward >= threshold for reward in rewards]
    found: list[Rows] = []
    for i, trace in enumerate(traces):
        group = [n for n, other in enumerate(traces) if other.group == trace.group]
        n_passed = sum(passes[n] for n in group)
        n_failed = len(group) - n_passed
        rows: list[Row] = []
        for own in dict.fromkeys(classes[i].values()):
            events = [v for v, other in classes[i].items() if other == own]
            if own is None:
                rows.append(Row(events, None, ABSENT))
                continue
            if not n_passed or not n_failed:
                rows.append(Row(events, 0.0, DEGENERATE))
                continue
            having = [n for n in group if own in classes[n].values()]
            passed = sum(passes[n] for n in having)
            failed = len(having) - passed
            rows.append(Row(events, -suspiciousness(formula, star, failed, passed, n_failed, n_passed)))
        found.append(rows)
    return found


# --- alternatives by the policy's probability (5.2) ------------------------------------------------------


def _decided(trace: Trace, reward: float, context: str, critic: str) -> dict[int, tuple[Hashable, ...]]:
    """Per decision with an action: context, action, its probability, how many actions there are, outcome."""
    found: dict[int, tuple[Hashable, ...]] = {}
    for v in trace.owned(*DECISIONS):
        event = trace.events[v]
        if event["action"] is None and event["p_behavior"] is None:
            continue
        outcome: float | None = reward
        if critic == "value":
            later = trace.order[trace.rank[v] + 1 :]
            after = trace.events[later[0]]["value"] if later else reward
            outcome = None if after is None else after + (event["reward"] or 0.0)
        known = None if lacks_order(trace, context, "prefix_key") else decision(trace, v, context)[0]
        place = None if known is None else (trace.group, known, trace.role[trace.owner[v]])
        options = None if event["p_actions"] is None else sum(p > 0 for p in event["p_actions"])
        found[v] = (place, event["action"], event["p_behavior"], options, outcome)
    return found


def _by_policy(
    traces: list[Trace], rewards: list[float], table: bool, context: str, critic: str
) -> list[Rows]:
    decided = [
        _decided(trace, reward, context, critic) for trace, reward in zip(traces, rewards, strict=True)
    ]
    complete = [
        (n, *one)
        for n, own in enumerate(decided)
        for one in own.values()
        if all(one[part] is not None for part in (0, 1, 2, 4))
    ]

    def value(n: int, place: Hashable, action: Hashable, outcome: Any) -> Value:
        here = [one for one in complete if one[1] == place]
        actions = {one[2] for one in here}
        share: dict[Hashable, float] = {
            a: statistics.fmean(float(str(one[3])) for one in here if one[2] == a) for a in actions
        }
        taken = sum(p > 0 for p in share.values())
        if abs(sum(share.values()) - 1) > 0.01 + 1e-9 or any(
            one[4] is not None and one[4] > taken for one in here
        ):
            return None, "support.absent"
        share = {a: p / sum(share.values()) for a, p in share.items()}
        everything = [float(str(one[5])) for one in here]
        others = {
            a: [float(str(one[5])) for one in here if one[2] == a and (table or one[0] != n)] for a in actions
        }
        if table:
            q = {a: statistics.fmean(own) for a, own in others.items()}
            found = q[action] - math.fsum(share[a] * q[a] for a in actions)
        else:
            if any(not others[a] and share[a] > 0 for a in actions - {action}):
                return None, "support.absent"
            rest = [a for a in actions - {action} if share[a] > 0]
            expected = share[action] * outcome + math.fsum(
                share[a] * statistics.fmean(others[a]) for a in rest
            )
            found = outcome - expected
        if len(actions) > 1 and min(everything) == max(everything):
            return 0.0, DEGENERATE
        return found, None

    rows: list[Rows] = []
    for n, own in enumerate(decided):
        listed = []
        for v, (place, action, p, _, outcome) in sorted(own.items()):
            absent = place is None or action is None or p is None or outcome is None
            listed.append(Row([v], None, ABSENT) if absent else Row([v], *value(n, place, action, outcome)))
        rows.append(listed if any(row.reason != ABSENT for row in listed) else ABSENT)
    for n, trace in enumerate(traces):
        if decided[n] and lacks_order(trace, context, "prefix_key"):
            rows[n] = CYCLE
    return rows


def aristocrat(traces: list[Trace], rewards: list[float], context: str = "auto") -> list[Rows]:
    return _by_policy(traces, rewards, False, context, "outcome")


def coma(
    traces: list[Trace], rewards: list[float], context: str = "auto", critic: str = "outcome"
) -> list[Rows]:
    return _by_policy(traces, rewards, True, context, critic)


#: Methods by name, with the parameters to try beside the defaults.
METHODS: dict[str, tuple[Method, list[dict[str, Any]]]] = {
    "c3": (c3, [{"baseline": "mean", "context": "computed"}, {"context": "recorded"}]),
    "aristocrat": (aristocrat, [{"context": "recorded"}]),
    "coma": (coma, [{"critic": "value"}, {"context": "computed"}]),
    "spectrum": (
        spectrum,
        [
            {"by": "agent"},
            {"by": "message", "formula": "tarantula"},
            {"formula": "dstar", "star": 3.0, "threshold": 0.75},
            {"by": "agent", "formula": "kulczynski2"},
        ],
    ),
}
