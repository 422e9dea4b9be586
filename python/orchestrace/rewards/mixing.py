"""Sums of rewards (R8), whose weights, clipping and normalization end up in the frame."""

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, get_args

import polars as pl

from .. import _core
from ..base.arguments import Number
from ..base.arrays import ROUNDING
from ..base.checks import expect, expect_each
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly, in_json
from ..base.verbs import verb
from ..corpus.frames import collected
from .verb import REWARDS

Normalize = Literal["task", "corpus"]
_KEYS: Final = ("trace", "trace_id", "task_id")
_NEEDED: Final = (*_KEYS, "reward", "unit", "value", "reason", "params")


@verb
def combine(
    rewards: pl.DataFrame | pl.LazyFrame,
    weights: Mapping[str, float],
    *,
    clip: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
    normalize: Normalize | Mapping[str, Normalize] | None = None,
    name: str = "mix",
) -> pl.DataFrame:
    """Add rewards of the team up, each clipped, normalized and weighted.

    Parameters
    ----------
    rewards
        Rows of `compute`, or of other calls of `combine`.
    weights
        Of each reward that takes part, its weight λ.
    clip
        The least and the greatest value, for all rewards or by reward: what is beyond is that value.
    normalize
        What each reward is normalized over, after clipping: ``"task"`` or ``"corpus"`` subtracts the mean of
        the traces that have it, and divides by their standard deviation (ddof = 0); a reward without spread
        is then 0. One word for all, or words by reward; None leaves values as they are.
    name
        What the sum is called.

    Returns
    -------
    DataFrame
        One row per trace in the columns of `compute`: ``reward`` is `name`, ``family`` ``R8``, ``value`` is
        Σ λ_k r_k in the order of `weights`, null with the first reason where a reward is null. ``params`` has
        the weights, clips and normalizations, and the ``params`` of every reward.

    Raises
    ------
    ParameterError
        A reward that no row has, a reward that pays smaller units, or a weight or bound that is not a finite
        number.

    Notes
    -----
    O(rows). With weights of 1, normalizing within tasks before adding is GDPO's (arXiv 2601.05242,
    equation 7).

    Examples
    --------
    >>> import orchestrace as ot
    >>> paid = ot.rewards.compute(ot.generate(traces=4, seed=0), ["outcome", "tokens"])
    >>> mixed = ot.rewards.combine(paid, {"outcome": 1.0, "tokens": 1e-6}, clip={"tokens": (-1e6, 0.0)})
    >>> mixed["family"].unique().to_list(), mixed.height
    (['R8'], 4)
    """
    rows = collected(rewards, "rewards", _NEEDED)
    weights = weights_by_reward("weights", weights)
    if not name:
        raise ParameterError(f"name is {briefly(name)}, expected text")
    rows = rows.with_columns(pl.col("reward", "unit", "reason", "params").cast(pl.String))
    names = rows["reward"].unique(maintain_order=True).to_list()
    for reward in weights:
        if reward not in names:
            raise ParameterError(unknown_name("reward", reward, names))
    rows = rows.filter(pl.col("reward").is_in(list(weights)))
    smaller = rows.filter(pl.col("unit") != "team")
    if smaller.height:
        reward, unit = smaller.select("reward", "unit").row(0)
        raise ParameterError(f"reward '{reward}' pays the unit '{unit}', expected rewards of the team")
    if rows.select("trace", "reward").is_duplicated().any():
        raise ParameterError("rewards has a trace and reward twice: give the rows of one call of compute")
    clips = _clips(clip, list(weights))
    norms = _norms(normalize, list(weights))
    traces = rows.select(_KEYS).unique(maintain_order=True)
    wide = traces
    for at, reward in enumerate(weights):
        paid = rows.filter(reward=reward)
        value = pl.col("value")
        if reward in clips:
            value = value.clip(*clips[reward])
        if reward in norms:
            value = _normalized(value, norms[reward])
        paid = paid.select(
            "trace",
            value.alias(f"value {at}"),
            pl.col("reason").alias(f"reason {at}"),
            pl.col("params").alias(f"params {at}"),
        )
        wide = wide.join(paid, on="trace", how="left", maintain_order="left")
        # a trace that the rows of one reward leave out lacks it
        absent = pl.col(f"value {at}").is_null() & pl.col(f"reason {at}").is_null()
        reason = pl.when(absent).then(pl.lit("reward.absent")).otherwise(pl.col(f"reason {at}"))
        wide = wide.with_columns(reason.alias(f"reason {at}"))
    total = pl.lit(0.0)
    for at, weight in enumerate(weights.values()):
        total = total + weight * pl.col(f"value {at}")
    finite = pl.when(total.is_finite()).then(total)
    reason = pl.coalesce(*(pl.col(f"reason {at}") for at in range(len(weights))))
    options = {
        "weights": weights,
        "clip": {reward: list(bounds) for reward, bounds in clips.items()},
        "normalize": norms,
        "version": _core.VERSION,
    }
    return (
        _with_params(wide, options)
        .select(
            *_KEYS,
            reward=pl.lit(name),
            family=pl.lit("R8"),
            unit=pl.lit("team"),
            unit_id=pl.lit("team"),
            seq=pl.lit(0, pl.UInt32),
            value=finite,
            reason=pl.when(finite.is_null()).then(reason.fill_null("result.range")),
            params="params",
        )
        .cast(REWARDS)
    )


