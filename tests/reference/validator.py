"""An independent judge of native traces, in plain Python: the rules of validity and nothing of the engine.

A line is accepted exactly when `judge` finds no fault. Every fault has a code and the JSON pointer of its
place; where only the surroundings of a place can be demanded (a reader may give up early in text that is not
JSON), the fault is `around` its pointer: any ancestor, the root included, names it as well.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

EVENT_TYPES = frozenset(
    [
        "orchestrator_decision",
        "spawn",
        "despawn",
        "message",
        "tool_call",
        "tool_result",
        "return",
        "aggregate",
        "human_intervention",
        "safety_event",
    ]
)
EDGE_TYPES = frozenset(
    ["temporal", "causal", "spawn", "message", "tool_dependency", "return", "aggregate", "safety_flow"]
)
TOPOLOGIES = frozenset(
    [
        "centralized",
        "planner_executor_critic",
        "debate",
        "swarm",
        "hierarchical",
        "harness",
        "mixed",
        "unknown",
    ]
)
TRACE_KEYS = frozenset(
    ["trace_id", "task_id", "system", "topology", "events", "edges", "rewards", "costs", "metrics"]
)
TRACE_REQUIRED = ("trace_id", "task_id", "events", "edges", "rewards", "costs")
EVENT_REQUIRED = ("id", "t", "type", "agent")
EDGE_KEYS = ("src", "dst", "type")
COSTS_REQUIRED = ("tokens", "wall_clock_s")
OPTIONAL_EVENT_TEXTS = ("role", "from", "to", "tool", "content_ref")
NUMERIC_EXTENSIONS = frozenset(
    [
        "duration_s",
        "t_end",
        "tokens_in",
        "tokens_fresh",
        "tokens_cached",
        "tokens_cache_write",
        "tokens_out",
        "tokens_reasoning",
        "tokens",
        "tokens_cache_write_1h",
        "cost_usd",
        "turn",
        "score",
        "reward",
        "draft_score",
        "value",
        "p_behavior",
    ]
)
MAX_DEPTH = 128


@dataclass(frozen=True)
class Fault:
    """What is wrong, and where."""

    code: str
    path: str
    around: bool = False

    def names(self, path: str) -> bool:
        """Whether a reported pointer names this place."""
        if not self.around:
            return path == self.path
        return path == "" or self.path == path or self.path.startswith(path + "/")


@dataclass(frozen=True)
class Number:
    """A number as it is spelled."""

    text: str

    def value(self) -> float | None:
        """The nearest 64-bit float; None beyond its range."""
        value = float(self.text)
        return None if math.isinf(value) else value


class Members(list[tuple[str, Any]]):
    """The members of an object in order, repeated keys included."""


class NotJson(Exception):
    """The text fails before it has a structure."""

    def __init__(self, code: str, path: str = "") -> None:
        super().__init__(code)
        self.fault = Fault(code, path)


def pointer(*parts: str | int) -> str:
    """RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def depth_of(line: bytes) -> int:
    """The deepest nesting of containers, the record itself being 1."""
    depth = deepest = 0
    in_text = escaped = False
    for byte in line:
        if in_text:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_text = False
        elif byte == 0x22:
            in_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


_DECODER = json.JSONDecoder(
    object_pairs_hook=Members, parse_int=Number, parse_float=Number, parse_constant=Number
)


def parse(line: bytes, max_depth: int = MAX_DEPTH) -> Any:
    """The structure of one record, numbers as spelled and repeated keys kept."""
    try:
        text = line.decode("utf-8", errors="strict")
    except UnicodeDecodeError:
        raise NotJson("utf8.invalid") from None
    if depth_of(line) > max_depth:
        raise NotJson("json.depth")
    text = text.lstrip(" \t\r\n")
    try:
        value, end = _DECODER.raw_decode(text)
    except json.JSONDecodeError:
        raise NotJson("json.syntax") from None
    if text[end:].strip(" \t\r\n"):
        raise NotJson("json.trailing")
    for code, found in (("number.nan", _is_not_finite), ("utf8.invalid", _has_lone_surrogate)):
        path = _find(value, found)
        if path is not None:
            raise NotJson(code, path)
    return value


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, Number) and value.text in ("NaN", "Infinity", "-Infinity")


def _has_lone_surrogate(value: Any) -> bool:
    # Python joins the halves of a pair, so whatever is left over stands alone.
    return isinstance(value, str) and any("\ud800" <= char <= "\udfff" for char in value)


def _find(value: Any, wanted: Callable[[Any], bool], at: str = "") -> str | None:
    """Where the first wanted value is, at any depth; a key counts as the place of its object."""
    if wanted(value):
        return at
    inner: list[tuple[str, Any]] = []
    if isinstance(value, Members):
        if any(wanted(key) for key, _ in value):
            return at
        inner = value
    elif isinstance(value, list):
        inner = [(str(i), item) for i, item in enumerate(value)]
    for key, item in inner:
        path = _find(item, wanted, at + pointer(key))
        if path is not None:
            return path
    return None


