"""The ladder: its numbers against other ways to them, its budget, its folder, what a kill leaves."""

import datetime
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import stats

import orchestrace as ot
from orchestrace.base import children
from orchestrace.credit import registry
from orchestrace.statistics.influence import Interval
from orchestrace.study.cells import cells
from orchestrace.study.costs import doubled, extrapolated, foretold, measured
from orchestrace.study.folder import StudyFolder
from orchestrace.study.measure import Bench
from orchestrace.study.truth_rank import _needed, _sd_within, _tasks_that_vary, pooled

_DAY = datetime.date(2026, 5, 27)
SMALL = {
    "sizes": [
        {"events": 12, "agents": 3, "traces": 32},
        {"events": 40, "agents": 6, "traces": 32},
    ],
    "presets": {
        "additive": {"outcome": "linear", "density": 1.0},
        "gates": {"outcome": "mixed", "topology": "hierarchical"},
    },
    "methods": ["flow", "grpo", "gae", {"name": "shapley", "params": {"samples": 16}, "units": ["agent"]}],
    "slots": [1, 2, 4],
    "queues": ["recorded", "critical_path"],
    "seed": 3,
}


def test_rollouts_needed_are_the_published_ones():
    sizes = (10, 100, 1000, 4000)
    told = [_needed(n**-0.5, None, None)["rollouts"] for n in sizes]
    assert told == ot.scaling.rollouts_needed(sizes) == [79, 785, 7849, 31396]
    # The sign of a correlation is no matter of how many show it; the end nearest to 0 asks for most.
    assert _needed(-0.5, -0.8, -0.1) == {"rollouts": 32, "rollouts_lower": 13, "rollouts_upper": 785}
    assert _needed(0.5, -0.1, 0.8) == {"rollouts": 32, "rollouts_lower": 13, "rollouts_upper": None}
    for none in (None, 0.0, 1e-200):
        assert _needed(none, None, None)["rollouts"] is None


def test_tasks_that_do_not_vary_are_no_evidence():
    # Of sixty tasks one varies: a correlation, and nothing to tell how far that of another task would be.
    ours = np.array([0.0, 1.0] + [0.0, 0.0] * 59)
    theirs, task = np.tile([0.0, 1.0], 60), np.repeat(np.arange(60), 2)
    rho, around = pooled(ours, theirs, task, 0.9)
    assert rho == pytest.approx(60**-0.5) and around.lower is not None  # the truth varies in all of them
    rho, around = pooled(ours, ours, task, 0.9)
    assert (rho, around) == (pytest.approx(1.0), Interval(None, None, None, "support.absent"))


def test_credit_that_is_one_number_for_all_diffuses_with_the_root_of_the_units():
    rng = np.random.default_rng(0)
    for n in (4, 25, 100):
        effects = rng.normal(size=(4000, n))
        credit = np.repeat(effects.sum(axis=1), n)
        task = np.repeat(np.arange(40), 100 * n)
        rho, around = pooled(credit, effects.ravel(), task, 0.95)
        assert around.lower <= n**-0.5 <= around.upper and abs(rho * n**0.5 - 1) < 0.1


def test_pooled_correlation_is_that_of_what_is_centered_in_its_task():
    rng = np.random.default_rng(1)
    task = np.repeat([0, 1, 2], [5, 9, 4])
    x, y = rng.normal(size=18) + 10 * task, rng.normal(size=18) - 7 * task
    centered = [v - np.array([v[task == t].mean() for t in task]) for v in (x, y)]
    rho, around = pooled(x, y, task, 0.9)
    assert rho == pytest.approx(np.corrcoef(*centered)[0, 1], abs=1e-12)
    assert -1.0 < around.lower < rho < around.upper < 1.0
    absent = (None, Interval(None, None, None, "support.absent"))
    assert pooled(np.ones(4), np.arange(4.0), np.zeros(4, int), 0.9) == absent
    assert pooled(np.zeros(0), np.zeros(0), np.zeros(0, int), 0.9) == absent


