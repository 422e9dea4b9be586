"""The diffusion law: golden numbers, theory against simulation and planted corpora, signal beside noise."""

import io
import json
import math
from statistics import NormalDist

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from samples.examples import examples

FAST = {"rollouts": 200, "replicates": 12, "n_boot": 300}


def test_rollouts_needed_are_the_published_ones() -> None:
    assert ot.scaling.rollouts_needed([10, 100, 1000, 4000]) == [79, 785, 7849, 31396]
    assert ot.scaling.rollouts_needed(4000, block=100) == 785
    assert ot.scaling.rollouts_needed([1, 10], block=10) == [8, 79]
    assert ot.scaling.rollouts_needed(10, block=4000) == 79
    # sigma_noise² = 90 units more
    assert ot.scaling.rollouts_needed(10, noise=math.sqrt(90.0)) == 785


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.floats(0.0, 100.0),
    st.floats(1e-6, 0.5),
    st.floats(0.5, 0.999),
)
def test_rollouts_needed_are_the_formula(
    n: int, block: int, noise: float, alpha: float, power: float
) -> None:
    z = NormalDist().inv_cdf(1 - alpha / 2) + NormalDist().inv_cdf(power)
    exact = z * z * (min(n, block) + noise * noise)
    needed = ot.scaling.rollouts_needed(n, block=block, noise=noise, alpha=alpha, power=power)
    assert needed - 1 <= exact * (1 + 1e-6) and exact * (1 - 1e-6) <= needed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n is 0, expected a whole number from 1"),
        ({"n": 2.5}, "n is 2.5, expected a whole number"),
        ({"n": 5, "block": 0}, "block is 0, expected a whole number from 1"),
        ({"n": 5, "noise": -1.0}, "noise is -1.0"),
        ({"n": 5, "noise": math.inf}, "noise is inf"),
        ({"n": 5, "alpha": 0.0}, "alpha is 0.0"),
        ({"n": 5, "power": 1.0}, "power is 1.0"),
        ({"n": 5, "alpha": 0.9, "power": 0.3}, "reached by chance"),
    ],
)
def test_rollouts_needed_refuses(options, message) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.scaling.rollouts_needed(**options)


@pytest.mark.parametrize("options", [{}, {"noise": 3.0}, {"block": 8}], ids=["plain", "noise", "block"])
def test_the_simulated_slope_is_recovered(options) -> None:
    """A 95 % interval that misses in 4 of 20 seeds or more would be a matter of 1 in 60."""
    agreed = 0
    for seed in range(20):
        law = ot.scaling.diffusion_law(source="simulated", seed=seed, **FAST, **options)
        assert law.slope["upper"][0] - law.slope["lower"][0] < 0.2
        agreed += law.slope["agrees"][0]
    assert agreed >= 17
    curve = law.curve
    assert (
        (curve["correlation"] - curve["theory"]).abs() < 4 * (curve["upper"] - curve["correlation"])
    ).all()
    if not options:
        assert law.slope["theory"].to_list() == [-0.5]
        assert curve["theory"].to_list() == pytest.approx([n**-0.5 for n in (8, 16, 32, 64, 128)])
        assert curve["rollouts_theory"].to_list() == ot.scaling.rollouts_needed([8, 16, 32, 64, 128])
    if "noise" in options:
        assert curve["theory"].to_list() == pytest.approx([(n + 9) ** -0.5 for n in (8, 16, 32, 64, 128)])


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_the_slope_of_planted_corpora_is_recovered(noise) -> None:
    law = ot.scaling.diffusion_law([8, 16, 32, 64], noise=noise, seed=1, **FAST)
    assert law.slope["agrees"][0], law.slope
    # noise hides short runs too, so that length costs less
    assert (law.slope["theory"][0] == -0.5) == (noise == 0.0) and law.slope["theory"][0] <= -0.3 + 0.2 * bool(
        noise
    )
    assert law.points.height == 48 and law.points["correlation"].null_count() == 0
    assert law.slope["n_replicates"].to_list() == [12] and law.slope["method"].to_list() == ["broadcast"]


