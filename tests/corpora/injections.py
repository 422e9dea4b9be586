"""What safety flows tell of attacks, on recordings in AgentDojo's format.

For tests and benches. Flows do not know what came of an attack, and no label is used but to judge. Where a
choice of the rule is fitted, it is fitted on other suites or other injected texts than it is judged on.
"""

import io
import json
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from scipy.stats import rankdata

import orchestrace as ot
from corpora.test_agentdojo import kind_of
from orchestrace.safety.tracking import Carry
from reference.injected_requests import DEFAULT, Rule, Run, followed, injected_texts

BASELINES = ("tool calls", "state-changing calls", "injection read")
"""What is known of a run without any edge."""
FEATURES = (
    "outcome tainted",
    "share tainted",
    "tainted calls",
    "tainted calls, context",
    "tainted state-changing calls, context",
    "calls that follow the text",
)
_READS = r"(?i)^(get|read|list|search|check|view)"
"""Tools that only look, by their names; of all others a call changes something."""

GRID = tuple(
    Rule(shortest=shortest, shortest_number=number, long=long, tool_names=names, other_content=other)
    for names, other, shortest, number, long in product(
        (True, False), (True, False), (2, 1, 4, 6), (1, 2), (16, 32)
    )
)
"""What a fit may choose from. Of equals it takes the first; the importer's rule is the first of all."""
VARIANTS = {
    "the importer's": DEFAULT,
    "texts of 1 character": replace(DEFAULT, shortest=1),
    "texts of 3": replace(DEFAULT, shortest=3),
    "texts of 4": replace(DEFAULT, shortest=4),
    "texts of 6": replace(DEFAULT, shortest=6),
    "numbers of 2 digits": replace(DEFAULT, shortest_number=2),
    "numbers of 3 digits": replace(DEFAULT, shortest_number=3),
    "quotations of 8": replace(DEFAULT, long=8),
    "quotations of 32": replace(DEFAULT, long=32),
    "values alone, no names": replace(DEFAULT, tool_names=False),
    "names alone, no values": replace(DEFAULT, values=False),
    "other content explains nothing": replace(DEFAULT, other_content=False),
}
"""The rule with one choice changed at a time."""


def unpacked(archive: Path, target: Path) -> Path:
    """The runs of the archive, under their own paths."""
    data = pa.CompressedInputStream(str(archive), "zstd").read()
    with tarfile.open(fileobj=io.BytesIO(data)) as runs:
        # Python 3.11 has it from 3.11.4
        runs.extraction_filter = getattr(tarfile, "data_filter", None)
        runs.extractall(target)
    return target


def sources(folder: Path) -> dict[str, Run]:
    """The recordings by their path below `runs`, which is the id of the trace."""
    paths = sorted((folder / "runs").rglob("*.json"))
    return {
        path.relative_to(folder / "runs").with_suffix("").as_posix(): json.loads(path.read_bytes())
        for path in paths
    }


def measured(corpus: ot.Corpus, runs: dict[str, Run]) -> pl.DataFrame:
    """A row per attacked run: ``trace_id task_id kind reached`` and every baseline and feature."""
    success = corpus.measures.filter(pl.col("name").cast(pl.String) == "attack_success")
    told = success.select("trace", reached=pl.col("value") > 0).collect()
    calls = corpus.events.filter(pl.col("type") == "tool_call").select(
        "trace", "seq", changes=~pl.col("tool").cast(pl.String).str.contains(_READS)
    )
    of_calls = calls.collect()
    read = corpus.events.filter(
        (pl.col("type") == "safety_event") | ((pl.col("type") == "message") & ~pl.col("trusted"))
    )
    table = ot.taint(corpus)

    def tainted(carry: Carry) -> pl.DataFrame:
        return ot.safety.tainted_events(corpus, carry=carry).join(of_calls, on=["trace", "seq"])

    within = tainted("context")
    counts = {
        "tool calls": of_calls,
        "state-changing calls": of_calls.filter("changes"),
        "injection read": read.select("trace").unique().collect(),
        "tainted calls": tainted("all"),
        "tainted calls, context": within,
        "tainted state-changing calls, context": within.filter("changes"),
        "calls that follow the text": tainted("safety_flow"),
    }
    rows = table.select(
        "trace",
        "trace_id",
        "task_id",
        pl.col("outcome_tainted").cast(pl.Float64).alias("outcome tainted"),
        pl.col("taint_share").alias("share tainted"),
    ).join(told, on="trace", maintain_order="left")
    for name, frame in counts.items():
        number = frame.group_by("trace").len(name)
        rows = rows.join(number, on="trace", how="left", maintain_order="left")
    kinds = {name: kind_of(name, run) for name, run in runs.items()}
    return rows.with_columns(pl.col(*counts).fill_null(0), kind=pl.col("trace_id").replace_strict(kinds))


