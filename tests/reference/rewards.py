"""Rules of payment in plain Python, from their formulas; what is not known is None.

A rule gives a list of (unit id, value), in any order. Metrics that rules read are those of the other
references. What rules ask of all recordings is in `shares` and `token_weights`.
"""

import math
from collections import Counter
from fractions import Fraction
from typing import Any

from reference.judged import Judged
from reference.metrics import Measured
from reference.trace import Trace

Paid = list[tuple[str, float | None]]


def shares(documents: list[dict[str, Any]]) -> dict[float, Fraction]:
    """Of the recordings of each step of training the share in which two agents or more act."""
    many: dict[float, list[bool]] = {}
    for document in documents:
        step = document.get("metrics", {}).get("train_step")
        if step is not None:
            many.setdefault(float(step), []).append(len(Trace(document).agents) >= 2)
    return {step: Fraction(sum(of), len(of)) for step, of in many.items()}


def token_weights(documents: list[dict[str, Any]]) -> dict[tuple[int, str], Fraction | None]:
    """Of each recording and agent what one of its tokens weighs."""
    traces = [Trace(document) for document in documents]
    sizes = Counter(trace.group for trace in traces)
    found: dict[tuple[int, str], Fraction | None] = {}
    for number, trace in enumerate(traces):
        tokens = dict.fromkeys(trace.agents, 0)
        for v, event in enumerate(trace.events):
            owner = trace.owner[v]
            if owner is not None:
                tokens[owner] += event["tokens_out"] or 0
        writers = sum(n > 0 for n in tokens.values())
        for agent, n in tokens.items():
            whole = sizes[trace.group] * writers * n
            found[number, agent] = Fraction(1, whole) if n else None
    return found


