"""Structural replay against a reference in plain Python, and what must hold of it on any recording."""

import random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, strategies as st

import orchestrace as ot
from orchestrace.interventions.composition import parts_of
from reference.replay import Ambiguous, Replay
from reference.trace import Trace
from samples.examples import examples
from samples.hand_runs import read
from samples.random_runs import EDGES, Document, corpora

MODELS = ["noisy_or", "typed", "noisy_and", "linear", "mean", "max", "min", "majority", "reachability"]
FAMILIES = ["noisy_or", "typed", "mean", "noisy_and", "max", "min", "majority"]
LEVELS = ["event", "agent", "role", "tool", "call", "spawn", "message", "edge"]
EVENT_LEVELS = LEVELS[:6]
RUNS = examples(60)


def random_part(r: random.Random, document: Document, each: bool) -> Any:
    """An intervention about something that the document has, or all of some kind."""
    events, edges = document["events"], document["edges"]
    event = r.choice(events)
    spread: dict[str, Any] = r.choice(
        [{"mode": "node"}, {"lost": "all"}, {"lost": "any"}, {"mode": "subtree", "lost": "all"}]
    )
    selectors: list[dict[str, Any]] = [
        {"event": event["id"]},
        {"agent": event["agent"]},
        {"type": event["type"]},
        {"spawn": event["agent"]},
        {"call": event["id"]},
    ]
    selectors += [{name: event[name]} for name in ("role", "tool") if name in event]
    kind = r.choice(["drop"] * 6 + ["set", "set", "aggregate", "truncate", "truncate"])
    if kind == "aggregate":
        return ot.interventions.aggregate_by(r.choice(["best", "majority", "mean", "confidence"]))
    if kind == "truncate":
        return r.choice(
            [
                ot.interventions.truncate(event=event["id"]),
                ot.interventions.truncate(at=float(r.randrange(8))),
            ]
        )
    if kind == "set":
        own = [one for one in selectors if "spawn" not in one]
        own += [{"each": level} for level in EVENT_LEVELS] * each
        return ot.interventions.do(to=r.choice([0.0, 0.25, 1.0]), **r.choice(own))
    between: list[dict[str, Any]] = [{"message": event["id"]}]
    between += [{"edge": (edge["src"], edge["dst"])} for edge in edges[:3]]
    selectors += between + [{"each": level} for level in LEVELS] * each
    return ot.interventions.drop(**r.choice(selectors), **spread)


def random_scenario(r: random.Random, documents: list[Document]) -> Any:
    document = r.choice(documents)
    scenario = random_part(r, document, each=True)
    for _ in range(r.choice([0, 0, 1, 2])):
        scenario = scenario & random_part(r, document, each=False)
    return scenario


def replayed(documents: list[Document] | ot.Corpus, *scenarios: Any, **options: Any) -> pl.DataFrame:
    """The table; a scenario that fits no trace at all is a mistake of the caller."""
    corpus = documents if isinstance(documents, ot.Corpus) else read(documents)
    try:
        return ot.replay(corpus, *scenarios, **options)
    except ot.ParameterError as error:
        assert "unknown" in str(error) or "no trace has" in str(error), error
        assume(False)
        raise


@st.composite
def tried(draw: st.DrawFn) -> tuple[list[Document], Any, random.Random]:
    documents = draw(corpora(max_traces=4, max_events=9))
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    for document in documents:
        if r.random() < 0.3:
            document["topology"] = "debate"
        for event in document["events"]:
            if r.random() < 0.2:
                event["ok"] = r.random() < 0.5
            if r.random() < 0.2:
                event["tokens"] = r.randrange(5)
    return documents, random_scenario(r, documents), r


