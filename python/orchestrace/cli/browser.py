"""Pages that commands wrote, opened in the browser of whoever runs them."""

import webbrowser
from pathlib import Path

import typer

from ..base.text import plain


def open_page(page: Path) -> None:
    """Open a page in a browser; where there is none, say on standard error which file to open."""
    place = page.resolve()
    if not webbrowser.open(place.as_uri()):
        typer.echo(plain(f"no browser could be opened; open {place} in one"), err=True)
