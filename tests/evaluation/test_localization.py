"""Localization against a plain reference that enumerates every order of tied turns, and hand-made cases."""

import itertools
import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.evaluation.attribution import BASELINES
from samples.examples import examples

WITHIN = (1, 3)
METRICS = ["agent_accuracy", "step_accuracy", "within_1", "within_3", "mrr"]


def credits_of(traces, method="m", unit="turn"):
    """`traces`: trace_id -> list of (unit_id, credit)."""
    rows = [(t, method, unit, name, value) for t, units in traces.items() for name, value in units]
    return pl.DataFrame(rows, schema=["trace_id", "method", "unit", "unit_id", "credit"], orient="row").cast(
        {"credit": pl.Float64}
    )


def labels_of(rows, annotator="a"):
    return pl.DataFrame(
        [(t, annotator, turn, agent) for t, turn, agent in rows],
        schema={"trace_id": pl.String, "annotator": pl.String, "turn": pl.UInt32, "agent": pl.String},
        orient="row",
    )


def row(table, method):
    return table.row(by_predicate=pl.col("method") == method, named=True)


def reference(turns, agents, steps, names):
    """Expected metrics of one trace, as exact fractions, by enumerating all orders of all turns."""
    score = [-math.inf if credit is None else credit for _, credit in turns]
    split = [name.rpartition("/") for name, _ in turns]
    speakers = [owner.lower() for owner, _, _ in split]
    numbers = [None if n.startswith("+") else int(n) for _, _, n in split]
    orders = [
        order
        for order in itertools.permutations(range(len(turns)))
        if all(score[a] >= score[b] for a, b in itertools.pairwise(order))
    ]
    names = {name.lower() for name in names}
    hit = dict.fromkeys(METRICS, Fraction(0))
    for order in orders:
        top = order[0]
        hit["agent_accuracy"] += speakers[top] in names
        off = min((abs(numbers[top] - s) for s in steps), default=99) if numbers[top] is not None else 99
        hit["step_accuracy"] += off == 0
        for k in WITHIN:
            hit[f"within_{k}"] += off <= k
        ranks = [rank for rank, i in enumerate(order, 1) if numbers[i] in steps]
        hit["mrr"] += Fraction(1, ranks[0]) if ranks else 0
    expected = {metric: value / len(orders) for metric, value in hit.items()}
    if agents:
        values = [-math.inf if credit is None else credit for _, credit in agents]
        tops = [name.lower() for (name, _), v in zip(agents, values, strict=True) if v == max(values)]
        expected["agent_accuracy"] = Fraction(sum(name in names for name in tops), len(tops))
    return expected


SPEAKERS = ["Ann", "bob", "c/d"]
CREDIT = st.sampled_from([None, 0.0, 1.0, 2.0])


