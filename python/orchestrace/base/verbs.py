"""Verbs: what the package offers to callers, each one function with one decorator.

The signature of a verb is the only list of its options. `verb` checks arguments by it, turns errors about
arguments into one line, and hands a call to an engine where a caller gives one. What a verb says of itself is
a `Verb`, which `verb_named` finds by the name that a caller writes; the public names of the package are the
registry.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar, overload

import polars as pl

from .division import Division
from .engines import VerbCall, engine_of
from .errors import OrchestraceError
from .misfits import Checks, UnknownArgument, checks_of, explained

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE: Final = __name__.partition(".")[0]


@dataclass(frozen=True)
class Verb:
    """What a verb says of itself.

    Parameters
    ----------
    function
        What a caller calls.
    rows
        What a row of its table is of; None where it returns no table.
    division
        How an engine divides it into tasks; None where its rows are not of a trace or of a group.
    """

    function: Callable[..., Any]
    rows: str | None = None
    division: Division | None = None

    @property
    def name(self) -> str:
        """Its name below the package: ``credit``, ``safety.tainted_events``."""
        return public_name(self.function)


@overload
def verb(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def verb(*, rows: str, division: Division | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def verb(function: Any = None, /, *, rows: str | None = None, division: Division | None = None) -> Any:
    """Make a function a verb: its errors about arguments are ours, in one line.

    Parameters
    ----------
    function
        The function, where the decorator has no arguments.
    rows
        What a row of its table is of.
    division
        How its calls are divided among processes or machines. The function then has the parameter
        ``engine``, which it never sees.

    Raises
    ------
    ParameterError
        An argument is not what the signature allows.
    SchemaError
        Polars refuses a frame that a caller gave.
    InputError
        The system refuses a file.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.credit("runs.jsonl")
    Traceback (most recent call last):
        ...
    orchestrace...ParameterError: corpus is 'runs.jsonl', expected a corpus
    """
    if function is None:
        return lambda inner: _decorated(inner, rows, division)
    return _decorated(function, rows, division)


def _decorated(function: Callable[..., Any], rows: str | None, division: Division | None) -> Any:
    checks: list[Checks] = []

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if not checks:  # annotations may name what is defined below the function
                checks.append(checks_of(function))
            checks[0].judge(args, kwargs)
            if division is not None and kwargs.get("engine") is not None and _binds(function, args, kwargs):
                return _by_engine(about, args, kwargs)
            return function(*args, **kwargs)
        except (Exception, pl.exceptions.PanicException) as error:
            better = explained(function, args, kwargs, error)
            if better is error:
                raise
            ours = isinstance(error, OrchestraceError) or isinstance(better, UnknownArgument)
            raise better from None if ours else error

    about = Verb(run, rows, division)
    vars(run)["__verb__"] = about
    return run


def _binds(function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False  # the call itself says what is wrong
    return True


def _by_engine(about: Verb, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the engine of a call returns for it."""
    named = dict(kwargs)
    engine = engine_of(named.pop("engine"), named.pop("threads", None))
    corpus, rest = (named.pop("corpus"), args) if "corpus" in named else (args[0], args[1:])
    running = {name: named.pop(name, None) for name in ("progress", "sink", "resume")}
    return engine.table(VerbCall(about.name, corpus, rest, named, **running))


def public_name(function: Callable[..., Any]) -> str:
    """The name of a function below the package, as callers write it."""
    package = sys.modules[_PACKAGE]
    name, place = function.__name__, function.__module__.removeprefix(_PACKAGE)
    if vars(package)["_places"].get(name) == place:
        return name
    return f"{place.split('.')[1]}.{name}"


def verb_named(name: str) -> Verb | None:
    """The verb of a public name; None where the package has none."""
    target: Any = sys.modules[_PACKAGE]
    for part in name.split("."):
        if not isinstance(target, ModuleType) or part not in getattr(target, "__all__", ()):
            return None
        target = getattr(target, part)
    about = getattr(target, "__verb__", None)
    return about if isinstance(about, Verb) else None


def all_verbs() -> Iterator[Verb]:
    """Every verb of the package, in the order of the names; loads all rooms."""
    package = sys.modules[_PACKAGE]
    seen: set[str] = set()
    for space in (package, *(getattr(package, name) for name in package.__all__)):
        for name in space.__all__ if isinstance(space, ModuleType) else ():
            about = getattr(getattr(space, name), "__verb__", None)
            if isinstance(about, Verb) and about.name not in seen:
                seen.add(about.name)
                yield about
