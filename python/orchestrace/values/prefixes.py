"""The value of every prefix of a run as a table: recorded by a critic, or fitted to what was chosen."""

from typing import Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Folds, Seed
from ..base.arrays import Bools, Floats
from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward, amounts
from ..credit.fitted.choices import SKILL
from ..credit.fitted.dae import Advantages, fitted
from ..credit.policy_rows import after
from ..statistics.folds import REASON
from ..statistics.learners import one_thread

How = Literal["recorded", "dae"]
PARTS: Final = pl.Enum(["skill", "luck"])
_COLUMNS: Final = (
    *("trace", "trace_id", "seq", "value", "after", "change", "part"),
    *("lower", "upper", "n", "how", "reason"),
)
_ROWS: Final = 1 << 16  # whose intervals are computed at once


@verb(rows="an event")
def prefix(
    corpus: Corpus,
    *,
    how: How = "dae",
    reward: Reward = "team",
    folds: Folds = 5,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Value every prefix of every run: what reward was to be expected before an event, and after it.

    Parameters
    ----------
    corpus
        The recordings.
    how
        ``"recorded"``: the field `value`, which a critic wrote. ``"dae"``: what was to be expected of the
        group, plus what the choices and answers so far changed, as the credit method ``dae`` finds it on
        other tasks.
    reward
        A channel, or weights of several.
    folds, seed
        Of ``dae``: parts that tasks are divided into, and how.
    confidence
        Level of the intervals.

    Returns
    -------
    DataFrame
        A row per event, in canonical order within each run: ``trace`` (u32), ``trace_id`` (str), ``seq``
        (u32); ``value``, ``after`` and ``change`` (f64, in units of the reward), the expectation before the
        event, after it, and their difference; ``part``, whose doing the change is, ``skill`` of who chose or
        ``luck``, the answers of tools; ``lower`` and ``upper`` (f64), the interval of the change; ``n``
        (u32), events of the same kind that the change was learnt from, in all runs; ``how``; ``reason``, why
        values are null. Of ``recorded`` values intervals, ``n`` and ``part`` are null: nobody recorded them.
        The last ``after`` is the prediction; the reward less it is what nobody could see coming.

    Raises
    ------
    ParameterError
        Unknown reward channel, or no event has a ``value``.

    Notes
    -----
    Intervals are those of the posterior of a regression that shrinks (`credit.fitted.family_ridge`): they
    cover the truth in 95 of 100 events, averaged over events, where effects add up and fields name them.
    They do not cover what a linear model misses. The evidence is a surrogate's.

    The table is what other methods read as a critic: ``corpus.with_fields(table.select("trace", "seq",
    "value"))`` and then ``gae`` or ``coma``, which take the field `value`.
    O(events · columns²) for intervals. Source: arXiv 2109.06093; 2402.12874.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, _ = ot.synthetic.planted(traces=64, effects="action", density=1.0, decisive=0.0, seed=0)
    >>> table = ot.values.prefix(corpus)
    >>> table.columns[:6]
    ['trace', 'trace_id', 'seq', 'value', 'after', 'change']
    >>> critic = corpus.with_fields(table.select("trace", "seq", "value"))
    >>> ot.credit(critic, method="gae", unit="agent").height > 0
    True
    """
    rewards = amounts(corpus, reward).select("trace", amount="reward")
    if how == "recorded":
        tables = [_recorded(piece, rewards) for piece in corpus.slices()]
        if not any(table["value"].count() for table in tables) and len(corpus):
            raise ParameterError(
                "no event of the corpus has a value: expected what a critic wrote, in the field value; or"
                " pass how='dae', which needs none"
            )
    else:
        with one_thread("blas"):
            model = fitted(corpus, rewards, folds, seed)
            tables = [_fitted(piece, model, confidence) for piece in corpus.slices()]
    return pl.concat(tables).with_columns(how=pl.lit(how)).select(*_COLUMNS)


def _events(corpus: Corpus) -> pl.DataFrame:
    """``row trace trace_id seq``, in canonical order within each trace."""
    ids = corpus.traces.select("trace", "trace_id").collect()
    events = corpus.events.select("trace", "seq", "t").collect().with_row_index("row")
    return events.join(ids, on="trace", maintain_order="left").sort("trace", "t", "seq").drop("t")


def _table(events: pl.DataFrame) -> pl.DataFrame:
    """The columns of a table of values; ``after`` is known."""
    return events.select(
        "trace",
        "trace_id",
        "seq",
        "value",
        "after",
        change=pl.col("after") - pl.col("value"),
        part=pl.col("part").cast(PARTS),
        lower="lower",
        upper="upper",
        n=pl.col("n").cast(pl.UInt32),
        reason=pl.col("reason").cast(CREDITS["reason"]),
    )


def _recorded(corpus: Corpus, rewards: pl.DataFrame) -> pl.DataFrame:
    recorded = corpus.events.select("value").collect().hstack(after(corpus, rewards).select("after"))
    events = _events(corpus)
    of_events = recorded[events["row"]]
    absent = pl.any_horizontal(pl.col("value", "after").is_null())
    nothing = {"part": None, "lower": pl.lit(None, pl.Float64), "upper": pl.lit(None, pl.Float64), "n": None}
    return _table(
        events.hstack(of_events).with_columns(
            **nothing,
            reason=pl.when(absent).then(pl.lit("field.absent")),
        )
    )


def _fitted(corpus: Corpus, model: Advantages, confidence: float) -> pl.DataFrame:
    events = _events(corpus).join(model.baselines, on="trace", how="left", maintain_order="left")
    placed = model.rows(corpus)
    silent = model.reason is not None
    change, deviation = np.zeros(placed.height), np.zeros(placed.height)
    is_luck = (placed["result"] != "").to_numpy()
    if not silent:
        change = np.where(is_luck, model.values(placed, luck=True), model.values(placed, luck=False))
        deviation = _deviations(model, placed, is_luck)
    from scipy.special import ndtri

    reach = float(ndtri(0.5 + confidence / 2.0))
    rows = placed.select(
        "row",
        change=pl.Series(change),
        part=pl.when(pl.Series(is_luck)).then(pl.lit("luck")).otherwise(pl.lit("skill")),
        lower=pl.Series(change - reach * deviation),
        upper=pl.Series(change + reach * deviation),
        n="n",
    )
    joined = events.join(rows, on="row", how="left", maintain_order="left")
    moved = pl.col("change").fill_null(0.0)
    ended = pl.col("baseline") + moved.cum_sum().over("trace")
    joined = joined.with_columns(after=ended).with_columns(
        value=pl.coalesce(pl.col("after").shift(1).over("trace"), "baseline")
    )
    # An event at which nobody chose leaves the value as it is, to the last bit.
    if silent:
        constant = model.reason == REASON
        gone = pl.when(pl.lit(constant)).then(pl.col("baseline"))
        joined = joined.with_columns(
            value=gone, after=gone, lower=pl.lit(None, pl.Float64), upper=pl.lit(None, pl.Float64)
        )
    unpaid = pl.col("baseline").is_null()
    reason = pl.when(unpaid).then(pl.lit("reward.absent")).otherwise(pl.lit(model.reason))
    shown = {name: pl.when(~unpaid).then(pl.col(name)) for name in ("lower", "upper")}
    return _table(joined.with_columns(reason=reason, **shown))


def _deviations(model: Advantages, placed: pl.DataFrame, is_luck: Bools) -> Floats:
    """Standard deviation of the change at each row, by the posterior of the model that values it."""
    fold = model.folds.of(placed["trace"])
    of_luck = model.choices.family >= SKILL
    out = np.zeros(placed.height)
    for at in range(0, placed.height, _ROWS):
        x = model.choices.rows(placed[at : at + _ROWS])
        for number in range(model.folds.n):
            for luck, models, columns in ((False, model.skill, ~of_luck), (True, model.luck, of_luck)):
                rows = np.flatnonzero((fold[at : at + _ROWS] == number) & (is_luck[at : at + _ROWS] == luck))
                design = x[rows][:, np.flatnonzero(columns)]
                square = design.multiply(design @ models[number].covariance).sum(axis=1)
                out[at + rows] = np.sqrt(np.maximum(np.asarray(square).ravel(), 0.0))
    return out