def _with_params(wide: pl.DataFrame, options: dict[str, Any]) -> pl.DataFrame:
    """The sums with their ``params``: those of the parts may differ from trace to trace."""
    parts = [f"params {at}" for at in range(len(options["weights"]))]
    # a trace that the rows of one reward leave out has the parameters of the others, where they agree
    alike = (
        pl.when(pl.col(part).drop_nulls().n_unique() == 1).then(pl.col(part).drop_nulls().first())
        for part in parts
    )
    wide = wide.with_columns(
        pl.col(part).fill_null(shared) for part, shared in zip(parts, alike, strict=True)
    )
    combinations = wide.select(parts).unique(maintain_order=True)
    texts = []
    for of_parts in combinations.iter_rows():
        named = {
            reward: json.loads(of or "null") for reward, of in zip(options["weights"], of_parts, strict=True)
        }
        texts.append(json.dumps({**options, "rewards": named}, sort_keys=True, default=in_json))
    named_rows = combinations.with_columns(params=pl.Series(texts, dtype=pl.String))
    return wide.join(named_rows, on=parts, how="left", nulls_equal=True, maintain_order="left")


def _normalized(value: pl.Expr, over: Normalize) -> pl.Expr:
    mean, spread = value.mean(), value.std(ddof=0)
    size = pl.max_horizontal(value.max().abs(), value.min().abs())
    flat = value.max() - value.min() <= ROUNDING * size
    if over == "task":
        mean, spread, flat = mean.over("task_id"), spread.over("task_id"), flat.over("task_id")
    # a spread that is rounding alone would make noise of values that are all alike
    return pl.when(value.is_not_null()).then(pl.when(flat).then(0.0).otherwise((value - mean) / spread))


def weights_by_reward(option: str, weights: object) -> dict[str, float]:
    """Finite numbers by reward, of which there is one at least."""
    if isinstance(weights, Mapping) and not weights:
        raise ParameterError(f"{option} names no reward: {{'outcome': 1.0}}")
    if not isinstance(weights, Mapping):
        raise ParameterError(
            f"{option} is {briefly(weights)}, expected numbers by reward: {{'outcome': 1.0}}"
        )
    numbers = {}
    for name, number in weights.items():
        expect(f"{option}[{name!r}]", number, Number())
        numbers[str(name)] = float(number)
    return numbers


def _clips(clip: object, names: list[str]) -> dict[str, tuple[float, float]]:
    if clip is None:
        return {}
    by_name = clip if isinstance(clip, Mapping) else dict.fromkeys(names, clip)
    clips = {}
    for name, bounds in by_name.items():
        if name not in names:
            raise ParameterError(unknown_name("reward in clip", str(name), names))
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise ParameterError(f"clip of '{name}' is {briefly(bounds)}, expected (least, greatest)")
        expect_each(f"clip of '{name}'", bounds, Number())
        low, high = map(float, bounds)
        if low > high:
            raise ParameterError(f"clip of '{name}' is {(low, high)}: the least is above the greatest")
        clips[name] = (low, high)
    return clips


def _norms(normalize: object, names: list[str]) -> dict[str, Normalize]:
    if normalize is None:
        return {}
    by_name = normalize if isinstance(normalize, Mapping) else dict.fromkeys(names, normalize)
    for name, word in by_name.items():
        if name not in names:
            raise ParameterError(unknown_name("reward in normalize", str(name), names))
        if word not in get_args(Normalize):
            raise ParameterError(unknown_name("word for normalize", str(word), list(get_args(Normalize))))
    return dict(by_name)