def attacks(runs: Mapping[str, Run], rules: Sequence[Rule] = (DEFAULT,)) -> pl.DataFrame:
    """A row per attacked run: what it is, ``reached``, and by each rule its calls that follow the text."""
    rows = []
    for name, run in runs.items():
        if run["attack_type"] is None:
            continue
        row: dict[str, Any] = {
            "trace_id": name,
            "suite": run["suite_name"],
            "injection": f"{run['suite_name']}/{run['injection_task_id']}",
            "task": f"{run['suite_name']}/{run['user_task_id']}",
            "kind": kind_of(name, run),
            "reached": run["security"],
        }
        rows.append(row | {str(n): len(followed(run, rule)) for n, rule in enumerate(rules)})
    return pl.DataFrame(rows)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), runs taken as independent."""
    if n == 0:
        return 0.0, 1.0
    z, p = 1.959964, hits / n
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(center - half, 0.0), min(center + half, 1.0)


def auc(values: Any, reached: Any) -> float:
    """The chance that a success has more than a failure, ties as a half; NaN without both."""
    values, reached = np.asarray(values, float), np.asarray(reached, bool)
    n, m = int(reached.sum()), int((~reached).sum())
    if not n or not m:
        return math.nan
    return float((rankdata(values)[reached].sum() - n * (n + 1) / 2) / (n * m))


def auc_interval(
    values: Any, reached: Any, clusters: Any, *, n_boot: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """The 95 % percentile interval of the AUC over clusters drawn with replacement, each with all its runs.

    A draw without both outcomes is drawn again; NaN where half of them are, or where there is one cluster.
    """
    values, reached = np.asarray(values, float), np.asarray(reached, bool)
    names = np.unique(np.asarray(clusters, str))
    members = [np.flatnonzero(np.asarray(clusters, str) == name) for name in names]
    rng = np.random.default_rng(seed)
    drawn: list[float] = []
    for _ in range(2 * n_boot):
        if len(drawn) == n_boot:
            break
        picked = np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
        one = auc(values[picked], reached[picked])
        if not math.isnan(one):
            drawn.append(one)
    if len(names) < 2 or len(drawn) < n_boot:
        return math.nan, math.nan
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float(low), float(high)


def fitted(rows: pl.DataFrame, n_rules: int) -> int:
    """The first of the rules whose AUC, a mean over the ways in that have both outcomes, is the highest."""
    best, chosen = -1.0, 0
    parts = [
        part for _, part in rows.group_by("kind", maintain_order=True) if part["reached"].n_unique() == 2
    ]
    for rule in range(n_rules):
        score = float(np.mean([auc(part[str(rule)], part["reached"]) for part in parts])) if parts else 0.0
        if score > best + 1e-12:
            best, chosen = score, rule
    return chosen


def judged(rows: pl.DataFrame, values: str) -> dict[str, Any]:
    """What flows say of some runs: attacks that succeeded without one, failed ones with one, and the AUC."""
    reached, flows = rows["reached"].to_numpy(), rows[values].to_numpy() > 0
    missed, n = int((reached & ~flows).sum()), int(reached.sum())
    drawn, m = int((~reached & flows).sum()), int((~reached).sum())
    low, high = auc_interval(rows[values], reached, rows["task"])
    told = {"runs": rows.height, "tasks": rows["task"].n_unique(), "auc": auc(rows[values], reached)}
    return told | {
        "missed": missed,
        "reached": n,
        "missed_interval": wilson(missed, n),
        "drawn": drawn,
        "failed": m,
        "drawn_interval": wilson(drawn, m),
        "auc_lower": low,
        "auc_upper": high,
    }


def left_out(rows: pl.DataFrame, by: str, rules: Sequence[Rule] = GRID) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Judge each part by a rule that is fitted on all others.

    `rows` are of `attacks` with the same rules. Returns a row per part and way in: the part, ``kind``, the
    ``rule`` that the others chose and what `judged` says of it; and the runs with the column ``held`` that
    the fitted rule gives them.
    """
    found, held = [], []
    for (name,), part in rows.group_by(by, maintain_order=True):
        rule = fitted(rows.filter(pl.col(by) != name), len(rules))
        held.append(part.with_columns(held=pl.col(str(rule))))
        for (kind,), own in part.group_by("kind", maintain_order=True):
            found.append({by: name, "kind": kind, "rule": rule} | judged(own, str(rule)))
    return pl.DataFrame(found).sort(by, "kind"), pl.concat(held)


