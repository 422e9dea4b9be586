"""Damage to recordings that is the same for the same seed, and the recordings that it is done to.

Sources are the golden inputs of `data/importers` and, where ORCHESTRACE_CORPORA names a folder, published
files of bounded size.
"""

import copy
import functools
import hashlib
import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDENS = Path(__file__).parents[2] / "data" / "importers"
LONGEST = 64 << 10  # bytes of a published file that is taken whole


@dataclass(frozen=True)
class Document:
    """A recording as a file has it."""

    format: str
    name: str
    data: bytes

    @property
    def mapping(self) -> dict[str, Any] | None:
        """What tells the fields of a custom format."""
        return house() if self.format == "mapping" else None


@functools.cache
def house() -> dict[str, Any]:
    return dict(json.loads((GOLDENS / "mapping" / "mapping.json").read_bytes()))


@functools.cache
def goldens() -> tuple[Document, ...]:
    """Every golden input, a file each."""
    found = []
    for folder in sorted(GOLDENS.iterdir()):
        inputs = [path for path in (*folder.glob("input.*"), *folder.glob("input/**/*")) if path.is_file()]
        found += [Document(folder.name, path.name, path.read_bytes()) for path in sorted(inputs)]
    return tuple(one for one in found if one.data)


def published(chance: random.Random, number: int) -> list[Document]:
    """Some of the published files, or the beginning of their lines; none where they are not at hand."""
    folder = os.environ.get("ORCHESTRACE_CORPORA")
    if not folder:
        return []
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    paths = [path for path in paths if path.suffix in (".json", ".jsonl", ".ndjson")]
    some = []
    for path in chance.sample(paths, min(number, len(paths))):
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            data = data[: data.rfind(b"\n") + 1]
        if data:
            some.append(Document("auto", path.name, data))
    return some


# --- identity ---

