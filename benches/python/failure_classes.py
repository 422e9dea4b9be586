"""Signs of failure and waste in published recordings: the tables of docs/failure-classes.md.

    ORCHESTRACE_CORPORA=... python benches/python/failure_classes.py --json FILE

FILE is benches/results/failure_classes.json, from which `python .ci/pages.py write` makes the tables. Nothing
is timed, and the same files give the same counts. Corpora are read by their importers alone, with no tool
named, so that `unverified_change` is never known. A run passed if its outcome is 1.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot


def outcome_of(corpus: ot.Corpus) -> str | None:
    """The channel that is the outcome here; other channels may be opinions of raters."""
    return "team" if "team" in corpus.reward_channels() else None


def signs_of(corpus: ot.Corpus, outcome: str | None) -> dict[str, Any]:
    """Of every class: runs of which it is known, those that show it, and rates of failed and passed ones."""
    shown = ot.evaluation.failure_classes(corpus)
    counts = shown.group_by("class", maintain_order=True).agg(
        known=pl.col("n").count(), shows=(pl.col("n") > 0).sum()
    )
    told = {row.pop("class"): row for row in counts.iter_rows(named=True)}
    if outcome is None:
        return told
    wanted = (
        "n_failed",
        "shows_failed",
        "n_passed",
        "shows_passed",
        "difference",
        "lower",
        "upper",
        "n_tasks",
    )
    for row in ot.evaluation.failure_rates(corpus, reward=outcome).iter_rows(named=True):
        rounded = {
            name: round(row[name], 6) if isinstance(row[name], float) else row[name] for name in wanted
        }
        told[row["class"]] |= rounded
    return told


def waste_of(corpus: ot.Corpus) -> dict[str, Any]:
    """Of every class of waste its events and its share of what was spent."""
    table = ot.costs.waste(corpus, by="class")
    rows: dict[str, Any] = {"share_of": table["share_of"][0] if table.height else None}
    for row in table.iter_rows(named=True):
        name = row["class"] or f"not known ({row['reason']})"
        share = None if row["loss_share"] is None else round(row["loss_share"], 6)
        rows[name] = {"events": row["events"], "share": share}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", help="file for the counts; - is standard output", default="-")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for folder in sorted(Path(os.environ["ORCHESTRACE_CORPORA"]).iterdir()):
        if not folder.is_dir():
            continue
        try:
            corpus = ot.read_traces(folder)
        except ot.InputError:
            continue  # no recordings
        if not len(corpus):
            continue
        outcome = outcome_of(corpus)
        row = {"corpus": folder.name, "runs": len(corpus), "outcome": outcome}
        rows.append(row | {"signs": signs_of(corpus, outcome), "waste": waste_of(corpus)})
    text = json.dumps(rows, indent=1) + "\n"
    if options.json == "-":
        print(text, end="")
    else:
        Path(options.json).write_text(text)


if __name__ == "__main__":
    main()