@st.composite
def traces(draw):
    turns = draw(
        st.lists(
            st.tuples(st.sampled_from(SPEAKERS), st.sampled_from(["0", "1", "2", "3", "4", "7", "+0", "+1"])),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    agents = sorted({speaker for speaker, _ in turns})
    return {
        "turns": [(f"{speaker}/{n}", draw(CREDIT)) for speaker, n in turns],
        "agents": [(name, draw(CREDIT)) for name in agents],
        "steps": draw(st.sets(st.sampled_from([0, 1, 2, 4, 9]), min_size=1, max_size=2)),
        "names": draw(st.sets(st.sampled_from(["ANN", "Bob", "c/d", "nobody"]), min_size=1, max_size=2)),
    }


@examples(80)
@given(st.lists(traces(), min_size=1, max_size=5), st.booleans(), st.booleans())
def test_every_metric_equals_the_enumeration_of_all_orders(cases, with_agents, lowest):
    sign = -1.0 if lowest else 1.0
    turn_rows, agent_rows, label_rows = {}, {}, []
    for i, case in enumerate(cases):
        signed = [
            [(n, None if c is None else sign * c) for n, c in case[part]] for part in ("turns", "agents")
        ]
        turn_rows[f"t{i}"], agent_rows[f"t{i}"] = signed
        label_rows += [(f"t{i}", step, None) for step in case["steps"]]
        label_rows += [(f"t{i}", None, name) for name in case["names"]]
    credits = credits_of(turn_rows)
    if with_agents:
        credits = pl.concat([credits, credits_of(agent_rows, unit="agent")])
    table = ot.evaluation.failure_attribution(
        credits, labels_of(label_rows), within=WITHIN, blame="lowest" if lowest else "highest"
    )
    found = row(table, "m")
    expected = [
        reference(c["turns"], c["agents"] if with_agents else None, c["steps"], c["names"]) for c in cases
    ]
    for metric in METRICS:
        mean = float(sum(e[metric] for e in expected) / len(expected))
        assert found[metric] == pytest.approx(mean, abs=1e-12), metric
        if len(cases) > 1:
            assert 0.0 <= found[f"{metric}_lower"] <= found[f"{metric}_upper"] <= 1.0
        else:
            assert found[f"{metric}_lower"] is found[f"{metric}_upper"] is None
    assert found["interval_reason"] == (None if len(cases) > 1 else "support.absent")


@examples(30)
@given(st.lists(traces(), min_size=2, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(cases, random):
    turn_rows = {f"t{i}": [(n, c) for n, c in case["turns"]] for i, case in enumerate(cases)}
    labels = labels_of([(f"t{i}", step, "Ann") for i, case in enumerate(cases) for step in case["steps"]])
    credits = credits_of(turn_rows).with_row_index("seq")  # the order of turns is data, not the order of rows
    shuffled = credits.sample(fraction=1.0, shuffle=True, seed=random.randrange(1000))
    assert ot.evaluation.failure_attribution(credits, labels).equals(
        ot.evaluation.failure_attribution(shuffled, labels.reverse())
    )


def speech(*speakers):
    return [(f"{name}/{i}", None) for i, name in enumerate(speakers)]


def test_positional_baselines_by_hand():
    credits = credits_of({"x": speech("A", "B", "C", "B", "D")})
    labels = labels_of([("x", 3, "B")])
    table = ot.evaluation.failure_attribution(credits, labels, within=(1,))
    wanted = {  # agent, step, within 1, mrr
        "baseline: random": (2 / 5, 1 / 5, 3 / 5, (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 5),
        "baseline: first speaker": (0, 0, 0, 1 / 4),
        "baseline: last speaker": (0, 0, 1, 1 / 2),
        # B's first turn is 1; by distance 0 and 2 tie next, then 3
        "baseline: most frequent speaker": (1, 0, 0, 1 / 4),
    }
    for name, values in wanted.items():
        found = row(table, name)
        got = [found[m] for m in ("agent_accuracy", "step_accuracy", "within_1", "mrr")]
        assert got == pytest.approx(values), name
        assert found["agent_vs_best"] is None
    # all credits are null: no answer, hence as good as drawing a turn
    same = [row(table, name)["step_accuracy"] for name in ("m", "baseline: random")]
    assert same[0] == same[1]
    # one trace alone has no other fold to choose a constant on
    assert row(table, "baseline: constant step")["step_accuracy"] is None


def test_most_frequent_speaker_takes_the_earlier_of_equals():
    table = ot.evaluation.failure_attribution(
        credits_of({"x": speech("A", "B", "A", "B")}), labels_of([("x", 0, "A")])
    )
    assert row(table, "baseline: most frequent speaker")["agent_accuracy"] == 1.0


def test_constant_step_is_chosen_on_the_other_folds():
    # Leave one out. Two traces are right at step 1, one at step 2: the two see one vote each for 1 and 2 and
    # take the smaller, the third sees two votes for 1.
    said = {name: speech("A", "B", "C", "D") for name in "xyz"}
    labels = labels_of([("x", 1, "B"), ("y", 1, "B"), ("z", 2, "C")])
    table = ot.evaluation.failure_attribution(credits_of(said), labels, folds=3)
    found = row(table, "baseline: constant step")
    assert found["step_accuracy"] == pytest.approx(2 / 3)
    # Each trace right at a step of its own: what is chosen elsewhere is never right here.
    labels = labels_of([("x", 1, "B"), ("y", 2, "C"), ("z", 3, "D")])
    table = ot.evaluation.failure_attribution(credits_of(said), labels, folds=3)
    assert row(table, "baseline: constant step")["step_accuracy"] == 0.0


def test_constant_step_beyond_the_end_takes_the_nearest_turn():
    said = {"x": speech(*"ABCDEF"), "y": speech(*"ABCDEF"), "z": speech("A", "B")}
    labels = labels_of([("x", 5, "F"), ("y", 5, "F"), ("z", 1, "B")])
    table = ot.evaluation.failure_attribution(credits_of(said), labels, folds=3)
    assert row(table, "baseline: constant step")["step_accuracy"] == 1.0


def many(n, method, right):
    """`n` traces of ten turns; the label is at turn `7 i mod 10`, found where `right(i)`."""
    said, labels = {}, []
    for i in range(n):
        step = 7 * i % 10
        blamed = step if right(i) else (step + 5) % 10
        said[f"t{i:03}"] = [(f"S{k}/{k}", float(k == blamed)) for k in range(10)]
        labels.append((f"t{i:03}", step, f"s{step}"))
    return credits_of(said, method), labels_of(labels)


def test_verdict_against_the_best_baseline():
    good, labels = many(60, "good", lambda i: True)
    bad, _ = many(60, "bad", lambda i: False)
    chance, _ = many(60, "chance", lambda i: i % 10 == 3)
    table = ot.evaluation.failure_attribution(pl.concat([good, bad, chance]), labels)
    assert row(table, "good")["step_vs_best"] == row(table, "good")["agent_vs_best"] == "better"
    assert row(table, "bad")["step_vs_best"] == "worse"
    assert row(table, "chance")["step_vs_best"] == "indistinct"
    assert table["method"].to_list() == ["good", "bad", "chance", *BASELINES]


def test_interval_covers_the_binomial_one_and_follows_the_seed():
    credits, labels = many(100, "m", lambda i: i < 30)
    table = ot.evaluation.failure_attribution(credits, labels, seed=1)
    found = row(table, "m")
    half = 1.96 * math.sqrt(0.3 * 0.7 / 100)
    assert found["step_accuracy"] == pytest.approx(0.3)
    assert found["step_accuracy_lower"] == pytest.approx(0.3 - half, abs=0.02)
    assert found["step_accuracy_upper"] == pytest.approx(0.3 + half, abs=0.02)
    assert table.equals(ot.evaluation.failure_attribution(credits, labels, seed=1))
    assert not table.equals(ot.evaluation.failure_attribution(credits, labels, seed=2))
    narrow = row(ot.evaluation.failure_attribution(credits, labels, seed=1, confidence=0.5), "m")
    assert narrow["step_accuracy_upper"] < found["step_accuracy_upper"]


def test_a_trace_without_rows_of_a_method_is_a_miss_and_no_turns_give_no_step():
    both, labels = many(4, "all", lambda i: True)
    half = many(2, "half", lambda i: True)[0]
    agents = credits_of({f"t{i:03}": [(f"S{7 * i % 10}", 1.0)] for i in range(4)}, "agents", "agent")
    table = ot.evaluation.failure_attribution(pl.concat([both, half, agents]), labels)
    assert row(table, "half")["step_accuracy"] == 0.5
    assert row(table, "agents")["agent_accuracy"] == 1.0
    assert row(table, "agents")["step_accuracy"] is None


def test_annotators_stay_apart_and_traces_without_credit_do_not_count():
    credits, labels = many(4, "m", lambda i: True)
    other = labels.with_columns(
        annotator=pl.lit("b"), turn=pl.lit(99, pl.UInt32), agent=pl.lit(None, pl.String)
    )
    stranger = labels_of([("elsewhere", 0, "A")])
    table = ot.evaluation.failure_attribution(credits, pl.concat([labels, other, stranger]).lazy())
    first, second = (table.filter(annotator=name).row(0, named=True) for name in "ab")
    assert (first["n_traces"], first["step_accuracy"]) == (4, 1.0)
    assert (second["step_accuracy"], second["agent_accuracy"], second["agent_vs_best"]) == (0.0, None, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"blame": "highst"}, "did you mean 'highest'"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"folds": 1}, "folds is 1"),
        ({"seed": -1}, "seed is -1"),
        ({"within": (1, 1)}, "within"),
        ({"within": 3}, "within is 3"),
        ({"within": (1.5,)}, "within is"),
        ({"seed": 2**70}, "seed is"),
        ({"folds": 2.5}, "folds is 2.5"),
        ({"confidence": "x"}, "confidence is 'x'"),
        (
            {"labels": labels_of([("x", 1, "A")]).with_columns(turn=pl.lit(1.5))},
            "labels.turn has the value 1.5",
        ),
        ({"labels": labels_of([("x", 1, "A")], annotator=None)}, "labels.annotator has a null"),
        ({"credits": credits_of({"x": [("A/0", 1.0)]}, method=None)}, "credits.method has a null"),
        ({"credits": credits_of({"x": [("A/0", 1.0)]}, method=BASELINES[1])}, "the name of a baseline"),
        ({"credits": pl.DataFrame({"trace_id": ["x"]})}, "credits have no column 'unit'"),
        ({"labels": labels_of([("other", 1, "A")])}, "no trace has both"),
        ({"credits": credits_of({"x": [("A/0", 1.0), ("A/0", 2.0)]})}, "several credits for turn 'A/0'"),
        ({"credits": credits_of({"x": [("A", 1.0)]})}, "unit_id 'A' of a turn"),
        ({"credits": credits_of({"x": [("A", 1.0)]}, unit="agent")}, "no row of unit 'turn'"),
        (
            {"credits": credits_of({"x": [("A/0", 1.0)]}).cast({"credit": pl.String})},
            "credits.credit has type",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_said(change, message):
    options = {"credits": credits_of({"x": speech("A", "B")}), "labels": labels_of([("x", 0, "A")])} | change
    with pytest.raises(ot.ParameterError, match=message):
        ot.evaluation.failure_attribution(options.pop("credits"), options.pop("labels"), **options)


def test_methods_are_told_apart_by_what_differs() -> None:
    labels = pl.DataFrame({"trace_id": ["a"], "annotator": ["me"], "turn": [1], "agent": ["y"]})
    rows = []
    runs = {'{"kernel":"uniform","k":1}': [1.0, 0.0], '{"kernel":"typed","k":1}': [0.0, 1.0]}
    for params, credit in runs.items():
        for number, (agent, value) in enumerate(zip("xy", credit, strict=True)):
            rows.append(
                {"trace_id": "a", "method": "flow", "unit": "turn", "unit_id": f"{agent}/{number}"}
                | {"credit": value, "reward": "team", "params": params}
            )
    table = ot.evaluation.failure_attribution(pl.DataFrame(rows), labels)
    found = dict(table.select("method", "step_accuracy").rows())
    assert found["flow(kernel=uniform)"] == 0.0
    assert found["flow(kernel=typed)"] == 1.0


def test_one_trace_alone_has_no_verdict():
    credits = credits_of({"x": [("A/0", 0.0), ("B/1", 1.0), ("C/2", 0.0)]})
    found = row(ot.evaluation.failure_attribution(credits, labels_of([("x", 1, "B")])), "m")
    assert found["step_accuracy"] == 1.0
    assert found["agent_vs_best"] == found["step_vs_best"] == "indistinct"


@pytest.mark.parametrize("largest", [1.0, 1e9])
@pytest.mark.parametrize("blame", ["highest", "lowest"])
def test_credits_that_differ_by_rounding_are_equal(blame, largest) -> None:
    """As the Shapley values of two turns that do the same: 0.1 + 0.2 for one, 0.3 for the other."""
    one, other = 0.1 + 0.2, 0.3
    assert one != other
    sign = 1.0 if blame == "highest" else -1.0
    tops = [(f"ann/{n}", sign * largest * value) for n, value in enumerate((one, other, other))]
    table = ot.evaluation.failure_attribution(
        credits_of({"t": [*tops, ("bob/3", 0.0), ("bob/4", None)]}), labels_of([("t", 1, "ann")]), blame=blame
    )
    found = row(table, "m")
    assert found["step_accuracy"] == pytest.approx(1 / 3)
    assert found["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_credits_that_differ_by_more_than_rounding_are_ranked() -> None:
    turns = [("ann/0", 1.0), ("ann/1", 1.0 + 1e-9), ("bob/2", -5.0)]
    found = row(
        ot.evaluation.failure_attribution(credits_of({"t": turns}), labels_of([("t", 1, "ann")])), "m"
    )
    assert found["step_accuracy"] == 1.0
