"""`rae` and `maxrl`: published examples, plain Python, and what they are for."""

import itertools
import math
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot


def games(
    paid: list[dict[str, float | None]], *, steps: list[float] | None = None, roles: bool = False
) -> ot.Corpus:
    """A trace for each game: what each player was paid at its one event."""
    rows = [
        {"trace": at, "agent": name, "reward": reward, "role": name[0] if roles else None}
        for at, game in enumerate(paid)
        for name, reward in game.items()
    ]
    events = pl.DataFrame(rows, schema_overrides={"reward": pl.Float64}).with_columns(
        seq=pl.int_range(pl.len()).over("trace").cast(pl.UInt32),
        id=pl.concat_str(pl.lit("e"), pl.int_range(pl.len())),
        type=pl.lit("message"),
        t=pl.int_range(pl.len()).over("trace").cast(pl.Float64),
    )
    measures = pl.DataFrame({"trace": range(len(paid)), "kind": "reward", "name": "team", "value": 1.0})
    if steps is not None:
        more = pl.DataFrame(
            {"trace": range(len(paid)), "kind": "metric", "name": "train_step", "value": steps}
        )
        measures = pl.concat([measures, more])
    traces = pl.DataFrame(
        {"trace": range(len(paid)), "trace_id": [f"g{at:04}" for at in range(len(paid))], "system": "game"}
    )
    return ot.Corpus.from_arrow(events=events, traces=traces, measures=measures)


def plain(rewards: list[float], decay: float) -> list[float]:
    """The definition, one after the other."""
    baseline, out = 0.0, []
    for reward in rewards:
        out.append(reward - baseline)
        baseline = decay * baseline + (1 - decay) * reward
    return out


def rae(corpus: ot.Corpus, agent: str, **options: Any) -> list[float | None]:
    """Credit of an agent, a value a game."""
    table = ot.credit(corpus, method="rae", unit="agent", **options)
    return table.filter(pl.col("unit_id").cast(pl.String) == agent)["credit"].to_list()


def test_the_example_of_the_definition() -> None:
    corpus = games([{"x": 1.0}, {"x": 1.0}, {"x": -1.0}])
    assert rae(corpus, "x") == pytest.approx([1.0, 0.95, -1.0975], abs=1e-15)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(-4, 4), st.one_of(st.none(), st.integers(-4, 4))), min_size=1, max_size=30
    ),
    st.sampled_from([0.0, 0.3, 0.95, 1.0]),
)
def test_it_is_plain_python_and_keys_do_not_touch(paid: list[tuple[int, int | None]], decay: float) -> None:
    corpus = games([{"x": float(one), "y": None if two is None else float(two)} for one, two in paid])
    assert rae(corpus, "x", decay=decay) == pytest.approx(plain([float(one) for one, _ in paid], decay))
    others = iter(plain([float(two) for _, two in paid if two is not None], decay))
    wanted = [None if two is None else next(others) for _, two in paid]
    assert rae(corpus, "y", decay=decay) == pytest.approx(wanted)


def test_a_constant_reward_fades_and_no_memory_takes_differences() -> None:
    corpus = games([{"x": 3.0}] * 20)
    assert rae(corpus, "x") == pytest.approx([3.0 * 0.95**n for n in range(20)])
    steps = games([{"x": float(n * n)} for n in range(6)])
    assert rae(steps, "x", decay=0.0) == pytest.approx([0.0, 1.0, 3.0, 5.0, 7.0, 9.0])


def test_the_order_is_that_of_steps_and_ids_not_of_traces() -> None:
    paid: list[dict[str, float | None]] = [{"x": 4.0}, {"x": 1.0}, {"x": 2.0}]
    corpus = games(paid, steps=[2.0, 0.0, 1.0])
    first, second, third = plain([1.0, 2.0, 4.0], 0.95)
    assert rae(corpus, "x") == pytest.approx([third, first, second])


def test_agents_of_one_role_share_a_baseline() -> None:
    corpus = games([{"w1": 1.0, "w2": 0.0}, {"w3": 1.0}], roles=True)
    table = ot.credit(corpus, method="rae", unit="agent")
    assert table["credit"].to_list() == pytest.approx(plain([1.0, 0.0, 1.0], 0.95))