def test_the_interval_of_a_pooled_correlation_by_what_each_task_moves():
    rng = np.random.default_rng(2)
    task = np.repeat([0, 1, 2, 3], [5, 9, 4, 6])
    x = rng.normal(size=task.size)
    y = x + rng.normal(size=task.size)
    rho, around = pooled(x, y, task, 0.9)
    x, y = (v - np.array([v[task == t].mean() for t in task]) for v in (x, y))

    def correlation(times):
        return (times * x * y).sum() / np.sqrt((times * x * x).sum() * (times * y * y).sum())

    step = 1e-6
    moved = [(correlation(1.0 + step * (task == t)) - rho) / step for t in range(4)]
    parts = [np.bincount(task, weights=v * v) / (v * v).sum() for v in (x, y)]
    share = (parts[0] + parts[1]) / 2
    error = math.sqrt(sum(m * m / (1 - w) for m, w in zip(moved, share, strict=True)))
    bent = share**2 / (1 - share)
    df = 1 / ((share**2).sum() + bent.sum() ** 2 - (bent**2).sum())
    reach = stats.t.ppf(0.95, df) * error / (1 - rho**2)
    ends = [math.tanh(math.atanh(rho) + side * reach) for side in (-1, 1)]
    assert around.stderr == pytest.approx(error, rel=1e-4)
    assert (around.lower, around.upper) == pytest.approx(tuple(ends), rel=1e-4)


def test_tasks_that_make_a_pooled_correlation_are_those_that_vary():
    ours, theirs = (
        np.array([1.0, 2.0, 3.0, 3.0, 0.0, 1.0, 5.0]),
        np.array([0.0, 1.0, 0.0, 1.0, 4.0, 4.0, 2.0]),
    )
    # Credit does not vary in the second task, contribution not in the third, and the fourth is one unit.
    assert _tasks_that_vary(ours, theirs, np.array([0, 0, 1, 1, 2, 2, 3])) == 1
    assert _tasks_that_vary(np.zeros(0), np.zeros(0), np.zeros(0, int)) == 0


def test_a_run_says_once_which_sizes_have_too_few_tasks(tmp_path):
    config = SMALL | {"slots": [1], "methods": ["flow", "broadcast"]}
    told = "size 12x3 has 4 (32 traces in groups of 8; five tasks are 40 traces), size 40x6 has 4"
    with pytest.warns(RuntimeWarning, match="fewer than five tasks: ") as caught:
        table = ot.study.run(config, tmp_path / "few", workers=0)
    assert len(caught) == 1 and told in str(caught[0].message)
    assert caught[0].filename == __file__
    assert table.filter(method="broadcast")["pooled_n_tasks"].max() <= 4
    assert set(table["rho_n_tasks"]) <= {0, 1, 2, 3, 4}
    assert ot.study.load(tmp_path / "few", "schedules")["n_tasks"].unique().to_list() == [4]
    enough = config | {"sizes": [size | {"traces": 33} for size in SMALL["sizes"]]}  # type: ignore[attr-defined]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ot.study.run(enough, tmp_path / "enough", workers=0)


def test_spread_between_rollouts_by_hand():
    # Variances 0.02 (2 rollouts) and 0.01 (3): pooled over 1 + 2 degrees of freedom.
    rho = np.array([0.1, 0.3, 0.0, 0.1, 0.2, np.nan, 0.7])
    task = np.array([0, 0, 1, 1, 1, 1, 2])
    assert _sd_within(rho, task) == pytest.approx(((0.02 + 2 * 0.01) / 3) ** 0.5)
    assert _sd_within(rho[5:], task[5:]) is None


def test_numbers_of_a_cell_are_those_of_compare(tmp_path):
    config = ot.study.parse_config(SMALL | {"slots": []})
    for cell in cells(config):
        bench = Bench(config)
        found = bench.measure(cell)
        corpus, truth = bench._corpus(cell)
        named = truth.contributions if cell.unit == "event" else truth.agents
        if cell.run.params:
            continue  # draws go by the seed of the cell
        table = ot.compare(corpus, [(cell.run.name, cell.run.params)], unit=cell.unit, truth=named).row(
            0, named=True
        )
        assert found["status"] == "ok"
        assert found["numbers"]["rho"] == pytest.approx(table["truth_spearman"], abs=1e-12)
        assert found["numbers"]["rho_n_traces"] == table["truth_n_traces"]
        if found["numbers"]["rho_n_traces"] == len(corpus):
            assert found["numbers"]["sign"] == pytest.approx(table["truth_sign_accuracy"], abs=1e-12)
        assert found["numbers"]["n_events"] == cell.size.events * cell.size.traces


