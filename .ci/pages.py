"""Pages and tables that registries make: `python .ci/pages.py write`, or `check` that they are up to date.

A page is made as a whole, or, where people wrote the rest, between the lines that `BEGIN` and `END` give.
`python .ci/pages.py files` prints every module with its first line.
"""

import ast
import inspect
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rooms import CORE_ROOMS, ROOMS, TEST_FILES

import orchestrace as ot
from orchestrace.cli.commands import command_names, summary_of

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- {}: made by .ci/pages.py -->", "<!-- end of what is made -->"
NAMES = """# Names

What `import orchestrace as ot` offers. `help(ot.credit)` has parameters, columns, errors, cost, source and an
example of each. `python .ci/pages.py write` makes this page from the docstrings.
"""
METHODS = """# Credit methods

What `ot.list_methods()` lists. [credit.md](credit.md) says which method answers which question, and links to
pages on what each computes and when it lies. `python .ci/pages.py write` makes this page from the registry.
"""


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    columns = list(columns)
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def first_line(one: Any) -> str:
    return (inspect.getdoc(one) or "").partition("\n\n")[0].replace("\n", " ")


def members(prefix: str, offered: Mapping[str, Any]) -> Iterator[str]:
    called = {name: f"{name}()" if inspect.isfunction(one) else name for name, one in offered.items()}
    rows = ([f"`{prefix}{called[name]}`", first_line(one)] for name, one in offered.items())
    return table(("name", "what"), rows)


def names() -> Iterator[str]:
    offered = {name: getattr(ot, name) for name in ot.__all__ if not name.startswith("__")}
    spaces = {name: one for name, one in offered.items() if isinstance(one, ModuleType)}
    yield NAMES
    yield from members("ot.", {name: one for name, one in offered.items() if name not in spaces})
    for space, module in spaces.items():
        own = {name: getattr(module, name) for name in module.__all__}
        yield from ("", f"## `ot.{space}`", "", first_line(module), "")
        yield from members(f"ot.{space}.", own)


def methods() -> Iterator[str]:
    known = ot.list_methods().to_dicts()
    yield METHODS
    columns = ("method", "what it gives", "quantity", "looks at", "tier", "axioms", "source")
    yield from table(
        columns,
        (
            [
                f"`{one['name']}`",
                one["summary"],
                one["quantity"],
                one["scope"],
                one["tier"] or "",
                ", ".join(one["axioms"]),
                one["reference"],
            ]
            for one in known
        ),
    )
    yield from ("", "## Parameters", "")
    yield from table(
        ("method", "parameter", "default", "what"),
        (
            [f"`{one['name']}`", f"`{param['name']}`", f"`{plainly(param['default'])}`", param["doc"]]
            for one in known
            for param in one["params"]
        ),
    )


def rewards() -> Iterator[str]:
    known = ot.rewards.list_rules().to_dicts()
    yield from table(
        ("rule", "family", "pays", "formula", "channels", "source"),
        (
            [
                f"`{one['reward']}`",
                one["family"],
                one["unit"],
                one["summary"],
                ", ".join(f"`{channel['name']}`" for channel in one["channels"]),
                one["reference"],
            ]
            for one in known
        ),
    )
    yield ""
    yield from table(
        ("rule", "parameter", "default", "what"),
        (
            [f"`{one['reward']}`", f"`{param['name']}`", f"`{plainly(param['default'])}`", param["doc"]]
            for one in known
            for param in one["params"]
        ),
    )


def plainly(default: str) -> str:
    """A default, which the registry holds as JSON, as one writes it in Python."""
    return repr(json.loads(default)).replace("|", "\\|")


