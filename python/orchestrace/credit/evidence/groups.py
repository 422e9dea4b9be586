"""Terms of methods that compare rollouts, or turns of rollouts, within a group or a batch."""

import math
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Final

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.reward import amounts
from ...corpus.units import TraceEvents
from ..trace_graph import shape
from .paths import ordinals_of, turn_returns, turn_rewards
from .question import Evidence, Found, Part, Question, Teller

_WHITENED: Final = 1e-8  # REINFORCE++ adds it to the variance


def relative(
    rows: dict[Hashable, float],
    own: Hashable,
    scale: Callable[[list[float]], float],
    name: Callable[[Hashable], dict[str, Any]],
    rule: str,
    kind: str = "rollout",
    factor: float = 1.0,
) -> Found:
    """The terms of `factor` * (own - mean) / scale over rows, and mean and scale beside them."""
    numbers = list(rows.values())
    mean = math.fsum(numbers) / len(numbers)
    degenerate = all(x == numbers[0] for x in numbers)
    divisor = 1.0 if degenerate else scale(numbers)
    for row, amount in rows.items():
        weight = 0.0 if degenerate else factor * ((row == own) - 1.0 / len(rows)) / divisor
        yield Evidence(kind, rule, weight, amount, **name(row))
    yield Evidence("mean", rule, None, mean, other=f"of {len(rows)}")
    if divisor != 1.0:
        yield Evidence("deviation", rule, None, divisor, other="divisor")


def scale_of(question: Question, norm: str) -> Callable[[list[float]], float]:
    ddof, epsilon = int(question.number_of("ddof", 1)), question.number_of("epsilon", 1e-6)
    return (lambda x: 1.0) if norm == "mean" else (lambda x: math.sqrt(_variance(x, ddof)) + epsilon)


def _variance(numbers: list[float], ddof: int) -> float:
    mean = math.fsum(numbers) / len(numbers)
    freedom = len(numbers) - ddof
    return math.fsum((x - mean) ** 2 for x in numbers) / freedom if freedom > 0 else 0.0


def rollouts(question: Question) -> Teller:
    method, rewards, me = question.method, question.rollouts, question.number
    rule = {
        "grpo": "amount = (R - mean) / (deviation + ε) over the group",
        "dr_grpo": "amount = R - mean over the group",
        "rloo": "amount = R - mean of the others of the group",
        "pass_k": "amount = R_best - R_second for the best of the group, else 0",
    }[method]

    def name(row: Hashable) -> dict[str, Any]:
        assert isinstance(row, int)
        return {"other": question.trace_id(row)}

    def tell(part: Part) -> Found:
        n = len(rewards)
        if n == 1 and question.params.get("compat") == "verl" and method != "pass_k":
            divisor = 1.0 + question.number_of("epsilon", 1e-6) if method == "grpo" else 1.0
            alone = "amount = R, as released code leaves a group of one"
            return iter(
                [Evidence("rollout", alone, 1.0 / divisor, question.amount, other=question.trace_id(me))]
            )
        if method == "pass_k":
            return _best(question, rule)
        scale = {
            "grpo": scale_of(question, "mean_std"),
            "dr_grpo": lambda x: 1.0,
            "rloo": lambda x: (len(x) - 1.0) / len(x),
        }[method]
        return relative(dict(rewards.items()), me, scale, name, rule)

    return tell


def _best(question: Question, rule: str) -> Found:
    rewards, me = question.rollouts, question.number
    ranked = sorted(rewards, key=lambda n: (-rewards[n], n))
    alone = len(set(rewards.values())) < 2
    divisor = 1.0
    if question.params.get("norm_std") and not alone:
        divisor = math.sqrt(_variance(list(rewards.values()), 1)) + question.number_of("epsilon", 1e-6)
    verl = len(rewards) == 1 and question.params.get("compat") == "verl"
    for n, amount in rewards.items():
        weight = 0.0
        if verl:
            weight = 1.0
        elif not alone and ranked[0] == me and n in ranked[:2]:
            weight = (1.0 if n == me else -1.0) / divisor
        yield Evidence("rollout", rule, weight, amount, other=question.trace_id(n))


