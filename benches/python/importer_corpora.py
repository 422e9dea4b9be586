"""Recordings in foreign formats, of any size: the same bytes for the same size and seed.

`write_otlp`: JSON lines as the collector's file exporter writes them. A line is a batch of spans in the
order in which they ended, of several runs at once; a run is a lead that asks models, uses tools and has
other agents work as tools, all of it below and above HTTP spans. Each model span repeats its
conversation so far.

`write_sessions`: a folder as Claude Code leaves it. A session is a file of its main stream and one for
each of its sub-agents; a response is a line for each of its blocks, which repeat its usage; most results
are there twice, for the model and for the program; lines without meaning to an importer lie between.

`write_pi`: a folder of sessions as Pi leaves them, each a question, calls of tools and an answer.

`write_conversations`: JSON lines as data sets of conversations have them, with the same in each row.

Texts are of 200 to 2000 characters.
"""

import random
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

MODELS = ("atlas-large-2", "atlas-small-2", "quill-4")
TOOLS = ("search", "fetch_page", "run_query", "read_file", "python")
WORKERS = ("researcher", "analyst", "reviewer", "writer")
BATCH = 48
AT_ONCE = 8

WORDS = """
the of and to in a is that for it as was with be by on not he this are or his from at which but have
an had they you were their one all we can her has there been if more when will would who so no out
up into than them agent result query table column value error return function class import path file
line test report number harbour tide wind schedule invoice customer region quarter revenue — naïve
café 東京 größer “quoted” {key: [1]}
"""


class Prose:
    """Texts cut from one long one, so that making them costs little."""

    def __init__(self, rng: random.Random) -> None:
        parts, words = [], WORDS.split()
        for _ in range(200_000):
            parts.append(rng.choice(words))
            parts.append(rng.choices((" ", ", ", ". ", ".\n\n", '" "', "\n\t"), (80, 8, 6, 3, 2, 1))[0])
        self.whole, self.rng = "".join(parts), rng

    def __call__(self, low: int = 200, high: int = 2000) -> str:
        length = self.rng.randint(low, high)
        start = self.rng.randrange(len(self.whole) - length)
        return self.whole[start : start + length]


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    typed = {str: "stringValue", int: "intValue"}
    return [{"key": key, "value": {typed[type(value)]: str(value)}} for key, value in values.items()]


