"""Schedules in plain Python, event by event with a heap, from the definitions D7, D8 and D10 alone."""

import heapq
import math
import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from reference.trace import Trace

Edges = set[tuple[int, int]]
MaxGap = float | str | None


def longest_gap(max_gap: MaxGap, basis: str) -> float:
    """The longest gap that counts as work (D7)."""
    if max_gap == "auto":
        return 3600.0 if basis in ("seconds", "partial") else math.inf
    return math.inf if max_gap is None else float(max_gap)


@dataclass
class Scenario:
    """The options of a schedule, under the names of the package."""

    changes: list[dict[str, Any]] = field(default_factory=list)
    slots: int | None = None
    pool: str = "all"
    queue: str = "recorded"
    release: str = "none"
    durations: str = "auto"
    max_gap: MaxGap = "auto"
    program_order: bool = False


@dataclass
class Result:
    """When events begin and end, and what follows."""

    start: list[float]
    finish: list[float]
    makespan: float
    peak: int


class Timed:
    """Durations of a trace (D7), and what its recording says about times."""

    def __init__(
        self,
        trace: Trace,
        basis: str,
        durations: str,
        release: str,
        program_order: bool = False,
        max_gap: MaxGap = "auto",
    ) -> None:
        self.trace = trace
        self.edges: Edges = set(trace.weights(program_order))
        self.program: Edges = self.edges - set(trace.edges)
        events = trace.events
        n = len(events)
        seconds = basis in ("seconds", "partial")
        #: What a human or a scorer does is no work.
        self.aside = [self._aside(v) for v in range(n)]
        working = [v for v in range(n) if self.aside[v] is None]
        told = [events[v]["duration_s"] is not None or events[v]["t_end"] is not None for v in working]
        if durations == "auto":
            whole = bool(told) and all(told)
            rule = "explicit" if whole else "mixed" if seconds and any(told) else "gap"
        else:
            rule = durations
        if release == "recorded" and not seconds:
            rule = "gap"
        self.rule = rule
        self.unit = "seconds" if seconds or rule == "explicit" else "steps"
        self.support = 0.0 if rule == "gap" else sum(told) / max(1, len(told))
        self.absent = durations == "explicit" and not any(told)
        self.t0 = min(float(event["t"]) for event in events)
        self.end = [self._end(v) for v in range(n)]
        self.waited = [max((self.end[u] for u, w in self.edges if w == v), default=None) for v in range(n)]
        recorded = [self._recorded(v) for v in range(n)]
        axis = seconds or rule == "gap"
        for v, length in enumerate(recorded):
            given = [u for u, w in trace.edges if w == v]
            answered = any(events[u]["type"] == "return" or (axis and self._says_to(u, v)) for u in given)
            if length is not None and events[v]["type"] == "tool_result" and answered:
                # the rest is the work of the agent that answered
                left = max(0.0, self.end[v] - (self.waited[v] or 0.0)) if axis else 0.0
                recorded[v] = min(length, left)
        gap = [self._gap(v) for v in range(n)]
        #: Nothing says when a result or a word of the environment began to which nothing leads.
        led = {w for _, w in trace.edges}
        self.unknown = [
            recorded[v] is None
            and v not in led
            and (
                events[v]["type"] == "tool_result"
                or (gap[v] > 0.0 and trace.outside.get(events[v]["agent"]) == "environment")
            )
            for v in range(n)
        ]
        gap = [0.0 if unknown else g for unknown, g in zip(self.unknown, gap, strict=True)]
        longest = longest_gap(max_gap, basis)
        long = [r is None and g > longest for r, g in zip(recorded, gap, strict=True)]
        self.idle = [g if too_long else 0.0 for g, too_long in zip(gap, long, strict=True)]
        worked = [0.0 if too_long else g for g, too_long in zip(gap, long, strict=True)]
        self.d = [g if r is None else r for r, g in zip(recorded, worked, strict=True)]
        self.release = None
        self.cut = 0
        begins = []
        for v in range(n):
            waited = self.t0 if self.waited[v] is None else self.waited[v]
            length = recorded[v]
            untold = self.end[v] if long[v] or self.unknown[v] else waited
            begins.append(untold if length is None else self.end[v] - length)
        #: When each began: not before everything it waits for had ended.
        began = [b if w is None else max(b, w) for b, w in zip(begins, self.waited, strict=True)]
        self.origin = min(began)
        #: Seconds of work among steps have no clock that says from when to when.
        self.recorded_makespan = max(self.end) - self.origin if seconds or rule == "gap" else None
        self.queued: list[float | None] = [
            # less than a subtraction rounds is nothing
            (b - w if b - w > 4 * sys.float_info.epsilon * max(abs(b), abs(w)) else 0.0)
            if r is not None
            and (events[v]["duration_s"] is not None or events[v]["t_end"] is not None)
            and w is not None
            and self.aside[v] is None
            and self.recorded_makespan is not None
            else None
            for v, (b, w, r) in enumerate(zip(began, self.waited, recorded, strict=True))
        ]
        if release == "recorded":
            over = [w is not None and b < w for b, w in zip(begins, self.waited, strict=True)]
            if rule != "gap":
                self.cut = sum(over)
                self.d = [
                    max(0.0, e - b) if o else d
                    for o, d, e, b in zip(over, self.d, self.end, began, strict=True)
                ]
            self.release = [b - self.origin for b in began]

    def clock(self, basis: str) -> tuple[float, float]:
        """From the earliest beginning that is recorded to the latest end; a human's word takes no time."""
        begins, ends = [], []
        for v, event in enumerate(self.trace.events):
            t, length, end = float(event["t"]), event["duration_s"], event["t_end"]
            if basis not in ("seconds", "partial") or self.aside[v] == "user":
                length = end = None
            begins.append(t - (length or 0.0))
            ends.append(t if length is not None or end is None else max(t, float(end)))
        return min(begins), max(ends)

    def is_given_by_human(self, v: int) -> bool:
        event = self.trace.events[v]
        return event["type"] == "tool_result" and self.trace.outside.get(event["from"]) == "user"

    def _aside(self, v: int) -> str | None:
        event = self.trace.events[v]
        kind = "user" if event["type"] == "human_intervention" else self.trace.outside.get(event["agent"])
        if kind not in ("user", "scorer") and self.is_given_by_human(v):
            kind = "user"
        return kind if kind in ("user", "scorer") else None

    def _says_to(self, u: int, v: int) -> bool:
        """Whether an agent of the team says something to the result of another agent's call."""
        says = self.trace.events[u]["type"] == "message" and "message" in self.trace.edges[u, v]
        return says and self.aside[u] is None and self.trace.owner[u] != self.trace.owner[v]

    def _end(self, v: int) -> float:
        event = self.trace.events[v]
        t = float(event["t"])
        told = self.rule != "gap" and self.aside[v] is None
        if told and event["duration_s"] is None and event["t_end"] is not None:
            return max(t, float(event["t_end"]))
        return t

    def _recorded(self, v: int) -> float | None:
        event = self.trace.events[v]
        if self.aside[v] is not None:
            return 0.0
        if self.rule == "gap":
            return None
        if event["duration_s"] is not None:
            return float(event["duration_s"])
        if event["t_end"] is not None:
            return max(0.0, float(event["t_end"]) - float(event["t"]))
        return 0.0 if self.rule == "explicit" else None

    def _gap(self, v: int) -> float:
        before = self.waited[v]
        return max(0.0, self.end[v] - (self.t0 if before is None else before))

    # --- changes ------------------------------------------------------------------------------------

    def tool(self, v: int) -> str | None:
        event, call = self.trace.events[v], self.trace.call[v]
        named = event["tool"]
        return str(named) if named is not None else None if call is None else self.trace.events[call]["tool"]

    def selected(self, change: dict[str, Any], *, lengths: bool = False) -> list[int]:
        by, value, events = change.get("by"), change.get("value"), self.trace.events
        every = range(len(events))
        if by is None:
            return list(every)
        if by == "event":
            return [v for v in every if events[v]["id"] == value]
        if by == "type":
            return [v for v in every if events[v]["type"] == value]
        if by == "agent":
            return [v for v in every if self.trace.owner[v] == value]
        if by == "role":
            return [v for v in every if self.trace.role.get(self.trace.owner[v]) == value]
        kinds = ("tool_result",) if lengths else ("tool_call", "tool_result")
        return [v for v in every if events[v]["type"] in kinds and self.tool(v) == value]


