"""Lanes of runs, their alignment and their tree in plain Python, from the public tables (D35)."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import polars as pl

import orchestrace as ot
from orchestrace.corpus.owners import owners

STEPS = {"orchestrator_decision", "spawn", "message", "return", "tool_call", "aggregate"}
Key = tuple[Any, ...]
Lane = list[tuple[int, Key]]


@dataclass
class Run:
    """What each agent of a run did, by label and number, and what the root did."""

    lanes: dict[tuple[str, int], Lane]
    root: Lane


def lanes_of(corpus: ot.Corpus, key: str) -> dict[int, Run]:
    columns = ["content_hash", "content_ref", "args_hash", "to"]
    events = corpus.events.collect()
    missing = [name for name in columns if name not in events.columns]
    events = events.with_columns(*(pl.lit(None, pl.String).alias(name) for name in missing))
    owned = owners(corpus).select("trace", "seq", "owner", "role")
    rows = events.join(owned.rename({"role": "owner_role"}), on=["trace", "seq"]).with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    roots = dict(
        pl.DataFrame(ot._core.ownership(corpus._store))
        .filter("is_root")
        .select("trace", pl.col("owner").cast(pl.String))
        .unique()
        .iter_rows()
    )
    agents = {
        (row["trace"], row["agent"])
        for row in corpus.agents.collect().with_columns(pl.col("agent").cast(pl.String)).iter_rows(named=True)
    }
    runs = {}
    for trace in corpus.traces.collect()["trace"]:
        mine = rows.filter(pl.col("trace") == trace).sort("t", "seq").to_dicts()
        runs[trace] = run_of(mine, key, roots.get(trace), {name for at, name in agents if at == trace})
    return runs


def run_of(events: list[dict[str, Any]], key: str, root: str | None, agents: set[str]) -> Run:
    got: dict[str, list[Any]] = defaultdict(list)
    heard: dict[str, list[Any]] = defaultdict(list)  # what was said to all, since each one's last step
    said: list[Any] = []
    lanes: dict[str, Lane] = defaultdict(list)
    labels: dict[str, tuple[str, int]] = {}
    counts: dict[str, int] = defaultdict(int)
    since: dict[str, int] = defaultdict(int)
    for event in events:
        owner, kind = event["owner"], event["type"]
        text = event["content_hash"] or event["content_ref"]
        if owner is not None and kind in STEPS:
            label = event["owner_role"] or owner
            if owner not in labels:
                labels[owner] = (label, counts[label])
                counts[label] += 1
            shape: Key = (kind, label, event["tool"])
            if key == "exact":
                called = event["args_hash"] or event["content_ref"]
                says = called if kind == "tool_call" else text
                silent = kind not in ("tool_call", "message", "return") and says is None
                news = [*got[owner], "|", *sorted(said[since[owner] :], key=str)]
                unknown = None in news or (says is None and not silent)
                shape = ("unknown", id(event)) if unknown else (*shape, says, *news)
            lanes[owner].append((event["seq"], shape))
            got[owner], since[owner] = [], len(said)
        if kind == "tool_result" and owner is not None:
            got[owner].append(text)
        if kind in ("message", "return", "human_intervention"):
            to = event["to"] if event["to"] in agents else None
            if to is None:
                said.append(None if text is None else (text, kind))
            elif to != owner:
                got[to].append(text)
    del heard
    return Run({labels[name]: lane for name, lane in lanes.items()}, lanes.get(root or "", []))


def common(a: list[Key], b: list[Key]) -> list[tuple[int, int]]:
    """The matches of a longest common subsequence, earliest in a, then in b."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            with_both = table[i + 1][j + 1] + 1 if a[i] == b[j] else 0
            table[i][j] = max(with_both, table[i + 1][j], table[i][j + 1])
    matches, j = [], 0
    for i in range(len(a)):
        for at in range(j, len(b)):
            if a[i] == b[at] and table[i + 1][at + 1] + 1 == table[i][j]:
                matches.append((i, at))
                j = at + 1
                break
    return matches


def aligned(a: Lane, b: Lane, rejoin: int) -> dict[str, Any]:
    one, two = [key for _, key in a], [key for _, key in b]
    prefix = next(
        (n for n, (x, y) in enumerate(zip(one, two, strict=False)) if x != y), min(len(one), len(two))
    )
    matches = common(one, two)
    later = [pair for pair in matches if pair[0] >= prefix]
    runs = [
        later[at]
        for at in range(len(later) - rejoin + 1)
        if all(later[at + n] == (later[at][0] + n, later[at][1] + n) for n in range(rejoin))
    ]
    back = runs[0] if runs else None
    parts = prefix < len(one) or prefix < len(two)
    return {
        "n_a": len(a),
        "n_b": len(b),
        "prefix": prefix,
        "seq_a": a[prefix][0] if prefix < len(a) else None,
        "seq_b": b[prefix][0] if prefix < len(b) else None,
        "rejoin_a": a[back[0]][0] if back else None,
        "rejoin_b": b[back[1]][0] if back else None,
        "sustained": parts and back is None,
        "edits": len(a) + len(b) - 2 * len(matches),
        "similarity": 2 * len(matches) / (len(a) + len(b)),
    }
