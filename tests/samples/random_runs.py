"""Small corpora of random recordings: groups, ties, cycles, lone agents, and any field absent."""

import json
import random
from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]

TYPES = {
    "orchestrator_decision": 3,
    "spawn": 2,
    "despawn": 1,
    "message": 4,
    "tool_call": 3,
    "tool_result": 3,
    "return": 2,
    "aggregate": 2,
    "human_intervention": 1,
    "safety_event": 1,
}
EDGES = ["temporal", "causal", "spawn", "message", "tool_dependency", "return", "aggregate", "safety_flow"]
AGENTS = ["lead", "ann", "bob", "user"]
REWARDS = [0.0, 1.0, 1.0, 0.5, -2.0, 0.1]
#: Every field that some method reads, and how it is filled.
FIELDS = {
    "turn": lambda r: r.randrange(3),
    "reward": lambda r: r.choice([0.0, 0.25, -1.0, 2.0]),
    "value": lambda r: r.choice([0.0, 0.3, 0.7, -1.5]),
    "state_key": lambda r: r.choice("stu"),
    "prefix_key": lambda r: r.choice("pq"),
    "content_hash": lambda r: r.choice("xyz"),
    "content_ref": lambda r: r.choice("xyz"),
    "args_hash": lambda r: r.choice("xy"),
    "action": lambda r: r.choice("ab"),
    "p_behavior": lambda r: r.choice([0.25, 0.5, 1.0]),
    "tokens_out": lambda r: r.choice([0, 3, 5]),
    "role": lambda r: r.choice(["worker", "worker", "worker", "critic", "critic", "scorer", "environment"]),
    "score": lambda r: r.choice([0.0, 0.5, 1.0]),
    "group_id": lambda r: r.choice(["g1", "g2"]),
}


def random_event(r: random.Random, n: int, filled: dict[str, float]) -> dict[str, Any]:
    kind = r.choices(list(TYPES), list(TYPES.values()))[0]
    event: dict[str, Any] = {
        "id": f"e{n}",
        "t": r.choice([n, n, r.randrange(8)]),
        "type": kind,
        "agent": r.choice(["search", *AGENTS]) if kind == "tool_result" else r.choice([*AGENTS[:3], *AGENTS]),
    }
    if r.random() < 0.6:
        event["to"] = r.choice(AGENTS)
    if kind.startswith("tool") and r.random() < 0.8:
        event["tool"] = r.choice(["search", "run"])
    for name, chance in filled.items():
        if r.random() < chance:
            event[name] = FIELDS[name](r)
    return event


def random_document(r: random.Random, trace: int, size: int, filled: dict[str, float]) -> Document:
    events = [random_event(r, n, filled) for n in range(size)]
    edges = []
    backward = r.random() < 0.15
    for _ in range(r.randrange(2 * size)):
        src, dst = r.randrange(size), r.randrange(size)
        if not backward:
            src, dst = min(src, dst), max(src, dst)
        if src != dst or (backward and r.random() < 0.2):
            edges.append({"src": f"e{src}", "dst": f"e{dst}", "type": r.choice(EDGES)})
    rewards = {"team": r.choice(REWARDS), "format": r.choice(REWARDS)}
    if trace and r.random() < 0.1:  # a channel that no trace has is a mistake of the caller
        del rewards[r.choice(["team", "format"])]
    document: Document = {
        "trace_id": f"trace{trace}",
        "task_id": r.choice(["task", "task", "other"]),
        "events": events,
        "edges": edges,
        "rewards": rewards,
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }
    if r.random() < 0.9:
        document["metrics"] = {"train_step": float(r.randrange(2))}
    if r.random() < 0.5:
        one_conversation(document)
    if r.random() < 0.1:
        events[0]["x_trace"] = {"partial": True}
    return document


def one_conversation(document: Document) -> None:
    """The human speaks to the lead alone, as in most recordings; else it is seldom known who answers."""
    ids = {event["id"] for event in document["events"] if is_human(event)}
    leads = {event["id"] for event in document["events"] if event["agent"] in ("lead", "user")}
    for event in document["events"]:
        if event["id"] in ids:
            event["to"] = "lead"
    edges = document["edges"]
    document["edges"] = [edge for edge in edges if edge["src"] not in ids or edge["dst"] in leads]


def is_human(event: dict[str, Any]) -> bool:
    return event["agent"] == "user" or event["type"] == "human_intervention"


@st.composite
def corpora(
    draw: st.DrawFn, *, full: tuple[str, ...] = (), max_traces: int = 6, max_events: int = 10
) -> list[Document]:
    """Documents whose fields are there in every event, in some or in none; those of `full` always are."""
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, max_events), min_size=1, max_size=max_traces))
    filled = {name: 1.0 if name in full else r.choice([0.0, 0.2, 0.6, 1.0]) for name in FIELDS}
    filled["group_id"] = r.choice([0.0, 0.0, 0.2])
    if "turn" not in full:
        filled["turn"] = r.choice([0.0, 0.0, 0.3, 1.0])
    documents = [random_document(r, n, size, filled) for n, size in enumerate(sizes)]
    if draw(st.booleans()):  # rollouts of one prompt that part ways late: contexts have siblings
        documents += [sibling(r, document, len(documents) + n) for n, document in enumerate(documents)]
    return documents


def sibling(r: random.Random, document: Document, trace: int) -> Document:
    """The same run with another end: other contents in its last events, and another reward."""
    copied: Document = json.loads(json.dumps(document))
    events = copied["events"]
    for event in events[r.randrange(len(events)) :]:
        for name in ("content_hash", "content_ref", "args_hash", "value", "reward"):
            if name in event:
                event[name] = FIELDS[name](r)
    rewards = {name: r.choice(REWARDS) for name in copied["rewards"]}
    return copied | {"trace_id": f"trace{trace}", "rewards": rewards}


def jsonl(documents: list[Document]) -> bytes:
    return b"".join(json.dumps(document).encode() + b"\n" for document in documents)
