"""`fit_law` and `predict_law`: what they refuse, what is null and why, extrapolation."""

import polars as pl
import pytest

import orchestrace as ot


def runs(sizes: list[float], n_runs: int = 6) -> pl.DataFrame:
    """Cost 3 n, up to a factor of each run."""
    rows = [(f"run {r}", n, (1.0 + r / 50) * 3.0 * n) for r in range(n_runs) for n in sizes]
    return pl.DataFrame(rows, ["trace_id", "n", "cost"], orient="row")


TABLE = runs([10.0, 20.0, 40.0, 80.0, 160.0, 320.0])


def fitted(table: pl.DataFrame, **options) -> pl.DataFrame:
    return ot.scaling.fit_law(table, **{"x": "n", "y": "cost", "n_boot": 20} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": "size"}, "no column 'size'"),
        ({"x": "trace_id"}, "frame.trace_id has type String, expected numbers"),
        ({"cluster": "task"}, "no column 'task'"),
        ({"by": "team"}, "no column 'team'"),
        ({"models": ["powr"]}, "did you mean 'power'"),
        ({"models": []}, "models is empty"),
        ({"errors": "log"}, "errors is 'log', expected"),
        ({"folds": 1}, "folds is 1, expected a whole number from 2"),
        ({"n_boot": -1}, "n_boot is -1"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"seed": 0.5}, "seed is 0.5, expected a whole number"),
    ],
)
def test_wrong_options_are_named(options, message) -> None:
    with pytest.raises(ot.ParameterError, match=message.replace("(", r"\(")):
        fitted(TABLE, **options)


def test_a_group_may_not_be_named_like_a_column_of_the_result() -> None:
    with pytest.raises(ot.ParameterError, match="by has 'model'"):
        fitted(TABLE.with_columns(model=pl.lit("a")), by="model")


@pytest.mark.parametrize("frame", [TABLE.clear(), TABLE.head(0).lazy()])
def test_an_empty_frame_has_no_law(frame) -> None:
    law = fitted(frame)
    assert law.height == 9 and law["reason"].unique().to_list() == ["support.absent"]
    assert law["n"].sum() == 0 and law["x_lower"].null_count() == 9
    said = ot.scaling.predict_law(law, 5.0)
    assert said.row(0, named=True) == {
        "model": None,
        "x": 5.0,
        "estimate": None,
        "lower": None,
        "upper": None,
        "extrapolated_decades": None,
        "beyond_a_decade": None,
        "reason": "support.absent",
    }
    assert fitted(frame, by="trace_id", cluster=None).height == 0


@pytest.mark.parametrize("slope", [-1e4, 1e4])
@pytest.mark.parametrize("model", ["power", "broken_power"])
def test_a_law_whose_scale_is_no_float_is_not_told(slope: float, model: str) -> None:
    """Points that nearly touch have any slope, and the law through them is beyond all floats at x = 1."""
    sizes = [2.0 * (1.0 + 1e-4 * i) for i in range(8)]
    steep = runs(sizes).with_columns(cost=pl.col("cost") * (slope * (pl.col("n") / 2.0).log()).exp())
    law = fitted(steep, models=[model])
    assert law["reason"].unique().to_list() == ["fit.unidentified"]
    assert law["estimate"].null_count() == law.height
    near = fitted(steep.with_columns(pl.col("n") / 2.0), models=[model])
    assert near["estimate"].null_count() == 0


def test_nothing_has_no_exponent() -> None:
    law = fitted(TABLE.with_columns(cost=0.0), errors="absolute", models=["power"])
    assert law["reason"].to_list() == ["fit.unidentified"] * 2


def test_one_row_is_no_law() -> None:
    law = fitted(TABLE.head(1))
    assert law["reason"].to_list() == ["support.absent"] * 9
    assert law["n_x"].to_list() == [1] * 9 and law["x_upper"].to_list() == [10.0] * 9


def test_a_law_needs_a_size_more_than_parameters() -> None:
    for sizes, known in ((2, []), (3, ["power"]), (4, ["power"]), (5, ["power", "broken_power"])):
        law = fitted(runs([10.0 * 2**i for i in range(sizes)]))
        has = law.filter(pl.col("estimate").is_not_null())["model"].unique(maintain_order=True).to_list()
        assert has == known
        # a line in logarithms has no limit, which is not a matter of how many points
        limits = law.filter(pl.col("model") == "saturating")["reason"].unique().to_list()
        assert limits == ["support.absent" if sizes < 4 else "fit.unidentified"]


def test_what_has_no_logarithm_is_not_left_out_in_silence() -> None:
    zero = TABLE.with_columns(n=pl.when(pl.col("n") == 10.0).then(0.0).otherwise("n"))
    assert fitted(zero)["reason"].unique().to_list() == ["x.not_positive"]
    free = TABLE.with_columns(cost=pl.when(pl.col("n") == 10.0).then(0.0).otherwise("cost"))
    assert fitted(free)["reason"].unique().to_list() == ["y.not_positive"]
    law = fitted(free, errors="absolute", models=["power"])
    assert law["reason"].to_list() == [None, None] and law["estimate"].null_count() == 0


def test_nulls_are_left_out_and_counted() -> None:
    holes = pl.DataFrame(
        {
            "trace_id": ["a", "b", None, "c"],
            "n": [None, 5.0, 5.0, float("inf")],
            "cost": [1.0, None, 1.0, 2.0],
        }
    )
    law = fitted(pl.concat([TABLE, holes]))
    assert law["n_null"].unique().to_list() == [4] and law["n"].unique().to_list() == [36]
    drop = ["n_null"]
    assert law.drop(drop).equals(fitted(TABLE).drop(drop))
    assert fitted(holes)["reason"].unique().to_list() == ["support.absent"]
    assert fitted(holes)["n_null"].unique().to_list() == [4]


