"""Replay: effects by hand, what each answer rests on, corpora on disk, outcomes of one's own, mistakes."""

import json
from typing import Any, get_args

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.schema import REPLAYS
from orchestrace.interventions.content import Each
from samples.hand_runs import event, read, run
from samples.random_runs import EDGES

FORK = [(0, 1), (0, 2), (1, 3), (2, 3)]


def fork(
    trace: int = 0, scores: tuple[float | None, ...] = (None, 0.6, 0.9, 0.8), **more: Any
) -> dict[str, Any]:
    """A lead asks two workers and takes what they say into an aggregate."""
    events = [
        event(0, "lead", "orchestrator_decision", tokens=10),
        event(1, "ann", "message", to="lead", role="worker", tokens_in=3, tokens_out=4),
        event(2, "bob", "message", to="lead", role="worker", tokens=5),
        event(3, "lead", "aggregate", tokens=1),
    ]
    for one, score in zip(events, scores, strict=True):
        one.update({} if score is None else {"score": score})
    return run(trace, 1.0, events, FORK, **more)


def chain(n: int, **fields: Any) -> list[dict[str, Any]]:
    return [
        event(v, "lead" if v in (0, n - 1) else "ann", "aggregate" if v == n - 1 else "message", **fields)
        for v in range(n)
    ]


def one(documents: list[dict[str, Any]], *scenarios: Any, **options: Any) -> dict[str, Any]:
    rows = ot.replay(read(documents), *scenarios, **options).rows(named=True)
    assert len(rows) == 1
    return rows[0]


# --- effects by hand --------------------------------------------------------------------------------------


def test_effects_by_hand() -> None:
    # both inputs weigh half, so w = 1/2 and f = (1 - 0.7 · 0.55)/0.75 = 0.82, which makes u = -0.02
    of = {
        ot.interventions.drop(event="e1"): 0.6 - 0.02,
        ot.interventions.drop(agent="ann", mode="node"): 0.6 - 0.02,
        ot.interventions.drop(edge=("e1", "e3")): 0.6 - 0.02,
        ot.interventions.drop(message="e1"): 0.6 - 0.02,
        # nobody says anything: f = 0, and what is below 0 is 0
        ot.interventions.drop(role="worker"): 0.0,
        ot.interventions.drop(agent="ann") & ot.interventions.drop(agent="bob"): 0.0,
        # one of the inputs is not enough
        ot.interventions.drop(event="e2", lost="any"): 0.0,
        ot.interventions.do(event="e1", to=1): (1 - 0.5 * 0.55) / 0.75 - 0.02,
        # without its instruction ann has f = 0 and u = -0.4
        ot.interventions.drop(edge=("e0", "e1"), mode="node"): 0.6 - 0.02,
        ot.interventions.truncate(at=1): 0.4 - 0.02,
        ot.interventions.truncate(event="e2"): 0.8,
        ot.interventions.aggregate_by("best"): 0.9,
        ot.interventions.aggregate_by("mean"): 0.75,
        ot.interventions.aggregate_by("majority"): 1.0,
        ot.interventions.aggregate_by("confidence"): 1 / (1 + 13.5**-0.5),
    }
    table = ot.replay(read([fork()]), *of)
    assert table["intervention"].to_list() == list(map(repr, of))
    assert table["outcome"].to_list() == [0.8] * len(of)
    assert table["outcome_cf"].to_list() == pytest.approx(list(of.values()), abs=1e-15)
    assert (table["effect"] == table["outcome_cf"] - table["outcome"]).all()


def test_bounds_are_not_asked_for() -> None:
    row = one([fork()], ot.interventions.drop(agent="ann"), sensitivity=False)
    assert (row["lower"], row["upper"], row["reason"]) == (None, None, None)


@pytest.mark.parametrize("model", ["noisy_or", "linear"])
def test_the_weights_of_a_single_path_multiply(model: Any) -> None:
    document = run(0, 1.0, chain(4), [(0, 1), (1, 2), (2, 3)])
    weights = {**dict.fromkeys(EDGES, 0.0), "causal": 0.5}
    row = one([document], ot.interventions.drop(event="e0", mode="node"), outcome=model, weights=weights)
    assert (row["outcome"], row["effect"]) == (0.125, -0.125)
    assert json.loads(row["params"])["weights"] == list(weights.values())


