"""What the tables of accepted native traces must hold, built row by row with the `json` module."""

import json
import math
from decimal import Decimal
from typing import Any

TEXTS = [
    "state_key",
    "prefix_key",
    "subtask_id",
    "content_hash",
    "args_hash",
    "harness_hash",
    "sandbox_id",
    "group_id",
    "model",
    "action",
]
FLAGS = ["ok", "corrupted", "sanitizer", "privileged", "trainable"]
FLOATS = ["duration_s", "t_end", "cost_usd", "score", "reward", "draft_score", "value", "p_behavior"]
INPUT = ["tokens_fresh", "tokens_cached", "tokens_cache_write"]
PARTS = [*INPUT, "tokens_out"]
TOKENS = ["tokens_in", *PARTS, "tokens_reasoning", "tokens"]
MOST = 2**63 - 1
COUNTS = {**dict.fromkeys([*TOKENS, "tokens_cache_write_1h"], MOST), "turn": 2**32 - 1}
SCHEMA_FIELDS = ["id", "t", "type", "agent", "role", "from", "to", "tool", "content_ref", "trusted"]
EXTENSIONS = [*FLOATS, *COUNTS, *TEXTS, *FLAGS, "p_actions"]
EVENT_COLUMNS = ["trace", "seq", *SCHEMA_FIELDS, *EXTENSIONS, "extras"]

IGNORED = object()


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_rounded(value: Any) -> bool:
    """Whether an integer changes when it becomes a 64-bit float."""
    return isinstance(value, int) and not isinstance(value, bool) and int(float(value)) != value


def extension(name: str, value: Any) -> Any:
    """The value that the column of an extension field shows, or IGNORED."""
    if name in TEXTS:
        return value if isinstance(value, str) else IGNORED
    if name in FLAGS:
        return value if isinstance(value, bool) else IGNORED
    if name == "p_actions":
        good = isinstance(value, list) and all(is_number(item) for item in value)
        return [float(item) for item in value] if good else IGNORED
    if not is_number(value):
        return IGNORED
    if name in COUNTS:
        # exact: what is written as 2.353239134393423e+16 is more digits than a float has
        return (
            int(Decimal(repr(value)))
            if value == math.floor(value) and 0 <= value <= COUNTS[name]
            else IGNORED
        )
    return IGNORED if name in ("duration_s", "cost_usd") and value < 0 else float(value)


def settled(told: dict[str, int]) -> dict[str, int]:
    """Counts of tokens of an event with what follows from them; of what contradicts, the parts count."""
    now = dict(told)
    cache = sum(now.get(name, 0) for name in INPUT[1:])
    if "tokens_in" in now:
        uncached = now["tokens_in"] if now["tokens_in"] < cache else now["tokens_in"] - cache
        now.setdefault("tokens_fresh", uncached)
        now["tokens_in"] = min(MOST, now["tokens_fresh"] + cache)
    if now.get("tokens_out", MOST) < now.get("tokens_reasoning", 0):
        now["tokens_out"] = min(MOST, now["tokens_out"] + now["tokens_reasoning"])
    if any(name in now for name in PARTS):
        parts = min(MOST, sum(now.get(name, 0) for name in PARTS))
        whole = {"tokens_in", "tokens_out"} <= now.keys()
        now["tokens"] = parts if whole else max(parts, now.get("tokens", 0))
    return now


def counts_of(event: dict[str, Any]) -> dict[str, int]:
    """Counts of tokens that an event of a document tells."""
    told = {name: extension(name, event[name]) for name in TOKENS if name in event}
    return {name: count for name, count in told.items() if count is not IGNORED}


def unfollowed(event: dict[str, Any]) -> dict[str, Any]:
    """An event of a document with its counts settled, without those that follow from others."""
    told = counts_of(event)
    now = settled(told)
    for name in ("tokens_fresh", "tokens"):
        others = {other: count for other, count in now.items() if other != name}
        if name in now and settled(others).get(name) == now[name]:
            now = others
    kept = {key: value for key, value in event.items() if key not in told}
    return kept | now


class Findings(dict[str, tuple[int, int | None]]):
    """Code to how often and the first event."""

    def note(self, code: str, seq: int | None) -> None:
        count, first = self.get(code, (0, seq))
        self[code] = (count + 1, first)


def group_of(document: dict[str, Any]) -> str:
    """The first group that an event names by its time, else the task."""
    naming = [event for event in document["events"] if isinstance(event.get("group_id"), str)]
    first = min(naming, key=lambda event: float(event["t"]), default=None)
    return str(document["task_id"] if first is None else first["group_id"])


