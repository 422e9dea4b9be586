"""How good a run was, in plain Python: splits, errors, taint, conformance, diversity, steering, drag."""

import math
from collections import Counter, defaultdict
from itertools import combinations
from typing import Any

import networkx as nx

from reference.metrics import Measured, Metrics
from reference.safety import Flow

ACTIONS = {"orchestrator_decision", "spawn", "despawn", "message", "tool_call", "return", "aggregate"}
KINDS = [
    "orchestrator_decision",
    "spawn",
    "despawn",
    "message",
    "tool_call",
    "tool_result",
    "return",
    "aggregate",
    "human_intervention",
    "safety_event",
]


def mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


class Judged(Measured):
    """What `metrics` says of a trace beyond how it was organized."""

    def quality(self, key: set[str] | None = None) -> Metrics:
        return {**self.split(key), **self.aggregation()}

    def parents(self) -> dict[str, str]:
        """The spawn forest (D16): who made whom, loops left out."""
        trace = self.trace
        found: dict[str, str] = {}

        def top(name: str) -> str:
            return top(found[name]) if name in found else name

        for v in trace.order:
            event, spawner = self.events[v], trace.owner[v]
            child = event["to"]
            if event["type"] != "spawn" or spawner is None or child not in trace.agents:
                continue
            if child != trace.root and child not in found and top(spawner) != child:
                found[child] = spawner
        return found

    def split(self, key: set[str] | None) -> Metrics:
        trace, events = self.trace, self.events
        named = {e["subtask_id"] for e in events} - {None}
        on = defaultdict(set)
        for v, event in enumerate(events):
            owner = trace.owner[v]
            if event["subtask_id"] is not None and event["type"] not in ("spawn", "despawn"):
                on[event["subtask_id"]] |= {owner} - {None, trace.root}
        pairs = sum(len(agents) for agents in on.values())
        beyond = sum(max(len(agents) - 1, 0) for agents in on.values())
        disjoint = 1 - beyond / pairs if pairs else None
        worked = sum(bool(of) for of in on.values())
        coverage = precision = f1 = None
        if named and key is not None:
            found = len(named & key)
            coverage = found / len(key) if key else None
            precision, f1 = found / len(named), 2 * found / (len(named) + len(key))
        parents = self.parents()
        families = defaultdict(list)
        for agent in trace.agents:
            if agent != trace.root:
                families[parents.get(agent)].append(agent)
        fan_outs = [family for family in families.values() if len(family) > 1]
        work = {
            a: sum(d for d, o in zip(self.timed.d, trace.owner, strict=True) if o == a) for a in trace.agents
        }
        most = sum(len(family) * max(work[a] for a in family) for family in fan_outs)
        balance = sum(work[a] for family in fan_outs for a in family) / most if most else None
        inside = across = 0
        for u, v in self.graph.edges:
            pair = trace.owner[u], trace.owner[v]
            if any(pair[0] in family and pair[1] in family for family in fan_outs):
                inside += 1
                across += pair[0] != pair[1]
        independence = (1 - across / inside if inside else 1.0) if fan_outs else None
        parts = [part for part in (coverage, disjoint, balance, independence) if part is not None]
        return {
            "n_subtasks": len(named) or None,
            "split_coverage": coverage,
            "split_precision": precision,
            "split_f1": f1,
            "split_disjointness": disjoint,
            "split_balance": balance,
            "split_independence": independence,
            "subtask_redundancy": sum(len(of) > 1 for of in on.values()) / worked if worked else None,
            "split_score": math.prod(parts) ** (1 / len(parts)) if parts and named else None,
        }

    def inputs(self) -> dict[int, list[int]]:
        """Sources of the aggregate edges of each aggregate, else of its return and message edges."""
        found = {}
        for v, event in enumerate(self.events):
            if event["type"] != "aggregate":
                continue
            into = {u: kinds for (u, w), kinds in self.trace.edges.items() if w == v}
            own = [u for u, kinds in into.items() if "aggregate" in kinds]
            other = [u for u, kinds in into.items() if {"return", "message"} & set(kinds)]
            if own or other:
                found[v] = own or other
        return found

    def aggregation(self) -> Metrics:
        events, inputs = self.events, self.inputs()
        uplifts: list[list[float]] = [[], [], []]
        captures = []
        copied, keyed = 0, None
        for v, sources in inputs.items():
            text = self.text(v)
            size = self.tokens(v)
            if text is not None and size is not None:
                keyed = (keyed or 0) + size
                copied += size if text in [self.text(u) for u in sources] else 0
            q, scores = events[v]["score"], [events[u]["score"] for u in sources]
            if q is None or None in scores:
                continue
            best, middle = max(scores), sum(scores) / len(scores)
            most = float(sum(score >= 0.5 for score in scores) > len(scores) / 2)
            for uplift, other in zip(uplifts, (best, middle, most), strict=True):
                uplift.append(q - other)
            if best - middle > 1e-9:
                captures.append((q - middle) / (best - middle))
        aggregates = [v for v, event in enumerate(events) if event["type"] == "aggregate"]
        owners = {self.trace.owner[v] for v in aggregates} - {None}
        returns = [
            v
            for v, e in enumerate(events)
            if e["type"] == "return" and e["to"] in owners and e["to"] != self.trace.owner[v]
        ]
        arrived = [v for v in returns if nx.descendants(self.graph, v) & set(aggregates)]
        return {
            "aggregation_uplift_max": mean(uplifts[0]),
            "aggregation_uplift_mean": mean(uplifts[1]),
            "aggregation_uplift_majority": mean(uplifts[2]),
            "aggregation_capture": mean(captures),
            "aggregation_coverage": len(arrived) / len(returns) if returns and self.acyclic else None,
            "aggregation_leakage": copied / keyed if keyed else None,
        }

    def text(self, v: int) -> str | None:
        event = self.events[v]
        text = event["content_hash"] if event["content_hash"] is not None else event["content_ref"]
        return None if text is None else str(text)

    def errors(self) -> Metrics:
        names = ["error_amplification", "potential_amplification", "error_depth", "containment"]
        out: Metrics = dict.fromkeys(["n_corrupted", *names, "correction_sites"])
        if all(event["corrupted"] is None for event in self.events):
            return out
        bad = {v for v, event in enumerate(self.events) if event["corrupted"] is True}
        out["n_corrupted"] = len(bad)
        if not self.acyclic:
            return out
        seeds = {v for v in bad if not nx.ancestors(self.graph, v) & bad}
        behind = set().union(*(nx.descendants(self.graph, v) for v in seeds))
        hops = nx.multi_source_dijkstra_path_length(self.graph, seeds, weight=None) if seeds else {}
        sites = [v for v in set(self.graph) - bad if set(self.graph.predecessors(v)) & bad]
        actual = len(behind & bad) / len(seeds) if seeds else 0
        potential = len(behind) / len(seeds) if seeds else 0
        values = [actual, potential, max((hops[v] for v in bad), default=0)]
        values += [1 - actual / potential if potential else None, len(sites)]
        return out | dict(zip([*names, "correction_sites"], values, strict=True))

    def taint(self) -> Metrics:
        flow, lower = Flow(self.trace), Flow(self.trace, "safety_flow")
        trusted = [event["trusted"] for event in self.events]
        names = ["n_tainted", "taint_share", "outcome_tainted", "time_to_tainted_action", "taint_spread"]
        names += ["sandbox_violations", "sandbox_crossings", "outcome_tainted_lower"]
        out: Metrics = dict.fromkeys(["n_untrusted", "n_trust_unknown", *names])
        if not flow.told:
            return out
        out |= {"n_untrusted": trusted.count(False), "n_trust_unknown": trusted.count(None)}
        if not flow.acyclic:
            return out
        action = flow.first("orchestrator_decision", "spawn", "tool_call")
        n = len(flow.tainted)
        spread = flow.inside.number_of_edges() / n if n else None
        known = not self.trace.unknown
        values = [n, n / self.n, flow.reached if known else None, flow.after(action), spread]
        values += [flow.violations(), flow.crossings(), lower.reached if known else None]
        return out | dict(zip(names, values, strict=True))

    def cut(self) -> Metrics:
        flow = Flow(self.trace)
        unknown = self.trace.unknown or self.trace.outcome in flow.seeds
        if not flow.told or not flow.acyclic or unknown:
            return {"sanitizer_cut": None}
        return {"sanitizer_cut": flow.cut_size() if flow.reached else 0}

    def conformance(self, harness: dict[str, list[str]] | None = None) -> Metrics:
        hashes = {event["harness_hash"] for event in self.events} - {None}
        out = {"n_harnesses": len(hashes) or None, "n_nonconforming": None, "nonconformance": None}
        if harness is None:
            return out
        verdicts = []
        for v, event in enumerate(self.events):
            if self.trace.owner[v] is None or event["type"] not in ACTIONS:
                continue
            verdict = []
            for part, kind, name in (("tools", "tool_call", "tool"), ("roles", "spawn", "role")):
                if part in harness and event["type"] == kind and event[name] is not None:
                    verdict.append(event[name] in harness[part])
            if "types" in harness:
                verdict.append(event["type"] in harness["types"])
            verdicts += [all(verdict)] if verdict else []
        bad = verdicts.count(False)
        return out | {"n_nonconforming": bad, "nonconformance": bad / len(verdicts) if verdicts else None}

    def diversity(self) -> Metrics:
        acts = {agent: Counter[Any]() for agent in self.trace.agents}
        for v, event in enumerate(self.events):
            owner = self.trace.owner[v]
            if owner is not None:
                acts[owner][event["type"], event["tool"]] += 1

        def distance(a: Counter[Any], b: Counter[Any]) -> float:
            bits = 0.0
            for act in {*a, *b}:
                p, q = a[act] / a.total(), b[act] / b.total()
                for one in (p, q):
                    bits += one / 2 * math.log2(2 * one / (p + q)) if one else 0.0
            return math.sqrt(max(bits, 0.0))

        def strategy(of: Counter[Any]) -> Any:
            rank = ["", *dict.fromkeys(event["tool"] for event in self.events if event["tool"])].index
            return min(of, key=lambda act: (-of[act], KINDS.index(act[0]), rank(act[1] or "")))

        labels = Counter(strategy(of) for of in acts.values())
        shares = [count / labels.total() for count in labels.values()]
        effective = math.exp(-sum(p * math.log(p) for p in shares)) if shares else None
        pairs = [distance(a, b) for a, b in combinations(acts.values(), 2)]
        return {"behavior_distance": mean(pairs), "effective_strategies": effective}

    def termination(self) -> Metrics:
        """What came after the first draft that passes, as shares."""
        lags: Metrics = {"termination_lag_tokens": None, "termination_lag_time": None}
        drafts = self.trace.owned("orchestrator_decision", "aggregate")
        passed = [v for v in drafts if (self.events[v]["draft_score"] or 0.0) >= 1.0 - 1e-9]
        if not passed:
            return lags
        after = [v for v in range(self.n) if self.trace.rank[v] > self.trace.rank[passed[0]]]
        lags["termination_lag_tokens"] = self.share_of_tokens(after)
        times = [self.times[v] for v in self.trace.owned()]
        if self.basis in ("seconds", "partial") and max(times) > min(times):
            rest = max(times) - self.times[passed[0]]
            lags["termination_lag_time"] = rest / (max(times) - min(times))
        return lags

    def reach(self, at: float) -> Metrics:
        names = ["reach_mean", "reach_root", "invalidation"]
        if not self.acyclic:
            return dict.fromkeys(names)
        behind = {v: nx.descendants(self.graph, v) for v in range(self.n)}
        first = next((v for v in self.trace.order if self.trace.owner[v] == self.trace.root), None)
        t0, t1 = min(self.times), max(self.times)
        done = {v for v in range(self.n) if self.times[v] < t0 + at * (t1 - t0)}
        pairs, undone = self.n * (self.n - 1), len(done) * (len(done) - 1)
        values = [
            sum(map(len, behind.values())) / pairs if pairs else None,
            len(behind[first]) / (self.n - 1) if first is not None and pairs else None,
            sum(len(behind[v] & done) for v in done) / undone if undone else None,
        ]
        return dict(zip(names, values, strict=True))

    def drags(self) -> dict[int, float] | None:
        """Of each event of the critical path what the span loses if it takes no time."""
        if not self.acyclic:
            return None
        d = self.timed.d
        finish = self.longest(d)
        without = {}
        for v in self.path(finish):
            without[v] = max(finish) - max(self.longest([0.0 if u == v else one for u, one in enumerate(d)]))
        return without
