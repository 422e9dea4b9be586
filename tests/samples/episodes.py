"""Episodes of verifiers, as its package writes them, with as much as tests need."""

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def answer(text: str, tokens: int | None, **more: Any) -> Record:
    """A message that a model sampled: one token of scaffold, then its own."""
    streams: Record = {}
    if tokens is not None:
        streams = {"token_ids": list(range(tokens + 1)), "mask": [False] + [True] * tokens}
        streams["logprobs"] = [-0.5] * tokens
    return {"message": {"role": "assistant", "content": text}, "sampled": True, **streams, **more}


def agent(id: str, name: str, nodes: list[Record], **more: Any) -> Record:
    rewards = {"payoff": {"score": more.pop("payoff", 0.0), "weight": 1.0}}
    return {
        "version": 1,
        "id": id,
        "task": {"type": "T", "key": "k"},
        "agent": {"name": name, "config": {"model": "m"}, **more},
        "nodes": [{**node, "parent": index - 1} if index else node for index, node in enumerate(nodes)],
        "calls": [],
        "rewards": rewards,
        "is_completed": True,
        "ok": True,
        "timing": {"start": 1.0},
    }


def episode(id: str, traces: list[Record], group: str = "g") -> Record:
    return {
        "id": id,
        "env": {"id": "game"},
        "task": {"type": "T", "key": "k"},
        "group": {"id": group},
        "ok": True,
        "traces": traces,
    }


def asked(*nodes: Record) -> list[Record]:
    return [{"message": {"role": "user", "content": "q"}, "sampled": False, "token_ids": [1]}, *nodes]


def lines(records: list[Record], **style: Any) -> bytes:
    return "".join(json.dumps(record, **style) + "\n" for record in records).encode()


@cache
def episodes_file() -> Path:
    """A file of groups of four whose answers all have masks."""
    records = [
        episode(
            f"e{n}",
            [
                agent(f"{n}a", "first", asked(answer(f"x{n}", 3), answer("y", 2)), payoff=n % 3 - 1.0),
                agent(f"{n}b", "second", asked(answer(f"z{n}", 1)), payoff=1.0 - n % 3),
            ],
            group=f"g{n // 4}",
        )
        for n in range(12)
    ]
    path = Path(tempfile.mkdtemp()) / "traces.jsonl"
    path.write_bytes(lines(records))
    return path
