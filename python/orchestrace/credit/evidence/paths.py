"""Terms of methods that look at one trace: the reward itself, edges of the graph, later turns."""

import math
from itertools import islice, pairwise
from typing import Any, Final

from ...corpus.units import TraceEvents
from ..trace_graph import TraceGraph, flow_weights, received, trace_graph
from .question import Evidence, Found, Part, Question, Teller

_MOST_TURNS: Final = 300  # beyond, all later turns of every turn would be millions of rows


def divided(question: Question) -> Teller:
    n, rule = len(question.trace), "amount = R / |V|"
    return lambda part: iter([Evidence("outcome", rule, 1.0 / n, question.amount)])


def broadcast(question: Question) -> Teller:
    return lambda part: iter([Evidence("outcome", "amount = R", 1.0, question.amount)])


def discounted(question: Question) -> Teller:
    gamma, rule = question.number_of("gamma", 0.99), "amount = gamma^(|V| - 1 - place) R"
    place = {seq: at for at, seq in enumerate(question.trace.order)}
    last = len(place) - 1
    return lambda part: iter([Evidence("outcome", rule, gamma ** (last - place[part.seq]), question.amount)])


def flow(question: Question) -> Teller:
    kept_only = question.method == "flow"
    graph = _graph(question, question.params.get("weights"))
    kernel = question.params.get("kernel", "uniform")
    weights = flow_weights(question.trace, graph, kernel, question.params.get("tau"))
    kappa = question.number_of("retention", 0.1 if kept_only else 0.0)
    gamma = 1.0 if kept_only else question.number_of("gamma", 0.99)
    epsilon = question.number_of("epsilon", 0.0) if kernel == "lrp" else 0.0
    y = question.trace.outcome
    sent = gamma * (1.0 - kappa)
    _, by_edge = received(graph, y, question.amount, weights, sent=sent, epsilon=epsilon)
    n_sinks = len(graph.sinks)
    rule = "amount = kept part of what the successors sent" if kept_only else "amount = Σ of what they sent"

    def tell(part: Part) -> Found:
        total = math.fsum(weights[part.seq].values())
        kept = 1.0
        if kept_only and total > 0.0:
            kept = kappa + (1.0 - kappa) * epsilon / (total + epsilon)
        if part.seq == y or (y is None and not graph.successors[part.seq]):
            each = question.amount / (n_sinks if y is None else 1)
            yield Evidence("outcome", rule, kept, each, seq=part.seq)
        for v, amount in by_edge[part.seq].items():
            yield Evidence("edge", rule, kept, amount, seq=part.seq, other=question.name(v))

    return tell


def dag_gae(question: Question) -> Teller:
    trace, graph, y = question.trace, _graph(question, None), question.trace.outcome
    gamma, lambda_ = question.number_of("gamma", 0.99), question.number_of("lambda_", 0.95)
    split = question.params.get("mode") == "split"
    n_sinks = len(graph.sinks)
    rule = "amount = r - V + gamma Σ m (V(w) + lambda A(w)) over the successors w"

    def tell(part: Part) -> Found:
        v = part.seq
        yield Evidence("reward", rule, 1.0, trace.number("reward", v) or 0.0, seq=v)
        yield Evidence("critic", rule, -1.0, trace.number("value", v), seq=v)
        if v == y:
            yield Evidence("outcome", rule, 1.0, question.amount, seq=v)
        elif y is None and not graph.successors[v]:
            m = 1.0 / n_sinks if split else 1.0
            yield Evidence("outcome", rule, gamma * lambda_ * m, question.amount, seq=v)
        for w in graph.successors[v]:
            m = 1.0 / (len(graph.predecessors[w]) if split else len(graph.successors[v]))
            yield Evidence("critic", rule, gamma * m, trace.number("value", w), seq=w)
            later = question.values[w]
            yield Evidence("successor", rule, gamma * lambda_ * m, later, seq=v, other=question.name(w))

    return tell


def _graph(question: Question, weights: Any) -> TraceGraph:
    graph = trace_graph(
        question.trace, program_order=bool(question.params.get("program_order")), weights=weights
    )
    assert graph is not None, "a trace with a cycle has null credit, which is told before"
    return graph


def turn_rewards(trace: TraceEvents, at_end: float) -> list[float]:
    """Reward of every turn: the field of its events, absent = 0, and the outcome on the last one (D14)."""
    rewards = [math.fsum(trace.number("reward", seq) or 0.0 for seq in turn.events) for turn in trace.turns]
    if rewards:
        rewards[-1] += at_end
    return rewards