def findings(document: dict[str, Any]) -> Findings:
    """Code to (count, first event); of a cycle only that there is one.

    What follows from who owns what is not among them.
    """
    found = Findings()
    group = group_of(document)
    for seq, event in enumerate(document["events"]):
        if is_rounded(event["t"]):
            found.note("number.rounded", seq)
        for name in EXTENSIONS:
            if name in event:
                value = extension(name, event[name])
                if value is IGNORED:
                    found.note("field.ignored", seq)
                elif name in [*FLOATS, "p_actions"]:
                    numbers = event[name] if name == "p_actions" else [event[name]]
                    if any(map(is_rounded, numbers)):
                        found.note("number.rounded", seq)
        told = counts_of(event)
        if any(settled(told)[name] != count for name, count in told.items()):
            found.note("usage.conflict", seq)
        if isinstance(event.get("group_id"), str) and event["group_id"] != group:
            found.note("group.conflict", seq)
    for name in ("rewards", "costs", "metrics"):
        for value in document.get(name, {}).values():
            if is_rounded(value):
                found.note("number.rounded", None)
    times = {event["id"]: float(event["t"]) for event in document["events"]}
    for edge in document["edges"]:
        if times[edge["dst"]] < times[edge["src"]]:
            found.note("time.reversed", None)
    if has_cycle(document):
        found.note("graph.cycle", None)
    return found


def has_cycle(document: dict[str, Any]) -> bool:
    """Whether the edges close a cycle, self-loops included (Kahn)."""
    after: dict[str, set[str]] = {event["id"]: set() for event in document["events"]}
    for edge in document["edges"]:
        after[edge["src"]].add(edge["dst"])
    waiting = dict.fromkeys(after, 0)
    for ends in after.values():
        for end in ends:
            waiting[end] += 1
    ready = [event for event, count in waiting.items() if count == 0]
    done = 0
    while ready:
        done += 1
        for end in after[ready.pop()]:
            waiting[end] -= 1
            if waiting[end] == 0:
                ready.append(end)
    return done < len(after)


def time_bases(document: dict[str, Any]) -> set[str]:
    """The bases that the rule allows: two where 2.0 may be an integer or a bound is met exactly."""
    times = [event["t"] for event in document["events"]]
    wall = float(document["costs"]["wall_clock_s"])
    spread = float(max(times)) - float(min(times))
    allowed = set()
    if wall > 0:
        slack = 0.05 * wall
        if math.isclose(abs(spread - wall), slack, rel_tol=1e-9):
            allowed.add("seconds")
        elif abs(spread - wall) < slack:
            return {"seconds"}
    if all(isinstance(t, int) for t in times):
        return allowed | {"ordinal"}
    if all(float(t).is_integer() for t in times):
        return allowed | {"ordinal", "unknown"}
    return allowed | {"unknown"}


def trace_row(document: dict[str, Any], trace: int) -> dict[str, Any]:
    """The columns of `traces` that follow from the document alone."""
    return {
        "trace": trace,
        "trace_id": document["trace_id"],
        "task_id": document["task_id"],
        "group_id": group_of(document),
        "system": document.get("system"),
        "topology": document.get("topology"),
        "importer": "native",
        "started_at": None,
        "partial": False,
        "n_events": len(document["events"]),
        "n_edges": len(document["edges"]),
    }


def event_rows(document: dict[str, Any], trace: int) -> list[dict[str, Any]]:
    """Rows of `events`; `extras` parsed."""
    rows = []
    for seq, event in enumerate(document["events"]):
        row: dict[str, Any] = dict.fromkeys(EVENT_COLUMNS)
        row |= {"trace": trace, "seq": seq}
        extras = {}
        for key, value in event.items():
            if key == "t":
                row["t"] = float(value)
            elif key in SCHEMA_FIELDS:
                row[key] = value
            elif key in EXTENSIONS and (typed := extension(key, value)) is not IGNORED:
                row[key] = typed
            else:
                extras[key] = value
        row |= settled(counts_of(event))
        row["extras"] = extras or None
        rows.append(row)
    return rows


def edge_rows(document: dict[str, Any], trace: int) -> list[dict[str, Any]]:
    """Rows of `edges` in document order."""
    place = {event["id"]: seq for seq, event in enumerate(document["events"])}
    return [
        {"trace": trace, "src": place[edge["src"]], "dst": place[edge["dst"]], "type": edge["type"]}
        for edge in document["edges"]
    ]


def measure_rows(document: dict[str, Any], trace: int) -> dict[tuple[int, str, str], float]:
    """(trace, kind, name) to value."""
    return {
        (trace, kind, name): float(value)
        for kind, key in (("reward", "rewards"), ("cost", "costs"), ("metric", "metrics"))
        for name, value in document.get(key, {}).items()
    }


def rounded(document: dict[str, Any]) -> dict[str, Any]:
    """The document after its read numbers went through 64-bit floats and its counts of tokens were settled;
    all else is kept as it was."""
    events = []
    for event in map(unfollowed, document["events"]):
        kept = {name for name in FLOATS if name in event and extension(name, event[name]) is not IGNORED}
        events.append(
            {key: float(value) if key in kept or key == "t" else value for key, value in event.items()}
        )
        if extension("p_actions", event.get("p_actions")) is not IGNORED:
            events[-1]["p_actions"] = [float(item) for item in event["p_actions"]]
    maps = {
        name: {key: float(value) for key, value in document[name].items()}
        for name in ("rewards", "costs", "metrics")
        if name in document
    }
    return document | maps | {"events": events}


def parse(line: bytes) -> dict[str, Any]:
    """A document as Python sees it, integers and floats kept apart."""
    document: dict[str, Any] = json.loads(line)
    return document


def same(a: Any, b: Any) -> bool:
    """Equal as JSON up to key order and the spelling of numbers: 3 is 3.0, but true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if is_number(a) and is_number(b):
        return a == b
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)
