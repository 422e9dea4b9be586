"""Mutations of one valid trace, each with the verdict that it must get.

The mutated event is `spare`, which no edge names, so that one mutation makes one fault. Rejected cases name
the code and the JSON pointer; `around` allows an ancestor of the pointer where the text is not JSON and a
reader may give up early. Accepted cases name their findings: code to (count, seqs that may be called the
first place).
"""

import copy
import json
from dataclasses import dataclass, field
from typing import Any

from reference.validator import Fault

BASE: dict[str, Any] = {
    "trace_id": "mutated",
    "task_id": "task",
    "system": "hand",
    "topology": "swarm",
    "events": [
        {"id": "e1", "t": 0, "type": "orchestrator_decision", "agent": "lead", "role": "lead"},
        {"id": "e2", "t": 1, "type": "message", "agent": "lead", "from": "lead", "to": "w", "trusted": True},
        {"id": "e3", "t": 2, "type": "return", "agent": "w", "from": "w", "to": "lead", "content_ref": "h3"},
        {
            "id": "spare",
            "t": 2.5,
            "type": "tool_call",
            "agent": "w",
            "role": "executor",
            "from": "w",
            "to": "bash",
            "tool": "bash",
            "content_ref": "h4",
            "trusted": False,
            "tokens": 40,
            "x_note": "n",
        },
    ],
    "edges": [{"src": "e1", "dst": "e2", "type": "causal"}, {"src": "e2", "dst": "e3", "type": "message"}],
    "rewards": {"team": 1, "process": 0.5},
    "costs": {"tokens": 10, "wall_clock_s": 2.5, "tool_calls": 1, "messages": 1},
    "metrics": {"task_success": 1},
}

SPARE = "/events/3"


@dataclass(frozen=True)
class Case:
    """One line and what must become of it."""

    name: str
    line: bytes
    fault: Fault | None = None
    findings: dict[str, tuple[int, set[int | None]]] = field(default_factory=dict)


CASES: list[Case] = []


# --- how a mutation is made ---------------------------------------------------------------------


def _parts(place: str) -> list[str | int]:
    return [int(part) if part.isdigit() else part for part in place.split("/")[1:]]


def _at(place: str) -> tuple[dict[str, Any], Any, str | int]:
    document = copy.deepcopy(BASE)
    *way, last = _parts(place)
    target: Any = document
    for step in way:
        target = target[step]
    return document, target, last


def text(document: Any) -> bytes:
    """The document on one line."""
    return json.dumps(document).encode()


def put(place: str, value: Any, **more: Any) -> bytes:
    """The base with another value at a place, and other top-level values."""
    document, target, last = _at(place)
    target[last] = value
    return text(document | more)


def drop(place: str, **more: Any) -> bytes:
    """The base without a key."""
    document, target, last = _at(place)
    del target[last]
    return text(document | more)


def literal(place: str, spelling: bytes | str) -> bytes:
    """The base with a value spelled by hand."""
    return _fill(put(place, "@@"), b'"@@"', spelling)


def member(place: str, spelling: bytes | str) -> bytes:
    """The base with one more member, spelled by hand, at the end of an object."""
    way = place + "/@@" if place else "/@@"
    return _fill(put(way, 0), b'"@@": 0', spelling)


def swap(old: str, new: bytes | str) -> bytes:
    """The base with a part of its text replaced."""
    return _fill(text(BASE), old.encode(), new)


def _fill(line: bytes, hole: bytes, spelling: bytes | str) -> bytes:
    assert line.count(hole) == 1, (hole, line)
    return line.replace(hole, spelling.encode() if isinstance(spelling, str) else spelling)


def reject(name: str, line: bytes, code: str, path: str = "", *, around: bool = False) -> None:
    """A case that must be quarantined."""
    CASES.append(Case(name, line, Fault(code, path, around)))


def accept(name: str, line: bytes, **findings: tuple[int, int | set[int | None] | None]) -> None:
    """A case that must be accepted; findings are spelled with `_` for the dot."""
    listed = {
        code.replace("_", ".", 1): (count, seqs if isinstance(seqs, set) else {seqs})
        for code, (count, seqs) in findings.items()
    }
    CASES.append(Case(name, line, None, listed))


