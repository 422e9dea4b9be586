"""An importer of spans in OTLP JSON and of Claude Code sessions, of orjson and plain Python.

What `read_traces` is compared with in `importer_peers`: a dict a line, a row an event, frames at the
end. It knows only what `importer_corpora` writes: one container, one dialect, no branches, no faults,
every id once.
"""

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import polars as pl

COLUMNS = (
    *("trace", "seq", "id", "t", "type", "agent", "role", "from", "to", "tool", "content_ref", "trusted"),
    *("duration_s", "tokens_in", "tokens_out", "model", "turn", "ok"),
)


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True, eq=False)
class Agent:
    """An agent, and what is known of it while events are written."""

    wanted: str
    role: str | None = None
    parent: "Agent | None" = None
    name: str | None = None
    last: int | None = None
    """Its last event."""
    spawn: int | None = None
    waiting: list[tuple[int, str]] = field(default_factory=list)
    """Edges that lead to its next event."""
    read: list[int] = field(default_factory=list)
    """Results that its next response reads."""
    untrusted: list[int] = field(default_factory=list)
    tainted: int | None = None
    returned: list["Agent"] = field(default_factory=list)
    """Children whose answers it has and has not put together."""
    answer: int = -1
    final: "Response | None" = None
    """Its last response with a text."""


@dataclass(slots=True, eq=False)
class Call:
    id: str
    tool: str
    content: str
    t: Any = None
    child: Agent | None = None
    seq: int = -1
    response: "Response | None" = None


@dataclass(slots=True, eq=False)
class Response:
    id: str
    t: Any
    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    duration_s: float | None = None
    ok: bool | None = None
    calls: list[Call] = field(default_factory=list)
    text: str | None = None
    """Hash of its text."""
    turn: int = 0
    asks: int | None = None
    """Its decision, if it makes others work."""


@dataclass(slots=True, eq=False)
class Result:
    call: Call
    content: str
    trusted: bool
    ok: bool | None
    duration_s: float | None


class Tables:
    """Rows of all traces."""

    def __init__(self) -> None:
        self.traces: list[tuple[Any, ...]] = []
        self.events: list[tuple[Any, ...]] = []
        self.edges: list[tuple[int, int, int, str]] = []
        self.measures: list[tuple[int, str, str, float]] = []

    def frames(self) -> tuple[pl.DataFrame, ...]:
        u32, name, number = pl.UInt32, pl.Categorical, pl.Int64
        text = dict.fromkeys(("id", "content_ref"), pl.String)
        flags = dict.fromkeys(("trusted", "ok"), pl.Boolean)
        known: dict[str, Any] = {
            "t": pl.Float64,
            "duration_s": pl.Float64,
            "tokens_in": number,
            "tokens_out": number,
        }
        known |= {"trace": u32, "seq": u32, "turn": u32, **text, **flags}
        events = {column: known.get(column, name) for column in COLUMNS}
        traces = {"trace": u32, "trace_id": pl.String, "n_events": u32, "n_edges": u32}
        edges = {"trace": u32, "src": u32, "dst": u32, "type": name}
        measures = {"trace": u32, "kind": name, "name": name, "value": pl.Float64}
        tables = (
            (self.traces, traces),
            (self.events, events),
            (self.edges, edges),
            (self.measures, measures),
        )
        return tuple(
            pl.DataFrame(dict(zip(schema, zip(*rows, strict=True), strict=True)), schema=schema)
            for rows, schema in tables
        )


