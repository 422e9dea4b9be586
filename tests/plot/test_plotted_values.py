"""What charts show is what the frames say, against plain Python."""

from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.plot.canvas import shortened, shown_names
from orchestrace.plot.timelines import MOST_MARKS, critical_stretches, in_lanes, joined
from orchestrace.plot.trace_rows import trace_rows
from plot.drawn import observations
from samples.examples import examples


def rows_with(chart: Any, *columns: str) -> list[dict[str, Any]]:
    """All rows of a chart that have some columns."""
    tables = chart.to_dict()["datasets"].values()
    return [row for rows in tables for row in rows if set(columns) <= set(row)]


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=24, seed=0)


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 8)), max_size=30))
def test_bars_of_one_row_at_one_time_lie_below_each_other(drawn: list[tuple[int, int, int]]) -> None:
    drawn = sorted(drawn, key=lambda one: one[1])
    rows = [(f"r{row}", float(start), float(start + lasts)) for row, start, lasts in drawn]
    bars = in_lanes(pl.DataFrame(rows, schema=["row", "start", "finish"], orient="row"), 24).rows(named=True)
    for one in bars:
        same = [other for other in bars if other["row"] == one["row"]]
        at_once = max(sum(a["start"] <= b["start"] < a["finish"] for a in same) for b in same)
        assert one["thick"] == pytest.approx(24 * (0.56 if at_once == 1 else 0.68 / min(at_once, 4)))
        upper, lower = one["offset"] - one["thick"] / 2, one["offset"] + one["thick"] / 2
        assert 0 < upper < lower < 24
        for other in same:
            apart = other is one or other["finish"] <= one["start"] or one["finish"] <= other["start"]
            between = abs(one["offset"] - other["offset"])
            assert at_once > 4 or apart or between >= one["thick"] - 1e-9


@examples(60)
@given(st.integers(MOST_MARKS + 1, 6_000), st.integers(1, 9), st.integers(0, 99), st.booleans())
def test_joined_bars_have_every_event_once_and_end_where_one_does(
    n: int, rows: int, seed: int, timeless: bool
) -> None:
    kinds = ["tool", "message"]
    events = pl.select(seq=pl.int_range(n, dtype=pl.UInt32)).with_columns(
        row=pl.format("r{}", (pl.col("seq").hash(seed) % rows)),
        kind=pl.col("seq").hash(seed + 1) % 2,
        start=(pl.col("seq").hash(seed + 2) % 10_000).cast(pl.Float64) * (0.0 if timeless else 0.1),
        lasts=(pl.col("seq").hash(seed + 3) % 5).cast(pl.Float64) * (0.0 if timeless else 1.0),
        critical=pl.col("seq") % 7 == 0,
        tokens=pl.lit(1, pl.Int64),
        tool=pl.lit("t"),
        type=pl.lit("message"),
        id=pl.col("seq").cast(pl.String),
    )
    events = events.with_columns(
        finish=pl.col("start") + pl.col("lasts"),
        kind=pl.when(pl.col("kind") == 0).then(pl.lit(kinds[0])).otherwise(pl.lit(kinds[1])),
    )
    bars, width = joined(events)
    assert 0 < bars.height <= MOST_MARKS and width > 0
    assert bars["n"].sum() == n == bars["tokens"].sum()
    by_key = defaultdict(list)
    for row in events.iter_rows(named=True):
        by_key[row["row"], row["kind"], row["finish"] <= row["start"]].append((row["start"], row["finish"]))
    for bar in bars.iter_rows(named=True):
        own = by_key[bar["row"], bar["kind"], bar["instant"]]
        assert bar["start"] in {start for start, _ in own} and bar["finish"] in {end for _, end in own}
        inside = [(a, b) for a, b in own if bar["start"] <= a and a < bar["start"] + width]
        assert max(b for _, b in inside) >= bar["finish"]


def test_few_events_are_bars_of_their_own(corpus: ot.Corpus) -> None:
    drawn = trace_rows(corpus, 0)
    bars, width = joined(drawn.events)
    assert width == 0 and bars["start"].equals(drawn.events["start"]) and (bars["n"] == 1).all()


