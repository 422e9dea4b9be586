"""The gate: against plain Python, its verdicts, its plan, its looks, and power on recorded runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.stats import binom

import orchestrace as ot
from reference import gates
from samples.paired_runs import alike, corpus

OUTCOMES = st.lists(
    st.tuples(*[st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=2)] * 2), min_size=2, max_size=12
)


def sides(
    folder: Path, base: dict[str, list[float | None]], new: dict[str, list[float | None]], **changes: Any
) -> tuple[ot.Corpus, ot.Corpus]:
    return corpus(folder / "base.jsonl", base), corpus(folder / "new.jsonl", new, shift=0.5, **changes)


def shifted(n_tasks: int, base: float, new: float, attempts: int = 10) -> Any:
    """Tasks of which shares pass, which differ a little between tasks."""

    def side(rate: float) -> dict[str, list[float | None]]:
        counts = [round(attempts * rate) + (task % 3 - 1) for task in range(n_tasks)]
        return {f"t{task:02}": [float(at < n) for at in range(attempts)] for task, n in enumerate(counts)}

    return side(base), {name: side(new)[name] for name in reversed(side(new))}


def mirrored(within: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if within is None else (-within[1], -within[0])


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OUTCOMES, st.sampled_from([0.0, 0.05, 0.3]))
def test_numbers_are_those_of_the_definition(
    tmp_path: Path, outcomes: list[tuple[list[float], list[float]]], margin: float
) -> None:
    base = {f"t{at}": one for at, (one, _) in enumerate(outcomes)}
    new = {f"t{at}": other for at, (_, other) in enumerate(outcomes)}
    table = ot.evaluation.gate(
        *sides(tmp_path, base, new), metric=["success", "tokens"], margin={"success": margin, "tokens": 0.1}
    )
    tokens = [
        {
            task: [float(value) for value in values]
            for task, values in ot.metrics(side, groups=["scale"])
            .group_by("task_id")
            .agg(pl.col("tokens").cast(pl.Float64))
            .rows()
        }
        for side in sides(tmp_path, base, new)
    ]
    success = gates.gains(base, new, ratio=False, sign=1.0)
    spent = gates.gains(tokens[0], tokens[1], ratio=True, sign=-1.0)
    tests = [(success, -margin, (-1.0, 1.0)), (spent, -math.log1p(0.1), None)]
    wanted = {
        "p_noninferior": gates.holm([gates.p_noninferior(*test) for test in tests]),
        "p_superior": gates.holm([gates.signed_above(values, 0.0, within) for values, _, within in tests]),
        "p_worse": gates.holm(
            [
                gates.signed_above([-value for value in values], 0.0, mirrored(within))
                for values, _, within in tests
            ]
        ),
    }
    for name, values in wanted.items():
        assert table[name].to_list() == [None if p is None else pytest.approx(p, abs=1e-9) for p in values]
    verdicts = gates.verdicts(wanted["p_noninferior"], wanted["p_worse"], 0.05)
    near = [abs(p - 0.05) < 1e-9 for values in wanted.values() for p in values if p is not None]
    assert any(near) or table["verdict"].to_list() == verdicts
    assert table["difference"][0] == pytest.approx(sum(success) / len(success), abs=1e-12)
    assert table["difference"][1] == pytest.approx(math.expm1(-sum(spent) / len(spent)), rel=1e-9)


@pytest.mark.parametrize(
    ("rates", "margin", "verdict"),
    [
        ((0.6, 0.6), 0.1, "pass"),
        ((0.6, 0.8), 0.0, "pass"),
        ((0.6, 0.5), 0.2, "pass"),  # worse for sure, and within the margin
        ((0.6, 0.3), 0.1, "fail"),
        ((0.6, 0.5), 0.05, "fail"),
    ],
)
def test_verdicts(tmp_path: Path, rates: tuple[float, float], margin: float, verdict: str) -> None:
    base, new = shifted(30, *rates)
    # one task goes against the rest, so that tasks vary
    new["t00"], new["t01"] = base["t01"], base["t00"]
    row = ot.evaluation.gate(*sides(tmp_path, base, new), margin=margin).row(0, named=True)
    assert row["verdict"] == verdict, row
    assert row["difference"] == pytest.approx(row["new"] - row["base"])
    assert row["n_tasks"] == 30 and row["n_runs_base"] == row["n_runs_new"] == 300


def test_a_heavy_task_counts_once(tmp_path: Path) -> None:
    base: dict[str, list[float | None]] = {"a": [1.0, 0.0], "b": [0.0] * 50, "c": [1.0]}
    new: dict[str, list[float | None]] = {"a": [0.0, 0.0], "b": [1.0] * 50, "c": [1.0]}
    row = ot.evaluation.gate(*sides(tmp_path, base, new)).row(0, named=True)
    assert row["difference"] == pytest.approx((-0.5 + 1.0 + 0.0) / 3)


def test_no_difference_at_all_passes_with_enough_tasks(tmp_path: Path) -> None:
    for n_tasks, verdict, more in ((148, "inconclusive", 1), (149, "pass", 0)):
        base: dict[str, list[float | None]] = {f"t{at}": [float(at % 2)] for at in range(n_tasks)}
        row = ot.evaluation.gate(*sides(tmp_path, base, base)).row(0, named=True)
        # .98**149 is below 5 %
        assert (row["verdict"], row["more_tasks"], row["tasks_needed"]) == (verdict, more, 149)


@pytest.mark.parametrize(("n_tasks", "margin"), [(149, 0.02), (99, 0.03), (59, 0.05), (29, 0.1)])
def test_a_lost_task_makes_no_pass(tmp_path: Path, n_tasks: int, margin: float) -> None:
    base: dict[str, list[float | None]] = {f"t{at:03}": [1.0] for at in range(n_tasks)}
    chances = []
    for lost in range(3):
        new = base | {f"t{at:03}": [0.0] for at in range(lost)}
        row = ot.evaluation.gate(*sides(tmp_path, base, new), margin=margin).row(0, named=True)
        assert row["verdict"] == ("pass" if lost == 0 else "inconclusive"), lost
        chances.append(row["p_noninferior"])
    assert chances == sorted(chances)
    # the first is exact, and the others are near the chance of so few losses
    assert chances == pytest.approx(
        [binom.cdf(lost, n_tasks, margin) for lost in range(3)], rel=0.1, abs=1e-9
    )


def test_what_changes_alike_everywhere_is_judged_by_its_sign(tmp_path: Path) -> None:
    before: dict[str, list[float | None]] = {f"t{at}": [0.5] for at in range(6)}
    worse: dict[str, list[float | None]] = {f"t{at}": [0.25] for at in range(6)}
    for new, verdict in ((before, "pass"), (worse, "fail")):
        row = ot.evaluation.gate(*sides(tmp_path, before, new), metric="reward").row(0, named=True)
        assert (row["verdict"], row["interval_reason"]) == (verdict, "group.degenerate")


def test_reasons_of_null_numbers(tmp_path: Path) -> None:
    one: dict[str, list[float | None]] = {"a": [1.0]}
    row = ot.evaluation.gate(*sides(tmp_path, one, one)).row(0, named=True)
    assert (row["verdict"], row["reason"], row["difference"]) == ("inconclusive", "support.absent", 0.0)
    assert row["p_worse"] is None and row["more_tasks"] is None
    rewards: dict[str, list[float | None]] = {"a": [0.25], "b": [0.5]}
    better: dict[str, list[float | None]] = {"a": [0.75], "b": [1.0]}
    row = ot.evaluation.gate(*sides(tmp_path, rewards, better), metric="reward").row(0, named=True)
    assert (row["verdict"], row["reason"]) == ("inconclusive", None)
    assert row["interval_reason"] == "group.degenerate"
    assert (row["p_superior"], row["p_worse"]) == (0.25, 1.0)
    free = sides(tmp_path, rewards, better)
    zero = [side.with_measures(pl.DataFrame({"trace": [0, 1], "name": ["cost_usd"] * 2, "value": [0.0, 1.0], "kind": ["cost"] * 2})) for side in free]  # fmt: skip  # noqa: E501
    row = ot.evaluation.gate(*zero, metric="dollars").row(0, named=True)
    assert (row["verdict"], row["n_tasks"], row["reason"]) == ("inconclusive", 1, "support.absent")
    no_task = {"b": [1.0], "a": [None]}, {"a": [1.0], "b": [None]}
    row = ot.evaluation.gate(*sides(tmp_path, *no_task), allow=["missing"]).row(0, named=True)
    assert (row["n_tasks"], row["reason"], row["verdict"]) == (0, "support.absent", "inconclusive")


def test_the_order_of_runs_changes_no_bit(tmp_path: Path) -> None:
    base, new = alike()
    options: dict[str, Any] = {"metric": ["success", "tokens", "seconds"], "margin": 0.1}
    first = sides(tmp_path, base, new)
    turned = []
    for side in ("base", "new"):
        lines = (tmp_path / f"{side}.jsonl").read_text().splitlines()
        path = tmp_path / f"{side}-turned.jsonl"
        path.write_text("".join(line + "\n" for line in reversed(lines)))
        turned.append(ot.read_traces(path, threads=2))
    assert ot.evaluation.gate(*first, **options).equals(ot.evaluation.gate(*turned, **options))
    power = [ot.evaluation.gate_power(*pair, effect=0.1, draws=50, **options) for pair in (first, turned)]
    assert power[0].equals(power[1])


def test_a_corpus_on_disk_gives_the_same(tmp_path: Path) -> None:
    base, new = alike()
    memory = sides(tmp_path, base, new)
    disk = []
    for side in ("base", "new"):
        ot.ingest(tmp_path / f"{side}.jsonl", tmp_path / side, partitions=3)
        disk.append(ot.read_corpus(tmp_path / side))
    options: dict[str, Any] = {"metric": ["success", "tokens"]}
    assert ot.evaluation.gate(*memory, **options).equals(ot.evaluation.gate(*disk, **options))


def test_several_metrics_are_held_together(tmp_path: Path) -> None:
    base, new = shifted(30, 0.6, 0.5)
    new["t00"], new["t01"] = base["t01"], base["t00"]
    pair = sides(tmp_path, base, new)
    alone = ot.evaluation.gate(*pair, margin=0.02).row(0, named=True)
    with_others = ot.evaluation.gate(*pair, metric=["tokens", "success", "seconds"])
    row = with_others.filter(metric="success").row(0, named=True)
    assert row["p_worse"] >= alone["p_worse"] and row["upper"] > alone["upper"]
    assert row["tasks_needed"] > alone["tasks_needed"] and row["detectable"] > alone["detectable"]


def test_early_looks_are_strict(tmp_path: Path) -> None:
    base, new = shifted(30, 0.6, 0.5)
    new["t00"], new["t01"] = base["t01"], base["t00"]
    pair = sides(tmp_path, base, new)
    by_look = [ot.evaluation.gate(*pair, looks=3, look=look).row(0, named=True) for look in (1, 2, 3)]
    p_values = [row["p_worse"] for row in by_look]
    assert p_values == sorted(p_values, reverse=True) and p_values[0] > p_values[2]
    assert ot.evaluation.gate(*pair, looks=3)["p_worse"].item() == p_values[2]
    assert p_values[2] > ot.evaluation.gate(*pair)["p_worse"].item()
    widths = [row["upper"] - row["lower"] for row in by_look]
    assert widths == sorted(widths, reverse=True)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OUTCOMES, st.sampled_from([0.1, 0.4, 0.8]), st.integers(1, 3))
def test_verdicts_are_those_of_the_printed_p_values(
    tmp_path: Path, outcomes: list[tuple[list[float], list[float]]], margin: float, look: int
) -> None:
    base = {f"t{at}": one for at, (one, _) in enumerate(outcomes)}
    new = {f"t{at}": other for at, (_, other) in enumerate(outcomes)}
    table = ot.evaluation.gate(
        *sides(tmp_path, base, new),
        metric=["success", "tokens", "seconds"],
        margin=margin,
        alpha=0.2,
        looks=3,
        look=look,
    )
    p_values = {name: table[name].to_list() for name in ("p_noninferior", "p_worse")}
    wanted = gates.verdicts(p_values["p_noninferior"], p_values["p_worse"], 0.2)
    assert table["verdict"].to_list() == wanted


def test_a_metric_of_the_table_has_a_direction(tmp_path: Path) -> None:
    base, new = alike()
    pair = sides(tmp_path, base, new)
    less = ot.evaluation.gate(*pair, metric="tokens:lower", margin=50.0).row(0, named=True)
    more = ot.evaluation.gate(*pair, metric="tokens:higher", margin=50.0).row(0, named=True)
    assert less["difference"] == more["difference"] and less["p_superior"] == pytest.approx(more["p_worse"])
    assert (less["scale"], less["better"], more["better"]) == ("difference", "lower", "higher")


def test_broken_runs_may_count_as_failures(tmp_path: Path) -> None:
    base, new = alike(20)
    lost = {task: [None, *values[1:]] if at < 10 else values for at, (task, values) in enumerate(new.items())}
    pair = sides(tmp_path, base, lost)
    row = ot.evaluation.gate(*pair, broken="failed").row(0, named=True)
    failed = {
        task: [0.0, *values[1:]] if at < 10 else values for at, (task, values) in enumerate(new.items())
    }
    wanted = ot.evaluation.gate(*sides(tmp_path, base, failed)).row(0, named=True)
    assert row == wanted


def test_power_on_recorded_runs(tmp_path: Path) -> None:
    base, new = alike(100)
    pair = sides(tmp_path, base, new)
    options: dict[str, Any] = {"metric": ["success", "tokens"], "margin": 0.05, "draws": 2000}
    table = ot.evaluation.gate_power(*pair, effect=0.2, **options)
    shares = table.select(total=pl.sum_horizontal("passed", "failed", "inconclusive"))["total"].to_numpy()
    assert np.allclose(shares, 1.0)
    nothing, something = table.filter(effect=0.0), table.filter(effect=0.2)
    assert (nothing["failed"].to_numpy() <= 0.05 + 0.02).all()
    assert (something["failed"].to_numpy() > nothing["failed"].to_numpy()).all()
    other = ot.evaluation.gate_power(*pair, effect=0.2, seed=1, **options)
    assert not other.equals(table) and other.filter(effect=0.2)["failed"][0] == pytest.approx(
        something["failed"][0], abs=0.06
    )
    too_much = ot.evaluation.gate_power(*pair, effect=0.99, draws=10)
    assert too_much["reason"].to_list() == [None, "signal.absent"] and too_much["failed"][1] is None


def test_the_announced_worsening_is_seen_on_the_same_runs(tmp_path: Path) -> None:
    base, new = alike(100)
    pair = sides(tmp_path, base, new)
    for metric in ("success", "tokens"):
        announced = ot.evaluation.gate(*pair, metric=metric)["detectable"].item()
        table = ot.evaluation.gate_power(*pair, metric=metric, effect=announced, draws=4000)
        assert table["failed"][1] >= 0.8 - 3 * table["stderr"][1] - 0.02, table
