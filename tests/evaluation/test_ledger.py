"""The ledger and the free-ride index: cases worked by hand, nulls with their reasons, refusals."""

import polars as pl
import pytest

import orchestrace as ot


@pytest.fixture(scope="module")
def corpus():
    return ot.generate(traces=12, seed=0)


def trace(rewards):
    """A corpus of one trace with two agents and these rewards."""
    events = pl.DataFrame(
        {"trace": [0, 0], "id": ["e0", "e1"], "t": [0.0, 1.0], "type": ["message"] * 2, "agent": ["a", "b"]}
    )
    corpus = ot.Corpus.from_arrow(traces=pl.DataFrame({"trace": [0], "trace_id": ["x"]}), events=events)
    rows = {"trace": [0] * len(rewards), "name": list(rewards), "value": list(rewards.values())}
    return corpus.with_measures(pl.DataFrame(rows)) if rewards else corpus


def channel(*credit, method="mine", reason=None):
    units = ["e0", "e1", None][: len(credit)]
    return pl.DataFrame(
        {"trace": 0, "unit": "event", "unit_id": units, "credit": credit, "method": method, "reason": reason},
        schema_overrides={"credit": pl.Float64, "reason": pl.String},
    )


def line(corpus, *channels, **options):
    (row,) = ot.evaluation.reward_accounting(corpus, list(channels), **options).iter_rows(named=True)
    return row


@pytest.mark.parametrize("method", ["uniform", "flow"])
@pytest.mark.parametrize("unit", ["event", "agent", "tool"])
def test_one_conserving_channel_pays_the_reward_once(corpus, method, unit):
    table = ot.evaluation.reward_accounting(corpus, ot.credit(corpus, method=method, unit=unit))
    assert table.height == 12
    assert table["partition_error"].to_list() == table["collision"].to_list() == [0.0] * 12
    assert table["n_channels"].to_list() == [1] * 12


def test_a_doubled_channel_pays_twice(corpus):
    flow = ot.credit(corpus, method="flow", unit="event")
    table = ot.evaluation.reward_accounting(corpus, [flow, flow]).filter(pl.col("reward") != 0)
    assert table.height > 0
    assert table["partition_error"].to_list() == pytest.approx([1.0] * table.height)
    assert table["collision"].to_list() == pytest.approx([0.5] * table.height)


def test_numbers_by_hand():
    # team 1, format 2; a pays (1, 0), b pays (.5, -1) and 1.5 to nobody
    row = line(trace({"team": 1.0}), channel(1.0, 0.0), channel(0.5, -1.0, 1.5))
    assert (row["paid"], row["partition_error"]) == (2.0, 1.0)
    assert row["collision"] == pytest.approx((0.5 + 0.0 + 0.0) / 4.0)
    both = line(trace({"team": 1.0, "format": 2.0}), channel(1.0, 0.0), reward={"team": 1.0, "format": 0.5})
    assert (both["reward"], both["partition_error"]) == (2.0, 0.5)
    nothing = line(trace({"team": 0.0}), channel(0.0, 0.0))
    assert (nothing["partition_error"], nothing["collision"]) == (0.0, 0.0)
    wrong = line(trace({"team": 0.0}), channel(0.25, 0.0))
    assert wrong["partition_error"] == 0.25e12


def test_two_methods_that_divide_one_reward_in_halves(corpus):
    parts = [ot.credit(corpus, method=m, unit="agent", reward={"team": 0.5}) for m in ("flow", "uniform")]
    table = ot.evaluation.reward_accounting(corpus, parts)
    assert table["n_channels"].to_list() == [2] * 12
    assert table["partition_error"].max() == 0.0
    assert ot.evaluation.reward_accounting(corpus, pl.concat(parts)).equals(table)
    # both pay everybody: the smaller payment is the one that collides
    both = parts[0].join(parts[1], on=["trace", "unit_id"], suffix="_b", nulls_equal=True)
    smaller = pl.min_horizontal(pl.col("credit").abs(), pl.col("credit_b").abs()).sum()
    total = (pl.col("credit").abs() + pl.col("credit_b").abs()).sum()
    want = both.group_by("trace").agg(smaller=smaller, total=total).sort("trace")
    paid = want.filter(pl.col("total") > 0)
    got = table.filter(pl.col("reward") != 0)["collision"].to_list()
    assert got == pytest.approx((paid["smaller"] / paid["total"]).to_list())


