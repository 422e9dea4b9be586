"""Credit in tasks: what a task can compute, and what it has to import first."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..base.division import Pieces
from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..corpus.reward import check_channels, weights_of
from .registry import FITTED, described, registered
from .rollout_values import ROLLOUT_METHODS


def check_rewards(corpus: Corpus, options: Mapping[str, Any]) -> None:
    """Refuse channels that no trace of the whole corpus has.

    Raises
    ------
    ParameterError
        A channel is unknown.
    """
    rewards = options["reward"]
    for reward in rewards if isinstance(rewards, list | tuple) else [rewards]:
        weights = [reward] if isinstance(reward, str) else weights_of(reward)
        check_channels(corpus, weights, scored=options["missing"] != "skip" or len(weights) < 2)


def check_trained(corpus: Corpus, over: str) -> None:
    """Refuse credit over trained agents where no recording says which ones are.

    Raises
    ------
    ParameterError
        Nothing says it.
    """
    if over == "all" or not corpus.is_whole or not len(corpus):
        return
    if not corpus.agents.select(pl.col("trainable").any()).collect().item():
        raise ParameterError(
            "over='trainable', and no recording says of an agent that its policy is trained: mark its events"
            " with corpus.with_fields (field 'trainable'), or leave over= out"
        )


def check_scope(options: Mapping[str, Any], pieces: Pieces) -> None:
    """Refuse a method that compares traces of several tasks.

    Raises
    ------
    ParameterError
        The method needs all traces of a corpus at once.
    """
    name = options["method"]
    entry = described(name)
    if entry is None or entry["scope"] != "corpus" or not pieces.several():
        return
    fitted = name in registered() and registered()[name].fit is not None
    if fitted or name in ROLLOUT_METHODS:
        if pieces.is_filtered:
            raise ParameterError(
                f"method '{name}' compares all traces of a corpus at once, and of a filtered one a task knows"
                " its own alone: write it with ot.export(corpus, 'parquet', folder) first, or credit it"
                " without an engine"
            )
        return
    raise ParameterError(
        f"method '{name}' compares all traces of a corpus at once, and {pieces.why()}, or take a method"
        " that compares groups"
    )


def modules_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Modules that have to be imported before a task runs, since they register the method that it needs.

    Raises
    ------
    ParameterError
        The method is of a script, which no other process can import.
    """
    name = options["method"]
    method = registered().get(name)
    if method is None or name in FITTED:
        return ()
    module = method.function.__module__
    if module == "__main__":
        raise ParameterError(
            f"method '{name}' is of a script or notebook, which workers cannot import: put it into a module"
        )
    return (module,)