def test_cells_of_one_task_have_no_interval_and_say_so(tmp_path):
    small = {"agents": 3, "group_size": 8}
    sizes = [small | {"events": 12, "traces": 8}, small | {"events": 13, "traces": 32}]
    config = SMALL | {"sizes": sizes, "methods": ["flow"], "slots": [1, 2]}
    ot.study.run(config, tmp_path, workers=0)
    one, two = (ot.study.load(tmp_path).filter(n_traces=n) for n in (8, 32))
    one, two = (table.drop_nulls(["rho", "sign", "pooled"]) for table in (one, two))
    assert one.height > 0 and two.height > 0
    ends = [f"{name}_{end}" for name in ("rho", "sign", "pooled") for end in ("lower", "upper")]
    assert one.select(ends).null_count().row(0) == (one.height,) * 6
    assert set(one["interval_reason"]) == {"support.absent"}
    for name in ("rho", "sign", "pooled"):
        assert two[f"{name}_lower"].is_null().equals(two[name].is_null())
    assert set(two["interval_reason"]) == {None}
    slots = ot.study.load(tmp_path, "schedules")
    told = slots.filter(n_traces=32, k=1)
    # one slot has a speed-up of 1 whatever the task: no spread, and no interval of width 0
    assert set(told["speedup"]) == {1.0} and set(told["interval_reason"]) == {"group.degenerate"}
    assert told["speedup_lower"].count() == 0 and told["makespan_lower"].count() == told.height


def test_a_study_gives_the_same_numbers_twice(tmp_path):
    ot.study.run(SMALL, tmp_path / "a", workers=0, threads=1)
    ot.study.run(SMALL, tmp_path / "b", workers=2, threads=2)
    for table in ("cells", "schedules", "tasks"):
        first, second = (ot.study.load(tmp_path / name, table) for name in "ab")
        assert first.height and first["preset"].n_unique() == 2
        assert_frame_equal(first, second, check_exact=True)
        assert_frame_equal(pl.read_parquet(tmp_path / "a" / f"{table}.parquet"), first, check_exact=True)
    costs = ot.study.load(tmp_path / "a", "costs")
    assert costs["seconds"].min() > 0 and costs.height == len(cells(ot.study.parse_config(SMALL)))
    both = ot.study.load(tmp_path / "a")
    assert both["seconds"].null_count() == 0 and both["rho"].null_count() < both.height


def test_schedules_stay_within_their_bounds(tmp_path):
    ot.study.run(SMALL, tmp_path, workers=0)
    table = ot.study.load(tmp_path, "schedules")
    assert table.height == 2 * 2 * 2 * 3
    assert table["in_bounds"].unique().to_list() == [1.0]
    assert table.filter(k=1)["speedup"].unique().to_list() == pytest.approx([1.0])
    own = table.filter(preset="additive", events=40, method="recorded")
    assert own["makespan"].is_sorted(descending=True)
    corpus, _ = Bench(ot.study.parse_config(SMALL))._corpus(
        next(c for c in cells(ot.study.parse_config(SMALL)) if c.preset == "additive" and c.size.events == 40)
    )
    curve = ot.schedules.scaling_curve(corpus, slots=[1, 2, 4])
    means = curve.group_by("k").agg(pl.col("makespan").mean()).sort("k")["makespan"]
    assert own["makespan"].to_list() == pytest.approx(means.to_list())


def test_other_presets_methods_and_sizes_change_no_number(tmp_path):
    alone = SMALL | {"presets": {"gates": SMALL["presets"]["gates"]}, "methods": ["gae"], "slots": []}
    alone |= {"sizes": SMALL["sizes"][1:]}
    few = ot.study.run(alone, tmp_path / "few", workers=0)
    ot.study.run(SMALL, tmp_path / "all", workers=0)
    every = ot.study.load(tmp_path / "all", "cells")
    same = every.filter(preset="gates", method="gae", events=40)
    assert_frame_equal(same, few.select(same.columns), check_exact=True)
    other = ot.study.run(alone | {"seed": 4}, tmp_path / "other", workers=0)
    assert other["rho"][0] != few["rho"][0]


def test_laws_of_cost_by_hand():
    assert extrapolated([(10, 1.0), (100, 10.0)], 1000) == pytest.approx((100.0, 1.0))
    assert extrapolated([(10, 2.0), (100, 200.0)], 1000) == pytest.approx((20000.0, 2.0))
    assert extrapolated([(10, 5.0), (100, 1.0)], 1000)[1] == 0.0  # noise, not a method that gets cheaper
    assert extrapolated([(10, 1.0)], 100) is None and extrapolated([(10, 1.0), (10, 2.0)], 100) is None
    # Three points: least squares on logarithms; a fourth and smaller one is not looked at.
    points = [(1, 9e9), (10, 1.0), (100, 20.0), (1000, 100.0)]
    slope, intercept = np.polyfit(*np.log([p for p in points[1:]]).T, 1)
    assert extrapolated(points, 5000) == pytest.approx((np.exp(intercept) * 5000**slope, slope))
    assert doubled(0.5, 100, 8, 1000, 10) == pytest.approx(0.5 * 10 * 4)
    assert np.isfinite(doubled(0.5, 100, 8, 1000, 100_000))