# --- the schema -----------------------------------------------------------------------------------

accept("base", text(BASE))

for _key in ("trace_id", "task_id", "edges", "rewards", "costs"):
    reject(f"missing {_key}", drop(f"/{_key}"), "field.missing")
reject("missing events", drop("/events", edges=[]), "field.missing")
for _key in ("id", "t", "type", "agent"):
    reject(f"missing event {_key}", drop(f"{SPARE}/{_key}"), "field.missing", SPARE)
for _key in ("src", "dst", "type"):
    reject(f"missing edge {_key}", drop(f"/edges/1/{_key}"), "field.missing", "/edges/1")
for _key in ("tokens", "wall_clock_s"):
    reject(f"missing cost {_key}", drop(f"/costs/{_key}"), "field.missing", "/costs")
for _key in ("system", "topology", "metrics", "costs/tool_calls", "costs/messages"):
    accept(f"without {_key}", drop(f"/{_key}"))
for _key in ("role", "from", "to", "tool", "content_ref", "trusted"):
    accept(f"without event {_key}", drop(f"{SPARE}/{_key}"))

_WRONG: dict[str, list[Any]] = {
    "/trace_id": [7, None, True, ["x"], {}],
    "/task_id": [7, None, {"a": 1}],
    "/system": [7, None, []],
    "/topology": [7, None, ["swarm"]],
    "/edges": [{}, None, "x", 1],
    "/rewards": [[], None, "x", 1],
    "/costs": [[], None, "x", 1],
    "/metrics": [[], None, "x", 1],
    SPARE: [7, None, "x", [], True],
    f"{SPARE}/id": [7, None, False, []],
    f"{SPARE}/t": ["1", None, True, False, [], {}],
    f"{SPARE}/type": [7, None, {}],
    f"{SPARE}/agent": [7, None, True, []],
    f"{SPARE}/role": [7, None, []],
    f"{SPARE}/from": [7, None, {}],
    f"{SPARE}/to": [7, None, True],
    f"{SPARE}/tool": [7, None, ["bash"]],
    f"{SPARE}/content_ref": [7, None, {}],
    f"{SPARE}/trusted": [1, 0, None, "true", []],
    "/edges/1": [7, None, "e1", ["e1", "e2", "causal"]],
    "/edges/1/src": [1, None, ["e1"]],
    "/edges/1/dst": [1, None, {}],
    "/edges/1/type": [7, None, []],
    "/rewards/team": ["1", None, True, False, [], {}],
    "/costs/tokens": ["1", None, True, []],
    "/costs/wall_clock_s": ["1", None, False],
    "/costs/tool_calls": ["1", None, True],
    "/costs/usd": ["1", None, True],
    "/metrics/task_success": ["1", None, True, {}],
}
for _place, _values in _WRONG.items():
    for _value in _values:
        reject(f"type {_place} {json.dumps(_value)}", put(_place, _value), "field.type", _place)
for _value in ({}, None, "x"):
    reject(f"type /events {json.dumps(_value)}", put("/events", _value, edges=[]), "field.type", "/events")

for _place, _words in {
    "/topology": ["ring", "", "Swarm", "swarm "],
    f"{SPARE}/type": ["stop", "", "Message", "tool call", "causal"],
    "/edges/1/type": ["weak", "", "Causal", "tool_call"],
}.items():
    for _word in _words:
        reject(f"word {_place} {_word!r}", put(_place, _word), "field.enum", _place)

for _place, _values in {
    f"{SPARE}/t": [-1, -0.5, -5e-324, -1e308],
    "/costs/tokens": [-1, -1e-9],
    "/costs/wall_clock_s": [-0.001],
    "/costs/tool_calls": [-1],
    "/costs/messages": [-1],
    "/costs/usd": [-1, -0.01],
}.items():
    for _value in _values:
        reject(f"minimum {_place} {_value}", put(_place, _value), "field.minimum", _place)
reject("minimum under an escaped pointer", member("/costs", '"a/b~c": -1'), "field.minimum", "/costs/a~1b~0c")
for _spelling in (
    "-0",
    "-0.0",
    "-0e5",
    "0.0",
    "1e308",
    "1.7976931348623157e308",
    "5e-324",
    "1E2",
    "1e+2",
    "1e-400",
):
    accept(f"t {_spelling}", literal(f"{SPARE}/t", _spelling))