@pytest.mark.statistical
@pytest.mark.parametrize("source", ["simulated", "planted"])
def test_credit_of_blocks_shifts_the_curve_by_the_root(source) -> None:
    whole, block = (
        ot.scaling.diffusion_law([8, 32, 128], source=source, block=b, seed=3, **FAST).points
        for b in (None, 8)
    )
    both = whole.join(block, on=["replicate", "n"], suffix="_block")
    for (n,), own in both.group_by("n", maintain_order=True):
        ratio = (own["correlation_block"] / own["correlation"]).to_numpy()
        error = ratio.std(ddof=1) / math.sqrt(ratio.size)
        # four errors: three lengths and two sources are looked at
        assert abs(ratio.mean() - math.sqrt(n / 8)) <= 4 * error + 1e-12, (n, ratio.mean())
        assert error < 0.1 * math.sqrt(n / 8)


def test_a_shorter_last_block_counts_by_its_size() -> None:
    """Ten units in blocks of four: eight units share with three others, two with one."""
    law = ot.scaling.diffusion_law([10], source="simulated", block=4, rollouts=20_000, replicates=5)
    assert law.curve["units"].to_list() == [3.6]
    assert law.curve["correlation"][0] == pytest.approx(3.6**-0.5, abs=0.005)
    assert law.slope["reason"].to_list() == ["support.absent"] and law.slope["theory"].to_list() == [None]


def test_a_method_that_sees_events_does_not_diffuse() -> None:
    exact = {"rows": "events", "lambda_": 0.0, "gamma": 1.0}
    law = ot.scaling.diffusion_law([8, 16, 32], method="gae", params=exact, rollouts=20, replicates=5)
    assert law.curve["correlation"].to_list() == pytest.approx([1.0] * 3)
    assert law.slope["slope"][0] == pytest.approx(0.0, abs=1e-12)
    assert law.slope["agrees"].to_list() == [False] and law.curve["rollouts"].to_list() == [8, 8, 8]


def test_credit_without_spread_has_no_correlation() -> None:
    alone = ot.scaling.diffusion_law(
        [4, 8, 16], method="grpo", rollouts=20, replicates=5, params={}, group_size=1, seed=1
    )
    assert alone.curve["correlation"].null_count() == 3
    assert alone.slope["reason"].to_list() == ["support.absent"] and alone.slope["slope"][0] is None
    assert alone.curve["rollouts"].null_count() == 3 and alone.curve["theory"].null_count() == 0


def test_seeds_and_threads() -> None:
    options = {"lengths": [8, 16, 32], "rollouts": 50, "replicates": 5, "n_boot": 20}
    one, again, other = (ot.scaling.diffusion_law(seed=2, threads=t, **options) for t in (1, 2, 7))
    assert one.points.equals(again.points) and one.slope.equals(other.slope) and one.curve.equals(other.curve)
    assert not one.points.equals(ot.scaling.diffusion_law(seed=3, **options).points)
    # a length keeps its measurement beside others
    more = ot.scaling.diffusion_law(seed=2, **(options | {"lengths": [32, 64, 8]})).points
    assert more.filter(n=8).equals(one.points.filter(n=8))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengths": []}, "lengths is empty"),
        ({"lengths": [0, 8]}, "lengths has 0"),
        ({"lengths": [8.5]}, "lengths has 8.5, expected a whole number"),
        ({"source": "recorded"}, "source is 'recorded', expected"),
        ({"noise": -1}, "noise is -1"),
        ({"block": 0}, "block is 0"),
        ({"rollouts": 1}, "rollouts is 1, expected a whole number from 2"),
        ({"replicates": 0}, "replicates is 0"),
        ({"source": "simulated", "method": "flow"}, "need source='planted'"),
        ({"method": "flow", "block": 4}, "takes the place of a method"),
        ({"block": 4, "noise": 1.0}, "no noise"),
        ({"method": "flw"}, "did you mean 'flow'"),
    ],
)
def test_wrong_options_are_named(options, message) -> None:
    with pytest.raises(ot.ParameterError, match=message):
        ot.scaling.diffusion_law(**options)