def test_the_critical_path_is_that_of_the_schedule(corpus: ot.Corpus) -> None:
    for trace in range(24):
        drawn = trace_rows(corpus, trace)
        table = ot.schedules.simulate(corpus).filter(pl.col("trace") == trace, "critical")
        assert drawn.events.filter("critical")["seq"].sort().equals(table["seq"].sort())
        path = critical_stretches(drawn)
        assert all(a != b for a, b in zip(path["row"], path["row"][1:], strict=False))
        assert set(path["row"]) == set(drawn.events.filter("critical")["row"])


def test_rows_stand_below_who_spawned_them_in_order_of_their_first_event(corpus: ot.Corpus) -> None:
    agents = corpus.agents.select("trace", pl.col("agent", "parent").cast(pl.String)).collect()
    for trace in range(24):
        drawn = trace_rows(corpus, trace)
        place = {name: at for at, name in enumerate(drawn.owners)}
        first = drawn.events.group_by("owner").agg(pl.col("start", "seq").min())
        assert set(place) == set(first["owner"])
        for agent, parent in agents.filter(trace=trace).select("agent", "parent").iter_rows():
            if agent in place and parent in place:
                assert place[parent] < place[agent]
        began = {name: (start, seq) for name, start, seq in first.iter_rows()}
        for a, b in zip(drawn.owners, drawn.owners[1:], strict=False):
            if drawn.parents[a or ""] == drawn.parents[b or ""]:
                assert began[a][0] <= began[b][0]


def test_tokens_of_the_tree_are_those_of_owners(corpus: ot.Corpus) -> None:
    events = corpus.events.filter(pl.col("trace") == 0).collect()
    total = events["tokens"].sum()
    drawn = trace_rows(corpus, 0)
    assert drawn.events["tokens"].sum() == total
    texts = " ".join(row["text"] for row in rows_with(ot.plot.spawn_tree(corpus, 0), "text", "area"))
    assert texts.count(" tokens") == drawn.n_agents


def test_sums_of_tokens_may_need_more_than_64_bits(corpus: ot.Corpus) -> None:
    """Where they wrapped around, the area of a circle was no number."""
    fields = corpus.events.filter(pl.col("trace") == 0).select("trace", "seq", tokens_out=pl.lit(2**62))
    most = corpus.with_fields(fields.collect())
    texts = [row["text"] for row in rows_with(ot.plot.spawn_tree(most, 0), "text", "area")]
    assert any(float(text.split("· ")[1].split(" ")[0]) > 2**63 for text in texts if "e+" in text)


def test_the_tree_is_of_agents() -> None:
    """The user and the tools of a recorded session spawned nobody, and nobody spawned them."""
    session = ot.read_traces(Path(__file__).parents[2] / "data/importers/claude_code/input.jsonl")
    texts = [row["text"] for row in rows_with(ot.plot.spawn_tree(session, 0), "text", "area")]
    shown = sorted(text.partition(" ·")[0] for text in texts)
    assert shown == sorted(session.agents.filter(trace=0, kind="agent").collect()["agent"].cast(pl.String))


@pytest.mark.parametrize("unit", ["agent", "role"])
def test_points_of_shares_are_means_over_runs_and_sum_to_the_mean_reward(
    corpus: ot.Corpus, unit: Any
) -> None:
    credits = ot.credit(corpus, method="flow", unit=unit)
    sums: dict[str, float] = defaultdict(float)
    for name, value in credits.select("unit_id", "credit").iter_rows():
        sums["(no unit)" if name is None else name] += value
    whole = ot.plot.credit(credits, top=60)
    points = {row["name"]: row["credit"] for row in rows_with(whole, "name", "credit")}
    assert points.keys() == sums.keys()
    for name, total in sums.items():
        assert points[name] == pytest.approx(total / 24, abs=1e-12)
    few = {row["name"]: row["credit"] for row in rows_with(ot.plot.credit(credits, top=3), "name", "credit")}
    assert len(few) == 4 and sum(few.values()) == pytest.approx(sum(sums.values()) / 24)
    for row in rows_with(ot.plot.credit(credits), "lower", "credit"):
        assert row["lower"] <= row["credit"] <= row["upper"]


