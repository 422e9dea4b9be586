"""What abort rules save on published step scores, beside the package of the E-valuator: docs/stopping.md.

    python benches/python/stopping_scores.py --calibrate FOLDER --evaluate FOLDER [--alpha 0.1] [--json -]

A folder has a file `<task>.csv.gz` per task, in the layout of github.com/shuvom-s/e-valuator: a row per step,
`uq_problem_idx num_steps judge_probability solved`, maybe `generated_tokens`. Rules are fitted on the runs of
the first folder, and judged on those of the second. If both are one folder, its problems are split in halves
by a keyed hash (`--seed`). Every choice is made on the first half: what evidence looks like is
cross-validated there.

It prints the table of docs/stopping.md, and with `--json` all rows instead. A row is a task, rule and alpha.
Compare rules within one class of guarantee, the column `guarantee`:

- `anytime`, P(alarm at any step | success) <= alpha. `e_process`: method `conformal` with confidence 0.95,
  the e-process that bets all or nothing, on evidence weighted by savings. `ville`: the fitted likelihood
  ratio with the threshold 1/alpha. `package_anytime`: the package's `Ville`. `fixed_k` gives up at step k,
  `threshold` at a low score, calibrated as `e_process` is.
- `pac`, at most 0.9 alpha for all but a share 0.1 alpha of calibrations: `pac`, and `package` (its `PAC`).

`false_alarm` is the share of successful runs with an alarm. `saved_failed` is the share of all cost (tokens
where the file has them, else steps) that alarms save on failed runs. `gain` is its difference to the package
of the same class, with a paired bootstrap over problems. An alarm on the last step counts as power and saves
nothing. `null_power` and `null_far` are means over `--null` permutations of the outcomes, on which everything
is fitted again. They are equal but for noise (`null_difference`, `null_stderr`), since scores say nothing
about outcomes there.

The package is version 1.0.0 of `e-valuator` from the package index. Its input is made run by run, since its
own `add_judge_probability_series` is quadratic in rows; `fit` and `apply` are the package's. Without it the
script says so on stderr, and leaves its rows and gains out.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import orchestrace as ot
from orchestrace.statistics.folds import keyed_hash

PACKAGE = "e-valuator"
VERSION = "1.0.0"
ALPHAS = (0.05, 0.1, 0.2)
CONFIDENCE = 0.95
OURS = ("e_process", "ville", "fixed_k", "threshold", "pac")
REFERENCE = {"anytime": "package_anytime", "pac": "package"}
KINDS = {"package": "PAC", "package_anytime": "Ville"}
COLUMNS = (
    *("task", "rule", "guarantee", "alpha", "false_alarm", "false_alarm_lower", "false_alarm_upper"),
    *("power", "early", "saved", "saved_failed", "saved_failed_lower", "saved_failed_upper", "lost"),
    *("gain", "gain_lower", "gain_upper", "n", "n_success", "n_failed", "n_calibration", "validity", "cost"),
    *("reason", "null_power", "null_far", "null_difference", "null_stderr"),
)


def read(path: Path, cost: str) -> pl.DataFrame:
    """Epochs of a file of steps."""
    steps = pl.read_csv(path, infer_schema_length=None)
    tokens = "generated_tokens" if "generated_tokens" in steps.columns and cost == "auto" else None
    return ot.stopping.epochs_from_frame(
        steps,
        run="uq_problem_idx",
        step="num_steps",
        score="judge_probability",
        success="solved",
        tokens=tokens,
    )


def halves(epochs: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Epochs of half of the problems, and of the others."""
    names = sorted(epochs["task_id"].unique(), key=lambda name: (keyed_hash(f"half {name}", seed), name))
    first = pl.col("task_id").is_in(names[: len(names) // 2])
    return epochs.filter(first), epochs.filter(~first)


def fitted(epochs: pl.DataFrame, alpha: float, seed: int) -> dict[str, ot.stopping.AbortRule]:
    """Our rules at one level."""
    fit, both = ot.stopping.fit_abort, {"alpha": alpha, "seed": seed}
    sure = {"method": "conformal", "confidence": CONFIDENCE, "ties": "random"}
    found = {
        "e_process": fit(epochs, **sure, **both),
        "ville": fit(epochs, method="ville", **both),
        "fixed_k": fit(epochs, evidence=pl.col("k"), **sure, **both),
        "threshold": fit(epochs, evidence=-pl.col("s"), **sure, **both),
        "pac": fit(epochs, method="pac", ties="random", **both),
    }
    assert tuple(found) == OURS
    return found


def has_package() -> bool:
    try:
        return version(PACKAGE) == VERSION
    except PackageNotFoundError:
        return False


def as_the_package_reads(epochs: pl.DataFrame) -> Any:
    """A frame of pandas with the scores so far as a list in every row."""
    import pandas

    scores = epochs["s"].to_numpy()
    ends = np.arange(1, len(scores) + 1)
    prefixes = [scores[end - k : end].tolist() for end, k in zip(ends, epochs["k"].to_list(), strict=True)]
    return pandas.DataFrame(
        {
            "uq_problem_idx": epochs["trace_id"].to_list(),
            "num_steps": epochs["k"].to_list(),
            "solved": epochs["y"].cast(pl.Int64).to_list(),
            "judge_probability_series": prefixes,
        }
    )


def alarms_of_package(
    calibrate: pl.DataFrame, evaluate: pl.DataFrame, alphas: Iterable[float]
) -> dict[tuple[str, float], pl.DataFrame]:
    """Alarms of the package by rule and level."""
    from evaluator import EValuator

    before, after = as_the_package_reads(calibrate), as_the_package_reads(evaluate)
    found = {}
    for rule, kind in KINDS.items():
        own = EValuator(mt_variant=kind, alphas=list(alphas))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # too few runs for a threshold: the rule has no alarms then
            own.fit(before)
            told = own.apply(after)
        for alpha in alphas:
            column = told[f"reject_{kind}_alpha_{str(alpha).replace('.', '_')}"]
            alarm = pl.Series(column.to_numpy(dtype=bool))
            found[rule, alpha] = evaluate.select("trace", "k", alarm=alarm)
    return found


def permuted(epochs: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The outcomes of the runs in another order."""
    runs = epochs.select("trace", "y").unique("trace", maintain_order=True)
    other = runs.select("trace", y=pl.Series(rng.permutation(runs["y"].to_numpy())))
    return epochs.drop("y").join(other, on="trace", maintain_order="left")


def null_rates(
    calibrate: pl.DataFrame, evaluate: pl.DataFrame, alpha: float, times: int, seed: int
) -> dict[str, dict[str, float]]:
    """Power and false-alarm rate of our rules where outcomes mean nothing, over permutations."""
    rng = np.random.default_rng([seed, 1])
    rates: dict[str, list[tuple[float, float]]] = {rule: [] for rule in OURS}
    for _ in range(times):
        rules = fitted(permuted(calibrate, rng), alpha, seed)
        told = ot.stopping.evaluate_abort(permuted(evaluate, rng), rules, n_boot=1)
        for rule, power, far in told.select("rule", "power", "far").iter_rows():
            rates[rule].append((power, far))
    found = {}
    for rule, pairs in rates.items():
        power, far = np.array(pairs).T
        found[rule] = {
            "null_power": float(power.mean()),
            "null_far": float(far.mean()),
            "null_difference": float((power - far).mean()),
            "null_stderr": float((power - far).std(ddof=1) / times**0.5) if times > 1 else None,
        }
    return found


def judged(given: tuple[str, str, str, tuple[float, ...], int, int, str]) -> list[dict[str, Any]]:
    """All rows of a task."""
    task, first, second, alphas, seed, times, cost = given
    calibrate = read(Path(first), cost)
    evaluate = calibrate if first == second else read(Path(second), cost)
    if first == second:
        calibrate, evaluate = halves(calibrate, seed)
    theirs = alarms_of_package(calibrate, evaluate, alphas) if has_package() else {}
    rows = []
    for alpha in alphas:
        ours = fitted(calibrate, alpha, seed)
        null = null_rates(calibrate, evaluate, alpha, times, seed) if times else {}
        for guarantee, reference in REFERENCE.items():
            rules: dict[str, Any] = {
                rule: one for rule, one in ours.items() if (rule == "pac") == (guarantee == "pac")
            }
            if (reference, alpha) in theirs:
                rules[reference] = theirs[reference, alpha]
            against = reference if reference in rules else None
            told = ot.stopping.evaluate_abort(evaluate, rules, against=against, seed=seed)
            for one in told.iter_rows(named=True):
                own = ours.get(one["rule"])
                row = one | {"task": task, "guarantee": guarantee, "alpha": alpha}
                row |= {f"false_alarm{end}": one[f"far{end}"] for end in ("", "_lower", "_upper")}
                row |= {"cost": json.loads(one["params"])["cost"], **null.get(one["rule"], {})}
                row |= {"n_calibration": own.n_calibration, "reason": own.reason} if own else {}
                if against is None:
                    row |= {"gain": None, "gain_lower": None, "gain_upper": None}
                rows.append({name: row.get(name) for name in COLUMNS})
    return rows


def rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Numbers to six digits behind the point."""
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """Our rule beside the package, in each class of guarantee; in percent, as docs/stopping.md has it."""
    lines = [
        "| task | alpha | rule | false alarms | saved | package: false alarms | saved | difference |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    by = {(row["task"], row["alpha"], row["rule"]): row for row in rows}
    for (task, alpha, rule), row in by.items():
        if rule not in ("e_process", "pac"):
            continue
        other = by.get((task, alpha, REFERENCE[row["guarantee"]]), {})
        cells = [task, f"{alpha:g}", f"`{rule}`", cell(row, "false_alarm"), cell(row, "saved_failed")]
        cells += [cell(other, "false_alarm"), cell(other, "saved_failed"), cell(row, "gain", signed=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(row: dict[str, Any], name: str, signed: bool = False) -> str:
    """A share in percent; of false alarms and differences with the interval."""
    value = row.get(name)
    if value is None:
        return ""
    ends = [row.get(f"{name}_{end}") for end in ("lower", "upper")]
    around = f" [{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]" if None not in ends else ""
    return f"{100 * value:{'+' if signed else ''}.1f}{'' if name == 'saved_failed' else around}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calibrate", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--evaluate", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--alpha", type=float, action="append", help="several times; 0.05, 0.1 and 0.2")
    parser.add_argument("--task", action="append", help="several times; all that both folders have")
    parser.add_argument("--cost", choices=("auto", "epochs"), default="auto", help="epochs counts steps")
    parser.add_argument("--null", type=int, default=3, help="permutations of the outcomes (3)")
    parser.add_argument("--seed", type=int, default=0, help="of the split in halves and of rules (0)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (2)")
    parser.add_argument("--json", metavar="PATH", help="write rows as JSON; - is standard output")
    asked = parser.parse_args()
    files = [{path.name.partition(".csv")[0]: path for path in sorted(folder.resolve().glob("*.csv*"))}
             for folder in (asked.calibrate, asked.evaluate)]  # fmt: skip
    tasks = [task for task in files[0] if task in files[1] and task in (asked.task or files[0])]
    if not tasks:
        sys.exit("no task: expected <task>.csv.gz in both folders")
    if not has_package():
        print(f"without the package: pip install {PACKAGE}=={VERSION}", file=sys.stderr)
    alphas = tuple(asked.alpha or ALPHAS)
    # the largest file first, so that no worker waits for it at the end
    queue = sorted(tasks, key=lambda task: -files[1][task].stat().st_size)
    given = [
        (task, str(files[0][task]), str(files[1][task]), alphas, asked.seed, asked.null, asked.cost)
        for task in queue
    ]
    began = time.perf_counter()
    if asked.workers > 1:
        with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
            done = dict(zip(queue, pool.map(judged, given), strict=True))
    else:
        done = {one[0]: judged(one) for one in given}
    rows = [row for task in tasks for row in done[task]]
    took = time.perf_counter() - began
    print(f"{len(rows)} rows, {took:.0f} s, {asked.workers} processes", file=sys.stderr)
    if asked.json is None:
        print(table(rows))
        return
    # a row a line, so that two results can be compared line by line
    text = "[\n" + ",\n".join(json.dumps(rounded(row)) for row in rows) + "\n]"
    if asked.json == "-":
        print(text)
    else:
        Path(asked.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