accept("negative reward", put("/rewards/team", -3.5))
accept("negative metric", put("/metrics/uplift", -3.5))
accept("cost of minus zero", literal("/costs/usd", "-0.0"))

reject("no events", put("/events", [], edges=[]), "field.empty", "/events")
for _place in ("/trace_id", "/task_id", f"{SPARE}/id", f"{SPARE}/agent", "/edges/1/src", "/edges/1/dst"):
    reject(f"empty {_place}", put(_place, ""), "field.empty", _place)
for _key in ("role", "from", "to", "tool", "content_ref"):
    accept(f"empty text {_key}", put(f"{SPARE}/{_key}", ""))
accept("empty system", put("/system", ""))
accept("no edges", put("/edges", []))
accept("no rewards", put("/rewards", {}))
accept("no metrics", put("/metrics", {}))
accept("measure without a name", member("/metrics", '"": 1'))

reject("id twice", put(f"{SPARE}/id", "e1"), "id.duplicate", f"{SPARE}/id")
reject("id twice, spelled otherwise", literal(f"{SPARE}/id", r'"\u00651"'), "id.duplicate", f"{SPARE}/id")
accept("id differs in case", put(f"{SPARE}/id", "E1"))
accept("id with a zero character", literal(f"{SPARE}/id", r'"e1\u0000"'))
for _end in ("src", "dst"):
    reject(f"dangling {_end}", put(f"/edges/1/{_end}", "e9"), "edge.unknown", f"/edges/1/{_end}")
reject("edge to another case", put("/edges/1/dst", "E3"), "edge.unknown", "/edges/1/dst")
reject("edge to a prefix", put("/edges/0/src", "e"), "edge.unknown", "/edges/0/src")
reject("edge to an agent", put("/edges/1/src", "lead"), "edge.unknown", "/edges/1/src")
accept("edge end spelled otherwise", literal("/edges/1/dst", r'"\u0065\u0033"'))
accept("edge twice", put("/edges/0", {"src": "e2", "dst": "e3", "type": "message"}))

reject("forbidden in trace", member("", '"note": 1'), "field.forbidden", "/note")
reject("forbidden x_ in trace", member("", '"x_trace": {}'), "field.forbidden", "/x_trace")
reject("forbidden by case", member("", '"Trace_id": "x"'), "field.forbidden", "/Trace_id")
reject("forbidden with a slash", member("", '"a/b~c": 1'), "field.forbidden", "/a~1b~0c")
reject("forbidden without a name", member("", '"": 1'), "field.forbidden", "/")
reject("forbidden in edge", member("/edges/0", '"weight": 1'), "field.forbidden", "/edges/0/weight")
reject(
    "forbidden x_ in edge",
    member("/edges/1", '"x_confidence": 0.5'),
    "field.forbidden",
    "/edges/1/x_confidence",
)
accept("unknown in event", member(SPARE, '"weight": {"a": [1, null, "x", true]}'))
accept("unknown in event without a name", member(SPARE, '"": 1'))
accept(
    "columns of tables as event fields", member(SPARE, '"seq": 9, "trace": "x", "extras": {"a": 1}, "x": 0')
)
accept("trace keys as event fields", member(SPARE, '"trace_id": null, "events": [], "src": 1'))


# --- the order and the spelling of keys -------------------------------------------------------------

accept("edges before events", text({key: BASE[key] for key in reversed(BASE)}))
accept("event keys in reverse", put(SPARE, dict(reversed(BASE["events"][3].items()))))
accept("edge keys in reverse", put("/edges/0", {"type": "causal", "dst": "e2", "src": "e1"}))
accept(
    "escaped keys",
    swap('"trace_id"', r'"tr\u0061ce_id"').replace(b'"agent": "w", "role"', rb'"\u0061gent": "w", "role"'),
)
accept("escaped word", swap('"tool_call"', r'"tool\u005fcall"'))
accept("all escapes", literal(f"{SPARE}/agent", r'"\"\\\/\b\f\n\r\t\u00e9"'))
accept("surrogate pair", literal(f"{SPARE}/agent", r'"\ud83e\udd16"'))
accept("surrogate pair in a key", member(SPARE, r'"x_\ud83e\udd16": 1'))
accept("raw text beyond the basic plane", literal(f"{SPARE}/agent", '"計画 🤖 é"'))
accept("raw noncharacters", literal(f"{SPARE}/agent", '"\ufffe\uffff\U0010ffff\u2028\x7f"'))
accept("white space of every kind", swap('{"trace_id": ', '  {\t"trace_id"\r \t:\t ') + b" \t\r")
accept("no white space", json.dumps(BASE, separators=(",", ":")).encode())