def test_points_of_advantages_are_means_over_rows(corpus: ot.Corpus) -> None:
    credits = ot.credit(corpus, method="grpo", unit="role")
    known = credits.drop_nulls("credit")
    chart = ot.plot.credit(credits)
    for row in rows_with(chart, "name", "credit"):
        name = None if row["name"] == "(no unit)" else row["name"]
        own = known.filter(pl.col("unit_id").eq_missing(pl.lit(name, pl.String)))["credit"].to_list()
        assert row["credit"] == pytest.approx(fmean(own), abs=1e-12)


def test_effects_are_means_of_what_is_known(corpus: ot.Corpus) -> None:
    found = ot.replay(corpus, ot.interventions.drop(each="role"))
    rows = {row["name"]: row for row in rows_with(ot.plot.effects(found), "name", "certain")}
    for role in found["unit_id"].unique().drop_nulls():
        there = pl.col("lower").is_not_null() | pl.col("effect").is_not_null()
        own = found.filter(unit_id=role).filter(there)
        if own.is_empty():
            continue
        row = rows[f"drop(each='role'): {role}"]
        for name in ("effect", "lower", "upper"):
            assert row[name] == (pytest.approx(own[name].mean()) if own[name].count() else None)


def test_the_scaling_curve_has_sums_of_runs_and_their_bounds() -> None:
    curve = ot.schedules.scaling_curve(ot.generate(traces=3, seed=0), slots=[1, 2, 4, None])
    sums = curve.drop_nulls("k").group_by("k").agg(pl.col("makespan", "work", "span", "lower", "upper").sum())
    first = sums.filter(k=1)["makespan"].item()
    chart = ot.plot.scaling(curve, title="three runs")
    for row, of in zip(rows_with(chart, "k", "best"), sums.sort("k").iter_rows(named=True), strict=True):
        assert row == {
            "k": of["k"],
            "speedup": pytest.approx(first / of["makespan"]),
            "best": pytest.approx(of["work"] / of["lower"]),
            "worst": pytest.approx(of["work"] / of["upper"]),
        }
    (limit,) = rows_with(chart, "limit")
    assert limit["limit"] == pytest.approx(sums["work"][0] / sums["span"][0])
    assert chart.to_dict()["title"]["text"] == ["three runs"]


def test_the_frontier_has_every_price_of_every_rule() -> None:
    epochs, _ = ot.synthetic.stops(runs=200, seed=0)
    found = ot.stopping.frontier(epochs, ["fixed", "lsm"], prices=[0.0, 0.1, 0.3], n_boot=10)
    chart = ot.plot.stopping(found, title="planted")
    assert chart.to_dict()["title"]["subtitle"] == ["200 runs of 40 tasks, held out; a point for each price"]
    rows = rows_with(chart, "price", "rule")
    expected = [(name, price) for price in (0.0, 0.1, 0.3) for name in ("fixed", "lsm")]
    assert [(row["rule"], row["price"]) for row in rows] == expected
    with pytest.raises(ot.ParameterError, match="no row of the frame has a quality"):
        ot.plot.stopping(found.with_columns(quality=pl.lit(None, pl.Float64)))


def test_taint_counts_what_the_verb_lists(corpus: ot.Corpus) -> None:
    for trace in range(12):
        reached = ot.safety.tainted_events(corpus).filter(trace=trace)
        told = " ".join(ot.plot.taint(corpus, trace).to_dict()["title"].get("subtitle", ()))
        if reached.is_empty():
            continue
        seeds = int(reached["seed"].sum())
        assert told.startswith(f"{seeds:,} untrusted and {reached.height - seeds:,} tainted of ")


