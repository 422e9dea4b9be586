"""The reward that a call asks for, trace by trace, and the label by which credits name it."""

from collections.abc import Mapping

import polars as pl

from .corpus import Corpus
from .credit import _weights
from .errors import ParameterError
from .schema import unknown_name

Reward = str | Mapping[str, float]


def amounts(corpus: Corpus, reward: Reward) -> pl.DataFrame:
    """The amount of every trace: ``trace`` (Int64), ``trace_id``, ``reward`` (Float64).

    Null where the trace lacks one of the channels, as in `credit`.

    Raises
    ------
    ParameterError
        No trace of the corpus has a channel.
    """
    weights = {reward: 1.0} if isinstance(reward, str) else _weights(reward)
    if not weights:
        raise ParameterError("reward is empty, expected at least one channel")
    known = corpus.reward_channels()
    for name in weights:
        if name not in known and len(corpus):
            raise ParameterError(unknown_name("reward channel", name, known))
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
