"""Published step scores: counts and sums of five tasks, and a rule that keeps its promise on each."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

TASKS = {
    # runs, steps, successes, steps of successes, sum of scores, tokens
    "chessgames": (580, 36_388, 309, 18_520, 18_555.834132, None),
    "gsm8k": (2_962, 10_518, 2_505, 8_954, 9_174.66, None),
    "hotpotqa": (8_076, 38_106, 3_961, 16_319, 21_399.6, None),
    "math": (2_505, 20_003, 1_431, 10_686, 14_260.4383, 238_224),
    "mmlupro": (6_039, 27_735, 3_739, 16_889, 18_191.296479, 189_953),
}
NAMES = {"run": "uq_problem_idx", "step": "num_steps", "score": "judge_probability", "success": "solved"}


def read(corpora: Path, task: str) -> pl.DataFrame:
    steps = pl.read_csv(corpora / "e-valuator" / f"{task}.csv.gz", infer_schema_length=None)
    tokens = "generated_tokens" if "generated_tokens" in steps.columns else None
    assert ot.stopping.unused_runs(steps, **NAMES, tokens=tokens).height == 0
    return ot.stopping.epochs_from_frame(steps, **NAMES, tokens=tokens)


@pytest.mark.every_nth(1)
@pytest.mark.parametrize("task", TASKS)
def test_runs_and_steps_are_all_there(corpora: Path, task: str) -> None:
    epochs = read(corpora, task)
    runs, steps, won, steps_won, scores, tokens = TASKS[task]
    last = epochs.filter("last")
    assert (last.height, epochs.height) == (runs, steps)
    assert (last["y"].sum(), int((epochs["y"] == 1).sum())) == (won, steps_won)
    assert epochs["s"].sum() == pytest.approx(scores, abs=1e-4)
    assert (None if tokens is None else last["tokens"].sum()) == tokens


@pytest.mark.parametrize("task", TASKS)
def test_a_rule_keeps_its_promise_on_the_other_half(corpora: Path, task: str) -> None:
    epochs = read(corpora, task)
    fit = epochs.filter(pl.col("trace") % 2 == 0)
    rule = ot.stopping.fit_abort(fit, method="pac", alpha=0.2)
    found = ot.stopping.evaluate_abort(epochs.filter(pl.col("trace") % 2 == 1), rule, n_boot=200)
    row = found.row(0, named=True)
    assert row["far_lower"] <= 0.2
    assert row["saved_failed_lower"] > 0.01
