"""Games on recordings: difference rewards and Shapley values against a plain-Python surrogate, by unit."""

import math

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.surrogate import Game
from reference.trace import Trace
from samples.examples import examples
from samples.hand_runs import credited, event, read, run
from samples.random_runs import Document, corpora

QUICK = examples(25, derandomize=True)
UNITS = ("team", "role", "agent", "turn", "event", "orchestrator", "message", "tool")
MODELS = ("noisy_or", "noisy_and", "linear", "mean", "max", "min", "reachability")
GIVEN = [0.3, 0.8, 0.5, 0.4, 0.9, 0.0, 0.7, 1.5]

options = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(MODELS),
        "weights": st.sampled_from([None, GIVEN]),
        "players": st.sampled_from(["all", "no_root"]),
        "program_order": st.booleans(),
    }
)


@pytest.mark.parametrize("method", ["difference", "shapley"])
@QUICK
@given(documents=corpora(max_traces=3, max_events=6), options=options, data=st.data())
def test_values_of_the_surrogate(
    method: str, documents: list[Document], options: dict[str, object], data: st.DataObject
) -> None:
    unit = data.draw(st.sampled_from(UNITS))
    found = credited(documents, method, unit, scaled=False, **options)
    for n, document in enumerate(documents):
        trace = Trace(document)
        rows = {name: value for (i, name), value in found.items() if i == n}
        game = Game(trace, unit, **options)  # type: ignore[arg-type]
        if trace.unknown:
            assert set(rows.values()) == {(None, trace.unknown)}
            continue
        if trace.topological(trace.weights(program_order=bool(options["program_order"]))) is None:
            assert set(rows.values()) == {(None, "graph.cycle")}
            continue
        wanted = game.rows(game.shapley() if method == "shapley" else game.difference())
        for name, (credit, reason) in rows.items():
            if name not in wanted:
                assert (credit, reason) == (None, "player.fixed") and options["players"] == "no_root"
                continue
            assert credit == pytest.approx(wanted.pop(name), abs=1e-12) and reason is None
        assert set(wanted) <= {None} and all(value == 0.0 for value in wanted.values())


def team() -> ot.Corpus:
    """One lead, and agents whose returns feed an aggregate."""
    documents = []
    for trace, n in enumerate([3, 8, 14]):
        agents = [f"a{i}" for i in range(n)]
        events = [event(0, "lead", "orchestrator_decision")]
        events += [event(i + 1, agent, "return") for i, agent in enumerate(agents)]
        events += [event(n + 1, "lead", "aggregate")]
        edges = [(0, i + 1) for i in range(n)] + [(i + 1, n + 1) for i in range(n)]
        edges += [(i, i + 2) for i in range(1, n - 1, 3)]
        documents.append(run(trace, 0.5 + trace, events, edges))
    return read(documents)


def test_samples_add_up_and_come_with_errors() -> None:
    corpus = team()
    exact = ot.credit(corpus, method="shapley", unit="agent")
    assert exact["stderr"].null_count() == exact["n_samples"].null_count() == exact.height
    assert exact["reward"].null_count() == exact.height and set(exact["tier"].cast(pl.String)) == {
        "surrogate"
    }
    for sampler in ("permutation", "antithetic"):
        frame = ot.credit(corpus, method="shapley", unit="agent", samples=2000, sampler=sampler, seed=3)
        rows = frame.filter(pl.col("unit_id").is_not_null()).join(
            exact, on=["trace", "unit_id"], suffix="_exact"
        )
        draws = 1000 if sampler == "antithetic" else 2000
        assert set(rows["n_samples"]) == {draws} and rows["stderr"].gt(0).all()
        away = (rows["credit"] - rows["credit_exact"]).abs()
        assert (away < 5 * rows["stderr"]).all() and away.max() > 0
        assert frame["residual"].abs().max() < 1e-12
    few = ot.credit(corpus, method="shapley", unit="agent", samples=2, sampler="permutation")
    assert few["residual"].abs().max() < 1e-12, "efficiency holds for any number of orders"
    for seed, same in ((0, True), (1, False)):
        again = ot.credit(corpus, method="shapley", unit="agent", samples=2, sampler="permutation", seed=seed)
        assert again["credit"].equals(few["credit"]) is same


def test_evaluation_and_threads_do_not_show() -> None:
    corpus = ot.generate(traces=4, preset="tail", seed=1)
    bits = set()
    for threads in (1, 2, 7):
        for evaluation in ("full", "incremental", "auto"):
            frame = ot.credit(
                corpus, method="shapley", unit="agent", samples=150, evaluation=evaluation, threads=threads
            )
            bits.add(
                (frame["credit"].to_numpy().tobytes(), frame["stderr"].fill_null(-1).to_numpy().tobytes())
            )
    assert len(bits) == 1


def test_too_many_players_are_refused_before_any_work() -> None:
    events = [event(n, f"a{n}") for n in range(30)] + [event(30, "lead", "aggregate")]
    corpus = read([run(0, 1.0), run(1, 1.0, events, [(n, 30) for n in range(30)])])
    with pytest.raises(
        ot.ParameterError,
        match=r"1 of 2 traces need more at unit 'agent': up to 31 players, 2\^31 evaluations of 31 events",
    ):
        ot.credit(corpus, method="shapley", unit="agent")
    assert ot.credit(corpus, method="shapley", unit="agent", samples=9).height == 32
    # a trace whose edges close a cycle has no value at all, however many play
    loop = run(1, 1.0, events, [(n, n + 1) for n in range(30)] + [(30, 0)])
    found = credited(read([loop]), "shapley", "agent")
    assert set(found.values()) == {(None, "graph.cycle")}
    for params, message in (
        ({"samples": 1}, "whole number from 2"),
        ({"sampler": "permutation"}, "needs samples"),
        ({"quorum": 1.0}, "quorum is 1"),
        ({"unit": "token"}, "token"),
    ):
        with pytest.raises(ot.ParameterError, match=message):
            ot.credit(corpus, method="shapley", **{"unit": "agent", **params})  # type: ignore[call-overload]


def test_scaled_values_divide_the_reward() -> None:
    corpus = team()
    plain = ot.credit(corpus, method="shapley", unit="agent", players="no_root")
    scaled = ot.credit(corpus, method="shapley", unit="agent", players="no_root", scaled=True)
    assert plain.filter(unit_id="lead")["reason"].cast(pl.String).to_list() == ["player.fixed"] * 3
    for trace, reward in enumerate([0.5, 1.5, 2.5]):
        own = scaled.filter(trace=trace)
        assert math.isclose(own["credit"].sum(), reward)
        values = plain.filter(trace=trace)["credit"]  # nobody and the lead alone are worth 0 here
        assert (own["credit"] - values * reward / values.sum()).abs().max() < 1e-12
    # a corpus without the channel plays as well, and pays nobody
    bare = read([run(0, None, [event(0)]), run(1, 1.0)])
    assert credited(bare, "shapley", "agent", scaled=False)[0, "lead"] == (1.0, None)
    assert credited(bare, "shapley", "agent")[0, "lead"] == (None, "reward.absent")
