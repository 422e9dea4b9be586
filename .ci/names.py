"""The list of public names, docs/names.md: `python .ci/names.py write`, or `check` that it is up to date."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import orchestrace as ot

LISTED = Path(__file__).resolve().parents[1] / "docs" / "names.md"
OPENING = """# Names

What `import orchestrace as ot` offers. `help(ot.credit)` has parameters, columns, errors, cost, source and an
example of each. `python .ci/names.py write` makes this page from the docstrings.
"""


def first_line(one: Any) -> str:
    return (inspect.getdoc(one) or "").partition("\n\n")[0].replace("\n", " ")


def table(prefix: str, members: dict[str, Any]) -> Iterator[str]:
    yield "| name | what |"
    yield "|---|---|"
    for name, one in members.items():
        called = "()" if inspect.isfunction(one) else ""
        yield f"| `{prefix}{name}{called}` | {first_line(one)} |"


def page() -> str:
    members = {name: getattr(ot, name) for name in ot.__all__ if not name.startswith("__")}
    spaces = {name: one for name, one in members.items() if isinstance(one, ModuleType)}
    lines = [OPENING, *table("ot.", {name: one for name, one in members.items() if name not in spaces})]
    for space, module in spaces.items():
        own = {name: getattr(module, name) for name in module.__all__}
        lines += ["", f"## `ot.{space}`", "", first_line(module), "", *table(f"ot.{space}.", own)]
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:] == ["write"]:
        LISTED.write_text(page(), encoding="utf-8")
    elif sys.argv[1:] != ["check"]:
        sys.exit("expected write or check")
    elif LISTED.read_text(encoding="utf-8") != page():
        sys.exit(f"{LISTED} is not what the package has: python .ci/names.py write")


if __name__ == "__main__":
    main()
