"""The pictures of the pages about questions, in docs/pictures.

    python benches/python/question_pictures.py gaming --svg docs/pictures/gaming.svg

The pages gaming, stopping, off-policy, rewards and decisions have pictures of their own. The first two are
drawn from the committed results in benches/results, the others from planted recordings, whose truth is known;
the script prints the rows that it draws, the same ones every time. The other pictures are of answers in
docs/how-to; `ot.plot` draws them of the sample corpus.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import vl_convert

import orchestrace as ot
from orchestrace.statistics.influence import mean_interval
from orchestrace.study.paid import followed
from orchestrace.study.sheet import COLORS, GREY, INK, Sheet

RESULTS = Path(__file__).resolve().parents[1] / "results"
BLUE, RED, GREEN, PINK, SKY, YELLOW = COLORS[:6]
LEGEND = {"orient": "top", "direction": "horizontal", "symbolOpacity": 1, "symbolSize": 70}
Spec = dict[str, Any]


def result(name: str) -> pl.DataFrame:
    """The rows of a committed result."""
    rows = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return pl.DataFrame(rows, infer_schema_length=None)


def kinds(sheet: Sheet, field: str, names: list[str], colors: list[str], shapes: list[str]) -> dict[str, Any]:
    """Color and shape of a few kinds of points, each its own, with one legend for both."""
    alt = sheet.alt
    color = alt.Color(f"{field}:N", title=None, sort=names).scale(domain=names, range=colors)
    shape = alt.Shape(f"{field}:N", title=None, sort=names).scale(domain=names, range=shapes)
    return {"color": color.legend(**LEGEND), "shape": shape.legend(**LEGEND)}


def joined(sheet: Sheet, panels: list[Any], columns: int, spacing: dict[str, int]) -> Spec:
    """Panels beside each other, under one legend."""
    spec = sheet.grid(panels, columns, spacing)
    spec["resolve"]["scale"]["shape"] = "shared"
    return {**spec, "padding": 8}


# --- gaming -----------------------------------------------------------------------------------------------

WORLDS = {
    "recall": "every run games",
    "recall_half": "half of the runs do",
    "false": "no run does",
    "false_varied": "no run does, calls vary by 80 %",
}


def alarm_rates() -> pl.DataFrame:
    """A row per detector and world: the share of corpora in which it alarms, with its interval."""
    found = result("gaming_detectors").filter(pl.col("n") > 0)
    return pl.concat(
        found.select(
            "kind",
            detector=pl.when(pl.col("kind") == "hazard")
            .then("detector")
            .otherwise(pl.format("{}: {}", "game", "detector")),
            world=pl.lit(world),
            rate=100.0 * pl.col(column),
            lower=100.0 * pl.col(f"{column}_lower"),
            upper=100.0 * pl.col(f"{column}_upper"),
        )
        for column, world in WORLDS.items()
    ).drop_nulls("rate")


def gaming(rows: pl.DataFrame) -> Spec:
    sheet = Sheet()
    alt = sheet.alt
    worlds = list(WORLDS.values())
    seen = kinds(sheet, "world", worlds, [BLUE, YELLOW, GREEN, RED], ["circle", "diamond", "square", "cross"])
    panels = []
    for kind, head in {"hazard": "A reward is gamed", "failure": "A team fails"}.items():
        own = rows.filter(kind=kind)
        names = own["detector"].unique(maintain_order=True).to_list()
        y = alt.Y("detector:N", title=None, sort=names).axis(
            grid=True, ticks=False, labelLimit=260, labelPadding=9
        )
        title = "corpora in which the detector alarms, %"
        x = alt.X("rate:Q", title=title).scale(domain=[0, 100]).axis(labelFlush=False)
        offset = alt.YOffset("world:N", sort=worlds).scale(domain=worlds)
        base = sheet.chart(own).encode(y=y, yOffset=offset)
        lines = base.mark_rule(strokeWidth=1.5).encode(
            x=alt.X("lower:Q", title=title), x2="upper:Q", color=seen["color"]
        )
        points = base.mark_point(size=32, filled=True, opacity=1).encode(x=x, **seen)
        panels.append(
            alt.layer(lines, points).properties(width=235, height=29 * len(names), title=sheet.head(head))
        )
    return joined(sheet, panels, 2, {"row": 10, "column": 18})


# --- stopping ---------------------------------------------------------------------------------------------

CLASSES = {
    "anytime": {"e_process": "orchestrace", "package_anytime": "e-valuator 1.0.0"},
    "pac": {"pac": "orchestrace", "package": "e-valuator 1.0.0"},
}
PROMISES = {"anytime": "e-process", "pac": "PAC"}


def abort_scores() -> pl.DataFrame:
    """A row per task, promise, side and level: false alarms and the cost that alarms save, in percent."""
    found = result("stopping_scores").filter(pl.col("reason").is_null())
    parts = [
        found.filter(pl.col("rule").is_in(list(rules))).select(
            "task",
            "guarantee",
            by=pl.col("rule").replace_strict(rules),
            level=pl.format("alpha = {}", "alpha"),
            **{
                name: 100.0 * pl.col(column)
                for name, column in {
                    "false_alarm": "false_alarm",
                    "far_lower": "false_alarm_lower",
                    "far_upper": "false_alarm_upper",
                    "saved": "saved_failed",
                    "saved_lower": "saved_failed_lower",
                    "saved_upper": "saved_failed_upper",
                }.items()
            },
        )
        for rules in CLASSES.values()
    ]
    return pl.concat(parts)


def stopping(rows: pl.DataFrame) -> Spec:
    sheet = Sheet()
    alt = sheet.alt
    sides, levels = list(CLASSES["pac"].values()), rows["level"].unique(maintain_order=True).to_list()
    color = alt.Color("by:N", title=None, sort=sides).scale(domain=sides, range=[BLUE, RED]).legend(**LEGEND)
    shapes = ["circle", "square", "triangle-up"]
    shape = alt.Shape("level:N", title=None, sort=levels).scale(domain=levels, range=shapes).legend(**LEGEND)
    panels = []
    for guarantee, promise in PROMISES.items():
        for task in rows["task"].unique(maintain_order=True):
            top = 1.03 * rows.filter(task=task)["saved_upper"].max()
            x = {"scale": {"domain": [0, 36], "nice": False}, "axis": {"values": [0, 5, 10, 20, 30]}}
            y = {"scale": {"domain": [0, top], "nice": False}, "axis": {"tickCount": 4}}
            x["title"] = "false alarms, %" if guarantee == "pac" else None
            y["title"] = f"cost saved, % ({promise})" if task == rows["task"][0] else None
            base = sheet.chart(rows.filter(task=task, guarantee=guarantee)).encode(color=color)
            across = base.mark_rule(opacity=0.45).encode(
                alt.X("far_lower:Q", **x), alt.X2("far_upper:Q"), alt.Y("saved:Q", **y)
            )
            up = base.mark_rule(opacity=0.45).encode(
                alt.X("false_alarm:Q", **x), alt.Y("saved_lower:Q", **y), alt.Y2("saved_upper:Q")
            )
            middle = base.encode(alt.X("false_alarm:Q", **x), alt.Y("saved:Q", **y))
            points = middle.mark_point(size=42, filled=True, opacity=1).encode(shape=shape)
            chart = alt.layer(across, up, middle.mark_line(strokeWidth=1.2), points)
            chart = chart.properties(width=118, height=130)
            panels.append(chart.properties(title=sheet.head(task)) if guarantee == "anytime" else chart)
    return joined(sheet, panels, 5, {"row": 14, "column": 12})


# --- off-policy -------------------------------------------------------------------------------------------

LENGTHS = (1, 2, 4, 6, 8, 12)
CHANCES = {"easy": 0.1, "hard": 0.9}
ESTIMATES = {"is": "is", "wis": "wis", "pdis": "pdis", "dr": "dr", "fqe": "fqe, the model alone"}


def policy_estimates() -> pl.DataFrame:
    """A row per length of runs and estimator: the worth per decision of a policy, its interval, the truth."""
    policy = pl.DataFrame(
        [
            {"x_state": state, "action": action, "p": p}
            for state, spawn in CHANCES.items()
            for action, p in (("spawn", spawn), ("no_spawn", 1.0 - spawn))
        ]
    )
    parts = []
    for steps in LENGTHS:
        decisions, truth = ot.synthetic.choices(runs=4000, steps=steps, end=0.0, seed=0)
        table = ot.effects.policy_values(
            decisions, policy, unit="sequence", reward="reward", bounds=(0.0, float(steps))
        )
        parts.append(
            table.select(
                pl.col("estimator").cast(pl.String),
                *(pl.col(name) / steps for name in ("value", "lower", "upper")),
                "reason",
                ess=100.0 * pl.col("ess") / pl.col("n"),
                steps=pl.lit(steps),
                truth=pl.lit(truth.value(CHANCES) / steps),
            )
        )
    return pl.concat(parts)


def off_policy(rows: pl.DataFrame) -> Spec:
    sheet = Sheet()
    alt = sheet.alt
    names = list(ESTIMATES.values())
    known = rows.filter(pl.col("estimator").is_in(list(ESTIMATES)))
    known = known.with_columns(pl.col("estimator").replace_strict(ESTIMATES))
    seen = kinds(
        sheet,
        "estimator",
        names,
        [SKY, GREEN, YELLOW, BLUE, RED],
        ["circle", "square", "diamond", "triangle-up", "cross"],
    )
    x = alt.X("steps:O", title=None, axis=alt.Axis(labelAngle=0))
    y = {"title": "worth of a decision", "scale": {"domain": [0, 1]}}
    offset = alt.XOffset("estimator:N", sort=names).scale(domain=names, paddingOuter=0.6)
    once = sheet.chart(rows.filter(estimator="bounds"))
    bounds = once.mark_bar(color=GREY, opacity=0.55, width=78).encode(
        x, alt.Y("lower:Q", **y), alt.Y2("upper:Q")
    )
    truth = once.mark_tick(color=INK, thickness=1.5, width=78, orient="horizontal").encode(
        x, alt.Y("truth:Q", **y)
    )
    base = sheet.chart(known.drop_nulls("value")).encode(x, offset)
    lines = base.mark_rule(strokeWidth=1.6).encode(alt.Y("lower:Q", **y), alt.Y2("upper:Q"), seen["color"])
    points = base.mark_point(size=42, filled=True, opacity=1).encode(alt.Y("value:Q", **y), **seen)
    refused = known.filter(pl.col("reason") == "overlap.absent").unique("steps").with_columns(y=0.72)
    words = (
        sheet.chart(refused)
        .mark_text(color=INK, fontSize=11)
        .encode(x, alt.Y("y:Q", **y), text=alt.value("refused"))
    )
    top = alt.layer(bounds, truth, lines, points, words).properties(width=560, height=270)
    share = sheet.chart(rows.filter(estimator="bounds"))
    below = share.mark_line(point=alt.OverlayMarkDef(color=INK, size=36), color=INK, strokeWidth=1.2).encode(
        alt.X("steps:O", title="decisions in a run", axis=alt.Axis(labelAngle=0)),
        alt.Y(
            "ess:Q",
            title="effective runs, %",
            scale=alt.Scale(type="log", domain=[1, 100]),
            axis=alt.Axis(values=[1, 5, 20, 100]),
        ),
    )
    limit = (
        sheet.chart(pl.DataFrame({"limit": [5.0]}))
        .mark_rule(color=RED, strokeDash=[5, 3])
        .encode(alt.Y("limit:Q"))
    )
    return joined(
        sheet, [top, alt.layer(below, limit).properties(width=560, height=80)], 1, {"row": 12, "column": 0}
    )


# --- rewards ----------------------------------------------------------------------------------------------

GAMED = [
    ("agent", "share_gap"),
    ("role", "role_rank"),
    ("process", "step_padding"),
    ("tool_success", "tool_spam"),
    ("tool_success", "fake_success"),
    ("verifier", "padding"),
    ("verifier", "redundancy"),
    ("mix", "drowned"),
    ("mix", "sign_flip"),
    ("distinct_calls", "tool_spam"),
]
"""A rule, and a game that is played for it."""


def payments() -> pl.DataFrame:
    """A row per rule, game and world: what rules pay honest runs, and the same runs once they game."""
    paid: dict[str | None, tuple[ot.Corpus, pl.DataFrame]] = {}
    for game in dict.fromkeys([None, *(game for _, game in GAMED)]):
        corpus, rewards, _ = ot.synthetic.gamed(game, tasks=200, seed=0)
        paid[game] = corpus, pl.concat([rewards, ot.rewards.compute(corpus, "distinct_calls")])
    rows = []
    for rule, game in GAMED:
        honest = per_run(paid[None][1], rule)
        for world, side in {"honest": None, "gamed": game}.items():
            corpus, rewards = paid[side]
            found = followed(corpus, rewards.filter(reward=rule), 0.95)
            own = per_run(rewards, rule).join(honest, on="trace_id", suffix="_honest")
            assert own.height == honest.height
            moved = (own["value"] - own["value_honest"]) / honest["value"].std()
            mean, around, _ = mean_interval(moved.to_numpy(), codes(own["task_id"]), confidence=0.95)
            rows.append(
                {
                    "rule": f"{rule}, {game}",
                    "world": world,
                    **{name: found[name] for name in ("follows", "follows_lower", "follows_upper")},
                    "pay": mean,
                    "pay_lower": mean if around.lower is None else around.lower,
                    "pay_upper": mean if around.upper is None else around.upper,
                }
            )
    return pl.DataFrame(rows)


def per_run(rewards: pl.DataFrame, rule: str) -> pl.DataFrame:
    """What the rule pays each run."""
    own = rewards.filter(reward=rule)
    return own.group_by("trace_id", "task_id", maintain_order=True).agg(pl.col("value").sum())


def codes(names: pl.Series) -> Any:
    """Numbers of tasks."""
    return names.rank("dense").cast(pl.Int64).to_numpy()


def rewards(rows: pl.DataFrame) -> Spec:
    sheet = Sheet()
    alt = sheet.alt
    worlds = ["honest", "gamed"]
    seen = kinds(sheet, "world", worlds, [GREEN, RED], ["square", "circle"])
    names = rows["rule"].unique(maintain_order=True).to_list()
    axis = {"grid": True, "ticks": False, "labelLimit": 260, "labelPadding": 9}
    offset = alt.YOffset("world:N", sort=worlds).scale(domain=worlds, paddingOuter=0.4)
    panels = []
    for field, head, title in (
        ("follows", "Does the pay follow the outcome?", "correlation with the outcome, within tasks"),
        ("pay", "What does gaming earn?", "more pay of the same run, in deviations of honest pay"),
    ):
        own = rows if field == "follows" else rows.filter(world="gamed")
        labels = axis if field == "follows" else {**axis, "labels": False}
        base = sheet.chart(own).encode(
            alt.Y("rule:N", title=None, sort=names, axis=alt.Axis(**labels)), offset
        )
        lines = base.mark_rule(strokeWidth=1.6).encode(
            alt.X(f"{field}_lower:Q", title=title), alt.X2(f"{field}_upper:Q"), seen["color"]
        )
        points = base.mark_point(size=42, filled=True, opacity=1).encode(
            alt.X(f"{field}:Q", title=title), **seen
        )
        zero = sheet.chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color=INK, strokeWidth=0.8)
        chart = alt.layer(zero.encode(alt.X("zero:Q", title=title)), lines, points)
        panels.append(chart.properties(width=270, height=27 * len(names), title=sheet.head(head)))
    return joined(sheet, panels, 2, {"row": 10, "column": 18})


# --- decisions --------------------------------------------------------------------------------------------

OVERLAPS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)
BOUNDS = (-6.0, 6.0)
NUMBERS = {"means": "difference of means", "effect": "effect in the table", "bounds": "bounds alone"}


def decided() -> pl.DataFrame:
    """Rows of three kinds of decisions, `at` what they are compared by: effect, interval, planted truth."""
    parts = [spawned(), delegated(), stopped()]
    return pl.concat(parts, how="diagonal")


def spawned() -> pl.DataFrame:
    """The effect of spawning as overlap shrinks, beside the difference of means and the truth."""
    rows: list[dict[str, Any]] = []
    for overlap in OVERLAPS:
        corpus, truth = ot.synthetic.planted(
            traces=4000,
            agents=2,
            events=6,
            spawn_effect=1.0,
            spawn_overlap=overlap,
            decisive=0.0,
            seed=1,
        )
        table = ot.decisions.table(corpus, "spawn", bounds=BOUNDS).drop_nulls("p_behavior")
        own = {"kind": "spawn", "at": f"{overlap:g}", "truth": truth.decisions["effect"].mean()}
        spawn = (table["action"] == "spawn").to_numpy()
        share, outcome = spawn.mean(), table["outcome"].to_numpy()
        contrast = np.where(spawn, outcome / share, -outcome / (1.0 - share))
        mean, around, _ = mean_interval(contrast, codes(table["task_id"]), confidence=0.95)
        rows.append({**own, "number": "means", "effect": mean, "lower": around.lower, "upper": around.upper})
        known = table.filter(action="spawn").drop_nulls("effect")
        if known.height:
            rows.append(
                {**own, "number": "effect", **known.select("effect", "lower", "upper").row(0, named=True)}
            )
        else:
            sign = pl.when(pl.col("action") == "spawn").then(1.0).otherwise(-1.0)
            ends = table.select(
                lower=pl.min_horizontal(sign * pl.col("lower"), sign * pl.col("upper")).mean(),
                upper=pl.max_horizontal(sign * pl.col("lower"), sign * pl.col("upper")).mean(),
            )
            rows.append({**own, "number": "bounds", "effect": None, **ends.row(0, named=True)})
    return pl.DataFrame(rows)


def team() -> ot.Corpus:
    """Planted runs in which no role is better than another, and going on costs."""
    return ot.synthetic.planted(traces=1600, stop_cost=0.02, decisive=0.0, seed=1)[0]


def delegated() -> pl.DataFrame:
    """The effect of each role that got work."""
    table = ot.decisions.table(team(), "delegate").drop_nulls("effect")
    rows = table.unique("action", keep="first", maintain_order=True).sort("effect")
    return rows.select("effect", "lower", "upper", kind=pl.lit("delegate"), at="action", truth=0.0)


def stopped() -> pl.DataFrame:
    """What the next epoch added to the answer, by epoch, while a tenth of the runs go on."""
    table = ot.decisions.table(team(), "stop").drop_nulls("effect")
    rows = []
    for (epoch,), own in table.sort("x_k").group_by("x_k", maintain_order=True):
        if own["trace"].n_unique() >= 160:
            mean, around, _ = mean_interval(own["effect"].to_numpy(), codes(own["task_id"]), confidence=0.95)
            rows.append({"at": f"{epoch:g}", "effect": mean, "lower": around.lower, "upper": around.upper})
    return pl.DataFrame(rows).with_columns(kind=pl.lit("stop"))


def decisions(rows: pl.DataFrame) -> Spec:
    sheet = Sheet()
    alt = sheet.alt
    names = list(NUMBERS.values())
    rows = rows.with_columns(number=pl.col("number").fill_null("effect").replace_strict(NUMBERS))
    seen = kinds(sheet, "number", names, [YELLOW, BLUE, GREY], ["diamond", "circle", "square"])
    panels = []
    for kind, head, below, title, domain in (
        ("spawn", "Was this spawn worth it?", "least probability of either choice", "effect", [-0.5, 2.5]),
        ("delegate", "Who should have got the work?", None, "effect", [-1.0, 1.0]),
        ("stop", "Should the team have stopped here?", "epoch", "quality that the next adds", [-0.05, 0.2]),
    ):
        own = rows.filter(kind=kind)
        order = own["at"].unique(maintain_order=True).to_list()
        x = alt.X("at:N", title=below, sort=order)
        x = x.axis(labelAngle=-45 if kind == "delegate" else 0, grid=False)
        y = {"title": title, "scale": {"domain": domain, "nice": False}}
        base = sheet.chart(own).encode(x)
        if kind == "spawn":
            base = base.encode(alt.XOffset("number:N", sort=names).scale(domain=names, paddingOuter=1))
        lines = base.mark_rule(strokeWidth=1.8, clip=True).encode(
            alt.Y("lower:Q", **y), alt.Y2("upper:Q"), seen["color"]
        )
        points = base.transform_filter("isValid(datum.effect)").mark_point(size=42, filled=True, opacity=1)
        points = points.encode(alt.Y("effect:Q", **y), **seen)
        truth = pl.DataFrame({"truth": own["truth"].drop_nulls()[:1].to_list() or [0.0]})
        line = sheet.chart(truth).mark_rule(color=INK, strokeDash=[5, 3]).encode(alt.Y("truth:Q", **y))
        layers = [line, lines, points]
        if kind == "spawn":
            wide = own.filter(number=NUMBERS["bounds"]).with_columns(
                y=pl.lit(0.2), words=pl.format("{} to {}", pl.col("lower").round(1), pl.col("upper").round(1))
            )
            words = sheet.chart(wide).mark_text(color=INK, fontSize=10, align="right", dx=1)
            layers.append(words.encode(x, alt.Y("y:Q", **y), text="words:N"))
        panels.append(alt.layer(*layers).properties(width=205, height=220, title=sheet.head(head)))
    return joined(sheet, panels, 3, {"row": 10, "column": 22})


# --- answers ----------------------------------------------------------------------------------------------

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
RUN = "trace-00000009"
TOOLS = {"untrusted_tools": ["browser.open"], "trusted_tools": ["*"]}


def samples() -> ot.Corpus:
    return ot.read_traces(SAMPLES)


def timeline() -> Any:
    return ot.plot.timeline(samples(), RUN)


def spawn_tree() -> Any:
    return ot.plot.spawn_tree(samples(), RUN)


def credit() -> Any:
    return ot.plot.credit(ot.credit(samples(), method="flow", unit="role", reward="team"))


def effects() -> Any:
    return ot.plot.effects(ot.replay(samples(), ot.interventions.drop(each="role")))


def scaling() -> Any:
    curve = ot.schedules.scaling_curve(samples(), [1, 2, 4, 8])
    return ot.plot.scaling(curve.filter(unit="seconds"))


def taint() -> Any:
    corpus = samples()
    events = ot.safety.tainted_events(corpus, **TOOLS)
    cut = ot.safety.sanitizer_cut(corpus, **TOOLS)
    return ot.plot.taint(corpus, "trace-00000005", events=events, cut=cut)


def agreement() -> Any:
    corpus = samples()
    names = ("flow", "uniform", "shapley", "banzhaf")
    return ot.plot.agreement(corpus, [ot.credit(corpus, method=name, unit="agent") for name in names])


def frontier() -> Any:
    epochs, _ = ot.synthetic.stops(runs=600, seed=0)
    rules = ["fixed", "threshold", "lsm", "oracle"]
    return ot.plot.stopping(ot.stopping.frontier(epochs, rules, prices=[0.0, 0.05, 0.1, 0.2, 0.4]))


def sizes() -> Any:
    return ot.plot.envelopes(corpora={"samples": samples()})


CHARTS: dict[str, Callable[[], Any]] = {
    "timeline": timeline,
    "spawn-tree": spawn_tree,
    "credit-by-role": credit,
    "effects-by-role": effects,
    "speedup": scaling,
    "taint": taint,
    "agreement": agreement,
    "stopping-frontier": frontier,
    "sizes": sizes,
}
"""Pictures of answers, by the name of their file."""

# --- all --------------------------------------------------------------------------------------------------

PAGES: dict[str, tuple[Callable[[], pl.DataFrame], Callable[[pl.DataFrame], Spec]]] = {
    "gaming": (alarm_rates, gaming),
    "stopping": (abort_scores, stopping),
    "off-policy": (policy_estimates, off_policy),
    "rewards": (payments, rewards),
    "decisions": (decided, decisions),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", choices=[*PAGES, *CHARTS], help="which picture")
    parser.add_argument("--svg", type=Path, help="file for the picture")
    options = parser.parse_args()
    if options.page in CHARTS:
        if options.svg:
            ot.plot.save(CHARTS[options.page](), options.svg, overwrite=True)
        return
    measured, draw = PAGES[options.page]
    rows = measured()
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, fmt_str_lengths=60):
        print(rows)
    if options.svg:
        options.svg.write_text(vl_convert.vegalite_to_svg(draw(rows)), encoding="utf-8")


if __name__ == "__main__":
    main()
