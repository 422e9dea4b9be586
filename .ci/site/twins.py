"""What programs read instead of the pages: their Markdown beside them, llms.txt and llms-full.txt."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from sources import summary

INTRODUCTION = """# orchestrace

> orchestrace reads recordings of multi-agent LLM runs and computes which agent, role, turn or event earned
> the outcome, what would have happened without one of them, what the run cost, and where untrusted content
> went.

A Python package (`import orchestrace as ot`) and a command (`orchestrace`). Every page below is Markdown;
[llms-full.txt](llms-full.txt) has all of them in one file.
"""


def written(site: Path, pages: Mapping[str, str], order: Iterable[tuple[str, str, str]]) -> None:
    rows = list(order)
    for _, _, name in rows:
        twin = site / name
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_text(pages[name], encoding="utf-8")
    lines, whole, last = [INTRODUCTION], [INTRODUCTION], ""
    for section, title, name in rows:
        if section != last:
            lines += ["", f"## {section}", ""]
            last = section
        about = summary(pages[name])
        lines.append(f"- [{title}]({name})" + (f": {about}" if about else ""))
        whole += [f"\n<!-- {name} -->\n", pages[name].rstrip(), ""]
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (site / "llms-full.txt").write_text("\n".join(whole) + "\n", encoding="utf-8")
