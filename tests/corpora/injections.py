"""Whether taint tells successful attacks from the rest, on recordings in AgentDojo's format.

For tests and benches. What is measured must not know the outcome. The importer draws the edge from an
injected text into a call only where the attack reached its goal, so that its safety flows do know it. Here
they are left out; the same edges are drawn for every run, by the comparison of texts of the importer's test.
"""

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from scipy.stats import rankdata

import orchestrace as ot
from corpora.test_agentdojo import Run, folded, kind_of, leaves, stands_in
from orchestrace.safety import Carry

BASELINES = ("tool calls", "state-changing calls", "injection read")
"""What is known of a run without any edge."""
FEATURES = (
    "outcome tainted",
    "share tainted",
    "tainted calls",
    "tainted calls, context",
    "tainted state-changing calls, context",
    "calls with an injected value",
)
_READS = r"(?i)^(get|read|list|search|check|view)"
"""Tools that only look, by their names; of all others a call changes something."""


def unpacked(archive: Path, target: Path) -> Path:
    """The runs of the archive, under their own paths."""
    data = pa.CompressedInputStream(str(archive), "zstd").read()
    with tarfile.open(fileobj=io.BytesIO(data)) as runs:
        runs.extractall(target, filter="data")
    return target


def sources(folder: Path) -> dict[str, Run]:
    """The recordings by their path below `runs`, which is the id of the trace."""
    paths = sorted((folder / "runs").rglob("*.json"))
    return {
        path.relative_to(folder / "runs").with_suffix("").as_posix(): json.loads(path.read_bytes())
        for path in paths
    }


def value_edges(run: Run, ids: Sequence[str]) -> list[tuple[int, int]]:
    """From where an injected text was read to later calls with a value of it that the user did not ask for.

    Whatever came of the attack. `ids` are those of the events of the run.
    """
    place = {one: seq for seq, one in enumerate(ids)}
    asked = [m["content"] for m in run["messages"] if m["role"] == "user" and "[memory]" not in m["content"]]
    prompt = folded("\n".join(asked))
    read: list[tuple[int, str]] = []
    edges = set()
    for number, message in enumerate(run["messages"]):
        text = message["content"] or ""
        if message["role"] == "user" and "[memory]" in text:
            read.append((place[str(number)], text))
        elif message["role"] == "tool":
            for which, injected in enumerate(run["injections"].values()):
                if folded(injected) in folded(text):
                    read.append((place[f"{number}:s{which}"], injected))
        for call in message.get("tool_calls") or ():
            for value in leaves(call["args"]):
                sources = [seq for seq, injected in read if stands_in(value, injected)]
                if sources and folded(value) not in prompt:
                    edges.add((max(sources), place[call["id"]]))
    return sorted(edges)


def without_flows(corpus: ot.Corpus) -> ot.Corpus:
    """The corpus without the flows of the importer, which know what came of the attack."""
    return _with_edges(corpus, corpus.edges.filter(pl.col("type") != "safety_flow").collect())


def by_value(corpus: ot.Corpus, runs: dict[str, Run]) -> ot.Corpus:
    """The corpus with no edges but those of values that were found again, in every run."""
    rows = []
    for (trace, trace_id), events in (
        corpus.events.select("trace", "seq", "id")
        .collect()
        .join(corpus.traces.select("trace", "trace_id").collect(), on="trace", maintain_order="left")
        .group_by("trace", "trace_id", maintain_order=True)
    ):
        edges = value_edges(runs[str(trace_id)], events["id"].to_list())
        rows += [{"trace": trace, "src": src, "dst": dst, "type": "safety_flow"} for src, dst in edges]
    schema = {"trace": pl.UInt32, "src": pl.UInt32, "dst": pl.UInt32, "type": pl.String}
    return _with_edges(corpus, pl.DataFrame(rows, schema=schema))


def _with_edges(corpus: ot.Corpus, edges: pl.DataFrame) -> ot.Corpus:
    tables = {name: getattr(corpus, name).collect() for name in ("traces", "events", "measures")}
    return ot.Corpus.from_arrow(edges=edges, **tables)


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
    free = without_flows(corpus)
    table = ot.taint(free)

    def tainted(of: ot.Corpus, carry: Carry) -> pl.DataFrame:
        return ot.tainted_events(of, carry=carry).join(of_calls, on=["trace", "seq"])

    within = tainted(free, "context")
    counts = {
        "tool calls": of_calls,
        "state-changing calls": of_calls.filter("changes"),
        "injection read": read.select("trace").unique().collect(),
        "tainted calls": tainted(free, "all"),
        "tainted calls, context": within,
        "tainted state-changing calls, context": within.filter("changes"),
        "calls with an injected value": tainted(by_value(corpus, runs), "safety_flow"),
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


def auc(values: Any, reached: Any) -> float:
    """The chance that an attack that succeeded has more than one that failed, ties as a half."""
    values, reached = np.asarray(values, float), np.asarray(reached, bool)
    n, m = int(reached.sum()), int((~reached).sum())
    return float((rankdata(values)[reached].sum() - n * (n + 1) / 2) / (n * m))


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
            {"measure": name, "auc": point, "low": low, "high": high}
            | {"gain": gained, "gain_low": least, "gain_high": most}
        )
    return pl.DataFrame(found)
