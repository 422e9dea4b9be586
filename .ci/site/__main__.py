"""The site of the documents: `python .ci/site [--out FOLDER] [--notebooks]` builds and checks it.

Pages are those of docs/, the README and its neighbors, and what is made here of docstrings, of the command,
of registries and of notebooks. All are Markdown first, so that each has a twin for programs, and another
generator could draw them.
"""

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import benchmarks
import codes
import command_line
import gallery
import links
import navigation
import python_api
import twins
from sources import ROOT, Links, for_python_markdown, places, read, title

HERE = Path(__file__).resolve().parent


def staged(notebooks: bool, scratch: Path) -> tuple[dict[str, str], dict[str, str]]:
    """All pages as Markdown by place, and files by their path in the repository."""
    known = places()
    made = python_api.pages() | command_line.pages() | codes.pages() | gallery.pages(notebooks, scratch)
    texts = (
        {name: read(name) for name in known}
        | {benchmarks.PAGE: benchmarks.page()}
        | {f"docs/{place}": text for place, text in made.items()}
    )
    pictures = [path.relative_to(scratch).as_posix() for path in scratch.rglob("*.svg")]
    known |= {f"docs/{place}": place for place in [*made, *pictures]}
    rewriting = Links(known, python_api.targets() | codes.targets() | command_line.targets())
    pages = {known[name]: rewriting.rewritten(text, name, known[name]) for name, text in texts.items()}
    return pages, rewriting.files


def toml(value: Any) -> str:
    """Of strings, lists and tables with quoted keys, as the navigation has them."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return "{" + ", ".join(f"{toml(name)} = {toml(one)}" for name, one in value.items()) + "}"


def build(out: Path, notebooks: bool) -> None:
    source = out.with_name(out.name + "-pages")
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    drawn = source / "pages"
    drawn.mkdir(parents=True)
    pages, files = staged(notebooks, drawn)
    order = navigation.arranged({name: title(text) for name, text in pages.items()})
    for name, text in pages.items():
        path = drawn / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(for_python_markdown(text), encoding="utf-8")
    for name, to in files.items():
        (drawn / to).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, drawn / to)
    for asset in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copyfile(HERE / asset, drawn / asset)
    config = (HERE / "zensical.toml").read_text(encoding="utf-8")
    own = f'docs_dir = "pages"\nsite_dir = "site"\nnav = {toml(order)}\n'
    (source / "zensical.toml").write_text(
        config.replace("[project]\n", "[project]\n" + own, 1), encoding="utf-8"
    )
    tomllib.loads((source / "zensical.toml").read_text(encoding="utf-8"))
    command = [
        sys.executable,
        "-P",
        "-m",
        "zensical",
        "build",
        "--clean",
        "--strict",
        "-f",
        str(source / "zensical.toml"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    shutil.move(source / "site", out)
    twins.written(out, pages, navigation.flat(order))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "site", help="where the site goes")
    parser.add_argument("--notebooks", action="store_true", help="run the notebooks and show what they print")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    build(given.out.resolve(), given.notebooks)
    if found := list(links.broken(given.out)):
        sys.exit("\n".join(found))
    count = len(list(given.out.rglob("*.html")))
    print(f"{count} pages in {given.out} without a broken link: open index.html")


if __name__ == "__main__":
    main()