def test_few_clusters_have_an_estimate_and_no_interval() -> None:
    for n_runs, told in ((1, False), (2, True), (4, True), (5, True)):
        law = fitted(runs([10.0, 20.0, 40.0, 80.0], n_runs), models=["power"])
        assert law["estimate"].null_count() == 0 and law["chosen"].all()
        assert law["heldout_error"].is_not_null().all() == told
        few = n_runs < 5
        assert law["reason"].to_list() == (["clusters.few"] * 2 if few else [None, None])
        assert law["lower"].is_null().all() == few
        said = ot.scaling.predict_law(law, 100.0).row(0, named=True)
        assert said["estimate"] > 0 and (said["lower"] is None) == few
        assert said["reason"] == ("clusters.few" if few else None)
    alone = fitted(runs([10.0, 20.0, 40.0, 80.0, 160.0], 1))
    assert not alone["chosen"].any()
    assert ot.scaling.predict_law(alone, 20.0)["reason"].to_list() == ["choice.absent"]
    assert ot.scaling.predict_law(alone, 20.0, model="power")["estimate"][0] == pytest.approx(60.0)


def test_groups_are_fitted_by_themselves() -> None:
    twice = TABLE.with_columns(cost=pl.col("cost") ** 2)
    both = pl.concat(
        [TABLE.with_columns(kind=pl.lit("b")), twice.with_columns(kind=pl.lit("a"))]
    ).with_columns(team=pl.lit(1))
    law = fitted(both, by=["kind", "team"])
    assert law["kind"].unique(maintain_order=True).to_list() == ["a", "b"]
    for kind, table in (("a", twice), ("b", TABLE)):
        assert law.filter(pl.col("kind") == kind).drop("kind", "team").equals(fitted(table))
    said = ot.scaling.predict_law(law, [640.0, 10.0])
    assert said.select("kind", "team", "x").rows() == [
        ("a", 1, 640.0),
        ("a", 1, 10.0),
        ("b", 1, 640.0),
        ("b", 1, 10.0),
    ]
    rare = pl.concat([both, both.head(1).with_columns(kind=pl.lit("c"), n=pl.lit(None, pl.Float64))])
    found = fitted(rare, by="kind").filter(pl.col("kind") == "c")
    assert found["reason"].unique().to_list() == ["support.absent"] and found["n_null"][0] == 1


def test_one_seed_is_one_answer_and_another_is_another() -> None:
    noisy = TABLE.with_columns(cost=pl.col("cost") * (1.0 + 0.1 * (pl.int_range(pl.len()) * 7919 % 13) / 13))
    first, again, other = (fitted(noisy, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first["draws"].equals(other["draws"]) and first["estimate"].equals(other["estimate"])


def test_beyond_a_decade_a_law_is_silent_unless_asked() -> None:
    law = fitted(TABLE, models=["power"])
    at = [1.0, 0.99, 10.0, 320.0, 640.0, 3200.0, 3201.0]
    said = ot.scaling.predict_law(law, at)
    assert said["beyond_a_decade"].to_list() == [False, True, False, False, False, False, True]
    assert said["estimate"].is_null().to_list() == said["beyond_a_decade"].to_list()
    assert said["reason"].to_list() == [None, "range.exceeded", None, None, None, None, "range.exceeded"]
    assert said["extrapolated_decades"].to_list() == pytest.approx(
        [1.0, 1.004365, 0.0, 0.0, 0.30103, 1.0, 1.000136], abs=1e-6
    )
    asked = ot.scaling.predict_law(law, at, beyond_a_decade=True)
    assert asked["estimate"].null_count() == 0 and asked["reason"].null_count() == 7
    assert asked["beyond_a_decade"].equals(said["beyond_a_decade"])
    assert asked["estimate"].to_list() == pytest.approx([3.15 * x for x in at], rel=1e-3)
    assert (asked["lower"] <= asked["estimate"]).all() and (asked["estimate"] <= asked["upper"]).all()


def test_a_rising_law_is_not_believed_below_0() -> None:
    """Below its range a curve that rises to a limit crosses 0, where relative errors have no meaning."""
    rows = [
        (f"r{r}", n, (1 + r / 100) * (5.0 - 8.0 * n**-0.5)) for r in range(6) for n in (4.0, 8, 16, 32, 64)
    ]
    table = pl.DataFrame(rows, ["trace_id", "n", "cost"], orient="row")
    law = fitted(table, models=["saturating"])
    said = ot.scaling.predict_law(law, [2.0, 4.0, 128.0])
    assert said["reason"].to_list() == ["y.not_positive", None, None]
    assert fitted(table, models=["saturating"], errors="absolute").height == 3


@pytest.mark.parametrize("at", [0.0, -1.0, float("nan"), [1.0, float("inf")], ["many"], [None]])
def test_sizes_are_above_0(at) -> None:
    with pytest.raises(ot.ParameterError, match="expected numbers above 0"):
        ot.scaling.predict_law(fitted(TABLE), at)


def test_what_is_no_fit_is_refused() -> None:
    with pytest.raises(ot.ParameterError, match="pass what fit_law returned"):
        ot.scaling.predict_law(TABLE, 1.0)
    with pytest.raises(ot.ParameterError, match="fit has no model 'saturating'"):
        ot.scaling.predict_law(fitted(TABLE, models=["power"]), 1.0, model="saturating")


def test_a_fit_outlives_its_process(tmp_path) -> None:
    law = fitted(TABLE)
    law.write_parquet(tmp_path / "law.parquet")
    again = pl.read_parquet(tmp_path / "law.parquet")
    assert again.equals(law) and ot.scaling.predict_law(again, 640.0).equals(
        ot.scaling.predict_law(law, 640.0)
    )