def turn_returns(trace: TraceEvents, at_end: float, gamma: float) -> list[float]:
    """Discounted return of every turn, all agents in one sequence."""
    returns = turn_rewards(trace, at_end)
    for t in reversed(range(len(returns) - 1)):
        returns[t] += gamma * returns[t + 1]
    return returns


def ordinals_of(trace: TraceEvents) -> list[int]:
    counts: dict[str, int] = {}
    ordinals = []
    for turn in trace.turns:
        ordinals.append(counts.get(turn.owner, 0))
        counts[turn.owner] = ordinals[-1] + 1
    return ordinals


def along_turns(question: Question) -> Teller:
    trace, method = question.trace, question.method
    gamma = question.number_of("gamma", 0.99)
    has_critic = method != "return_to_go"
    fading = gamma * (question.number_of("lambda_", 0.95) if has_critic else 1.0)
    until_next = method == "eligibility" and question.params.get("traces") == "replacing"
    if question.by_events or (len(trace.turns) > _MOST_TURNS and not until_next):
        return _step_by_step(question, gamma, fading, has_critic)
    order = _order(question)
    rewards = _rewards_along(question, order)
    steps, rule = rewards, "amount = Σ gamma^k r of the turns from this one on"
    if has_critic:
        critics = [_critic(trace, turn.events) for turn in trace.turns]
        after = {t: critics[later] for t, later in pairwise(order)}
        steps = [r + gamma * after.get(t, 0.0) - critics[t] for t, r in enumerate(rewards)]
        rule = "amount = Σ (gamma lambda)^k δ of the turns from this one on, δ = r + gamma V' - V"
    if until_next:
        rule += ", until its agent's next one"
    place = {t: at for at, t in enumerate(order)}

    def tell(part: Part) -> Found:
        first = trace.turn_of[part.seq]
        assert first is not None
        for k, t in enumerate(islice(order, place[first], None)):
            turn = trace.turns[t]
            if until_next and k and turn.owner == trace.turns[first].owner:
                return
            yield Evidence("turn", rule, fading**k, steps[t], seq=turn.events[0], other=turn.unit_id)

    return tell


def _rewards_along(question: Question, order: list[int]) -> list[float]:
    """Rewards of the turns, the outcome on the last one of the method's order."""
    rewards = turn_rewards(question.trace, 0.0)
    if order:
        rewards[order[-1]] += question.amount
    return rewards


def _order(question: Question) -> list[int]:
    """Turns in the order that the method goes through them."""
    turns = question.trace.turns
    order = list(range(len(turns)))
    if question.method == "sequential_gae":
        agents = {name: at for at, name in enumerate(dict.fromkeys(turn.owner for turn in turns))}
        ordinals = ordinals_of(question.trace)
        order.sort(key=lambda t: (ordinals[t], agents[turns[t].owner]))
    return order


def _step_by_step(question: Question, gamma: float, fading: float, has_critic: bool) -> Teller:
    """The recursion, in which the next step stands for all later ones."""
    trace = question.trace
    events = [[seq] for seq in trace.order]
    rewards = [trace.number("reward", seq) or 0.0 for seq in trace.order]
    if question.by_events:
        rewards[-1] += question.amount
    else:
        order = _order(question)
        turns = _rewards_along(question, order)
        events, rewards = [trace.turns[t].events for t in order], [turns[t] for t in order]
    place = {own[0]: step for step, own in enumerate(events)}
    rule = "amount = r + gamma A'"
    if has_critic:
        rule = "amount = r + gamma V' - V + gamma lambda A'"

    def tell(part: Part) -> Found:
        at = place[part.seq]
        yield Evidence("reward", rule, 1.0, rewards[at], seq=part.seq)
        if has_critic:
            yield Evidence("critic", rule, -1.0, _critic(trace, events[at]), seq=part.seq)
        if at + 1 == len(events):
            return
        later = events[at + 1]
        if has_critic:
            yield Evidence("critic", rule, gamma, _critic(trace, later), seq=later[0])
        value = question.values[later[0]]
        yield Evidence("successor", rule, fading, value, seq=part.seq, other=question.name(later[0]))

    return tell


def _critic(trace: TraceEvents, events: list[int]) -> float:
    return next(v for seq in events if (v := trace.number("value", seq)) is not None)
