"""Published recordings as native traces, for tests and benches: what happened, with hashes in place of texts.

What is converted here are fixtures, beside the importers of the same formats: of a format only what credit
reads is taken, and one agent speaks to one user, who is no agent whoever plays it. Times are ordinal, and an
unknown outcome is no reward. Other corpora are read by their importers.
"""

import gzip
import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

Document = dict[str, Any]
Message = dict[str, Any]
"""``role`` (user, assistant, tool), ``text``, ``calls`` as (id, tool, arguments), ``answers``, ``tool``."""

SCORES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""What the letters of an Inspect score stand for: correct, incorrect, partly, no answer."""


def digest(value: Any) -> str:
    """The hash of a text, or of JSON without regard to the order of keys."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def document(
    trace_id: str, task_id: str, group_id: str, messages: list[Message], **rewards: float
) -> Document:
    """One conversation as a native trace."""
    events: list[Document] = []
    edges: list[tuple[int, int, str]] = []
    waiting: dict[str, list[tuple[int, str]]] = {"agent": [], "user": []}
    calls: dict[str, int] = {}
    last_word = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)

    def add(t: int, kind: str, agent: str, **fields: Any) -> int:
        seq = len(events)
        own = {"id": f"e{seq}", "t": t, "type": kind, "agent": agent, "group_id": group_id, **fields}
        events.append(own)
        if agent in waiting:
            edges.extend((src, seq, name) for src, name in waiting[agent])
            waiting[agent] = [(seq, "temporal")]
        return seq

    for t, message in enumerate(messages):
        text, role = message.get("text") or "", message["role"]
        if role == "tool":
            seq = add(t, "tool_result", message["tool"], tool=message["tool"], content_hash=digest(text))
            asked = calls.get(message["answers"])
            edges += [(asked, seq, "return")] if asked is not None else []
            waiting["agent"].append((seq, "causal"))
            continue
        speaker, hearer = ("user", "agent") if role == "user" else ("agent", "user")
        for call, tool, arguments in message.get("calls", ()):
            calls[call] = add(t, "tool_call", speaker, tool=tool, args_hash=digest(arguments))
        if text or not message.get("calls"):
            kind = "return" if t == last_word else "message"
            heard = {"from": speaker, "to": hearer, "content_hash": digest(text)}
            waiting[hearer].append((add(t, kind, speaker, **heard), "message"))
    return {
        "trace_id": trace_id,
        "task_id": task_id,
        "system": "recordings",
        "topology": "centralized",
        "events": events,
        "edges": [{"src": f"e{src}", "dst": f"e{dst}", "type": kind} for src, dst, kind in edges],
        "rewards": rewards,
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def text_of(content: Any) -> str:
    """The text of a message whose content is text, nothing, or a list of blocks."""
    return content if isinstance(content, str) else json.dumps(content) if content else ""


def tau_bench(path: Path) -> Iterator[Document]:
    """Trajectories of tau-bench: a group is a task, the reward the benchmark's verdict."""
    for run in json.loads(gzip.decompress(path.read_bytes())):
        messages = [
            {
                "role": message["role"],
                "text": message.get("content"),
                "calls": [
                    (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
                    for call in message.get("tool_calls") or ()
                ],
                "answers": message.get("tool_call_id"),
                "tool": message.get("name"),
            }
            for message in run["traj"]
            if message["role"] != "system"
        ]
        task = str(run["task_id"])
        yield document(f"{task}/{run.get('trial', 0)}", task, task, messages, team=run["reward"])


def swe_agent(path: Path) -> Iterator[Document]:
    """Demonstrations of SWE-agent. That one was `submitted` is no verdict, so it is a channel of its own."""
    for file in sorted(path.rglob("*.traj.gz")):
        run = json.loads(gzip.decompress(file.read_bytes()))
        said = run["history"]
        steps = run.get("trajectory") or [
            said[n] | {"observation": text_of(said[n + 1]["content"]) if n + 1 < len(said) else ""}
            for n in range(len(said))
            if said[n]["role"] == "assistant"
        ]
        messages: list[Message] = []
        for n, step in enumerate(steps):
            tool = (step["action"].split() or ["none"])[0]
            call = (str(n), tool, step["action"])
            messages.append({"role": "assistant", "text": step["thought"], "calls": [call]})
            messages.append({"role": "tool", "text": step["observation"], "answers": str(n), "tool": tool})
        name = file.relative_to(path).as_posix()
        task = file.name.removesuffix(".traj.gz")
        status = run.get("info", {}).get("exit_status")
        yield document(
            name, task, task, messages, **({"submitted": float(status == "submitted")} if status else {})
        )


def inspect_ai(path: Path) -> Iterator[Document]:
    """Samples of Inspect logs: a group is a sample with its epochs, the reward the first score."""
    for file in sorted(path.rglob("*")):
        if file.suffix == ".eval":
            with zipfile.ZipFile(file) as log:
                names = sorted(name for name in log.namelist() if name.startswith("samples/"))
                samples = [json.loads(log.read(name)) for name in names]
        elif file.suffix == ".json":
            samples = json.loads(file.read_bytes()).get("samples") or []
        else:
            continue
        for sample in samples:
            task = f"{file.name}/{sample['id']}"
            marks = [score["value"] for score in (sample.get("scores") or {}).values()]
            known = [SCORES.get(mark) if isinstance(mark, str) else mark for mark in marks]
            reward = {"team": float(known[0])} if known and isinstance(known[0], int | float) else {}
            messages = [
                {
                    "role": message["role"],
                    "text": text_of(message["content"]),
                    "calls": [
                        (call["id"], call["function"], call["arguments"])
                        for call in message.get("tool_calls") or ()
                    ],
                    "answers": message.get("tool_call_id"),
                    "tool": message.get("function") or "tool",
                }
                for message in sample["messages"]
                if message["role"] != "system"
            ]
            yield document(f"{task}/{sample['epoch']}", task, task, messages, **reward)


def corpus_of(documents: Iterator[Document]) -> ot.Corpus:
    """The traces, read as any other file would be."""
    lines = b"\n".join(json.dumps(each).encode() for each in documents)
    return ot.read_traces(io.BytesIO(lines), format="native")


def who_and_when(path: Path) -> ot.Corpus:
    """One subset or the folder of both; beside the reward 0 of all runs a channel `failed` that is 1."""
    corpus = ot.read_traces(sorted(path.glob("*.jsonl.gz")) if path.is_dir() else path)
    return corpus.with_measures(corpus.traces.select("trace_id").collect().with_columns(failed=pl.lit(1.0)))


CORPORA: dict[str, Callable[[Path], ot.Corpus]] = {
    "survey-artifact": lambda root: ot.read_traces(root / "survey-artifact/example_trace.json"),
    "who-and-when": lambda root: who_and_when(root / "who-and-when"),
    "tau-bench": lambda root: corpus_of(tau_bench(root / "tau-bench/gpt-4o-airline.json.gz")),
    "agentrx": lambda root: ot.read_traces(root / "agentrx/tau_retail_failed.json.gz"),
    "agentdojo": lambda root: ot.read_traces(root / "agentdojo/runs.tar.zst"),
    "swe-agent": lambda root: corpus_of(swe_agent(root / "swe-agent")),
    "inspect-ai": lambda root: corpus_of(inspect_ai(root / "inspect-ai/logs")),
}
"""How each corpus is read from the folder of all corpora.

The scores in TRAIL and Langfuse are opinions of raters, not outcomes; the other corpora have none at all.
"""

CHANNELS = {"who-and-when": "failed", "swe-agent": "submitted"}
"""The reward to ask for where it is not `team`: all runs of Who&When failed, none of SWE-agent was judged."""
