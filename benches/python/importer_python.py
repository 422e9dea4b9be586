"""Importers of OTLP spans, of sessions of Claude Code and of Pi, and of conversations: orjson, plain Python.

What `read_traces` is compared with in `importer_peers`: a dict a line, a row an event, frames at the
end, the same tables but for the places of traces in their files. It knows only what `importer_corpora`
writes: one container, one dialect, no branches, no faults, every id once.
"""

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson
import polars as pl

COLUMNS = (
    *("trace", "seq", "id", "t", "type", "agent", "role", "from", "to", "tool", "content_ref", "trusted"),
    "duration_s",
    *("tokens_in", "tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens"),
    *("model", "turn", "ok", "extras"),
)
TOPOLOGIES = ("unknown", "centralized", "hierarchical")
FLOWS = "untrusted text is assumed to flow into every later response of its context"


def _hash(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


@dataclass(slots=True, eq=False)
class Agent:
    """An agent, and what is known of it while events are written."""

    wanted: str
    role: str | None = None
    source: str | None = None
    """Its id in the source."""
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

    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth() + 1


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
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    duration_s: float | None = None
    ok: bool | None = None
    calls: list[Call] = field(default_factory=list)
    text: str | None = None
    """Hash of its text."""
    turn: int = 0
    asks: int | None = None
    """Its decision, if it makes others work."""
    cached: int | None = None
    """Of its input, what a cache gave."""
    cache_write: int | None = None
    """Of its input, what a cache took."""


@dataclass(slots=True, eq=False)
class Result:
    call: Call
    content: str
    trusted: bool
    ok: bool | None
    duration_s: float | None
    id: str
    extras: dict[str, Any]


class Tables:
    """Rows of all traces."""

    def __init__(self) -> None:
        self.traces: list[tuple[Any, ...]] = []
        self.events: list[tuple[Any, ...]] = []
        self.edges: list[tuple[int, int, int, str]] = []
        self.measures: list[tuple[int, str, str, float]] = []
        self.agents: list[tuple[Any, ...]] = []
        self.findings: list[tuple[int, str, int, None, str]] = []
        self.fates: Counter[tuple[str, str, str, str | None]] = Counter()
        """Records by file, importer, what became of them, and kind."""

    def frames(self) -> tuple[pl.DataFrame, ...]:
        u32, name, number = pl.UInt32, pl.Categorical, pl.Int64
        text = dict.fromkeys(("id", "content_ref", "extras"), pl.String)
        flags = dict.fromkeys(("trusted", "ok"), pl.Boolean)
        known: dict[str, Any] = {
            "t": pl.Float64,
            "duration_s": pl.Float64,
            **{column: number for column in COLUMNS if column.startswith("tokens")},
        }
        known |= {"trace": u32, "seq": u32, "turn": u32, **text, **flags}
        events = {column: known.get(column, name) for column in COLUMNS}
        traces = {"trace": u32, "trace_id": pl.String, "task_id": pl.String, "group_id": pl.String}
        traces |= {"system": name, "topology": name, "importer": name, "time_basis": name}
        traces |= {"started_at": pl.Datetime("ns", "UTC"), "partial": pl.Boolean}
        traces |= {"n_events": u32, "n_edges": u32, "n_agents": u32, "file": name}
        edges = {"trace": u32, "src": u32, "dst": u32, "type": name}
        measures = {"trace": u32, "kind": name, "name": name, "value": pl.Float64}
        agents = {"trace": u32, "agent": name, "kind": name, "role": name, "parent": name}
        agents |= {"depth": u32, "first_seq": u32, "n_events": u32}
        findings = {"trace": u32, "code": name, "count": u32, "seq": u32, "message": pl.String}
        fates = {"file": name, "importer": name, "status": name, "kind": pl.String, "count": pl.UInt64}
        tables = (
            (self.traces, traces),
            (self.events, events),
            (self.edges, edges),
            (self.measures, measures),
            (self.agents, agents),
            (self.findings, findings),
            ([(*fate, count) for fate, count in self.fates.items()], fates),
        )
        return tuple(
            pl.DataFrame(dict(zip(schema, zip(*rows, strict=True), strict=True)), schema=schema)
            for rows, schema in tables
        )


class Trace:
    """Writes the events of one trace, in order of time."""

    def __init__(self, tables: Tables, trace_id: str, file: str) -> None:
        self.tables, self.id, self.file, self.number = tables, trace_id, file, len(tables.traces)
        self.seq = self.turn = 0
        self.names: Counter[str] = Counter()
        self.agents: dict[str, Agent] = {}
        self.flows = False
        self.owned: Counter[str] = Counter()
        """Results of the calls of each agent, which are its events too."""
        self.edges: list[tuple[int, int, int, str]] = []

    def name(self, agent: Agent) -> str:
        if agent.name is None:
            self.names[agent.wanted] += 1
            bearers = self.names[agent.wanted]
            agent.name = agent.wanted if bearers == 1 else f"{agent.wanted}#{bearers}"
            self.agents[agent.name] = agent
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
        child: Agent | None = None,
    ) -> int:
        """An event of an agent; the first of a response carries its usage and follows what was read."""
        name = self.name(agent)
        extras: dict[str, Any] = {}
        if agent.last is None and agent.source is not None:
            extras["x_agent_id"] = agent.source
        if child is not None:
            extras["x_agent_id"] = child.source
        extras["x_gen"] = response.id
        speaks = name if kind in ("message", "return") or to == "user" else None
        r = response
        tokens: tuple[int | None, ...] = (None,) * 6
        if r.tokens_in is not None and r.tokens_out is not None:
            fresh = r.tokens_in - (r.cached or 0) - (r.cache_write or 0)
            tokens = (r.tokens_in, fresh, r.cached, r.cache_write, r.tokens_out, r.tokens_in + r.tokens_out)
        usage = (r.duration_s, *tokens, r.model) if opening else (None,) * 8
        ok = r.ok if opening else None
        rest = (speaks, to, tool, content, True, *usage, r.turn, ok, orjson.dumps(extras).decode())
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
                self.flows = True
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
            facts: dict[str, Any] = {"role": child.role, "to": to, "content": content, "child": child}
            seq = self.act(agent, t, "spawn", spawn, response, opening, **facts)
            child.spawn = seq
        call.seq = seq
        if response.asks is not None:
            self.edge(response.asks, seq, "tool_dependency" if child is None else "spawn")

    def say(self, agent: Agent, t: float, response: Response, opening: bool) -> None:
        last = agent.final is response
        if last and agent.parent:
            kind, to = "return", self.name(agent.parent)
        elif agent.returned:
            kind, to = "aggregate", "user" if last else None
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
        extras = orjson.dumps(result.extras).decode() if result.extras else None
        rest = (None, None, call.tool, content, result.trusted, result.duration_s)
        rest = (*rest, *(None,) * 7, turn, ok, extras)
        if call.child is None:
            self.owned[self.name(agent)] += 1
        seq = self.event(f"{result.id}:r", t, "tool_result", call.tool, None, *rest)
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
        rest = ("user", self.name(agent), None, prompt[1], True, *(None,) * 11)
        seq = self.event(prompt[0], t, "message", "user", None, *rest)
        agent.waiting.append((seq, "message"))

    def end(
        self,
        seconds: float | None,
        began: Any,
        importer: str,
        system: str | None,
        names: tuple[str, str] | None = None,
    ) -> None:
        """The rows of the trace as a whole; without `seconds` it has an order and no times, and no usage."""
        tables, number = self.tables, self.number
        tables.edges += self.edges
        own = tables.events[len(tables.events) - self.seq :] if self.seq else []
        acts: dict[str, list[int]] = {}
        for event in own:
            acts.setdefault(event[5], []).append(event[1])
        actors = 0
        for name, seqs in acts.items():
            agent = self.agents.get(name)
            kind, role, parent, depth = "user" if name == "user" else "tool", None, None, None
            if agent is not None:
                actors += 1
                kind, role, depth = "agent", agent.role, agent.depth()
                parent = agent.parent and agent.parent.name
            tables.agents.append(
                (number, name, kind, role, parent, depth, seqs[0], len(seqs) + self.owned[name])
            )
        topology = TOPOLOGIES[min(2, max(agent.depth() for agent in self.agents.values()))]
        basis = "ordinal" if seconds is None else "seconds"
        facts = (self.id, *(names or (self.id, self.id)), system, topology, importer, basis, began, False)
        tables.traces.append((number, *facts, self.seq, len(self.edges), actors, self.file))
        if self.flows:
            tables.findings.append((number, "safety.conservative", 1, None, FLOWS))
        kinds = Counter(event[4] for event in own)
        at = COLUMNS.index("tokens")
        tokens = sum(event[at] for event in own if event[at] is not None)
        costs: dict[str, float] = {"tool_calls": kinds["tool_call"], "messages": kinds["message"]}
        if seconds is not None:
            costs |= {"tokens": tokens, "wall_clock_s": seconds}
        for name, value in costs.items():
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
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_otlp(path: Path) -> Tables:
    """Spans are taken apart as they are read: the messages that went in are most of the file."""
    traces: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    with path.open("rb") as lines:
        for line in lines:
            for resource in orjson.loads(line)["resourceSpans"]:
                for scope in resource["scopeSpans"]:
                    for span in scope["spans"]:
                        _take(span, traces[span["traceId"]])
    tables, file = Tables(), str(path)
    for trace_id, spans in traces.items():
        used = sum(span[4] is not None for span in spans)
        tables.fates[(file, "otel", "used", None)] += used
        tables.fates[(file, "otel", "ignored", "otel.http")] += len(spans) - used
        _spans(Trace(tables, trace_id, file), spans)
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
        cached = facts.get("gen_ai.usage.cache_read.input_tokens")
        if tokens_in < (cached or 0):
            tokens_in += cached
        written = facts["gen_ai.usage.output_tokens"]
        what = Response(span["spanId"], end, model, tokens_in, written, seconds, ok, calls, text)
        what.cached = cached
    elif operation == "execute_tool":
        asked, content = facts["gen_ai.tool.call.id"], _hash(facts["gen_ai.tool.call.result"])
        extras = {"x_error_type": facts["error.type"]} if ok is False and "error.type" in facts else {}
        call = Call(asked, facts["gen_ai.tool.name"], "")
        what = Result(call, content, False, ok, seconds, span["spanId"], extras)
    elif operation == "invoke_agent":
        what = Agent(facts["gen_ai.agent.name"], source=facts["gen_ai.agent.id"])
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
    trace.end((spans[-1][0] - begin) / 1e9, begin, "otel", None)


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
        self.file: str | None = None

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
        response.cached = usage["cache_read_input_tokens"]
        response.cache_write = usage["cache_creation_input_tokens"]
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
            seconds, extras = None, {}
            if isinstance(kept, dict):
                if "totalTokens" in kept:
                    extras["x_reported_tokens"] = kept["totalTokens"]
                if "agentId" in kept:
                    self.children[call.id] = kept["agentId"]
                if "totalDurationMs" in kept:
                    seconds = kept["totalDurationMs"] / 1000
            trusted = call.tool in OWN_TOOLS
            result = Result(call, _hash(text), trusted, not block["is_error"], seconds, call.id, extras)
            acts.append([when, Trace.result, result])

    def write(self, trace: Trace) -> None:
        for key, texts in self.texts.items():
            if texts:
                self.responses[key].text = _hash("".join(texts))
        main = self.agents[None]
        for call_id, agent_id in self.children.items():
            kind = self.kinds[call_id]
            self.agents[agent_id] = self.calls[call_id].child = Agent(kind, kind, agent_id, main)
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
        # A datetime has microseconds; the column counts nanoseconds.
        began = (begin - EPOCH) // timedelta(microseconds=1) * 1000
        trace.end((rows[-1][0] - begin).total_seconds(), began, "claude_code", "claude-code")


