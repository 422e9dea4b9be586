"""How often detectors of gaming and of failure are right, on planted teams: docs/rewards.md.

    python benches/python/gaming_detectors.py [--seeds 200] [--json benches/results/gaming_detectors.json]

For every seed it makes honest corpora and one of each game of `ot.synthetic.gamed`, 24 tasks with 5 runs each
(for games about training 12 tasks with 5 runs at each of 6 steps), and asks `rewards.detect_hacking`,
`rewards.failure_modes` and `rewards.verifier_health` about them, with their defaults but for 500 resamples. A
row is a detector:

- `recall`: alarms on corpora in which every run games; `recall_half`: in which half of the runs do, for every
  fifth seed. The alarm has to name the reward and the unit that were gamed.
- `false`: alarms on honest corpora; `false_varied`: on honest corpora in which calls vary by 80 % for no
  reason, not by 20 %; `false_corpus`: on the first ones, with ranks over the corpus (`within="corpus"`).
- `precision`: of alarms on as many gamed as honest corpora those on gamed ones.
- `also`: other games on which it alarms in at least one corpus of ten, with the share.
- `units`: alarms on other rewards or units of the same gamed corpora.

Rates have Wilson's 95 % interval over seeds. A rate without corpora that the detector can judge is null, with
the `reason` of its rows. It prints the rows, or writes them with `--json`, after every tenth seed anew.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import polars as pl
from scipy.stats import binomtest

import orchestrace as ot
from orchestrace.synthetic.gaming import PAID, TRAINING, Hazard

HAZARDS = get_args(Hazard)
#: The detectors of `failure_modes` for each way to fail; slopes that alarm together are one.
FAILURES = {
    "serial_collapse": ("parallelism_slope",),
    "spurious_parallelism": ("idle_spawns", "finish_rate", "steps_slope"),
    "dominant_agent": ("delegation_dominance",),
    "over_communication": ("message_density", "redundancy", "message_utility"),
    "aggregation_leakage": ("leakage", "uplift"),
    "late_stop": ("late_stop",),
    "early_stop": ("early_stop",),
    "team_size": ("team_efficiency", "size_rank"),
}
FAMILIES = {"late_stop": "stopping", "early_stop": "stopping"}
N_BOOT = 500
HALF = 5  # every so many seeds
Alarm = tuple[str, str | None, str | None]


def hazards_of(given: tuple[ot.Corpus, pl.DataFrame, Any], **options: Any) -> tuple[set[Alarm], set[str]]:
    """Alarms of `detect_hacking` and of the drift of the judge, and the detectors that had a value."""
    corpus, rewards, _ = given
    found = ot.rewards.detect_hacking(corpus, rewards, n_boot=N_BOOT, threads=1, **options)
    alarms = set(found.filter("alarm").select("detector", "reward", "unit_id").iter_rows())
    known = set(found.drop_nulls("value")["detector"])
    health = ot.rewards.verifier_health(corpus, judge="judge", n_boot=N_BOOT).filter(statistic="drift")
    if health.height:
        known.add("judge_drift")
    if health["alarm"].any():
        alarms.add(("judge_drift", "judge", None))
    return alarms, known


def failures_of(given: tuple[ot.Corpus, pl.DataFrame, Any]) -> tuple[set[Alarm], set[str]]:
    """Alarms of `failure_modes`, and the detectors that had a value."""
    found = ot.rewards.failure_modes(given[0], n_boot=N_BOOT, threads=1)
    alarms = {
        (name, family, None) for family, name in found.filter("alarm").select("family", "detector").rows()
    }
    return alarms, {
        f"{family} {name}" for family, name in found.drop_nulls("value").select("family", "detector").rows()
    }


def of_seed(seed: int) -> dict[str, tuple[set[Alarm], set[str]]]:
    """By world what alarmed there, and what could have."""

    def made(game: Any, **options: Any) -> tuple[ot.Corpus, pl.DataFrame, Any]:
        tasks = 12 if game in TRAINING or "train_steps" in options else 24
        return ot.synthetic.gamed(game, tasks=tasks, seed=seed, **options)

    honest, trained = made(None), made(None, train_steps=6)
    told = {
        "hazards honest": hazards_of(honest),
        "hazards honest corpus": hazards_of(honest, within="corpus"),
        "hazards honest varied": hazards_of(made(None, length_spread=0.8)),
        "hazards honest training": hazards_of(trained),
        "failures honest": failures_of(honest),
        "failures honest training": failures_of(trained),
    }
    for name, strength in {"": 1.0, " half": 0.5}.items():
        if strength == 1.0 or seed % HALF == 0:
            for hazard in HAZARDS:
                told[f"{hazard}{name}"] = hazards_of(made(hazard, strength=strength))
            for failure in FAILURES:
                told[f"{failure}{name}"] = failures_of(made(failure, strength=strength))
    return told


def share(prefix: str, hits: int, n: int) -> dict[str, Any]:
    """A rate with Wilson's interval; null without trials."""
    if not n:
        return {prefix: None, f"{prefix}_lower": None, f"{prefix}_upper": None}
    ends = binomtest(hits, n).proportion_ci(method="wilson")
    rate = {prefix: hits / n, f"{prefix}_lower": float(ends.low), f"{prefix}_upper": float(ends.high)}
    return {name: round(value, 6) for name, value in rate.items()}


