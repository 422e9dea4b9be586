"""What each format of recordings gives: rewards, decisions, epochs; the table of docs/format-coverage.md.

    ORCHESTRACE_CORPORA=... python benches/python/format_coverage.py --json FILE

FILE is benches/results/format_coverage.json, from which `python .ci/pages.py write` makes the table. Counts
are those of whole corpora of published recordings; nothing is timed, and the same files give the same counts.
A corpus that no importer reads is left out.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

KINDS = ("spawn", "delegate", "communicate", "aggregate", "stop")
SOURCES = ("draft", "score", "turn", "attempt")


def outcome_of(corpus: ot.Corpus) -> str | None:
    """The channel that is the outcome here: `team`, else the only one."""
    channels = corpus.reward_channels()
    return "team" if "team" in channels else channels[0] if len(channels) == 1 else None


def rewards_of(corpus: ot.Corpus, outcome: str | None) -> dict[str, Any]:
    """Of every family: its rules, those that pay some run, and why most of the others do not."""
    rules = ot.rewards.list_rules()
    names = {"outcome", "performance"}
    channels = {name: outcome for name in names if outcome is not None and outcome != "team"}
    paid = ot.rewards.compute(corpus, rules["reward"].to_list(), channels=channels or None)
    told: dict[str, Any] = {}
    for family in rules["family"].unique(maintain_order=True):
        own = paid.filter(pl.col("family") == family)
        known = own.filter(pl.col("value").is_not_null())["reward"].cast(pl.String).unique().to_list()
        absent = own.filter(~pl.col("reward").cast(pl.String).is_in(known))["reason"].drop_nulls()
        why = absent.cast(pl.String).value_counts(sort=True)
        told[str(family)] = {
            "rules": rules.filter(family=family).height,
            "paid": sorted(known),
            "reason": None
            if why.is_empty()
            else sorted(why.filter(pl.col("count") == pl.col("count").max())[why.columns[0]])[0],
        }
    return told


def epochs_of(corpus: ot.Corpus, outcome: str | None) -> dict[str, Any]:
    """Of every source: runs (of `attempt`: groups) with an epoch, epochs, and those with an outcome."""
    told: dict[str, Any] = {}
    for source in SOURCES:
        found = ot.stopping.epochs(corpus, source, reward=outcome)  # type: ignore[arg-type]
        told[source] = {
            "runs": found["trace"].n_unique(),
            "epochs": found.height,
            "with_outcome": found.filter(pl.col("y").is_not_null())["trace"].n_unique(),
        }
    return told


def decisions_of(corpus: ot.Corpus, outcome: str | None) -> dict[str, Any]:
    """Of every kind: decisions, those with an effect, and why most of the others have none."""
    told: dict[str, Any] = {}
    for kind in KINDS:
        found = ot.decisions.table(corpus, kind, reward=outcome)
        why = found.filter(pl.col("effect").is_null())["reason"].drop_nulls().cast(pl.String)
        counts = why.value_counts().sort("count", why.name, descending=[True, False])
        told[kind] = {
            "decisions": found.height,
            "effects": found["effect"].count(),
            "reason": None if counts.is_empty() else counts[why.name][0],
        }
    return told


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
            continue  # no recordings: tables of scores, which `stopping.epochs_from_frame` takes
        found = corpus.traces.select(pl.col("importer").cast(pl.String)).collect()["importer"].unique().sort()
        if found.is_empty():
            continue
        outcome = outcome_of(corpus)
        row: dict[str, Any] = {"corpus": folder.name, "formats": found.to_list(), "runs": len(corpus)}
        row |= {"outcome": outcome, "rewards": rewards_of(corpus, outcome)}
        row |= {"decisions": decisions_of(corpus, outcome), "epochs": epochs_of(corpus, outcome)}
        rows.append(row)
    text = json.dumps(rows, indent=1) + "\n"
    if options.json == "-":
        print(text, end="")
    else:
        Path(options.json).write_text(text)


if __name__ == "__main__":
    main()