def whitened(question: Question) -> Teller:
    name, baseline = question.params.get("batch"), bool(question.params.get("baseline"))
    table = (
        amounts(question.corpus, question.reward)
        .join(_batches(question.corpus, name), on="trace")
        .filter(pl.col("reward").is_not_null())
    )
    mine = table.filter(pl.col("trace") == question.number)
    batch = table.filter(pl.col("batch") == mine["batch"].item())
    within = batch.filter(pl.col("group_id") == mine["group_id"].item())
    centred = pl.col("reward") - pl.col("reward").mean().over("group_id")
    if question.params.get("compat") == "verl":
        centred = pl.when(pl.len().over("group_id") == 1).then("reward").otherwise(centred)
    x = batch.select(centred if baseline else pl.col("reward")).to_series().to_list()
    mean, scale = math.fsum(x) / len(x), math.sqrt(_variance(x, 1) + _WHITENED)
    rule = "amount = (x - mean of the batch) / √(variance + 1e-8), x = R" + (
        " - mean of the group" if baseline else ""
    )

    def tell(part: Part) -> Found:
        unit = 0.0 if all(one == x[0] for one in x) else 1.0 / scale
        yield Evidence("rollout", rule, unit, question.amount, other=question.trace_id(question.number))
        single = within.height == 1 and question.params.get("compat") == "verl"
        if baseline and not single:
            rewards = within["reward"].to_list()
            yield Evidence("mean", rule, -unit, math.fsum(rewards) / len(rewards), other="of the group")
        yield Evidence("mean", rule, -unit, mean, other=f"of the batch of {len(x)}")
        yield Evidence("deviation", rule, None, scale, other="divisor")

    return tell


def _batches(corpus: Corpus, name: str | None) -> pl.DataFrame:
    traces = corpus.traces.select("trace", "group_id")
    if name is None:
        return traces.with_columns(batch=pl.lit(0.0)).collect(engine="streaming")
    metric = corpus.measures.filter((pl.col("kind") == "metric") & (pl.col("name").cast(pl.String) == name))
    keyed = metric.select("trace", batch="value")
    return traces.join(keyed, on="trace").collect(engine="streaming")


def shaped(question: Question) -> Teller:
    order = bool(question.params.get("program_order"))
    shapes = {n: shape(question.traces[n], program_order=order) for n in question.rollouts}
    rewards = {n: r for n, r in question.rollouts.items() if shapes[n] is not None}
    like = {n for n in rewards if shapes[n] == shapes[question.number]}
    kappa, ddof = question.number_of("kappa", 8.0), int(question.number_of("ddof", 1))
    rule = "amount = (R - μ) / (deviation + ε), both shrunk from the shape towards the group"

    def tell(part: Part) -> Found:
        every, own = list(rewards.values()), [r for n, r in rewards.items() if n in like]
        silent = all(x == every[0] for x in every) or (kappa == 0 and all(x == own[0] for x in own))
        total = len(own) + kappa
        variance = (len(own) * _variance(own, ddof) + kappa * _variance(every, ddof)) / total
        divisor = math.sqrt(variance) + question.number_of("epsilon", 1e-6)
        for n, amount in rewards.items():
            weight = (n == question.number) - (n in like) / total - kappa / total / len(every)
            yield Evidence(
                "rollout",
                rule,
                0.0 if silent else weight / divisor,
                amount,
                other=question.trace_id(n) + (" (same shape)" if n in like else ""),
            )
        yield Evidence("deviation", rule, None, divisor, other="divisor")

    return tell


