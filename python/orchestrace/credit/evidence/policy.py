"""Terms of methods that weigh the alternatives in a context by the policy's probabilities."""

import math
from collections import defaultdict
from collections.abc import Hashable
from typing import NamedTuple

from ..trace_graph import is_decision
from .question import Evidence, Found, Part, Question, Teller
from .siblings import contexts_of


class _Decision(NamedTuple):
    number: int
    seq: int
    action: str
    p: float
    outcome: float


def by_policy(question: Question) -> Teller:
    names: dict[Hashable, int] = {}
    buckets: dict[Hashable, list[_Decision]] = defaultdict(list)
    mine: dict[int, tuple[Hashable, _Decision]] = {}
    for number, reward in question.rollouts.items():
        trace = question.traces[number]
        for seq, context in enumerate(contexts_of(question, number, names)):
            action, p = trace.text("action", seq), trace.number("p_behavior", seq)
            owner, outcome = trace.owner[seq], _outcome(question, number, seq, reward)
            if context is None or action is None or p is None or owner is None or outcome is None:
                continue
            if is_decision(trace, seq):
                place, made = (context, trace.role[owner]), _Decision(number, seq, action, p, outcome)
                buckets[place].append(made)
                if number == question.number:
                    mine[seq] = (place, made)

    def tell(part: Part) -> Found:
        place, own = mine[part.seq]
        made: dict[str, list[_Decision]] = defaultdict(list)
        for one in buckets[place]:
            made[one.action].append(one)
        share = {action: math.fsum(one.p for one in rows) / len(rows) for action, rows in made.items()}
        whole = math.fsum(share.values())
        outcomes = [one.outcome for one in buckets[place]]
        silent = len(made) > 1 and min(outcomes) == max(outcomes)
        yield from _terms(question, own, made, {a: p / whole for a, p in share.items()}, silent)

    return tell


def _terms(
    question: Question,
    own: _Decision,
    made: dict[str, list[_Decision]],
    share: dict[str, float],
    silent: bool,
) -> Found:
    table = question.method == "coma"
    rule = (
        "amount = Q of the action less the mean of Q over the policy's actions"
        if table
        else "amount = own outcome less what the policy could expect, by what other rollouts did instead"
    )
    for action, rows in made.items():
        if table or action == own.action:
            weight = (action == own.action) - share[action]
            used = rows if table else [own]
        else:
            weight, used = -share[action], [one for one in rows if one.number != own.number]
        if not used:
            continue  # an action of no probability that nobody else took
        mean = math.fsum(one.outcome for one in used) / len(used)
        told = f"{action}, p = {share[action]:.3g}, {len(used)} decisions"
        if action == own.action:
            told += ", this action"
        yield Evidence("action", rule, 0.0 if silent else weight, mean, other=told)


def _outcome(question: Question, number: int, seq: int, reward: float) -> float | None:
    """What `coma` with a critic takes for the outcome: what is expected once the event is past."""
    if question.params.get("critic") != "value":
        return reward
    trace = question.traces[number]
    place = trace.order.index(seq) + 1
    after = reward if place == len(trace) else trace.number("value", trace.order[place])
    return None if after is None else after + (trace.number("reward", seq) or 0.0)
