"""Results of the core for a corpus, piece by piece."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl

from .. import _core
from ..base.schema import SCHEMAS
from .parts import store_of

if TYPE_CHECKING:
    from .corpus import Corpus


def core_frames(
    corpus: "Corpus", kernel: Any, shaped: Callable[[pl.DataFrame], pl.DataFrame] = pl.DataFrame
) -> pl.DataFrame:
    """What the core says of every piece of a corpus, each `shaped` before the next piece is loaded."""
    frames = [shaped(pl.DataFrame(kernel(store_of(load())))) for _, load in corpus.pieces()]
    if not frames:  # a corpus on disk without a trace
        frames = [shaped(pl.DataFrame(kernel(empty_store())))]
    return pl.concat(frames)


def empty_tables() -> dict[str, object]:
    """The tables of a corpus without rows, for a store that has but one of them.

    Made anew for each: Polars keeps the names of all categoricals for as long as any is alive.
    """
    return {name: pl.DataFrame(schema=schema) for name, schema in SCHEMAS.items() if name != "agents"}


def empty_store() -> _core.Store:
    """A store without a trace."""
    return _core.Store.from_arrow(empty_tables())
