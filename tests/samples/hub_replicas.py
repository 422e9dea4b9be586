"""Data sets as hubs hold them, by the columns, types and sentinels of their cards, with texts of our own."""

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

Record = dict[str, Any]


class Replica(NamedTuple):
    """A table, and what a reader has to find in it."""

    table: pa.Table
    rewards: list[float | None]
    """The outcome of each row; None where nobody knows it."""
    groups: list[str]
    """What is compared, a name for each row."""
    records: int = 1
    """How many records of its format a row is."""


_WORDS = ("open", "fix", "test", "file", "line", "é", "{x}", "done")


def _texts(rng: random.Random, words: int = 12) -> str:
    return " ".join(
        rng.choice(("open", "fix", "test", "file", "line", "é", "{x}", "done")) for _ in range(words)
    )


def _chat(rng: random.Random, task: int) -> list[Record]:
    """A task, two calls of a tool, an answer."""
    messages: list[Record] = [
        {"role": "system", "content": "You repair code.", "tool_calls": None, "tool_call_id": None},
        {"role": "user", "content": f"Issue {task}", "tool_calls": None, "tool_call_id": None},
    ]
    for number in range(2):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": _texts(rng)})},
        }
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call], "tool_call_id": None},
            {
                "role": "tool",
                "content": _texts(rng),
                "tool_calls": None,
                "tool_call_id": f"c{number}",
            },
        ]
    return [
        *messages,
        {"role": "assistant", "content": _texts(rng), "tool_calls": None, "tool_call_id": None},
    ]