def summary(path: Path) -> str:
    """The first sentence about a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        about = ast.get_docstring(ast.parse(text)) or ""
    else:
        lines = (line for line in text.splitlines())
        about = "\n".join(line.removeprefix("//!").strip() for line in itertools.takewhile(is_about, lines))
    first = " ".join(about.partition("\n\n")[0].split()).replace("[`", "`").replace("`]", "`")
    return first.partition(". ")[0].removesuffix(".").removesuffix(":").replace("|", "\\|")


def is_about(line: str) -> bool:
    return line.startswith("//!")


def files() -> Iterator[str]:
    """Every module with its first line, in the order of its room's imports; tests are left out."""
    trees = (
        ("The core", "rust/orchestrace-core/src", CORE_ROOMS, "rs"),
        ("The binding", "rust/orchestrace-py/src", (), "rs"),
        ("The package", "python/orchestrace", ROOMS, "py"),
    )
    for title, folder, order, suffix in trees:
        root = ROOT / folder
        found = [
            path for path in root.rglob(f"*.{suffix}") if not TEST_FILES & {*path.relative_to(root).parts}
        ]
        rank = {room: place for place, room in enumerate(order)}

        def place(path: Path, root: Path = root, rank: dict[str, int] = rank) -> tuple[int, str, str]:
            inner = path.relative_to(root)
            room = inner.parts[0].partition(".")[0]
            return rank.get(room, -1), str(inner.parent / "") if len(inner.parts) > 1 else "", inner.name

        yield from (f"## {title}: `{folder}`", "")
        rows = ([f"`{path.relative_to(root)}`", summary(path)] for path in sorted(found, key=place))
        yield from table(("file", "what"), rows)
        yield ""


def outcome_models() -> Iterator[str]:
    rows = ot.outcomes.list_models().to_dicts()
    return table(
        ("model", "value of an event", "assumes"),
        ([f"`{one['model']}`", one["gate"].replace("|", "\\|"), one["assumes"]] for one in rows),
    )


def metrics() -> Iterator[str]:
    rows = [one for one in ot.list_metrics().to_dicts() if one["group"] != "members"]
    star = {"super-linear": " *", "linear": ""}
    return table(
        ("metric", "group", "counts", "definition"),
        (
            [f"`{one['metric']}`", one["group"] + star[one["cost"]], one["counts"], one["summary"]]
            for one in rows
        ),
    )


def coverage() -> Iterator[str]:
    """Of benches/python/format_coverage.py: what published recordings give."""
    rows = json.loads((ROOT / "benches/results/format_coverage.json").read_text(encoding="utf-8"))
    heads = [[row["corpus"], ", ".join(f"`{one}`" for one in row["formats"])] for row in rows]

    def told(count: int, more: str, reason: str | None) -> str:
        return f"{count:,}{more}" if count else f"`{reason}`" if reason else ""

    families = list(rows[0]["rewards"])
    cells = [
        [told(len(one["paid"]), f"/{one['rules']}", one["reason"]) for one in row["rewards"].values()]
        for row in rows
    ]
    named = [[*head, f"{row['runs']:,}", *cell] for head, row, cell in zip(heads, rows, cells, strict=True)]
    yield from ("### Rewards", "")
    yield from table(("recordings", "format", "runs", *families), named)

    def decided(one: Mapping[str, Any]) -> str:
        if not one["decisions"]:
            return ""
        effects = told(one["effects"], " with an effect", one["reason"])
        return f"{one['decisions']:,}: {effects}"

    yield from ("", "### Decisions", "")
    cells = [[decided(one) for one in row["decisions"].values()] for row in rows]
    named = [[*head, *cell] for head, cell in zip(heads, cells, strict=True)]
    yield from table(("recordings", "format", *rows[0]["decisions"]), named)
    yield from ("", "### Epochs", "")
    cells = [
        [told(one["runs"], f" ({one['with_outcome']:,})", None) for one in row["epochs"].values()]
        for row in rows
    ]
    named = [[*head, *cell] for head, cell in zip(heads, cells, strict=True)]
    yield from table(("recordings", "format", *rows[0]["epochs"]), named)


def conformance() -> Iterator[str]:
    """Of .ci/conformance.py: what the audit says of the estimators of trainers."""
    results = json.loads((ROOT / "benches/results/conformance.json").read_text(encoding="utf-8"))
    letters = sorted({letter for one in results.values() for of in one["verdicts"].values() for letter in of})
    rows = []
    for trainer, one in results.items():
        rows.append(
            [f"**{trainer} {one['version']}**, Python {one['python']}, {one['on']}", *[""] * len(letters)]
        )
        for name, of in one["verdicts"].items():
            cells = (of.get(letter, "-") for letter in letters)
            rows.append([f"`{name}`", *("" if cell == "holds" else cell for cell in cells)])
    yield from table(("estimator", *letters), rows)


def judged(kind: str) -> list[dict[str, Any]]:
    """Rows of benches/python/gaming_detectors.py about hazards, or about failures."""
    rows = json.loads((ROOT / "benches/results/gaming_detectors.json").read_text(encoding="utf-8"))
    return [row for row in rows if row["kind"] == kind]