def test_a_spawn_takes_those_that_it_spawned() -> None:
    events = [
        event(0, "lead", "spawn", to="ann"),
        event(1, "ann", "spawn", to="bob"),
        event(2, "bob", "message", to="lead"),
        event(3, "lead", "aggregate"),
    ]
    corpus = read([run(0, 1.0, events, [(0, 1), (1, 2), (2, 3), (0, 3)])])
    asked: list[Any] = []

    def outcome(masks: Any, game: Any) -> Any:
        asked.append(masks[1:].astype(int).tolist())
        return masks.mean(axis=1)

    each = ot.replay(corpus, ot.interventions.drop(each="spawn", mode="node"), outcome=outcome)
    assert each["unit_id"].to_list() == ["ann", "bob"]
    assert asked == [[[0, 0, 0, 1], [1, 0, 0, 1]]]
    named = ot.replay(corpus, ot.interventions.drop(spawn="ann"), ot.interventions.drop(spawn="bob"))
    assert (
        named["outcome_cf"].to_list()
        == ot.replay(corpus, ot.interventions.drop(each="spawn"))["outcome_cf"].to_list()
    )


# --- what an answer rests on ------------------------------------------------------------------------------


def test_without_recorded_values_there_are_bounds_and_no_effect() -> None:
    """Of agents that all paths run through nothing else is known, and of none that they are useless."""
    bare = fork(scores=(None, None, None, None))
    row = one([bare], ot.interventions.drop(role="worker"))
    assert (row["reason"], row["tier"], row["support"]) == ("support.absent", "surrogate", 0)
    assert row["effect"] is row["outcome"] is row["outcome_cf"] is None
    assert (row["lower"], row["upper"]) == (-1, 0), "others might have done the work"
    assert (row["tokens"], row["tokens_cf"]) == (23, 10), "what it cost is known"
    # what leads nowhere has no effect, whatever values there are
    aside = {**bare, "events": [*bare["events"], event(4, "cid")]}
    row = one([aside], ot.interventions.drop(agent="cid"))
    assert (row["effect"], row["lower"], row["upper"], row["reason"]) == (0, 0, 0, None)
    # who asks for it gets what the graph and the assumed gates make
    row = one([bare], ot.interventions.drop(role="worker"), structure_alone=True)
    assert (row["effect"], row["upper"], row["support"], row["reason"]) == (-1, -1, 0, None)
    row = one([bare], ot.interventions.drop(role="worker"), weights=dict.fromkeys(EDGES, 0.5))
    assert row["effect"] < 0 and row["reason"] is None, "weights are what somebody says"
    row = one([bare], ot.interventions.drop(role="worker"), sensitivity=False)
    assert (row["lower"], row["upper"], row["support"], row["reason"]) == (None, None, 0, "support.absent")


def test_a_partial_recording_has_no_effects() -> None:
    """Ways to the outcome may be missing from it, so that not even 0 is certain."""
    part = fork()
    part["events"][0]["x_trace"] = {"partial": True}
    for document in (part, {**part, "events": [*part["events"], event(4, "ann", "return", to="user")]}):
        table = ot.replay(
            read([document]),
            ot.interventions.drop(each="agent"),
            ot.interventions.drop(agent="lead"),
            ot.interventions.truncate(at=99),
        )
        assert table["unit_id"].to_list() == ["lead", "ann", "bob", None, None]
        assert table["reason"].to_list() == ["trace.partial"] * 5
        numbers = ["effect", "lower", "upper", "outcome", "outcome_cf", "support"]
        assert all(table[name].null_count() == table.height for name in numbers)
        assert table["tokens_cf"].null_count() == 0, "what it cost is known"


def test_a_rule_on_recorded_inputs_is_observed() -> None:
    row = one([fork()], ot.interventions.aggregate_by("best"))
    assert (row["tier"], row["support"], row["reason"]) == ("observed", 1, None)
    assert row["lower"] == row["effect"] == row["upper"] == pytest.approx(0.1)
    # an input, or the outcome, that is not scored is a value that a gate was assumed for
    for scores in [(None, 0.6, None, 0.8), (None, 0.6, 0.9, None)]:
        row = one([fork(scores=scores)], ot.interventions.aggregate_by("best"))
        assert row["tier"] == "surrogate" and row["support"] < 1


