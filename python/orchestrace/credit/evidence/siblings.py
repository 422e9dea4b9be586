"""Terms of methods that compare what was done in one state or context, or by one class of events."""

import math
from collections.abc import Hashable

from ...corpus.units import TraceEvents
from ..trace_graph import act, contexts, is_decision
from .groups import relative, scale_of, turn_name
from .paths import turn_returns
from .question import Evidence, Found, Part, Question, Teller, classes_of


def gigpo(question: Question) -> Teller:
    names: dict[Hashable, int] = {}
    anchors: dict[tuple[int, int], Hashable] = {}
    returns: dict[tuple[int, int], float] = {}
    episodes: dict[Hashable, float] = {}
    gamma, norm = question.number_of("gamma", 0.99), str(question.params.get("norm", "mean_std"))
    for number, reward in question.rollouts.items():
        trace = question.traces[number]
        found = _anchors(question, number, names)
        if found is None:
            continue
        if trace.turns:
            episodes[number] = reward
        for t, value in enumerate(turn_returns(trace, reward, gamma)):
            if found[t] is not None:
                anchors[number, t], returns[number, t] = found[t], value
    scale, weight = scale_of(question, norm), question.number_of("step_weight", 1.0)
    of_group = "first sum: R within the group"
    of_anchor = "second sum: return-to-go of the turns from the same state, by step_weight"

    def tell(part: Part) -> Found:
        t = question.trace.turn_of[part.seq]
        assert t is not None
        own = (question.number, t)
        yield from relative(episodes, question.number, scale, lambda row: turn_name(question, row), of_group)
        same: dict[Hashable, float] = {row: returns[row] for row in anchors if anchors[row] == anchors[own]}
        yield from relative(same, own, scale, lambda row: turn_name(question, row), of_anchor, "turn", weight)

    return tell


def _anchors(question: Question, number: int, names: dict[Hashable, int]) -> list[Hashable | None] | None:
    trace = question.traces[number]
    if _recorded(question, trace, "state_key"):
        return [
            next((key for seq in turn.events if (key := trace.text("state_key", seq)) is not None), None)
            for turn in trace.turns
        ]
    found = _computed(question, number, names)
    return None if found is None else [found[turn.events[0]] for turn in trace.turns]


def contexts_of(question: Question, number: int, names: dict[Hashable, int]) -> list[Hashable | None]:
    """Context of every event of a rollout, as the parameter `context` asks for it; nothing with a cycle."""
    trace = question.traces[number]
    if _recorded(question, trace, "prefix_key"):
        return list(trace.columns["prefix_key"])
    return _computed(question, number, names) or []


def _recorded(question: Question, trace: TraceEvents, field: str) -> bool:
    word = question.params.get("context", "auto")
    return word == "recorded" or (word != "computed" and any(v is not None for v in trace.columns[field]))


def _computed(question: Question, number: int, names: dict[Hashable, int]) -> list[Hashable | None] | None:
    return contexts(question.traces[number], str(question.facts[number]["task_id"]), names)


def c3(question: Question) -> Teller:
    names: dict[Hashable, int] = {}
    buckets: dict[Hashable, dict[Hashable, list[tuple[str, float]]]] = {}
    mine: dict[int, tuple[Hashable, Hashable]] = {}
    for number, reward in question.rollouts.items():
        trace = question.traces[number]
        for seq, context in enumerate(contexts_of(question, number, names)):
            choice, owner = act(trace, seq), trace.owner[seq]
            if context is None or choice is None or owner is None or not is_decision(trace, seq):
                continue
            bucket = (context, trace.role[owner])
            made = (f"{question.trace_id(number)}: {trace.text('id', seq)}", reward)
            buckets.setdefault(bucket, {}).setdefault(choice, []).append(made)
            if number == question.number:
                mine[seq] = (bucket, choice)
    everything = question.params.get("baseline") == "mean"
    rule = "amount = mean outcome of the choice less that of " + ("all" if everything else "the others")

    def tell(part: Part) -> Found:
        bucket, own = mine[part.seq]
        candidates = buckets[bucket]
        rewards = [r for made in candidates.values() for _, r in made]
        silent = len(candidates) < 2 or all(r == rewards[0] for r in rewards)
        others = len(rewards) - (0 if everything else len(candidates[own]))
        for choice, made in candidates.items():
            baseline = len(made) / others if others and (everything or choice != own) else 0.0
            weight = 0.0 if silent else (choice == own) - baseline
            mean = math.fsum(r for _, r in made) / len(made)
            told = f"{made[0][0]} ({len(made)} of {len(rewards)})" + (
                ", this choice" if choice == own else ""
            )
            yield Evidence("sibling", rule, weight, mean, other=told)

    return tell


def spectrum(question: Question) -> Teller:
    by, formula = question.params.get("by", "action"), question.params.get("formula", "ochiai")
    threshold, star = question.number_of("threshold", 0.5), question.number_of("star", 2.0)
    classes = {n: set(classes_of(question.traces[n], by)) - {None} for n in question.rollouts}
    passes = {n: r >= threshold for n, r in question.rollouts.items() if classes[n]}
    own = classes_of(question.trace, by)
    rule = f"amount = - {formula} of the class: e with it, n without, f failing, p passing rollouts"

    def tell(part: Part) -> Found:
        has = {n: own[part.seq] in classes[n] for n in passes}
        ef, ep = (sum(has[n] and passes[n] is good for n in passes) for good in (False, True))
        nf, np_ = (sum(not has[n] and passes[n] is good for n in passes) for good in (False, True))
        for name, count in (("ef", ef), ("ep", ep), ("nf", nf), ("np", np_)):
            yield Evidence("count", rule, None, float(count), other=name)
        failing, passing = ef + nf, ep + np_
        silent = failing == 0 or passing == 0
        suspicion = 0.0 if silent else _suspicion(str(formula), ef, ep, failing, passing, star)
        yield Evidence("suspicion", rule, -1.0, suspicion, other=formula)

    return tell


def _suspicion(formula: str, ef: int, ep: int, failing: int, passing: int, star: float) -> float:
    if formula == "tarantula":
        return (ef / failing) / (ef / failing + ep / passing)
    if formula == "dstar":
        return float(ef**star / ((ep + failing - ef) or 0.5))
    if formula == "kulczynski2":
        return 0.5 * (ef / failing + ef / (ef + ep))
    return ef / math.sqrt(failing * (ef + ep))
