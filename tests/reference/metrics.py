"""Metrics of a recording in plain Python, from the definitions D3 to D22 alone; a missing one is None."""

import itertools
import math
from collections import Counter, defaultdict
from typing import Any

import networkx as nx

from reference.schedule import MaxGap, Timed, longest_gap
from reference.tables import PARTS
from reference.trace import Trace

Metrics = dict[str, Any]

PROTOCOL = ("orchestrator_decision", "spawn", "despawn", "message", "aggregate")
NO_STEP = ("message", "spawn", "despawn")


class Measured:
    """Everything that `metrics` says of a trace."""

    def __init__(self, trace: Trace, basis: str, max_gap: MaxGap = "auto") -> None:
        self.trace = trace
        self.events = trace.events
        self.n = len(trace)
        self.basis = basis
        self.max_gap = longest_gap(max_gap, basis)
        self.timed = Timed(trace, basis, "auto", "none", max_gap=max_gap)
        self.clock = self.timed.clock(basis)
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(range(self.n))
        self.graph.add_edges_from(trace.edges)
        self.acyclic = nx.is_directed_acyclic_graph(self.graph)
        self.times = [float(event["t"]) for event in self.events]

    # --- small parts ----------------------------------------------------------------------------------

    def outsider(self, v: int) -> str | None:
        event = self.events[v]
        return "user" if event["type"] == "human_intervention" else self.trace.outside.get(event["agent"])

    def spent(self, name: str, by: str | None = None) -> Any:
        """What the team, or who is not of it, has spent in a column of numbers; None if nothing tells."""
        return self.sum_of([event[name] for v, event in enumerate(self.events) if self.outsider(v) == by])

    def tokens(self, v: int) -> int | None:
        told = self.events[v]["tokens"]
        return None if told is None or self.outsider(v) else int(told)

    def sum_of(self, values: list[Any]) -> Any:
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    def share_of_tokens(self, events: list[int]) -> float | None:
        whole = self.sum_of([self.tokens(v) for v in range(self.n)])
        return (sum(self.tokens(v) or 0 for v in events) / whole) if whole else None

    def messages(self) -> list[int]:
        units = self.trace.units("message")
        return [v for v in range(self.n) if units[v] is not None and self.events[v]["type"] == "message"]

    def spawned(self) -> set[str]:
        return {e["to"] for e in self.events if e["type"] == "spawn" and e["to"] is not None}

    def live(self) -> list[bool] | None:
        y = self.trace.outcome
        if y is None or not self.acyclic:
            return None
        alive = nx.ancestors(self.graph, y) | {y}
        return [v in alive for v in range(self.n)]

    # --- groups ---------------------------------------------------------------------------------------

    def all(self) -> Metrics:
        return {
            **self.scale(),
            **self.span(),
            **self.time(),
            **self.usage(),
            **self.stages(),
            **self.protocol(),
            **self.utilization(),
            **self.delegation(),
            **self.dominating(),
        }

    def scale(self) -> Metrics:
        trace, kinds = self.trace, Counter(event["type"] for event in self.events)
        oks = [e["ok"] for e in self.events if e["type"] == "tool_result" and e["ok"] is not None]
        parents: dict[str, str] = {}
        for v in trace.order:
            event = self.events[v]
            child, spawner = event["to"], trace.owner[v]
            if event["type"] != "spawn" or child not in trace.agents or spawner is None:
                continue
            above: str | None = spawner
            chain = set()
            while above is not None and above not in chain:
                chain.add(above)
                above = parents.get(above)
            if child not in parents and child != trace.root and child not in chain:
                parents[child] = spawner
        depths = []
        for agent in trace.agents:
            hops, above = 0, parents.get(agent)
            while above is not None:
                hops, above = hops + 1, parents.get(above)
            depths.append(hops)
        layers: dict[int, int] = {}
        if self.acyclic:
            for v in nx.topological_sort(self.graph):
                layers[v] = max((layers[u] + 1 for u in self.graph.predecessors(v)), default=0)
        return {
            "n_events": self.n,
            "n_edges": self.graph.number_of_edges(),
            "n_agents": len(trace.agents),
            "n_spawned": len(self.spawned()),
            "n_turns": len(trace.turns),
            "n_decisions": kinds["orchestrator_decision"],
            "n_messages": len(self.messages()),
            "n_tool_calls": kinds["tool_call"],
            "n_tool_errors": oks.count(False) if oks else None,
            "agent_depth": max(depths, default=0),
            "graph_depth": max(layers.values()) if layers else None,
            "graph_width": max(Counter(layers.values()).values()) if layers else None,
            "tokens": self.sum_of([self.tokens(v) for v in range(self.n)]),
            "cost_usd": self.spent("cost_usd"),
            "elapsed": self.clock[1] - self.clock[0],
        }

    def usage(self) -> Metrics:
        return {
            **{name: self.spent(name) for name in (*PARTS, "tokens_reasoning")},
            "scorer_tokens": self.spent("tokens", "scorer"),
            "scorer_cost_usd": self.spent("cost_usd", "scorer"),
            "cache_share": self.cache_share(),
        }

    def cache_share(self) -> float | None:
        fresh, cached, written = (self.spent(f"tokens_{what}") for what in ("fresh", "cached", "cache_write"))
        read = (fresh or 0) + (cached or 0) + (written or 0)
        return None if cached is None or fresh is None or not read else cached / read

    def longest(self, durations: list[float]) -> list[float]:
        finish = [0.0] * self.n
        for v in nx.topological_sort(self.graph):
            finish[v] = max((finish[u] for u in self.graph.predecessors(v)), default=0.0) + durations[v]
        return finish

    def path(self, finish: list[float]) -> list[int]:
        """Back from the last finish through the last predecessor; ties: the earlier in canonical order."""
        rank = self.trace.rank

        def latest(among: list[int]) -> int:
            return min(among, key=lambda v: (-finish[v], rank[v]))

        path = [latest(list(range(self.n)))]
        while before := list(self.graph.predecessors(path[-1])):
            path.append(latest(before))
        return path

    def span(self) -> Metrics:
        names = ["work", "span", "parallelism", "slack_mean", "n_critical", "critical_owners"]
        names += ["critical_token_share", "critical_root_share", "average_concurrency"]
        out: Metrics = dict.fromkeys(names)
        peak, support = self.peak(), self.timed.support
        if self.acyclic:
            d = self.timed.d
            work, finish = sum(d), self.longest(d)
            span = max(finish)
            late = [span] * self.n
            for v in reversed(list(nx.topological_sort(self.graph))):
                late[v] = min((late[w] - d[w] for w in self.graph.successors(v)), default=span)
            path = self.path(finish)
            slack = [0.0 if v in path else max(0.0, late[v] - finish[v]) for v in range(self.n)]
            owners = [self.trace.owner[v] for v in path]
            elapsed = self.timed.recorded_makespan
            of_root = sum(d[v] for v, o in zip(path, owners, strict=True) if o == self.trace.root and o)
            out |= {
                "work": work,
                "span": span,
                "parallelism": work / span if span else None,
                "slack_mean": sum(slack) / self.n,
                "n_critical": len(path),
                "critical_owners": len(set(owners) - {None}),
                "critical_token_share": self.share_of_tokens(path),
                "critical_root_share": of_root / span if span else None,
                "average_concurrency": work / elapsed if elapsed else None,
            }
        return out | {"peak_concurrency": peak, "recorded_share": support}

    def time(self) -> Metrics:
        """Where the time went; too long is idle, what nothing covers is unaccounted."""
        timed, trace = self.timed, self.trace
        busy: list[tuple[float, float]] = []
        idle = [(end - gap, end) for end, gap in zip(timed.end, timed.idle, strict=True)]

        def counted(spans: list[tuple[float, float]]) -> float | None:
            """Sum of lengths that ended so: (length, end)."""
            for length, end in spans:
                (idle if length > self.max_gap else busy).append((end - length, end))
            return sum(length for length, _ in spans if length <= self.max_gap) if spans else None

        team = [v for v in range(self.n) if timed.aside[v] is None]
        busy += [(timed.end[v] - timed.d[v], timed.end[v]) for v in team]
        of_tool = [
            v
            for v in team
            if self.events[v]["type"] == "tool_result"
            or trace.outside.get(self.events[v]["agent"]) == "environment"
        ]
        start, finish = self.clock
        waits: list[tuple[float, float]] = []
        permission: list[tuple[float, float]] = []
        human: list[tuple[float, float]] = []
        last: dict[str | None, int] = {}
        calls: Counter[str | None] = Counter()
        for v in trace.order if timed.recorded_makespan is not None else []:
            event, now = self.events[v], self.times[v]
            answers = event["type"] == "tool_result"
            calls[trace.owner[v]] += (event["type"] in ("tool_call", "spawn")) - answers
            if (timed.aside[v] != "user" or answers) and trace.owner[v] is not None:
                last[trace.owner[v]] = v
            hears = self.hears(v)
            if hears is not None:
                calls[hears] -= calls[hears] > 0
                if hears not in last or not self.done(last[hears]):
                    last[hears] = v
            if timed.aside[v] != "user":
                continue
            inputs = sorted(u for u, w in trace.edges if w == v)
            decides = event["type"] == "human_intervention" and any(
                self.events[u]["type"] == "tool_call" for u in inputs
            )
            if decides or answers:
                if inputs:
                    permission.append((max(0.0, now - max(timed.end[u] for u in inputs)), now))
                continue
            who = trace.root if event["to"] is None else event["to"]
            before = last.get(who)
            waited = 0.0
            since: float | None = None
            if before is None:
                since = start if who == trace.root else None
            elif self.done(before) or (self.events[before]["type"] == "tool_result" and calls[who] <= 0):
                waited = max(0.0, now - timed.end[before])
            elif calls[who] <= 0 and (
                (timed.aside[before] == "user" and self.events[before]["type"] != "tool_result")
                or self.hears(before) is not None
            ):
                since = timed.end[before]
            if since is not None and now > since and who in trace.agents:
                (idle if now - since > self.max_gap else waits).append((since, now))
            human.append((waited, now))
            last[who] = v
        scored = [
            self.events[v]["duration_s"]
            if self.events[v]["duration_s"] is not None
            else max(0.0, self.events[v]["t_end"] - self.times[v])
            for v in range(self.n)
            if timed.aside[v] == "scorer"
            and (self.events[v]["duration_s"] is not None or self.events[v]["t_end"] is not None)
        ]
        scorers = [
            v
            for v in range(self.n)
            if timed.aside[v] == "scorer"
            and (self.events[v]["duration_s"] is not None or self.events[v]["t_end"] is not None)
        ]
        busy += [(timed.end[v] - length, timed.end[v]) for v, length in zip(scorers, scored, strict=True)]
        out: Metrics = {
            "model_time": sum(timed.d[v] for v in team if v not in of_tool),
            "tool_time": sum(timed.d[v] for v in of_tool)
            if not any(timed.unknown) or any(not timed.unknown[v] for v in of_tool)
            else None,
            "queue_time": counted(
                [(one, timed.end[v] - timed.d[v]) for v, one in enumerate(timed.queued) if one is not None]
            ),
            "permission_wait": counted(permission),
            "human_wait": counted(human),
            # seconds have no place among steps
            "scorer_time": sum(scored) if scored and timed.unit == "seconds" else None,
            "idle_time": 0.0,
            "unaccounted": None,
        }
        if timed.recorded_makespan is not None:
            free, left, bare = (
                uncovered(some, start, finish, self.max_gap)
                for some in (busy, busy + waits, busy + waits + idle)
            )
            if human:
                out["human_wait"] = (out["human_wait"] or 0.0) + sum(free) - sum(left)
            out |= {"idle_time": sum(left) - bare[0], "unaccounted": bare[0]}
        return out

    def done(self, v: int) -> bool:
        """Whether who did this has nothing to do after it: it spoke, and to no other agent."""
        said = self.events[v]
        spoke = said["type"] in ("message", "return", "aggregate") and self.timed.aside[v] is None
        return spoke and (said["to"] is None or said["to"] in self.trace.outside)

    def hears(self, v: int) -> str | None:
        """Whom a return reaches by itself, with no result of its own that brings it."""
        event, trace = self.events[v], self.trace
        if event["type"] != "return" or event["to"] not in trace.agents or event["to"] == trace.owner[v]:
            return None
        brought = any(
            u == v and self.events[w]["type"] == "tool_result" and trace.owner[w] == event["to"]
            for u, w in self.graph.edges
        )
        return None if brought else str(event["to"])

    def lifetimes(self) -> dict[str, tuple[float, float]]:
        lives: dict[str, tuple[float, float]] = {}
        first, last = min(self.times), max(self.times)
        for name in {*self.trace.agents, *(self.spawned() - set(self.trace.outside))}:
            spawns = [
                v
                for v in self.trace.order
                if self.events[v]["type"] == "spawn" and self.events[v]["to"] == name
            ]
            ends = [
                self.times[v]
                for v, event in enumerate(self.events)
                if (event["type"] == "return" and self.trace.owner[v] == name)
                or (event["type"] == "despawn" and event["to"] == name)
            ]
            own = [self.times[v] for v in range(self.n) if self.trace.owner[v] == name]
            if name == self.trace.root:
                lives[name] = first, last
            elif spawns:
                start = self.times[spawns[0]]
                lives[name] = start, max(start, max(ends, default=last))
            else:
                lives[name] = min(own), max(own)
        return lives

    def peak(self) -> int:
        lives = self.lifetimes().values()
        return max((sum(a <= t <= b for a, b in lives) for t, _ in lives), default=0)

    def stage_steps(self) -> tuple[list[int], dict[int, dict[str, list[int]]]]:
        """Steps of the root by stage, and by stage and other agent the events that are its steps."""
        trace = self.trace
        main: list[int] = []
        others: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        home: dict[str, int] = {}
        for v in trace.order:
            event, owner = self.events[v], trace.owner[v]
            opens = event["type"] in ("orchestrator_decision", "aggregate") and owner == trace.root and owner
            if not main or opens:
                main.append(0)
            now = len(main) - 1
            if event["type"] == "spawn" and event["to"] is not None and event["to"] != trace.root:
                at = now if owner == trace.root or owner is None else home.get(owner, now)
                home[event["to"]] = at
            if owner is None or event["type"] in NO_STEP:
                continue
            if owner == trace.root:
                main[now] += 1
            else:
                others[home.get(owner, now)][owner].append(v)
        return main, others

    def stages(self) -> Metrics:
        main, others = self.stage_steps()
        counts = [[len(steps) for steps in of.values()] for of in others.values()]
        critical = sum(main) + sum(max(of) for of in counts)
        total = sum(main) + sum(map(sum, counts))
        spawned = self.spawned()
        finished = {
            self.trace.owner[v]
            for v, e in enumerate(self.events)
            if e["type"] == "return" and e["ok"] is not False and self.trace.owner[v] in spawned
        }
        gap, cost = None, None
        if self.acyclic and any(len(of) > 1 for of in counts):
            scaled = list(self.timed.d)
            for of in others.values():
                times = sorted(sum(self.timed.d[v] for v in steps) for steps in of.values())
                if len(times) < 2:
                    continue
                middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
                if middle > 0:
                    gap = max(gap or 0.0, times[-1] / middle)
                by_name = sorted(of.items(), key=lambda item: self.first_in_document(item[0]))
                slowest = next(s for _, s in by_name if sum(self.timed.d[v] for v in s) == times[-1])
                for v in slowest if times[-1] > 0 else []:
                    scaled[v] *= times[-2] / times[-1]
            cost = max(0.0, max(self.longest(self.timed.d)) - max(self.longest(scaled)))
        return {
            "n_stages": len(main),
            "critical_steps": critical,
            "total_steps": total,
            "step_speedup": 1 - critical / total if total else None,
            "finish_rate": len(finished) / len(spawned) if spawned else None,
            "max_fan_out": max(map(len, counts), default=0),
            "straggler_gap": gap,
            "straggler_cost": cost,
        }

    def first_in_document(self, agent: str) -> int:
        return next(v for v, event in enumerate(self.events) if event["agent"] == agent)

    def repeated(
        self, keys: list[tuple[Any, str | None]], keyless: bool
    ) -> tuple[float | None, float | None]:
        """Redundancy of keys, and the share of distinct ones that several agents have."""
        if not keys:
            return None, None
        owners = defaultdict(set)
        for key, owner in keys:
            owners[key].add(owner)
        shared = sum(len(of - {None}) > 1 for of in owners.values())
        return 1 - len(owners) / len(keys), shared / len(owners)

    def protocol(self) -> Metrics:
        trace = self.trace
        contents = [
            (e["content_hash"] if e["content_hash"] is not None else e["content_ref"], trace.owner[v])
            for v, e in enumerate(self.events)
            if v in set(self.messages())
        ]
        calls = [
            (e["tool"], e["args_hash"] if e["args_hash"] is not None else e["content_ref"], trace.owner[v])
            for v, e in enumerate(self.events)
            if e["type"] == "tool_call"
        ]
        of_messages = self.repeated([(key, owner) for key, owner in contents if key is not None], False)
        of_calls = self.repeated(
            [((tool, args), owner) for tool, args, owner in calls if tool is not None and args is not None],
            False,
        )
        links = set()
        for v, event in enumerate(self.events):
            if event["type"] in ("message", "return", "spawn") and event["to"] in trace.agents:
                links.add(frozenset({trace.owner[v], event["to"]}))
        for (u, v), kinds in trace.edges.items():
            if {"message", "return", "spawn"} & set(kinds):
                links.add(frozenset({trace.owner[u], trace.owner[v]}))
        links = {link for link in links if len(link) == 2 and None not in link}
        n = len(trace.agents)
        spent = [v for v, event in enumerate(self.events) if event["type"] in PROTOCOL]
        return {
            "protocol_overhead": self.share_of_tokens(spent),
            "message_density": len(self.messages()) / len(trace.turns) if trace.turns else None,
            "message_redundancy": of_messages[0],
            "shared_messages": of_messages[1],
            "call_redundancy": of_calls[0],
            "shared_calls": of_calls[1],
            "n_links": len(links),
            "coordination_complexity": len(links) / (n * (n - 1) / 2) * math.log(n) if n > 1 else None,
            "call_streak": self.call_streak(),
        }

    def call_streak(self) -> int | None:
        """The most calls of an agent in a row that are alike; None where no call has a key."""

        def key(event: Any) -> Any:
            arguments = event["args_hash"] if event["args_hash"] is not None else event["content_ref"]
            return None if None in (event["tool"], arguments) else (event["tool"], arguments)

        calls = [event for event in self.events if event["type"] == "tool_call"]
        if calls and all(key(event) is None for event in calls):
            return None
        of_agent = [
            [key(self.events[v]) for v in self.trace.owned("tool_call") if self.trace.owner[v] == agent]
            for agent in self.trace.agents
        ]
        runs = (list(run) for keys in of_agent for call, run in itertools.groupby(keys) if call is not None)
        return max(map(len, runs), default=0)

    def utilization(self) -> Metrics:
        names = [
            "utilization",
            "utilization_mean",
            "useless_agents",
            "dead_events",
            "dead_work",
            "dead_tokens",
        ]
        live = self.live()
        if live is None:
            return dict.fromkeys(names)
        trace = self.trace
        by_agent = {
            agent: [live[v] for v in range(self.n) if trace.owner[v] == agent]
            for agent in trace.agents
            if agent != trace.root
        }
        pooled = [one for of in by_agent.values() for one in of]
        dead = [v for v in range(self.n) if not live[v]]
        work = sum(self.timed.d)
        shares = [sum(of) / len(of) for of in by_agent.values()]
        values = [
            sum(pooled) / len(pooled) if pooled else None,
            sum(shares) / len(shares) if shares else None,
            sum(not any(of) for of in by_agent.values()),
            len(dead) / self.n,
            sum(self.timed.d[v] for v in dead) / work if work else None,
            self.share_of_tokens(dead),
        ]
        return dict(zip(names, values, strict=True))

    def dominators(self) -> list[int] | None:
        """Events on every path from the root, virtual if there are several sources, to the outcome."""
        y = self.trace.outcome
        if y is None or not self.acyclic:
            return None
        rooted = self.graph.copy()
        rooted.add_edges_from([("root", v) for v in self.graph if self.graph.in_degree(v) == 0])
        above = nx.immediate_dominators(rooted, "root")
        found = [y]
        while (v := above[found[-1]]) not in ("root", None):
            found.append(v)
        return found[::-1]

    def dominating(self) -> Metrics:
        found, live = self.dominators(), self.live()
        if found is None or live is None:
            return dict.fromkeys(["n_dominators", "dominator_share", "n_dominator_agents"])
        return {
            "n_dominators": len(found),
            "dominator_share": len(found) / sum(live),
            "n_dominator_agents": len({self.trace.owner[v] for v in found} - {None}),
        }

    def delegation(self) -> Metrics:
        trace = self.trace
        to = Counter(
            e["to"]
            for v, e in enumerate(self.events)
            if e["to"] not in (None, *trace.outside, trace.owner[v])
            and (
                e["type"] == "spawn"
                or (e["type"] == "message" and trace.owner[v] == trace.root and trace.root)
            )
        )
        p = [count / to.total() for count in to.values()]
        entropy = -sum(q * math.log(q) for q in p) if p else None
        owned = Counter(owner for owner in trace.owner if owner is not None)
        return {
            "n_delegations": to.total(),
            "delegation_entropy": entropy,
            "delegation_evenness": entropy / math.log(len(p)) if entropy is not None and len(p) > 1 else None,
            "effective_agents": math.exp(entropy) if entropy is not None else None,
            "delegation_dominance": sum(q * q for q in p) if p else None,
            "work_dominance": sum((c / owned.total()) ** 2 for c in owned.values()) if owned else None,
        }


def uncovered(
    spans: list[tuple[float, float]], start: float, finish: float, most: float
) -> tuple[float, float]:
    """How much of the time no span covers: in stretches of at most so much, and in longer ones."""
    moments = sorted({start, finish, *(min(max(t, start), finish) for span in spans for t in span)})
    holes: list[tuple[float, float]] = []
    for a, b in itertools.pairwise(moments):
        if any(low <= a and b <= high for low, high in spans):
            continue
        if holes and holes[-1][1] == a:
            holes[-1] = (holes[-1][0], b)
        else:
            holes.append((a, b))
    lengths = [b - a for a, b in holes]
    return sum(n for n in lengths if n <= most), sum(n for n in lengths if n > most)