VERBS: dict[str, list[Any]] = {
    "structural": [
        *(
            ot.interventions.drop(each=level, mode=mode)
            for level in get_args(Each)
            for mode in ("subtree", "node")
        ),
        *(ot.interventions.aggregate_by(rule) for rule in ("best", "majority", "mean", "confidence")),
        ot.interventions.do(each="agent", to=0.5),
        ot.interventions.truncate(at=2),
    ],
    "schedule": [
        ot.interventions.concurrency([1, 2, None]),
        ot.interventions.run_sequentially(),
        ot.interventions.speed_up(2),
        ot.interventions.cap_stragglers(0.5),
    ],
    "both": [ot.interventions.drop(type="message") & ot.interventions.concurrency(2)],
}


@pytest.mark.parametrize("verb", VERBS)
def test_no_number_comes_without_a_tier(verb: str) -> None:
    documents = [
        fork(0),
        fork(1, (None, None, None, None)),
        run(2, 1.0, chain(5), [(0, 1), (1, 2), (2, 3), (3, 4)]),
    ]
    cyclic = run(3, 1.0, chain(3), [(0, 1), (1, 0), (1, 2)])
    table = ot.replay(read([*documents, cyclic]), *VERBS[verb])
    assert dict(table.schema) == dict(REPLAYS)
    numbers = ["outcome_cf", "effect", "stderr", "lower", "upper", "makespan_cf"]
    told = pl.any_horizontal(pl.col(name).is_not_null() for name in numbers)
    assert table.filter(told)["tier"].null_count() == 0
    # and what has no number says why
    silent = table.filter(~told)
    assert silent["reason"].null_count() == 0 and silent["tier"].null_count() == silent.height
    assert set(table["tier"].drop_nulls()) <= {"structural": {"surrogate", "observed"}}.get(
        verb, {"schedule"}
    )
    structural = table.filter(pl.col("effect").is_not_null())
    assert structural["support"].null_count() == 0


def test_reasons_of_what_has_no_answer() -> None:
    cyclic = run(1, 1.0, chain(3), [(0, 1), (1, 0), (1, 2)])
    table = ot.replay(
        read([fork(), cyclic]),
        ot.interventions.drop(agent="bob"),
        ot.interventions.drop(each="call"),
        ot.interventions.drop(each="event"),
    )
    numbers = ["effect", "tier", "support", "outcome", "tokens"]
    rows = table.filter(pl.col("reason").is_in(["selection.empty", "graph.cycle"]))
    assert rows["reason"].to_list() == ["graph.cycle", "selection.empty", "graph.cycle", "graph.cycle"]
    assert all(rows[name].null_count() == rows.height for name in numbers)
    # a name that only other traces have
    table = ot.replay(
        read([fork(), run(1, 1.0, chain(3), [(0, 1), (1, 2)])]), ot.interventions.drop(agent="bob")
    )
    assert table["reason"].to_list() == [None, "selection.empty"]


# --- corpora on disk, threads -----------------------------------------------------------------------------


def test_scenarios_come_in_the_order_asked_for() -> None:
    scenarios = [
        ot.interventions.truncate(at=1),
        ot.interventions.concurrency(1),
        ot.interventions.drop(agent="ann"),
        ot.interventions.concurrency([2, None]),
    ]
    table = ot.replay(read([fork(), fork(1)]), *scenarios)
    tiers = ["surrogate"] * 2 + ["schedule"] * 2 + ["surrogate"] * 2 + ["schedule"] * 4
    assert table["tier"].to_list() == tiers
    assert table["trace"].to_list() == [0, 1] * 5


# --- an outcome of one's own ------------------------------------------------------------------------------


