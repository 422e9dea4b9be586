"""Returns and what flows back along turns and edges, in plain Python (4.6 to 4.8, 4.13, 5.14, 5.15).

A method is a function of traces, their rewards and its parameters. It gives for every trace its rows, or why
it has none. Rows of a share are its events, and the values add up.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reference.trace import Trace, Turn

DEGENERATE = "group.degenerate"
ABSENT = "field.absent"
CYCLE = "graph.cycle"

Value = tuple[float | None, str | None]


@dataclass
class Row:
    """What a method says of some events."""

    events: list[int]
    value: float | None
    reason: str | None = None


Rows = str | list[Row]
Method = Callable[..., list[Rows]]


# --- returns (4.6 to 4.8, 4.13, 5.15; D14) -------------------------------------------------------------


def own_reward(trace: Trace, turn: Turn) -> float:
    return math.fsum(trace.events[v]["reward"] or 0.0 for v in turn.events)


def is_step(trace: Trace, v: int) -> bool:
    """Whether an event is the policy's, or has a value; other tools and users only say something."""
    event = trace.events[v]
    return event["value"] is not None or (trace.owner[v] is not None and event["type"] != "tool_result")


def steps_of(trace: Trace, rows: str) -> list[Turn]:
    """The turns, or every event of the policy as a step of its own."""
    if rows == "turns":
        return trace.turns
    steps = [v for v in trace.order if is_step(trace, v)]
    return [Turn(trace.owner[v] or "", trace.events[v]["id"], 0, [v]) for v in steps]


def gains_of(trace: Trace, steps: list[Turn], rows: str) -> list[float]:
    """What each step earns; as events, with what was paid for nothing of the policy's until the next one."""
    if rows == "turns":
        return [own_reward(trace, turn) for turn in steps]
    place = [trace.rank[step.events[0]] for step in steps] + [len(trace)]
    paid = [trace.events[v]["reward"] or 0.0 for v in trace.order]
    return [math.fsum(paid[first:after]) for first, after in itertools.pairwise(place)]


def q_of(trace: Trace, reward: float, gamma: float, rows: str = "turns") -> list[float]:
    """Return-to-go of every step."""
    found, running = [], 0.0
    steps = steps_of(trace, rows)
    for n, gain in reversed(list(enumerate(gains_of(trace, steps, rows)))):
        last = n == len(steps) - 1
        running = gain + (reward if last else 0.0) + gamma * running
        found.append(running)
    return found[::-1]


def return_to_go(
    traces: list[Trace], rewards: list[float], gamma: float = 0.99, rows: str = "turns"
) -> list[Rows]:
    return [
        [
            Row(step.events, q)
            for step, q in zip(steps_of(trace, rows), q_of(trace, reward, gamma, rows), strict=True)
        ]
        for trace, reward in zip(traces, rewards, strict=True)
    ]


def errors(
    trace: Trace, turns: list[Turn], reward: float, gamma: float, rows: str = "turns"
) -> list[float] | None:
    """One-step errors along the turns, None where one has no value."""
    values = []
    for turn in turns:
        known = [trace.events[v]["value"] for v in turn.events if trace.events[v]["value"] is not None]
        if not known:
            return None
        values.append(known[0])
    if not turns:
        return []
    gains = gains_of(trace, turns, rows)
    gains[-1] += reward
    return [
        gain + gamma * after - value
        for gain, after, value in zip(gains, [*values[1:], 0.0], values, strict=True)
    ]


def discounted_errors(
    traces: list[Trace],
    rewards: list[float],
    gamma: float = 0.99,
    lambda_: float = 0.95,
    order: Callable[[Trace], list[Turn]] = lambda trace: trace.turns,
    reach: Callable[[list[Turn], int], int] = lambda turns, _: len(turns),
    rows: str = "turns",
) -> list[Rows]:
    """Sum of later errors, each step worth gamma * lambda, as far as `reach` says."""
    found: list[Rows] = []
    for trace, reward in zip(traces, rewards, strict=True):
        turns = order(trace)
        delta = errors(trace, turns, reward, gamma, rows)
        if delta is None:
            found.append(ABSENT)
            continue
        found.append(
            [
                Row(
                    turn.events,
                    math.fsum((gamma * lambda_) ** (k - n) * delta[k] for k in range(n, reach(turns, n))),
                )
                for n, turn in enumerate(turns)
            ]
        )
    return found


def gae(traces: list[Trace], rewards: list[float], rows: str = "turns", **params: Any) -> list[Rows]:
    return discounted_errors(traces, rewards, order=lambda trace: steps_of(trace, rows), rows=rows, **params)


def sequential_gae(traces: list[Trace], rewards: list[float], **params: Any) -> list[Rows]:
    def rounds(trace: Trace) -> list[Turn]:
        return sorted(trace.turns, key=lambda turn: (turn.ordinal, trace.agents.index(turn.owner)))

    return discounted_errors(traces, rewards, order=rounds, **params)


def eligibility(
    runs: list[Trace], rewards: list[float], traces: str = "accumulating", **params: Any
) -> list[Rows]:
    def next_own(turns: list[Turn], n: int) -> int:
        later = (k for k in range(n + 1, len(turns)) if turns[k].owner == turns[n].owner)
        return next(later, len(turns))

    if traces == "replacing":
        return discounted_errors(runs, rewards, reach=next_own, **params)
    return discounted_errors(runs, rewards, **params)


