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


class Texts(random.Random):
    """Texts of seeded words.

    Parameters
    ----------
    seed
        The same texts for the same seed.
    words
        The words of a text, where nothing else is asked.
    vocabulary
        How many words there are: with few, texts are compressed to nearly nothing.
    """

    def __init__(self, seed: int, *, words: int = 12, vocabulary: int = 8) -> None:
        super().__init__(seed)
        self._words = words
        self._vocabulary = ["open", "fix", "test", "file", "line", "é", "{x}", "done"]
        self._vocabulary += [f"w{number}" for number in range(8, vocabulary)]

    def text(self, words: int | None = None) -> str:
        """A text of so many words."""
        return " ".join(self.choices(self._vocabulary, k=words or self._words))


def _chat(rng: Texts, task: int) -> list[Record]:
    """A task, two calls of a tool, an answer."""
    messages: list[Record] = [
        {"role": "system", "content": "You repair code.", "tool_calls": None, "tool_call_id": None},
        {"role": "user", "content": f"Issue {task}", "tool_calls": None, "tool_call_id": None},
    ]
    for number in range(2):
        call = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": rng.text()})},
        }
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call], "tool_call_id": None},
            {
                "role": "tool",
                "content": rng.text(),
                "tool_calls": None,
                "tool_call_id": f"c{number}",
            },
        ]
    return [
        *messages,
        {"role": "assistant", "content": rng.text(), "tool_calls": None, "tool_call_id": None},
    ]


def open_swe_traces(rng: Texts, numbers: range) -> Replica:
    """`resolved` is -1 where the tests did not run; definitions of tools are texts."""
    resolved = {number: rng.choice((-1, 0, 1)) for number in numbers}
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
        for number in numbers
    ]
    table = pa.Table.from_pylist(records)
    at = table.column_names.index("resolved")
    table = table.set_column(at, "resolved", table["resolved"].cast(pa.int32()))
    rewards = [None if value < 0 else float(value) for value in resolved.values()]
    return Replica(table, rewards, [f"repo__{number // 4}" for number in numbers])


def swe_rebench_openhands(rng: Texts, numbers: range) -> Replica:
    """Several verdicts beside the one that counts."""
    resolved = {number: rng.choice((0, 1)) for number in numbers}
    records = [
        {
            "trajectory_id": f"chatcmpl-{number}",
            "instance_id": f"i-{number // 4}",
            "repo": "o/r",
            "trajectory": _chat(rng, number // 4),
            "tools": [{"type": "function", "function": {"name": "bash", "description": "d"}}],
            "model_patch": rng.text(),
            "exit_status": "submit",
            "resolved": resolved[number],
            "gen_tests_correct": rng.choice((None, 0, 1)),
            "pred_passes_gen_tests": rng.choice((None, 0, 1)),
        }
        for number in numbers
    ]
    return Replica(
        pa.Table.from_pylist(records),
        [float(value) for value in resolved.values()],
        [f"i-{number // 4}" for number in numbers],
    )


def swe_agent(rng: Texts, numbers: range) -> Replica:
    """Turns of `system`, `user` and `ai` whose texts are called `text`, and `target`."""
    target = {number: rng.random() < 0.5 for number in numbers}

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
                turn("ai", rng.text()),
                turn("user", rng.text()),
                turn("ai", rng.text()),
            ],
            "exit_status": "submitted",
            "generated_patch": rng.text(),
            "eval_logs": rng.text(80),
        }
        for number in numbers
    ]
    groups = [f"i-{number // 4}/swe-agent-{number % 2}" for number in numbers]
    return Replica(pa.Table.from_pylist(records), [float(value) for value in target.values()], groups)


def swe_smith(rng: Texts, numbers: range) -> Replica:
    """The messages are one JSON text, their contents lists of parts."""
    resolved = {number: rng.random() < 0.5 for number in numbers}

    def parts(message: Record) -> Record:
        return {**message, "content": [{"type": "text", "text": message["content"]}]}

    records = [
        {
            "messages": json.dumps([parts(message) for message in _chat(rng, number // 4)]),
            "instance_id": f"i-{number // 4}",
            "resolved": resolved[number],
            "model": "m-1",
            "traj_id": f"i-{number // 4}.{number}",
            "patch": rng.text(),
        }
        for number in numbers
    ]
    groups = [f"i-{number // 4}/m-1" for number in numbers]
    return Replica(pa.Table.from_pylist(records), [float(value) for value in resolved.values()], groups)


def coderforge(rng: Texts, numbers: range) -> Replica:
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
        for number in numbers
    ]
    groups = [f"Issue {number // 4}" for number in numbers]
    return Replica(pa.Table.from_pylist(records), [None] * len(numbers), groups)


def wild_trajectory(rng: Texts, numbers: range) -> Replica:
    """One ATIF document in a column of texts; `score_norm` is null where nobody scored the run."""
    scores = {number: rng.choice((None, 0.0, 0.25, 1.0)) for number in numbers}

    def document(number: int) -> str:
        call = {"tool_call_id": "c", "function_name": "bash", "arguments": {"command": rng.text()}}
        result = {"results": [{"source_call_id": "c", "content": rng.text()}]}
        steps = [
            {"step_id": 1, "source": "user", "message": f"Issue {number // 4}"},
            {"step_id": 2, "source": "agent", "message": "", "tool_calls": [call], "observation": result},
            {"step_id": 3, "source": "agent", "message": rng.text()},
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
        for number in numbers
    ]
    groups = [f"n-{number // 4}/m-1/h-{number % 2}" for number in numbers]
    return Replica(pa.Table.from_pylist(records), list(scores.values()), groups, records=3)


def open_thoughts(rng: Texts, numbers: range) -> Replica:
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
        for number in numbers
    ]
    groups = [f"t-{number // 4}/m-1/terminus-2" for number in numbers]
    return Replica(pa.Table.from_pylist(records), [None] * len(numbers), groups)


def agent_traj_l(rng: Texts, numbers: range) -> Replica:
    """Turns `from` and `value` of ShareGPT, and a reward on a scale of its own."""
    rewards = {number: rng.choice((0.0, 37.5, 100.0)) for number in numbers}
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
        for number in numbers
    ]
    groups = [f"Issue {number // 4}" for number in numbers]
    return Replica(pa.Table.from_pylist(records), list(rewards.values()), groups)


REPLICAS: dict[str, Callable[[Texts, range], Replica]] = {
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
"""Every replica, by its name: of texts, and of the numbers of its rows."""
