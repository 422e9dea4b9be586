"""Which argument of a call does not fit the signature of its verb, in one line.

`checks_of` makes of a signature what is checked before a verb runs. Of the rest, a value of the wrong type
makes Python or Polars fail inside the verb, and `explained` looks for the argument that explains the error.
"""

import collections.abc
import inspect
import numbers
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Final, Literal, get_args, get_origin

import polars as pl

from .. import _core
from .arguments import Range
from .deferred import is_of_numpy
from .errors import InputError, OrchestraceError, ParameterError, SchemaError
from .publication import refusal
from .text import briefly, plain

Check = Callable[[str, object], None]
"""Refuses a value of the argument that it gets the name of."""

_BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python raises where a value is not of the type that was counted on."""
_OF_POLARS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_PATHS: Final = frozenset({"config", "folder", "mapping", "out", "path", "sink", "source", "target"})


class UnknownArgument(TypeError):
    """A call names an argument that the verb does not have, or passes more of them by position."""


@dataclass(frozen=True)
class Checks:
    """What is checked of every call of a verb.

    Parameters
    ----------
    placed
        Names of the arguments that may be given by position.
    of_name
        The check of an argument, where its type allows one that is quick.
    """

    placed: tuple[str, ...]
    of_name: Mapping[str, Check]

    def judge(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuse the first argument of a call that the signature does not allow.

        Raises
        ------
        ParameterError
            Names the argument, its value and what is expected.
        """
        for name, value in (*zip(self.placed, args, strict=False), *kwargs.items()):
            check = self.of_name.get(name)
            if check is not None:
                check(name, value)


def checks_of(verb: Callable[..., Any]) -> Checks:
    """The checks that the signature of a verb states. O(parameters), once for a verb."""
    known = inspect.signature(verb).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    checks = {
        one.name: check
        for one in known
        if one.kind is not one.VAR_POSITIONAL and one.kind is not one.VAR_KEYWORD
        if (check := _check_of(_resolved(one.annotation, verb))) is not None
    }
    return Checks(tuple(one.name for one in known if one.kind in by_place), checks)


def _check_of(kind: Any) -> Check | None:
    """The check of a flag, a word, a corpus or a concept of `arguments`; None for any other type."""
    if get_origin(kind) is Annotated:
        base, *more = get_args(kind)
        ranges = [one for one in more if isinstance(one, Range)]
        return _check_of(base) if not ranges else _of_ranges(ranges, type(None) in get_args(base))
    parts = set(get_args(kind)) if get_origin(kind) in (typing.Union, types.UnionType) else {kind}
    optional = type(None) in parts
    parts.discard(type(None))
    if parts == {bool}:
        return _of_flag(optional)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    others = [part for part in parts if get_origin(part) is not Literal]
    if words and not any(part is str or part is Any or get_origin(part) is not None for part in others):
        return _of_words(words, kind)
    if len(parts) == 1 and getattr(kind, "__name__", "") == "Corpus":
        return _of_corpus(kind)
    return None


def _of_ranges(ranges: list[Range], optional: bool) -> Check:
    def check(name: str, value: object) -> None:
        if not (optional and value is None):
            for one in ranges:
                one.check(name, value)

    return check


def _of_flag(optional: bool) -> Check:
    def check(name: str, value: object) -> None:
        if not (isinstance(value, bool) or is_of_numpy(value, "bool_") or (optional and value is None)):
            raise ParameterError(f"{name} is {briefly(value)}, expected True or False")

    return check


def _of_words(words: list[Any], kind: Any) -> Check:
    def check(name: str, value: object) -> None:
        if (isinstance(value, str) or not _fits(value, kind)) and value not in words:
            raise ParameterError(_wrong(name, value, kind))

    return check


def _of_corpus(kind: type[Any]) -> Check:
    def check(name: str, value: object) -> None:
        _core.check_process()
        if not isinstance(value, kind):
            raise ParameterError(_wrong(name, value, kind))

    return check


def explained(
    verb: Callable[..., Any], args: Any, kwargs: Any, error: Exception | pl.exceptions.PanicException
) -> BaseException:
    """What is to be raised for what a verb raised: the same error, or one about an argument.

    An error that no argument explains is a defect of ours or of a caller's function: it is the same.
    """
    if isinstance(error, OrchestraceError):
        if not str(error).isprintable():
            unfit = _misfit(verb, args, kwargs)
            if unfit is not None:
                return ParameterError(unfit)
            error.args = (plain(str(error)), *error.args[1:])
        return error
    if isinstance(error, _OF_POLARS):
        return _of_polars(verb, args, kwargs, error)
    if isinstance(error, OSError):
        if error.errno is None:
            return error
        return InputError(refusal(error.filename or _path(verb, args, kwargs), error))
    if isinstance(error, _BROKEN):
        unfit = _unknown_argument(verb, kwargs) or _too_many(verb, args)
        if unfit is not None:
            return UnknownArgument(unfit)
        unfit = _misfit(verb, args, kwargs)
        if unfit is not None:
            return ParameterError(unfit)
        if _frames(verb, args, kwargs):
            return _of_frames(verb, args, kwargs, error)
    return error


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
            return _wrong(name, value, kind)
        if (odd := _unspeakable(value)) is not None:
            return f"{name} has {briefly(ascii(odd))}, expected Unicode text, without surrogates"
        if name in _PATHS and isinstance(value, str) and "\0" in value:
            return f"{name} is {briefly(value)}, expected the name of a file, which has no NUL"
        if isinstance(value, int) and value.bit_length() > 63:
            return f"{name} is {briefly(value)}, expected a number of at most 64 bits"
    return None


def _wrong(name: str, value: object, kind: Any) -> str:
    """``name is value, expected a, b or c``, with the nearest word where a word is misspelt."""
    *others, last = dict.fromkeys(_words(kind))
    expected = f"{', '.join(others)} or {last}" if others else last
    words = [word[1:-1] for word in (*others, last) if word.startswith("'")]
    nearest = _core.nearest(value, words) if isinstance(value, str) and value.isprintable() else None
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    return plain(f"{name} is {briefly(value)}, expected {expected}{hint}")


def _of_polars(verb: Callable[..., Any], args: Any, kwargs: Any, error: BaseException) -> BaseException:
    unfit = _misfit(verb, args, kwargs)
    if unfit is not None:
        return ParameterError(unfit)
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
    if origin is Annotated:
        return _fits(value, get_args(kind)[0])
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
    if origin is Annotated:
        yield from _words(get_args(kind)[0])
    elif kind in _NAMED:
        yield _NAMED[kind]
    elif origin in (typing.Union, types.UnionType):
        parts = get_args(kind)
        for one in sorted(parts, key=lambda part: part is type(None)):
            yield from _words(one)
    elif origin is Literal:
        yield from map(repr, get_args(kind))
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