class Schedule:
    """One scenario of one trace."""

    def __init__(self, timed: Timed, scenario: Scenario) -> None:
        self.timed, self.scenario, self.trace = timed, scenario, timed.trace
        self.n = len(self.trace)
        self.d = list(timed.d)
        self.gone: set[int] = set()
        self.merged: list[set[str]] = []
        self.serial = False
        self.part: dict[int, tuple[str, int]] = {}
        self.edges = set(timed.edges)
        for change in scenario.changes:
            if change["kind"] == "split":
                self.split(change["agent"], change["parts"])
        for change in scenario.changes:
            self.apply(change)
        for v in self.gone:
            self.d[v] = 0.0

    def preds(self, v: int) -> list[int]:
        return sorted(u for u, w in self.edges if w == v)

    def succs(self, v: int) -> list[int]:
        return sorted(w for u, w in self.edges if u == v)

    def apply(self, change: dict[str, Any]) -> None:
        kind = change["kind"]
        if kind == "remove":
            chosen = set(self.timed.selected(change))
            self.gone |= chosen
            if chosen and change["cascade"] != "stay":
                test = {"all": all, "any": any}[change["cascade"]]
                while lost := {
                    v
                    for v in set(range(self.n)) - self.gone
                    if self.preds(v) and test(u in self.gone for u in self.preds(v))
                }:
                    self.gone |= lost
        elif kind == "speed_up":
            for v in self.timed.selected(change, lengths=True):
                self.d[v] /= change["factor"]
        elif kind == "cap_stragglers":
            classes: dict[object, list[int]] = {}
            for v in self.timed.selected(change, lengths=True):
                if v not in self.gone:
                    key = (self.trace.events[v]["type"], self.timed.tool(v))
                    classes.setdefault(key, []).append(v)
            for members in classes.values():
                lengths = sorted(self.d[v] for v in members)
                most = lengths[max(1, math.ceil(change["quantile"] * len(lengths) - 1e-9)) - 1]
                for v in members:
                    self.d[v] = min(self.d[v], most)
        elif kind == "merge":
            team = set(change["agents"])
            for other in [other for other in self.merged if other & team]:
                self.merged.remove(other)
                team |= other
            self.merged.append(team)
        elif kind == "serialize":
            self.serial = True

    def split(self, agent: str, parts: int) -> None:
        own = [v for v in self.trace.order if self.trace.owner[v] == agent]
        temporal = {
            edge
            for edge in self.edges
            if set(edge) <= set(own)
            and (edge in self.timed.program or set(self.trace.edges[edge]) == {"temporal"})
        }
        joined = {edge for edge in self.edges if set(edge) <= set(own)} - temporal
        piece = {v: {v} for v in own}
        for u, v in joined:
            both = piece[u] | piece[v]
            for w in both:
                piece[w] = both
        load = [0.0] * parts
        part: dict[int, int] = {}
        for v in own:
            if v not in part:
                least = min(range(parts), key=lambda p: (load[p], p))
                load[least] += sum(self.timed.d[w] for w in piece[v])
                part |= dict.fromkeys(piece[v], least)

        def near(v: int, wanted: int) -> int | None:
            found = None
            for u in sorted(u for u, w in temporal if w == v):
                before = u if part[u] == wanted else near(u, wanted)
                found = found if before is None else before
            return found

        def links(v: int) -> Edges:
            inputs = [u for u, w in temporal if w == v]
            found = [u if part[u] == part[v] else near(u, part[v]) for u in inputs]
            return {(u, v) for u in found if u is not None}

        self.edges = (self.edges - temporal).union(*(links(v) for v in own))
        self.part |= {v: (agent, part[v]) for v in own}

    # --- the engine (D10) ---------------------------------------------------------------------------

    @cached_property
    def rank(self) -> dict[int, tuple[float, int]]:
        """Who goes first: the lowest."""
        if self.scenario.queue == "recorded":
            return {v: (0.0, self.trace.rank[v]) for v in range(self.n)}
        below: dict[int, float] = {}

        def longest(v: int) -> float:
            if v not in below:
                below[v] = self.d[v] + max((longest(w) for w in self.succs(v)), default=0.0)
            return below[v]

        return {v: (-longest(v), self.trace.rank[v]) for v in range(self.n)}

    def holder(self, v: int) -> object:
        """What holds the slot of an event; None if it needs none."""
        if self.serial or self.scenario.pool == "all":
            return ("event", v) if self.timed.aside[v] is None else None
        if self.scenario.pool == "tools":
            return ("event", v) if self.trace.events[v]["type"] == "tool_result" else None
        owner = self.trace.owner[v]
        if owner is None:
            return None
        for number, team in enumerate(self.merged):
            if owner in team:
                return ("team", number)
        return self.part.get(v, owner)

    def team(self, v: int) -> int | None:
        """The merged agents that an event belongs to."""
        owner = self.trace.owner[v]
        return next((n for n, team in enumerate(self.merged) if owner in team), None)

    def run(self) -> Result:
        slots = 1 if self.serial else self.scenario.slots
        room = math.inf if slots is None else slots
        start, finish = [math.nan] * self.n, [math.nan] * self.n
        inputs = {v: set(self.preds(v)) for v in range(self.n)}
        outputs = {v: self.succs(v) for v in range(self.n)}
        release = self.timed.release or [0.0] * self.n
        running: list[tuple[float, int]] = []
        idle = set(range(self.n))
        now, peak, last = 0.0, 0, 0.0
        while True:
            # What does not happen is over as soon as what it waited for is.
            while over := [v for v in idle & self.gone if not inputs[v]]:
                for v in over:
                    idle.remove(v)
                    start[v] = finish[v] = now
                    for w in outputs[v]:
                        inputs[w].discard(v)
            # The first that can begin begins, until none can.
            while True:
                held = {self.holder(v) for _, v in running} - {None}
                teams = {self.team(v) for _, v in running} - {None}

                able = [
                    v
                    for v in idle - self.gone
                    if not inputs[v]
                    and release[v] <= now
                    and (self.holder(v) in held | {None} or len(held) < room)
                    and (self.serial or self.team(v) not in teams)
                ]
                peak = max(peak, len(held))
                if not able:
                    break
                v = min(able, key=self.rank.__getitem__)
                idle.remove(v)
                start[v], finish[v] = now, now + self.d[v]
                heapq.heappush(running, (finish[v], v))
            coming = [release[v] for v in idle - self.gone if not inputs[v] and release[v] > now]
            instants = coming + ([running[0][0]] if running else [])
            if not instants:
                break
            now = min(instants)
            while running and running[0][0] == now:
                _, v = heapq.heappop(running)
                last = max(last, now)
                for w in outputs[v]:
                    inputs[w].discard(v)
        assert not idle
        return Result(start, finish, last, peak)
