"""Whether imports of the Python package and of the Rust core go one way: `python .ci/rooms.py`.

A room imports from rooms that come before it in ROOMS or CORE_ROOMS, and a module of Python from modules that
do not import it. A folder of a room may stand above other rooms: ABOVE. Nothing of the package is imported
inside a function; of other packages, those in LATE are. What a package loads when it is asked for counts as
imported: what packages with `load_lazily` have under TYPE_CHECKING, and what `Deferred` and
`import_module` name. Files of a room of the core do not use each other but those of TOGETHER; a file may use
the one that it is a part of, and names that a file offers again are of the file that has them. Left out are
what only a type checker reads and what only tests of Rust use. Importers have like files.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PACKAGE = TREE / "python" / "orchestrace"
CORE = TREE / "rust" / "orchestrace-core" / "src"
#: From the ground up, floor by floor. A floor knows nothing of those above it: the engine is what everybody
#: needs, the laboratory estimates and draws with what the engine offers, and studies are made with both. A
#: file that lies beside the rooms is a room of its own.
FLOORS: dict[str, tuple[str, ...]] = {
    "engine": (
        *("base", "storage", "corpus", "disk", "statistics", "games", "interventions", "decisions"),
        *("schedules", "credit", "replay", "metrics", "safety", "costs", "rewards", "summaries"),
        *("trainers", "exports", "view", "mapping", "distributed"),
    ),
    "laboratory": ("outcomes", "values", "evaluation", "effects", "stopping", "synthetic", "scaling", "plot"),
    "studies": ("study",),
    "doors": ("", "cli"),  # the names at the top, and the command
}
ROOMS = tuple(room for rooms in FLOORS.values() for room in rooms)
#: Folders of a room that stand right above another one, and why. The room itself offers what they make.
ABOVE = {
    "credit.fitted": ("outcomes", "models that are fitted to a corpus; the registry loads them by name"),
    "decisions.tables": ("stopping", "rows of decisions are what effects are of; the table has the effects"),
    "rewards.gaming": ("stopping", "detectors ask for effects and for stops of the runs that a reward pays"),
}
#: Of the Rust core, from the ground up.
CORE_ROOMS = (
    "error",
    "run",
    "rng",
    "registers",
    "schema",
    "json",
    "columns",
    "store",
    "tables",
    "graph",
    "surrogate",
    "assembly",
    "importers",
    "search",
    "ingest",
    "lanes",
    "safety",
    "waste",
    "credit",
    "replay",
    "metrics",
    "rewards",
    "generate",
)
#: `mod tests;`, and what tests share.
TEST_FILES = {"tests", "tests.rs", "testing.rs", "test_trace.rs", "span_edge_cases.rs"}
#: What imports from a room that comes after its own, and why.
UPWARD = {
    ("graph/trace.rs", "surrogate"): "the buffers of a worker's trace include those of its surrogate",
}
#: Files of a room of the core that use each other, and why.
TOGETHER = {
    "columns/block columns/chunk": "a block is taken apart into chunks, which hold facts of its traces",
    "credit/decisions credit/segments": "a rollout has its segments, and segments are of rollouts",
    "credit/game credit/method credit/terms": "a method is one of three traits, and each describes its terms",
    "generate/planted/law generate/planted/ties": "ties even out policies, which the law draws",
    "importers/claude_code/copies importers/claude_code/record importers/claude_code/twice": (
        "the reader of records leaves out copies, which are records"
    ),
    "importers/claude_code/helped importers/claude_code/session importers/claude_code/texts": (
        "parts of the one type that writes a session"
    ),
    "importers/codex/inherited importers/codex/read importers/codex/threads": (
        "a thread is read with what it inherits from another thread"
    ),
    "importers/detect importers/foreign": "records of other formats are of what detection could not read",
    "importers/inspect/describe importers/inspect/sample_events importers/inspect/scores": (
        "parts of the one type that writes a sample"
    ),
    "importers/items importers/recording/beside": (
        "what other recordings of a run state is given to the one that is used, as its items"
    ),
    "importers/mapping/counts importers/mapping/source importers/mapping/spec": (
        "a mapping counts where its sources found something"
    ),
    "importers/recording/answers importers/recording/plan": "a plan of events has answers, found by the plan",
    "ingest/gather ingest/gather/rivals ingest/gather/spread ingest/parse": (
        "parsing fills blocks of items, and gathering rejects by the rows of parsing"
    ),
}
#: Importers without `data/cases/<name>`, `<name>/tests.rs` and `<name>/mapping.json`, and why.
UNTESTED_BESIDE = {
    "detect": "what no importer knows is told in the tests of ingest",
    "native": "tests/corpus/test_verdicts.py judges by every rule of it, the fuzz targets any bytes",
}
#: Modules that load others, which import them, by name and at run time, and why.
BY_NAME = {
    ("base.engines", "distributed.verb_engines"): "a caller names an engine; distributed divides all verbs",
    ("credit.registry", "credit.fitted"): "methods register themselves, and need NumPy",
}
#: Packages that a function may import, and why.
LATE = {
    "altair": "optional",
    "mcp": "optional",
    "obstore": "optional",
    "pyarrow": "slow to import, needed by files of rows and by to_arrow alone",
    "ray": "optional",
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


def loaded_when_asked(module: str, tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Module, name and line of everything that a package with `load_lazily` has under TYPE_CHECKING."""
    if not any(ast.unparse(node).startswith("load_lazily(") for node in tree.body):
        return
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            branch = ast.Module(node.body, [])
            yield from ((*found, line) for *found, line, _ in imports(module, branch, is_package=True))