def test_a_stopped_call_is_a_point_that_can_only_be_higher():
    assert foretold([], [], 100) is None
    assert foretold([(10, 1.0), (100, 10.0)], [], 1000) == pytest.approx((100.0, "power", 1.0, False, 2))
    # One point, measured or stopped: in proportion.
    assert foretold([(10, 2.0)], [], 50) == (10.0, "linear", 1.0, True, 1)
    assert foretold([], [(10, 2.0)], 50) == (10.0, "linear", 1.0, True, 1)
    # Measured and stopped: the law through both, from the stopped one on, and no less than in proportion.
    seconds, law, exponent, bound, points = foretold([(10, 1.0)], [(100, 100.0)], 1000)
    assert (law, bound, points) == ("power", True, 2)
    assert (seconds, exponent) == pytest.approx((10_000.0, 2.0))
    assert foretold([(10, 1.0)], [(100, 2.0)], 1000) == (20.0, "linear", 1.0, True, 2)
    # What had ended later would have made it more, never less.
    later = [foretold([(10, 1.0), (40, 2.0)], [(100, s)], 1000).seconds for s in (3.0, 6.0, 60.0, 600.0)]
    assert later == sorted(later)


def test_the_peak_of_memory_is_seen():
    _, small = measured(lambda: None)
    _, large = measured(lambda: np.ones(40_000_000).sum())
    if small["peak_bytes"] is None:
        pytest.skip("the system does not tell its peak of memory")
    assert large["peak_bytes"] - small["peak_bytes"] > 200e6
    assert small["repeats"] == 5 and large["grown_bytes"] > 200e6


def test_what_is_foreseen_to_be_too_slow_shows_its_cost(tmp_path):
    sizes = [{"events": n, "agents": 4, "traces": 16} for n in (20, 40, 80, 160)]
    config = {"sizes": sizes, "presets": {"one": {}}, "methods": ["flow"], "units": ["agent"]}
    table = ot.study.run(config | {"budget_s": 1e-9}, tmp_path, workers=0)
    assert table["status"].to_list() == ["ok", "ok", "too_slow", "too_slow"]
    assert table["reason"].to_list() == [None, None, "budget", "budget"]
    law = extrapolated(list(zip((20, 40), (table["seconds"][:2] / 16).to_list(), strict=True)), 160)
    assert table["cost_s_extrapolated"][3] == pytest.approx(law[0] * 16)
    assert table["exponent"][3] == pytest.approx(law[1]) and table["points"].to_list() == [None, None, 2, 2]
    assert table["law"].to_list() == [None, None, "power", "power"]
    assert table["rho"][2:].null_count() == 2  # no number stands for one that was not measured


def test_a_call_over_the_budget_is_stopped_and_the_rest_goes_on(tmp_path):
    slow = {"name": "shapley", "params": {"samples": 500_000}}
    config = {
        "sizes": [{"events": 3000, "agents": 60, "traces": 16}, {"events": 4000, "agents": 60, "traces": 16}],
        "presets": {"one": {"branching": 20}},
        "methods": [slow, "uniform"],
        "units": ["agent"],
        "budget_s": 0.5,
    }
    began = time.monotonic()
    table = ot.study.run(config, tmp_path)
    assert table["status"].to_list() == ["too_slow", "ok", "too_slow", "ok"]
    assert 1.0 <= table["stopped_s"][0] < 10 and table["cost_s_extrapolated"][0] == table["stopped_s"][0]
    # What did not end at a small size is not tried at a larger one, where it takes at least as much a step.
    assert table["stopped_s"][2] is None and time.monotonic() - began < 60
    assert table["cost_s_extrapolated"][2] == pytest.approx(table["stopped_s"][0] * 4000 / 3000)
    assert table["law"].to_list() == ["linear", None, "linear", None]
    assert table["lower_bound"].to_list() == [True, None, True, None]
    assert table["exponent"][2] == 1.0 and table["points"].to_list() == [1, None, 1, None]
    # A run that goes on knows it from the file.
    next(path for path in (tmp_path / "cells").glob("*4000x60*shapley*.json")).unlink()
    again = ot.study.run(config, tmp_path)
    assert_frame_equal(again, table, check_exact=True)


