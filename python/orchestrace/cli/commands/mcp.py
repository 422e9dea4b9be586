"""Let agents ask about the recordings of a folder, by MCP."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base.deferred import Deferred
from ...base.paths import path_of
from ...base.text import plain
from ..registry import command
from ..serving.confinement import Root

if TYPE_CHECKING:
    from ..serving import server
else:
    server = Deferred("orchestrace.cli.serving.server")  # whose tools need NumPy

EXAMPLES: Final = ("mcp .",)


@command
def run(
    folder: Annotated[
        str,
        typer.Argument(metavar="ROOT", help="The folder that may be read, and no other.", show_default=False),
    ],
) -> None:
    root = Root(path_of(folder))
    if sys.stdin is not None and sys.stdin.isatty():
        waiting = f"waiting for a client of {root.folder} on standard input; Ctrl-C ends"
        typer.echo(plain(waiting), err=True)
    server.serve(root)