def read_sessions(folder: Path) -> Tables:
    sessions: dict[str, Session] = defaultdict(Session)
    tables = Tables()
    for file in sorted(map(str, folder.rglob("*.jsonl"))):
        used = 0
        with open(file, "rb") as lines:
            for text in lines:
                line = orjson.loads(text)
                if line["type"] in ("user", "assistant"):
                    session = sessions[line["sessionId"]]
                    session.file = session.file or file
                    session.line(line)
                    used += 1
                else:
                    words = (line["type"], line.get("subtype"), line.get("data", {}).get("type"))
                    kind = ".".join(["claude_code", *filter(None, words)])
                    tables.fates[(file, "claude_code", "ignored", kind)] += 1
        tables.fates[(file, "claude_code", "used", None)] = used
    for session_id, session in sessions.items():
        assert session.file is not None
        session.write(Trace(tables, session_id, session.file))
    return tables


def read_pi(folder: Path) -> Tables:
    """Sessions without branches, forks and prices."""
    tables = Tables()
    for file in sorted(map(str, folder.rglob("*.jsonl"))):
        used = 0
        with open(file, "rb") as lines:
            entries = list(map(orjson.loads, lines))
        trace, agent, calls = Trace(tables, entries[0]["id"], file), Agent("pi"), dict[str, Call]()
        begin = when = datetime.fromisoformat(entries[0]["timestamp"])
        for entry in entries:
            if entry["type"] not in ("session", "message"):
                tables.fates[(file, "pi", "ignored", f"pi.{entry['type']}")] += 1
                continue
            used += 1
            when = datetime.fromisoformat(entry["timestamp"])
            if entry["type"] == "message":
                _pi_message(trace, agent, calls, entry, when, (when - begin).total_seconds())
        tables.fates[(file, "pi", "used", None)] = used
        began = (begin - EPOCH) // timedelta(microseconds=1) * 1000
        trace.end((when - begin).total_seconds(), began, "pi", "pi")
    return tables