def test_an_outcome_of_ones_own() -> None:
    games = []

    def outcome(masks: Any, game: Any) -> Any:
        games.append(game)
        return 10 + masks @ np.array([1.0, 2.0, 4.0, 8.0])

    scenarios = [
        ot.interventions.drop(each="event", mode="node"),
        ot.interventions.drop(agent="ann") & ot.interventions.truncate(event="e1"),
    ]
    table = ot.replay(read([fork(), fork(1)]), *scenarios, outcome=outcome)
    assert [(game.trace_id, game.players) for game in games] == [
        (f"trace{n}", ("e0", "e1", "e2", "e3")) for n in range(2)
    ]
    # e3 is the outcome and answers from what has arrived
    assert table["effect"].to_list() == [-1, -2, -4, -8] * 2 + [-6] * 2
    assert table["outcome"].unique().to_list() == [25]
    assert table["tier"].unique().to_list() == ["surrogate"]
    assert table["lower"].null_count() == table["support"].null_count() == table.height
    assert json.loads(table["params"][0])["outcome"].startswith("own:")
    # what is no number has none
    odd = ot.replay(
        read([fork()]), scenarios[0], outcome=lambda masks, game: np.where(masks[:, 0], 1, np.nan)
    )
    assert odd["effect"].to_list() == [None, 0, 0, 0]
    assert odd["reason"].to_list() == ["result.range", None, None, None]
    assert odd["tier"].to_list() == [None, *["surrogate"] * 3]
    assert odd["tokens_cf"].null_count() == 1  # nor has it what is left of the run


@pytest.mark.parametrize("given", [3, [1.0], np.ones((2, 2)), "text", None])
def test_an_outcome_of_ones_own_returns_one_number_a_run(given: Any) -> None:
    with pytest.raises(ot.ParameterError, match=r"outcome returned .* expected an array of 2 numbers"):
        ot.replay(read([fork()]), ot.interventions.drop(agent="ann"), outcome=lambda masks, game: given)


def test_an_outcome_of_ones_own_that_fails_fails() -> None:
    def outcome(masks: Any, game: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ot.replay(read([fork()]), ot.interventions.drop(agent="ann"), outcome=outcome)


# --- mistakes ---------------------------------------------------------------------------------------------


def own(masks: Any, game: Any) -> Any:
    return masks.mean(axis=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: ot.replay(c), "replay needs an intervention"),
        (lambda c: ot.replay(c, "ann"), "intervention is 'ann', expected one that ot.interventions makes"),
        (
            lambda c: ot.replay(c, [ot.interventions.truncate(at=1)]),
            r"pass them one by one, ot.replay\(corpus, \*interv",
        ),
        (
            lambda c: ot.replay(c, type(ot.interventions.truncate(at=1))),
            "expected one that ot.interventions makes",
        ),
        (lambda c: ot.replay("c", ot.interventions.truncate(at=1)), "corpus is 'c', expected a corpus"),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="anne")),
            "unknown agent 'anne'; did you mean 'ann'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="ann") & ot.interventions.drop(agent="bo")),
            "did you mean 'bob'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="bo") & ot.interventions.run_sequentially()),
            "did you mean 'bob'",
        ),
        (lambda c: ot.replay(c, ot.interventions.drop(role="w")), r"unknown role 'w'.*known: worker"),
        (
            lambda c: ot.replay(c, ot.interventions.drop(tool="web")),
            "unknown tool 'web': no trace has a tool",
        ),
        (lambda c: ot.replay(c, ot.interventions.drop(event="e9")), "no trace has an event with the id 'e9'"),
        (
            lambda c: ot.replay(c, ot.interventions.drop(edge=("e1", "e9"))),
            "no trace has an event with the id 'e9'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.truncate(event="e9")),
            "no trace has an event with the id 'e9'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), outcome="noisyor"),
            "did you mean 'noisy_or'",
        ),
        # options are judged whatever is asked, not only where they are used
        (
            lambda c: ot.replay(c, ot.interventions.run_sequentially(), outcome="noisyor"),
            "did you mean 'noisy_or'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.run_sequentially(), outcome=3),
            "outcome is of type int",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.truncate(at=1), outcome=ot.outcomes.fit(c)),
            "outcome='noisy_or', weights=<",
        ),
        (lambda c: ot.replay(c, ot.interventions.truncate(at=1), durations="gaps"), "did you mean 'gap'"),
        (lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), quorum=1), "quorum is 1"),
        (lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), quorum="x"), "quorum is 'x'"),
        (lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), weights=[1, 2]), "expected 8 numbers"),
        (lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), weights=[-1] * 8), "expected 8 numbers"),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), weights={"causal": 1}),
            "weights has no 'temporal'",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), weights={"casual": 1}),
            "did you mean 'causal'",
        ),
        (lambda c: ot.replay(c, ot.interventions.drop(agent="ann"), threads=0), "threads is 0"),
        (
            lambda c: ot.replay(c, ot.interventions.drop(each="agent") & ot.interventions.drop(each="role")),
            "two each=",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.do(agent="ann", to=1), outcome=own),
            "more than the presence of events",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.drop(each="edge"), outcome=own),
            "more than the presence of events",
        ),
        (
            lambda c: ot.replay(c, ot.interventions.aggregate_by("best") & ot.interventions.concurrency(1)),
            "scenario of its own",
        ),
        (lambda c: ot.interventions.drop(), "drop what. Name one of event="),
        (
            lambda c: ot.interventions.drop(agent="a", tool="b"),
            "select by one of them, and compose two with &",
        ),
        (lambda c: ot.interventions.drop(agent=3), "agent is 3, expected text"),
        (lambda c: ot.interventions.drop(edge="e1"), "edge is 'e1', expected the ids of two events"),
        (lambda c: ot.interventions.drop(type="mesage"), "did you mean 'message'"),
        (lambda c: ot.interventions.drop(each="agents"), "did you mean 'agent'"),
        (lambda c: ot.interventions.drop(agent="a", mode="nodes"), "did you mean 'node'"),
        (lambda c: ot.interventions.drop(agent="a", lost="some"), "lost is 'some', expected 'all' or 'any'"),
        (
            lambda c: ot.interventions.drop(agent="a", mode="node", lost="any"),
            "mode='node' loses nothing more",
        ),
        (lambda c: ot.interventions.do(agent="a", to=2), "to is 2, expected a number from 0 to 1"),
        (lambda c: ot.interventions.do(agent="a", to=float("nan")), "to is nan"),
        (lambda c: ot.interventions.do(to=1), "do what"),
        (lambda c: ot.interventions.do(each="edge", to=1), "each is 'edge', expected"),
        (lambda c: ot.interventions.truncate(), "either at="),
        (lambda c: ot.interventions.truncate(at=1, event="e1"), "not both"),
        (lambda c: ot.interventions.truncate(at=-1), "at is -1"),
        (
            lambda c: ot.interventions.aggregate_by("median"),
            "rule is 'median', expected 'best',",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message) as caught:
        call(read([fork()]))
    assert "\n" not in str(caught.value)


