"""The notebooks of examples/notebooks as pages: their prose and code, and what they show if they are run."""

import ast
import html
import importlib.util
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sources import ROOT, summary, title

import orchestrace

FOLDER = "notebooks"
PACKAGE = Path(orchestrace.__file__).parents[1]
NOTEBOOKS = ROOT / "examples" / "notebooks"


class Stack(list[Any]):
    """In place of marimo's own, which is HTML for its own page."""


def cells(path: Path) -> list[ast.FunctionDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def code(path: Path, cell: ast.FunctionDef) -> str:
    """The lines of a cell, without the return that hands its names on."""
    lines = path.read_text(encoding="utf-8").splitlines()
    body = [one for one in cell.body if not isinstance(one, ast.Return)]
    end = cell.body[-1].lineno - 1 if isinstance(cell.body[-1], ast.Return) else cell.end_lineno
    return textwrap.dedent("\n".join(lines[body[0].lineno - 1 : end])).strip("\n") if body else ""


def prose(cell: ast.FunctionDef) -> str | None:
    """The Markdown of a cell that is nothing else."""
    first = cell.body[0]
    if isinstance(first, ast.Expr) and isinstance(call := first.value, ast.Call) and call.args:
        text = call.args[0]
        if ast.unparse(call.func) == "mo.md" and isinstance(text, ast.Constant):
            return textwrap.dedent(text.value).strip("\n")
    return None


def ran(path: Path) -> list[Any]:
    """What each cell shows."""
    import marimo

    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    usual = marimo.vstack, marimo.hstack
    marimo.vstack = marimo.hstack = lambda items, **_: Stack(items)
    try:
        return list(module.app.run()[0])
    finally:
        marimo.vstack, marimo.hstack = usual


def shown(output: Any, picture: Path, files: list[Path]) -> Iterator[str]:
    """An output as Markdown; a chart is a file beside the page."""
    import polars as pl

    if isinstance(output, Stack):
        for one in output:
            yield from shown(one, picture, files)
    elif isinstance(output, pl.DataFrame) and not output.height:
        yield from ("No rows.", "")
    elif isinstance(output, pl.DataFrame):
        with pl.Config(
            tbl_formatting="MARKDOWN",
            tbl_hide_dataframe_shape=True,
            tbl_rows=12,
            tbl_cols=8,
            tbl_hide_column_data_types=True,
            fmt_str_lengths=60,
            tbl_width_chars=2000,
        ):
            yield from (str(output), "")
        if output.height > 12:
            yield from (f"{output.height} rows.", "")
    elif hasattr(output, "to_json") and hasattr(output, "to_dict"):  # of Altair
        yield from drawn(output, picture, files)
    elif output is not None and hasattr(output, "text"):
        words = html.unescape(re.sub(r"<[^>]+>", " ", output.text))
        yield from (" ".join(words.split()), "")
    elif output is not None:
        yield from ("```text", str(output), "```", "")


def drawn(chart: Any, picture: Path, files: list[Path]) -> Iterator[str]:
    import vl_convert

    to = picture.with_name(f"{picture.name}-{len(files) + 1}.svg")
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_text(vl_convert.vegalite_to_svg(chart.to_json()), encoding="utf-8")
    files.append(to)
    axes = re.findall(r'"title": "([^"]+)"', chart.to_json())
    yield from (f"![Chart: {', '.join(dict.fromkeys(axes)) or 'result of the cell above'}]({to.name})", "")


def page(path: Path, run: bool, scratch: Path) -> str:
    outputs: list[Any] = ran(path) if run else []
    files: list[Path] = []
    lines: list[str] = []
    for number, cell in enumerate(cells(path)):
        if (text := prose(cell)) is not None:
            lines += [text, ""]
            continue
        lines += ["```python", code(path, cell), "```", ""]
        if run:
            lines += shown(outputs[number], scratch / FOLDER / path.stem, files)
    name = path.relative_to(ROOT).as_posix()
    note = f"This page is the notebook [{name}](../../{name}); `marimo edit {name}` opens it."
    # the cell of imports stands before the title
    imports, _, text = "\n".join(lines).replace(f"{PACKAGE}/", "").partition("# ")
    head, _, rest = text.partition("\n")
    return f"# {head}\n\n{note}\n\n{imports}{rest.rstrip()}\n"


def pages(run: bool, scratch: Path) -> dict[str, str]:
    out = {f"{FOLDER}/{path.stem}.md": page(path, run, scratch) for path in sorted(NOTEBOOKS.glob("*.py"))}
    index = [
        "# Notebooks",
        "",
        "Each runs in under a minute and takes `--path` to recordings of your own.",
        "",
    ]
    index += ["`pip install '.[notebooks]'` installs what they need.", ""]
    for name, text in out.items():
        about = summary(text.partition("opens it.")[2])
        index.append(f"- [{title(text)}]({name.rpartition('/')[2]}): {about}")
    return {f"{FOLDER}/index.md": "\n".join(index) + "\n", **out}
