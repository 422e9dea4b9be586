"""Pay that rises while the outcome falls, and outcomes in which nothing can drown."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import orchestrace as ot

STEPS, PROMPTS, SAMPLES = 12, 6, 4


def log(folder: Path, correct: tuple[float, float], bonus: tuple[float, float], seed: int = 7) -> ot.Corpus:
    """A TRL log in which the share of right answers and the bonus go from one number to another."""
    rng = np.random.default_rng(seed)
    rows = []
    for step in range(1, STEPS + 1):
        done = (step - 1) / (STEPS - 1)
        right, paid = (a + (b - a) * done for a, b in (correct, bonus))
        for prompt in range(PROMPTS):
            for sample in range(SAMPLES):
                rows.append(
                    {"step": step, "prompt": f"q{prompt}", "completion": f"{step} {prompt} {sample}"}
                    | {"correct": float(rng.random() < right), "bonus": paid + 0.03 * rng.normal()}
                    | {"advantage": 0.0}
                )
    path = folder / "completions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return ot.read_traces(path)


def hazards(corpus: ot.Corpus) -> pl.DataFrame:
    """Of the sum of both rewards, with the right answers as outcome; the steps of training are the log's."""
    parts = [
        ot.rewards.compute(corpus, "outcome", channels={"outcome": name}).with_columns(reward=pl.lit(name))
        for name in ("correct", "bonus")
    ]
    paid = ot.rewards.combine(pl.concat(parts), {"correct": 1.0, "bonus": 1.0}, name="both")
    return ot.rewards.detect_hacking(corpus, paid, outcome="correct", n_boot=200)


@pytest.mark.parametrize(
    ("correct", "bonus", "alarms"),
    [
        ((0.5, 0.1), (0.1, 0.9), {"pay_slope", "outcome_slope"}),
        ((0.0, 0.0), (0.96, 0.96), set()),
        ((0.2, 0.8), (0.3, 0.3), set()),
        # both fall, and pay alone falls: nobody is paid more for less
        ((0.6, 0.1), (0.5, 0.1), set()),
        ((0.1, 0.6), (0.9, 0.1), set()),
    ],
)
def test_more_pay_for_less_is_an_alarm(
    tmp_path: Path, correct: tuple[float, float], bonus: tuple[float, float], alarms: set[str]
) -> None:
    found = hazards(log(tmp_path, correct, bonus))
    trends = found.filter(pl.col("detector").str.ends_with("_slope"))
    assert trends["detector"].to_list() == ["pay_slope", "outcome_slope"]
    assert set(trends.filter("alarm")["detector"]) == alarms
    assert trends["family"].to_list() == ["R8", "R8"] and trends["reward"].to_list() == ["both", "both"]
    assert trends["train_step"].to_list() == [None, None] and trends["bound"].to_list() == ["> 0", "< 0"]


def test_an_outcome_without_variance_is_not_drowned(tmp_path: Path) -> None:
    drowned = hazards(log(tmp_path, (0.0, 0.0), (0.96, 0.96))).filter(detector="drowned")
    assert drowned.height == STEPS and not drowned["alarm"].any()
    assert set(drowned["reason"]) == {"ratio.empty"} and drowned["value"].null_count() == STEPS
    noisy = log(tmp_path, (0.5, 0.5), (0.0, 0.0))
    corpus = noisy.with_measures(noisy.traces.select("trace", bonus=pl.col("trace") % 7 * 100.0).collect())
    assert hazards(corpus).filter(detector="drowned")["alarm"].all()


def test_rewards_that_are_equal_on_paper_are_normalized_to_nothing(tmp_path: Path) -> None:
    corpus = ot.generate(traces=4, seed=0)
    sums = pl.DataFrame({"trace": range(4), "same": [0.1 + 0.2, 0.3, 0.1 + 0.2, 0.3]})
    paid = ot.rewards.compute(corpus.with_measures(sums), "outcome", channels={"outcome": "same"})
    assert ot.rewards.combine(paid, {"outcome": 1.0}, normalize="corpus")["value"].to_list() == [0.0] * 4


def test_without_steps_there_is_no_trend(tmp_path: Path) -> None:
    corpus = ot.generate(traces=40, seed=0)
    found = ot.rewards.detect_hacking(corpus, ot.rewards.compute(corpus, "distinct_calls"), n_boot=50)
    trends = found.filter(pl.col("detector").str.ends_with("_slope"))
    assert set(trends["reason"]) == {"field.absent"} and not trends["alarm"].any()
