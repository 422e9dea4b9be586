"""Errors about arguments, for every verb.

A verb checks the values of its arguments. A value of the wrong type makes Python or Polars fail inside the
verb. `public` then looks for the argument that does not fit the signature, or for what the system or Polars
refused. If no argument explains the error, it is a defect of ours or of a caller's function and passes
unchanged.
"""

import collections.abc
import inspect
import numbers
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, BinaryIO, Literal, ParamSpec, TypeVar, get_args, get_origin

import polars as pl

from .. import _core
from .deferred import is_of_numpy
from .errors import InputError, OrchestraceError, ParameterError, SchemaError
from .publication import refusal
from .text import briefly, plain

P = ParamSpec("P")
R = TypeVar("R")

_BROKEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python raises where a value is not of the type that was counted on."""
_OF_POLARS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_PATHS = frozenset({"config", "folder", "mapping", "out", "path", "sink", "source", "target"})


class UnknownArgument(TypeError):
    """A call names an argument that the verb does not have, or passes more of them by position."""


def public(verb: Callable[P, R]) -> Callable[P, R]:
    """A verb whose errors about its arguments are ours, in one line.

    Raises
    ------
    ParameterError
        An argument is not of a type that the signature allows.
    SchemaError
        Polars refuses a frame that was given.
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

    @wraps(verb)
    def judged(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except OrchestraceError as error:
            if str(error).isprintable():
                raise
            told = _misfit(verb, args, kwargs)
            if told is not None:
                raise ParameterError(told) from None
            error.args = (plain(str(error)), *error.args[1:])
            raise
        except _OF_POLARS as error:
            raise _of_polars(verb, args, kwargs, error) from error
        except OSError as error:
            if error.errno is None:
                raise
            raise InputError(refusal(error.filename or _path(verb, args, kwargs), error)) from error
        except _BROKEN as error:
            unfit = _unknown_argument(verb, kwargs) or _too_many(verb, args)
            if unfit is not None:
                raise UnknownArgument(unfit) from None
            told = _misfit(verb, args, kwargs)
            if told is not None:
                raise ParameterError(told) from error
            if not _frames(verb, args, kwargs):
                raise
            raise _of_frames(verb, args, kwargs, error) from error

    return judged


def _given(verb: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[tuple[str, object, Any]]:
    """Name, value and annotation of every argument; nothing if the call does not fit the signature."""
    signature = inspect.signature(verb)
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return
    for name, value in bound.items():
        parameter = signature.parameters[name]
        kind = _resolved(parameter.annotation, verb)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, one, kind) for one in value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            known = typing.get_type_hints(get_args(kind)[0]) if get_args(kind) else {}
            yield from ((key, one, known.get(key, Any)) for key, one in value.items())
        elif name not in ("self", "cls"):
            yield name, value, kind


def _unknown_argument(verb: Callable[..., Any], kwargs: Any) -> str | None:
    """What is wrong with the first keyword that the signature does not have."""
    known = inspect.signature(verb).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in known.values()):
        return None
    names = [name for name, one in known.items() if one.kind is not inspect.Parameter.VAR_POSITIONAL]
    for name in kwargs:
        if name not in known:
            nearest = _core.nearest(name, names)
            hint = f"; did you mean '{nearest}'?" if nearest else ""
            return f"{verb.__name__}() has no argument '{name}'{hint} (it has: {', '.join(names)})"
    return None


