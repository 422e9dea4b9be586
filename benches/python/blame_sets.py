"""Blame sets on labelled recordings: how often they hold the label, and how much of a run is to be read.

    python benches/python/blame_sets.py --calibrate FOLDER --evaluate FOLDER [--coverage 0.9] --json -

Rows ``corpus subset level score covered share top1 exam expected_rank`` over runs whose label is a candidate
(``unplaced``: the share of the others; ``no_set``: of runs without a set, which count in no coverage), with
intervals over tasks and the paired difference of share from the best positional rule. Where both folders are
the same, five parts by task are rotated: two fit, two calibrate, one is judged. Else half of the tasks of the
first fit and half calibrate. Nothing is timed; the same files give the same rows.

    python benches/python/blame_sets.py --transfer FOLDER FOLDER ... [--coverage 0.9]

prints what each labelled set of recordings promises on each, by subsets: sets of steps whose scores
were fitted and calibrated on the first, judged on the second.

    python benches/python/blame_sets.py --record FOLDER

writes benches/results/blame_sets.json and blame_transfer.json, which docs/blame.md shows: of who-and-when and
trail in FOLDER, at 0.9 and 0.8, the fitted scores and the best rule; of these and agentrx what travels.
"""

import argparse
import itertools
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import orchestrace as ot
from orchestrace.evaluation.blame import FEATURES, BlameRule, one_run_per_task
from orchestrace.evaluation.blame_model import fit_blame
from orchestrace.evaluation.blame_units import blame_candidates, features
from orchestrace.evaluation.localization import label_places
from orchestrace.statistics.folds import folds_over
from orchestrace.statistics.influence import mean_interval

RULES: Final = {
    "rule: first": -pl.col("log_index"),
    "rule: last": pl.col("log_index"),
    "rule: middle": -pl.col("middle"),
    "rule: constant": pl.lit(0.0),
}
PARTS: Final = 5


def subset_of(units: pl.DataFrame) -> pl.Expr:
    """The first part of the id of a trace, where all ids have parts and few first ones; else all are one."""
    first = units["trace_id"].str.extract(r"^([^/]+)/")
    few = first.null_count() == 0 and first.n_unique() <= 8
    return pl.col("trace_id").str.extract(r"^([^/]+)/") if few else pl.lit("all")


def credits_of(corpus: ot.Corpus, level: str) -> pl.DataFrame:
    """``trace_id unit_id`` and a column per credit method that tells units of some run apart."""
    ids = corpus.traces.select("trace_id").collect()
    failed = corpus.with_measures(ids.with_columns(failed=pl.lit(1.0)))
    unit: Any = "turn" if level == "step" else "agent"
    table = ids.select(pl.col("trace_id").cast(pl.String)).clear().with_columns(unit_id=pl.lit("")).clear()
    for method, units, params in ot.list_methods().select("name", "units", "params").iter_rows():
        if unit not in units:
            continue
        names = {param["name"] for param in params}
        options: dict[str, Any] = {"scaled": True} if "scaled" in names else {}
        options |= {"samples": 64} if "samples" in names else {}
        try:
            rows = ot.credit(failed, method=method, unit=unit, reward="failed", **options)
        except ot.OrchestraceError as error:
            print(f"{method}: {error}", file=sys.stderr)
            continue
        rows = rows.filter(pl.col("unit_id").is_not_null())
        spread = rows.group_by("trace").agg(pl.col("credit").drop_nulls().n_unique())["credit"].max()
        if (spread or 0) < 2:
            continue
        column = rows.select(pl.col("trace_id", "unit_id").cast(pl.String), pl.col("credit").alias(method))
        table = table.join(column, on=["trace_id", "unit_id"], how="full", coalesce=True)
    return table