def test_what_a_method_refuses_has_its_words_and_the_cost_of_all_coalitions(tmp_path):
    sizes = [{"events": 30, "agents": 5, "traces": 16}, {"events": 90, "agents": 30, "traces": 16}]
    config = {
        "sizes": sizes,
        "presets": {"one": {"branching": 30}},
        "methods": ["shapley"],
        "units": ["agent"],
    }
    table = ot.study.run(config, tmp_path, workers=0)
    assert table["status"].to_list() == ["ok", "refused"]
    assert "exact up to" in table["reason"][1]
    assert table["law"][1] == "coalitions"
    assert table["cost_s_extrapolated"][1] == pytest.approx(table["seconds"][0] * 3 * 2.0**25)


def test_a_worker_that_dies_is_told_and_its_cell_tried_again(tmp_path, monkeypatch):
    real = subprocess.Popen
    dying = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    config = SMALL | {
        "presets": {"one": {}},
        "methods": ["uniform"],
        "slots": [],
        "sizes": SMALL["sizes"][:1],
    }
    monkeypatch.setattr(children.subprocess, "Popen", lambda _, **options: real(dying, **options))  # type: ignore[attr-defined]
    table = ot.study.run(config, tmp_path)
    assert table["status"].to_list() == ["failed", "failed"]
    assert "signal 9" in table["reason"][0]
    monkeypatch.undo()
    assert ot.study.run(config, tmp_path)["status"].to_list() == ["ok", "ok"]