def rate(row: Mapping[str, Any], name: str) -> str:
    """A rate in percent with its interval."""
    if row[name] is None:
        return ""
    ends = (row[f"{name}_lower"], row[f"{name}_upper"])
    return "{:.0f} [{:.0f}, {:.0f}]".format(*(100 * one for one in (row[name], *ends)))


def others(row: Mapping[str, Any]) -> str:
    """On which other games a detector alarms, the most frequent first."""
    found = sorted(row["also"].items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"`{game}` {100 * share:.0f}" for game, share in found)


def hazard_detectors() -> Iterator[str]:
    rates = ("recall", "recall_half", "false", "false_varied", "false_corpus", "precision")
    columns = ("detector", "found", "half of runs", "honest", "honest, calls vary", "honest, over the corpus")
    return table(
        (*columns, "precision", "other rows", "alarms on others"),
        (
            [
                f"`{row['detector']}`",
                *(rate(row, name) for name in rates),
                f"{100 * row['units']:.0f}",
                others(row),
            ]
            for row in judged("hazard")
        ),
    )


def failure_detectors() -> Iterator[str]:
    rates = ("recall", "recall_half", "false", "precision")
    return table(
        ("failure", "detector", "found", "half of runs", "honest", "precision", "alarms on others"),
        (
            [
                f"`{row['game']}`",
                f"`{row['detector']}`",
                *(rate(row, name) if row["n"] else f"`{row['reason']}`" for name in rates),
                others(row),
            ]
            for row in judged("failure")
        ),
    )


def gate_results() -> dict[str, Any]:
    """Of benches/python/gate_errors.py: how often a gate errs, and sees what it announces."""
    results: dict[str, Any] = json.loads(
        (ROOT / "benches/results/gate_errors.json").read_text(encoding="utf-8")
    )
    return results


def gate_errors() -> Iterator[str]:
    kinds = {"fail": "false fail", "pass": "false pass", "found": "seen"}
    populations = gate_results()["populations"]
    sizes = list(next(iter(populations.values())))
    columns = [f"{kind}, {size} tasks" for kind in kinds.values() for size in sizes]
    rows = (
        [name, *(f"{of[n][kind]:.3f}" for kind in kinds for n in sizes)] for name, of in populations.items()
    )
    return table(("population", *columns), rows)


def gate_looks() -> Iterator[str]:
    rows = gate_results()["looks"].items()
    return table(
        ("looks", "planned", "not planned"),
        ([count, f"{of['planned']:.3f}", f"{of['unplanned']:.3f}"] for count, of in rows),
    )


def blame_transfer() -> Iterator[str]:
    """Of benches/python/blame_sets.py: what sets of one benchmark promise on another."""
    rows = json.loads((ROOT / "benches/results/blame_transfer.json").read_text(encoding="utf-8"))
    cells = {(row["calibrated_on"], row["subset"]): row for row in rows}
    names = sorted({name for pair in cells for name in pair})

    def cell(pair: tuple[str, str]) -> str:
        row = cells.get(pair)
        if row is None or row["covered"] is None:
            return "no set"
        return f"{row['covered']:.2f} with {row['share']:.2f}"

    return table(
        ("calibrated on", *(f"judged on {name}" for name in names)),
        ([name, *(cell((name, judged)) for judged in names)] for name in names),
    )


def blame_sets() -> Iterator[str]:
    """Of benches/python/blame_sets.py: how often sets hold the label, and how much of a run they are."""
    rows = json.loads((ROOT / "benches/results/blame_sets.json").read_text(encoding="utf-8"))

    def within(row: Mapping[str, Any], name: str) -> str:
        if row[name] is None:
            return ""
        return f"{row[name]:.2f} [{row[f'{name}_lower']:.2f}, {row[f'{name}_upper']:.2f}]"

    return table(
        (
            "recordings",
            "runs",
            "asked",
            "score",
            "covered",
            "share of the run",
            "against the best rule",
            "top 1",
            "EXAM",
        ),
        (
            [
                row["subset"] if row["subset"] != "all" else row["corpus"],
                str(row["runs"]),
                str(row["coverage"]),
                f"`{row['score']}`",
                within(row, "covered"),
                f"{row['share']:.2f}",
                "" if row["score"] == row["best_rule"] else within(row, "share_less"),
                f"{row['top1']:.2f}",
                f"{row['exam']:.2f}",
            ]
            for row in rows
        ),
    )


