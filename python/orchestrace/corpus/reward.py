"""The reward of each trace, and the label by which credits name it."""

import math
from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeVar

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import plain
from .corpus import Corpus

Reward = str | Mapping[str, float]
Missing = Literal["null", "skip"]
"""What a sum of channels is where a trace lacks one: null, or the sum of those that it has."""


class PartialWeights(dict[str, float]):
    """Weights of channels of which a trace may lack some: its reward is the sum of those that it has."""


_REACHED: Final = 1e-6
"""What is closer to a threshold has reached it, as in the core."""
Numbers = TypeVar("Numbers", pl.Expr, pl.Series)
_LISTED: Final = 5
"""Names of importers and scores that a message shows."""


def reaches(outcome: Numbers, threshold: float) -> Numbers:
    """Whether an outcome reaches a threshold, to rounding: a judge's sum of parts may be .9999999."""
    return outcome >= threshold - _REACHED


def check_channels(corpus: Corpus, names: Iterable[str], *, scored: bool = True) -> None:
    """Refuse channels that no trace has; with ``scored=False`` not those that are named and have no value.

    Raises
    ------
    ParameterError
        Says which channels there are, or where none is, how rewards come to a corpus.
    """
    if not corpus.is_whole or not len(corpus):
        return
    channels = corpus.reward_channels()
    for name in names:
        if name not in channels and _is_unscored(corpus, name):
            if not scored:
                continue
            raise ParameterError(
                f"reward channel '{name}' has no value in any trace: the recordings name it, so its reward"
                " function never gave a number; leave it out, or pass missing='skip'"
            )
        if channels and name not in channels:
            # 'team' is the default where nobody names a channel
            other = f"; pass reward='{channels[0]}', or several with weights" if name == "team" else ""
            raise ParameterError(plain(unknown_name("reward channel", name, channels) + other))
        if not channels:
            raise ParameterError(f"unknown reward channel '{name}': {_ways_to_rewards(corpus)}")


def _is_unscored(corpus: Corpus, name: str) -> bool:
    """Whether recordings name a reward and have no value of it."""
    unscored = corpus.findings.filter(
        pl.col("code").cast(pl.String) == "reward.unscored",
        pl.col("message").str.contains(f"'{name}'", literal=True),
    )
    return not unscored.limit(1).collect().is_empty()


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
    choices = ", ".join(ways[:-1]) + f" or {ways[-1]}"
    return plain(
        f"this corpus has no rewards (its recordings, of {_listed(importers)}, carry none); give some by "
        f"{choices}; metrics() and replay() need none"
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
                f"the weight of reward '{name}' is not a number in the range of a float"
            ) from None
    return dict(sorted(weights.items()))


def amounts(corpus: Corpus, reward: Reward) -> pl.DataFrame:
    """The reward of every trace: ``trace`` (UInt32) ``trace_id reward`` (Float64), in corpus order.

    Null where the trace lacks one of the channels (of `PartialWeights`: all of them), or where the sum is
    beyond the range of a float. The core adds the channels up, as it does for the credit of its own methods.

    Raises
    ------
    ParameterError
        No channel is named, no trace of the corpus has one that is, or a weight is not finite.
    """
    weights = {reward: 1.0} if isinstance(reward, str) else weights_of(reward)
    skipping = isinstance(reward, PartialWeights)
    check_channels(corpus, weights, scored=not skipping)
    rows = corpus.measures.filter(
        (pl.col("kind") == "reward") & pl.col("name").cast(pl.String).is_in(list(weights))
    ).select("trace", pl.col("name").cast(pl.String), "value")
    traces = corpus.traces.select("trace", "trace_id").collect(engine="streaming")
    if skipping:
        return traces.join(_partial_sums(rows, weights), on="trace", how="left", maintain_order="left")
    paid = _core.rewards(traces.select("trace"), rows.collect(engine="streaming"), weights)
    return traces.with_columns(pl.DataFrame(paid)["reward"])


def _partial_sums(rows: pl.LazyFrame, weights: Mapping[str, float]) -> pl.DataFrame:
    """Sums of the channels that each trace has, in the order of their names: ``trace reward``."""
    if infinite := [name for name, weight in weights.items() if not math.isfinite(weight)]:
        raise ParameterError(
            f"the weight of reward '{infinite[0]}' is {weights[infinite[0]]}, expected a finite number"
        )
    each = rows.collect(engine="streaming").unique(["trace", "name"], keep="first", maintain_order=True)
    part = pl.col("value") * pl.col("name").replace_strict(dict(weights), return_dtype=pl.Float64)
    sums = each.sort("trace", "name").group_by("trace", maintain_order=True).agg(reward=part.sum())
    return sums.with_columns(pl.when(pl.col("reward").is_finite()).then("reward"))


_SKIPPING: Final = ", of those there"


def label_of(reward: Reward) -> str:
    """The label of a reward in tables of credits."""
    if isinstance(reward, str):
        return reward
    label = " + ".join(f"{weight!r}*{name}" for name, weight in reward.items())
    return label + _SKIPPING if isinstance(reward, PartialWeights) else label


def reward_of(label: str | None, corpus: Corpus) -> Reward:
    """The reward that a label of the column ``reward`` of credits stands for.

    Raises
    ------
    ParameterError
        The corpus has no such channel, or the label is none of `credit`.
    """
    channels = corpus.reward_channels()
    if label is None or label in channels:
        return label or "team"
    if label.endswith(_SKIPPING):
        return PartialWeights(_parsed(label, label.removesuffix(_SKIPPING), corpus, channels))
    return _parsed(label, label, corpus, channels)


def _parsed(label: str, rest: str, corpus: Corpus, channels: list[str]) -> dict[str, float]:
    """The weights that the rest of a label spells."""
    weights: dict[str, float] = {}
    while rest:
        weight, star, rest = rest.partition("*")
        # names may contain anything, so the longest channel that is followed by the separator or the end
        longest = sorted(channels, key=len, reverse=True)
        name = next(
            (channel for channel in longest if rest == channel or rest.startswith(f"{channel} + ")), None
        )
        if name is None and _is_unscored(corpus, unscored := rest.partition(" + ")[0]):
            name = unscored
        try:
            number = float(weight)
        except ValueError:
            star = ""
        if not star or name is None:
            raise ParameterError(f"the corpus has no reward '{label}', which the credits were computed from")
        weights[name] = number
        rest = rest[len(name) + 3 :]
    return weights