class Trace:
    """Writes the events of one trace, in order of time."""

    def __init__(self, tables: Tables, trace_id: str) -> None:
        self.tables, self.id, self.number = tables, trace_id, len(tables.traces)
        self.seq = self.turn = 0
        self.names: Counter[str] = Counter()
        self.edges: list[tuple[int, int, int, str]] = []

    def name(self, agent: Agent) -> str:
        if agent.name is None:
            self.names[agent.wanted] += 1
            bearers = self.names[agent.wanted]
            agent.name = agent.wanted if bearers == 1 else f"{agent.wanted}#{bearers}"
        return agent.name

    def edge(self, src: int, dst: int, kind: str) -> None:
        self.edges.append((self.number, src, dst, kind))

    def event(self, event_id: str, t: float, kind: str, agent: str, role: str | None, *rest: Any) -> int:
        seq = self.seq
        self.tables.events.append((self.number, seq, event_id, t, kind, agent, role, *rest))
        self.seq = seq + 1
        return seq

    def act(
        self,
        agent: Agent,
        t: float,
        kind: str,
        event_id: str,
        response: Response,
        opening: bool,
        *,
        role: str | None = None,
        to: str | None = None,
        tool: str | None = None,
        content: str | None = None,
    ) -> int:
        """An event of an agent; the first of a response carries its usage and follows what was read."""
        name = self.name(agent)
        speaks = name if kind in ("message", "return") else None
        r = response
        usage = (r.duration_s, r.tokens_in, r.tokens_out, r.model) if opening else (None, None, None, None)
        ok = r.ok if opening else None
        rest = (speaks, to, tool, content, True, *usage, r.turn, ok)
        seq = self.event(event_id, t, kind, name, role or agent.role, *rest)
        if agent.last is not None:
            self.edge(agent.last, seq, "temporal")
        elif agent.spawn is not None:
            self.edge(agent.spawn, seq, "spawn")
        agent.last = seq
        for src, edge in agent.waiting:
            self.edge(src, seq, edge)
        agent.waiting.clear()
        if opening:
            for src in agent.read:
                self.edge(src, seq, "causal")
            for src in agent.untrusted:
                self.edge(src, seq, "safety_flow")
            if agent.tainted is not None:
                self.edge(agent.tainted, seq, "safety_flow")
            if agent.untrusted or agent.tainted is not None:
                agent.tainted = seq
            agent.read.clear()
            agent.untrusted.clear()
        return seq

    def respond(self, agent: Agent, t: float, response: Response) -> None:
        response.turn = self.turn
        self.turn += 1
        opening = True
        if any(call.child for call in response.calls):
            decision = f"{response.id}:d"
            response.asks = self.act(agent, t, "orchestrator_decision", decision, response, opening)
            opening = False
        for call in response.calls:
            call.response = response
            if call.t is None:
                self.call(agent, t, call, opening)
                opening = False
        if response.text is not None or opening:
            self.say(agent, t, response, opening)

    def call(self, agent: Agent, t: float, call: Call, opening: bool = False) -> None:
        response, child = call.response, call.child
        assert response is not None
        content = call.content
        if child is None:
            seq = self.act(agent, t, "tool_call", call.id, response, opening, tool=call.tool, content=content)
        else:
            to, spawn = self.name(child), f"{call.id}:s"
            seq = self.act(
                agent, t, "spawn", spawn, response, opening, role=child.role, to=to, content=content
            )
            child.spawn = seq
        call.seq = seq
        if response.asks is not None:
            self.edge(response.asks, seq, "tool_dependency" if child is None else "spawn")

    def say(self, agent: Agent, t: float, response: Response, opening: bool) -> None:
        last = agent.final is response
        if last and agent.parent:
            kind, to = "return", self.name(agent.parent)
        elif agent.returned:
            kind, to = "aggregate", None
        else:
            kind, to = ("return", "user") if last else ("message", None)
        seq = self.act(agent, t, kind, response.id, response, opening, to=to, content=response.text)
        if kind == "aggregate":
            for child in agent.returned:
                self.edge(child.answer, seq, "aggregate")
        if kind != "message":
            agent.returned.clear()
            agent.answer = seq

    def result(self, agent: Agent, t: float, result: Result) -> None:
        call = result.call
        content, ok, turn = result.content, result.ok, call.response.turn if call.response else None
        rest = (None, None, call.tool, content, result.trusted, result.duration_s, None, None, None, turn, ok)
        seq = self.event(f"{call.id}:r", t, "tool_result", call.tool, None, *rest)
        if call.child:
            self.edge(call.child.answer, seq, "return")
            agent.returned.append(call.child)
        else:
            self.edge(call.seq, seq, "return")
        agent.read.append(seq)
        if not result.trusted:
            agent.untrusted.append(seq)

    def delivery(self, agent: Agent, _t: float, child: Agent) -> None:
        agent.waiting.append((child.answer, "return"))
        agent.returned.append(child)

    def prompt(self, agent: Agent, t: float, prompt: tuple[str, str]) -> None:
        rest = ("user", self.name(agent), None, prompt[1], True, None, None, None, None, None, None)
        seq = self.event(prompt[0], t, "message", "user", None, *rest)
        agent.waiting.append((seq, "message"))

    def end(self, seconds: float) -> None:
        tables = self.tables
        tables.edges += self.edges
        tables.traces.append((self.number, self.id, self.seq, len(self.edges)))
        own = tables.events[len(tables.events) - self.seq :] if self.seq else []
        kinds = Counter(event[4] for event in own)
        tokens = sum(event[13] + event[14] for event in own if event[13] is not None)
        costs = {"tokens": tokens, "wall_clock_s": seconds, "tool_calls": kinds["tool_call"]}
        for name, value in {**costs, "messages": kinds["message"]}.items():
            tables.measures.append((self.number, "cost", name, float(value)))


