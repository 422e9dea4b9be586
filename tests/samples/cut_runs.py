"""Recordings cut behind each of their decisions, as if the run had just come to it."""

import io
import json
from typing import Any

import polars as pl

import orchestrace as ot
from samples.random_runs import Document

KNOWN = ("actor", "action", "p_behavior")
"""What is known with a decision, beside its state."""


def documents_of(corpus: ot.Corpus) -> list[Document]:
    sink = io.BytesIO()
    corpus.write_jsonl(sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


def cut_behind(document: Document, seq: int, name: str) -> tuple[Document, int]:
    """The events up to one in canonical order, under another id, and the place of this one among them."""
    events = document["events"]
    order = sorted(range(len(events)), key=lambda v: (events[v]["t"], v))
    kept = sorted(order[: order.index(seq) + 1])
    ids = {events[v]["id"] for v in kept}
    edges = [edge for edge in document["edges"] if edge["src"] in ids and edge["dst"] in ids]
    cut = document | {"trace_id": name, "events": [events[v] for v in kept], "edges": edges}
    return cut, kept.index(seq)


def known_behind_the_cut(
    corpus: ot.Corpus, kind: Any, time_basis: Any = None, **options: Any
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Decisions as the whole runs have them, and as runs have them that end with the decision; in one order.

    State columns and, where the decision itself says it, the action. What times mean may be concluded from
    the whole of a trace, so that it is given (`time_basis`) or recorded.
    """
    whole = ot.decisions.table(corpus, kind, **options)
    documents = documents_of(corpus)
    number = {trace: n for n, trace in enumerate(corpus.traces.select("trace").collect()["trace"])}
    lines, wanted = [], []
    for n, (trace, seq) in enumerate(whole.select("trace", "seq").rows()):
        cut, place = cut_behind(documents[number[trace]], seq, f"cut {n:06}")
        lines.append(json.dumps(cut))
        wanted.append({"trace_id": f"cut {n:06}", "seq": place})
    cuts = ot.read_traces(io.BytesIO("\n".join(lines).encode()), format="native", time_basis=time_basis)
    found = ot.decisions.table(cuts, kind, **options)
    rows = pl.DataFrame(wanted, schema={"trace_id": pl.String, "seq": pl.UInt32}).join(
        found, on=["trace_id", "seq"], how="left", maintain_order="left"
    )
    # Whether a spawn or another epoch follows is the action itself, which a cut takes away.
    told = [name for name in KNOWN if kind not in ("spawn", "stop") or name == "actor"]
    columns = [name for name in whole.columns if name.startswith("x_")] + told
    return whole.select(columns), rows.select(columns)