def among_turns(question: Question) -> Teller:
    """Rows of the group's traces, compared by agent, agent and ordinal, or ordinal."""
    method, gamma = question.method, question.number_of("gamma", 0.99)
    if question.by_events:
        return _among_events(question)
    rows: dict[Hashable, dict[Hashable, float]] = {}
    for number, reward in question.rollouts.items():
        trace = question.traces[number]
        ordinals = ordinals_of(trace)
        outcomes = [reward] * len(trace.turns)
        if method == "marshal":
            outcomes = turn_returns(trace, reward, gamma)
        elif method == "magrpo":
            outcomes = _joint(trace, reward)
        for t, turn in enumerate(trace.turns):
            keys: dict[str, Hashable] = {"at_grpo": (turn.owner, ordinals[t]), "magrpo": ordinals[t]}
            segment = rows.setdefault(keys.get(method, turn.owner), {})
            # joint returns count once for each rollout
            segment.setdefault(number if method == "magrpo" else (number, t), outcomes[t])
    norm = {"magrpo": "mean", "marshal": question.params.get("norm", "mean")}.get(method, "mean_std")
    scale = scale_of(question, str(norm))
    what = {"magrpo": "joint return from step t on", "marshal": "return-to-go"}.get(method, "R")
    rule = f"amount = {what}, less the mean" + ("" if norm == "mean" else ", by deviation + ε")

    mine = ordinals_of(question.trace)

    def tell(part: Part) -> Found:
        t = question.trace.turn_of[part.seq]
        assert t is not None
        turn = question.trace.turns[t]
        ordinal = mine[t]
        keys: dict[str, Hashable] = {"at_grpo": (turn.owner, ordinal), "magrpo": ordinal}
        own = question.number if method == "magrpo" else (question.number, t)
        kind = "rollout" if method == "magrpo" else "turn"
        segment = rows[keys.get(method, turn.owner)]
        return relative(segment, own, scale, lambda row: turn_name(question, row), rule, kind)

    return tell


def _among_events(question: Question) -> Teller:
    """Rollouts count by how many events the agent owns in them."""
    ddof, epsilon = int(question.number_of("ddof", 1)), question.number_of("epsilon", 1e-6)
    rule = "amount = (R - mean) / (deviation + ε) over all events of the agent in the group"

    @cache  # every event of the agent asks
    def owned(agent: str | None) -> dict[int, int]:
        return {n: question.traces[n].owner.count(agent) for n in question.rollouts}

    def tell(part: Part) -> Found:
        counts = owned(question.trace.owner[part.seq])
        rewards = {n: r for n, r in question.rollouts.items() if counts[n]}
        total = sum(counts.values())
        mean = math.fsum(counts[n] * r for n, r in rewards.items()) / total
        squares = math.fsum(counts[n] * (r - mean) ** 2 for n, r in rewards.items())
        silent = total < 2 or len(set(rewards.values())) < 2
        divisor = 1.0 if silent else math.sqrt(squares / (total - ddof)) + epsilon
        for n, amount in rewards.items():
            weight = 0.0 if silent else ((n == question.number) - counts[n] / total) / divisor
            told = f"{question.trace_id(n)} ({counts[n]} events)"
            yield Evidence("rollout", rule, weight, amount, other=told)
        yield Evidence("mean", rule, None, mean, other=f"of {total}")
        yield Evidence("deviation", rule, None, divisor, other="divisor")

    return tell


def turn_name(question: Question, row: Hashable) -> dict[str, Any]:
    if not isinstance(row, tuple):
        assert isinstance(row, int)
        return {"other": question.trace_id(row)}
    number, t = row
    turn = question.traces[number].turns[t]
    seq = turn.events[0] if number == question.number else None
    return {"seq": seq, "other": f"{question.trace_id(number)}: {turn.unit_id}"}


def _joint(trace: TraceEvents, amount: float) -> list[float]:
    """Return of all agents from each step on, the outcome when all is done."""
    ordinals, rewards = ordinals_of(trace), turn_rewards(trace, 0.0)
    of_step: dict[int, list[float]] = {}
    for t, r in zip(ordinals, rewards, strict=True):
        of_step.setdefault(t, []).append(r)
    returns: dict[int, float] = {}
    later = 0.0
    for t in sorted(of_step, reverse=True):
        later += math.fsum(of_step[t])
        returns[t] = later + amount
    return [returns[t] for t in ordinals]
