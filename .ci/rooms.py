"""Whether imports of the Python package go one way: `python .ci/rooms.py`.

A room imports from rooms that come before it in ROOMS, and from itself without going round in a circle.
Nothing of the package is imported inside a function; of other packages, those in LATE are. What only a type
checker reads is left out.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "orchestrace"
#: From the ground up. A file that lies beside the rooms is a room of its own.
ROOMS = (
    "base",
    "corpus",
    "disk",
    "statistics",
    "games",
    "interventions",
    "decisions",
    "synthetic",
    "schedules",
    "credit",
    "replay",
    "outcomes",
    "metrics",
    "safety",
    "evaluation",
    "effects",
    "summaries",
    "scaling",
    "trainers",
    "exports",
    "mapping",
    "study",
    "",  # the names at the top
    "cli",
)
#: Packages that a function may import, and why.
LATE = {
    "altair": "optional",
    "pyarrow": "optional",
    "rich": "needed for a bar alone, and slow to import",
    "scipy": "slow to import, needed by estimates alone",
    "sklearn": "optional",
    "threadpoolctl": "optional",
    "vl_convert": "optional",
}


def imports(module: str, tree: ast.Module, is_package: bool) -> Iterator[tuple[str, str, int, bool]]:
    """Module, name, line, and whether it is inside a function, of every import that runs."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    unread = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for one in branch.body
        for node in ast.walk(one)
    }
    for node in ast.walk(tree):
        if id(node) in unread or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        late = id(node) in inside
        if isinstance(node, ast.Import):
            yield from ((alias.name, "", node.lineno, late) for alias in node.names)
            continue
        place = node.module or ""
        if node.level:
            parts = module.split(".") if module else []
            parts = parts if is_package else parts[:-1]
            parts = parts[: len(parts) - node.level + 1]
            place = ".".join(["orchestrace", *parts, *([node.module] if node.module else [])])
        yield from ((place, alias.name, node.lineno, late) for alias in node.names)


def circle(edges: dict[str, set[str]]) -> list[str]:
    """Some modules that import each other, in the order in which they do."""
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str]:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return []
        for other in sorted(edges.get(module, ())):
            if found := visit(other, [*path, module]):
                return found
        done.add(module)
        return []

    for module in sorted(edges):
        if found := visit(module, []):
            return found
    return []


def faults() -> Iterator[str]:
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    rooms = {module: module.split(".")[0] for module in files}
    for room in sorted(set(rooms.values()) - set(ROOMS)):
        yield f"{PACKAGE / room}: the room is not in ROOMS of .ci/rooms.py"
    rank = {room: place for place, room in enumerate(ROOMS)}
    edges: dict[str, set[str]] = {}
    for module, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for place, name, line, late in imports(module, tree, path.name == "__init__.py"):
            where = f"{path.relative_to(PACKAGE.parents[1])}:{line}"
            whole, _, inner = place.partition(".")
            if whole != "orchestrace":
                if late and whole not in LATE and whole not in sys.stdlib_module_names:
                    yield f"{where}: {whole} is imported inside a function, expected at the top or in LATE"
                continue
            target = f"{inner}.{name}".strip(".")
            target = target if target in files else inner
            if late:
                yield f"{where}: {target} is imported inside a function, expected at the top of the module"
            if name == "_core":
                continue
            to = target.split(".")[0]
            here = rooms[module]
            if to in rank and rank[to] > rank.get(here, len(ROOMS)):
                yield f"{where}: {here or 'the top'} imports from {to}, which comes after it in ROOMS"
            if target in files and target != module:
                edges.setdefault(module, set()).add(target)
    if found := circle(edges):
        yield f"modules that import each other: {' -> '.join(found)}"


def main() -> None:
    found = list(faults())
    print("\n".join(found) or "imports go one way")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
