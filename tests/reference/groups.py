"""Group advantages in plain Python (4.1 to 4.5, 4.9 to 4.12, 4.14), after their definitions only."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from reference.returns import (
    ABSENT,
    CYCLE,
    DEGENERATE,
    Method,
    Row,
    Rows,
    Value,
    own_reward,
    q_of,
)
from reference.siblings import computed_context, is_computed, lacks_order
from reference.trace import Trace, Turn

# --- normalization ----------------------------------------------------------------------------------


def mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)


def variance(values: list[float], ddof: int) -> float:
    center = mean(values)
    squares = math.fsum((x - center) ** 2 for x in values)
    return squares / (len(values) - ddof) if len(values) > ddof else 0.0


def is_degenerate(values: list[float]) -> bool:
    return len(values) < 2 or max(values) - min(values) <= 1e-12 * max(map(abs, values))


def normalized(
    values: list[float],
    *,
    norm: str = "mean_std",
    ddof: int = 1,
    epsilon: float = 1e-6,
    compat: str | None = None,
) -> list[Value]:
    """Values of one group, centered and perhaps scaled (4.1, 4.2); released code leaks a lone one."""
    if len(values) == 1 and compat == "verl":
        return [(values[0] / (1 + epsilon) if norm == "mean_std" else values[0], None)]
    if is_degenerate(values):
        return [(0.0, DEGENERATE)] * len(values)
    center = mean(values)
    scale = math.sqrt(variance(values, ddof)) + epsilon if norm == "mean_std" else 1.0
    return [((x - center) / scale, None) for x in values]


def in_groups(
    keys: list[Hashable], values: list[float], rule: Callable[[list[float]], list[Value]]
) -> list[Value]:
    """The rule applied to the values of every key."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        members[key].append(i)
    found: list[Value] = [(None, None)] * len(keys)
    for listed in members.values():
        for i, value in zip(listed, rule([values[i] for i in listed]), strict=True):
            found[i] = value
    return found


# --- one row a trace (4.1 to 4.5, 4.12, 4.14) ---------------------------------------------------------


def whole(traces: list[Trace], values: list[Value]) -> list[Rows]:
    return [[Row(list(range(len(trace))), *value)] for trace, value in zip(traces, values, strict=True)]


def own_rows(trace: Trace, whose: str) -> dict[str, Row]:
    """The events of each agent or role, and what they are paid: None where none of them is."""
    named = trace.owner if whose == "agent" else [trace.role[owner] for owner in trace.owner]
    found: dict[str, Row] = {}
    for v, name in enumerate(named):
        if name is not None:
            row = found.setdefault(name, Row([], None, ABSENT))
            row.events.append(v)
            if (paid := trace.events[v]["reward"]) is not None:
                row.value, row.reason = (row.value or 0.0) + paid, None
    return found


def by_group(rule: Callable[..., list[Value]]) -> Method:
    def method(
        traces: list[Trace], rewards: list[float], reward_of: str = "run", **params: Any
    ) -> list[Rows]:
        if reward_of != "run":
            rows = [own_rows(trace, reward_of) for trace in traces]
            listed = [
                (trace.group, name, row)
                for trace, own in zip(traces, rows, strict=True)
                for name, row in own.items()
                if row.value is not None
            ]
            named: list[Hashable] = [(group, name) for group, name, _ in listed]
            paid = [row.value or 0.0 for *_, row in listed]
            for (*_, row), value in zip(
                listed, in_groups(named, paid, lambda values: rule(values, **params)), strict=True
            ):
                row.value, row.reason = value
            return [list(own.values()) for own in rows]
        keys: list[Hashable] = [trace.group for trace in traces]
        return whole(traces, in_groups(keys, rewards, lambda values: rule(values, **params)))

    return method


def broadcast(traces: list[Trace], rewards: list[float]) -> list[Rows]:
    return whole(traces, [(reward, None) for reward in rewards])


def grpo(values: list[float], **params: Any) -> list[Value]:
    return normalized(values, **params)


def dr_grpo(values: list[float], **params: Any) -> list[Value]:
    return normalized(values, norm="mean", **params)


