"""`agent_opsd`: its definition in loops, and what holds whatever the evidence is."""

import math
from statistics import fmean, pstdev

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from samples.hand_runs import event, read, run

Runs = list[tuple[list[float | None], float]]
"""The evidence of each turn, and the reward."""


def corpus_of(runs: Runs) -> ot.Corpus:
    documents = []
    for n, (evidence, reward) in enumerate(runs):
        events = []
        for turn, one in enumerate(evidence):
            events.append(event(2 * turn, "policy", turn=turn))
            said = {} if one is None else {"score": one}
            events.append(event(2 * turn + 1, "policy", "tool_call", tool="x", turn=turn, **said))
        documents.append(run(n, reward, events, task="task"))
    return read(documents)


def by_hand(
    runs: Runs, advantages: list[list[float]], gamma: float, b: float, mixture: float
) -> list[list[float]]:
    share = min(max(fmean(reward >= 1.0 for _, reward in runs), 0.01), 0.99)
    out = []
    for (evidence, _), own in zip(runs, advantages, strict=True):
        belief, heard, moves = share, 0.0, []
        for one in evidence:
            heard = gamma * heard + (one or 0.0)
            after = 1.0 / (1.0 + math.exp(-math.log(share / (1.0 - share)) - heard))
            moves.append(after - belief)
            belief = after
        moves = [math.copysign(move, move * a) if a else 0.0 for move, a in zip(moves, own, strict=True)]
        spread = pstdev(moves)
        if not any(evidence) or spread <= 1e-12:
            out.append(own)
            continue
        z = [(move - fmean(moves)) / spread for move in moves]
        w = [min(max(1.0 + b * one, 1.0 - b), 1.0 + b) for one in z]
        out.append([((1.0 - mixture) + mixture * one) * a for one, a in zip(w, own, strict=True)])
    return out


EVIDENCE = st.lists(st.one_of(st.none(), st.integers(-4, 4).map(float)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(EVIDENCE, st.sampled_from([0.0, 0.4, 1.0])), min_size=2, max_size=5),
    st.sampled_from([0.0, 0.95, 1.0]),
    st.sampled_from([0.0, 0.25, 1.0]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_it_is_its_definition(runs: Runs, gamma: float, strength: float, mixture: float) -> None:
    corpus = corpus_of(runs)
    credits = ot.credit(corpus, method="dr_grpo", unit="turn").sort("trace", "unit_id")
    weighed = ot.trainers.agent_opsd(
        corpus, credits, "score", gamma=gamma, strength=strength, mixture=mixture
    )
    own = [credits.filter(trace=n)["credit"].to_list() for n in range(len(runs))]
    wanted = by_hand(runs, own, gamma, strength, mixture)
    for n, values in enumerate(wanted):
        assert weighed.filter(trace=n)["credit"].to_list() == pytest.approx(values, abs=1e-12)
    assert weighed.drop("credit").equals(credits.drop("credit"))
    ratio = (weighed["credit"] / credits["credit"]).drop_nans()
    assert ((ratio - 1.0).abs() <= mixture * strength + 1e-12).all()
    assert (weighed["credit"].sign() == credits["credit"].sign()).all() or mixture * strength == 1.0


def test_who_moves_the_belief_towards_the_outcome_gets_more() -> None:
    corpus = corpus_of([([2.0, 0.0, -1.0], 1.0), ([0.0, 0.0, 0.0], 0.0)])
    credits = ot.credit(corpus, method="dr_grpo", unit="turn").sort("trace", "unit_id")
    weighed = ot.trainers.agent_opsd(corpus, credits, "score", gamma=1.0)
    first, second, third = weighed.filter(trace=0)["credit"]
    assert first > second > third > 0.0
    assert weighed.filter(trace=1).equals(credits.filter(trace=1)), "no evidence"


def test_evidence_of_a_turn_is_the_sum_over_its_events() -> None:
    """Whichever of them has it, and whichever has none."""
    weighed = []
    for scores in ((2.0, None), (None, 2.0), (1.5, 0.5)):
        said = [{} if score is None else {"score": score} for score in scores]
        events = [event(n, "x", turn=0, **fields) for n, fields in enumerate(said)]
        events += [event(2, "x", turn=1, score=-1.0), event(3, "x", turn=2, score=0.25)]
        corpus = read([run(0, 1.0, events), run(1, 0.0, [event(0, "x", turn=0)])])
        credits = ot.credit(corpus, method="dr_grpo", unit="turn")
        weighed.append(ot.trainers.agent_opsd(corpus, credits, "score")["credit"].to_list())
    assert weighed[0] == weighed[1] == weighed[2]


def test_what_is_no_advantage_of_turns_is_refused() -> None:
    corpus = corpus_of([([1.0], 1.0), ([0.0], 0.0)])
    with pytest.raises(ot.ParameterError, match=r"credits has unit \['event'\]"):
        ot.trainers.agent_opsd(corpus, ot.credit(corpus, method="dr_grpo", unit="event"), "score")
    with pytest.raises(ot.ParameterError, match=r"quantity \['share'\]"):
        ot.trainers.agent_opsd(corpus, ot.credit(corpus, method="uniform", unit="turn"), "score")
    credits = ot.credit(corpus, method="dr_grpo", unit="turn")
    with pytest.raises(ot.ParameterError, match="evidence: unknown column of numbers 'agent'"):
        ot.trainers.agent_opsd(corpus, credits, "agent")
    with pytest.raises(ot.ParameterError, match="credits: unknown column 'quantity'"):
        ot.trainers.agent_opsd(corpus, credits.drop("quantity"), "score")
    nothing = credits.with_columns(credit=pl.lit(None, pl.Float64))
    assert ot.trainers.agent_opsd(corpus, nothing, "score").equals(nothing)
