"""The reward that a call asks for, trace by trace, and the label by which credits name it."""

from collections.abc import Iterable, Mapping
from typing import Final

import polars as pl

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import plain
from .corpus import Corpus

Reward = str | Mapping[str, float]

_LISTED: Final = 5
"""Names of importers and scores that a message shows."""


def check_channels(corpus: Corpus, names: Iterable[str]) -> None:
    """Refuse channels that no trace has.

    Raises
    ------
    ParameterError
        Says which channels there are, or where none is, how rewards come to a corpus.
    """
    if not len(corpus):
        return
    known = corpus.reward_channels()
    for name in names:
        if known and name not in known:
            raise ParameterError(unknown_name("reward channel", name, known))
        if not known:
            raise ParameterError(f"unknown reward channel '{name}': {_ways_to_rewards(corpus)}")


def _ways_to_rewards(corpus: Corpus) -> str:
    importers = _names(corpus.traces.select(pl.col("importer").cast(pl.String)))
    # a native trace says itself which of its measures are rewards
    foreign = corpus.traces.filter(~pl.col("importer").cast(pl.String).is_in(["native", "arrow"]))
    metrics = _names(
        corpus.measures.filter(pl.col("kind") == "metric")
        .join(foreign, on="trace", how="semi")
        .select(pl.col("name").cast(pl.String))
    )
    scores = [f"reading its scores ({_listed(metrics)}) as rewards, reward_scores="]
    ways = ["corpus.with_measures(frame)", "orchestrace ... --rewards FILE", *(scores if metrics else [])]
    given = ", ".join(ways[:-1]) + f" or {ways[-1]}"
    return plain(
        f"this corpus has no rewards (its recordings, of {_listed(importers)}, carry none); give some by "
        f"{given}; metrics() and replay() need none"
    )


def _names(frame: pl.LazyFrame) -> list[str]:
    return sorted(frame.unique().drop_nulls().collect(engine="streaming").to_series())


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:_LISTED], *(["..."] if len(names) > _LISTED else [])])


def weights_of(reward: object) -> dict[str, float]:
    if not isinstance(reward, Mapping):
        kind = type(reward).__name__
        raise ParameterError(
            f"reward is of type {kind}, expected a channel or a mapping of channels to weights"
        )
    weights = {}
    for name, weight in reward.items():
        if not isinstance(name, str):
            raise ParameterError(f"reward channel {name!r} is not text")
        try:
            if isinstance(weight, str):
                raise TypeError
            weights[name] = float(weight)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(
                f"the weight of reward '{name}' is no number in the range of a float"
            ) from None
    return dict(sorted(weights.items()))


def amounts(corpus: Corpus, reward: Reward) -> pl.DataFrame:
    """The amount of every trace: ``trace`` (Int64), ``trace_id``, ``reward`` (Float64).

    Null where the trace lacks one of the channels, as in `credit`.

    Raises
    ------
    ParameterError
        No trace of the corpus has a channel.
    """
    weights = {reward: 1.0} if isinstance(reward, str) else weights_of(reward)
    if not weights:
        raise ParameterError("reward is empty, expected at least one channel")
    check_channels(corpus, weights)
    given = corpus.measures.filter(
        (pl.col("kind") == "reward") & pl.col("name").cast(pl.String).is_in(list(weights))
    ).select(pl.col("trace").cast(pl.Int64), pl.col("name").cast(pl.String), "value")
    wide = given.collect(engine="streaming").with_columns(
        part=pl.col("value") * pl.col("name").replace_strict(weights, return_dtype=pl.Float64)
    )
    # in the order of the channels, as the core adds them
    summed = (
        wide.sort("name")
        .group_by("trace", maintain_order=True)
        .agg(reward=pl.col("part").sum(), n=pl.len())
        .select("trace", reward=pl.when(pl.col("n") == len(weights)).then("reward"))
    )
    traces = corpus.traces.select(pl.col("trace").cast(pl.Int64), "trace_id").collect(engine="streaming")
    return traces.join(summed, on="trace", how="left", maintain_order="left")


def reward_of(label: str | None, corpus: Corpus) -> Reward:
    """The reward that a label of the column ``reward`` of credits stands for.

    Raises
    ------
    ParameterError
        The corpus has no such channel, or the label is none of `credit`.
    """
    known = corpus.reward_channels()
    if label is None or label in known:
        return label or "team"
    weights: dict[str, float] = {}
    rest = label
    while rest:
        weight, found, rest = rest.partition("*")
        # names may contain anything, so the longest channel that is followed by the separator or the end
        longest = sorted(known, key=len, reverse=True)
        name = next((one for one in longest if rest == one or rest.startswith(f"{one} + ")), None)
        try:
            number = float(weight)
        except ValueError:
            found = ""
        if not found or name is None:
            raise ParameterError(f"the corpus has no reward '{label}', which the credits were computed from")
        weights[name] = number
        rest = rest[len(name) + 3 :]
    return weights