class _Walk:
    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def fault(self, code: str, *at: str | int) -> None:
        self.faults.append(Fault(code, pointer(*at)))

    def members(self, value: Any, *at: str | int) -> dict[str, Any] | None:
        """The members of an object that is read; a repeated key is a fault."""
        if not isinstance(value, Members):
            self.fault("field.type", *at)
            return None
        found: dict[str, Any] = {}
        for key, item in value:
            if key in found:
                self.fault("json.duplicate_key", *at, key)
            else:
                found[key] = item
        return found

    def text(self, value: Any, *at: str | int, empty: bool = False) -> str | None:
        if not isinstance(value, str):
            self.fault("field.type", *at)
            return None
        if not value and not empty:
            self.fault("field.empty", *at)
            return None
        return value

    def word(self, value: Any, words: frozenset[str], *at: str | int) -> None:
        if not isinstance(value, str):
            self.fault("field.type", *at)
        elif value not in words:
            self.fault("field.enum", *at)

    def number(self, value: Any, *at: str | int, minimum: bool = False) -> None:
        if not isinstance(value, Number):
            self.fault("field.type", *at)
            return
        number = value.value()
        if number is None:
            self.fault("number.range", *at)
        elif minimum and number < 0:
            self.fault("field.minimum", *at)

    def required(self, found: dict[str, Any], keys: tuple[str, ...], *at: str | int) -> None:
        # The place of what is missing is the object that lacks it.
        for key in keys:
            if key not in found:
                self.fault("field.missing", *at)

    def measures(self, value: Any, at: str) -> None:
        found = self.members(value, at)
        if found is None:
            return
        if at == "costs":
            self.required(found, COSTS_REQUIRED, at)
        for key, item in found.items():
            self.number(item, at, key, minimum=at == "costs")

    def event(self, value: Any, at: int, ids: set[str]) -> None:
        found = self.members(value, "events", at)
        if found is None:
            return
        self.required(found, EVENT_REQUIRED, "events", at)
        for key, item in found.items():
            place = ("events", at, key)
            if key == "id":
                event_id = self.text(item, *place)
                if event_id is not None and event_id in ids:
                    self.fault("id.duplicate", *place)
                elif event_id is not None:
                    ids.add(event_id)
            elif key == "agent":
                self.text(item, *place)
            elif key == "t":
                self.number(item, *place, minimum=True)
            elif key == "type":
                self.word(item, EVENT_TYPES, *place)
            elif key in OPTIONAL_EVENT_TEXTS:
                self.text(item, *place, empty=True)
            elif key == "trusted":
                if not isinstance(item, bool):
                    self.fault("field.type", *place)
            elif key in NUMERIC_EXTENSIONS and isinstance(item, Number) and item.value() is None:
                self.fault("number.range", *place)

    def edge(self, value: Any, at: int, ids: set[str]) -> None:
        found = self.members(value, "edges", at)
        if found is None:
            return
        self.required(found, EDGE_KEYS, "edges", at)
        for key, item in found.items():
            place = ("edges", at, key)
            if key in ("src", "dst"):
                end = self.text(item, *place)
                if end is not None and end not in ids:
                    self.fault("edge.unknown", *place)
            elif key == "type":
                self.word(item, EDGE_TYPES, *place)
            else:
                self.fault("field.forbidden", *place)

    def trace(self, value: Any) -> None:
        if not isinstance(value, Members):
            self.fault("record.not_object")
            return
        found = self.members(value) or {}
        self.required(found, TRACE_REQUIRED)
        for key in found:
            if key not in TRACE_KEYS:
                self.fault("field.forbidden", key)
        for key in ("trace_id", "task_id"):
            if key in found:
                self.text(found[key], key)
        if "system" in found:
            self.text(found["system"], "system", empty=True)
        if "topology" in found:
            self.word(found["topology"], TOPOLOGIES, "topology")
        ids: set[str] = set()
        for key, each in (("events", self.event), ("edges", self.edge)):
            items = found.get(key, [])
            if isinstance(items, Members) or not isinstance(items, list):
                self.fault("field.type", key)
                continue
            if key == "events" and key in found and not items:
                self.fault("field.empty", key)
            for at, item in enumerate(items):
                each(item, at, ids)
        for key in ("rewards", "costs", "metrics"):
            if key in found:
                self.measures(found[key], key)


def judge(line: bytes, max_depth: int = MAX_DEPTH) -> list[Fault]:
    """Every fault of one record; none means accepted. Text that is not JSON has one."""
    try:
        value = parse(line, max_depth)
    except NotJson as found:
        return [found.fault]
    walk = _Walk()
    walk.trace(value)
    return walk.faults
