"""A report as pages: parts that are written once, rendered as one HTML file or as Markdown."""

import html
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Figure:
    """A chart with what it shows; `name` is that of its files."""

    name: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its words, and a class that the pages color."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Grid:
    """A table with its caption."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass
class Section:
    """A heading and what is under it, in order: paragraphs, figures, tables."""

    title: str
    parts: list[str | Figure | Grid] = field(default_factory=list)


_STYLE: Final = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1f2328; line-height: 1.55; font-size: 16px;
  font-family: Charter, "Bitstream Charter", "Sitka Text", Cambria, Georgia, serif; }
main { max-width: 60rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1, h2, th, figcaption, caption, .meta, nav, td.mark {
  font-family: "Helvetica Neue", Helvetica, Arial, sans-serif; }
h1 { font-size: 2rem; line-height: 1.2; letter-spacing: -0.01em; margin: 0 0 .4rem; }
h2 { font-size: 1.25rem; margin: 3rem 0 .8rem; padding-top: .8rem; border-top: 1px solid #d0d7de; }
p { max-width: 44rem; margin: .6rem 0; }
.meta { color: #57606a; font-size: .85rem; max-width: 52rem; }
nav { font-size: .85rem; margin: 1.2rem 0 0; display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; }
nav a { color: #0b5cad; text-decoration: none; white-space: nowrap; }
figure { margin: 1.4rem 0 2rem; }
figure svg { max-width: 100%; height: auto; display: block; }
figcaption, caption { color: #57606a; font-size: .82rem; line-height: 1.45; max-width: 52rem;
  text-align: left; }
figcaption { margin-top: .6rem; }
caption { caption-side: bottom; padding-top: .6rem; }
.scroll { overflow-x: auto; margin: 1.2rem 0 2rem; }
table { border-collapse: collapse; font-size: .82rem; line-height: 1.35; }
th { text-align: left; font-weight: 600; vertical-align: bottom; border-bottom: 1.5px solid #1f2328; }
th, td { padding: .32rem .7rem .32rem 0; }
td { border-bottom: 1px solid #eaeef2; vertical-align: top; font-variant-numeric: tabular-nums; }
td.finds { background: #e3f4ec; } td.nothing { background: #f4f5f7; color: #57606a; }
td.slow { background: #fdf0dd; } td.none { color: #8a9099; } td.few { color: #57606a; font-style: italic; }
td.finds, td.nothing, td.few, td.slow, td.none {
  padding-left: .5rem; padding-right: .5rem; white-space: nowrap; }
code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, monospace; font-size: .88em; }
@media print {
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } nav { display: none; }
  figure, tr { break-inside: avoid; } h2 { break-after: avoid; } .scroll { overflow: visible; }
  td.finds, td.nothing, td.slow { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""


def html_page(title: str, meta: str, sections: Sequence[Section]) -> str:
    """One file: style and figures are inside, and nothing is fetched."""
    links = "".join(f'<a href="#s{n}">{_text(section.title)}</a>' for n, section in enumerate(sections))
    body = "".join(
        f'<section id="s{n}"><h2>{_text(section.title)}</h2>'
        f"{''.join(map(_html_part, section.parts))}</section>\n"
        for n, section in enumerate(sections)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body><main>"
        f'<h1>{_text(title)}</h1><p class="meta">{_inline(meta)}</p><nav>{links}</nav>\n'
        f"{body}</main></body></html>\n"
    )


def _html_part(part: str | Figure | Grid) -> str:
    if isinstance(part, str):
        return f"<p>{_inline(part)}</p>"
    if isinstance(part, Figure):
        label = html.escape(part.caption.replace("`", ""), quote=True)
        return (
            f'<figure id="{part.name}" role="img" aria-label="{label}">{inlined(part.svg, part.name)}'
            f"<figcaption>{_inline(part.caption)}</figcaption></figure>\n"
        )
    head = "".join(f"<th>{_inline(word)}</th>" for word in part.head)
    rows = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in part.rows)
    caption = f"<caption>{_inline(part.caption)}</caption>" if part.caption else ""
    table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>\n'


def _html_cell(cell: Cell) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    return f"<td{kind}>{_inline(cell.text)}</td>"


def inlined(svg: str, name: str) -> str:
    """An SVG as part of a page: its ids are made its own, since a page has one space of them."""
    svg = re.sub(r"^\s*(<\?xml[^>]*>|<!DOCTYPE[^>]*>)\s*", "", svg)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)


def markdown_page(title: str, meta: str, sections: Sequence[Section]) -> str:
    """The same parts; figures are files beside it."""
    lines = [f"# {_marked(title)}", "", _marked(meta), ""]
    for section in sections:
        lines += [f"## {_marked(section.title)}", ""]
        for part in section.parts:
            if isinstance(part, str):
                lines += [_marked(part), ""]
            elif isinstance(part, Figure):
                lines += [f"![{part.name}](figures/{part.name}.svg)", "", f"*{_marked(part.caption)}*", ""]
            else:
                lines += [_row(part.head), "|" + "---|" * len(part.head)]
                lines += [_row([cell.text for cell in row]) for row in part.rows]
                lines += ["", *([f"*{_marked(part.caption)}*", ""] if part.caption else [])]
    return "\n".join(lines)


def _row(words: Sequence[str]) -> str:
    return "| " + " | ".join(_marked(word).replace("|", r"\|") for word in words) + " |"


_ACTS: Final = re.compile(
    r"""
    [\\`*]                   # escapes, code, emphasis
    | ~(?!\d)                # strikes, of which two are needed; but not "about 7.5 s"
    | (?<!\w)_ | _(?!\w)     # emphasis, but not what is inside of a name
    | <(?=[A-Za-z/!?])       # tags, links
    | &(?=[#A-Za-z])         # entities
    | \](?=[(\[:])           # the end of what a link shows
    | ^[#>+=-]               # headings, quotes, lists
    | (?<=^\d)[.)](?=\s)     # numbered lists
    """,
    re.VERBOSE,
)


def _marked(words: str) -> str:
    """As Markdown that shows these words, whatever names say; what is between backticks is code."""
    parts = re.split(r"(`[^`]+`)", " ".join(words.split()))
    return "".join(
        part if code else _ACTS.sub(r"\\\g<0>", part)
        for code, part in zip(itertools.cycle((False, True)), parts, strict=False)
    )


def _text(words: str) -> str:
    return html.escape(words)


def _inline(words: str) -> str:
    """Escaped; what is between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))
