"""Write a marimo notebook as one HTML file that shows offline: no script, nothing that a network has to give.

python examples/notebook_to_html.py examples/notebooks/stopping.py stopping.html
python examples/notebook_to_html.py examples/notebooks/first_tour.py tour.html -- --path my_runs/

``marimo export html`` writes a page whose script comes from a network. Here cells run once: prose is text,
frames are tables of their first rows, charts are drawn as SVG. Needs the extra notebooks.
"""

import argparse
import ast
import html
import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import marimo
import polars as pl
import vl_convert

ROWS: Final = 20
"""Rows of a frame that are shown."""
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
STYLE: Final = """
body { max-width: 62rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }
pre { background: #f6f8fa; padding: .6rem .8rem; overflow: auto; font-size: .85rem; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid #d0d7de; padding: .2rem .6rem; text-align: left; }
.wide { overflow: auto; margin: .8rem 0; }
svg { max-width: 100%; height: auto; }
"""


class Stack(list[Any]):
    """Outputs below or beside each other; marimo's own are elements of its script."""


def outputs_of(notebook: Path) -> list[Any]:
    """What each cell shows, in order."""
    spec = importlib.util.spec_from_file_location(notebook.stem, notebook)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{notebook} is no Python file, expected a marimo notebook")
    module = importlib.util.module_from_spec(spec)
    usual = marimo.vstack, marimo.hstack
    marimo.vstack = marimo.hstack = lambda items, **_: Stack(items)
    try:
        spec.loader.exec_module(module)
        return list(module.app.run()[0])
    finally:
        marimo.vstack, marimo.hstack = usual


def code_of(notebook: Path) -> list[str]:
    """The lines of each cell, without the return that hands its names on; empty where a cell is prose."""
    text = notebook.read_text(encoding="utf-8")
    lines, found = text.splitlines(), []
    for cell in (one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)):
        body = [one for one in cell.body if not isinstance(one, ast.Return)]
        is_prose = len(body) == 1 and ast.unparse(body[0]).startswith(("mo.md('", 'mo.md("'))
        last = body[-1].end_lineno if body else 0
        found.append("" if is_prose or not body else "\n".join(lines[body[0].lineno - 1 : last]))
    return [textwrap.dedent(one) for one in found]


def shown(output: Any) -> Iterator[str]:
    """An output as HTML that needs nothing else."""
    if output is None:
        return
    if isinstance(output, Stack):
        for one in output:
            yield from shown(one)
    elif isinstance(output, pl.DataFrame):
        yield table(output)
    elif hasattr(output, "to_json") and hasattr(output, "to_dict"):  # a chart of Altair
        yield f"<div>{vl_convert.vegalite_to_svg(output.to_json())}</div>"
    elif "<marimo-" not in getattr(output, "text", "<marimo-"):
        yield f"<div>{output.text}</div>"  # prose as HTML
    elif hasattr(output, "value"):  # a control, which needs the script of marimo
        yield f"<p>A control of the notebook, here at {html.escape(str(output.value))}.</p>"
    elif hasattr(output, "_repr_html_"):
        yield f'<div class="wide">{output._repr_html_()}</div>'
    else:
        yield f"<pre>{html.escape(str(output))}</pre>"


def table(frame: pl.DataFrame) -> str:
    """The first rows of a frame."""

    def row(values: Any, cell: str) -> str:
        return "".join(f"<{cell}>{html.escape(str(one))}</{cell}>" for one in values)

    rows = "".join(
        f"<tr>{row(('' if one is None else one for one in values), 'td')}</tr>"
        for values in frame.head(ROWS).iter_rows()
    )
    more = f"<p>{frame.height - ROWS:,} more rows.</p>" if frame.height > ROWS else ""
    return f'<div class="wide"><table><tr>{row(frame.columns, "th")}</tr>{rows}</table></div>{more}'


def page(notebook: Path) -> str:
    """The notebook as HTML."""
    parts = []
    for code, output in zip(code_of(notebook), outputs_of(notebook), strict=True):
        parts += [f"<pre><code>{html.escape(code)}</code></pre>"] if code else []
        parts += shown(output)
    head = (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{html.escape(notebook.stem)}</title><style>{STYLE}</style></head>"
    )
    return f"{head}<body>{''.join(parts)}</body></html>\n"


def main() -> None:
    """Write the page; what follows ``--`` goes to the notebook."""
    parser = argparse.ArgumentParser(description="Write a marimo notebook as HTML that shows offline.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("file", type=Path)
    own, sep, rest = list(sys.argv[1:]), "--", []
    if sep in own:
        own, rest = own[: own.index(sep)], own[own.index(sep) :]
    asked = parser.parse_args(own)
    if not asked.notebook.is_file():
        parser.error(f"no such notebook: '{asked.notebook}'")
    sys.argv = [str(asked.notebook), *rest]
    asked.file.write_text(page(asked.notebook), encoding="utf-8")
    print(f"wrote {asked.file}")


if __name__ == "__main__":
    main()