def named(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and line of every module that is loaded by its full name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(
            ("Deferred", "import_module")
        ):
            continue
        name = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        if isinstance(name, str):
            yield name, node.lineno


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


def room_of(module: str) -> str:
    """The room of a module, or the folder of ABOVE that it lies in."""
    folder = ".".join(module.split(".")[:2])
    return folder if folder in ABOVE else module.split(".")[0]


def floor_of(room: str) -> str:
    """The floor of a room, or of the room that a folder of ABOVE stands above."""
    room = ABOVE[room][0] if room in ABOVE else room
    return next(floor for floor, rooms in FLOORS.items() if room in rooms)


def above(here: str, to: str) -> str:
    """How far a room is too high for another one to import from it."""
    floors = floor_of(here), floor_of(to)
    return f"is of the floor above, {floors[1]}" if len(set(floors)) > 1 else "comes after it in ROOMS"


def faults() -> Iterator[str]:
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        files[".".join(part for part in parts if part != "__init__")] = path
    rooms = {module: module.split(".")[0] for module in files}
    for room in sorted(set(rooms.values()) - set(ROOMS)):
        yield f"{PACKAGE / room}: the room is not in ROOMS of .ci/rooms.py"
    rank: dict[str, float] = {room: place for place, room in enumerate(ROOMS)}
    for folder, (below, _) in ABOVE.items():
        rank[folder] = rank[below] + 0.5
        if folder not in files:
            yield f"ABOVE of .ci/rooms.py lists {folder}, which is not there"
    edges: dict[str, set[str]] = {}
    by_name = set(BY_NAME)
    for module, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        asked = ((*entry, False) for entry in loaded_when_asked(module, tree))
        full = ((name, "", line, False) for name, line in named(tree))
        for place, name, line, late in [*imports(module, tree, path.name == "__init__.py"), *asked, *full]:
            where = f"{path.relative_to(PACKAGE.parents[1])}:{line}"
            whole, _, inner = place.partition(".")
            if whole != "orchestrace":
                if late and whole not in LATE and whole not in sys.stdlib_module_names:
                    yield f"{where}: {whole} is imported inside a function, expected at the top or in LATE"
                continue
            target = f"{inner}.{name}".strip(".")
            target = target if target in files else inner
            if (module, target) in BY_NAME:
                by_name.discard((module, target))
                continue
            if late:
                yield f"{where}: {target} is imported inside a function, expected at the top of the module"
            if name == "_core":
                continue
            to, here = room_of(target), room_of(module)
            offered = module == to.split(".")[0]
            if to in rank and rank[to] > rank.get(here, len(ROOMS)) and not offered:
                yield f"{where}: {here or 'the top'} imports from {to}, which {above(here, to)}"
            if target in files and target != module:
                edges.setdefault(module, set()).add(target)
    for module, target in sorted(by_name):
        yield f"BY_NAME of .ci/rooms.py lists {module} and {target}, which are not there"
    if found := circle(edges):
        yield f"modules that import each other: {' -> '.join(found)}"


def untested(text: str) -> str:
    """The code of a file that is neither a test nor a comment."""
    code = re.split(r"(?m)^#\[cfg\(test\)\]\nmod \w+ \{", text)[0]
    return re.sub(r"(?m)//.*$", "", code)


def core_paths(text: str) -> Iterator[tuple[int, str]]:
    """Line and room of every path from the root of the crate, in code that is not a test."""
    code = untested(text)
    for found in re.finditer(r"\bcrate::(\w+|\{)", code):
        line = code.count("\n", 0, found.start()) + 1
        if found[1] != "{":
            yield line, found[1]
            continue
        depth, name = 1, ""
        for letter in code[found.end() :]:  # the first words of a list: `crate::{a::X, b}`
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 0 or (depth == 1 and letter == ","):
                yield line, name.split("::")[0].strip()
                name = ""
            elif depth == 1:
                name += letter
            if depth == 0:
                break


def core_faults() -> Iterator[str]:
    rank = {room: place for place, room in enumerate(CORE_ROOMS)}
    unused = set(UPWARD)
    for path in sorted(CORE.rglob("*.rs")):
        inner = path.relative_to(CORE)
        here = inner.parts[0].removesuffix(".rs")
        is_test = TEST_FILES & set(inner.parts)
        if here == "lib" or is_test:
            continue
        if here not in rank:
            yield f"{path}: the room is not in CORE_ROOMS of .ci/rooms.py"
            continue
        for line, room in core_paths(path.read_text(encoding="utf-8")):
            if rank.get(room, -1) <= rank[here]:
                continue
            if (inner.as_posix(), room) in UPWARD:
                unused.discard((inner.as_posix(), room))
                continue
            yield f"{path.relative_to(TREE)}:{line}: {here} uses {room}, which comes after it in CORE_ROOMS"
    for file, room in sorted(unused):
        yield f"UPWARD of .ci/rooms.py lists {file} and {room}, which are not there"


Names = tuple[str, ...]
#: An import of Rust: whether it offers the name again, and its tree.
USE = re.compile(r"(?m)^\s*(pub(?:\([^)]*\))? )?use ([^;]+);")
#: A path of at least two words in code.
PATH = re.compile(r"(?<![\w:])[a-z_]\w*(?:::\w+)+")


def leaves(tree: str, above: Names = ()) -> Iterator[tuple[Names, str]]:
    """Path and local name of everything in the tree of a `use`."""
    head, brace, inner = tree.strip().partition("{")
    path, _, alias = head.partition(" as ")
    path_names = (*above, *(word.strip() for word in path.split("::") if word.strip()))
    if not brace:
        path_names = path_names[:-1] if path_names[-1] == "self" else path_names
        yield path_names, alias.strip() or path_names[-1]
        return
    depth, start = 0, 0
    for at, letter in enumerate(inner):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth == -1 or (depth == 0 and letter == ","):
            if inner[start:at].strip():
                yield from leaves(inner[start:at], path_names)
            start = at + 1


class Core:
    """The modules of the core, and which use which."""

    def __init__(self) -> None:
        self.uses: dict[Names, list[tuple[Names, str, bool]]] = {}
        self.paths: dict[Names, set[Names]] = {}
        for path in sorted(CORE.rglob("*.rs")):
            inner = path.relative_to(CORE).with_suffix("")
            if inner.name == "lib" or TEST_FILES & {*inner.parts, path.name}:
                continue
            module = inner.parts[:-1] if inner.name == "mod" else inner.parts
            code = untested(path.read_text(encoding="utf-8"))
            code = re.sub(
                r"(?m)^\s*#\[cfg\(test\)\]\n\s*(?:pub(?:\([^)]*\))? )?(?:use [^;]+|mod \w+);", "", code
            )
            uses = USE.finditer(code)
            self.uses[module] = [(*leaf, bool(use[1])) for use in uses for leaf in leaves(use[2])]
            self.paths[module] = {tuple(word[0].split("::")) for word in PATH.finditer(USE.sub("", code))}

    def full(self, module: Names, path: Names) -> Names:
        """A path from the root of the crate; empty where it does not begin at a module."""
        if path[0] == "crate":
            return path[1:]
        if path[0] not in ("self", "super"):
            return module + path if (*module, path[0]) in self.uses else ()
        while path and path[0] in ("self", "super"):
            module = module[:-1] if path[0] == "super" else module
            path = path[1:]
        return module + path

    def module_of(self, path: Names) -> Names:
        """The module that has what a path names, also where others offer it again."""
        n = 0
        while n < len(path) and path[: n + 1] in self.uses:
            n += 1
        module = path[:n]
        for leaf, name, _ in self.uses.get(module, ()) if n < len(path) else ():
            full = self.full(module, leaf)
            if name == path[n] and full and full != path[: n + 1]:
                return self.module_of(full + path[n + 1 :])
        return module

    def edges(self) -> dict[Names, set[Names]]:
        """The modules of its room that a module uses, but those whose part it is."""
        edges: dict[Names, set[Names]] = {}
        for module in self.uses:
            imported = {path for path, _, again in self.uses[module] if not again}
            full = (self.full(module, path) for path in imported | self.paths[module])
            used = {self.module_of(path) for path in full if path}
            edges[module] = {
                other
                for other in used
                if other in self.uses and other[0] == module[0] and module[: len(other)] != other
            }
        return edges


def circle_faults() -> Iterator[str]:
    """Files of one room that use each other."""
    edges = Core().edges()

    def reached(start: Names) -> set[Names]:
        done: set[Names] = set()
        left = [start]
        while left:
            more = edges[left.pop()] - done
            done |= more
            left += more
        return done

    reach = {module: reached(module) for module in edges}
    circles = {
        " ".join(sorted("/".join(other) for other in reach[module] if module in reach[other]))
        for module in edges
        if module in reach[module]
    }
    for files in sorted(circles - TOGETHER.keys()):
        yield f"files of the core that use each other: {files.replace(' ', ', ')}"
    for files in sorted(TOGETHER.keys() - circles):
        yield f"TOGETHER of .ci/rooms.py lists {files.replace(' ', ', ')}, which do not use each other"


def importer_faults() -> Iterator[str]:
    """`<name>.rs` with its `ImporterInfo`, and its cases, or beside it its tests or its mapping."""
    folder = CORE / "importers"
    without = set()
    for path in sorted(folder.glob("*.rs")):
        text = path.read_text(encoding="utf-8")
        if (
            re.search(r"^(?:pub\(super\) )?static (INFO: ImporterInfo|\w+: BuiltIn)", text, re.MULTILINE)
            is None
        ):
            continue
        name = path.stem
        beside = [folder / name / "tests.rs", folder / name / "mapping.json", TREE / "data/cases" / name]
        if not any(place.exists() for place in beside):
            without.add(name)
    for name in sorted(without ^ UNTESTED_BESIDE.keys()):
        yield f"importers/{name}: expected cases, tests.rs or mapping.json, else a reason in UNTESTED_BESIDE"


def main() -> None:
    found = [*faults(), *core_faults(), *circle_faults(), *importer_faults()]
    print("\n".join(found) or "imports go one way")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