class Run:
    """The spans of one run."""

    def __init__(self, rng: random.Random, prose: Prose, begin: int) -> None:
        self.rng, self.prose, self.spans = rng, prose, list[dict[str, Any]]()
        self.trace = f"{rng.getrandbits(128):032x}"
        root = self._id()
        end, _ = self._agent(root, "lead", 0, prose(), begin + self._wait(5))
        route = {"http.request.method": "POST", "url.path": "/runs", "http.response.status_code": 200}
        self._span(root, None, "POST /runs", 2, (begin, end + self._wait(5)), route)

    def _id(self) -> str:
        return f"{self.rng.getrandbits(64):016x}"

    def _wait(self, milliseconds: int) -> int:
        return self.rng.randint(200_000, milliseconds * 1_000_000)

    def _span(
        self,
        span_id: str,
        parent: str | None,
        name: str,
        kind: int,
        time: tuple[int, int],
        attributes: Mapping[str, Any],
    ) -> None:
        failed = "error.type" in attributes
        span: dict[str, Any] = {"traceId": self.trace, "spanId": span_id, "parentSpanId": parent or ""}
        span |= {"flags": 257, "name": name, "kind": kind}
        span |= {"startTimeUnixNano": str(time[0]), "endTimeUnixNano": str(time[1])}
        span |= {"attributes": _attributes(attributes), "status": {"code": 2} if failed else {}}
        self.spans.append(span)

    def _agent(self, parent: str, name: str, depth: int, question: str, begin: int) -> tuple[int, str]:
        """When it has answered, and what."""
        rng, prose, own, now = self.rng, self.prose, self._id(), begin
        told: list[dict[str, Any]] = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
        rounds = rng.randint(2, 5 - depth)
        for turn in range(rounds + 1):
            last = turn == rounds
            parts: list[dict[str, Any]] = []
            if last or rng.random() < 0.5:
                parts.append({"type": "text", "content": prose()})
            for _ in range(0 if last else rng.choice((1, 1, 2, 3))):
                delegates = depth < 2 and rng.random() < 0.25 / (depth + 1)
                tool = rng.choice(WORKERS if delegates else TOOLS)
                query = {"query": prose(200, 400), "limit": rng.randint(1, 50)}
                call = {"type": "tool_call", "id": f"call_{self._id()}", "name": tool, "arguments": query}
                parts.append(call)
            now = self._chat(own, told, parts, now + self._wait(20))
            told.append({"role": "assistant", "parts": parts})
            calls = [part for part in parts if part["type"] == "tool_call"]
            done = [self._tool(own, call, depth, now + self._wait(9)) for call in calls]
            for call, (ended, response) in zip(calls, done, strict=True):
                answer = {"type": "tool_call_response", "id": call["id"], "response": response}
                told.append({"role": "tool", "parts": [answer]})
                now = max(now, ended)
        now += self._wait(9)
        who = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": name,
            "gen_ai.agent.id": f"{own}-a",
        }
        self._span(own, parent, f"invoke_agent {name}", 1, (begin, now), who)
        return now, told[-1]["parts"][0]["content"]

    def _chat(self, parent: str, told: list[Any], parts: list[Any], begin: int) -> int:
        own, model, end = self._id(), self.rng.choice(MODELS), begin + self._wait(20_000)
        given, asked = orjson.dumps(told).decode(), len(parts) > 1 or parts[0]["type"] == "tool_call"
        answer = [{"role": "assistant", "parts": parts, "finish_reason": "tool_call" if asked else "stop"}]
        post: dict[str, Any] = {
            "http.request.method": "POST",
            "server.address": "models.example",
            "url.path": "/v1/chat",
        }
        post |= {"http.response.status_code": 200}
        self._span(self._id(), own, "POST", 3, (begin + self._wait(2), end - self._wait(2) // 20), post)
        facts: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "atlas"}
        facts |= {"gen_ai.request.model": model, "gen_ai.response.model": f"{model}-0425"}
        facts |= {"gen_ai.usage.input_tokens": len(given) // 4, "gen_ai.response.id": f"resp_{own}"}
        facts |= {"gen_ai.usage.output_tokens": len(orjson.dumps(parts)) // 4}
        facts |= {"gen_ai.usage.cache_read.input_tokens": len(given) // 8}
        facts |= {"gen_ai.input.messages": given, "gen_ai.output.messages": orjson.dumps(answer).decode()}
        self._span(own, parent, f"chat {model}", 3, (begin, end), facts)
        return end

    def _tool(self, parent: str, call: dict[str, Any], depth: int, begin: int) -> tuple[int, str]:
        own, tool = self._id(), call["name"]
        facts: dict[str, Any] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        facts |= {"gen_ai.tool.call.id": call["id"], "gen_ai.tool.type": "function"}
        facts |= {"gen_ai.tool.call.arguments": orjson.dumps(call["arguments"]).decode()}
        if tool in WORKERS:
            question = call["arguments"]["query"]
            end, response = self._agent(own, tool, depth + 1, question, begin + self._wait(9))
            end += self._wait(9)
        else:
            end, response = begin + self._wait(4000), self.prose()
            if self.rng.random() < 0.05:
                facts["error.type"] = "timeout"
            inner = {"http.request.method": "GET", "url.full": "https://tools.example/x"}
            self._span(self._id(), own, "GET", 3, (begin + 50_000, end - 50_000), inner)
        facts["gen_ai.tool.call.result"] = response
        self._span(own, parent, f"execute_tool {tool}", 1, (begin, end), facts)
        return end, response


def _export(service: str, spans: list[dict[str, Any]]) -> bytes:
    noise = [span for span in spans if span["name"] in {"POST", "GET", "POST /runs"}]
    agents = [span for span in spans if span["name"] not in {"POST", "GET", "POST /runs"}]
    scopes = [
        {"scope": {"name": name, "version": "0.52b1"}, "spans": some}
        for name, some in (("opentelemetry.instrumentation.httpx", noise), ("agents.tracing", agents))
        if some
    ]
    resource = {"attributes": _attributes({"service.name": service, "telemetry.sdk.language": "python"})}
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}) + b"\n"


def write_otlp(path: Path, megabytes: int, seed: int = 1) -> None:
    """Writes at least so many megabytes; the last runs are whole."""
    rng = random.Random(seed)
    prose, written, now = Prose(rng), 0, 1_800_000_000_000_000_000
    with path.open("wb") as out:
        while written < megabytes * 1_000_000:
            runs = [Run(rng, prose, now + rng.randint(0, 10**9)) for _ in range(AT_ONCE)]
            spans = sorted(
                (span for run in runs for span in run.spans), key=lambda s: int(s["endTimeUnixNano"])
            )
            for start in range(0, len(spans), BATCH):
                written += out.write(_export("desk", spans[start : start + BATCH]))
            now = int(spans[-1]["endTimeUnixNano"])


class Session:
    """The files of one session, by path in its folder."""

    def __init__(self, rng: random.Random, prose: Prose, began: datetime) -> None:
        self.rng, self.prose = rng, prose
        self.id = self._uuid()
        self.files: dict[str, list[bytes]] = {}
        now, parent = began, None
        for _ in range(rng.randint(1, 3)):
            main = (f"{self.id}.jsonl", None)
            snapshot = {"type": "file-history-snapshot", "messageId": self._uuid(), "snapshot": {"files": {}}}
            self._put(main[0], snapshot)
            now, parent, _, _ = self._work(main, prose(), now, parent, rng.randint(3, 10))
            now += timedelta(milliseconds=rng.randint(2_000, 90_000))

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def _put(self, path: str, line: dict[str, Any]) -> None:
        self.files.setdefault(path, []).append(orjson.dumps(line) + b"\n")

    def _line(
        self, stream: tuple[str, str | None], parent: str | None, now: datetime, line: dict[str, Any]
    ) -> str:
        path, agent = stream
        own = self._uuid()
        envelope: dict[str, Any] = {"parentUuid": parent, "isSidechain": agent is not None}
        envelope |= {"userType": "external", "cwd": "/home/dev/project", "sessionId": self.id}
        envelope |= {"version": "2.1.40", "gitBranch": "main"} | ({"agentId": agent} if agent else {})
        stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._put(path, envelope | line | {"uuid": own, "timestamp": stamp})
        return own

    def _work(
        self, stream: tuple[str, str | None], prompt: str, now: datetime, parent: str | None, rounds: int
    ) -> tuple[datetime, str, str, int]:
        """Time and id of the last line, the answer, and the tokens of the last response."""
        rng, prose = self.rng, self.prose
        asked = {"type": "user", "message": {"role": "user", "content": prompt}}
        at = self._line(stream, parent, now, asked)
        cached = 9_000
        for turn in range(rounds + 1):
            last = turn == rounds
            blocks: list[dict[str, Any]] = []
            if rng.random() < 0.3:
                blocks.append({"type": "thinking", "thinking": prose(), "signature": prose(200, 400)})
            text = prose()
            if last or rng.random() < 0.4:
                blocks.append({"type": "text", "text": text})
            blocks += [self._call(stream[1] is None) for _ in range(0 if last else rng.choice((1, 1, 2, 3)))]
            now, at, tokens = self._respond(stream, at, now, blocks, last, cached)
            cached += 1_500
            for call in blocks:
                if call["type"] == "tool_use":
                    now, at = self._result(stream, call, now, at)
        done = {"type": "system", "subtype": "turn_duration", "durationMs": 64_000, "isMeta": False}
        now += timedelta(milliseconds=3)
        return now, self._line(stream, at, now, done), text, tokens

    def _respond(
        self,
        stream: tuple[str, str | None],
        at: str,
        now: datetime,
        blocks: list[dict[str, Any]],
        last: bool,
        cached: int,
    ) -> tuple[datetime, str, int]:
        rng = self.rng
        message = {"id": f"msg_{rng.getrandbits(96):024x}", "type": "message", "role": "assistant"}
        message["model"] = MODELS[0 if stream[1] is None else 1]
        request, written = f"req_{rng.getrandbits(96):024x}", len(orjson.dumps(blocks)) // 4
        read = rng.randint(3, 900)
        for number, block in enumerate(blocks, 1):
            now += timedelta(milliseconds=rng.randint(300, 6_000))
            usage = {
                "input_tokens": read,
                "cache_creation_input_tokens": 1_500,
                "cache_read_input_tokens": cached,
            }
            usage["output_tokens"] = written if number == len(blocks) else 8
            said = {"content": [block], "stop_reason": "end_turn" if last else "tool_use", "usage": usage}
            line = {"type": "assistant", "requestId": request, "message": message | said}
            at = self._line(stream, at, now, line)
        return now, at, read + 1_500 + cached + written

    def _call(self, delegates: bool) -> dict[str, Any]:
        rng, prose = self.rng, self.prose
        tools: dict[str, dict[str, Any]] = {
            "Bash": {"command": prose(200, 400), "description": "Run it"},
            "Read": {"file_path": f"/home/dev/project/src/{rng.getrandbits(32):08x}.py"},
            "Grep": {"pattern": "def +main", "path": "src", "-n": True},
            "Edit": {"file_path": "src/a.py", "old_string": prose(200, 600), "new_string": prose(200, 600)},
            "TodoWrite": {
                "todos": [{"content": prose(200, 300), "status": "pending", "activeForm": "Doing"}]
            },
            "Agent": {"subagent_type": "Explore", "description": "Look it up", "prompt": prose()},
        }
        name = rng.choices(list(tools), (30, 30, 15, 10, 5, 15 if delegates else 0))[0]
        return {
            "type": "tool_use",
            "id": f"toolu_{rng.getrandbits(96):024x}",
            "name": name,
            "input": tools[name],
        }

    def _result(
        self, stream: tuple[str, str | None], call: dict[str, Any], now: datetime, at: str
    ) -> tuple[datetime, str]:
        rng, name = self.rng, call["name"]
        hook = {"type": "progress", "toolUseID": call["id"], "parentToolUseID": call["id"]}
        hook["data"] = {"type": "hook_progress", "hookName": f"PreToolUse:{name}", "command": "check"}
        at = self._line(stream, at, now + timedelta(milliseconds=1), hook)
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call["id"], "is_error": False}
        if name == "Agent":
            agent, began = f"a{rng.getrandbits(28):07x}", now
            path = f"{self.id}/subagents/agent-{agent}.jsonl"
            begin = now + timedelta(milliseconds=5)
            now, _, text, tokens = self._work(
                (path, agent), call["input"]["prompt"], begin, None, rng.randint(2, 8)
            )
            now += timedelta(milliseconds=20)
            took = int((now - began).total_seconds() * 1000) - 10
            result["content"] = [{"type": "text", "text": text}]
            kept: Any = {"status": "completed", "agentId": agent, "agentType": "Explore", "prompt": "…"}
            kept |= {"content": result["content"], "totalDurationMs": took, "totalTokens": tokens}
        else:
            now += timedelta(milliseconds=rng.randint(20, 3_000))
            result["content"] = self.prose()
            kept = {"stdout": result["content"], "stderr": "", "interrupted": False}
            if rng.random() < 0.06:
                result["is_error"], kept = True, f"Error: {result['content']}"
        line = {"type": "user", "message": {"role": "user", "content": [result]}, "toolUseResult": kept}
        return now, self._line(stream, at, now, line)


def _sessions(seed: int) -> Iterator[Session]:
    rng = random.Random(seed)
    prose, began = Prose(rng), datetime(2027, 1, 15, 8, tzinfo=UTC)
    while True:
        began += timedelta(minutes=rng.randint(5, 60))
        yield Session(rng, prose, began)


def write_sessions(folder: Path, megabytes: int, seed: int = 1) -> None:
    """Writes at least so many megabytes; the last session is whole."""
    written = 0
    for session in _sessions(seed):
        for name, lines in session.files.items():
            path = folder / "-home-dev-project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            written += path.write_bytes(b"".join(lines))
        if written >= megabytes * 1_000_000:
            return


def write_pi(folder: Path, megabytes: int, seed: int = 1) -> None:
    """Writes at least so many megabytes; the last session is whole."""
    rng = random.Random(seed)
    prose, now, written = Prose(rng), datetime(2027, 1, 15, 8, tzinfo=UTC), 0
    home = folder / "--home-dev-project--"
    home.mkdir(parents=True)
    while written < megabytes * 1_000_000:
        now += timedelta(minutes=rng.randint(5, 60))
        session = f"{rng.getrandbits(128):032x}"
        written += (home / f"{now:%Y-%m-%d}_{session}.jsonl").write_bytes(
            _pi_session(rng, prose, session, now)
        )


def _pi_session(rng: random.Random, prose: Prose, session: str, now: datetime) -> bytes:
    lines: list[bytes] = []
    parent: str | None = None

    def put(kind: str, **more: Any) -> None:
        nonlocal parent, now
        stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"type": kind, "id": f"{len(lines):08x}", "parentId": parent, "timestamp": stamp, **more}
        parent = entry["id"]
        lines.append(orjson.dumps(entry) + b"\n")
        now += timedelta(milliseconds=rng.randint(20, 3_000))

    def text() -> dict[str, str]:
        return {"type": "text", "text": prose()}

    stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    head = {"type": "session", "version": 3, "id": session, "timestamp": stamp, "cwd": "/home/dev/project"}
    lines.append(orjson.dumps(head) + b"\n")
    now += timedelta(milliseconds=5)
    put("model_change", provider="atlas", modelId=MODELS[0])
    put("message", message={"role": "user", "content": [text()], "timestamp": 0})
    rounds, cached = rng.randint(3, 10), 9_000
    for turn in range(rounds + 1):
        blocks: list[dict[str, Any]] = [{"type": "thinking", "thinking": prose()}]
        if turn == rounds or rng.random() < 0.5:
            blocks.append(text())
        calls = [
            {
                "type": "toolCall",
                "id": f"toolu_{rng.getrandbits(96):024x}",
                "name": rng.choice(TOOLS),
                "arguments": {"query": prose(200, 400), "limit": rng.randint(1, 50)},
            }
            for _ in range(0 if turn == rounds else rng.choice((1, 1, 2)))
        ]
        usage = {"input": rng.randint(3, 900), "output": rng.randint(50, 900)}
        usage |= {"cacheRead": cached, "cacheWrite": 1_500}
        began = now
        now += timedelta(milliseconds=rng.randint(300, 6_000))
        message = {"role": "assistant", "content": [*blocks, *calls], "provider": "atlas", "model": MODELS[0]}
        message |= {"usage": usage | {"totalTokens": sum(usage.values())}}
        message |= {"stopReason": "toolUse" if calls else "stop", "timestamp": int(began.timestamp() * 1000)}
        put("message", message=message)
        cached += 1_500
        for call in calls:
            result = {"role": "toolResult", "toolCallId": call["id"], "toolName": call["name"]}
            put("message", message=result | {"content": [text()], "isError": rng.random() < 0.06})
    return b"".join(lines)


