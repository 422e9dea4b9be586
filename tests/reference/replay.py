"""Structural replay in plain Python: gates, abduction, fix-points of what is lost (D15, D22)."""

import math
from typing import Any, NamedTuple

from reference.trace import EDGE_WEIGHTS, Trace

Spec = dict[str, Any]
BETWEEN = ("edge", "message")


class Ambiguous(Exception):
    """An input that rounding may put on either side of a half: either vote is right."""


class Answer(NamedTuple):
    unit: str | None
    outcome: float | None
    outcome_cf: float | None
    tokens: int | None
    tokens_cf: int | None
    reason: str | None


class Replay:
    """One trace under one model."""

    def __init__(
        self,
        trace: Trace,
        model: str = "noisy_or",
        weights: dict[str, float] | None = None,
        quorum: float = 0.5,
        program_order: bool = False,
    ) -> None:
        self.trace, self.model, self.given, self.quorum = trace, model, weights is not None, quorum
        of = weights or EDGE_WEIGHTS
        merged = {ends: sum(of[kind] for kind in kinds) for ends, kinds in trace.edges.items()}
        if program_order:
            for ends in trace.weights(program_order=True):
                merged.setdefault(ends, of["temporal"])
        self.edges = merged
        self.order = trace.topological(merged)
        self.into: list[list[int]] = [[] for _ in trace.events]
        for src, dst in merged:
            self.into[dst].append(src)
        sources = {src for src, _ in merged}
        self.sinks = [v for v in range(len(trace)) if v not in sources]
        self.refused = trace.unknown or ("trace.partial" if trace.partial else None)

    @property
    def support(self) -> float:
        """Share of the events that lead to the outcome whose score is recorded."""
        waiting = self.sinks if self.trace.outcome is None else [self.trace.outcome]
        leading: set[int] = set()
        while waiting:
            leading |= set(waiting)
            waiting = [u for v in waiting for u in self.into[v] if u not in leading]
        scored = [v for v in leading if self.trace.events[v]["score"] is not None]
        return len(scored) / len(leading)

    # --- gates --------------------------------------------------------------------------------------

    def rule(self, v: int | None, swap: str | None) -> str:
        kind = "message" if v is None else self.trace.events[v]["type"]
        if kind == "aggregate" and swap is not None:
            return {"best": "max"}.get(swap, swap)
        if self.model != "typed":
            return self.model
        if kind == "safety_event":
            return "never" if v is not None and self.trace.events[v]["ok"] is False else "min"
        if kind in ("tool_result", "return"):
            return "noisy_and" if self.given else "product"
        if kind == "aggregate":
            return "majority" if self.trace.document.get("topology") == "debate" else "max"
        return "noisy_or"

    def made(self, v: int | None, xs: list[float], swap: str | None = None) -> float:
        """What an event (None: the virtual sink) makes of its inputs."""
        rule = self.rule(v, swap)
        if rule == "never":
            return 0.0
        ws = [1.0] * len(xs) if v is None else [self.edges[u, v] for u in self.into[v]]
        given = self.given and v is not None
        if not xs or (not given and sum(ws) == 0):
            return 1.0
        total = sum(ws)
        single = len(xs) == 1 and not given
        if rule in ("noisy_or", "noisy_and"):
            if single:
                return xs[0]
            fails = [x if rule == "noisy_or" else 1 - x for x in xs]
            kept = [min(w, 1.0) if given else 1 - 0.25 ** (w / total) for w in ws]
            none = math.prod(1 - w * x for w, x in zip(kept, fails, strict=True))
            value = (1 - none) / (1 if given else 0.75)
            return value if rule == "noisy_or" else 1 - value
        if rule == "linear":
            value = sum(w * x for w, x in zip(ws, xs, strict=True))
            return min(1.0, value) if given else xs[0] if single else value / total
        if rule == "majority":
            if any(0 < abs(x - 0.5) < 1e-12 for x in xs):
                raise Ambiguous
            votes = sum(w for w, x in zip(ws, xs, strict=True) if x >= 0.5)
            return float(votes > total * self.quorum * (1 + 1e-12))
        if rule == "confidence":
            # what rounding pushes beyond a chance is none
            xs = [min(1.0, max(0.0, x)) for x in xs]
            shares = ws if given else [w / total for w in ws]
            yes = math.prod(x**w for w, x in zip(shares, xs, strict=True))
            no = math.prod((1 - x) ** w for w, x in zip(shares, xs, strict=True))
            return 0.5 if yes == no else yes / (yes + no)
        plain = {"product": math.prod, "max": max, "min": min, "mean": lambda xs: sum(xs) / len(xs)}
        return float(any(x > 0 for x in xs)) if rule == "reachability" else float(plain[rule](xs))

    def recorded(self) -> dict[int | None, float]:
        """Value of every event as recorded, and under None that of a virtual sink."""
        x: dict[int | None, float] = {}
        for v in self.order or []:
            score = self.trace.events[v]["score"]
            x[v] = self.made(v, [x[u] for u in self.into[v]]) if score is None else min(1.0, max(0.0, score))
        x[None] = self.made(None, [x[v] for v in self.sinks])
        return x

    # --- interventions ------------------------------------------------------------------------------

    def tools(self) -> list[str | None]:
        found: list[str | None] = []
        for v, event in enumerate(self.trace.events):
            tool = event["tool"] if event["type"].startswith("tool") else None
            call = self.trace.call[v]
            if tool is None and call is not None:
                tool = self.trace.events[call]["tool"]
            found.append(tool)
        return found

    def parents(self) -> dict[str, str]:
        """Spawner of every agent that was spawned; spawns that would close a loop are left out (D16)."""
        found: dict[str, str] = {}

        def above(agent: str) -> set[str]:
            seen = set()
            while agent in found:
                agent = found[agent]
                seen.add(agent)
            return seen

        for v in self.trace.order:
            event, spawner = self.trace.events[v], self.trace.owner[v]
            child = event["to"]
            fits = event["type"] == "spawn" and child in self.trace.agents and spawner is not None
            fits = fits and child not in found and child not in (self.trace.root, spawner)
            if fits and child not in above(str(spawner)):
                found[child] = str(spawner)
        return found

    def spawned_by(self, agent: str) -> set[int]:
        team, parents = {agent}, self.parents()
        while more := {child for child, parent in parents.items() if parent in team} - team:
            team |= more
        events = self.trace.events
        return {
            v
            for v in range(len(self.trace))
            if self.trace.owner[v] in team or (events[v]["type"] == "spawn" and events[v]["to"] in team)
        }

    def level(self, level: str) -> list[str]:
        """Names of all units."""
        if level == "edge":
            ids = [event["id"] for event in self.trace.events]
            return [f"{ids[u]}->{ids[v]}" for v in range(len(self.trace)) for u in self.into[v]]
        if level == "spawn":
            return [
                name
                for name in dict.fromkeys(e["agent"] for e in self.trace.events)
                if name in self.parents()
            ]
        if level == "tool":
            return list(dict.fromkeys(tool for tool in self.tools() if tool is not None))
        units = self.trace.units("tool" if level == "call" else level)
        return list(dict.fromkeys(unit for unit in units if unit is not None))

    def events_of(self, by: str, name: str) -> set[int]:
        events = self.trace.events
        if by == "spawn":
            return self.spawned_by(name) if name in self.trace.agents else set()
        if by == "tool":
            return {v for v, tool in enumerate(self.tools()) if tool == name}
        if by == "type":
            return {v for v, event in enumerate(events) if event["type"] == name}
        units = self.trace.units("tool" if by == "call" else by)
        return {v for v, unit in enumerate(units) if unit == name}

    def edges_of(self, by: str, name: Any) -> set[tuple[int, int]]:
        ids = [event["id"] for event in self.trace.events]
        if by == "edge":
            pair = tuple(name.split("->")) if isinstance(name, str) else name
            return {(u, v) for u, v in self.edges if (ids[u], ids[v]) == pair}
        owner = self.trace.owner
        messages = self.trace.units("message")
        return {(u, v) for u, v in self.edges if messages[u] == name and owner[u] != owner[v]}

    def after(self, spec: Spec) -> set[int] | None:
        """Events after a cut; None if the event that is named is not there."""
        events, trace = self.trace.events, self.trace
        if spec["event"] is not None:
            last = [v for v, event in enumerate(events) if event["id"] == spec["event"]]
            return {v for v in range(len(trace)) if trace.rank[v] > trace.rank[last[0]]} if last else None
        start = min(event["t"] for event in events)
        return {v for v, event in enumerate(events) if event["t"] - start > spec["at"]}

    # --- answers ------------------------------------------------------------------------------------

    def answers(self, specs: list[Spec]) -> list[Answer]:
        """One for a scenario, or one for each unit that it tries."""
        if self.order is None:
            return [Answer(None, None, None, None, None, "graph.cycle")]
        each = [spec["each"] for spec in specs if spec.get("each")]
        if not each:
            return [self.answer(specs, None)]
        found = []
        for unit in self.level(each[0]):
            named = [{**spec, "each": None, each[0]: unit} if spec.get("each") else spec for spec in specs]
            found.append(self.answer(named, unit))
        return found or [Answer(None, None, None, None, None, "selection.empty")]

    def answer(self, specs: list[Spec], unit: str | None) -> Answer:
        x = self.recorded()
        y = self.trace.outcome
        absent: set[int] = set()
        seeds: dict[str, set[int]] = {"all": set(), "any": set()}
        cuts: set[tuple[int, int]] = set()
        dead: dict[str, set[tuple[int, int]]] = {"all": set(), "any": set()}
        values: dict[int, float] = {}
        swap = None
        for spec in specs:
            if spec["kind"] == "aggregate_by":
                swap = spec["rule"]
                found: Any = self.events_of("type", "aggregate")
            elif spec["kind"] == "truncate":
                found = self.after(spec)
                absent |= (found or set()) - {y}
                found = found is not None
            else:
                selectors = ("event", "agent", "role", "tool", "call", "spawn", "edge", "message", "type")
                ((by, name),) = [(by, spec[by]) for by in selectors if spec.get(by) is not None]
                found = self.edges_of(by, name) if by in BETWEEN else self.events_of(by, name)
                if spec["kind"] == "set_value":
                    values.update(dict.fromkeys(found, spec["to"]))
                elif by in BETWEEN:
                    cuts |= found
                    if spec["mode"] == "subtree":
                        dead[spec["lost"]] |= found
                elif spec["mode"] == "subtree":
                    seeds[spec["lost"]] |= found
                else:
                    absent |= found
            if not found:
                return Answer(unit, None, None, None, None, "selection.empty")
        absent |= self.lost(seeds, dead)
        tokens = [self.tokens(v) for v in range(len(self.trace))]
        total = None if all(n is None for n in tokens) else sum(n or 0 for n in tokens)
        left = None if total is None else sum(n or 0 for v, n in enumerate(tokens) if v not in absent)
        if self.refused:
            return Answer(unit, None, None, total, left, self.refused)
        there = self.predicted(x, absent, cuts, values, swap)
        return Answer(unit, x[y], there[y], total, left, None)

    def lost(self, seeds: dict[str, set[int]], dead: dict[str, set[tuple[int, int]]]) -> set[int]:
        """Everything that is lost, found by trying until nothing more is."""
        every, some = set(seeds["all"]), set(seeds["any"])
        while True:
            more_every, more_some = set(every), set(some)
            for v in range(len(self.trace)):
                gone = [
                    (
                        u in some or (u, v) in dead["any"],
                        u in every or u in some or (u, v) in dead["all"] | dead["any"],
                    )
                    for u in self.into[v]
                ]
                if gone and all(both for _, both in gone):
                    more_every.add(v)
                if any(alone for alone, _ in gone):
                    more_some.add(v)
            if (more_every, more_some) == (every, some):
                return every | some
            every, some = more_every, more_some

    def predicted(
        self,
        x: dict[int | None, float],
        absent: set[int],
        cuts: set[tuple[int, int]],
        values: dict[int, float],
        swap: str | None,
    ) -> dict[int | None, float]:
        there: dict[int | None, float] = {}
        touched: set[int] = set()
        for v in self.order or []:
            here = v in absent or v in values or any((u, v) in cuts for u in self.into[v])
            swapped = swap is not None and self.trace.events[v]["type"] == "aggregate" and bool(self.into[v])
            swapped = swapped and (self.given or sum(self.edges[u, v] for u in self.into[v]) > 0)
            if not (here or swapped or touched & set(self.into[v])):
                there[v] = x[v]
                continue
            touched.add(v)
            inputs = [0.0 if (u, v) in cuts else there[u] for u in self.into[v]]
            before = self.made(v, [x[u] for u in self.into[v]])
            beyond = 0.0 if swapped else x[v] - before
            there[v] = min(1.0, max(0.0, self.made(v, inputs, swap) + beyond))
            there[v] = 0.0 if v in absent else values.get(v, there[v])
        there[None] = self.made(None, [there[v] for v in self.sinks])
        return there

    def tokens(self, v: int) -> int | None:
        event = self.trace.events[v]
        if event["type"] == "human_intervention" or event["agent"] in self.trace.outside:
            return None
        return None if event["tokens"] is None else int(event["tokens"])
