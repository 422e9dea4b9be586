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
from .arguments import Listed, Range
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
_QUICK: Final = (bool, str, type(None), pl.DataFrame, pl.LazyFrame, pl.Expr)
"""Types that are judged before a verb runs, beside concepts, words and our classes."""
_OF_POLARS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
_PATHS: Final = frozenset({"config", "dump", "folder", "mapping", "out", "path", "sink", "source", "target"})


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
    parameters = inspect.signature(verb).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = {
        parameter.name: _resolved(parameter.annotation, verb)
        for parameter in parameters
        if parameter.kind is not parameter.VAR_POSITIONAL and parameter.kind is not parameter.VAR_KEYWORD
    }
    checks = {name: _check_of(kind) for name, kind in kinds.items() if _is_quick(kind)}
    return Checks(tuple(parameter.name for parameter in parameters if parameter.kind in by_place), checks)


def judge_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Refuse the first value that a field of a dataclass, or an option of a typed dict, does not allow.

    Raises
    ------
    ParameterError
        Names the field, its value and what is expected.
    """
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        if name in values and _is_quick(hint):
            _check_of(hint)(name, values[name])


def _check_of(kind: Any) -> Check:
    parts = _parts(kind)
    classes = tuple(part for part in parts if isinstance(part, type))
    words = {word for part in parts if get_origin(part) is Literal for word in get_args(part)}
    concepts = [concept for part in parts for concept in _ranges(part)]

    def check(name: str, value: object) -> None:
        frequent = isinstance(value, classes) or (isinstance(value, str) and value in words)
        if not (frequent or any(concept.has(value) for concept in concepts) or _fits(value, kind)):
            raise ParameterError(_wrong(name, value, kind))

    def check_corpus(name: str, value: object) -> None:
        _core.check_process()
        check(name, value)

    return check_corpus if "Corpus" in {class_.__name__ for class_ in classes} else check


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types that a value of a type may be of."""
    return get_args(kind) if get_origin(kind) in (typing.Union, types.UnionType) else (kind,)


def _is_quick(kind: Any) -> bool:
    """Whether a value is judged before the verb runs: by a concept, a word, a flag or a class, in O(1).

    Numbers without a range are not: Python and the core take more of them than their types say.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return bool(_ranges(kind)) or _is_quick(get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return all(map(_is_quick, get_args(kind)))
    if origin in (Literal, os.PathLike) or kind in (None, *_QUICK):
        return True
    ours = isinstance(kind, type) and kind.__module__.partition(".")[0] == __name__.partition(".")[0]
    return ours and not typing.is_typeddict(kind) and not getattr(kind, "_is_protocol", False)


def _ranges(kind: Any) -> list[Range]:
    return [part for part in get_args(kind)[1:] if isinstance(part, Range)]


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


def _arguments(verb: Callable[..., Any], args: Any, kwargs: Any) -> Iterator[tuple[str, object, Any]]:
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
            yield from ((name, item, kind) for item in value)
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options = typing.get_type_hints(get_args(kind)[0]) if get_args(kind) else {}
            yield from ((key, option, options.get(key, Any)) for key, option in value.items())
        elif name not in ("self", "cls"):
            yield name, value, kind


def _unknown_argument(verb: Callable[..., Any], kwargs: Any) -> str | None:
    """What is wrong with the first keyword that the signature does not have."""
    parameters = inspect.signature(verb).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    names = [
        name
        for name, parameter in parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_POSITIONAL
    ]
    for name in kwargs:
        if name not in parameters:
            nearest = _core.nearest(name, names)
            hint = f"; did you mean '{nearest}'?" if nearest else ""
            return f"{verb.__name__}() has no argument '{name}'{hint} (it has: {', '.join(names)})"
    return None


def _too_many(verb: Callable[..., Any], args: Any) -> str | None:
    """What is wrong with more arguments by position than the signature has."""
    parameters = inspect.signature(verb).parameters.values()
    placed = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    others = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if (
        len(args) <= len(placed)
        or any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters)
        or not others
    ):
        return None
    before = f"after {', '.join(placed)} " if placed else ""
    return (
        f"{verb.__name__}() takes its arguments {before}by name ({', '.join(f'{name}=' for name in others)})"
    )


def _resolved(annotation: Any, verb: Callable[..., Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, vars(inspect.getmodule(verb)))
    except (NameError, SyntaxError, TypeError):
        return Any  # known to the type checker only


def _misfit(verb: Callable[..., Any], args: Any, kwargs: Any) -> str | None:
    """What is wrong with the first argument that is not what the signature says."""
    for name, value, kind in _arguments(verb, args, kwargs):
        if not _fits(value, kind):
            return _wrong(name, value, kind)
        if (text := _unspeakable(value)) is not None:
            return f"{name} has {briefly(ascii(text))}, expected Unicode text, without surrogates"
        if name in _PATHS and isinstance(value, str) and "\0" in value:
            return f"{name} is {briefly(value)}, expected the name of a file, which has no NUL"
        if isinstance(value, int) and value.bit_length() > 63:
            return f"{name} is {briefly(value)}, expected a number of at most 64 bits"
    return None


def fault_of(value: object, kind: Any) -> str | None:
    """What is wrong with a value, as `_wrong` says it behind the name; None where it is of the type."""
    return None if _fits(value, kind) else _wrong("", value, kind).lstrip()


def _wrong(name: str, value: object, kind: Any) -> str:
    """``name is value, expected a, b or c``, with the nearest word where a word is misspelt."""
    *others, last = dict.fromkeys(_words(kind, value))
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
    arguments = _arguments(verb, args, kwargs)
    expressions = [name for name, value, _ in arguments if isinstance(value, pl.Expr)]
    if expressions:
        return ParameterError(f"{' or '.join(expressions)} cannot be computed ({_reason(error)})")
    return error


def _frames(verb: Callable[..., Any], args: Any, kwargs: Any) -> list[str]:
    """Arguments that are frames."""
    return [
        name
        for name, value, _ in _arguments(verb, args, kwargs)
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
    arguments = _arguments(verb, args, kwargs)
    return ", ".join(plain(value) for name, value, _ in arguments if name in _PATHS) or "a file"


def _unspeakable(value: object) -> str | None:
    """Text in a value that has no bytes in UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value
    if isinstance(value, list | tuple | set | frozenset | dict):
        return next((text for item in value if (text := _unspeakable(item)) is not None), None)
    return None