# --- text that is not JSON --------------------------------------------------------------------------

_T = f"{SPARE}/t"
for _spelling in [
    "+1",
    ".5",
    "1.",
    "01",
    "-01",
    "00",
    "0x1",
    "1e",
    "1e+",
    "1.e5",
    "-",
    "--1",
    "1_000",
    "1,5e",
    "1d",
    "0b1",
    "½",
    "١",
]:
    reject(f"number {_spelling}", literal(_T, _spelling), "json.syntax", _T, around=True)
for _name, _spelling in {
    "bare word": "later",
    "Python true": "True",
    "Python none": "None",
    "undefined": "undefined",
    "lower-case nan": "nan",
    "cut literal": "tru",
    "literal with a tail": "truex",
    "single quotes": "'1'",
    "value missing": "",
    "two values": "1 2",
    "unbalanced bracket": "[1}",
    "trailing comma in array": "[1,]",
    "leading comma in array": "[,1]",
    "double comma in array": "[1,,2]",
    "block comment": "1 /* one */",
    "line comment": "1 // one",
    "no-break space": "\u00a01",
    "form feed": "\f1",
    "vertical tab": "\v1",
    "zero byte": "\0 1",
    "BOM inside": "\ufeff1",
    "back quotes": "`1`",
}.items():
    reject(_name, literal(f"{SPARE}/x_note", _spelling), "json.syntax", f"{SPARE}/x_note", around=True)
for _name, _spelling in {
    "raw control character": '"a\x01b"',
    "raw tab": '"a\tb"',
    "raw zero": '"a\0b"',
    "bad escape": r'"a\x41"',
    "escaped single quote": r'"a\'b"',
    "long escape": r'"\U00000041"',
    "cut \\u": r'"\u12"',
    "bad hex in \\u": r'"\u12g4"',
    "braced \\u": r'"\u{41}"',
    "signed \\u": r'"\u+041"',
    "quote in text": '"a"b"',
    "backslash eats the quote": '"a\\"',
}.items():
    for _key in ("agent", "x_note"):
        _place = f"{SPARE}/{_key}"
        reject(f"{_name} in {_key}", literal(_place, _spelling), "json.syntax", _place, around=True)
for _name, _spelling in {
    "missing colon": '"a" 1',
    "two colons": '"a":: 1',
    "unquoted key": "a: 1",
    "number as key": "1: 1",
    "single-quoted key": "'a': 1",
    "key without value": '"a"',
    "trailing comma": '"a": 1,',
    "double comma": '"a": 1,, "b": 2',
    "control character in key": '"a\x02": 1',
    "bad escape in key": r'"\a": 1',
    "comment for member": "/* a */",
    "dots": "...",
}.items():
    # What follows a whole key and its colon is the value of that key.
    _inside = "/a" if _name == "two colons" else ""
    reject(f"{_name} in event", member(SPARE, _spelling), "json.syntax", SPARE + _inside, around=True)
    reject(f"{_name} in map", member("/rewards", _spelling), "json.syntax", "/rewards" + _inside, around=True)
reject("missing comma", swap('"n"}', '"n"} {}'), "json.syntax", "/events", around=True)
reject("leading comma", swap('{"trace_id"', '{,"trace_id"'), "json.syntax")
reject("unclosed brace", text(BASE)[:-1], "json.syntax")
reject(
    "unclosed text", text(BASE)[: text(BASE).index(b"mutated") + 3], "json.syntax", "/trace_id", around=True
)
reject("unclosed array", text(BASE)[: text(BASE).index(b"]")], "json.syntax", "/events", around=True)
reject("wrong closing bracket", text(BASE)[:-1] + b"]", "json.syntax")
reject("only an opening brace", b"{", "json.syntax")
reject("only a quote", b'"', "json.syntax")
reject("a word", b"hello", "json.syntax")
reject("a comment", b"# generated", "json.syntax")
reject("an empty escape", b"\\", "json.syntax")

