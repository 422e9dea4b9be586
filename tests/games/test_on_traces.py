"""Solutions of games on recordings: the surrogate, roles, links and spawns of D15 and D16 in plain Python."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

import orchestrace as ot
from reference import games as solutions
from reference.games import Tree, Value
from reference.surrogate import Game
from reference.trace import Trace
from samples.examples import examples
from samples.hand_runs import credited, event, read, run
from samples.random_runs import Document, corpora

QUICK = examples(25, derandomize=True)
TEAMS = ("myerson", "precedence_shapley", "permission")
METHODS = ("banzhaf", "normalized_banzhaf", "owen", "winter", *TEAMS)


def listed(game: Game) -> list[float]:
    """What every coalition is worth."""
    players = game.players
    return solutions.table(len(players), lambda s: game.value(frozenset(players[p] for p in s)))


def links_of(trace: Trace, players: list[str]) -> list[tuple[int, int]]:
    """Who sends somebody a message, return or spawn, or whose events one of these edges joins."""
    pairs = []
    for v, one in enumerate(trace.events):
        if one["type"] in ("message", "return", "spawn"):
            pairs.append((trace.owner[v], one["to"]))
    for (u, v), kinds in trace.edges.items():
        if {"message", "return", "spawn"} & set(kinds):
            pairs.append((trace.owner[u], trace.owner[v]))
    known = [(a, b) for a, b in pairs if a in players and b in players and a != b]
    return sorted({tuple(sorted((players.index(str(a)), players.index(str(b))))) for a, b in known})


def parents_of(trace: Trace, players: list[str]) -> list[int | None]:
    """The owner of the first spawn that names an agent, unless that closes a loop."""
    parents: dict[str, str] = {}
    for v in trace.order:
        one, spawner = trace.events[v], trace.owner[v]
        child = one["to"]
        if one["type"] != "spawn" or spawner is None or child not in trace.agents:
            continue
        if child == trace.root or child in parents:
            continue
        above: str | None = spawner
        while above is not None and above != child:
            above = parents.get(above)
        if above is None:
            parents[child] = spawner
    found = [parents.get(player) for player in players]
    return [players.index(p) if p in players else None for p in found]


def divided(players: list[Any], label: dict[Any, Any]) -> list[list[int]]:
    """Players by what they are labeled; who has no label is alone."""
    groups: dict[Any, list[int]] = {}
    for p, player in enumerate(players):
        own = label[player]
        groups.setdefault(("alone", p) if own is None else own, []).append(p)
    return list(groups.values())


def solved(method: str, trace: Trace, unit: str, game: Game) -> Value:
    table, players = listed(game), game.players
    if method == "banzhaf":
        return solutions.banzhaf(table)
    if method == "normalized_banzhaf":
        return solutions.normalized_banzhaf(table)
    if method == "myerson":
        return solutions.myerson(table, links_of(trace, players))
    if method in ("precedence_shapley", "permission"):
        solve = getattr(solutions, method)
        value: Value = solve(table, parents_of(trace, players))
        return value
    level = "agent" if unit in ("role", "team") else unit
    units = trace.units(level)
    agent = {player: trace.owner[units.index(player)] for player in players}
    role = {player: trace.role[agent[player]] for player in players}
    if method == "owen":
        return solutions.owen(table, divided(players, role))
    # a role of agents, an agent of no role, one of neither
    label = {p: ("role", role[p]) if role[p] else agent[p] and ("agent", agent[p]) for p in players}
    outer = divided(players, label)
    tree: Tree = tuple(
        tuple(tuple(union[k] for k in inner) for inner in divided([players[p] for p in union], agent))
        for union in outer
    )
    return solutions.winter(table, tree)


@pytest.mark.parametrize("method", METHODS)
@QUICK
@given(documents=corpora(max_traces=2, max_events=6), fixed=st.booleans(), data=st.data())
def test_solutions_of_the_surrogate(
    method: str, documents: list[Document], fixed: bool, data: st.DataObject
) -> None:
    outcome = data.draw(st.sampled_from(["noisy_or", "min"]))
    options = {"players": "no_root" if fixed else "all", "outcome": outcome}
    units = ["team", "role", "agent"] if method in TEAMS else ["role", "agent", "event", "turn"]
    unit = data.draw(st.sampled_from(units))
    found = credited(documents, method, unit, scaled=False, **options)
    for n, document in enumerate(documents):
        trace = Trace(document)
        rows = {name: value for (i, name), value in found.items() if i == n}
        game = Game(trace, unit, **options)
        if trace.unknown:
            assert set(rows.values()) == {(None, trace.unknown)}
            continue
        if trace.topological(trace.weights()) is None:
            assert set(rows.values()) == {(None, "graph.cycle")}
            continue
        try:
            values = solved(method, trace, unit, game)
        except ZeroDivisionError:
            # Banzhaf values of nobody who matters
            values = [0.0] * len(game.players)
        wanted = game.rows(dict(zip(game.players, values, strict=True)))
        for name, (credit, reason) in rows.items():
            if name not in wanted:
                assert (credit, reason) == (None, "player.fixed")
                continue
            assert credit == pytest.approx(wanted.pop(name), abs=1e-9), (unit, name)
            assert reason is None
        assert set(wanted) <= {None}
        assert all(value == 0.0 for value in wanted.values())


def team(n: int) -> ot.Corpus:
    """A lead who asks n agents, in a row of whom each tells the next, and sums up."""
    agents = [f"a{i}" for i in range(n)]
    events = [event(0, "lead", "orchestrator_decision", role="lead")]
    events += [event(i + 1, "lead", "spawn", to=agent) for i, agent in enumerate(agents)]
    events += [
        event(n + i + 1, agent, "return", to="lead", role=f"r{i % 3}") for i, agent in enumerate(agents)
    ]
    events += [event(2 * n + 1, "lead", "aggregate", role="lead")]
    edges = [(0, i + 1) for i in range(n)] + [(i + 1, n + i + 1) for i in range(n)]
    edges += [(n + i + 1, 2 * n + 1) for i in range(n)] + [(n + i + 1, n + i + 2) for i in range(0, n - 1, 3)]
    return read([run(0, 1.0, events, edges)])


@pytest.mark.parametrize("method", ["shapley", *METHODS])
def test_samples_on_a_trace_have_errors_per_row(method: str) -> None:
    corpus = team(11)
    for unit in ("agent", "role"):
        exact = ot.credit(corpus, method=method, unit=unit)
        drawn = ot.credit(corpus, method=method, unit=unit, samples=90, seed=2)
        assert exact["stderr"].null_count() == exact.height
        if drawn["stderr"].null_count() == drawn.height:
            assert drawn["credit"].equals(exact["credit"]), "as cheap exactly"
            assert method in ("owen", "winter")
            continue
        away = (drawn["credit"] - exact["credit"]).abs()
        assert (away <= 4.5 * drawn["stderr"] + 1e-12).all(), (unit, drawn)
        if method != "banzhaf":
            assert abs(drawn["residual"][0] - exact["residual"][0]) < 1e-9
    again = ot.credit(corpus, method=method, unit=unit, samples=90, seed=2, threads=7)
    assert again.equals(drawn)


def test_a_call_beyond_the_limit_says_what_to_pass() -> None:
    with pytest.raises(ot.ParameterError, match=r"'banzhaf' is exact up to 20 players, .* pass samples="):
        ot.credit(team(30), method="banzhaf", unit="agent")
    # a lead and 30 spawned have 2^30 + 1 closed sets
    with pytest.raises(ot.ParameterError, match="precedence_shapley"):
        ot.credit(team(30), method="precedence_shapley", unit="agent")


# --- an outcome of one's own -------------------------------------------------------------------------


def test_an_own_outcome_takes_the_place_of_the_surrogate() -> None:
    corpus = team(5)
    seen = set()

    def pay(masks: NDArray[np.bool_], game: Any) -> NDArray[np.float64]:
        seen.add((game.trace_id, tuple(game.players)))
        weights = np.array([float(name != "lead") for name in game.players])
        return np.asarray(3.0 + masks @ weights)

    players = ("lead", "a0", "a1", "a2", "a3", "a4")
    for method in ("shapley", "difference", *METHODS):
        found = credited(corpus, method, "agent", scaled=False, outcome=pay)
        assert found.pop((0, None)) == (3.0, None)
        if method == "permission":
            # without the lead nobody is there: it has half of each
            assert found[0, "lead"][0] == pytest.approx(2.5)
        else:
            assert [credit for credit, _ in found.values()] == pytest.approx([0.0, 1, 1, 1, 1, 1])
    assert seen == {("trace0", players)}
    frame = ot.credit(corpus, method="shapley", unit="role", outcome=pay)
    assert json.loads(frame["params"][0])["outcome"].endswith("<locals>.pay")
    events = ot.credit(corpus, method="shapley", unit="event", outcome=lambda m, game: m.sum(axis=1) * 1.0)
    assert events["credit"].drop_nulls().to_list() == pytest.approx([1.0] * 12)


class Fault(Exception):
    pass


@pytest.mark.parametrize(
    ("outcome", "options", "error", "message"),
    [
        (lambda m, game: 1.0, {}, ot.ParameterError, r"outcome gave an array of shape \(\) for 2 coalitions"),
        (lambda m, game: [math.nan] * len(m), {}, ot.ParameterError, "outcome is nan for the coalition"),
        (lambda m, game: m.sum(axis=1), {"quorum": 0.4}, ot.ParameterError, "knows no quorum"),
        (lambda m, game: m.sum(axis=1), {"method": "flow"}, ot.ParameterError, "'flow' plays no game"),
    ],
)
def test_mistakes_of_an_own_outcome_are_told(
    outcome: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ot.credit(team(3), **{"method": "shapley", "unit": "agent", "outcome": outcome, **options})


def test_what_an_own_outcome_raises_comes_out_as_it_is() -> None:
    def fails(masks: Any, game: Any) -> Any:
        raise Fault(game.trace_id)

    for threads in (1, 2):
        with pytest.raises(Fault, match="trace0"):
            ot.credit(team(3), method="shapley", unit="agent", outcome=fails, threads=threads)


# --- sharp -------------------------------------------------------------------------------------------


def rollouts() -> list[Document]:
    made = []
    for trace, (reward, oks) in enumerate([(1.0, [True, False]), (0.0, [True, True]), (0.5, [])]):
        events = [event(0, "lead", "orchestrator_decision")]
        events += [event(1, "ann", "message", to="lead"), event(2, "bob", "message", to="lead")]
        for ok in oks:
            call = event(len(events), "ann", "tool_call", tool="run")
            events += [call, event(len(events) + 1, "ann", "tool_result", tool="run", ok=ok)]
        edges = [(0, 1), (0, 2), (1, len(events)), (2, len(events))][: 2 if trace == 2 else 4]
        events += [event(len(events), "lead", "aggregate")]
        if trace == 2:
            edges += [(1, len(events) - 1)]
        made.append(run(trace, reward, events, edges))
    return made


@pytest.mark.parametrize("norm", ["none", "mean", "mean_std"])
def test_sharp_is_its_formula(norm: str) -> None:
    documents = rollouts()
    weights = {"broadcast": 0.5, "marginal": 2.0, "process": 3.0}
    found = credited(documents, "sharp", "agent", norm=norm, **weights)
    raw: dict[tuple[int, str], float] = {}
    for n, document in enumerate(documents):
        trace = Trace(document)
        game = Game(trace, "agent")
        everybody = frozenset(game.players)
        for agent in game.players:
            gain = game.value(everybody) - game.value(everybody - {agent})
            own = [one for one, owner in zip(document["events"], trace.owner, strict=True) if owner == agent]
            oks = [one["ok"] for one in own if one["type"] == "tool_result"]
            went = sum(oks) / len(oks) if oks else 0.0
            reward = document["rewards"]["team"]
            raw[n, agent] = 0.5 * reward + 2.0 * gain + 3.0 * went
    for (n, agent), value in raw.items():
        same = [x for (_, other), x in raw.items() if other == agent]
        if norm != "none":
            value -= sum(same) / len(same)
        if norm == "mean_std":
            value /= float(np.std(same, ddof=1)) + 1e-6
        assert found[n, agent] == (pytest.approx(value, abs=1e-9), None)


def test_sharp_without_judged_tools_has_no_value_where_they_count() -> None:
    documents = rollouts()
    for one in documents[0]["events"]:
        one.pop("ok", None)
    found = credited(documents, "sharp", "agent", process=1.0, norm="none")
    assert {reason for (n, _), (_, reason) in found.items() if n == 0} == {"field.absent"}
    assert {reason for (n, _), (_, reason) in found.items() if n > 0} == {None}
    assert None not in {credit for credit, _ in credited(documents, "sharp", "agent", norm="none").values()}
