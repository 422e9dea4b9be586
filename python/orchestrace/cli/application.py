"""The application: its commands, which load when they run, and the exit codes of errors."""

import traceback
import warnings
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any

import typer

from .. import __version__
from ..base.errors import OrchestraceError, ParameterError
from ..base.text import plain
from .commands import command_names, module_of, summary_of
from .interrupts import hold_back_interrupts
from .output import FAILED, STOPPED, USAGE, print_error

UsageError: Any = typer.BadParameter.__bases__[0]
"""What Typer raises where words are no options or arguments of a command; Typer has no name for it."""
_HELP: Any = tuple(kind for kind in UsageError.__subclasses__() if kind.__name__ == "NoArgsIsHelpError")
_WORDS = "orchestrace.words"
"""Where a context keeps the words behind the name of a command."""
SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Commands(MutableMapping[str, Any]):
    """The commands by their names, each made of its module when it is asked for."""

    def __init__(self) -> None:
        self._ready: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._ready:
            if name not in command_names():
                raise KeyError(name)
            import_module(module_of(name))
            self._ready[name] = _command(name)
        return self._ready[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._ready[name] = command

    def __delitem__(self, name: str) -> None:
        del self._ready[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*command_names(), *self._ready}))

    def __len__(self) -> int:
        return len({*command_names(), *self._ready})


def _command(name: str) -> Any:
    """A command or a group of commands that a module has registered under this name."""
    options: Any = {"pretty_exceptions_short": app.pretty_exceptions_short, "rich_markup_mode": None}
    for command in app.registered_commands:
        if command.name == name:
            return typer.main.get_command_from_info(command, **options)
    group = next(group for group in app.registered_groups if group.name == name)
    return typer.main.get_group_from_info(group, suggest_commands=True, **options)


class _Verbs(typer.core.TyperGroup):
    """Turns the errors of a user into one line and an exit code; bugs keep their traceback."""

    def __init__(self, **attributes: Any) -> None:
        # not those that happen to be registered, since some modules are loaded by now
        super().__init__(**attributes | {"commands": _Commands()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command as it is listed: its name and summary. `resolve_command` gives the one that runs."""
        if cmd_name not in command_names():
            return None
        return typer.core.TyperCommand(cmd_name, help=summary_of(cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        ctx.meta[_WORDS] = rest
        return name, command and self.commands[str(name)], rest

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """The context of the application itself, whose own options may be misspelt."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except UsageError as error:
            _say_misuse(error)
            raise typer.Exit(USAGE) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            hold_back_interrupts()  # from here on there may be something to say of what is kept
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except UsageError as error:
            _say_misuse(error)
            raise typer.Exit(_error_exit(ctx, USAGE)) from None
        except (OrchestraceError, OSError) as error:
            print_error(error, self._flags(ctx))
            usual = USAGE if isinstance(error, ParameterError) else FAILED
            raise typer.Exit(_error_exit(ctx, usual)) from None
        except KeyboardInterrupt as error:
            typer.echo(plain("; ".join(["stopped", *getattr(error, "__notes__", ())])), err=True)
            raise typer.Exit(STOPPED) from None
        except (typer.Exit, typer.Abort, SystemExit):
            raise
        except BaseException:
            # a bug keeps its traceback, and is no answer of a command whose codes are answers
            if (code := _error_exit(ctx, FAILED)) == FAILED:
                raise
            traceback.print_exc()
            raise typer.Exit(code) from None

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands)

    def _flags(self, ctx: Any) -> dict[str, str]:
        """The options of the command that runs, by the parameters of the library that they stand for."""
        command = self.commands.get(ctx.invoked_subcommand or "")
        inner = getattr(command, "commands", {})
        command = next((inner[word] for word in ctx.meta.get(_WORDS, ()) if word in inner), command)
        options = [
            (parameter.name, parameter.opts) for parameter in getattr(command, "params", []) if parameter.opts
        ]
        flags = {name: max(opts, key=len) for name, opts in options if max(opts, key=len).startswith("--")}
        other = {"overwrite": "force", "trace_id": "trace"}
        other |= {"reward_scores": "reward_score", "null_values": "null_value"}
        other |= {f"{trust}_tools": trust for trust in ("untrusted", "trusted", "privileged", "memory")}
        other |= {"at": "truncated", "factor": "faster", "rule": "aggregate"}
        return {name: flags[option] for name, option in other.items() if option in flags} | flags


def _error_exit(ctx: Any, usual: int) -> int:
    """The exit code of an error: of a command whose codes are answers, the one that it declares."""
    name = ctx.invoked_subcommand
    if name not in command_names():
        return usual
    return int(getattr(import_module(module_of(name)), "ERROR_EXIT", usual))


def _say_misuse(error: Any) -> None:
    """Say in one line which word of a command is not one of its own; help of a group stays help."""
    if isinstance(error, _HELP):
        raise error
    message = error.format_message().rstrip(".")
    command = "" if error.ctx is None else f"; see {error.ctx.command_path} --help"
    typer.echo(f"error: {plain(message[:1].lower() + message[1:] + command)}", err=True)


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