def signs() -> Iterator[str]:
    """Of benches/python/failure_classes.py: how many published runs show each sign of failure."""
    rows = json.loads((ROOT / "benches/results/failure_classes.json").read_text(encoding="utf-8"))

    def told(one: Mapping[str, Any]) -> str:
        if not one["known"]:
            return ""
        judged = one.get("n_failed", 0) + one.get("n_passed", 0)
        parts = (f"{one[f'shows_{of}']}/{one[f'n_{of}']} {of}" for of in ("failed", "passed") if judged)
        split = [part for part in parts if "/0 " not in part]
        return f"{one['shows']}/{one['known']}" + (f" ({', '.join(split)})" if split else "")

    known = [name for name in rows[0]["signs"] if any(row["signs"][name]["known"] for row in rows)]
    yield from table(
        ("recordings", "runs", *(f"`{name}`" for name in known)),
        ([row["corpus"], f"{row['runs']:,}", *(told(row["signs"][name]) for name in known)] for row in rows),
    )


def benchmark_rules() -> Iterator[str]:
    """Of benches/python/benchmark_rules.py: published recordings by the survey's rules for benchmarks."""
    rows = json.loads((ROOT / "benches/results/benchmark_rules.json").read_text(encoding="utf-8"))
    yield from table(
        ("recordings", "traces", "tasks", *rows[0]["verdicts"]),
        (
            [row["corpus"], f"{row['traces']:,}", f"{row['tasks']:,}", *row["verdicts"].values()]
            for row in rows
        ),
    )


def wasted() -> Iterator[str]:
    """Of benches/python/failure_classes.py: which part of published recordings was in vain."""
    rows = json.loads((ROOT / "benches/results/failure_classes.json").read_text(encoding="utf-8"))
    classes = ("retry", "error", "loop", "duplicate", "orphan", "dead")

    def told(row: Mapping[str, Any], names: Iterable[str]) -> str:
        found = [row["waste"][name] for name in names if name in row["waste"]]
        events = sum(one["events"] for one in found)
        if not events or row["waste"]["share_of"] is None:
            return f"{events:,}" if events else ""
        return f"{events:,}: {100 * sum(one['share'] for one in found):.1f} %"

    unknown = {row["corpus"]: [name for name in row["waste"] if name.startswith("not known")] for row in rows}
    yield from table(
        ("recordings", "share of", *(f"`{name}`" for name in classes), "not known"),
        (
            [
                row["corpus"],
                row["waste"]["share_of"] or "",
                *(told(row, [name]) for name in classes),
                told(row, unknown[row["corpus"]]),
            ]
            for row in rows
        ),
    )


def commands() -> Iterator[str]:
    return table(("command", "what it does"), ([f"`{name}`", summary_of(name)] for name in command_names()))


def exports() -> Iterator[str]:
    rows = ot.list_exports().to_dicts()
    shows = {"trace": "one trace", "traces": "any traces", "corpus": "the corpus"}
    return table(
        ("`format`", "what is written", "opened by", "shows"),
        ([f"`{row['name']}`", row["summary"], row["opens"], shows[row["scope"]]] for row in rows),
    )


def plots() -> Iterator[str]:
    charts = {name: getattr(ot.plot, name) for name in ot.plot.__all__ if name != "save"}
    return table(
        ("name", "what", "of"),
        ([f"`ot.plot.{name}()`", first_line(one), first_argument(one)] for name, one in charts.items()),
    )


def first_argument(function: Any) -> str:
    """The first sentence about the first argument of a verb."""
    about = (inspect.getdoc(function) or "").partition("----------\n")[2].splitlines()[1:]
    lines = itertools.takewhile(lambda line: line.startswith("    "), about)
    text = " ".join(map(str.strip, lines)).replace("``", "`")
    return text.partition(". ")[0].removesuffix(".")


def stopping_rules() -> Iterator[str]:
    kinds = {(True, False): "learned", (False, True): "hindsight", (False, False): "simple"}
    return table(
        ("rule", "stops by", "source", "kind"),
        (
            [
                f"`{row['method']}`",
                row["summary"],
                row["reference"],
                kinds[row["learned"], row["peeks"]],
            ]
            for row in ot.stopping.list_rules().to_dicts()
        ),
    )


TRAITS = {
    "credit/method.rs": ("CreditMethod", "GroupMethod"),
    "credit/game/mod.rs": ("GameMethod",),
    "metrics/group.rs": ("Group", "Measure"),
    "importers/mod.rs": ("Importer", "SpreadImporter"),
}
"""What a new part of the core implements, by the file that has it."""


