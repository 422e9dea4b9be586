"""What the page of benchmarks says beside benches/README.md: the committed results, with their dates."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from sources import ROOT, read

PAGE = "benches/README.md"


def dated(path: Path) -> str:
    """The day of the commit that last changed a file; nothing where there is no repository."""
    command = ["git", "log", "-1", "--format=%cs", "--", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def results() -> Iterator[str]:
    yield from ("", "## Committed results", "")
    yield "Measured on the machine that this page describes; the day is that of the commit."
    yield from ("", "| results | rows | day | made by |", "|---|---:|---|---|")
    for path in sorted((ROOT / "benches" / "results").glob("*.json")):
        rows = len(json.loads(path.read_text(encoding="utf-8")))
        script = f"benches/python/{path.stem}.py"
        made = f"[`{script}`](python/{path.stem}.py)" if (ROOT / script).exists() else ""
        yield f"| [`{path.name}`](results/{path.name}) | {rows} | {dated(path)} | {made} |"


def page() -> str:
    day = dated(ROOT / PAGE)
    text = read(PAGE).rstrip()
    note = f"\n\nThese figures were last changed on {day}.\n" if day else "\n"
    return (
        text.replace("\n## First numbers\n", f"\n## First numbers{note}", 1)
        + "\n"
        + "\n".join(results())
        + "\n"
    )
