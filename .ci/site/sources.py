"""The pages that people wrote: where they stand on the site, and where their links lead there."""

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^( *)(```+|~~~+)")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
CODE = re.compile(r"(?<![\[`])`([^`\n]+)`(?![\]`])")
MARKER = re.compile(r"^( *)([-*+] +|\d+[.)] +)(?=\S)")

#: Pages of the project beside docs/, and their places on the site.
BESIDE = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "benches/README.md": "benchmarks.md",
    "data/README.md": "project/data.md",
}
FIRST = "index.md"


def places() -> dict[str, str]:
    """Of every page of the project its place on the site; without docs/index.md the README is the first."""
    own = {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix()
        for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    readme = "project/readme.md" if f"docs/{FIRST}" in own else FIRST
    indexed = {
        name: re.sub(r"(^|/)README\.md$", r"\1index.md", place) for name, place in (own | BESIDE).items()
    }
    return {"README.md": readme, **indexed}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


class Links:
    """Rewrites links of the repository to links of the site, and keeps what files they need."""

    def __init__(self, known: Mapping[str, str], codes: Mapping[str, str]) -> None:
        self.known = known
        #: The page about what a span of code names: a public name, a code.
        self.codes = codes
        self.files: dict[str, str] = {}

    def resolved(self, name: str, place: str) -> Callable[[re.Match[str]], str]:
        """What to write for a link on the page ``name``, which stands at ``place``."""

        def link(found: re.Match[str]) -> str:
            picture, label, target = found.groups()
            if re.match(r"[a-z]+:|#|//", target):
                return found[0]
            path, _, anchor = target.partition("#")
            at = posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
            to = self.known.get(at) or self.known.get(posixpath.join(at, "README.md"))
            if to is None and (ROOT / at).is_file():
                inside = at.startswith("docs/")
                to = self.files[at] = at.removeprefix("docs/") if inside else f"files/{at}"
            if to is None and not (ROOT / at).is_dir():
                raise SystemExit(f"{name}: {target} leads nowhere")
            if to is None:  # a folder of the repository, which is no page
                return f"{label} (`{at}`)" if label.strip("`") != at else label
            relative = posixpath.relpath(to, posixpath.dirname(place) or ".")
            return f"{picture}[{label}]({relative}{'#' if anchor else ''}{anchor})"

        return link

    def autolinked(self, place: str) -> Callable[[re.Match[str]], str]:
        """A link for code that is a public name or a code, unless it is on its own page."""

        def link(found: re.Match[str]) -> str:
            to = self.codes.get(found[1])
            page = (to or "").partition("#")[0]
            if to is None or page == place:
                return found[0]
            return f"[{found[0]}]({posixpath.relpath(to, posixpath.dirname(place) or '.')})"

        return link

    def rewritten(self, text: str, name: str, place: str) -> str:
        """A page of the repository as a page of the site."""
        lead, auto = self.resolved(name, place), self.autolinked(place)

        def part(one: str) -> str:
            if one.startswith("#"):
                return LINK.sub(lead, one)
            parts, end = [], 0
            for found in LINK.finditer(one):
                parts += [CODE.sub(auto, one[end : found.start()]), lead(found)]
                end = found.end()
            return "".join([*parts, CODE.sub(auto, one[end:])])

        return outside_fences(text, part)


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Change the prose of a page: each heading by itself, and what stands between headings and fences."""
    out: list[str] = []
    prose: list[str] = []
    fence = ""

    def flush() -> None:
        if prose:
            out.append(change("\n".join(prose)))
            prose.clear()

    for one in text.split("\n"):
        found = FENCE.match(one)
        if fence or found:
            flush()
            out.append(one)
            closes = fence and one.strip().startswith(fence) and not one.strip().strip(fence[0])
            fence = "" if closes else fence or (found[2] if found else "")
        elif one.startswith("#"):
            flush()
            out.append(change(one))
        else:
            prose.append(one)
    flush()
    return "\n".join(out)


def for_python_markdown(text: str) -> str:
    """CommonMark as Python-Markdown reads it: an empty line before a list, four spaces for each level."""
    # a session has a lexer of its own, which leaves what is printed alone
    text = re.sub(r"^( *```)python\n(?= *>>>)", r"\1pycon\n", text, flags=re.MULTILINE)
    out: list[str] = []
    columns: list[int] = []  # where the content of each open list item begins
    begun: set[int] = set()  # depths of the list items that begin in this block of lines
    fence = ""
    for one in text.split("\n"):
        indent = len(one) - len(one.lstrip(" "))
        if not one.strip():
            out.append("")
            begun.clear()
            continue
        marker = None if fence else MARKER.match(one)
        if not fence:
            before = out[-1].strip() if out else ""
            if not before or marker or FENCE.match(one):
                columns = [column for column in columns if column <= indent]
            elif not columns or indent < columns[-1]:
                columns = columns if columns and not re.match(r"#", one) else []  # a lazy line goes on
        depth = sum(column <= indent for column in columns)
        inner = indent - columns[depth - 1] if depth else indent
        if marker and out and out[-1].strip() and depth not in begun:
            out.append("")
        if marker:
            begun = {known for known in begun if known < depth} | {depth}
        out.append(" " * (4 * depth + inner) + one.lstrip(" "))
        if marker and inner < 4:
            columns = [*columns[:depth], len(marker[0])]
        found = FENCE.match(one)
        if fence:
            fence = "" if one.strip().startswith(fence) and not one.strip().strip(fence[0]) else fence
        elif found:
            fence = found[2]
    return "\n".join(out)


def title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return re.sub(r"[`*]", "", found[1]) if found else ""


def summary(text: str) -> str:
    """The first sentence of a page, without markup."""
    without = re.sub(r"^```.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", without):
        if re.match(r"\s*(#|\||!?\[[^\]]*\]\([^)]*\)\s*$|[-*] |$|    |>|<)", paragraph):
            continue
        plain = LINK.sub(lambda found: found[2], " ".join(paragraph.split()))
        first = re.split(r"(?<=[.?!:]) (?=[A-Z`])", plain)[0]
        return first.rstrip(":")
    return ""


def unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