def rloo(values: list[float], compat: str | None = None) -> list[Value]:
    if is_degenerate(values):
        return normalized(values, norm="mean", compat=compat)
    total = math.fsum(values)
    return [(x - (total - x) / (len(values) - 1), None) for x in values]


def pass_k(values: list[float], norm_std: bool = False, epsilon: float = 1e-6) -> list[Value]:
    if is_degenerate(values):
        return [(0.0, DEGENERATE)] * len(values)
    best, second = sorted(values, reverse=True)[:2]
    scale = math.sqrt(variance(values, 1)) + epsilon if norm_std else 1.0
    if is_degenerate([best, second]):
        return [(0.0, None)] * len(values)
    return [((best - second) / scale if x == best else 0.0, None) for x in values]


def maxrl(values: list[float]) -> list[Value]:
    """(r - mean) / mean, of successes and failures alone."""
    if any(value not in (0.0, 1.0) for value in values):
        return [(None, "reward.not_binary")] * len(values)
    rate = math.fsum(values) / len(values)
    if rate in (0.0, 1.0):
        return [(0.0, DEGENERATE)] * len(values)
    return [((value - rate) / rate, None) for value in values]


def opo(
    traces: list[Trace], rewards: list[float], length: str = "tokens_out", compat: str | None = None
) -> list[Rows]:
    """Σ l R / Σ l in place of the mean; a rollout of unknown length leaves its group without a baseline."""

    def long(trace: Trace) -> float | None:
        owned = [trace.events[v] for v in trace.owned()]
        told = [event["tokens_out"] for event in owned if event["tokens_out"] is not None]
        return float(len(owned)) if length == "events" else math.fsum(told) if told else None

    def rule(members: list[tuple[float, float | None]]) -> list[Value]:
        values, lengths = [r for r, _ in members], [n for _, n in members]
        if len(values) == 1 and compat == "verl":
            return [(values[0], None)]
        if None in lengths:
            return [(None, ABSENT)] * len(values)
        total = math.fsum(n for n in lengths if n is not None)
        if is_degenerate(values) or total == 0:
            return [(0.0, DEGENERATE)] * len(values)
        baseline = math.fsum(r * (n or 0.0) for r, n in members) / total
        return [(r - baseline, None) for r in values]

    keys: list[Hashable] = [trace.group for trace in traces]
    members: Any = [(reward, long(trace)) for trace, reward in zip(traces, rewards, strict=True)]
    return whole(traces, in_groups(keys, members, rule))


def reinforce_pp(
    traces: list[Trace],
    rewards: list[float],
    baseline: bool = False,
    batch: str | None = None,
    compat: str | None = None,
) -> list[Rows]:
    values = list(rewards)
    reasons: list[str | None] = [None] * len(traces)
    metrics = [trace.document.get("metrics", {}) for trace in traces]
    batches: list[Hashable] = [metric.get(batch) if batch else 0 for metric in metrics]
    if baseline:  # what a trainer sees is one batch, so a group is what of it lies in the batch
        keys: list[Hashable] = [(trace.group, own) for trace, own in zip(traces, batches, strict=True)]
        centered = in_groups(keys, rewards, lambda group: normalized(group, norm="mean", compat=compat))
        values = [value or 0.0 for value, _ in centered]
        if compat is None:  # there the leak of lone rollouts moves those of flat groups too
            reasons = [reason for _, reason in centered]

    def whiten(members: list[float]) -> list[Value]:
        if is_degenerate(members):
            return [(0.0, DEGENERATE)] * len(members)
        center, spread = mean(members), math.sqrt(variance(members, 1) + 1e-8)
        return [((x - center) / spread, None) for x in members]

    known = [i for i, key in enumerate(batches) if key is not None]
    found: list[Rows] = [ABSENT] * len(traces)
    white = in_groups([batches[i] for i in known], [values[i] for i in known], whiten)
    for i, (value, reason) in zip(known, white, strict=True):
        found[i] = [Row(list(range(len(traces[i]))), 0.0 if reasons[i] else value, reason or reasons[i])]
    return found


