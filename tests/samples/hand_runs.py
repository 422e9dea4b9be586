"""Recordings written by hand for one case, and what the engine says of them."""

import io
from typing import Any

import orchestrace as ot
from samples.random_runs import Document, jsonl

#: Methods that divide the value of a game, which they scale to the reward where they are asked to.
GAMES = {
    row["name"]: {one["name"] for one in row["params"]}
    for row in ot.list_methods().iter_rows(named=True)
    if "scaled" in {one["name"] for one in row["params"]}
}

Credits = dict[tuple[int, str | None], tuple[float | None, str | None]]


def event(n: int, agent: str = "lead", type: str = "message", **fields: Any) -> dict[str, Any]:
    return {"id": f"e{n}", "t": n, "type": type, "agent": agent, **fields}


def run(
    trace: int,
    reward: float | None,
    events: list[dict[str, Any]] | None = None,
    edges: list[tuple[int, int]] | None = None,
    *,
    task: str = "task",
    edge_type: str = "causal",
    **more: Any,
) -> Document:
    """A trace; `edges` are pairs of event numbers."""
    return {
        "trace_id": f"trace{trace}",
        "task_id": task,
        "events": [event(0)] if events is None else events,
        "edges": [{"src": f"e{src}", "dst": f"e{dst}", "type": edge_type} for src, dst in edges or []],
        "rewards": {} if reward is None else {"team": reward},
        "costs": {"tokens": 0, "wall_clock_s": 0},
        **more,
    }


def turns(*owners: str, **fields: list[Any]) -> list[dict[str, Any]]:
    """One event a turn; a field is listed turn by turn."""
    counts: dict[str, int] = {}
    events = []
    for n, owner in enumerate(owners):
        counts[owner] = counts.get(owner, -1) + 1
        own = {name: values[n] for name, values in fields.items() if values[n] is not None}
        events.append(event(n, owner, turn=counts[owner], **own))
    return events


def read(documents: list[Document]) -> ot.Corpus:
    corpus = ot.read_traces(io.BytesIO(jsonl(documents)), format="native")
    assert corpus.records["used"] == len(documents)
    return corpus


def credited(
    documents: list[Document] | ot.Corpus,
    method: str,
    unit: str = "team",
    reward: str | dict[str, float] = "team",
    **params: Any,
) -> Credits:
    """Credit and reason of every unit of every trace; games are scaled to the reward, as all others are."""
    if method in GAMES:
        params.setdefault("scaled", True)
    corpus = documents if isinstance(documents, ot.Corpus) else read(documents)
    frame = ot.credit(corpus, method=method, unit=unit, reward=reward, **params)  # type: ignore[call-overload]
    rows = frame.select("trace", "unit_id", "credit", "reason").rows()
    found = {(trace, name): (credit, reason) for trace, name, credit, reason in rows}
    assert len(found) == frame.height, "every unit once"
    return found


def values(documents: list[Document], method: str, unit: str = "team", **params: Any) -> list[float | None]:
    """Credits alone, in the order of traces and units, without what belongs to no unit."""
    found = credited(documents, method, unit, **params)
    return [credit for (_, name), (credit, _) in found.items() if name is not None]


def group(rewards: list[float], task: str = "task", first: int = 0) -> list[Document]:
    """Rollouts of one task, one event each."""
    return [run(first + n, reward, task=task) for n, reward in enumerate(rewards)]
