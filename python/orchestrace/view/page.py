"""The HTML file: one template with its style, its script and the data, and a policy that forbids the rest."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final

from .packing import packed_json

STYLE: Final = ("page.css",)
SCRIPTS: Final = (
    "text.js",
    "data.js",
    "table.js",
    "lanes.js",
    "timeline.js",
    "panes.js",
    "beside.js",
    "bars.js",
    "page.js",
)
"""In this order, in one function: what a file declares the later ones use."""


def page_of(corpus: object, runs: list[tuple[int, str]]) -> bytes:
    """The page: data of the corpus, and for each run its number and its data as JSON."""
    blocks = [f'<script type="application/json" id="corpus">{packed_json(corpus)}</script>']
    blocks += [f'<script type="application/json" id="run-{trace}">{text}</script>' for trace, text in runs]
    style, script = _joined(STYLE), _script()
    return (
        Template(_read("page.html"))
        .substitute(
            policy=f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
            " base-uri 'none'; form-action 'none'",
            style=style,
            script=script,
            data="\n".join(blocks),
        )
        .encode()
    )


def empty_size() -> int:
    """Bytes of a page without data."""
    return len(page_of(None, []))


def block_size(trace: int, text: str) -> int:
    """Bytes that a run takes in the page."""
    return len(text.encode()) + len(f'<script type="application/json" id="run-{trace}"></script>\n')


@cache
def _script() -> str:
    return f'(() => {{\n"use strict";\n{_joined(SCRIPTS)}}})();\n'


def _joined(names: tuple[str, ...]) -> str:
    return "".join(map(_read, names))


@cache
def _read(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """What the policy of a page lets in: exactly this text, and so no script that data may bring."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