reject("word after the object", text(BASE) + b" x", "json.trailing")
reject("comma after the object", text(BASE) + b",", "json.trailing")
reject("brace after the object", text(BASE) + b"}", "json.trailing")
reject("comment after the object", text(BASE) + b" // done", "json.trailing")

for _name, _line in {
    "array": b"[]",
    "array of traces": b"[" + text(BASE) + b"]",
    "text": b'"x"',
    "number": b"1",
    "negative float": b"-1.5e3",
    "null": b"null",
    "true": b"true",
}.items():
    reject(f"record is {_name}", _line, "record.not_object")


# --- JSON that is ambiguous -------------------------------------------------------------------------

for _spelling in ("NaN", "Infinity", "-Infinity"):
    for _place in (_T, "/rewards/team", "/costs/tokens", "/metrics/task_success", f"{SPARE}/duration_s"):
        reject(f"{_spelling} {_place}", literal(_place, _spelling), "number.nan", _place)
    _place = f"{SPARE}/x_note"
    reject(f"{_spelling} unknown", literal(_place, _spelling), "number.nan", _place, around=True)
    reject(
        f"{_spelling} deep",
        literal(_place, f'{{"a": [1, {_spelling}]}}'),
        "number.nan",
        f"{_place}/a/1",
        around=True,
    )

for _place, _key, _again in (
    ("", "trace_id", '"trace_id": "other"'),
    ("", "trace_id", r'"tr\u0061ce_id": "mutated"'),
    ("", "events", '"events": []'),
    ("", "rewards", '"rewards": {}'),
    (SPARE, "id", '"id": "spare2"'),
    (SPARE, "id", r'"\u0069d": "spare"'),
    (SPARE, "t", '"t": 2.5'),
    (SPARE, "tokens", '"tokens": 41'),
    (SPARE, "x_note", '"x_note": "m"'),
    (SPARE, "x_note", r'"x\u005fnote": "n"'),
    (SPARE, "x_note", '"x_note": null'),
    ("/edges/1", "type", '"type": "causal"'),
    ("/edges/1", "src", r'"\u0073rc": "e1"'),
    ("/rewards", "team", '"team": 1'),
    ("/rewards", "process", r'"proces\u0073": 2'),
    ("/costs", "tokens", '"tokens": 10'),
    ("/metrics", "task_success", '"task_success": 0'),
):
    reject(f"repeated {_place} {_again}", member(_place, _again), "json.duplicate_key", f"{_place}/{_key}")
reject(
    "repeated unknown keys",
    member(SPARE, '"x_a": 1, "x_b": 2, "x_a": 1'),
    "json.duplicate_key",
    f"{SPARE}/x_a",
)
reject(
    "repeated cost under an escaped pointer",
    member("/costs", r'"a/b": 1, "a\/b": 2'),
    "json.duplicate_key",
    "/costs/a~1b",
)
accept(
    "repeated inside an unknown value", member(SPARE, '"x_deep": {"a": 1, "a": 2, "b": [{"c": 1, "c": 1}]}')
)
accept("one key at several levels", member(SPARE, '"events": 1, "costs": {"tokens": 1}'))

for _name, _bytes in {
    "stray byte": b"\xff",
    "stray continuation": b"\x80",
    "cut sequence": b"\xe2\x82",
    "overlong slash": b"\xc0\xaf",
    "overlong three": b"\xe0\x80\x80",
    "raw surrogate": b"\xed\xa0\x80",
    "raw surrogate pair": b"\xed\xa0\xbe\xed\xb4\x96",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "latin-1": b"caf\xe9",
}.items():
    for _key in ("agent", "x_note"):
        _place = f"{SPARE}/{_key}"
        reject(
            f"{_name} in {_key}", literal(_place, b'"a' + _bytes + b'b"'), "utf8.invalid", _place, around=True
        )