def _pi_message(
    trace: Trace, agent: Agent, calls: dict[str, Call], entry: dict[str, Any], when: datetime, t: float
) -> None:
    message = entry["message"]
    texts = [block["text"] for block in message["content"] if block["type"] == "text"]
    content = _hash("".join(texts)) if texts else None
    if message["role"] == "user":
        trace.prompt(agent, t, (entry["id"], content or _hash("")))
    elif message["role"] == "toolResult":
        call = calls[message["toolCallId"]]
        result = Result(call, content or _hash(""), False, not message["isError"], None, call.id, {})
        trace.result(agent, t, result)
    else:
        usage = message["usage"]
        cached, written = usage["cacheRead"], usage["cacheWrite"]
        began = EPOCH + timedelta(milliseconds=message["timestamp"])
        response = Response(
            entry["id"], t, message["model"], usage["input"] + cached + written, usage["output"]
        )
        response.duration_s, response.text = (when - began).total_seconds(), content
        response.cached, response.cache_write = cached, written
        for block in message["content"]:
            if block["type"] == "toolCall":
                call = Call(block["id"], block["name"], _call_hash(block["name"], block["arguments"]))
                calls[call.id] = call
                response.calls.append(call)
        if not response.calls:
            agent.final = response
        trace.respond(agent, t, response)


