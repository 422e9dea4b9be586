"""The turns in which agents act, and what the record says of each, in plain Python from the public tables."""

from collections import defaultdict
from math import log1p
from typing import Any

import polars as pl

import orchestrace as ot
from orchestrace.corpus.owners import owners

Event = dict[str, Any]
COLUMNS = ("tool", "tokens", "ok", "content_hash", "content_ref", "args_hash")


def acts_of(corpus: ot.Corpus) -> list[dict[str, Any]]:
    """A row per turn that is not of tools' results alone, by trace, in the order of their first events."""
    events = corpus.events.collect()
    events = events.with_columns(pl.lit(None).alias(name) for name in COLUMNS if name not in events.columns)
    units = pl.DataFrame(ot._core.unit_ids(corpus._store, "turn"))
    owned = owners(corpus).select("trace", "seq", "owner")
    rows = events.join(units, on=["trace", "seq"]).join(owned, on=["trace", "seq"])
    rows = rows.filter(pl.col("unit_id").is_not_null()).with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    edges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for trace, src, dst in corpus.edges.select("trace", "src", "dst").collect().iter_rows():
        edges[trace].append((src, dst))
    mine: dict[int, list[Event]] = defaultdict(list)
    for row in rows.sort("trace", "t", "seq").iter_rows(named=True):
        mine[row["trace"]].append(row)
    return [act for trace, events in mine.items() for act in _of_run(events, edges[trace])]


def _says(event: Event) -> tuple[Any, ...] | None:
    text = event["args_hash"] if event["type"] == "tool_call" else event["content_hash"]
    text = event["content_ref"] if text is None else text
    return None if text is None else (event["type"], event["tool"], text)


def _of_run(events: list[Event], edges: list[tuple[int, int]]) -> list[dict[str, Any]]:
    turns: dict[str, list[int]] = {}
    for at, event in enumerate(events):
        turns.setdefault(event["unit_id"], []).append(at)
    acts = [
        (unit, [events[at] for at in places], places)
        for unit, places in turns.items()
        if any(events[at]["type"] != "tool_result" for at in places)
    ]
    agents = [rows[0]["owner"] for _, rows, _ in acts]
    n, failures, table = len(acts), [], []
    for index, (unit, rows, places) in enumerate(acts):
        kinds = {row["type"] for row in rows}
        seqs = [row["seq"] for row in rows]
        place = index / max(n - 1, 1)
        failures.append(any(row["ok"] is False for row in rows))
        table.append(
            {
                "trace": rows[0]["trace"],
                "unit_id": unit,
                "agent": agents[index],
                "seq": rows[0]["seq"],
                "place": place,
                "left": log1p(n - 1 - index),
                "first": index == 0,
                "last": index == n - 1,
                "middle": abs(place - 0.5),
                "log_index": log1p(index),
                "early": 1 / (index + 1),
                "events": log1p(len(rows)),
                "tokens": log1p(max(sum(row["tokens"] or 0 for row in rows), 0)),
                "calls": "tool_call" in kinds,
                "spawns": "spawn" in kinds,
                "returns": "return" in kinds,
                "decisions": "orchestrator_decision" in kinds,
                "messages": "message" in kinds,
                "failed": failures[index],
                "repeated": any(
                    _says(events[at]) is not None
                    and _says(events[at]) in [_says(before) for before in events[:at]]
                    for at in places
                ),
                "new_tool": any(
                    events[at]["tool"] is not None
                    and events[at]["tool"] not in [before["tool"] for before in events[:at]]
                    for at in places
                ),
                "share": agents.count(agents[index]) / n,
                "new_speaker": agents[index] not in agents[:index],
                "same_speaker": index > 0 and agents[index] == agents[index - 1],
                "speakers": log1p(len(set(agents[: index + 1]))),
                "sent": log1p(sum(seqs.count(src) for src, _ in edges)),
                "received": log1p(sum(seqs.count(dst) for _, dst in edges)),
                "after_failure": index > 0 and failures[index - 1],
            }
        )
    return table