@examples(150)
@given(tried(), st.sampled_from(MODELS), st.booleans(), st.booleans(), st.sampled_from([0.0, 0.5, 0.7]))
def test_every_answer_is_that_of_the_reference(
    case: tuple[list[Document], Any, random.Random],
    model: Any,
    given_weights: bool,
    program_order: bool,
    quorum: float,
) -> None:
    documents, scenario, r = case
    # eighths: their sums are exact, so both sides see the same majorities
    weights = {kind: r.randrange(11) / 8 for kind in EDGES} if given_weights else None
    options: dict[str, Any] = {"quorum": quorum, "program_order": program_order}
    table = replayed(documents, scenario, outcome=model, weights=weights, **options)
    rows = table.partition_by("trace", as_dict=True, maintain_order=True)
    for n, document in enumerate(documents):
        specs = [part.spec() for part in parts_of(scenario)]
        try:
            models = dict.fromkeys([model, *FAMILIES])
            known = Replay(Trace(document), model, weights, **options)
            answers = {one: Replay(Trace(document), one, weights, **options).answers(specs) for one in models}
        except Ambiguous:
            continue
        got = rows[(n,)]
        assert got["unit_id"].to_list() == [answer.unit for answer in answers[model]]
        for i, (row, want) in enumerate(zip(got.iter_rows(named=True), answers[model], strict=True)):
            assert (row["tokens"], row["tokens_cf"]) == (want.tokens, want.tokens_cf)
            if want.outcome is None:
                tier = None if want.tokens is None else "surrogate"
                assert (row["reason"], row["tier"], row["support"]) == (want.reason, tier, None)
                assert all(
                    row[name] is None for name in ("outcome", "outcome_cf", "effect", "lower", "upper")
                )
                continue
            effects = [found[i].outcome_cf - found[i].outcome for found in answers.values()]
            if known.support == 0 and not given_weights and any(abs(effect) > 1e-12 for effect in effects):
                # that it leads to the outcome is known, what it is worth is not
                assert (row["reason"], row["tier"], row["support"]) == ("support.absent", "surrogate", 0)
                assert row["outcome"] is row["outcome_cf"] is row["effect"] is None
                assert row["lower"] == pytest.approx(min(0.0, *effects), abs=1e-12)
                assert row["upper"] == pytest.approx(max(0.0, *effects), abs=1e-12)
                continue
            assert row["outcome"] == pytest.approx(want.outcome, abs=1e-12)
            assert row["outcome_cf"] == pytest.approx(want.outcome_cf, abs=1e-12)
            assert row["effect"] == row["outcome_cf"] - row["outcome"]
            assert row["tier"] == "observed" or row["support"] == known.support
            assert row["lower"] == pytest.approx(min(effects), abs=1e-12)
            assert row["upper"] == pytest.approx(max(effects), abs=1e-12)
            signs = {0 if abs(effect) < 1e-12 else 1 if effect > 0 else -1 for effect in effects}
            assert row["reason"] == ("gate.unstable" if len(signs) > 1 else None)
            assert row["tier"] in ("surrogate", "observed") and 0 <= row["support"] <= 1


@RUNS
@given(corpora(max_traces=3), st.sampled_from(MODELS), st.booleans())
def test_nothing_changed_is_nothing_changed_to_the_bit(
    documents: list[Document], model: Any, program_order: bool
) -> None:
    corpus = read(documents)
    table = ot.replay(corpus, ot.interventions.truncate(at=1e9), outcome=model, program_order=program_order)
    valid = table.filter(pl.col("reason").is_null())
    assert (valid["effect"] == 0).all() and (valid["outcome"] == valid["outcome_cf"]).all()
    assert (valid["lower"] == 0).all() and (valid["upper"] == 0).all()
    # the recorded outcome is the score of the outcome, where it has one
    for document, row in zip(documents, table.iter_rows(named=True), strict=True):
        trace = Trace(document)
        if row["reason"] is None and trace.outcome is not None:
            score = trace.events[trace.outcome]["score"]
            assert score is None or row["outcome"] == score


@RUNS
@given(corpora(max_traces=3), st.sampled_from(MODELS), st.sampled_from([0.0, 0.25, 1.0]))
def test_what_leads_nowhere_has_no_effect(documents: list[Document], model: Any, to: float) -> None:
    corpus = read(documents)
    scenarios = [
        ot.interventions.do(each="event", to=to),
        ot.interventions.drop(each="event"),
        ot.interventions.drop(each="event", mode="node"),
    ]
    table = ot.replay(corpus, *scenarios, outcome=model)
    for trace, document in enumerate(documents):
        known = Trace(document)
        edges = known.weights()
        if known.outcome is None or known.partial or known.topological(edges) is None:
            continue
        leading, waiting = set(), [known.outcome]
        while waiting:
            v = waiting.pop()
            leading.add(known.events[v]["id"])
            waiting += [src for src, dst in edges if dst == v and known.events[src]["id"] not in leading]
        aside = table.filter((pl.col("trace") == trace) & ~pl.col("unit_id").is_in(list(leading)))
        assert (aside["effect"] == 0).all() and (aside["lower"] == 0).all() and (aside["upper"] == 0).all()


@RUNS
@given(corpora(max_traces=3), st.sampled_from(MODELS), st.sampled_from(LEVELS))
def test_less_never_helps(documents: list[Document], model: Any, level: Any) -> None:
    # all gates are monotone: without something good the outcome is never better
    table = ot.replay(
        read(documents),
        ot.interventions.drop(each=level),
        ot.interventions.drop(each=level, mode="node"),
        outcome=model,
    )
    effects = table.drop_nulls("effect")
    assert (effects["effect"] <= 1e-12).all() and (effects["upper"] <= 1e-12).all()