def write_conversations(path: Path, megabytes: int, seed: int = 1) -> None:
    """Writes at least so many megabytes."""
    rng = random.Random(seed)
    prose, written, number = Prose(rng), 0, 0
    with path.open("wb") as out:
        while written < megabytes * 1_000_000:
            messages: list[dict[str, Any]] = [{"role": "system", "content": "You repair code."}]
            messages.append({"role": "user", "content": f"Task {number // 4}. {prose()}"})
            for _ in range(rng.randint(3, 10)):
                calls = [
                    {
                        "id": f"call_{rng.getrandbits(96):024x}",
                        "type": "function",
                        "function": {
                            "name": rng.choice(TOOLS),
                            "arguments": orjson.dumps({"query": prose(200, 400), "limit": 9}).decode(),
                        },
                    }
                    for _ in range(rng.choice((1, 1, 2)))
                ]
                said = prose() if rng.random() < 0.5 else ""
                messages.append({"role": "assistant", "content": said, "tool_calls": calls})
                messages += [
                    {"role": "tool", "tool_call_id": call["id"], "content": prose()} for call in calls
                ]
            messages.append({"role": "assistant", "content": prose()})
            row = {"instance_id": f"t{number // 4}", "trajectory_id": f"r{number}", "model": MODELS[0]}
            row |= {"messages": messages, "resolved": rng.choice((-1, 0, 1)), "seconds": number / 8}
            written += out.write(orjson.dumps(row) + b"\n")
            number += 1


WRITERS = {
    "otlp.jsonl": write_otlp,
    "sessions": write_sessions,
    "pi": write_pi,
    "conversations.jsonl": write_conversations,
}
"""By the name of what is written."""
