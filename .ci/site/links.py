"""Broken links, anchors and pictures of a built site, and what its pages would fetch from elsewhere."""

import posixpath
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {("link", "href"), ("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The ids of a page, where it leads, and what it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.ids.add(value)
            if (tag, name) == ("a", "href"):
                self.links.append(value)
            if (tag, name) in FETCHED:
                self.fetched.append(value)


def broken(site: Path) -> Iterator[str]:
    """A line for every link, anchor or picture that leads nowhere, and for every request to another host."""
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    for name, page in pages.items():
        for target in page.fetched:
            if urlsplit(target).netloc:
                yield f"{name}: fetches {target}"
        for target in page.links + page.fetched:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc or name == "404.html":
                continue
            to = (
                posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path)))
                if parts.path
                else name
            )
            if to == "." or (site / to).is_dir():
                to = posixpath.normpath(posixpath.join(to, "index.html"))
            if not (site / to).is_file():
                yield f"{name}: {target} leads nowhere"
            elif parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].ids:
                yield f"{name}: {target} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        for target in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: fetches {target}"