def dag_gae(
    traces: list[Trace],
    rewards: list[float],
    gamma: float = 0.99,
    lambda_: float = 0.95,
    mode: str = "mean",
    program_order: bool = False,
) -> list[Rows]:
    found: list[Rows] = []
    for trace, reward in zip(traces, rewards, strict=True):
        if trace.unknown:
            found.append(trace.unknown)
            continue
        edges = list(trace.weights(program_order))
        order = trace.topological(dict.fromkeys(edges, 1.0))
        if order is None:
            found.append(CYCLE)
            continue
        steps = [v for v in range(len(trace)) if is_step(trace, v)]
        if any(trace.events[v]["value"] is None for v in steps):
            found.append(ABSENT)
            continue
        value = {v: event["value"] or 0.0 for v, event in enumerate(trace.events)}
        gain = {v: event["reward"] or 0.0 for v, event in enumerate(trace.events)}
        y = trace.outcome
        if y is None:  # a virtual sink behind all sinks
            y = len(trace)
            edges += [(v, y) for v in order if not any(src == v for src, _ in edges)]
            order, value[y], gain[y] = [*order, y], 0.0, 0.0
        gain[y] += reward
        side = 0 if mode == "mean" else 1
        share = {ends: 1 / sum(other[side] == ends[side] for other in edges) for ends in edges}
        # what the events before one get of it: of a step discounted, of what is stepped over all that it gets
        passed: dict[int, float] = {}
        advantage: dict[int, float] = {}
        for v in reversed(order):
            later = gain[v] + math.fsum(share[u, w] * passed[w] for u, w in edges if u == v)
            if v < len(trace) and v not in steps:
                passed[v] = later
                continue
            advantage[v] = later - value[v]
            passed[v] = gamma * value[v] + gamma * lambda_ * advantage[v]
        found.append([Row([v], advantage[v]) for v in steps])
    return found


# --- the outcome over events (D12, 5.14) ---------------------------------------------------------------


def uniform(traces: list[Trace], rewards: list[float]) -> list[Rows]:
    return [
        [Row([v], reward / len(trace)) for v in range(len(trace))]
        for trace, reward in zip(traces, rewards, strict=True)
    ]


def discounted(traces: list[Trace], rewards: list[float], gamma: float = 0.99) -> list[Rows]:
    return [
        [Row([v], reward * gamma ** (len(trace) - 1 - trace.rank[v])) for v in range(len(trace))]
        for trace, reward in zip(traces, rewards, strict=True)
    ]


def flows(
    traces: list[Trace],
    rewards: list[float],
    *,
    kernel: str = "uniform",
    retention: float = 0.1,
    gamma: float | None = None,
    tau: float | None = None,
    program_order: bool = False,
) -> list[Rows]:
    """What each event keeps of the outcome; with `gamma` what it receives."""
    found: list[Rows] = []
    for trace, reward in zip(traces, rewards, strict=True):
        if trace.unknown:
            found.append(trace.unknown)
            continue
        weights = trace.weights(program_order)
        order = trace.topological(weights)
        if order is None:
            found.append(CYCLE)
            continue
        times = [event["t"] for event in trace.events]
        scale = (max(times) - min(times)) / 10 if tau is None else tau
        received = dict.fromkeys(range(len(trace)), 0.0)
        y = trace.outcome
        if y is None:
            sinks = [v for v in order if not any(src == v for src, _ in weights)]
            for v in sinks:
                received[v] = reward / len(sinks)  # where the outcome is; there is no step to it
        else:
            received[y] = reward
        kept = dict.fromkeys(range(len(trace)), 0.0)
        for v in reversed(order):
            into = {src: w for (src, dst), w in weights.items() if dst == v}
            if kernel == "uniform" or (kernel == "time_decay" and scale == 0):
                into = dict.fromkeys(into, 1.0)
            elif kernel == "time_decay":
                # relative to the nearest, so that not all of them vanish
                gaps = {u: max(0.0, times[v] - times[u]) / scale for u in into}
                into = {u: math.exp(min(gaps.values()) - gap) for u, gap in gaps.items()}
            kept[v] = received[v] * (retention if into else 1.0)
            for u, w in into.items():
                part = received[v] * (1 - retention) * w / math.fsum(into.values())
                received[u] += part * (1.0 if gamma is None else gamma)
        found.append([Row([v], (kept if gamma is None else received)[v]) for v in range(len(trace))])
    return found


def flow_discounted(traces: list[Trace], rewards: list[float], **params: Any) -> list[Rows]:
    return flows(traces, rewards, **{"gamma": 0.99, "retention": 0.0, **params})


#: Methods by name, with the parameters to try beside the defaults.
METHODS: dict[str, tuple[Method, list[dict[str, Any]]]] = {
    "uniform": (uniform, []),
    "discounted": (discounted, [{"gamma": 0.5}, {"gamma": 0.9, "weight": "tokens_out"}]),
    "flow": (
        flows,
        [{"kernel": "edge_type", "retention": 0.3}, {"kernel": "time_decay", "program_order": True}],
    ),
    "flow_discounted": (flow_discounted, [{"gamma": 0.5, "retention": 0.2, "kernel": "edge_type"}]),
    "return_to_go": (
        return_to_go,
        [{"gamma": 0.0}, {"gamma": 1.0, "weight": "tokens_out"}, {"rows": "events"}],
    ),
    "gae": (gae, [{"gamma": 0.9, "lambda_": 0.5}, {"rows": "events"}]),
    "sequential_gae": (sequential_gae, [{"gamma": 0.9, "lambda_": 0.5}]),
    "eligibility": (
        eligibility,
        [{"traces": "replacing"}, {"traces": "replacing", "gamma": 0.9, "lambda_": 1.0}],
    ),
    "dag_gae": (dag_gae, [{"mode": "split"}, {"gamma": 1.0, "lambda_": 1.0, "program_order": True}]),
}
