"""Which part drives a sum, what a judge's scores are worth: by hand, in plain Python, and as properties."""

import io
import json
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from samples.examples import examples

Run = dict[str, Any]


def read(runs: list[Run]) -> ot.Corpus:
    """Runs of one event: ``task step rewards scores``."""
    documents = [
        {
            "trace_id": f"t{n}",
            "task_id": run.get("task", "task"),
            "events": [
                {"id": f"e{at}", "t": at, "agent": "a", "type": "message", "score": score}
                for at, score in enumerate(run.get("scores", [0.5]))
            ],
            "edges": [],
            "rewards": run["rewards"],
            "costs": {"tokens": 0, "wall_clock_s": 0},
            **({"metrics": {"train_step": run["step"]}} if "step" in run else {}),
        }
        for n, run in enumerate(runs)
    ]
    return ot.read_traces(io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in documents)))


def paid(corpus: ot.Corpus, names: list[str]) -> pl.DataFrame:
    tables = [
        ot.rewards.compute(corpus, "outcome", channels={"outcome": name}).with_columns(
            reward=pl.lit(name, pl.Categorical)
        )
        for name in names
    ]
    return pl.concat(tables)


def shares(table: pl.DataFrame, statistic: str) -> list[float | None]:
    return table.filter(statistic=statistic)["value"].to_list()


def test_variance_shares_by_hand() -> None:
    """r_1 = (1, 0, 0, 1), r_2 = (0, 1, 0, 1), λ = (1, .5): .8 and .2."""
    runs = [{"rewards": {"a": a, "b": b}} for a, b in zip((1, 0, 0, 1), (0, 1, 0, 1), strict=True)]
    corpus = read(runs)
    table = ot.rewards.balance(corpus, paid(corpus, ["a", "b"]), {"a": 1.0, "b": 0.5}, outcome="a")
    assert shares(table, "variance_share") == pytest.approx([0.8, 0.2])
    assert shares(table, "sign_flip") == [0.0]
    assert shares(table, "weight") == [1.0, 0.5]
    assert table.filter(statistic="variance_share")["reason"].to_list() == ["support.absent"] * 2


number = st.integers(-4, 4).map(lambda x: x / 4)


@examples(60)
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.sampled_from([0, 1]), number, number), min_size=1, max_size=14
    ),
    st.sampled_from([0.0, 0.5, -1.0, 2.0]),
)
def test_balance_is_that_of_plain_python(rows: list[tuple[str, int, float, float]], weight: float) -> None:
    corpus = read([{"task": t, "step": s, "rewards": {"a": a, "b": b}} for t, s, a, b in rows])
    table = ot.rewards.balance(
        corpus, paid(corpus, ["a", "b"]), {"a": 1.0, "b": weight}, outcome="a", n_boot=10
    )
    for step in sorted({row[1] for row in rows}):
        here = [row for row in rows if row[1] == step]
        groups = [[row for row in here if row[0] == task] for task in sorted({row[0] for row in here})]
        told, flips, counted = [], 0, 0
        for group in groups:
            a, b = np.array([row[2] for row in group]), np.array([row[3] for row in group])
            r = a + weight * b
            for first, whole in zip(a - a.mean(), r - r.mean(), strict=True):
                counted += abs(first) > 1e-9
                signs = [math.copysign(1, x) if abs(x) > 1e-9 else 0 for x in (first, whole)]
                flips += abs(first) > 1e-9 and signs[0] != signs[1]
            if r.max() - r.min() > 1e-9:
                told.append([np.cov(part, r, ddof=0)[0, 1] / r.var() for part in (a, weight * b)])
        part = table.filter(pl.col("train_step") == step)
        found = shares(part, "variance_share")
        if told:
            assert found == pytest.approx(np.mean(told, axis=0).tolist(), abs=1e-9)
            assert sum(found) == pytest.approx(1.0)
            assert weight != 0 or found[1] == 0.0
        else:
            assert found == [None, None]
        assert shares(part, "sign_flip") == [pytest.approx(flips / counted) if counted else None]