reject("stray byte in a key", member(SPARE, b'"a\xffb": 1'), "utf8.invalid", SPARE, around=True)
reject(
    "stray byte deep inside",
    member(SPARE, b'"x": {"y": ["\xff"]}'),
    "utf8.invalid",
    f"{SPARE}/x/y/0",
    around=True,
)
reject("stray byte between values", literal(_T, b"\xff 1"), "utf8.invalid", _T, around=True)
reject("stray byte after the object", text(BASE) + b"\xff", "utf8.invalid")

for _name, _spelling in {
    "high surrogate": r"\ud800",
    "low surrogate": r"\udc00",
    "high at the end": r"x\udbff",
    "high before text": r"\ud83ex",
    "high before another escape": r"\ud83e\n",
    "high before a plain escape": r"\ud83e\u0041",
    "high twice": r"\ud83e\ud83e\udd16",
    "halves in the wrong order": r"\udd16\ud83e",
    "capital hex": r"\uDFFF",
}.items():
    for _key in ("agent", "x_note", "content_ref"):
        _place = f"{SPARE}/{_key}"
        reject(f"{_name} in {_key}", literal(_place, f'"{_spelling}"'), "utf8.invalid", _place, around=True)
    reject(f"{_name} in a key", member(SPARE, f'"x_{_spelling}": 1'), "utf8.invalid", SPARE, around=True)
    reject(
        f"{_name} in a reward",
        member("/rewards", f'"x_{_spelling}": 1'),
        "utf8.invalid",
        "/rewards",
        around=True,
    )
    _place = f"{SPARE}/x_note"
    reject(
        f"{_name} deep",
        literal(_place, f'{{"a": ["{_spelling}"]}}'),
        "utf8.invalid",
        f"{_place}/a/0",
        around=True,
    )
    reject(
        f"{_name} deep in a key",
        literal(_place, f'[{{"{_spelling}": 1}}]'),
        "utf8.invalid",
        f"{_place}/0",
        around=True,
    )

for _name, _spelling in {
    "1e400": "1e400",
    "-1e400": "-1e400",
    "1e309": "1e309",
    "just too large": "1.797693134862315808e308",
    "400 digits": "1" + "0" * 399,
    "400 digits, negative": "-" + "9" * 400,
    "5000 digits": "7" * 5000,
}.items():
    for _place in (
        _T,
        "/rewards/team",
        "/costs/usd",
        "/metrics/task_success",
        f"{SPARE}/duration_s",
        f"{SPARE}/score",
    ):
        reject(f"{_name} {_place}", literal(_place, _spelling), "number.range", _place)
    if len(_spelling) < 1_000:  # Python's own reader refuses integers of more than 4,300 digits
        accept(f"{_name} unknown", literal(f"{SPARE}/x_note", _spelling))
        accept(f"{_name} deep", literal(f"{SPARE}/x_note", f'{{"a": [1, {_spelling}]}}'))


# --- limits -------------------------------------------------------------------------------------------


def nested(levels: int, *, objects: bool = False) -> str:
    """An unknown value of so many levels; the record, its events and the event are three more."""
    if objects:
        return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)
    return "[" * levels + "]" * levels


for _objects in (False, True):
    _what = "objects" if _objects else "arrays"
    _place = f"{SPARE}/x_deep"
    accept(f"128 levels of {_what}", literal(_place, nested(125, objects=_objects)))
    reject(
        f"129 levels of {_what}",
        literal(_place, nested(126, objects=_objects)),
        "json.depth",
        _place,
        around=True,
    )
    reject(
        f"1,000 levels of {_what}",
        literal(_place, nested(1_000, objects=_objects)),
        "json.depth",
        _place,
        around=True,
    )
    reject(
        f"100,000 levels of {_what}",
        literal(_place, nested(100_000, objects=_objects)),
        "json.depth",
        _place,
        around=True,
    )
reject("100,000 levels for a record", nested(100_000).encode(), "json.depth")
accept("brackets in text are no levels", literal(f"{SPARE}/x_note", '"' + "[" * 1_000 + '"'))
accept("brackets after an escaped quote", literal(f"{SPARE}/x_note", '"\\"' + "{[" * 500 + '"'))
accept("1,000 siblings are no levels", literal(f"{SPARE}/x_note", "[" + ",".join(["[]"] * 1_000) + "]"))