def traits() -> Iterator[str]:
    """The traits as the core has them, so that the page cannot fall behind."""
    yield "```rust"
    for place, (file, trait_names) in enumerate(TRAITS.items()):
        text = (ROOT / "rust/orchestrace-core/src" / file).read_text(encoding="utf-8")
        yield from [""] * bool(place) + [f"// {file}"]
        for name in trait_names:
            declared = re.search(rf"(?ms)(?:^///[^\n]*\n)+pub trait {name}\b.*?^\}}$", text)
            if declared is None:
                sys.exit(f"{file} declares no documented trait {name}, expected by TRAITS of .ci/pages.py")
            yield from ("", declared[0])
    yield "```"


def formats() -> Iterator[str]:
    """Every format with its page, which is that of its name where no other is about it."""
    elsewhere = {"native": "../recording.md", "who_and_when": "../who-and-when.md"}
    rows = ot.list_importers().select("name", "summary").rows()
    return table(
        ("format", "what it reads"),
        ([f"[{name}]({elsewhere.get(name, f'{name}.md')})", summary] for name, summary in rows),
    )


WHOLE: dict[str, Callable[[], Iterator[str]]] = {
    "docs/names.md": names,
    "docs/methods.md": methods,
}
PARTS: dict[tuple[str, str], Callable[[], Iterator[str]]] = {
    ("docs/assumptions.md", "models of outcomes"): outcome_models,
    ("docs/command.md", "commands"): commands,
    ("docs/exports.md", "exports"): exports,
    ("docs/metrics.md", "metrics"): metrics,
    ("docs/plots.md", "plots"): plots,
    ("docs/reference/extension-points.md", "traits"): traits,
    ("docs/rewards.md", "rewards"): rewards,
    ("docs/stopping-answers.md", "rules"): stopping_rules,
    ("docs/format-coverage.md", "coverage"): coverage,
    ("docs/trainers/conformance.md", "conformance"): conformance,
    ("docs/formats/README.md", "formats"): formats,
    ("docs/gaming.md", "detectors of hazards"): hazard_detectors,
    ("docs/gaming.md", "detectors of failures"): failure_detectors,
    ("docs/reference/gate.md", "errors of the gate"): gate_errors,
    ("docs/reference/gate.md", "looks of the gate"): gate_looks,
    ("docs/blame.md", "blame sets"): blame_sets,
    ("docs/blame.md", "blame transfer"): blame_transfer,
    ("docs/checklist.md", "rules for benchmarks"): benchmark_rules,
    ("docs/failure-classes.md", "signs of failure"): signs,
    ("docs/failure-classes.md", "waste"): wasted,
}


def names_of_plots() -> tuple[Path, str]:
    """The package of plots with an import of each verb in its files: the names are there before they load."""
    package = ROOT / "python/orchestrace/plot"
    imports = [
        f"    from .{path.stem} import {node.name} as {node.name}"
        for path in sorted(package.glob("[!_]*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and "verb" in map(ast.unparse, node.decorator_list)
    ]
    text = (package / "__init__.py").read_text(encoding="utf-8")
    before, line, rest = text.partition("if TYPE_CHECKING:")
    after = rest[rest.index("\n\n\n") :]
    return package / "__init__.py", "\n".join([before + line + rest.partition("\n")[0], *imports]) + after


def pages() -> Iterator[tuple[Path, str]]:
    yield names_of_plots()
    for name, make in WHOLE.items():
        yield ROOT / name, "\n".join(make()) + "\n"
    texts: dict[str, str] = {}
    for (name, what), make in PARTS.items():
        text = texts.get(name) or (ROOT / name).read_text(encoding="utf-8")
        before, begin, rest = text.partition(BEGIN.format(what) + "\n")
        _, end, after = rest.partition(END)
        if not begin or not end:
            sys.exit(f"{name} has no lines '{BEGIN.format(what)}' and '{END}'")
        texts[name] = before + begin + "\n" + "\n".join(make()) + "\n\n" + end + after
    yield from ((ROOT / name, text) for name, text in texts.items())


def main() -> None:
    if sys.argv[1:] == ["files"]:
        print("\n".join(files()))
        return
    if sys.argv[1:] not in (["write"], ["check"]):
        sys.exit("expected write, check or files")
    for path, text in pages():
        if sys.argv[1] == "write":
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is not what the package has: python .ci/pages.py write")


if __name__ == "__main__":
    main()