# --- signal to noise of recordings -------------------------------------------------------------------


def run(number: int, group: str, types: list[str], team: float) -> dict[str, object]:
    return {
        "trace_id": f"run-{number}",
        "task_id": "task",
        "events": [
            {"id": f"e{i}", "t": i, "type": kind, "agent": "lead", "group_id": group}
            for i, kind in enumerate(types)
        ],
        "edges": [],
        "rewards": {"team": team},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def read(*runs: dict[str, object]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO("\n".join(json.dumps(one) for one in runs).encode()))


def test_signal_to_noise_by_hand() -> None:
    """Credit 1 and -1 for whole runs: messages are three of the first and one of the second."""
    corpus = read(
        run(0, "g", ["message", "message", "message", "tool_call"], 1.0),
        run(1, "g", ["message", "tool_call"], -1.0),
        run(2, "h", ["message", "tool_call"], 1.0),
    )
    credits = ot.credit(corpus, method="broadcast", unit="event")
    table = ot.scaling.credit_snr(corpus, credits)
    assert table.select("group_id", "type", "events", "n_rollouts", "n_events", "reason").rows() == [
        ("g", "message", 3.0, 2, 4, None),
        ("g", "tool_call", 3.0, 2, 2, None),
        ("h", "message", 2.0, 1, 1, "support.absent"),
        ("h", "tool_call", 2.0, 1, 1, "support.absent"),
    ]
    sd, level = math.sqrt(0.75), 2 / 6
    assert table["snr"][:2].to_list() == pytest.approx([(0.5 - level) / sd, level / 1.0])
    # how far the first run moves the means of the class and of all; the second one undoes it
    moves = [3 * (1 - 0.5) / 4 - 4 * (1 - level) / 6, 1 / 2 - 4 * (1 - level) / 6]
    errors = [math.sqrt(2 / 1 * 2 * own**2) for own in moves]
    floors = [math.sqrt(2 / math.pi) * error / own for error, own in zip(errors, (sd, 1.0), strict=True)]
    assert table["floor"][:2].to_list() == pytest.approx(floors)
    assert table["snr"][2:].null_count() == 2
    equal = read(run(0, "g", ["message"], 2.0), run(1, "g", ["message"], 2.0))
    flat = ot.scaling.credit_snr(equal, ot.credit(equal, method="broadcast", unit="event"))
    assert flat.select("snr", "floor", "reason").rows() == [(None, None, "group.degenerate")]


def actions(n: int, seed: int) -> tuple[ot.Corpus, pl.DataFrame]:
    """Independent runs in two groups, whose actions have a worth of their own; advantages of whole runs."""
    options = {"group_size": 1, "agents": 1, "density": 1.0, "decisive": 0.0}
    options |= {"effects": "action", "actions": 2}
    corpus, _ = ot.synthetic.planted(traces=800, events=n, seed=n + 1000 * seed, **options)
    corpus = corpus.with_fields(
        corpus.events.select("trace", "seq", group_id=pl.format("{}", pl.col("trace") % 2))
    )
    return corpus, ot.credit(corpus, method="grpo", unit="event")


@pytest.mark.nightly
@pytest.mark.statistical
def test_signal_to_noise_falls_with_the_root_of_the_length() -> None:
    tables = []
    for seed in range(6):
        for n in (16, 32, 64):
            table = ot.scaling.credit_snr(*actions(n, seed), by="action")
            assert table["events"].to_list() == [n] * 4 and (table["snr"] > 3 * table["floor"]).mean() > 0.5
            # what an action is worth is drawn for each corpus, so that no fewer are independent
            tables.append(table.with_columns(seed=pl.lit(seed)))
    law = ot.scaling.fit_law(
        pl.concat(tables), x="events", y="snr", cluster="seed", models=["power"], errors="absolute"
    )
    low, high = law.filter(parameter="exponent").select("lower", "upper").row(0)
    assert low <= -0.5 <= high and high - low < 0.4, (low, high)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["grpo", "broadcast"])