def _too_many(verb: Callable[..., Any], args: Any) -> str | None:
    """What is wrong with more arguments by position than the signature has."""
    known = inspect.signature(verb).parameters.values()
    placed = [one.name for one in known if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    others = [one.name for one in known if one.kind is one.KEYWORD_ONLY]
    if len(args) <= len(placed) or any(one.kind is one.VAR_POSITIONAL for one in known) or not others:
        return None
    before = f"after {', '.join(placed)} " if placed else ""
    return f"{verb.__name__}() takes its arguments {before}by name ({', '.join(f'{one}=' for one in others)})"


def _resolved(annotation: Any, verb: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, vars(inspect.getmodule(verb)))
    except (NameError, SyntaxError, TypeError):
        return Any  # known to the type checker only


def _misfit(verb: Callable[..., Any], args: Any, kwargs: Any) -> str | None:
    """What is wrong with the first argument that is not what the signature says."""
    for name, value, kind in _given(verb, args, kwargs):
        if not _fits(value, kind):
            return f"{name} is {briefly(value)}, expected {' or '.join(dict.fromkeys(_words(kind)))}"
        if (odd := _unspeakable(value)) is not None:
            return f"{name} has {briefly(ascii(odd))}, expected Unicode text, without surrogates"
        if name in _PATHS and isinstance(value, str) and "\0" in value:
            return f"{name} is {briefly(value)}, expected the name of a file, which has no NUL"
        if isinstance(value, int) and value.bit_length() > 63:
            return f"{name} is {briefly(value)}, expected a number of at most 64 bits"
    return None


def _of_polars(verb: Callable[..., Any], args: Any, kwargs: Any, error: BaseException) -> BaseException:
    told = _misfit(verb, args, kwargs)
    if told is not None:
        return ParameterError(told)
    if _frames(verb, args, kwargs):
        return _of_frames(verb, args, kwargs, error)
    given = _given(verb, args, kwargs)
    expressions = [name for name, value, _ in given if isinstance(value, pl.Expr)]
    if expressions:
        return ParameterError(f"{' or '.join(expressions)} cannot be computed ({_reason(error)})")
    return error


def _frames(verb: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """Arguments that are frames."""
    return [
        name
        for name, value, _ in _given(verb, args, kwargs)
        if isinstance(value, pl.DataFrame | pl.LazyFrame) or hasattr(value, "__arrow_c_stream__")
    ]


def _of_frames(verb: Callable[..., Any], args: Any, kwargs: Any, error: BaseException) -> SchemaError:
    names = " or ".join(_frames(verb, args, kwargs))
    return SchemaError(
        f"{names} does not have the columns, types and values that are expected ({_reason(error)}); give the"
        " frame as the verb that makes it returns it"
    )


def _reason(error: BaseException) -> str:
    first = next(iter(str(error).splitlines()), "")
    return plain(f"{type(error).__name__}: {first}" if first else type(error).__name__)


def _path(verb: Callable[..., Any], args: Any, kwargs: Any) -> str:
    given = _given(verb, args, kwargs)
    return ", ".join(plain(value) for name, value, _ in given if name in _PATHS) or "a file"


def _unspeakable(value: object) -> str | None:
    """Text in a value that has no bytes in UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value
    if isinstance(value, list | tuple | set | frozenset | dict):
        return next((odd for one in value if (odd := _unspeakable(one)) is not None), None)
    return None


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; what a type checker alone can judge is."""
    origin = get_origin(kind)
    if kind is Any:
        return True
    if kind in (None, type(None)):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in get_args(kind))
    if origin is Literal:
        return any(type(value) is type(one) or isinstance(value, type(one)) for one in get_args(kind))
    if kind is bool:
        return isinstance(value, bool) or is_of_numpy(value, "bool_")
    if kind in (int, float):
        return _is_number(value)
    if kind is BinaryIO:
        return hasattr(value, "read") or hasattr(value, "write")
    if origin is tuple:
        parts = get_args(kind)
        if not isinstance(value, tuple | list):
            return False
        if len(parts) == 2 and parts[1] is ...:
            return all(_fits(one, parts[0]) for one in value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = get_args(kind)
        return isinstance(value, Mapping) and all(
            _fits(key, of_key) and _fits(one, of_value) for key, one in value.items()
        )
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if isinstance(value, str | bytes | Mapping | pl.DataFrame) or not isinstance(value, Iterable):
            return False
        if isinstance(value, list | tuple | set | frozenset | pl.Series) or is_of_numpy(value, "ndarray"):
            return getattr(value, "ndim", 1) == 1 and all(_fits(one, get_args(kind)[0]) for one in value)
        return origin is Iterable or not hasattr(value, "read")
    return not isinstance(kind, type) or typing.is_typeddict(kind) or isinstance(value, kind)


def _is_number(value: object) -> bool:
    if isinstance(value, numbers.Real):
        return True
    try:
        operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return False
    return not is_of_numpy(value, "ndarray")


_NAMED: dict[Any, str] = {
    Any: "anything",
    None: "None",
    type(None): "None",
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    BinaryIO: "a binary file",
    pl.DataFrame: "a frame",
    pl.LazyFrame: "a frame",
    pl.Expr: "an expression of Polars",
}


def _words(kind: Any) -> Iterator[str]:
    """What a type is called where a message asks for it."""
    origin = get_origin(kind)
    if kind in _NAMED:
        yield _NAMED[kind]
    elif origin in (typing.Union, types.UnionType):
        parts = get_args(kind)
        for one in sorted(parts, key=lambda part: part is type(None)):
            yield from _words(one)
    elif origin is Literal:
        words = [repr(one) for one in get_args(kind)]
        yield words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    elif origin is os.PathLike:
        yield "a path"
    elif origin is collections.abc.Callable:
        yield "a function"
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield f"a dict of {' or '.join(_words(get_args(kind)[1]))} by name"
    elif isinstance(origin, type) and issubclass(origin, Iterable):
        yield f"a list of {' or '.join(dict.fromkeys(_words(get_args(kind)[0])))}"
    elif isinstance(kind, type):
        yield "a corpus" if kind.__name__ == "Corpus" else f"a {kind.__name__}"
    else:
        yield "what the documentation of the argument says"
