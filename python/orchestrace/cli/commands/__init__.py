"""The commands of `orchestrace`: a module of each, which has its name, its summary and all that it is.

What is listed is read from the files, so that a list loads none of them.
"""

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def command_names() -> tuple[str, ...]:
    """The names of all commands and groups of commands, in the order of the alphabet."""
    return tuple(sorted(path.stem.replace("_", "-") for path in _FOLDER.glob("[!_]*.py")))


def module_of(name: str) -> str:
    """The module of a command, as one imports it."""
    return f"{__name__}.{name.replace('-', '_')}"


def name_of(module: str) -> str:
    """The command that a module is."""
    return module.rpartition(".")[2].replace("_", "-")


def summary_of(name: str) -> str:
    """What a command does, in a line: the first of its module."""
    with (_FOLDER / f"{name.replace('-', '_')}.py").open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