def test_cells_of_the_matrix_are_agreements(corpus: ot.Corpus) -> None:
    frames = [ot.credit(corpus, method=name, unit="agent") for name in ("flow", "uniform", "shapley")]
    cells = rows_with(ot.plot.agreement(corpus, frames, metric="kendall"), "a", "b", "value", "lower")
    assert len(cells) == 6
    for cell in cells:
        one, other = (frames[["flow", "uniform", "shapley"].index(cell[end])] for end in "ab")
        found = ot.evaluation.agreement(corpus, one, other).filter(metric="kendall")
        assert cell["value"] == pytest.approx(found["value"].item())


def test_laws_are_those_that_predict() -> None:
    points = observations()
    fit = ot.scaling.fit_law(points, x="n", y="y", by="by", n_boot=50)
    chart = ot.plot.laws(fit, points, x="n", y="y")
    for row in rows_with(chart, "estimate", "beyond")[::17]:
        said = ot.scaling.predict_law(fit.filter(by=row["group"]), row["x"])
        assert row["estimate"] == pytest.approx(said["estimate"].item())
    assert len(rows_with(chart, "y", "n")) == points.height
    many = observations(tasks=500)
    chart = ot.plot.laws(fit, many, x="n", y="y")
    assert len(rows_with(chart, "y", "n")) <= 82
    assert any("3,000 observations shown as" in line for line in chart.to_dict()["title"]["subtitle"])


@pytest.mark.parametrize("ending", [".svg", ".png", ".html"])
def test_files_are_whole_and_open_offline(corpus: ot.Corpus, tmp_path: Path, ending: str) -> None:
    chart = ot.plot.spawn_tree(corpus, 0)
    path = ot.plot.save(chart, tmp_path / f"tree{ending}")
    content = path.read_bytes()
    start = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!DOCTYPE html>"}[ending]
    assert content.lstrip().startswith(start)
    if ending == ".html":
        assert b"<script src" not in content and b"<link" not in content
    with pytest.raises(ot.InputError, match=r"exists; pass overwrite=True"):
        ot.plot.save(chart, path)
    ot.plot.save(chart, path, overwrite=True)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"path": "x.pdf"}, "must end in one of .svg, .png, .html"),
        ({"chart": 3}, "chart is of type int, expected a chart"),
        ({"scale": 0}, "scale is 0, expected a number above 0"),
        ({"scale": float("nan")}, "scale is nan"),
    ],
)
def test_saving_refuses(corpus: ot.Corpus, given_: dict[str, Any], words: str) -> None:
    call = {"chart": ot.plot.spawn_tree(corpus, 0), "path": "x.svg"} | given_
    with pytest.raises(ot.ParameterError, match=words):
        ot.plot.save(**call)


@given(st.lists(st.one_of(st.none(), st.text(max_size=70)), max_size=30), st.integers(12, 40))
def test_shown_names_are_printable_short_and_distinct(names: list[str | None], length: int) -> None:
    shown = shown_names(names, length)
    assert len(set(shown)) == len(names)
    assert all(name.isprintable() and name.strip() and len(name) <= length for name in shown)


@given(st.text(max_size=90), st.integers(4, 50))
def test_short_texts_stay_and_long_ones_keep_both_ends(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= length and (short == text or "…" in short)


def test_no_two_of_all_rules_of_stopping_look_alike() -> None:
    epochs, _ = ot.synthetic.stops(runs=60, seed=0)
    rules = ot.stopping.list_rules()["method"].to_list()
    assert len(rules) > 8  # more than there are colors
    one = ot.stopping.frontier(epochs, ["fixed"], prices=[0.0, 0.1], n_boot=10)
    found = pl.concat([one.with_columns(method=pl.lit(rule)) for rule in rules])
    _, dots = (layer["encoding"] for layer in ot.plot.stopping(found).to_dict()["layer"])
    looks = list(zip(dots["color"]["scale"]["range"], dots["shape"]["scale"]["range"], strict=True))
    assert len(set(looks)) == len(looks) == len(rules)
    with pytest.raises(ot.ParameterError, match="17 rules, expected at most 16: filter it"):
        ot.plot.stopping(pl.concat([one.with_columns(method=pl.lit(f"rule {n}")) for n in range(17)]))