def test_interventions_are_values() -> None:
    both = (
        ot.interventions.drop(agent="ann") & ot.interventions.truncate(at=1) & ot.interventions.concurrency(2)
    )
    assert both == ot.interventions.drop(agent="ann") & (
        ot.interventions.truncate(at=1.0) & ot.interventions.concurrency(2)
    )
    assert hash(ot.interventions.drop(agent="ann")) == hash(ot.interventions.drop(agent="ann"))
    assert [part["kind"] for part in both.spec()["parts"]] == ["drop", "truncate", "concurrency"]
    assert repr(ot.interventions.drop(each="event", mode="node")) == "drop(each='event', mode='node')"
    with pytest.raises(TypeError):
        ot.interventions.drop(agent="ann") & 3  # type: ignore[operator]


def test_a_corpus_without_traces() -> None:
    empty = read([fork()]).filter(pl.col("trace") > 5)
    for options in ({}, {"outcome": own}):
        table = ot.replay(empty, ot.interventions.drop(agent="ann"), **options)  # type: ignore[arg-type]
        assert table.height == 0 and dict(table.schema) == dict(REPLAYS)


@pytest.mark.parametrize("ask", [ot.interventions.drop, ot.interventions.skip])
def test_the_nearest_of_many_names_is_told_without_listing_them(ask: Any) -> None:
    corpus = read([run(0, 1.0, [event(n, f"worker{n:02}") for n in range(60)])])
    with pytest.raises(ot.ParameterError) as caught:
        ot.replay(corpus, ask(agent="wroker59"))
    assert str(caught.value) == "unknown agent 'wroker59'; did you mean 'worker59'? (60 are known)"
