"""Names that say nothing, in the package and in the core: `python .ci/words.py [--list]`.

A variable is a noun for what it holds, a function a verb for what it does. The words of DENIED are neither:
each meant ten things before. They may not be the whole name of a variable, a parameter, a function or a type.
What still has one is counted in `.ci/words.json`, room by room; the counts may only fall, and `--write`
records that they have.
"""

import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PACKAGE = TREE / "python" / "orchestrace"
CORE = TREE / "rust" / "orchestrace-core" / "src"
RECORD = TREE / ".ci" / "words.json"
DENIED = frozenset(
    {
        *("told", "tell", "tells", "found", "made", "given", "asked", "said", "one", "own", "kept", "known"),
        *("there", "whole", "odd", "fate", "what"),
    }
)
_STRING = re.compile(r"""'"'|"(?:[^"\\]|\\.)*"|r#".*"#""")
_BOUND = re.compile(r"\b(?:let(?: mut)?|fn|struct|enum|type|trait|for) (\w+)\b|[(|,] ?&?(?:mut )?(\w+): ")


def python_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of whatever a module binds."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def rust_names(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of variables, parameters, functions and types of a file."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        code = _STRING.sub("", line).partition("//")[0]
        yield from ((number, found[1] or found[2]) for found in _BOUND.finditer(code))


def denied() -> Iterator[tuple[str, str]]:
    """Room and place of every name that is one of DENIED."""
    for folder, pattern, names in ((PACKAGE, "*.py", python_names), (CORE, "*.rs", rust_names)):
        for path in sorted(folder.rglob(pattern)):
            inner = path.relative_to(folder)
            room = f"{folder.name}/{inner.parts[0].partition('.')[0]}"
            for line, name in names(path):
                if name.strip("_").lower() in DENIED:
                    yield room, f"{path.relative_to(TREE)}:{line}: {name}"


def main() -> None:
    places = list(denied())
    counts = Counter(room for room, _ in places)
    if "--list" in sys.argv:
        print("\n".join(place for _, place in places))
    if "--write" in sys.argv:
        RECORD.write_text(json.dumps(dict(sorted(counts.items())), indent=1) + "\n", encoding="utf-8")
        return
    allowed = json.loads(RECORD.read_text(encoding="utf-8"))
    worse = {room: count for room, count in counts.items() if count > allowed.get(room, 0)}
    for room, count in worse.items():
        print(f"{room} has {count} names that say nothing, expected at most {allowed.get(room, 0)}:")
        print("\n".join(f"  {place}" for where, place in places if where == room))
    if not worse:
        print(f"{sum(counts.values())} names say nothing, of {sum(allowed.values())} that were there")
    sys.exit(bool(worse))


if __name__ == "__main__":
    main()