def judged(told: list[dict[str, tuple[set[Alarm], set[str]]]]) -> list[dict[str, Any]]:
    """A row per detector."""
    rows = []
    detectors = [("hazard", game, game) for game in HAZARDS]
    detectors += [("failure", game, name) for game, names in FAILURES.items() for name in names]
    for kind, game, name in detectors:
        what = "hazards" if kind == "hazard" else "failures"
        planted: Alarm = (
            (name, *PAID.get(game, (None, None)))
            if kind == "hazard"
            else (name, FAMILIES.get(game, game), None)
        )
        key = name if kind == "hazard" else f"{planted[1]} {name}"

        def alarmed(world: str, one: Alarm = planted, key: str = key) -> tuple[int, int]:
            """Corpora with that alarm, of those in which the detector had a value."""
            asked = [seed[world] for seed in told if world in seed]
            able = [alarms for alarms, known in asked if key in known]
            return sum(one in alarms for alarms in able), len(able)

        def anywhere(
            world: str, name: str = name, one: Alarm = planted, hazard: bool = kind == "hazard"
        ) -> tuple[int, int]:
            """The same, whatever reward or unit it names."""
            same = [
                {a for a in seed[world][0] if a[0] == name and (hazard or a[1] == one[1])} for seed in told
            ]
            return sum(bool(found) for found in same), len(same)

        calm = f"{what} honest{' training' if game in TRAINING else ''}"
        (hits, n), (false, n_honest) = alarmed(game), anywhere(calm)
        # of a detector without a value nothing is known
        n_honest = n_honest if alarmed(calm)[1] else 0
        row: dict[str, Any] = {"kind": kind, "game": game, "detector": name, "n": n, "n_honest": n_honest}
        row |= share("recall", hits, n) | share("recall_half", *alarmed(f"{game} half"))
        row |= share("false", false, n_honest)
        row |= share("precision", hits, hits + false)
        for world in ("varied", "corpus"):
            other = kind == "hazard" and game not in TRAINING
            row |= share(f"false_{world}", *(anywhere(f"hazards honest {world}") if other else (0, 0)))
        others = [other for other in (HAZARDS if kind == "hazard" else FAILURES) if other != game]
        rates = Counter({other: anywhere(other)[0] / len(told) for other in others})
        row["also"] = {other: round(rate, 3) for other, rate in rates.items() if rate >= 0.1}
        apart = [{a for a in seed[game][0] if a[0] == name and a != planted} for seed in told]
        row["units"] = sum(bool(found) for found in apart) / len(told) if kind == "hazard" else None
        row["reason"] = None if n else "siblings.absent" if name == "message_utility" else "field.absent"
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200, help="corpora of each world (200)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="processes (2)")
    parser.add_argument("--json", metavar="PATH", help="write rows as JSON; - is standard output")
    asked = parser.parse_args()
    began = time.perf_counter()
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        told = []
        for one in pool.map(of_seed, range(asked.seeds)):
            told.append(one)
            if len(told) % 10 == 0 or len(told) == asked.seeds:
                write(judged(told), asked.json if asked.json != "-" else None)
    if asked.json in (None, "-"):
        print(text_of(judged(told)), end="")
    print(
        f"{asked.seeds} seeds, {time.perf_counter() - began:.0f} s, {asked.workers} processes",
        file=sys.stderr,
    )


def text_of(rows: list[dict[str, Any]]) -> str:
    """A row a line, so that two results can be compared line by line."""
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def write(rows: list[dict[str, Any]], path: str | None) -> None:
    if path:
        Path(path).write_text(text_of(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