# --- odd but valid --------------------------------------------------------------------------------------

for _key in ("duration_s", "t_end", "cost_usd", "score", "reward", "draft_score", "value", "p_behavior"):
    accept(f"{_key} 3.0", put(f"{SPARE}/{_key}", 3.0))
    accept(f"{_key} 3", put(f"{SPARE}/{_key}", 3))
    for _value in (None, True, "3", [3], {}):
        accept(f"{_key} {json.dumps(_value)}", put(f"{SPARE}/{_key}", _value), field_ignored=(1, 3))
for _key in ("t_end", "score", "reward", "draft_score", "value", "p_behavior"):
    accept(f"{_key} negative", put(f"{SPARE}/{_key}", -1.5))
accept("duration_s negative", put(f"{SPARE}/duration_s", -1), field_ignored=(1, 3))
accept("cost_usd negative", put(f"{SPARE}/cost_usd", -0.5), field_ignored=(1, 3))
accept("duration_s of minus zero", literal(f"{SPARE}/duration_s", "-0.0"))
_NOT_ADDED = ("tokens", "tokens_reasoning", "tokens_cache_write_1h", "turn")
for _key, _top in (
    ("tokens_in", 2**63 - 1),
    ("tokens_fresh", 2**63 - 1),
    ("tokens_cached", 2**63 - 1),
    ("tokens_cache_write", 2**63 - 1),
    ("tokens_out", 2**63 - 1),
    ("tokens_reasoning", 2**63 - 1),
    ("tokens", 2**63 - 1),
    ("tokens_cache_write_1h", 2**63 - 1),
    ("turn", 2**32 - 1),
):
    for _spelling in ("0", "3", "3.0", "30e-1", "1e3", "0.0", str(_top)):
        # the event has 40 tokens in all
        _more = _key not in _NOT_ADDED and float(_spelling) > 40
        _told: dict[str, Any] = {"usage_conflict": (1, 3)} if _more else {}
        accept(f"{_key} {_spelling}", literal(f"{SPARE}/{_key}", _spelling), **_told)
    for _spelling in ("-1", "-1.0", "3.5", "1e-3", str(_top + 1), "1e30", "null", "true", '"3"', "[3]"):
        accept(f"{_key} {_spelling}", literal(f"{SPARE}/{_key}", _spelling), field_ignored=(1, 3))
for _name, _counts in {
    "a total that is another": {"tokens_in": 30, "tokens_out": 9},
    "input without its cache": {"tokens_in": 2, "tokens_cached": 30, "tokens_out": 8},
    "input that is no sum": {"tokens_in": 40, "tokens_fresh": 2, "tokens_cached": 30},
    "output without its reasoning": {"tokens_out": 5, "tokens_reasoning": 9},
}.items():
    accept(_name, member(SPARE, json.dumps(_counts)[1:-1]), usage_conflict=(1, 3))
accept("parts of all tokens", member(SPARE, '"tokens_in": 30, "tokens_cached": 20, "tokens_out": 10'))
accept("tokens 1e18", literal(f"{SPARE}/tokens", "1e18"))
accept("tokens beyond 2**53 stay exact", put(f"{SPARE}/tokens", 2**53 + 1))
for _key in [
    "model",
    "action",
    "state_key",
    "prefix_key",
    "subtask_id",
    "content_hash",
    "args_hash",
    "harness_hash",
    "sandbox_id",
    "group_id",
]:
    for _value in ("k", ""):
        accept(f"{_key} {_value!r}", put(f"{SPARE}/{_key}", _value))
    for _value in (None, 3, False, ["k"]):
        accept(f"{_key} {json.dumps(_value)}", put(f"{SPARE}/{_key}", _value), field_ignored=(1, 3))
for _key in ("ok", "corrupted", "sanitizer", "privileged", "trainable"):
    for _value in (True, False):
        accept(f"{_key} {_value}", put(f"{SPARE}/{_key}", _value))
    for _value in (None, 1, 0, "true", {}):
        accept(f"{_key} {json.dumps(_value)}", put(f"{SPARE}/{_key}", _value), field_ignored=(1, 3))