def test_a_single_reward_flips_no_sign_and_has_all_the_variance() -> None:
    runs = [{"task": t, "rewards": {"a": v}} for t, v in zip("xxyyzzuuvv", range(10), strict=True)]
    corpus = read(runs)
    table = ot.rewards.balance(corpus, paid(corpus, ["a"]), {"a": 3.0}, outcome="a")
    assert shares(table, "variance_share") == [pytest.approx(1.0)]
    assert shares(table, "sign_flip") == [0.0]
    row = table.filter(statistic="variance_share").row(0, named=True)
    assert row["lower"] == row["upper"] == pytest.approx(1.0) and row["n_tasks"] == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": {"c": 1.0}, "outcome": "c"}, "unknown reward 'c'"),
        ({"weights": {"a": 1.0}, "outcome": "b"}, "unknown outcome among the weights 'b'"),
        ({"weights": {"a": 1.0}, "outcome": "a", "limits": (2.0, 1.0)}, "limits is (2.0, 1.0)"),
        ({"weights": {"a": 1.0}, "outcome": "a", "alpha": math.inf}, "alpha is inf"),
        ({"weights": {}, "outcome": "a"}, "weights names no reward"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    corpus = read([{"rewards": {"a": 1.0}}])
    with pytest.raises(ot.ParameterError) as error:
        ot.rewards.balance(corpus, paid(corpus, ["a"]), **options)
    assert said in str(error.value) and "\n" not in str(error.value)


# --- judges ----------------------------------------------------------------------------------------------


def health(runs: list[Run], **options: Any) -> dict[str, pl.DataFrame]:
    table = ot.rewards.verifier_health(read(runs), n_boot=200, **options)
    return {name: table.filter(statistic=name) for name in table["statistic"].unique()}


def test_health_by_hand() -> None:
    """s = (.9, .8, .3, .1), y = (1, 0, 1, 0): Brier .2875, AUC .75, calibration error .425."""
    scores, truth = (0.9, 0.8, 0.3, 0.1), (1, 0, 1, 0)
    runs = [{"rewards": {"team": y, "judge": s}, "scores": [s]} for s, y in zip(scores, truth, strict=True)]
    for judge in (None, "judge"):
        told = health(runs, judge=judge)
        found = [told[name]["value"][0] for name in ("brier", "auc", "calibration_error", "inflation")]
        assert found == pytest.approx([0.2875, 0.75, 0.425, 0.025])
    one_class = health([run | {"rewards": {"team": 1.0}} for run in runs])
    assert one_class["auc"].select("value", "reason").row(0) == (None, "group.degenerate")
    beyond = health([run | {"scores": [5.0 * s]} for run, s in zip(runs, scores, strict=True)])
    assert beyond["brier"]["reason"].to_list() == ["result.range"] and beyond["auc"]["value"][0] == 0.75


def drifting(by: float, rng: np.random.Generator) -> list[Run]:
    runs = []
    for task in range(12):
        for step in range(6):
            y = float(rng.random() < 0.5)
            score = min(1.0, max(0.0, 0.3 + 0.4 * y + by * step / 5 + rng.normal(0, 0.05)))
            runs.append({"task": f"k{task}", "step": step, "rewards": {"team": y}, "scores": [score]})
    return runs


def test_a_judge_that_comes_to_praise_raises_the_alarm() -> None:
    rng = np.random.default_rng(3)
    [row] = health(drifting(0.5, rng))["drift"].iter_rows(named=True)
    assert row["alarm"] and row["value"] > 0.2 and row["train_step"] is None
    [row] = health(drifting(0.0, rng))["drift"].iter_rows(named=True)
    assert not row["alarm"] and abs(row["value"]) < 0.3
    assert "drift" not in health([run for run in drifting(0.5, rng) if run["step"] < 2])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"judge": "nobody"}, "unknown reward channel 'nobody'"),
        ({"judge": 3}, "judge is 3, expected the name of a reward channel"),
        ({"success": "yes"}, "success is 'yes', expected a number"),
    ],
)
def test_mistakes_about_judges(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.rewards.verifier_health(read([{"rewards": {"team": 1.0}}]), **options)
