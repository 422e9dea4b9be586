"""Lists of prices: the one of the package, and files of users."""

import datetime as dt
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.costs.model_names import listed_names


def test_every_price_of_the_package_has_a_source_and_a_day() -> None:
    prices = ot.costs.list_prices()
    assert prices.height > 150 and prices["provider"].n_unique() >= 6
    assert prices.select(pl.col("source", "retrieved", "provider").null_count()).row(0) == (0, 0, 0)
    assert prices["retrieved"].max() <= dt.date(2026, 11, 26)  # type: ignore[operator]


def test_prices_of_the_package_are_of_one_size() -> None:
    """What a cache gives is cheaper than what is read anew, and that cheaper than what is written."""
    prices = ot.costs.list_prices()
    assert prices.filter(pl.col("cache_read") > pl.col("input")).is_empty()
    assert prices.filter(pl.col("input") > pl.col("output")).is_empty()
    assert prices.filter(pl.col("cache_write_1h") < pl.col("cache_write")).is_empty()
    anthropic = prices.filter(pl.col("provider") == "anthropic", pl.col("cache_write").is_not_null())
    by_rule = anthropic.select(
        five=(pl.col("cache_write") / pl.col("input") - 1.25).abs().max(),
        hour=(pl.col("cache_write_1h") / pl.col("input") - 2).abs().max(),
    )
    # Claude 3 Haiku alone was rounded to .30
    assert by_rule["five"].item() <= 0.051 and by_rule["hour"].item() < 1e-9


@pytest.mark.parametrize(
    ("recorded", "listed"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-sonnet-4@default", "claude-sonnet-4"),
        ("claude-sonnet-4-5-latest", "claude-sonnet-4-5"),
        ("claude-3-5-haiku-20241022", "claude-3-5-haiku"),
        ("anthropic/claude-opus-4-1-20250805", "claude-opus-4-1"),
        # other models, other sellers, other offers
        ("gpt-4o-realtime", None),
        ("gpt-4-1106-vision-preview", None),
        ("gpt-4-9999", None),
        ("claude-3-5", None),
        ("azure/gpt-4o", None),
        ("openai/claude-sonnet-4", None),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", None),
        ("deepseek/deepseek-chat:free", None),
        ("ft:gpt-4o:acme", None),
        ("gpt-4o-mini-latest\n", None),
        ("gpt-4o-mini-2024-99-99", None),
        ("gpt-4o-mini-20999999", None),
        ("claude-sonnet-4-20250514-thinking", None),
        ("", None),
        ("-", None),
        ("<synthetic>", None),
        ("x" * 100_000, None),
        ("-" * 100_000, None),
    ],
)
def test_a_model_is_priced_by_its_name_alone(recorded: str, listed: str | None) -> None:
    rows = listed_names([recorded], ot.costs.list_prices())
    assert rows["listed"].to_list() == ([] if listed is None else [listed])


def test_a_name_of_two_providers_has_to_say_which() -> None:
    prices = pl.DataFrame({"model": ["m", "m"], "provider": ["a", "b"], "input": [1.0, 2.0], "output": 1.0})
    assert listed_names(["m", "a/m", "B/m", "c/m"], prices).rows() == [("a/m", "m", "a"), ("B/m", "m", "b")]
    anybodys = prices.with_columns(provider=pl.Series(["Azure", None]))
    rows = listed_names(["azure/m", "AZURE/m", "c/m"], anybodys).rows()
    assert rows == [("azure/m", "m", "Azure"), ("AZURE/m", "m", "Azure"), ("c/m", "m", None)]


def test_a_file_needs_three_columns(tmp_path: Path) -> None:
    file = tmp_path / "ours.csv"
    file.write_text("# ours\nmodel,output,input,valid_from\nours-7b, 2 ,1e-1,2026-01-31\nours-8b,2,0,\n")
    prices = ot.costs.read_prices(file)
    assert prices.schema == ot.costs.list_prices().schema
    assert prices.select("model", "input", "output", "valid_from").rows() == [
        ("ours-7b", 0.1, 2.0, dt.date(2026, 1, 31)),
        ("ours-8b", 0.0, 2.0, None),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,input\nm,1\n", "column 'output' is missing"),
        ("model,input,output,ouput\nm,1,2,3\n", "unknown column 'ouput'"),
        ("model,input,output\nm,-1,2\n", "row 1: input is '-1', expected a number of at least 0"),
        ("model,input,output\nm,1,2\nn,nan,2\n", "row 2: input is 'nan', expected a number"),
        ("model,input,output\nm,1 USD,2\n", "row 1: input is '1 USD', expected a number"),
        ("model,input,output\nm,,2\n", "row 1: input is empty"),
        ("model,input,output\n,1,2\n", "row 1: model is empty"),
        (
            "model,input,output,valid_to\nm,1,2,26.11.2026\n",
            "row 1: valid_to is '26.11.2026', expected a date",
        ),
        ("model,input,output\nm,1,2\nm,2,3\n", "rows 1 and 2: two prices of 'm' at one time"),
        (
            "model,input,output,valid_from,valid_to\nm,1,2,,2026-02-01\nm,2,3,2026-01-01,\n",
            "rows 1 and 2: two prices of 'm' at one time",
        ),
        ("model,input,output,valid_from,valid_to\nm,1,2,2026-02-01,2026-02-01\n", "valid_from is not before"),
        ("model,input,output,context_above\nm,1,2,1.5\n", "context_above is '1.5', expected a whole number"),
        ("model;input;output\nm;1;2\n", "columns are divided by ';', expected commas"),
        ("model,input,output,input\nm,1,2,3\n", "column 'input' is there twice"),
        ("", "is no list of prices"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_by_its_row(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "ours.csv"
    file.write_text(text)
    with pytest.raises((ot.SchemaError, ot.InputError), match=r"ours\.csv") as caught:
        ot.costs.read_prices(file)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"input": [dt.date(2025, 1, 1)]}, "input is .*, expected a number"),
        ({"input": [True]}, "input is True, expected a number"),
        ({"input": [dt.timedelta(1)]}, "input is .*, expected a number"),
        ({"valid_from": [20250101]}, "valid_from is 20250101, expected a date"),
        ({"valid_from": [dt.datetime(2025, 1, 1, 12)]}, "valid_from is .*, expected a date"),
        ({"context_above": [500.5]}, r"context_above is 500\.5, expected a whole number"),
        ({"model": [["m"]]}, "model is .*, expected a text"),
    ],
)
def test_a_frame_holds_what_prices_are(columns: dict[str, list[object]], message: str) -> None:
    frame = pl.DataFrame({"model": ["m"], "input": [1.0], "output": [2.0]} | columns)
    with pytest.raises(ot.SchemaError, match=message):
        ot.costs.table(ot.generate(traces=1, seed=0), prices=frame)


@pytest.mark.parametrize("given", [3, {"m": 1}, pl.LazyFrame({"model": ["m"]})])
def test_what_is_no_list_is_told_by_the_name_of_the_argument(given: object) -> None:
    with pytest.raises(ot.ParameterError, match="prices is"):
        ot.costs.table(ot.generate(traces=1, seed=0), prices=given)  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ot.InputError, match=r"none\.csv.*No such file"):
        ot.costs.read_prices(tmp_path / "none.csv")