def _started(folder: Path, config: Path) -> subprocess.Popen[bytes]:
    code = "import sys, orchestrace as ot; ot.study.run(sys.argv[1], sys.argv[2])"
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-c", code, str(config), str(folder)],
        env=os.environ | {"PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_study_goes_on_where_it_was(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(_toml(SMALL))
    ot.study.run(SMALL, tmp_path / "whole", workers=0)
    total = len(list((tmp_path / "whole" / "cells").iterdir()))
    folder = tmp_path / "killed"
    seen: dict[str, bytes] = {}
    for stop in (4, 13):
        process = _started(folder, file)
        deadline = time.monotonic() + 60
        while len(_cells_of(folder)) < stop and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        there = _cells_of(folder)
        assert stop <= len(there) < total
        # What was there has not been measured again: the times in it are the old ones.
        assert all(there[name] == text for name, text in seen.items())
        assert not (folder / "cells.parquet").exists()
        seen = there
    partial = ot.study.load(folder, "costs")
    assert partial.height == len(seen)
    ot.study.run(file, folder)
    last = _cells_of(folder)
    assert len(last) == total and all(last[name] == text for name, text in seen.items())
    for table in ("cells", "schedules", "tasks"):
        whole = ot.study.load(tmp_path / "whole", table)
        assert_frame_equal(ot.study.load(folder, table), whole, check_exact=True)


def _cells_of(folder: Path) -> dict[str, bytes]:
    place = folder / "cells"
    return {p.name: p.read_bytes() for p in place.glob("[!.]*.json")} if place.is_dir() else {}


def _inline(table: dict) -> str:
    pairs = (f"{k} = {_inline(v) if isinstance(v, dict) else json.dumps(v)}" for k, v in table.items())
    return f"{{ {', '.join(pairs)} }}"


def _toml(config: dict) -> str:
    """TOML of a configuration: JSON's scalars and lists of them are TOML's too."""
    lines = [
        f"{key} = {json.dumps(value)}"
        for key, value in config.items()
        if key not in ("sizes", "presets", "methods")
    ]
    methods = [json.dumps(one) if isinstance(one, str) else _inline(one) for one in config["methods"]]
    lines.append(f"methods = [{', '.join(methods)}]")
    for size in config["sizes"]:
        lines += ["[[sizes]]", *(f"{key} = {value}" for key, value in size.items())]
    for name, options in config["presets"].items():
        lines += [f"[presets.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]
    return "\n".join(lines) + "\n"


def test_a_file_says_what_a_mapping_says(tmp_path):
    (tmp_path / "study.toml").write_text(_toml(SMALL))
    assert ot.study.read_config(tmp_path / "study.toml") == ot.study.parse_config(SMALL)


def test_another_configuration_in_the_same_folder_is_refused(tmp_path):
    config = SMALL | {"sizes": SMALL["sizes"][:1], "methods": ["uniform"], "slots": []}
    ot.study.run(config, tmp_path, workers=0)
    with pytest.raises(
        ot.ParameterError, match="has a study of another configuration: choose another folder"
    ):
        ot.study.run(config | {"seed": 9}, tmp_path, workers=0)
    manifest = json.loads((tmp_path / "study.json").read_text())
    (tmp_path / "study.json").write_text(json.dumps(manifest | {"version": "0.0.0"}))
    with pytest.raises(ot.ParameterError, match=r"has a study of version 0\.0\.0"):
        ot.study.run(config, tmp_path, workers=0)


def test_folders_that_are_something_else(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ot.ParameterError, match="is not empty and has no study"):
        ot.study.run(SMALL, tmp_path, workers=0)
    with pytest.raises(ot.ParameterError, match="is a file, expected a folder"):
        ot.study.run(SMALL, tmp_path / "mine.txt", workers=0)
    with pytest.raises(ot.InputError, match="has no study"):
        ot.study.load(tmp_path)
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(ot.InputError, match="cannot be read"):
        ot.study.load(tmp_path)


def test_a_cell_that_somebody_else_wrote_is_not_taken_for_ours(tmp_path):
    config = SMALL | {"sizes": SMALL["sizes"][:1], "methods": ["uniform"], "slots": []}
    ot.study.run(config, tmp_path, workers=0)
    some = next((tmp_path / "cells").glob("*.json"))
    some.write_text("{}")
    with pytest.raises(ot.InputError, match="is not what a study wrote: remove it"):
        ot.study.run(config, tmp_path, workers=0)
    some.unlink()
    assert ot.study.run(config, tmp_path, workers=0).height == 4


def test_names_of_cells_are_unique_and_short():
    config = ot.study.parse_config(
        SMALL | {"methods": [{"name": "gae", "params": {"gamma": g / 100}} for g in range(1, 90)]}
    )
    names = [cell.file for cell in cells(config)]
    assert len(set(names)) == len(names) and max(map(len, names)) < 130


def test_cells_come_from_the_smallest_size_on_those_of_a_corpus_in_a_row():
    order = cells(ot.study.parse_config(SMALL))
    sizes = [cell.size.events for cell in order]
    assert sizes == sorted(sizes)
    corpora = [name for name, _ in itertools.groupby(cell.corpus for cell in order)]
    assert len(corpora) == len(set(corpora)) == 4


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sizes": []}, "the study has no sizes"),
        ({"sizes": [{"events": 3}]}, "expected a table with events and agents"),
        ({"sizes": [{"events": 0, "agents": 1}]}, "events of a size is 0, expected at least 1"),
        ({"sizes": [{"events": 9, "agents": True}]}, "agents of a size is True"),
        ({"sizes": [{"events": 9, "agents": 2, "trace": 3}]}, "did you mean 'traces'"),
        ({"sizes": [{"events": 9, "agents": 2, "traces": 4}]}, "4 traces, fewer than one group"),
        ({"sizes": 2 * [{"events": 9, "agents": 2}]}, "size 9x2 is given twice"),
        ({"presets": {}}, "the study has no presets"),
        ({"presets": {"a": {"outcom": "linear"}}}, "did you mean 'outcome'"),
        ({"presets": {"a": {"outcome": "linaer"}}}, "preset 'a'.*did you mean 'linear'"),
        ({"presets": {"a": {"noise": "loud"}}}, "preset 'a': noise is 'loud'"),
        ({"presets": {"a": 3}}, "preset 'a' is 3, expected a table"),
        ({"methods": []}, "the study has no methods"),
        ({"methods": ["flw"]}, "did you mean 'flow'"),
        ({"methods": [{"name": "flow", "params": {"kernle": 1}}]}, "did you mean 'kernel'"),
        ({"methods": ["flow", "flow"]}, "method 'flow' is given twice"),
        ({"methods": [{"name": "myerson", "units": ["event"]}]}, "does not report at unit 'event'"),
        ({"methods": [3]}, "expected a name or a table"),
        ({"methods": "flow"}, "methods is 'flow', expected a list"),
        ({"methods": {"name": "flow"}}, "methods is .*, expected a list"),
        ({"methods": [{"name": "flow", "params": 3}]}, "params of method 'flow' is 3, expected a table"),
        ({"methods": [{"name": "flow", "params": ["kernel"]}]}, "params of method 'flow' is .*a table"),
        ({"methods": [{"name": "flow", "params": None}]}, "params of method 'flow' is None"),
        ({"methods": [{"name": "flow", "params": {3: 1}}]}, "unknown parameter of method 'flow' '3'"),
        ({"methods": [{"name": "flow", "units": "event"}]}, "units of method 'flow' is 'event'"),
        ({"methods": [{"name": "flow", "params": {"kernel": "zzz"}}]}, r"\(kernel=zzz\).*unknown kernel"),
        ({"methods": [{"name": "hca", "params": {"folds": 1}}]}, "folds must be a whole number from 2 to 50"),
        ({"methods": [{"name": "gae", "params": {"gamma": _DAY}}]}, "gamma of method 'gae' is datetime"),
        ({"methods": [{"name": "shapley", "params": {"outcome": len}}]}, "outcome of method 'shapley' is <b"),
        ({"sizes": 3}, "sizes is 3, expected a list"),
        ({"sizes": {"events": 9, "agents": 2}}, "sizes is .*, expected a list"),
        ({"sizes": [9]}, "size 9, expected a table"),
        ({"sizes": [{"events": "9", "agents": 2}]}, "events is '9', expected a whole number"),
        ({"presets": 3}, "presets is 3, expected tables by name"),
        ({"presets": [{"noise": 1.0}]}, "presets is .*, expected tables by name"),
        ({"presets": "additive"}, "presets is 'additive', expected tables by name"),
        ({"presets": {"a": {"noise": _DAY}}}, "noise of preset 'a' is datetime"),
        ({"units": "event"}, "units is 'event', expected a list"),
        ({"units": [["event"]]}, "unknown units"),
        ({"slots": "12"}, "slots is '12', expected a list"),
        ({"slots": ["1"]}, "slots has '1', expected a whole number"),
        ({"slots": 4}, "slots is 4, expected a list"),
        ({"queues": "recorded"}, "queues is 'recorded', expected a list"),
        ({"seed": "a"}, "seed is 'a', expected a whole number"),
        ({"seed": None}, "seed is None, expected a whole number"),
        ({"replicates": 2.5}, "replicates is 2.5, expected a whole number"),
        ({"replicates": True}, "replicates is True, expected a whole number"),
        ({"n_boot": 1000}, "unknown key 'n_boot'"),
        ({"budget_s": "60"}, "budget_s is '60', expected a number between 0 and"),
        ({"budget_s": 10**400}, "budget_s is a number of 1329 bits, expected"),
        ({"presets": {"a": {"noise": 10**400}}}, "preset 'a': noise is a value of type int, expected a"),
        ({"queues": []}, "queues is empty"),
        ({"confidence": "0.9"}, "confidence is '0.9'"),
        ({7: 1}, "unknown key '7'"),
        ({"units": ["turn"]}, "unknown units 'turn'"),
        ({"units": []}, "units is empty"),
        ({"slots": [0]}, "slots has 0"),
        ({"queues": ["fifo"]}, "unknown queues 'fifo'"),
        ({"seed": -1}, "seed is -1"),
        ({"replicates": 0}, "replicates is 0, expected a whole number from 1"),
        ({"budget_s": 0}, "budget_s is 0, expected a number between 0 and"),
        ({"budget_s": float("nan")}, "budget_s is nan"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"budget": 3}, "did you mean 'budget_s'"),
    ],
)
def test_mistakes_of_a_configuration_have_one_clear_line(changed, words):
    with pytest.raises(ot.ParameterError, match=words) as caught:
        ot.study.parse_config(SMALL | changed)
    assert "\n" not in str(caught.value)