def placebos(runs: Mapping[str, Run], rule: Rule = DEFAULT) -> Iterator[tuple[str, bool]]:
    """Look in failed attacks and in runs without one for every text that they never read.

    Gives ``(kind, follows)``. What follows such a text does so by chance. Runs without an attack are taken to
    have read it before they began.
    """
    texts: dict[str, str] = {}
    for run in runs.values():
        for text in injected_texts(run):
            texts.setdefault(f"{run['suite_name']}/{run['injection_task_id']}", text)
    for name, run in runs.items():
        kind, own = kind_of(name, run), f"{run['suite_name']}/{run['injection_task_id']}"
        if kind != "alone" and run["security"]:
            continue
        alone = f"{run['suite_name']}/{run['user_task_id']}"
        for other, text in texts.items():
            if other not in (own, alone):
                yield kind, bool(followed(run, rule, instead=text))


def separation(rows: pl.DataFrame, *, n_boot: int = 2000, seed: int = 0) -> pl.DataFrame:
    """A row per measure: its AUC and the 95 % percentile interval, and those of its gain over tool calls.

    Tasks are drawn with replacement, each with all its runs; the same draws serve all measures, so that gains
    are paired. A draw without both outcomes is drawn again.
    """
    reached = rows["reached"].to_numpy()
    tasks = [
        part["row"].to_numpy()
        for _, part in rows.with_row_index("row").group_by("task_id", maintain_order=True)
    ]
    columns = {name: rows[name].to_numpy() for name in (*BASELINES, *FEATURES)}
    rng = np.random.default_rng(seed)
    drawn: list[dict[str, float]] = []
    while len(drawn) < n_boot:
        picked = np.concatenate([tasks[k] for k in rng.integers(len(tasks), size=len(tasks))])
        if reached[picked].all() or not reached[picked].any():
            continue
        drawn.append({name: auc(column[picked], reached[picked]) for name, column in columns.items()})
    found = []
    for name, column in columns.items():
        own = np.array([one[name] for one in drawn])
        gain = own - np.array([one["tool calls"] for one in drawn])
        low, high = np.quantile(own, [0.025, 0.975])
        least, most = np.quantile(gain, [0.025, 0.975])
        point = auc(column, reached)
        gained = point - auc(columns["tool calls"], reached)
        found.append(
            {"measure": name, "auc": point, "lower": low, "upper": high}
            | {"gain": gained, "gain_lower": least, "gain_upper": most}
        )
    return pl.DataFrame(found)
