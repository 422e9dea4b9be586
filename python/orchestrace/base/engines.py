"""Engines, which compute a verb in parts, in other processes or on other machines.

A verb that can be divided has the parameter ``engine``. If a caller gives an engine, the decorator `verb`
passes the call to it instead of running the verb. The room `distributed`, which stands above all verbs,
registers the names of its engines here; it is loaded when a caller gives a name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal, get_args

from .errors import ParameterError
from .progress import Progress
from .schema import unknown_name
from .text import briefly

EngineName = Literal["processes", "ray"]


@dataclass(frozen=True)
class VerbCall:
    """A call of a verb as a caller made it, without the engine.

    Parameters
    ----------
    verb
        Its name in `distributed.list_verbs`.
    corpus
        Its first argument, whatever it is.
    positional, named
        What decides the rows, as given.
    progress, sink, resume
        As the verb takes them.
    """

    verb: str
    corpus: object
    positional: tuple[Any, ...]
    named: dict[str, Any]
    progress: Progress
    sink: Any
    resume: Any


class Engine(ABC):
    """What computes the table of a verb."""

    @abstractmethod
    def table(self, call: VerbCall) -> Any:
        """What the verb itself returns for this call."""

    @abstractmethod
    def joined(self, corpus: object) -> AbstractContextManager[None]:
        """What several calls on a corpus share: a cluster is joined once, before the first of them.

        Raises
        ------
        ParameterError
            No call on this corpus can be divided, or no worker can compute it.
        """


RunBy = Engine | EngineName | None
"""What a verb takes as ``engine``; None is the verb itself, in this process."""

_MAKERS: Final[dict[str, Callable[..., Engine]]] = {}


def register_engine(name: EngineName, maker: Callable[..., Engine]) -> None:
    """Let callers name an engine; `maker` takes ``threads``, None for its default, and gives it."""
    _MAKERS[name] = maker


def engine_of(engine: object, threads: Any) -> Engine:
    """The engine that a caller names or gives.

    Raises
    ------
    ParameterError
        It is no engine, or the engine has its own number of threads.
    """
    if isinstance(engine, Engine):
        if threads is not None:
            raise ParameterError("threads is given twice: the engine has its own, leave it out of the verb")
        return engine
    if isinstance(engine, str):
        if engine not in get_args(EngineName):
            raise ParameterError(unknown_name("engine", engine, list(get_args(EngineName))))
        import_module("orchestrace.distributed.verb_engines")
        return _MAKERS[engine](threads=threads)
    raise ParameterError(
        f"engine is {briefly(engine)}, expected 'processes', 'ray', or what distributed.processes or"
        " distributed.ray returns"
    )