def test_what_is_not_known_is_null():
    row = line(trace({"team": 1.0}), channel(1.0, 0.0), channel(None, 0.5, reason="graph.cycle"))
    assert (row["paid"], row["partition_error"], row["collision"]) == (None, None, None)
    assert row["reason"] == "graph.cycle"
    corpus = trace({"team": 1.0})
    traces = pl.DataFrame({"trace": [0, 1], "trace_id": ["x", "y"]})
    events = pl.DataFrame({"trace": [0, 1], "id": ["e0", "e0"], "t": 0.0, "type": "message", "agent": "a"})
    corpus = ot.Corpus.from_arrow(traces=traces, events=events)
    corpus = corpus.with_measures(pl.DataFrame({"trace": [0], "team": [1.0]}))
    table = ot.evaluation.reward_accounting(corpus, ot.credit(corpus, method="uniform", unit="event"))
    assert table["reason"].to_list() == [None, "reward.absent"]
    assert table["partition_error"].to_list() == [0.0, None]


def test_what_the_ledger_refuses(corpus):
    flow = ot.credit(corpus, method="flow", unit="event")
    with pytest.raises(ot.ParameterError, match="do not add up"):
        ot.evaluation.reward_accounting(corpus, ot.credit(corpus, method="grpo", unit="event"))
    with pytest.raises(ot.ParameterError, match="units agent, event"):
        ot.evaluation.reward_accounting(corpus, [flow, ot.credit(corpus, method="flow", unit="agent")])
    with pytest.raises(ot.ParameterError, match="credits is of type NoneType"):
        ot.evaluation.reward_accounting(corpus, None)
    for name in ("trace", "credit"):
        text = flow.with_columns(pl.lit("x").alias(name))
        for call in (
            lambda text=text: ot.evaluation.reward_accounting(corpus, text),
            lambda text=text: ot.evaluation.free_ride(text),
        ):
            with pytest.raises(ot.ParameterError, match=f"credits.{name} has type String"):
                call()
    with pytest.raises(ot.ParameterError, match="credits is empty"):
        ot.evaluation.reward_accounting(corpus, [])
    with pytest.raises(ot.ParameterError, match="did you mean 'team'"):
        ot.evaluation.reward_accounting(corpus, flow, reward="taem")
    with pytest.raises(ot.ParameterError, match="not in the corpus"):
        ot.evaluation.reward_accounting(corpus.filter(pl.col("trace") > 3), flow)
    with pytest.raises(ot.ParameterError, match="twice in one channel"):
        ot.evaluation.reward_accounting(corpus, pl.concat([flow, flow]))


def riders(*credit, **more):
    frame = pl.DataFrame(
        {"trace": 0, "unit": "agent", "unit_id": [f"a{i}" for i in range(len(credit))], "credit": credit}
    )
    return ot.evaluation.free_ride(frame.with_columns(**more))


def test_free_ride_by_hand():
    assert riders(0.25, 0.25, 0.25, 0.25)["free_ride"].to_list() == [0.0] * 4
    assert riders(0.5, 0.5, 0.0)["free_ride"].to_list() == [0.0, 0.0, 1.0]
    assert riders(3.0, 2.0, -2.0)["free_ride"].to_list() == [0.0, 0.0, 3.0]
    assert riders(0.75, 0.25)["free_ride"].to_list() == [0.0, 0.5]


@pytest.mark.parametrize("credit", [(0.0, 0.0), (1.0, -2.0)])
def test_parts_of_nothing_are_not_compared(credit):
    table = riders(*credit)
    assert table["free_ride"].to_list() == [None, None]
    assert table["reason"].to_list() == ["reward.not_positive"] * 2


def test_a_null_credit_makes_its_trace_null():
    frame = riders(1.0, None, reason=pl.lit("graph.cycle"))
    assert frame["free_ride"].null_count() == 2
    assert frame["reason"].to_list() == ["graph.cycle"] * 2


def test_free_ride_keeps_methods_apart(corpus):
    frames = [ot.credit(corpus, method=m, unit="agent") for m in ("uniform", "flow")]
    table = ot.evaluation.free_ride(pl.concat(frames))
    one = pl.concat([ot.evaluation.free_ride(frame) for frame in frames])
    assert table.equals(one) and table["free_ride"].max() > 0
    with pytest.raises(ot.ParameterError, match="'discounted' gives advantages"):
        ot.evaluation.free_ride(ot.credit(corpus, method="discounted", unit="agent"))