def scored(units: pl.DataFrame, fit: pl.DataFrame, names: list[str]) -> dict[str, pl.Series]:
    """The units' score by every score there is: fitted ones learn from `fit`."""
    known = fit.filter(pl.col("n_placed") > 0)
    scores = {
        rule: units.select(score=expr.cast(pl.Float64) + pl.lit(0.0) * pl.col("place"))["score"]
        for rule, expr in RULES.items()
    }
    for name, columns in FEATURES.items():
        model = fit_blame(
            features(known, columns), known["trace"].cast(pl.Int64).to_numpy(), known["labeled"].to_numpy()
        )
        scores[name] = pl.Series(model.scores(features(units, columns)))
    return scores | {name: units[name] for name in names}


def judged(
    fit: pl.DataFrame, calibrate: pl.DataFrame, judge: pl.DataFrame, names: list[str], rule: BlameRule
) -> pl.DataFrame:
    """A row per score and judged run."""
    fit, judge = fit.drop_nulls("unit_id"), judge.drop_nulls("unit_id")
    of_calibrate, of_judge = scored(calibrate, fit, names), scored(judge, fit, names)
    frames = []
    for name in of_judge:
        ours = judge.with_columns(score=of_judge[name])
        sets = rule.sets(calibrate.with_columns(score=of_calibrate[name]), ours)
        some = sets.group_by("trace", "task_id").agg(
            covered=(pl.col("in_set") & pl.col("labeled")).any(ignore_nulls=False),
            share=pl.col("in_set").mean(),
            size=pl.len(),
        )
        run = ours["trace"].cast(pl.Int64).to_numpy()
        score = ours["score"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        places = label_places(run, score, ours["labeled"].to_numpy())
        places = places.with_columns(trace=pl.col("run").cast(judge.schema["trace"]))
        frames.append(some.join(places, on="trace").with_columns(score=pl.lit(name)))
    return pl.concat(frames)


def rows_of(runs: pl.DataFrame, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Means over runs with intervals over tasks."""
    wide = {str(name): frame.sort("trace", "draw") for (name,), frame in runs.group_by("score")}
    rules = sorted(name for name in wide if name.startswith("rule: ") or name == "position")
    best = min(
        rules, key=lambda name: (wide[name].select(pl.col("share").fill_null(1.0).mean()).item(), name)
    )
    rows = []
    for name in sorted(wide):
        frame = wide[name]
        tasks = frame["task_id"].rank("dense").cast(pl.Int64).to_numpy()
        row = {**facts, "score": name, "runs": frame["trace"].n_unique(), "tasks": len(set(tasks.tolist()))}
        row["no_set"] = float(frame["share"].is_null().mean() or 0.0)  # type: ignore[arg-type]
        for metric in ("covered", "share", "top1", "exam", "expected_rank"):
            judged_runs = frame[metric].is_not_null().to_numpy()
            if not judged_runs.any():
                row |= {metric: None, f"{metric}_lower": None, f"{metric}_upper": None}
                continue
            values = frame[metric].cast(pl.Float64).to_numpy()[judged_runs]
            within = (0.0, 1.0) if metric != "expected_rank" else None
            mean = mean_interval(values, tasks[judged_runs], confidence=0.95, within=within)
            row |= {metric: mean.estimate, f"{metric}_lower": mean.around.lower}
            row |= {f"{metric}_upper": mean.around.upper}
        less = (frame["share"] - wide[best]["share"]).cast(pl.Float64)
        both = less.is_not_null().to_numpy()
        if not both.any():
            rows.append(row | {"best_rule": None, "share_less": None})
            continue
        apart = mean_interval(less.to_numpy()[both], tasks[both], confidence=0.95, within=(-1.0, 1.0))
        row |= {"best_rule": best, "share_less": apart.estimate}
        row |= {"share_less_lower": apart.around.lower, "share_less_upper": apart.around.upper}
        rows.append(row)
    return rows


def parts(
    past: pl.DataFrame, future: pl.DataFrame | None, draws: int, seed: int
) -> list[tuple[int, pl.DataFrame, pl.DataFrame, pl.DataFrame]]:
    """(draw, fit, calibrate, judge): rotated parts of one corpus, or halves of one and the other."""
    triples = []
    for draw in range(draws if future is None else 1):
        tasks = past["task_id"].to_list()
        part = pl.Series(folds_over(tasks, PARTS if future is None else 2, seed + draw))
        if future is not None:
            triples.append((draw, past.filter(part == 0), past.filter(part != 0), future))
            continue
        for turn in range(int(part.n_unique())):
            place = (part - turn) % PARTS
            triples.append(
                (draw, past.filter(place.is_in([1, 2])), past.filter(place > 2), past.filter(place == 0))
            )
    return [triple for triple in triples if all(frame.height for frame in triple[1:])]


def judgement(
    past: pl.DataFrame, judge: pl.DataFrame, names: list[str], rule: BlameRule, draws: int, seed: int
) -> pl.DataFrame | None:
    """A row per score, judged run and division; no task of judged runs is in other runs that calibrate."""
    one = past is judge
    if not one:
        past = one_run_per_task(past.join(judge, on="task_id", how="anti"), seed)
    frames = [
        judged(fit, calibrate, target, names, rule).with_columns(draw=pl.lit(draw))
        for draw, fit, calibrate, target in parts(past, None if one else judge, draws, seed)
    ]
    return pl.concat(frames) if any(frame.height for frame in frames) else None


def transfer(folders: list[Path], coverage: float, draws: int, seed: int) -> list[dict[str, Any]]:
    """Rows of steps for every pair of labelled sets: the subsets of each folder."""
    sets: dict[str, pl.DataFrame] = {}
    for folder in folders:
        units = blame_candidates(ot.read_traces(str(folder)), level="step").with_columns(stratum=pl.lit(""))
        units = units.filter(pl.col("n_labels") > 0)
        units = units.with_columns(subset=subset_of(units))
        for subset in sorted(set(units["subset"])):
            name = folder.name if subset == "all" else subset
            sets[name] = one_run_per_task(units.filter(subset=subset), seed)
    rows: list[dict[str, Any]] = []
    for (past_name, past), (name, judge) in itertools.product(sets.items(), repeat=2):
        runs = judgement(past, judge, [], BlameRule(1.0 - coverage), draws, seed)
        facts = {"calibrated_on": past_name, "subset": name, "level": "step", "coverage": coverage}
        rows += [] if runs is None else rows_of(runs, facts)
    return rows


def record(folder: Path) -> None:
    """What docs/blame.md shows of published recordings."""
    columns = ("subset", "level", "score", "runs", "unplaced", "median_units", "no_set", "best_rule")
    means = ("covered", "share", "top1", "exam", "expected_rank", "share_less")
    rows = []
    for name, coverage in itertools.product(("who-and-when", "trail"), ("0.9", "0.8")):
        place = str(folder / name)
        command = [
            sys.executable,
            __file__,
            "--calibrate",
            place,
            "--evaluate",
            place,
            "--coverage",
            coverage,
        ]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        for row in json.loads(printed):
            if row["level"] != "step" or row["score"] not in {*FEATURES, row["best_rule"]}:
                continue
            facts = {"corpus": name, "coverage": float(coverage), **{key: row[key] for key in columns}}
            ends = [key for mean in means for key in (mean, f"{mean}_lower", f"{mean}_upper")]
            rows.append(facts | {key: None if row[key] is None else round(row[key], 4) for key in ends})
    results = Path(__file__).resolve().parents[1] / "results"
    (results / "blame_sets.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    travelled = [
        {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
        for row in transfer([folder / name for name in ("who-and-when", "trail", "agentrx")], 0.9, 4, 0)
        if row["score"] == "combined"
    ]
    (results / "blame_transfer.json").write_text(json.dumps(travelled, indent=1) + "\n", encoding="utf-8")


def between(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows of both levels: a folder's runs, judged by sets that are calibrated on another's or on its own."""
    one = options.calibrate.resolve() == options.evaluate.resolve()
    folders = [options.calibrate, options.evaluate][: 1 if one else 2]
    corpora = [ot.read_traces(str(path)) for path in folders]
    rule = BlameRule(1.0 - options.coverage)
    rows: list[dict[str, Any]] = []
    for level in ("step", "agent"):
        tables = []
        for corpus in corpora:
            credits = credits_of(corpus, level)
            units = blame_candidates(corpus, level=level).with_columns(stratum=pl.lit(""))
            units = units.filter(pl.col("n_labels") > 0)
            units = units.join(credits, on=["trace_id", "unit_id"], how="left", maintain_order="left")
            if options.permuted:
                units = permuted(units, options.seed)
            tables.append((units.with_columns(subset=subset_of(units)), set(credits.columns[2:])))
        if not all(table.height for table, _ in tables):
            print(f"{level}: no labelled run", file=sys.stderr)
            continue
        names = sorted(set.intersection(*(methods for _, methods in tables)))
        future = tables[-1][0]
        for subset in sorted(set(future["subset"])):
            # tasks may be in several subsets: a run of each task in this one, and none of them in calibration
            judge = one_run_per_task(future.filter(subset=subset), options.seed)
            unplaced = 1.0 - judge.unique("trace")["n_placed"].gt(0).mean()  # type: ignore[operator]
            past = judge if one else tables[0][0]
            runs = judgement(past, judge, names, rule, options.draws, options.seed)
            if runs is None:
                print(f"{subset}, {level}: too few tasks to fit, to calibrate and to judge", file=sys.stderr)
                continue
            facts = {"corpus": options.evaluate.resolve().name, "subset": subset, "level": level}
            facts |= {"calibrated_on": options.calibrate.resolve().name, "coverage": options.coverage}
            facts |= {
                "unplaced": unplaced,
                "median_units": judge.group_by("trace").len().select(pl.col("len").median()).item(),
            }
            rows += rows_of(runs, facts)
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--record"] and len(sys.argv) == 3:
        return record(Path(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--calibrate", type=Path)
    what.add_argument("--transfer", type=Path, nargs="+")
    parser.add_argument("--evaluate", type=Path)
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--draws", type=int, default=4, help="divisions into parts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--permuted", action="store_true", help="null: labels on a unit drawn at random")
    parser.add_argument("--json", default="-", help="file, or - for standard output")
    options = parser.parse_args()
    if not 0.0 < options.coverage < 1.0:
        parser.error(f"--coverage is {options.coverage}, expected a number between 0 and 1")
    if options.draws < 1:
        parser.error(f"--draws is {options.draws}, expected a whole number from 1")
    if options.calibrate is not None and options.evaluate is None:
        parser.error("--calibrate needs --evaluate FOLDER: the recordings that are judged")
    warnings.simplefilter("ignore")
    try:
        if options.transfer:
            rows = transfer(options.transfer, options.coverage, options.draws, options.seed)
        else:
            rows = between(options)
    except (ot.OrchestraceError, OSError) as error:
        sys.exit(str(error).splitlines()[0])
    text = json.dumps(rows, indent=1, sort_keys=False) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
    else:
        Path(options.json).write_text(text, encoding="utf-8")
    if not rows:
        sys.exit("no rows: no run with a label of a unit that it has")


def permuted(units: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Each run's labels moved to as many of its units at random."""
    draw = np.random.Generator(np.random.PCG64(seed)).random(units.height)
    order = pl.Series("order", draw)
    n = pl.col("labeled").sum().over("trace")
    return (
        units.with_columns(order)
        .with_columns(labeled=pl.col("order").rank("ordinal").over("trace") <= n)
        .drop("order")
    )


if __name__ == "__main__":
    main()
