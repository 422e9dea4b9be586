"""What the command says beside its results: exit codes, errors as one line, and standard output that fails.

Nothing here needs Typer until there is something to say, so that ``orchestrace --version`` does without.
"""

import io
import os
import re
import sys
from typing import TYPE_CHECKING

from ..base.deferred import Deferred
from ..base.errors import OrchestraceError
from ..base.start import STOPPED as STOPPED
from ..base.text import plain

if TYPE_CHECKING:
    import typer
else:
    typer = Deferred("typer")

FAILED, USAGE, QUARANTINED = 1, 2, 3


def print_error(error: Exception, flags: dict[str, str] | None = None) -> None:
    """Say on stderr, in one line, what an error of a user says."""
    typer.echo(f"error: {plain(_with_flags(_line(error), flags or {}))}", err=True)


def buffer_output() -> None:
    """Give standard output a buffer where Python was told to have none.

    Without one (``python -u``, PYTHONUNBUFFERED, as many containers set it), Python drops what a full disk
    did not take of a text, and the command would end as if all of it were there.
    """
    out = sys.stdout
    raw = getattr(out, "buffer", None)
    if isinstance(out, io.TextIOWrapper) and isinstance(raw, io.RawIOBase):
        encoding, errors = out.encoding, out.errors
        out.detach()  # else it closes what it wrote to, once nobody has it
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=encoding, errors=errors, line_buffering=True
        )


def drop_unwritten() -> None:
    """Drop what standard output did not take; the error is printed already. At exit Python would retry, fail,
    and exit with 120."""
    if sys.stdout is None:  # closed by whoever started the command
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(error: Exception) -> str:
    """What an error says; of one that is the system's own, the file and what is wrong with it."""
    if isinstance(error, OrchestraceError) or not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    # files that we write have their names in the error; standard output has none
    return f"{error.filename or 'the output'}: {error.strerror}"


def _with_flags(message: str, flags: dict[str, str]) -> str:
    """A message of the library with the options of a command for parameters: ``name=`` or ``name=value``,
    ``name:`` or ``name is`` where it begins, ``for name 'value'``, and a list of options."""

    def flag(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"] or ""
        return " ".join(word for word in (flags[name], "" if value == "True" else value.strip("'")) if word)

    def listed(match: re.Match[str]) -> str:
        return ", ".join(flags.get(name, name) for name in match[0].split(", "))

    names = "|".join(map(re.escape, flags))
    if not names:
        return message
    begun = re.sub(
        rf"(?:^|(?<=, but ))({names})(?=: | is | has | must | means )|(?<= for )({names})(?= ')",
        lambda match: flags[match[1] or match[2]],
        message,
    )
    begun = re.sub(r"(?<=\(its options: )[\w, ]+(?=\))", listed, begun)
    pattern = rf"(?<![\w.])(?P<name>{names})=(?P<value>'[^']*'|[\w.-]*\w)?"
    return re.sub(pattern, flag, begun).replace("pass --", "give --")