def shape(trace: Trace, program_order: bool) -> tuple[int, ...] | None:
    """Bucket of a trace (4.12, D22), None for a cycle; T is the number of events."""
    edges = trace.weights(program_order)
    order = trace.topological(edges)
    if order is None:
        return None
    depth: dict[int, int] = {}
    for v in order:
        depth[v] = max((depth[src] + 1 for src, dst in edges if dst == v), default=0)
    layers = list(depth.values())
    width = max(layers.count(layer) for layer in set(layers))
    agents = len(trace.agents)
    return (
        int(math.log2(len(trace))),
        max(layers),
        int(math.log2(width)),
        int(math.log2(agents)) if agents else -1,
    )


def shape_normalized(
    traces: list[Trace],
    rewards: list[float],
    kappa: float = 8.0,
    ddof: int = 1,
    epsilon: float = 1e-6,
    program_order: bool = False,
) -> list[Rows]:
    shapes = [shape(trace, program_order) for trace in traces]
    found: list[Rows] = []
    for trace, own, reward in zip(traces, shapes, rewards, strict=True):
        if own is None:
            found.append(CYCLE)
            continue
        group, bucket = [], []
        for other, key, value in zip(traces, shapes, rewards, strict=True):
            if other.group == trace.group and key is not None:
                group.append(value)
                if key == own:
                    bucket.append(value)
        if is_degenerate(group):
            found.append([Row(list(range(len(trace))), 0.0, DEGENERATE)])
            continue
        n = len(bucket)
        center = (n * mean(bucket) + kappa * mean(group)) / (n + kappa)
        spread = (n * variance(bucket, ddof) + kappa * variance(group, ddof)) / (n + kappa)
        if kappa == 0 and is_degenerate(bucket):
            found.append([Row(list(range(len(trace))), 0.0, DEGENERATE)])
            continue
        found.append([Row(list(range(len(trace))), (reward - center) / (math.sqrt(spread) + epsilon))])
    return found


# --- one row a turn, compared within a group (4.9 to 4.11) ---------------------------------------------


def turns_of(traces: list[Trace]) -> list[tuple[int, Turn]]:
    return [(i, turn) for i, trace in enumerate(traces) for turn in trace.turns]


def gathered(traces: list[Trace], rows: list[tuple[int, Turn]], values: list[Value]) -> list[Rows]:
    found: list[list[Row]] = [[] for _ in traces]
    for (i, turn), value in zip(rows, values, strict=True):
        found[i].append(Row(turn.events, *value))
    return list(found)


def owned_events(trace: Trace) -> list[Turn]:
    return [
        Turn(owner, trace.events[v]["id"], 0, [v])
        for v in trace.order
        if (owner := trace.owner[v]) is not None
    ]


def dr_mas(traces: list[Trace], rewards: list[float], rows: str = "turns", **params: Any) -> list[Rows]:
    steps = [
        (i, step)
        for i, trace in enumerate(traces)
        for step in (trace.turns if rows == "turns" else owned_events(trace))
    ]
    keys: list[Hashable] = [(traces[i].group, step.owner) for i, step in steps]
    rule = lambda values: normalized(values, **params)  # noqa: E731
    return gathered(traces, steps, in_groups(keys, [rewards[i] for i, _ in steps], rule))


def at_grpo(traces: list[Trace], rewards: list[float], **params: Any) -> list[Rows]:
    rows = turns_of(traces)
    keys: list[Hashable] = [(traces[i].group, turn.owner, turn.ordinal) for i, turn in rows]
    rule = lambda values: normalized(values, **params)  # noqa: E731
    return gathered(traces, rows, in_groups(keys, [rewards[i] for i, _ in rows], rule))


def magrpo(traces: list[Trace], rewards: list[float]) -> list[Rows]:
    joint: list[tuple[int, int, float]] = []  # trace, ordinal, return of all agents from there on
    for i, trace in enumerate(traces):
        for ordinal in {turn.ordinal for turn in trace.turns}:
            later = [own_reward(trace, turn) for turn in trace.turns if turn.ordinal >= ordinal]
            joint.append((i, ordinal, math.fsum([*later, rewards[i]])))
    keys: list[Hashable] = [(traces[i].group, ordinal) for i, ordinal, _ in joint]
    values = in_groups(keys, [value for *_, value in joint], lambda group: normalized(group, norm="mean"))
    known = {(i, ordinal): value for (i, ordinal, _), value in zip(joint, values, strict=True)}
    rows = turns_of(traces)
    return gathered(traces, rows, [known[i, turn.ordinal] for i, turn in rows])


