"""What makes a function a command: its module gives the name and the help, its parameters the options."""

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from types import ModuleType
from typing import Any, Final, get_type_hints

import typer

from .application import SETTINGS, app
from .commands import name_of

Run = Callable[..., None]
_SHOWN: Final = 2
"""Examples in the help of a command."""


def command(run: Run) -> Run:
    """Make a function the command that its module is.

    The file has its name, the docstring its help, and `EXAMPLES` command lines that work where the files that
    they name are; the tests run them all.
    """
    module = sys.modules[run.__module__]
    name = name_of(module.__name__)
    app.command(name=name, help=module.__doc__, epilog=_epilog(name, module))(_grouped(run))
    return run


def group(name: str) -> Callable[[Run], Run]:
    """Make a module a group of commands: functions that are decorated by what this returns.

    Each has the name of its function, without underscores at the end, and its docstring as help.
    """
    module = sys.modules[name]
    commands = typer.Typer(
        help=module.__doc__,
        no_args_is_help=True,
        context_settings=SETTINGS,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.add_typer(commands, name=name_of(name))

    def add(run: Run) -> Run:
        command_name = run.__name__.rstrip("_")
        commands.command(name=command_name, epilog=_epilog(f"{name_of(name)} {command_name}", module))(
            _grouped(run)
        )
        return run

    return add


def _epilog(name: str, module: ModuleType) -> str:
    """The first examples of a command, which its help ends with; `\\b` keeps their lines."""
    lines = [line for line in module.EXAMPLES if f"{line} ".startswith(f"{name} ")]
    return "\n".join(["\b", *(f"$ orchestrace {line}" for line in lines[:_SHOWN])])


def _grouped(command: Run) -> Run:
    """Give a command the fields of its parameters that are dataclasses, as options of its own."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, kind in get_type_hints(command, include_extras=True).items():
        if is_dataclass(kind):
            groups[name] = kind
            field_types = get_type_hints(kind, include_extras=True)
            parameters += [
                _parameter(field.name, field_types[field.name], field.default) for field in fields(kind)
            ]
        elif name != "return":
            default = inspect.signature(command).parameters[name].default
            parameters.append(
                _parameter(name, kind, MISSING if default is inspect.Parameter.empty else default)
            )

    @functools.wraps(command)
    def run(**values: Any) -> None:
        instances = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**values, **instances)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer looks at
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