def _fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type; what a type checker alone can judge is."""
    origin = get_origin(kind)
    if origin is Annotated:
        base = get_args(kind)[0]
        if not (ranges := _ranges(kind)):
            return _fits(value, base)
        return all(concept.has(value) for concept in ranges) or (value is None and type(None) in _parts(base))
    if kind is Any:
        return True
    if kind in (None, type(None)):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in get_args(kind))
    if origin is Literal:
        return any(_is_word(value, word) for word in get_args(kind))
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
            return all(_fits(item, parts[0]) for item in value)
        return len(value) == len(parts) and all(map(_fits, value, parts))
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is os.PathLike:
        return isinstance(value, os.PathLike)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_key, of_value = get_args(kind)
        return isinstance(value, Mapping) and all(
            _fits(key, of_key) and _fits(item, of_value) for key, item in value.items()
        )
    if isinstance(origin, type) and issubclass(origin, Iterable):
        if isinstance(value, str | bytes | Mapping | pl.DataFrame) or not isinstance(value, Iterable):
            return False
        if isinstance(value, list | tuple | set | frozenset | pl.Series) or is_of_numpy(value, "ndarray"):
            return getattr(value, "ndim", 1) == 1 and all(_fits(item, get_args(kind)[0]) for item in value)
        return origin is Iterable or not hasattr(value, "read")
    return not isinstance(kind, type) or typing.is_typeddict(kind) or isinstance(value, kind)


def _is_word(value: object, word: object) -> bool:
    alike = isinstance(value, type(word)) or (type(word) is int and _is_number(value))
    return alike and bool(value == word)


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


def _words(kind: Any, value: object) -> Iterator[str]:
    """What a type is called where a message about a value asks for it."""
    origin = get_origin(kind)
    if origin is Annotated and (ranges := _ranges(kind)):
        for concept in ranges:
            if isinstance(concept, Listed):
                yield from map(repr, concept.names())
            else:
                yield concept.expected(value)
        yield from ("None" for part in _parts(get_args(kind)[0]) if part is type(None))
    elif origin is Annotated:
        yield from _words(get_args(kind)[0], value)
    elif kind in _NAMED:
        yield _NAMED[kind]
    elif origin in (typing.Union, types.UnionType):
        parts = get_args(kind)
        for part in sorted(parts, key=lambda part: part is type(None)):
            yield from _words(part, value)
    elif origin is Literal:
        yield from map(repr, get_args(kind))
    elif origin is os.PathLike:
        yield "a path"
    elif origin is collections.abc.Callable:
        yield "a function"
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield f"a dict of {' or '.join(_words(get_args(kind)[1], value))} by name"
    elif isinstance(origin, type) and issubclass(origin, Iterable):
        yield f"a list of {' or '.join(dict.fromkeys(_words(get_args(kind)[0], value)))}"
    elif isinstance(kind, type):
        noun = "corpus" if kind.__name__ == "Corpus" else kind.__name__
        yield f"{'an' if noun[0] in 'AEIOU' else 'a'} {noun}"
    else:
        yield "what the documentation of the argument says"