def test_names_tell_agents_of_one_role_apart() -> None:
    corpus = games([{"w1": 1.0, "w2": 0.0}, {"w1": 1.0, "w1#2": 1.0}], roles=True)
    table = ot.credit(corpus, method="rae", unit="agent", by="name")
    first, second, third = plain([1.0, 1.0, 1.0], 0.95)
    assert table["credit"].to_list() == pytest.approx([first, 0.0, second, third])


def test_without_rewards_of_events_the_run_is_paid() -> None:
    corpus = games([{"x": None, "y": None}, {"x": None, "y": None}])
    assert rae(corpus, "x") == rae(corpus, "y") == pytest.approx([1.0, 0.95])


def test_the_edge_of_who_moves_first_is_taken_out() -> None:
    """Even but for the first move: the mean of each role goes to 0, that of the rewards does not."""
    chance = random.Random(5)
    paid: list[dict[str, float | None]] = []
    for _ in range(4000):
        won = 1.0 if chance.random() < 0.7 else -1.0
        paid.append({"first": won, "second": -won})
    corpus = games(paid)
    late = [value or 0.0 for value in rae(corpus, "first", decay=0.99)][1000:]
    error = 0.92 / math.sqrt(len(late) * (1 - 0.99) / 2)  # rewards share their baselines over some 100 games
    assert abs(sum(late) / len(late)) < 4 * error
    assert abs(sum(float(game["first"] or 0) for game in paid) / len(paid) - 0.4) < 0.05


def test_parts_on_disk_are_one_corpus(tmp_path: Path) -> None:
    lines = tmp_path / "runs.jsonl"
    ot.export(ot.generate(traces=60, seed=4), "jsonl", lines)
    ot.ingest(lines, tmp_path / "disk", partitions=3)
    corpus, parts = ot.read_traces(lines), ot.read_corpus(tmp_path / "disk")
    for unit in ("agent", "event"):
        here, there = (
            ot.credit(one, method="rae", unit=unit).sort("trace_id", "unit_id")  # type: ignore[call-overload]
            for one in (corpus, parts)
        )
        assert here["credit"].to_list() == there["credit"].to_list()
        assert here["credit"].count() > 0


def verdicts(rewards: list[float]) -> ot.Corpus:
    """A group of rollouts."""
    n = len(rewards)
    events = pl.DataFrame(
        {"trace": range(n), "seq": [0] * n, "id": ["e"] * n, "type": "message", "agent": "a", "t": [0.0] * n}
    ).with_columns(pl.col("seq").cast(pl.UInt32))
    traces = pl.DataFrame({"trace": range(n), "trace_id": [f"t{at}" for at in range(n)], "task_id": "q"})
    measures = pl.DataFrame({"trace": range(n), "kind": "reward", "name": "team", "value": rewards})
    return ot.Corpus.from_arrow(events=events, traces=traces, measures=measures)


def test_maxrl_is_the_paper_s() -> None:
    for rewards, success in (([1, 0, 0, 1, 1, 0, 0, 0], 5 / 3), ([1, 0, 0, 0], 3.0)):
        table = ot.credit(verdicts([float(one) for one in rewards]), method="maxrl", unit="team")
        assert table["credit"].to_list() == [success if one else -1.0 for one in rewards]


@pytest.mark.parametrize(
    "rewards", [list(one) for n in (1, 2, 3, 5) for one in itertools.product((0.0, 1.0), repeat=n)]
)
def test_a_live_group_sums_to_nothing(rewards: list[float]) -> None:
    table = ot.credit(verdicts(rewards), method="maxrl", unit="team")
    n, k = len(rewards), int(sum(rewards))
    if k in (0, n):
        assert table["credit"].to_list() == [0.0] * n
        assert set(table["reason"]) == {"group.degenerate"}
        return
    assert table["credit"].sum() == pytest.approx(0.0, abs=1e-12)
    assert table["credit"].abs().sum() == pytest.approx(2 * (n - k))
    centered = ot.credit(verdicts(rewards), method="dr_grpo", unit="team")["credit"]
    assert table["credit"].to_list() == pytest.approx((centered / (k / n)).to_list())


def test_a_score_is_no_verdict() -> None:
    table = ot.credit(verdicts([1.0, 0.5, 0.0]), method="maxrl", unit="team")
    assert table["credit"].to_list() == [None] * 3
    assert set(table["reason"]) == {"reward.not_binary"}