def test_every_method_is_taken_with_its_defaults():
    names = [
        name for name, units in ot.list_methods().select("name", "units").iter_rows() if "agent" in units
    ]
    config = ot.study.parse_config(SMALL | {"methods": names, "units": ["agent"]})
    assert [run.name for run in config.methods] == names and len(names) > 30


def test_draws_without_end_are_no_matter_of_the_judgment():
    began = time.monotonic()
    endless = {"name": "shapley", "params": {"samples": 10**12, "sampler": "permutation"}}
    ot.study.parse_config(SMALL | {"methods": [endless]})
    assert time.monotonic() - began < 10


def test_a_method_of_ones_own_is_judged_on_runs(monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", registry.registered())
    word = ot.Param("word", "a", "which is refused", kind=("a", "b"))

    @ot.credit_method("picky_of_small", summary="refuses a word", quantity="share", params=[word])
    def picky_of_small(corpus, rewards, params, seed):
        assert len(corpus) > 0
        raise ot.ParameterError(f"word '{params['word']}' is none of mine\nand more")

    with pytest.raises(ot.ParameterError) as caught:
        ot.study.parse_config(SMALL | {"methods": [{"name": "picky_of_small", "params": {"word": "b"}}]})
    assert str(caught.value).endswith(r"unit 'event': word 'b' is none of mine\nand more")


def test_what_is_measured_can_be_read_whatever_its_methods_take_now(tmp_path):
    config = SMALL | {"sizes": SMALL["sizes"][:1], "methods": ["flow"], "slots": []}
    ot.study.run(config, tmp_path, workers=0)
    manifest = json.loads((tmp_path / "study.json").read_text())
    manifest["config"]["methods"].append({"name": "flow", "params": {"kernel": "zzz"}})
    (tmp_path / "study.json").write_text(json.dumps(manifest))
    assert ot.study.load(tmp_path)["method"].unique().to_list() == ["flow"]
    with pytest.raises(ot.ParameterError, match="unknown kernel 'zzz'"):
        ot.study.run(manifest["config"], tmp_path, workers=0)


def test_numbers_of_numpy_and_tuples_are_written_as_any_other():
    sizes = [{name: np.int64(value) for name, value in size.items()} for size in SMALL["sizes"]]  # type: ignore[attr-defined]
    weights = (0.5, 1, 1, 1, 1, 1, 1, 1)
    other = {"name": "shapley", "params": {"outcome": "typed", "weights": weights}, "units": ["agent"]}
    config = ot.study.parse_config(SMALL | {"sizes": sizes, "seed": np.int64(3), "methods": [other]})
    # What a worker is told is what it reads: names of cells too.
    told = ot.study.parse_config(json.loads(config.text()))
    assert told == config and [cell.name for cell in cells(told)] == [cell.name for cell in cells(config)]


def test_mistakes_of_a_file_name_it(tmp_path):
    file = tmp_path / "study.toml"
    with pytest.raises(ot.InputError, match=r"study\.toml"):
        ot.study.read_config(file)
    file.write_text("methods = [")
    with pytest.raises(ot.ParameterError, match=r"study\.toml is not TOML"):
        ot.study.read_config(file)
    file.write_text("sizes = []\n")
    with pytest.raises(ot.ParameterError, match=r"study\.toml: the study has no sizes"):
        ot.study.read_config(file)
    with pytest.raises(ot.ParameterError, match=r"table is 'cell', expected .*; did you mean 'cells'"):
        ot.study.load(tmp_path, "cell")


def test_the_example_has_what_the_study_promises():
    config = ot.study.read_config(Path(__file__).parents[2] / "examples" / "study.toml")
    sizes = {(size.events, size.agents) for size in config.sizes}
    assert {events for events, _ in sizes} == {10, 100, 1000, 4000, 100_000} and (4000, 300) in sizes
    assert len(config.presets) >= 5 and len({run.name for run in config.methods}) >= 8
    corpus, truth = ot.synthetic.planted(traces=4, length=4000, agents=300, **config.presets["additive"])
    assert corpus._sizes()["events"] == 16_000
    assert truth.agents.group_by("trace").len()["len"].to_list() == [300] * 4


def test_a_study_that_is_begun_can_be_looked_at(tmp_path):
    config = ot.study.parse_config(SMALL)
    place = StudyFolder.begun(tmp_path, config)
    cell = cells(config)[0]
    place.write(cell, Bench(config).measure(cell))
    assert ot.study.load(tmp_path, "schedules").height == 3
    assert ot.study.load(tmp_path).height == 0


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"engine": "processes"}], ids=str)
def test_a_method_of_this_process_is_measured_here_only(options, tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", registry.registered())

    @ot.credit_method("row", summary="the place of an event", quantity="advantage")
    def row(corpus, rewards, params, seed):
        return ot.EventValues(corpus.events.select(value=pl.col("seq").cast(pl.Float64)).collect())

    config = SMALL | {"sizes": SMALL["sizes"][:1], "methods": ["row"], "units": ["event"], "slots": []}
    with pytest.raises(ot.ParameterError, match=r"'row' is registered in this process.*pass workers=0"):
        ot.study.run(config, tmp_path / "study", **options)
    assert not (tmp_path / "study").exists()
    assert ot.study.run(config, tmp_path / "study", workers=0)["status"].unique().to_list() == ["ok"]
