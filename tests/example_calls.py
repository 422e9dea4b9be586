"""The call that the example of a verb makes, which tests repeat with other arguments and on other corpora.

Every verb has an example in its docstring, so that a new verb is in all of these tests by its example alone.
"""

import atexit
import contextlib
import doctest
import inspect
import io
import os
import shutil
import tempfile
import typing
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, wraps
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

import orchestrace as ot
from orchestrace.base.verbs import Verb, all_verbs, verb_named

ROOT = Path(__file__).resolve().parents[1]
"""Where examples run: some read what is in `data`."""
FRAMES = (pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Call:
    """A call that works: what is called, and arguments by name; those of ``*several`` have none."""

    verb: Callable[..., Any]
    named: dict[str, Any] = field(default_factory=dict)
    several: tuple[Any, ...] = ()
    columns: tuple[str, ...] = ()
    """Those of the table that the call gave."""

    def answer(self, changed: dict[str, Any] | None = None) -> Any:
        """What the call gives with some arguments changed."""
        named = {**self.named, **(changed or {})}
        for value in named.values():
            if isinstance(value, io.BytesIO):
                value.seek(0)  # the call before has read it
        if not self.several:
            return self.verb(**named)
        before = [one.name for one in parameters(self.verb) if one.kind is one.POSITIONAL_OR_KEYWORD]
        return self.verb(*(named.pop(name) for name in before), *self.several, **named)

    def over(self, corpus: ot.Corpus) -> Any:
        """What the call gives of another corpus, without frames, which are of the corpus of the example."""
        kept = {name: value for name, value in self.beside_corpora().items() if not isinstance(value, FRAMES)}
        corpora = dict.fromkeys(corpora_of(self.verb), corpus)
        return Call(self.verb, {**corpora, **kept}, self.several).answer()

    def beside_corpora(self) -> dict[str, Any]:
        """The arguments by name without corpora."""
        corpora = corpora_of(self.verb)
        return {name: value for name, value in self.named.items() if name not in corpora}


def parameters(verb: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function."""
    return list(inspect.signature(verb).parameters.values())


def mentions(kind: object, *types: type) -> bool:
    """Whether an annotation has one of the types in it."""
    parts = typing.get_args(kind)
    return kind in types or typing.get_origin(kind) in types or any(mentions(part, *types) for part in parts)


def corpora_of(verb: Callable[..., Any]) -> list[str]:
    """Names of the corpora that a verb cannot do without."""
    needed = [one for one in parameters(verb) if one.default is one.empty]
    return [one.name for one in needed if mentions(one.annotation, ot.Corpus)]


def function_of(name: str) -> Callable[..., Any]:
    """A verb by its name below the package."""
    about = verb_named(name)
    assert about is not None, name
    return about.function


def verbs_of_a_corpus() -> Iterator[Verb]:
    """Verbs that cannot do without a corpus."""
    return (about for about in all_verbs() if corpora_of(about.function))


def over_any_corpus() -> dict[str, Callable[[ot.Corpus], Any]]:
    """The examples of verbs which need corpora and plain values alone, as functions of a corpus."""

    def example_over(about: Verb) -> Callable[[ot.Corpus], Any]:
        return lambda corpus: example_of(about.function).over(corpus)

    return {about.name: example_over(about) for about in verbs_of_a_corpus() if _is_plain(about.function)}


def _is_plain(verb: Callable[..., Any]) -> bool:
    """Whether a verb does without paths, and without frames which are of a corpus."""
    corpora = corpora_of(verb)
    needed = [one for one in parameters(verb) if one.default is one.empty and one.name not in corpora]
    return not any(mentions(one.annotation, os.PathLike, *FRAMES) for one in needed)


@cache
def example_of(verb: Callable[..., Any]) -> Call:
    """The first call of a verb in its example, written over what is there, with ten resamples.

    Raises
    ------
    LookupError
        The example has no call of the verb that answers.
    """
    about = vars(verb)["__verb__"]
    calls: list[tuple[inspect.BoundArguments, Any]] = []

    @wraps(verb)
    def recording(*args: Any, **kwargs: Any) -> Any:
        answer = verb(*args, **kwargs)
        calls.append((inspect.signature(verb).bind(*args, **kwargs), answer))
        return answer

    space, _, name = about.name.rpartition(".")
    with (
        contextlib.chdir(ROOT),
        contextlib.redirect_stdout(io.StringIO()),
        warnings.catch_warnings(action="ignore"),
        mock.patch.object(tempfile, "tempdir", examples_folder()),
        mock.patch.object(getattr(ot, space) if space else ot, name, recording),
    ):
        names: dict[str, Any] = {"__name__": "__main__"}
        for example in doctest.DocTestParser().get_examples(inspect.getdoc(verb) or ""):
            if example.exc_msg is None and not calls:
                exec(compile(example.source, f"<example of {about.name}>", "exec"), names)
    if not calls:
        raise LookupError(f"no call in the example of {about.name} answers")
    (bound, answer), *_ = calls
    named, several = dict(bound.arguments), ()
    for one in parameters(verb):
        if one.kind is one.VAR_KEYWORD:
            named |= named.pop(one.name, {})
        elif one.kind is one.VAR_POSITIONAL:
            several = named.pop(one.name, ())
        elif one.name in USUAL:
            named[one.name] = USUAL[one.name]
    if "n_boot" in named:  # as an option of another verb, too
        named["n_boot"] = USUAL["n_boot"]
    return Call(verb, named, several, tuple(answer.columns) if isinstance(answer, pl.DataFrame) else ())


USUAL = {"n_boot": 10, "overwrite": True}
"""What a call has by which it can be repeated, and soon."""


@cache
def examples_folder() -> str:
    """Where examples leave their files until this process ends."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