HASH = re.compile(r"[0-9a-f]{16,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@functools.lru_cache(1024)
def ids(data: bytes) -> tuple[str, ...]:
    """What the recording calls itself and its records: values of keys that end in `id`, the longest first."""
    found: set[str] = set()
    for text in (data, *data.splitlines()):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        for one, key in places(value):
            named = isinstance(key, str) and key.lower().endswith(("id", "ids"))
            if named and isinstance(one[key], str) and len(one[key]) > 3:
                found.add(one[key])
        if text is data:
            break
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def renamed(document: Document, name: str) -> Document:
    """The recording under ids of its own, so that none of its records is one of another recording."""
    data = document.data
    for old in ids(data):
        if HASH.fullmatch(old):
            new = hashlib.sha256(f"{name}/{old}".encode()).hexdigest()[: len(old)]
            spread = "".join("-" if there == "-" else here for here, there in zip(new, old, strict=False))
            data = data.replace(old.encode(), spread.encode())
        else:
            data = data.replace(json.dumps(old).encode(), json.dumps(f"{name}~{old}").encode())
    return Document(document.format, document.name, data)


# --- bytes ---


def flipped(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def without_a_piece(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.choice((1, 2, 17, 300)) :]


def with_a_piece(chance: random.Random, data: bytes) -> bytes:
    pieces = (
        *(b"\0", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xae", b"\x1b[31m"),
        *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b"\n", b"\r", b"\\ud800", b"NaN", b"-Infinity"),
        *(b"[" * 300, b"{}\n", b"[]\n", b"\n\n", b"\x1f\x8b", b"PK\x03\x04", b"9" * 400, b"\\u0000"),
    )
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(pieces) + data[at:]


def with_a_start(chance: random.Random, data: bytes) -> bytes:
    starts = (b"\xef\xbb\xbf", b"\xff\xfe", b"\n \n", b"{}\n", b"[]\n", b"noise\n", b"\0\0", b"[", b"#\n")
    return chance.choice(starts) + data


def repeated(chance: random.Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    piece = data[start : start + chance.choice((1, 30, 500, len(data)))]
    return data[:start] + piece * 2 + data[start + len(piece) :]


# --- lines ---


def with_other_lines(chance: random.Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    how = chance.randrange(5)
    at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    if how == 0:
        lines[at], lines[other] = lines[other], lines[at]
    elif how == 1:
        del lines[at]
    elif how == 2:
        lines.insert(at, lines[other])
    elif how == 3:
        lines[at] = lines[at].rstrip(b"\r\n")
    else:
        chance.shuffle(lines)
    return b"".join(lines)


def with_other_line_ends(chance: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n", b"\n \n", b"")))


# --- values ---

NUMBERS: tuple[Any, ...] = (
    *(0, -1, -0.5, -0.0, 1, 2, 0.1, 1e308, -1e308, 5e-324, 1 << 31, 1 << 53, (1 << 63) - 1, 1 << 64),
    *(float("nan"), float("inf"), 10**400, "0", "-1", "1e999", "NaN", "", "x", None, True, [], {}, [1], [[]]),
)
TEXTS: tuple[Any, ...] = (
    *("", " ", "\0", "x" * 5000, "\u202e", "\x1b[31m", "é\U0001f916", "-1", "0", "NaN", "1970-01-01", "null"),
    *("9999-12-31T23:59:59Z", "2026-01-01T00:00:60Z", "user", "assistant", "\ufeff", "a/b", "../x", "~0~1"),
    *(0, -1, 1.5, 1e308, None, True, False, [], {}, ["a"], {"a": 1}, [None]),
)
OTHERS: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, "", "x", [], {}, [[]], {"": {}}, [{}], [None])


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every list or object with every place in it."""
    found: list[tuple[Any, Any]] = []
    left = [value]
    while left:
        one = left.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else []
        for key in keys:
            found.append((one, key))
            left.append(one[key])
    return found


def has(value: Any, part: Any) -> bool:
    """Whether a list or an object is the value, or somewhere in it."""
    return value is part or any(one is part for one, _ in places(value))


def one_of(chance: random.Random, values: tuple[Any, ...]) -> Any:
    """One of the values; a list or an object is a new one each time."""
    return copy.deepcopy(chance.choice(values))


def with_another_scalar(chance: random.Random, value: Any) -> None:
    """One leaf says something else, most often of its own type."""
    leaves = [(one, key) for one, key in places(value) if not isinstance(one[key], (dict, list))]
    if leaves:
        one, key = chance.choice(leaves)
        old = one[key]
        number = isinstance(old, (int, float)) and not isinstance(old, bool)
        one[key] = one_of(chance, NUMBERS if number else TEXTS if isinstance(old, str) else OTHERS)


def with_another_type(chance: random.Random, value: Any) -> None:
    found = places(value)
    if found:
        one, key = chance.choice(found)
        old = one[key]
        ways = (one_of(chance, OTHERS), [old], {"x": old}, json.dumps(old), [old, old])
        one[key] = chance.choice(ways)


def without_a_value(chance: random.Random, value: Any) -> None:
    found = places(value)
    if found:
        one, key = chance.choice(found)
        del one[key]


def with_moved_values(chance: random.Random, value: Any) -> None:
    """Two values change places: clocks run backwards, ids name another."""
    found = places(value)
    if found:
        one, key = chance.choice(found)
        others, there = chance.choice([place for place in found if place[1] == key])
        if not (has(one[key], others) or has(others[there], one)):  # nothing moves into itself
            one[key], others[there] = others[there], one[key]


def with_a_clock_that_runs_backwards(chance: random.Random, value: Any) -> None:
    """Times of what has several, the last one first."""
    words = ("time", "start", "end", "_at", "ts", "duration", "date")
    found = [place for place in places(value) if isinstance(place[1], str)]
    times = [place for place in found if any(word in place[1].lower() for word in words)]
    times = [place for place in times if isinstance(place[0][place[1]], (str, int, float))]
    if times:
        some = times[(start := chance.randrange(len(times))) : start + chance.choice((2, 3, len(times)))]
        for (one, key), old in zip(some, [one[key] for one, key in reversed(some)], strict=True):
            one[key] = old


def with_depth(chance: random.Random, value: Any) -> None:
    found = places(value)
    if found:
        one, key = chance.choice(found)
        for _ in range(chance.choice((5, 60, 126, 140))):
            one[key] = [one[key]] if chance.random() < 0.5 else {"a": one[key]}


AGAIN = "\ue000again\ue000"


def with_a_key_twice(chance: random.Random, value: Any) -> None:
    """Marked, since an object in memory has a key once; `spelled` takes the mark away."""
    objects = [one for one, _ in places(value) if isinstance(one, dict)]
    objects += [value] if isinstance(value, dict) and value else []
    if objects:
        one = chance.choice(objects)
        key = chance.choice(list(one))
        one[key + AGAIN] = one_of(chance, (one[key], *OTHERS))


VALUES: tuple[Callable[[random.Random, Any], None], ...] = (
    *(with_another_scalar, with_another_scalar, with_another_scalar, with_another_type, without_a_value),
    *(with_moved_values, with_a_clock_that_runs_backwards, with_depth, with_a_key_twice),
)
BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(flipped, cut, without_a_piece, with_a_piece, with_a_start, repeated),
    *(with_other_lines, with_other_line_ends),
)


def spelled(value: Any) -> bytes:
    return json.dumps(value).replace(json.dumps(AGAIN)[1:-1], "").encode()


def with_other_values(chance: random.Random, data: bytes) -> bytes:
    """The document, or one line of it, with other values."""
    lines = data.splitlines(keepends=True)
    at: int | None = None
    try:
        value = json.loads(data)
    except ValueError:
        at = chance.randrange(len(lines))
        try:
            value = json.loads(lines[at])
        except ValueError:
            return flipped(chance, data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        chance.choice(VALUES)(chance, value)
    if at is None:
        return spelled(value)
    lines[at] = spelled(value) + b"\n"
    return b"".join(lines)


def mutated(chance: random.Random, document: Document) -> Document:
    """The document with some damage; values are hit as often as bytes."""
    data = document.data
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        way = with_other_values if chance.random() < 0.6 else chance.choice(BYTES)
        data = way(chance, data)
    return Document(document.format, document.name, data)
