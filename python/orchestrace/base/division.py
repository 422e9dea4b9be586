"""How the calls of a verb are divided into tasks, and how the rows of all tasks are combined.

A verb whose rows are of a trace or of a group states a `Division`. Engines and plans work by it.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from .errors import ParameterError


@dataclass(frozen=True)
class Arguments:
    """What a verb is called with, beside the corpus."""

    positional: tuple[Any, ...]
    named: dict[str, Any]

    def without(self, *names: str) -> "Arguments":
        """The same without some that are given by name."""
        return Arguments(
            self.positional, {name: value for name, value in self.named.items() if name not in names}
        )

    def replacing(self, **values: Any) -> "Arguments":
        """The same with other values of some that are given by name."""
        return Arguments(self.positional, {**self.named, **values})

    def by_name(self, verb: Callable[..., Any]) -> dict[str, Any]:
        """All of them by the names that the verb has for them, with its defaults.

        Raises
        ------
        ParameterError
            The verb has no such argument.
        """
        try:
            bound = inspect.signature(verb).bind(None, *self.positional, **self.named)
        except TypeError as error:
            raise ParameterError(f"{verb.__name__}: {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)


@dataclass(frozen=True)
class Order:
    """How the rows of tasks, which come in the order of the corpus, are ordered in the whole table.

    Parameters
    ----------
    blocks
        A column, and its values in the order in which one machine gives them; the rows of each stay in the
        order of the corpus.
    by
        Columns that the table is sorted by; all rows of one combination are of one task.
    """

    blocks: tuple[str, tuple[str, ...]] | None = None
    by: tuple[str, ...] = ()

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of all tasks in the order of the whole table."""
        if self.blocks is not None:
            column, names = self.blocks
            places = {name: at for at, name in enumerate(names)}
            place = pl.col(column).cast(pl.String).replace_strict(places, return_dtype=pl.UInt32)
            return frame.sort(place, maintain_order=True)
        return frame.sort(*self.by, maintain_order=True) if self.by else frame

    @property
    def is_of_corpus(self) -> bool:
        """Whether the parts are the table, one after the other."""
        return self.blocks is None and not self.by


@dataclass(frozen=True)
class Pieces:
    """What a verb asks about the division of a corpus.

    Parameters
    ----------
    several
        Whether there is more than one piece.
    is_filtered
        Whether the corpus has lost traces to a filter.
    why
        Why there are several, and what to do about it.
    """

    several: Callable[[], bool]
    is_filtered: bool
    why: Callable[[], str]


def _keep_arguments(corpus: Any, arguments: Arguments) -> Arguments:
    return arguments


def _accepts(arguments: Arguments, pieces: Pieces) -> None:
    """Every call can be divided."""


def _of_corpus(arguments: Arguments) -> Order:
    return Order()


def _as_joined(corpus: Any, arguments: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    return frame


@dataclass(frozen=True)
class Division:
    """How a verb is divided. The defaults are those of a verb whose tasks are called as the caller calls it.

    Parameters
    ----------
    prepare
        The arguments of each task, from the whole corpus and the arguments of the caller.
    narrowed
        Arguments that `prepare` replaces or leaves out.
    check
        Refuses calls that tasks cannot compute. It needs no corpus, so that a plan is judged again by it
        wherever it runs.
    order
        Of the whole table.
    finish
        What is left to do once all rows are there, from the whole corpus, the arguments and the rows.
    sunk
        Of a verb with a ``sink``, what fills it from the rows of the pieces.
    modules
        Modules that have to be imported before a task runs, since they register what it needs.
    """

    prepare: Callable[[Any, Arguments], Arguments] = field(default=_keep_arguments)
    narrowed: tuple[str, ...] = ()
    check: Callable[[Arguments, Pieces], None] = field(default=_accepts)
    order: Callable[[Arguments], Order] = field(default=_of_corpus)
    finish: Callable[[Any, Arguments, pl.DataFrame], pl.DataFrame] = field(default=_as_joined)
    sunk: Callable[..., pl.LazyFrame] | None = None
    modules: Callable[[Arguments], tuple[str, ...]] = field(default=lambda arguments: ())

    @property
    def is_finished(self) -> bool:
        """Whether something is left to do once all rows are there."""
        return self.finish is not _as_joined