class Payer:
    """Every rule on one trace."""

    def __init__(
        self, document: dict[str, Any], basis: str, shares: dict[float, Fraction] | None = None
    ) -> None:
        self.document = document
        self.shares = shares or {}
        self.trace = Trace(document)
        self.events = self.trace.events
        self.basis = basis
        judged = Judged(self.trace, basis)
        self.metrics = {
            **Measured(self.trace, basis).all(),
            **judged.quality(None),
            **judged.taint(),
            **judged.conformance(None),
        }

    def channel(self, name: str) -> float | None:
        return self.document["rewards"].get(name)

    def step(self) -> float | None:
        return self.document.get("metrics", {}).get("train_step")

    # --- parts ----------------------------------------------------------------------------------------

    def units(self, level: str) -> dict[str, list[int]]:
        """Events of each unit, in document order."""
        found: dict[str, list[int]] = {}
        for v, unit in enumerate(self.trace.units(level)):
            if unit is not None:
                found.setdefault(unit, []).append(v)
        return found

    def recorded(self, level: str) -> Paid:
        if all(event["reward"] is None for event in self.events):
            return [(unit, None) for unit in self.units(level)]
        sums = {
            unit: math.fsum(self.events[v]["reward"] or 0.0 for v in events)
            for unit, events in self.units(level).items()
        }
        return list(sums.items())

    def team(self, *parts: float | None) -> Paid:
        return [("team", None if None in parts else math.fsum(part for part in parts if part is not None))]

    def metric(self, name: str, scale: float = 1.0, offset: float = 0.0) -> Paid:
        value = self.metrics[name]
        return self.team(None if value is None else offset + scale * float(value))

    def finished(self) -> float:
        return self.metrics["finish_rate"] or 0.0

    # --- rules ----------------------------------------------------------------------------------------

    def outcome(self, weight: float = 1.0) -> Paid:
        earned = self.channel("team")
        return self.team(None if earned is None else weight * earned)

    def success(self, threshold: float = 1.0) -> Paid:
        told = self.document.get("metrics", {}).get("task_success")
        earned = self.channel("team")
        if told is not None:
            return self.team(float(told > 0))
        return self.team(None if earned is None else float(earned >= threshold))

    def agent(self) -> Paid:
        return self.recorded("agent")

    def role(self) -> Paid:
        return self.recorded("role")

    def process(self) -> Paid:
        return self.recorded("turn")

    def shaping(self, gamma: float = 0.99, potential: str = "value") -> Paid:
        turns = self.trace.turns
        named = self.trace.units("turn")
        phi = []
        for turn in turns:
            inside = [v for v in self.trace.order if v in turn.events]
            phi.append(
                next(
                    (self.events[v][potential] for v in inside if self.events[v][potential] is not None), None
                )
            )
        ids = [str(named[turn.events[0]]) for turn in turns]
        if None in phi:
            return [(unit, None) for unit in ids]
        after = [*phi[1:], 0.0][: len(phi)]
        return [(unit, gamma * b - a) for unit, a, b in zip(ids, phi, after, strict=True)]

    def tool_success(self) -> Paid:
        def of(events: list[int]) -> float | None:
            told = [self.events[v]["ok"] for v in events if self.events[v]["ok"] is not None]
            return float(all(told)) if told else None

        return [(unit, of(events)) for unit, events in self.units("tool").items()]

    def distinct_calls(self) -> Paid:
        return self.metric("call_redundancy", -1.0, 1.0)

    def verifier(self) -> Paid:
        return [(unit, self.events[events[0]]["score"]) for unit, events in self.units("message").items()]

    def distinct_messages(self) -> Paid:
        return self.metric("message_redundancy", -1.0, 1.0)

    def useful(self) -> Paid:
        return self.metric("utilization")

    def speedup(self) -> Paid:
        return self.metric("step_speedup")

    def finish(self) -> Paid:
        return self.team(self.finished())

    def instantiation(self, n_target: int | None = None) -> Paid:
        return self.team(None if n_target is None else min(1.0, len(self.spawned()) / n_target))

    def spawned(self) -> set[str]:
        return {e["to"] for e in self.events if e["type"] == "spawn" and e["to"] is not None}

    def parl(
        self,
        lambda_parallel: float = 0.1,
        lambda_finish: float = 0.1,
        parallel: str = "speedup",
        n_target: int | None = None,
        anneal: str = "none",
        anneal_steps: float = 1000.0,
    ) -> Paid:
        step = self.step()
        if anneal != "none" and step is None:
            return self.team(None)
        done = (step or 0.0) / anneal_steps
        share = self.shares.get(step or 0.0, Fraction(0))
        left = {
            "diagnostic": float(1 - share),
            "none": 1.0,
            "linear": max(0.0, 1 - done),
            "cosine": (1 + math.cos(math.pi * min(done, 1.0))) / 2,
            "exponential": math.exp(-done),
        }[anneal]
        [(_, instances)] = self.instantiation(n_target)
        side = self.metrics["step_speedup"] if parallel == "speedup" else instances
        weight = lambda_parallel * left
        side = 0.0 if weight == 0 else None if side is None else weight * side
        return self.team(self.channel("team"), side, lambda_finish * left * self.finished())

    def critical_steps(self, weight: float = 1.0) -> Paid:
        return self.metric("critical_steps", -weight)

    def tokens(self, weight: float = 1.0) -> Paid:
        return self.metric("tokens", -weight)

    def usd(self, weight: float = 1.0) -> Paid:
        return self.metric("cost_usd", -weight)

    def latency(self, weight: float = 1.0) -> Paid:
        return self.metric("elapsed", -weight) if self.basis in ("seconds", "partial") else self.team(None)

    def split(self) -> Paid:
        return self.metric("split_score")

    def uplift(self) -> Paid:
        return self.metric("aggregation_uplift_max")

    def uplift_mean(self) -> Paid:
        return self.metric("aggregation_uplift_mean")

    def capture(self) -> Paid:
        return self.metric("aggregation_capture")

    def aggregation_coverage(self) -> Paid:
        return self.metric("aggregation_coverage")

    def clean_outcome(self) -> Paid:
        return self.metric("outcome_tainted", -1.0, 1.0)

    def clean_share(self) -> Paid:
        return self.metric("taint_share", -1.0, 1.0)

    def conformance(self) -> Paid:
        return self.metric("nonconformance", -1.0, 1.0)

    def weighted(self, *terms: tuple[float, str, float]) -> Paid:
        """Terms weight · (channel + offset)."""
        values = [(weight, self.channel(name), offset) for weight, name, offset in terms]
        return self.team(*(None if x is None else w * (x + offset) for w, x, offset in values))

    def mgrpo_main(self, alpha_format: float = 0.1, alpha_outcome: float = 0.9) -> Paid:
        return self.weighted((alpha_format, "format", 0.0), (alpha_outcome, "team", 0.0))

    def mgrpo_sub(
        self,
        alpha_format: float = 0.1,
        alpha_quality: float = 0.4,
        alpha_outcome: float = 0.5,
        quality: str = "score",
    ) -> Paid:
        earned = self.channel("team")
        some = any(event["reward"] is not None for event in self.events)
        found: Paid = []
        for unit, events in self.units("agent").items():
            if unit == self.trace.root:
                continue
            right = [self.events[v]["ok"] for v in events if self.events[v]["ok"] is not None]
            told = [self.events[v][quality] for v in events if self.events[v][quality] is not None]
            good: float | None = math.fsum(told)
            if quality == "score":
                good = math.fsum(told) / len(told) if told else None
            elif not some:
                good = None
            own = [(alpha_format, sum(right) / len(right) if right else None), (alpha_quality, good)]
            parts = [0.0 if w == 0 else None if x is None else w * x for w, x in own]
            parts.append(None if earned is None else alpha_outcome * earned)
            [(_, paid)] = self.team(*parts)
            found.append((unit, paid))
        return found

    def matpo(self, alpha_format: float = 0.1) -> Paid:
        return self.weighted((1.0, "team", 0.0), (alpha_format, "format", 0.0))

    def context_folding(self, scope_weight: float = 0.2) -> Paid:
        return self.weighted((1.0, "team", 0.0), (scope_weight, "scope", 0.0))

    def rlinf(
        self, w_format: float = 0.1, w_search: float = 0.05, w_length: float = 0.1, w_context: float = 0.2
    ) -> Paid:
        return self.weighted(
            (1.0, "team", 0.0),
            (2 * w_format, "format", -0.5),
            (w_search, "search", 0.0),
            (-w_length, "length", 0.0),
            (-w_context, "over_context", 0.0),
        )

    def puppeteer(
        self,
        gamma: float = 1.0,
        lambda_: float = 0.1,
        phi: float = 1.0,
        law: str = "paper",
        growth: float = 1.0,
        max_steps: int = 5,
    ) -> Paid:
        choices = [
            v
            for v in self.trace.order
            if self.events[v]["type"] == "orchestrator_decision" and self.trace.owner[v] == self.trace.root
        ]
        ids = [self.events[v]["id"] for v in choices]
        earned = self.channel("team")
        if earned is None:
            return [(unit, None) for unit in ids]
        found: Paid = []
        after = earned
        for t in range(len(choices), 0, -1):
            cost = math.log(1 + t / phi)
            if law == "released":
                cost = math.log(1 + growth * t / (max_steps + 1)) / math.log(1 + growth)
            paid = (earned if t == len(choices) else gamma * after) - lambda_ * cost
            found.append((ids[t - 1], paid))
            after = paid
        return found
