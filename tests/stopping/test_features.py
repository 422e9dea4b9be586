"""Features against plain Python; none knows what comes after its epoch."""

import polars as pl
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose
from polars.testing import assert_frame_equal

import orchestrace as ot
from reference import stopping as reference
from reference.stopping import Run
from samples.examples import examples
from samples.scored_runs import scored, steps


def epochs_of(runs: list[Run]) -> pl.DataFrame:
    return ot.stopping.epochs_from_frame(steps(runs), tokens="tokens")


@examples(60)
@given(scored(), st.integers(5, 9))
def test_features_are_those_of_the_reference(runs: list[Run], k_max: int) -> None:
    found = ot.stopping.features(epochs_of(runs), k_max=k_max)
    expected = [row for run in runs for row in reference.features(run.scores, k_max)]
    for name in expected[0]:
        assert_allclose(found[name].to_numpy(), [row[name] for row in expected], atol=1e-12, err_msg=name)
    assert found["x_c"].to_list() == [cost for run in runs for cost in run.costs]
    assert found["x_s_missing"].sum() == found["x_c_missing"].sum() == 0


@examples(60)
@given(scored(), st.integers(1, 5))
def test_cutting_a_run_changes_no_feature_before_the_cut(runs: list[Run], cut: int) -> None:
    epochs = epochs_of(runs)
    short = epochs.filter(pl.col("k") <= cut)
    whole = ot.stopping.features(epochs, k_max=5).filter(pl.col("k") <= cut)
    assert_frame_equal(ot.stopping.features(short, k_max=5), whole, check_exact=True)


def test_an_absent_score_is_null_and_marked() -> None:
    frame = pl.DataFrame({"run": "a", "step": [1, 2, 3], "score": [0.5, 0.7, 0.3], "success": True})
    epochs = ot.stopping.epochs_from_frame(frame).with_columns(s=pl.when(pl.col("k") != 2).then("s"))
    found = ot.stopping.features(epochs)
    assert found["x_s_missing"].to_list() == [0, 1, 0]
    assert found["x_s_mean"].to_list() == [0.5, None, 0.4]
    assert found["x_s_delta"].to_list() == [0.0, None, None]
    assert found["x_c"].to_list() == [1.0, 2.0, 3.0]  # without tokens, epochs are counted


def test_costs() -> None:
    frame = pl.DataFrame({"run": "a", "step": [1, 2], "score": 0.5, "success": True, "tokens": [7, 3]})
    epochs = ot.stopping.epochs_from_frame(frame, tokens="tokens")
    assert ot.stopping.features(epochs)["x_c"].to_list() == [7.0, 10.0]
    assert ot.stopping.features(epochs, cost="epochs")["x_c"].to_list() == [1.0, 2.0]
    with pytest.raises(ot.ParameterError, match="cost is 'usd', but some epochs lack it"):
        ot.stopping.features(epochs, cost="usd")
    with pytest.raises(ot.ParameterError, match="cost is 'token', expected"):
        ot.stopping.features(epochs, cost="token")
    with pytest.raises(ot.ParameterError, match="k_max is 0"):
        ot.stopping.features(epochs, k_max=0)
