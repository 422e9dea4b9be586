"""The order of pages: docs/navigation.toml names sections and patterns, and every page is in one once."""

import fnmatch
import tomllib
from collections.abc import Mapping
from typing import Any

from sources import ROOT

Nav = list[dict[str, Any]]


def sections() -> list[dict[str, Any]]:
    return tomllib.loads((ROOT / "docs" / "navigation.toml").read_text(encoding="utf-8"))["section"]


def arranged(titles: Mapping[str, str]) -> Nav:
    """Sections with their pages; a pattern takes what no name and no pattern before it took.

    Raises
    ------
    SystemExit
        A page is in no section, or a section names a page that is not there.
    """
    known = sections()
    named = {name for section in known for name in entries(section) if "*" not in name}
    if unknown := sorted(named - titles.keys()):
        raise SystemExit(f"docs/navigation.toml names pages that are not there: {', '.join(unknown)}")
    left = {name: title for name, title in titles.items() if name not in named}

    def take(entry: str) -> Nav:
        if "*" not in entry:
            return [{titles[entry]: entry}]
        taken = sorted(fnmatch.filter(left, entry), key=lambda name: (left[name].lower(), name))
        return [{left.pop(name): name} for name in taken]

    def fill(section: Mapping[str, Any]) -> Nav:
        pages = [page for entry in section.get("pages", ()) for page in take(entry)]
        if section.get("namespaces"):
            pages = nested(pages, section["pages"][0].rpartition("/")[0])
        inner = [{one["title"]: inside} for one in section.get("section", ()) if (inside := fill(one))]
        return pages + inner

    nav = [{one["title"]: inside} for one in known if (inside := fill(one))]
    if left:
        raise SystemExit(f"docs/navigation.toml has no section for: {', '.join(sorted(left))}")
    return nav


def nested(pages: Nav, folder: str) -> Nav:
    """Pages of a folder, then those of each folder in it as a section, by the last part of their titles."""
    out: Nav = []
    inside: dict[str, Nav] = {}
    for title, name in (row for page in pages for row in page.items()):
        space, _, rest = name.removeprefix(f"{folder}/").rpartition("/")
        if not space:
            out.append({title: name})
        elif rest == "index.md":
            inside.setdefault(space, []).insert(0, {title: name})
        else:
            inside.setdefault(space, []).append({title.rpartition(".")[2]: name})
    return out + [{title: own} for own in inside.values() for title in own[0]]


def entries(section: Mapping[str, Any]) -> list[str]:
    inner = [name for one in section.get("section", ()) for name in entries(one)]
    return [*section.get("pages", ()), *inner]


def flat(nav: Nav) -> list[tuple[str, str, str]]:
    """Section at the top, title and page, in order."""

    def walk(section: str, pages: Nav) -> list[tuple[str, str, str]]:
        out: list[tuple[str, str, str]] = []
        for one in pages:
            for title, what in one.items():
                out += [(section, title, what)] if isinstance(what, str) else walk(section, what)
        return out

    return [row for one in nav for section, pages in one.items() for row in walk(section, pages)]