def test_credit_that_knows_nothing_is_at_its_floor(method) -> None:
    """The advantages, or rewards, of other runs know nothing of these actions."""
    ratios = []
    for seed in range(12):
        corpus, _ = actions(16, seed)
        credits = ot.credit(corpus, method=method, unit="event")
        paid = credits.select((pl.col("trace") + 2) % 800, "seq", "credit")
        table = ot.scaling.credit_snr(
            corpus, credits.drop("credit").join(paid, on=["trace", "seq"], maintain_order="left"), by="action"
        )
        ratios.append((table["snr"] / table["floor"]).to_numpy())
    means = np.mean(ratios, axis=1)
    error = means.std(ddof=1) / math.sqrt(means.size)
    assert abs(means.mean() - 1) < 3.5 * error < 0.5, (means.mean(), error)


@given(st.integers(0, 2**20))
@examples(15)
def test_signal_to_noise_is_that_of_plain_python(seed: int) -> None:
    corpus = ot.generate(traces=24, seed=seed)
    credits = ot.credit(corpus, method="flow", unit="event")
    table = ot.scaling.credit_snr(corpus, credits.sample(fraction=1.0, shuffle=True, seed=seed), by="type")
    events = corpus.events.select("trace", "type", pl.col("id").cast(pl.String)).collect()
    kinds = {(trace, event): kind for trace, kind, event in events.rows()}
    groups = dict(corpus.traces.select("trace", pl.col("group_id").cast(pl.String)).collect().rows())
    paid: dict[str, list[tuple[int, str, float]]] = {}
    for trace, event, credit in credits.select("trace", "unit_id", "credit").drop_nulls().rows():
        paid.setdefault(groups[trace], []).append((trace, kinds[trace, event], credit))
    assert set(table["group_id"]) == set(paid)
    for row in table.rows(named=True):
        own = paid[row["group_id"]]
        mine = [credit for _, kind, credit in own if kind == row["type"]]
        of = {trace for trace, kind, _ in own if kind == row["type"]}
        assert (row["n_events"], row["n_rollouts"]) == (len(mine), len(of))
        if len(of) < 2 or min(mine) == max(mine):
            assert row["snr"] is None and row["reason"] in ("support.absent", "group.degenerate")
            continue
        mean, level = sum(mine) / len(mine), sum(c for *_, c in own) / len(own)
        sd = math.sqrt(sum((c - mean) ** 2 for c in mine) / len(mine))
        runs = sorted({trace for trace, *_ in own})
        moves = [
            sum(c - mean for t, kind, c in own if t == run and kind == row["type"]) / len(mine)
            - sum(c - level for t, _, c in own if t == run) / len(own)
            for run in runs
        ]
        error = math.sqrt(len(runs) / (len(runs) - 1) * sum(m * m for m in moves))
        assert row["snr"] == pytest.approx(abs(mean - level) / sd, abs=1e-9)
        assert row["floor"] == pytest.approx(math.sqrt(2 / math.pi) * error / sd, abs=1e-7)


def test_credits_of_something_else_are_refused() -> None:
    corpus = read(run(0, "g", ["message"], 1.0), run(1, "g", ["message"], 0.0))
    events = ot.credit(corpus, method="broadcast", unit="event")
    with pytest.raises(ot.ParameterError, match="unit='event'"):
        ot.scaling.credit_snr(corpus, ot.credit(corpus, method="broadcast", unit="agent"))
    with pytest.raises(ot.ParameterError, match="several methods"):
        ot.scaling.credit_snr(corpus, pl.concat([events, ot.credit(corpus, method="uniform", unit="event")]))
    with pytest.raises(ot.ParameterError, match="unknown column of events 'typ'; did you mean 'type'"):
        ot.scaling.credit_snr(corpus, events, by="typ")
    with pytest.raises(ot.ParameterError, match="pass the corpus they are of"):
        ot.scaling.credit_snr(corpus.filter(pl.col("trace_id") == "run-0"), events)
    assert ot.scaling.credit_snr(corpus, events.clear()).height == 0
    assert ot.scaling.credit_snr(corpus, events, by="tool").height == 0