@RUNS
@given(tried(), st.sampled_from(MODELS))
def test_scenarios_compose_like_sets(case: tuple[list[Document], Any, random.Random], model: Any) -> None:
    documents, _, r = case
    corpus = read(documents)
    document = r.choice(documents)

    def some() -> Any:
        while not isinstance(
            part := random_part(r, document, each=False), type(ot.interventions.drop(agent="a"))
        ):
            pass
        return part

    one, other = some(), some()

    def effects(scenario: Any) -> pl.DataFrame:
        return replayed(corpus, scenario, outcome=model).select(pl.exclude("intervention"))

    assert effects(one).equals(effects(one & one))
    assert effects(one & other).equals(effects(other & one))


@RUNS
@given(corpora(max_traces=3), st.sampled_from(EVENT_LEVELS))
def test_a_subtree_has_the_node_in_it(documents: list[Document], level: Any) -> None:
    corpus = read(documents)
    scenarios = [
        ot.interventions.drop(each=level, mode="node"),
        ot.interventions.drop(each=level),
        ot.interventions.drop(each=level, lost="any"),
    ]
    asked = []

    def outcome(masks: Any, game: Any) -> Any:
        asked.append(masks)
        return masks.sum(axis=1)

    table = ot.replay(corpus, *scenarios, outcome=outcome)
    for masks in asked:
        assert masks[0].all()
        node, every, some = np.split(masks[1:], 3)
        # what is there with the larger loss is there with the smaller one
        assert (every <= node).all() and (some <= every).all()
    assert (table.drop_nulls("effect")["effect"] < 0).all()


@RUNS
@given(corpora(max_traces=3), st.sampled_from(MODELS))
def test_without_a_dominator_there_is_no_outcome(documents: list[Document], model: Any) -> None:
    table = ot.replay(read(documents), ot.interventions.drop(each="event"), outcome=model)
    for trace, document in enumerate(documents):
        known = Trace(document)
        edges = known.weights()
        if known.outcome is None or known.partial or known.topological(edges) is None:
            continue
        for v in range(len(known)):
            # y cannot be reached from any source but through v
            left = [u for u in range(len(known)) if u != v and all(dst != u for _, dst in edges)]
            seen = set(left)
            while left:
                u = left.pop()
                new = {dst for src, dst in edges if src == u} - seen - {v}
                seen |= new
                left += new
            if v == known.outcome or known.outcome not in seen:
                row = table.filter((pl.col("trace") == trace) & (pl.col("unit_id") == known.events[v]["id"]))
                assert row["outcome_cf"].item() == 0 or row["reason"].item() == "support.absent"


def other_order(events: list[Document], r: random.Random) -> list[Document]:
    """The same events; facts of the trace are on the first one, whichever that is."""
    facts = {name: value for name, value in events[0].items() if name == "x_trace"}
    plain = [{name: value for name, value in event.items() if name != "x_trace"} for event in events]
    first, *rest = r.sample(plain, len(plain))
    return [first | facts, *rest]


@RUNS
@given(tried(), st.sampled_from(MODELS))
def test_threads_and_the_order_in_the_file_do_not_show(
    case: tuple[list[Document], Any, random.Random], model: Any
) -> None:
    documents, scenario, r = case
    corpus = read(documents)
    one = replayed(corpus, scenario, ot.interventions.drop(each="event"), outcome=model, threads=1)
    for threads in (2, 7):
        assert one.equals(
            replayed(corpus, scenario, ot.interventions.drop(each="event"), outcome=model, threads=threads)
        )
    # events in another order, times that tell them apart: the same answers to the same questions
    turned = []
    for document in documents:
        events = [event | {"t": n} for n, event in enumerate(document["events"])]
        turned.append(document | {"events": events})
    shuffled = [document | {"events": other_order(document["events"], r)} for document in turned]
    keys = ["trace", "intervention", "unit_id"]
    first = ot.replay(read(turned), ot.interventions.drop(each="event"), outcome=model).sort(keys)
    second = ot.replay(read(shuffled), ot.interventions.drop(each="event"), outcome=model).sort(keys)
    for name in ("outcome", "outcome_cf", "lower", "upper"):
        assert (first[name] - second[name]).abs().fill_null(0).max() <= 1e-12
    assert first.select(*keys, "tokens_cf", "support").equals(second.select(*keys, "tokens_cf", "support"))