def marshal(
    traces: list[Trace], rewards: list[float], gamma: float = 0.99, norm: str = "mean", **params: Any
) -> list[Rows]:
    rows = turns_of(traces)
    keys: list[Hashable] = [(traces[i].group, turn.owner) for i, turn in rows]
    returns = [q for trace, reward in zip(traces, rewards, strict=True) for q in q_of(trace, reward, gamma)]
    return gathered(traces, rows, in_groups(keys, returns, lambda x: normalized(x, norm=norm, **params)))


def gigpo(
    traces: list[Trace],
    rewards: list[float],
    step_weight: float = 1.0,
    gamma: float = 0.99,
    norm: str = "mean_std",
    context: str = "auto",
    **params: Any,
) -> list[Rows]:
    groups: list[Hashable] = [trace.group for trace in traces]
    episode = in_groups(groups, rewards, lambda x: normalized(x, norm=norm, **params))
    rows = turns_of(traces)
    returns = [q for trace, reward in zip(traces, rewards, strict=True) for q in q_of(trace, reward, gamma)]
    anchors = [anchor(traces[i], turn, context) for i, turn in rows]
    anchored = [n for n, key in enumerate(anchors) if key is not None]
    steps = in_groups(
        [(traces[rows[n][0]].group, anchors[n]) for n in anchored],
        [returns[n] for n in anchored],
        lambda x: normalized(x, norm=norm, **params),
    )
    values: list[Value] = [(None, ABSENT)] * len(rows)
    for n, (step, reason) in zip(anchored, steps, strict=True):
        base, lone = episode[rows[n][0]]
        assert base is not None and step is not None
        values[n] = (base + step_weight * step, reason if lone else None)
    found = gathered(traces, rows, values)
    return [
        CYCLE if lacks_order(trace, context, "state_key") else own
        for trace, own in zip(traces, found, strict=True)
    ]


def anchor(trace: Trace, turn: Turn, context: str) -> Hashable:
    if is_computed(trace, context, "state_key"):
        return None if lacks_order(trace, context, "state_key") else computed_context(trace, turn.events[0])
    keys = [trace.events[v]["state_key"] for v in turn.events]
    return next((key for key in keys if key is not None), None)


#: Methods by name, with the parameters to try beside the defaults.
METHODS: dict[str, tuple[Method, list[dict[str, Any]]]] = {
    "broadcast": (broadcast, []),
    "grpo": (by_group(grpo), [{"ddof": 0, "epsilon": 0.1}, {"compat": "verl"}, {"reward_of": "agent"}]),
    "dr_grpo": (by_group(dr_grpo), [{"compat": "verl"}, {"reward_of": "role"}]),
    "rloo": (by_group(rloo), [{"compat": "verl"}, {"reward_of": "agent", "compat": "verl"}]),
    "opo": (opo, [{"length": "events"}, {"compat": "verl"}]),
    "maxrl": (by_group(maxrl), []),
    "pass_k": (by_group(pass_k), [{"norm_std": True, "epsilon": 0.01}]),
    "reinforce_pp": (
        reinforce_pp,
        [
            {"baseline": True},
            {"batch": "train_step"},
            {"baseline": True, "batch": "train_step", "compat": "verl"},
        ],
    ),
    "shape_normalized": (
        shape_normalized,
        [{"kappa": 0.0}, {"kappa": 2.0, "ddof": 0, "program_order": True}],
    ),
    "dr_mas": (
        dr_mas,
        [{"ddof": 0, "epsilon": 0.1, "weight": "tokens_out"}, {"compat": "verl"}, {"rows": "events"}],
    ),
    "at_grpo": (at_grpo, [{"ddof": 0, "epsilon": 0.1}]),
    "magrpo": (magrpo, []),
    "marshal": (marshal, [{"norm": "mean_std", "gamma": 0.5, "ddof": 0}]),
    "gigpo": (
        gigpo,
        [
            {"norm": "mean", "step_weight": 0.5},
            {"context": "computed"},
            {"context": "recorded", "gamma": 0.5},
        ],
    ),
}
