"""The application: exit codes, and errors of users as one line."""

import io
import os
import re
import sys
import warnings
from typing import Annotated, Any

import typer

from .. import __version__
from ..base.errors import OrchestraceError, ParameterError
from ..base.text import plain

FAILED, USAGE, QUARANTINED, STOPPED = 1, 2, 3, 130
SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Verbs(typer.core.TyperGroup):
    """Turns the errors of a user into one line and an exit code; bugs keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (OrchestraceError, OSError) as error:
            tell(error, self._flags(ctx))
            raise typer.Exit(USAGE if isinstance(error, ParameterError) else FAILED) from None
        except KeyboardInterrupt as error:
            typer.echo(plain("; ".join(["stopped", *getattr(error, "__notes__", ())])), err=True)
            raise typer.Exit(STOPPED) from None

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands)

    def _flags(self, ctx: Any) -> dict[str, str]:
        """The options of the command that runs, by the parameters of the library that they stand for.

        For a group, those of all its commands: which one runs is unknown here, and they share them.
        """
        command = self.commands.get(ctx.invoked_subcommand or "")
        among = [command, *getattr(command, "commands", {}).values()]
        options = [(one.name, one.opts) for each in among for one in getattr(each, "params", []) if one.opts]
        flags = {name: max(opts, key=len) for name, opts in options if max(opts, key=len).startswith("--")}
        other = {"overwrite": "force", "reward_scores": "reward_score", "trace_id": "trace"}
        other |= {f"{what}_tools": what for what in ("untrusted", "trusted", "privileged")}
        return flags | {name: flags[own] for name, own in other.items() if own in flags}


def tell(error: Exception, flags: dict[str, str] | None = None) -> None:
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
    """Give up what standard output did not take, which was said: at its end Python would try once more, fail,
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
    """A message of the library with the options of a command for parameters, ``name=`` or ``name=value``, or
    ``name:`` where it begins."""

    def flag(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"] or ""
        return " ".join(word for word in (flags[name], "" if value == "True" else value.strip("'")) if word)

    names = "|".join(map(re.escape, flags))
    if not names:
        return message
    begun = re.sub(rf"^({names})(?=: )", lambda found: flags[found[1]], message)
    pattern = rf"(?<![\w.])(?P<name>{names})=(?P<value>'[^']*'|[\w.-]*\w)?"
    return re.sub(pattern, flag, begun).replace("pass --", "give --")


def _warn(message: Warning | str, *_place: Any, **_more: Any) -> None:
    typer.echo(f"warning: {plain(message)}", err=True)


app = typer.Typer(
    cls=_Verbs,
    help="Measure recordings of multi-agent LLM runs.",
    no_args_is_help=True,
    context_settings=SETTINGS,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