def _call_hash(name: str, arguments: Any) -> str:
    call = {"arguments": arguments, "name": name}
    return "sha256:" + hashlib.sha256(orjson.dumps(call, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _answer(messages: str) -> tuple[list[Call], str | None]:
    calls, texts = [], []
    for message in orjson.loads(messages):
        for part in message["parts"]:
            if part["type"] == "tool_call":
                content = _call_hash(part["name"], part["arguments"])
                calls.append(Call(part["id"], part["name"], content))
            elif part["type"] == "text":
                texts.append(part["content"])
    return calls, _hash("".join(texts)) if texts else None


STATUS = {1: True, 2: False}


def read_otlp(path: Path) -> Tables:
    """Spans are taken apart as they are read: the messages that went in are most of the file."""
    traces: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    with path.open("rb") as lines:
        for line in lines:
            for resource in orjson.loads(line)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        _take(span, traces[span["traceId"]])
    tables = Tables()
    for trace_id, spans in traces.items():
        _spans(Trace(tables, trace_id), spans)
    return tables


def _take(span: dict[str, Any], out: list[tuple[Any, ...]]) -> None:
    begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
    facts: dict[str, Any] = {}
    for pair in span["attributes"]:
        ((kind, value),) = pair["value"].items()
        facts[pair["key"]] = int(value) if kind == "intValue" else value
    ok = STATUS.get(span["status"].get("code"))
    seconds = (end - begin) / 1e9
    operation = facts.get("gen_ai.operation.name")
    what: Response | Result | Agent | None = None
    if operation == "chat":
        calls, text = _answer(facts["gen_ai.output.messages"])
        model, tokens_in = facts["gen_ai.response.model"], facts["gen_ai.usage.input_tokens"]
        cached = facts.get("gen_ai.usage.cache_read.input_tokens", 0)
        if tokens_in < cached:
            tokens_in += cached
        written = facts["gen_ai.usage.output_tokens"]
        what = Response(span["spanId"], end, model, tokens_in, written, seconds, ok, calls, text)
    elif operation == "execute_tool":
        asked, content = facts["gen_ai.tool.call.id"], _hash(facts["gen_ai.tool.call.result"])
        what = Result(Call(asked, facts["gen_ai.tool.name"], ""), content, False, ok, seconds)
    elif operation == "invoke_agent":
        what = Agent(facts["gen_ai.agent.name"])
    out.append((end, begin, span["spanId"], span.get("parentSpanId"), what))


def _spans(trace: Trace, spans: list[tuple[Any, ...]]) -> None:
    by_id = {span[2]: span for span in spans}
    calls = {call.id: call for span in spans if isinstance(span[4], Response) for call in span[4].calls}
    begin = min(span[1] for span in spans)
    spans.sort(key=itemgetter(0))

    def above(span: tuple[Any, ...], *kinds: type) -> Any:
        parent = by_id.get(span[3])
        while parent is not None and not isinstance(parent[4], kinds):
            parent = by_id.get(parent[3])
        return parent

    holds: dict[str, Agent] = {}
    for span in spans:
        agent = span[4]
        if isinstance(agent, Agent):
            around = above(span, Agent, Result)
            lead = above(span, Agent)
            if lead:
                agent.parent, agent.role = lead[4], "executor"
                lead[4].role = lead[4].role or "lead"
            if around and isinstance(around[4], Result):
                holds[around[2]] = agent
                calls[around[4].call.id].child = agent
        elif isinstance(agent, Response) and agent.text is not None:
            above(span, Agent)[4].final = agent
    for end, _, span_id, _, what in spans:
        t = (end - begin) / 1e9
        if isinstance(what, Response):
            trace.respond(above(by_id[span_id], Agent)[4], t, what)
        elif isinstance(what, Result):
            agent = above(by_id[span_id], Agent)[4]
            child = holds.get(span_id)
            if child is not None:
                trace.delivery(agent, t, child)
            else:
                what.call = calls[what.call.id]
                trace.result(agent, t, what)
    trace.end((spans[-1][0] - begin) / 1e9)


OWN_TOOLS = {"Agent", "Task", "TodoWrite"}


class Session:
    """What the files of one session say."""

    def __init__(self) -> None:
        self.agents: dict[str | None, Agent] = {None: Agent("main")}
        self.acts: dict[str | None, list[list[Any]]] = defaultdict(list)
        self.responses: dict[tuple[str, str], Response] = {}
        self.texts: dict[tuple[str, str], list[str]] = {}
        self.calls: dict[str, Call] = {}
        self.kinds: dict[str, str] = {}
        self.children: dict[str, str] = {}
        self.seen: set[str] = set()

    def line(self, line: dict[str, Any]) -> None:
        if line["uuid"] in self.seen:
            return
        self.seen.add(line["uuid"])
        stream = line["agentId"] if line["isSidechain"] else None
        when = datetime.fromisoformat(line["timestamp"])
        if line["type"] == "assistant":
            self.assistant(stream, when, line)
        else:
            self.user(stream, when, line)

    def assistant(self, stream: str | None, when: datetime, line: dict[str, Any]) -> None:
        message, acts = line["message"], self.acts[stream]
        key, usage = (message["id"], line["requestId"]), message["usage"]
        response = self.responses.get(key)
        if response is None:
            response = self.responses[key] = Response(message["id"], when, message["model"])
            self.texts[key] = []
            acts.append([when, Trace.respond, response])
        read = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        response.tokens_in = max(response.tokens_in, read)
        response.tokens_out = max(response.tokens_out, usage["output_tokens"])
        if not response.calls:
            response.t = when
        for block in message["content"]:
            if block["type"] == "text":
                self.texts[key].append(block["text"])
            elif block["type"] == "tool_use":
                tool, given = block["name"], block["input"]
                call = Call(block["id"], tool, _call_hash(tool, given))
                if response.calls:
                    call.t = when
                    acts.append([when, Trace.call, call])
                response.calls.append(call)
                self.calls[call.id] = call
                if tool in ("Agent", "Task"):
                    self.kinds[call.id] = given["subagent_type"]

    def user(self, stream: str | None, when: datetime, line: dict[str, Any]) -> None:
        content, acts = line["message"]["content"], self.acts[stream]
        if isinstance(content, str):
            # The first of a sub-agent is what its call says.
            what = (line["uuid"], _hash(content))
            acts.append([when, Trace.prompt if acts or stream is None else None, what])
            return
        kept = line["toolUseResult"]
        for block in content:
            given = block["content"]
            text = given if isinstance(given, str) else "".join(part["text"] for part in given)
            call = self.calls[block["tool_use_id"]]
            seconds = None
            if isinstance(kept, dict):
                if "agentId" in kept:
                    self.children[call.id] = kept["agentId"]
                if "totalDurationMs" in kept:
                    seconds = kept["totalDurationMs"] / 1000
            trusted = call.tool in OWN_TOOLS
            result = Result(call, _hash(text), trusted, not block["is_error"], seconds)
            acts.append([when, Trace.result, result])

    def write(self, trace: Trace) -> None:
        for key, texts in self.texts.items():
            if texts:
                self.responses[key].text = _hash("".join(texts))
        main = self.agents[None]
        for call_id, agent_id in self.children.items():
            kind = self.kinds[call_id]
            self.agents[agent_id] = self.calls[call_id].child = Agent(kind, kind, main)
            main.role = "lead"
        rows = []
        for stream, acts in self.acts.items():
            agent = self.agents[stream]
            for when, act, what in acts:
                rows.append((what.t if act is Trace.respond else when, act, agent, what))
                if act is Trace.respond and what.text is not None:
                    agent.final = what
        rows.sort(key=itemgetter(0))
        begin = rows[0][0]
        for when, act, agent, what in rows:
            if act is not None:
                act(trace, agent, (when - begin).total_seconds(), what)
        trace.end((rows[-1][0] - begin).total_seconds())


def read_sessions(folder: Path) -> Tables:
    sessions: dict[str, Session] = defaultdict(Session)
    for path in sorted(folder.rglob("*.jsonl")):
        with path.open("rb") as lines:
            for text in lines:
                line = orjson.loads(text)
                if line["type"] in ("user", "assistant"):
                    sessions[line["sessionId"]].line(line)
    tables = Tables()
    for session_id, session in sessions.items():
        session.write(Trace(tables, session_id))
    return tables


def read(path: Path) -> tuple[pl.DataFrame, ...]:
    """Frames of traces, events, edges and measures: of a folder of sessions, or of a file of spans."""
    return (read_sessions(path) if path.is_dir() else read_otlp(path)).frames()
