"""Waste and structural failures of a recording in plain Python, from D38 and D39 alone."""

from collections import defaultdict
from functools import cached_property
from typing import Any

import networkx as nx

from reference.trace import Trace

Answer = tuple[int | None, int | None, str | None]
"""The first event at which a class shows, how often it does, and why that is not known."""


class Spent:
    """Calls of a trace, the class of every event, and what its shape says of failure."""

    def __init__(self, trace: Trace, reading: set[str], verifying: set[str] | None = None) -> None:
        self.trace = trace
        self.events = trace.events
        self.reading = reading
        self.verifying = verifying
        self.graph = nx.DiGraph(list(trace.edges))
        self.graph.add_nodes_from(range(len(trace)))

    # --- calls ----------------------------------------------------------------------------------------

    @cached_property
    def calls(self) -> list[int]:
        """Calls of agents, in canonical order."""
        return self.trace.owned("tool_call")

    @cached_property
    def call_of(self) -> dict[int, int]:
        """Calls, and results of calls of agents, to their call."""
        answered = {v: u for v, u in enumerate(self.trace.call) if u in self.calls}
        return {**{u: u for u in self.calls}, **answered}  # type: ignore[dict-item]

    def key(self, call: int) -> tuple[str | None, str] | None:
        event = self.events[call]
        arguments = event["args_hash"] if event["args_hash"] is not None else event["content_ref"]
        return None if arguments is None else (event["tool"], arguments)

    def failed(self, call: int) -> bool:
        return any(self.events[v]["ok"] is False for v, u in self.call_of.items() if u == call)

    def maker(self, call: int) -> int | None:
        trace, owner = self.trace, self.trace.owner[call]

        def makes(u: int) -> bool:
            return trace.owner[u] == owner and self.events[u]["type"] in ("orchestrator_decision", "message")

        linked = trace.last([u for u in self.graph.predecessors(call) if makes(u)])
        if linked is not None:
            return linked
        before = [u for u in trace.owned() if trace.owner[u] == owner and trace.rank[u] < trace.rank[call]]
        latest = trace.last([u for u in before if self.events[u]["type"] not in ("tool_call", "spawn")])
        return latest if latest is not None and makes(latest) else None

    # --- classes of events ----------------------------------------------------------------------------

    @cached_property
    def unknown(self) -> str | None:
        """Why it is not known what leads to the outcome."""
        if not nx.is_directed_acyclic_graph(self.graph):
            return "graph.cycle"
        if self.trace.unknown is not None:
            return self.trace.unknown
        return "outcome.absent" if self.trace.outcome is None else None

    @cached_property
    def live(self) -> set[int]:
        y = self.trace.outcome
        assert y is not None
        return {y, *nx.ancestors(self.graph, y)}

    @cached_property
    def looped(self) -> set[int]:
        lanes: dict[str | None, list[int]] = defaultdict(list)
        for call in self.calls:
            lanes[self.trace.owner[call]].append(call)
        found: set[int] = set()
        for lane in lanes.values():
            keys = [None if self.failed(call) else self.key(call) for call in lane]
            for period in (1, 2, 3, 4):
                for start in range(len(lane)):
                    pattern, rounds = keys[start : start + period], 1
                    while keys[start + rounds * period : start + (rounds + 1) * period] == pattern:
                        rounds += 1
                    if rounds >= 3 and None not in pattern and len(pattern) == period:
                        found.update(lane[start + period : start + rounds * period])
        return found

    @cached_property
    def duplicates(self) -> set[int]:
        found = set()
        for at, call in enumerate(self.calls):
            if self.events[call]["tool"] not in self.reading or self.failed(call) or self.key(call) is None:
                continue
            for earlier in reversed(self.calls[:at]):
                if self.events[earlier]["tool"] not in self.reading:
                    break
                if self.key(earlier) == self.key(call) and not self.failed(earlier):
                    found.add(call)
                    break
        return found

    def lost_agent(self, agent: str | None) -> bool:
        named = {kind: {e["to"] for e in self.events if e["type"] == kind} for kind in ("spawn", "despawn")}
        returned = any(self.trace.owner[v] == agent for v in self.trace.owned("return"))
        # a spawn that names nobody spawned nobody
        is_spawned = agent is not None and agent in named["spawn"]
        return is_spawned and agent not in named["despawn"] and not returned

    def class_of(self, v: int) -> tuple[str | None, str | None]:
        """The class of an event, or why it has none."""
        call = self.call_of.get(v)
        if call is not None:
            owner, key = self.trace.owner[call], self.key(call)
            if self.failed(call):
                later = [u for u in self.calls if self.trace.rank[u] > self.trace.rank[call]]
                again = [u for u in later if self.trace.owner[u] == owner and self.key(u) == key]
                return ("retry" if key is not None and again else "error"), None
            if call in self.looped:
                return "loop", None
            if call in self.duplicates:
                return "duplicate", None
            v = call
        event = self.events[v]
        if event["type"] == "human_intervention" or event["agent"] in self.trace.outside:
            return "useful", None
        if self.unknown is not None:
            return None, self.unknown
        if v in self.live:
            return "useful", None
        return ("orphan" if self.lost_agent(self.trace.owner[v]) else "dead"), None

    @cached_property
    def stood(self) -> int | None:
        """The event from which on the answer stood."""
        drafts = self.trace.owned("orchestrator_decision", "aggregate")
        passed = [v for v in drafts if (self.events[v]["draft_score"] or 0) >= 1 - 1e-9]
        return passed[0] if passed else self.trace.outcome

    def after_answer(self, v: int) -> bool | None:
        return None if self.stood is None else self.trace.rank[v] > self.trace.rank[self.stood]

    def attributed(self, amounts: list[float | None]) -> list[float | None]:
        """Amounts of events, those of what made calls divided among these."""
        makers = {call: self.maker(call) for call in self.calls}
        out = list(amounts)
        for maker in {m for m in makers.values() if m is not None}:
            made, amount = [c for c in makers if makers[c] == maker], amounts[maker]
            if amount is None:
                continue
            assert out[maker] is not None
            out[maker] -= amount  # type: ignore[operator]
            for call in made:
                out[call] = (out[call] or 0) + amount / len(made)
        return out

    # --- structural failures --------------------------------------------------------------------------

    def failures(self) -> dict[str, Answer]:
        classes = {
            "unanswered_delegation": self.unanswered,
            "unused_result": self.unused,
            "retry_storm": self.storms,
            "unverified_change": self.unverified,
            "answer_before_evidence": self.early,
            "deadlock_wait": self.deadlocks,
        }
        if self.trace.partial:
            return dict.fromkeys(classes, (None, None, "trace.partial"))
        return {name: of() for name, of in classes.items()}

    def shown(self, events: list[int]) -> Answer:
        return self.trace.first(events), len(events), None

    def team(self, name: str | None) -> bool:
        return name is not None and name not in self.trace.outside

    def unanswered(self) -> Answer:
        trace = self.trace
        if trace.unknown is not None:
            return None, None, trace.unknown
        delegations = [
            v
            for v in trace.owned("spawn", "message")
            if self.team(self.events[v]["to"])
            and self.events[v]["to"] != trace.owner[v]
            and (self.events[v]["type"] == "spawn" or trace.owner[v] == trace.root)
        ]
        if not delegations:
            return None, None, "ratio.empty"

        def is_answered(v: int) -> bool:
            by, delegate = trace.owner[v], self.events[v]["to"]
            ends = [u for u in trace.owned() if trace.owner[u] == by]
            ends += [] if trace.outcome is None else [trace.outcome]
            bound = max(trace.rank[u] for u in ends)
            for u in trace.owned("return", "message"):
                heard = {self.events[u]["to"], *(trace.owner[w] for w in self.graph.successors(u))}
                reaches = by in heard or self.events[u]["to"] is None
                if trace.owner[u] == delegate and reaches and trace.rank[v] < trace.rank[u] < bound:
                    return True
            return False

        return self.shown([v for v in delegations if not is_answered(v)])

    def unused(self) -> Answer:
        if self.unknown is not None:
            return None, None, self.unknown
        gives = self.trace.owned("return", "tool_result")
        return self.shown([v for v in gives if self.events[v]["ok"] is not False and v not in self.live])

    def storms(self) -> Answer:
        if not self.calls:
            return None, None, "ratio.empty"
        known, starts = False, []
        for agent in self.trace.agents:
            mine = [c for c in self.calls if self.trace.owner[c] == agent]
            known = known or any(self.key(c) is not None for c in mine)
            starts += runs_of_four([(self.key(c), c) for c in mine])
        lanes: dict[Any, list[tuple[Any, int]]] = defaultdict(list)
        for v in self.trace.owned("tool_result"):
            tool = self.events[v]["tool"]
            if tool is None and v in self.call_of:
                tool = self.events[self.call_of[v]]["tool"]
            ok = self.events[v]["ok"]
            known = known or ok is not None
            lanes[self.trace.owner[v], tool].append(("failed" if ok is False else None, v))
        for lane in lanes.values():
            starts += runs_of_four(lane)
        return self.shown(starts) if known else (None, None, "field.absent")

    def unverified(self) -> Answer:
        if self.verifying is None:
            return None, None, "field.absent"
        if self.trace.unknown is not None:
            return None, None, self.trace.unknown
        y = self.trace.outcome
        before = [c for c in self.calls if y is None or self.trace.rank[c] < self.trace.rank[y]]
        open_changes: list[int] = []
        for call in before:
            tool = self.events[call]["tool"]
            if tool in self.verifying:
                open_changes = []
            elif tool not in self.reading:
                open_changes.append(call)
        return self.shown(open_changes)

    def early(self) -> Answer:
        trace, y = self.trace, self.trace.outcome
        if trace.unknown is not None:
            return None, None, trace.unknown
        if y is None:
            return None, None, "outcome.absent"
        owner, end, late = trace.owner[y], trace.rank[y], []
        for call in self.calls:
            results = [v for v, u in self.call_of.items() if u == call and v != call]
            result = trace.first(results)
            mine = trace.owner[call] == owner and trace.rank[call] < end
            if mine and result is not None and trace.rank[result] > end:
                late.append(result)
        spawned = [v for v in trace.owned("spawn") if trace.owner[v] == owner and trace.rank[v] < end]
        for agent in dict.fromkeys(self.events[v]["to"] for v in spawned):
            last = max(trace.rank[v] for v in spawned if self.events[v]["to"] == agent)
            returns = [v for v in trace.owned("return") if trace.owner[v] == agent != owner]
            after = [v for v in returns if trace.rank[v] > last]
            if after and trace.rank[after[0]] > end:
                late.append(after[0])
        return self.shown(late)

    def deadlocks(self) -> Answer:
        trace = self.trace
        if trace.unknown is not None:
            return None, None, trace.unknown
        last = {a: trace.last([v for v in trace.owned() if trace.owner[v] == a]) for a in trace.agents}
        waits: dict[str, str] = {}
        silent, speaks = [], False
        for agent, v in last.items():
            assert v is not None
            to = self.events[v]["to"]
            if self.events[v]["type"] not in ("message", "spawn") or not self.team(to) or to == agent:
                continue
            speaks = True
            until = last.get(to)
            if until is not None and self.events[until]["t"] > self.events[v]["t"]:
                continue
            waits[agent] = to
            if until is None or trace.rank[until] < trace.rank[v]:
                silent.append(v)
        if len(trace.agents) < 2 and not speaks:
            return None, None, "ratio.empty"
        if trace.outcome is None and silent:
            return self.shown(silent)
        cycles = nx.simple_cycles(nx.DiGraph(list(waits.items())))
        return self.shown([last[agent] for cycle in cycles for agent in cycle])  # type: ignore[misc]


def runs_of_four(lane: list[tuple[Any, int]]) -> list[int]:
    """The first events of longest runs of equal marks, four or more of them; None is no mark."""
    starts, at = [], 0
    while at < len(lane):
        end = at
        while end < len(lane) and lane[end][0] == lane[at][0]:
            end += 1
        if lane[at][0] is not None and end - at >= 4:
            starts.append(lane[at][1])
        at = end
    return starts