for _value in ([], [0.5, 0.5], [1], [0.25, 1e-3, 0]):
    accept(f"p_actions {_value}", put(f"{SPARE}/p_actions", _value))
for _value in (None, 0.5, "x", {}, ["a"], [0.5, None], [True], [[0.5]]):
    accept(f"p_actions {json.dumps(_value)}", put(f"{SPARE}/p_actions", _value), field_ignored=(1, 3))


def events(*changed: tuple[int, dict[str, Any]], **more: Any) -> bytes:
    """The base with fields of several events changed, and other top-level values."""
    document = copy.deepcopy(BASE)
    for at, fields in changed:
        document["events"][at] |= fields
    return text(document | more)


def edges(*added: tuple[str, str]) -> bytes:
    """The base with more causal edges."""
    return put("/edges", BASE["edges"] + [{"src": src, "dst": dst, "type": "causal"} for src, dst in added])


accept("ignored several times", events((1, {"ok": 1, "score": "x"}), (3, {"turn": -1})), field_ignored=(3, 1))
_odd = 2**53 + 1
accept("rounded t", put(_T, _odd), number_rounded=(1, 3))
accept("rounded t, large", put(_T, 10**23), number_rounded=(1, 3))
accept("not rounded: even", put(_T, _odd + 1))
accept("not rounded: 10**22", put(_T, 10**22))
accept("rounded reward", put("/rewards/team", _odd), number_rounded=(1, None))
accept("rounded negative reward", put("/rewards/team", -_odd), number_rounded=(1, None))
accept("rounded cost", put("/costs/tokens", _odd), number_rounded=(1, None))
accept("rounded metric", put("/metrics/seed", _odd), number_rounded=(1, None))
accept("rounded score", put(f"{SPARE}/score", _odd), number_rounded=(1, 3))
accept("rounded in p_actions", put(f"{SPARE}/p_actions", [0.5, _odd, _odd]), number_rounded=(1, 3))
accept("not rounded in p_actions", put(f"{SPARE}/p_actions", [_odd - 1]))
accept("rounded in p_actions that do not count", put(f"{SPARE}/p_actions", [_odd, "x"]), field_ignored=(1, 3))
accept("rounded twice", events((2, {"t": _odd}), (3, {"t": _odd, "value": _odd})), number_rounded=(3, 2))
accept("large integer unknown", put(f"{SPARE}/x_note", 10**30 + 1))

accept("group", events((0, {"group_id": "g"}), (2, {"group_id": "g"})))
accept("group conflict", events((0, {"group_id": "g"}), (2, {"group_id": "h"})), group_conflict=(1, 2))
accept(
    "group by time",
    events((0, {"group_id": "g", "t": 0.9}), (2, {"group_id": "h", "t": 0.1})),
    group_conflict=(1, 0),
    time_reversed=(1, {1}),
)
accept("group named late", events((1, {"group_id": ""}), (3, {"group_id": "h"})), group_conflict=(1, 3))

accept("time reversed", edges(("spare", "e1")), time_reversed=(1, {0, 3}))
accept(
    "time reversed, by row",
    edges(("e3", "spare"), ("spare", "e2"), ("spare", "e2"), ("spare", "e1")),
    time_reversed=(3, {1, 3}),
    graph_cycle=(1, {0, 1, 2, 3}),
)
accept("self-loop", edges(("spare", "spare")), graph_cycle=(1, 3))
accept(
    "cycle at one time",
    events(
        (0, {"t": 1}),
        edges=[
            {"src": "e1", "dst": "e2", "type": "causal"},
            {"src": "e2", "dst": "e1", "type": "temporal"},
        ],
    ),
    graph_cycle=(1, {0, 1}),
)
accept("diamond is no cycle", edges(("e1", "spare"), ("e3", "spare"), ("e1", "e3")))
accept("parallel edges are no cycle", edges(("e1", "e2"), ("e1", "e2")))
accept("equal times", events((0, {"t": 2.5}), (1, {"t": 2.5}), (2, {"t": 2.5})))
accept("events out of time order", events((3, {"t": 0.5})))

ACCEPTED_LINES = [case.line for case in CASES if case.fault is None]