def read_conversations(path: Path) -> Tables:
    """A run a line, with its messages, its task, its model and a verdict of -1, 0 or 1."""
    tables, file = Tables(), str(path)
    with path.open("rb") as lines:
        for line in lines:
            _conversation(tables, file, orjson.loads(line))
    tables.fates[(file, "messages", "used", None)] = len(tables.traces)
    return tables


def _conversation(tables: Tables, file: str, row: dict[str, Any]) -> None:
    trace, agent, calls = Trace(tables, row["trajectory_id"], file), Agent("agent"), dict[str, Call]()
    step, messages = 0, row["messages"]
    for index, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system":
            continue
        t, step = float(step), step + 1
        if role == "user":
            trace.prompt(agent, t, (str(index), _hash(content)))
        elif role == "tool":
            call = calls[message["tool_call_id"]]
            trace.result(agent, t, Result(call, _hash(content), False, None, None, call.id, {}))
        else:
            response = Response(str(index), t, row["model"], None, None)
            response.text = _hash(content) if content else None
            for asked in message.get("tool_calls") or ():
                tool, given = asked["function"]["name"], orjson.loads(asked["function"]["arguments"])
                calls[asked["id"]] = Call(asked["id"], tool, _call_hash(tool, given))
                response.calls.append(calls[asked["id"]])
            if index == len(messages) - 1:
                agent.final = response
            trace.turn = index
            trace.respond(agent, t, response)
    task, resolved = row["instance_id"], row["resolved"]
    trace.end(None, None, "messages", None, (task, f"{task}/model={row['model']}"))
    tables.measures.append((trace.number, "metric", "seconds", float(row["seconds"])))
    if resolved < 0:
        message = (
            f"'resolved' is {resolved}, expected yes (1, true) or no (0, false): the outcome is not known"
        )
        tables.findings.append((trace.number, "reward.unscored", 1, None, message))
    else:
        tables.measures.append((trace.number, "reward", "team", float(resolved)))


READERS = {
    "otlp.jsonl": read_otlp,
    "sessions": read_sessions,
    "pi": read_pi,
    "conversations.jsonl": read_conversations,
}
"""By the name of what `importer_corpora` writes."""


def read(path: Path) -> tuple[pl.DataFrame, ...]:
    """Frames of traces, events, edges, measures, agents, findings and record counts."""
    return READERS[path.name](path).frames()