def open_swe_traces(rng: random.Random, rows: int) -> Replica:
    """`resolved` is -1 where the tests did not run; definitions of tools are texts."""
    resolved = [rng.choice((-1, 0, 1)) for _ in range(rows)]
    tool = json.dumps({"type": "function", "function": {"name": "bash"}})
    records = [
        {
            "instance_id": f"repo__{number // 4}",
            "repo": "o/r",
            "trajectory_id": f"t-{number}",
            "messages": _chat(rng, number // 4),
            "tools": [tool],
            "resolved": resolved[number],
            "metadata": {"teacher_model": "m-1", "turns": 3},
        }
        for number in range(rows)
    ]
    table = pa.Table.from_pylist(records)
    at = table.column_names.index("resolved")
    table = table.set_column(at, "resolved", table["resolved"].cast(pa.int32()))
    rewards = [None if value < 0 else float(value) for value in resolved]
    return Replica(table, rewards, [f"repo__{number // 4}" for number in range(rows)])


def swe_rebench_openhands(rng: random.Random, rows: int) -> Replica:
    """Several verdicts beside the one that counts."""
    resolved = [rng.choice((0, 1)) for _ in range(rows)]
    records = [
        {
            "trajectory_id": f"chatcmpl-{number}",
            "instance_id": f"i-{number // 4}",
            "repo": "o/r",
            "trajectory": _chat(rng, number // 4),
            "tools": [{"type": "function", "function": {"name": "bash", "description": "d"}}],
            "model_patch": _texts(rng),
            "exit_status": "submit",
            "resolved": resolved[number],
            "gen_tests_correct": rng.choice((None, 0, 1)),
            "pred_passes_gen_tests": rng.choice((None, 0, 1)),
        }
        for number in range(rows)
    ]
    return Replica(
        pa.Table.from_pylist(records),
        [float(value) for value in resolved],
        [f"i-{number // 4}" for number in range(rows)],
    )


def swe_agent(rng: random.Random, rows: int) -> Replica:
    """Turns of `system`, `user` and `ai` whose texts are called `text`, and `target`."""
    target = [rng.random() < 0.5 for _ in range(rows)]

    def turn(role: str, text: str | None, system: str | None = None) -> Record:
        return {
            "cutoff_date": "01.01.2023",
            "mask": False,
            "role": role,
            "system_prompt": system,
            "text": text,
        }

    records = [
        {
            "instance_id": f"i-{number // 4}",
            "model_name": f"swe-agent-{number % 2}",
            "target": target[number],
            "trajectory": [
                turn("system", None, "You repair code."),
                turn("user", f"Issue {number // 4}"),
                turn("ai", _texts(rng)),
                turn("user", _texts(rng)),
                turn("ai", _texts(rng)),
            ],
            "exit_status": "submitted",
            "generated_patch": _texts(rng),
            "eval_logs": _texts(rng, 80),
        }
        for number in range(rows)
    ]
    groups = [f"i-{number // 4}/swe-agent-{number % 2}" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), [float(value) for value in target], groups)


def swe_smith(rng: random.Random, rows: int) -> Replica:
    """The messages are one JSON text, their contents lists of parts."""
    resolved = [rng.random() < 0.5 for _ in range(rows)]

    def parts(message: Record) -> Record:
        return {**message, "content": [{"type": "text", "text": message["content"]}]}

    records = [
        {
            "messages": json.dumps([parts(message) for message in _chat(rng, number // 4)]),
            "instance_id": f"i-{number // 4}",
            "resolved": resolved[number],
            "model": "m-1",
            "traj_id": f"i-{number // 4}.{number}",
            "patch": _texts(rng),
        }
        for number in range(rows)
    ]
    groups = [f"i-{number // 4}/m-1" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), [float(value) for value in resolved], groups)


def coderforge(rng: random.Random, rows: int) -> Replica:
    """Messages and tools as texts; no outcome."""
    records = [
        {
            "trajectory_id": f"t-{number}",
            "finish_reason": "stop",
            "image": f"registry/{number // 4}",
            "messages": json.dumps(_chat(rng, number // 4)),
            "tools": json.dumps([{"type": "function", "function": {"name": "bash"}}]),
            "license": "mit",
        }
        for number in range(rows)
    ]
    groups = [f"Issue {number // 4}" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), [None] * rows, groups)


def wild_trajectory(rng: random.Random, rows: int) -> Replica:
    """One ATIF document in a column of texts; `score_norm` is null where nobody scored the run."""
    scores = [rng.choice((None, 0.0, 0.25, 1.0)) for _ in range(rows)]

    def document(number: int) -> str:
        call = {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": _texts(rng)}}
        result = {"results": [{"source_call_id": "c", "content": _texts(rng)}]}
        steps = [
            {"step_id": 1, "source": "user", "message": f"Issue {number // 4}"},
            {"step_id": 2, "source": "agent", "message": "", "tool_calls": [call], "observation": result},
            {"step_id": 3, "source": "agent", "message": _texts(rng)},
        ]
        agent = {"name": "worker", "version": "1", "model_name": "m-1"}
        return json.dumps(
            {"schema_version": "ATIF-v1.8", "session_id": f"s-{number}", "agent": agent, "steps": steps}
        )

    records = [
        {
            "trajectory_id": f"w-{number}",
            "source": "public",
            "benchmark": "bench",
            "task_type": "code",
            "native_task_id": f"n-{number // 4}",
            "model": "m-1",
            "model_raw": "vendor/m-1",
            "harness": f"h-{number % 2}",
            "harness_version": "2",
            "instruction": f"Issue {number // 4} " + "x" * 400,
            "score_norm": scores[number],
            "trajectory": document(number),
        }
        for number in range(rows)
    ]
    groups = [f"n-{number // 4}/m-1/h-{number % 2}" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), list(scores), groups, records=3)


def open_thoughts(rng: random.Random, rows: int) -> Replica:
    """`conversations` of role and content, what a run was, and no outcome."""
    records = [
        {
            "conversations": [
                {"role": message["role"], "content": message["content"]}
                for message in _chat(rng, number // 4)
                if message["role"] in ("user", "assistant")
            ],
            "agent": "terminus-2",
            "model": "m-1",
            "model_provider": "vendor",
            "date": "2026-01-01",
            "task_id": f"t-{number // 4}",
            "run_id": f"r-{number}",
        }
        for number in range(rows)
    ]
    groups = [f"t-{number // 4}/m-1/terminus-2" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), [None] * rows, groups)


def agent_traj_l(rng: random.Random, rows: int) -> Replica:
    """Turns `from` and `value` of ShareGPT, and a reward on a scale of its own."""
    rewards = [rng.choice((0.0, 37.5, 100.0)) for _ in range(rows)]
    names = {"user": "human", "assistant": "gpt", "tool": "human"}
    records = [
        {
            "id": f"web_{number}",
            "conversations": [
                {"from": names[message["role"]], "loss": None, "value": message["content"]}
                for message in _chat(rng, number // 4)
                if message["role"] in names
            ],
            "reward": rewards[number],
        }
        for number in range(rows)
    ]
    groups = [f"Issue {number // 4}" for number in range(rows)]
    return Replica(pa.Table.from_pylist(records), list(rewards), groups)


REPLICAS: dict[str, Callable[[random.Random, int], Replica]] = {
    made.__name__: made
    for made in (
        open_swe_traces,
        swe_rebench_openhands,
        swe_agent,
        swe_smith,
        coderforge,
        wild_trajectory,
        open_thoughts,
        agent_traj_l,
    )
}
"""Every replica, by its name: of a generator and a number of rows."""
