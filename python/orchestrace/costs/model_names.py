"""Which row of a list of prices a recorded model is: by exact name, or by a name that goes on with a date."""

import datetime as dt
import re
from collections.abc import Iterable
from typing import Final

import polars as pl

_DATED: Final = re.compile(r"[-@:](20\d{6}|20\d\d-\d\d-\d\d|latest)\Z|@default\Z")
"""How a name may go on and be the same model. Four digits are not enough: ``gpt-4-1106`` was another."""
_LONGEST: Final = len("-2026-11-26")


def listed_names(recorded: Iterable[str], prices: pl.DataFrame) -> pl.DataFrame:
    """The listed name of each recorded one.

    Parameters
    ----------
    recorded
        Names of models, as recordings have them. One with a provider before a slash is of that provider.
    prices
        A list of prices.

    Returns
    -------
    DataFrame
        ``model`` (as recorded), ``listed`` and ``provider``: names that are in no list are left out, and so
        are those that two providers of the list have, unless the recorded name says which one is meant.
    """
    providers: dict[str, set[str | None]] = {}
    for name, provider in prices.select("model", "provider").unique().rows():
        providers.setdefault(name, set()).add(provider)
    rows = []
    for model in recorded:
        before, slash, after = model.partition("/")
        if (listed := _listed(model, providers)) is not None:
            of = providers[listed]
        elif slash and (listed := _listed(after, providers)) is not None:
            of = {
                provider
                for provider in providers[listed]
                if provider is not None and provider.lower() == before.lower()
            }
            of = of or providers[listed] & {None}
        else:
            continue
        if len(of) == 1:
            rows.append((model, listed, next(iter(of))))
    return pl.DataFrame(rows, schema=dict.fromkeys(("model", "listed", "provider"), pl.String), orient="row")


def _listed(name: str, providers: dict[str, set[str | None]]) -> str | None:
    if name in providers:
        return name
    ending = _DATED.search(name, max(len(name) - _LONGEST, 0))
    if ending is None or name[: ending.start()] not in providers:
        return None
    return name[: ending.start()] if _is_a_day(ending[1]) else None


def _is_a_day(word: str | None) -> bool:
    if word is None or word == "latest":
        return True
    try:
        dt.date.fromisoformat(word)
    except ValueError:
        return False
    return True
