"""Accounts of rewards: credit channels against the reward, and units that earn without giving."""

from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from ..base.errors import ParameterError
from ..base.text import plain
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..corpus.reward import amounts
from ..credit.quantities import quantities

_RUN: Final = ("method", "reward", "params")
_FLOOR: Final = 1e-12  # a reward of 0 has no relative error

Credits = pl.DataFrame | pl.LazyFrame


@verb
def reward_accounting(
    corpus: Corpus,
    credits: Credits | Sequence[Credits],
    *,
    reward: str | Mapping[str, float] = "team",
) -> pl.DataFrame:
    """Compare the sum of all credit channels of a trace with its reward, and report what is paid twice.

    Parameters
    ----------
    corpus
        The recordings, for their rewards.
    credits
        Shares of `credit`, all at one unit: one frame or several. Every method, reward and set of parameters
        in them is one channel. To compare channels of different levels compute all at unit ``event``.
    reward
        What the channels together should pay: a reward channel, or a weighted sum of several, as in `credit`.

    Returns
    -------
    DataFrame
        A row per trace: ``trace trace_id n_channels reward paid partition_error collision reason``. ``paid``
        (units of the reward) is the sum over all channels and rows, the row without a unit included.
        ``partition_error`` = |paid - reward| / max(|reward|, 1e-12), dimensionless, 0 or more. ``collision``
        = Σ_v (Σ_k |c_k(v)| - max_k |c_k(v)|) / Σ_v Σ_k |c_k(v)|, in 0..1 exclusive: the part of all credit
        that is paid on units on which another channel pays more; 0 where nothing is paid. Both are null,
        with a ``reason``, where the trace lacks the reward (``reward.absent``) or where a credit is null
        (that credit's reason, the first one by channel and row).

    Raises
    ------
    ParameterError
        A channel is an advantage, which does not add up; the frames are at different units, lack a column or
        name a trace that the corpus does not have; or the reward is not known.

    Notes
    -----
    O(n log n) in rows. A trace that some channel has no rows of is paid by the others only.

    Source: credit ledger, a diagnostic of this project; the property is the efficiency axiom of Shapley 1953,
    taken over several channels.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> flow = ot.credit(corpus, method="flow", unit="event")
    >>> ot.evaluation.reward_accounting(corpus, flow).select("partition_error", "collision").max().row(0)
    (0.0, 0.0)
    >>> twice = ot.evaluation.reward_accounting(corpus, [flow, flow.with_columns(params=None)])
    >>> twice.filter(twice["reward"] != 0).select("partition_error", "collision").row(0)
    (1.0..., 0.5)
    """
    if not isinstance(credits, pl.DataFrame | pl.LazyFrame | list | tuple):
        raise ParameterError(
            f"credits is of type {type(credits).__name__}, expected a frame or a list of them"
        )
    frames = [credits] if isinstance(credits, pl.DataFrame | pl.LazyFrame) else list(credits)
    if not frames:
        raise ParameterError("credits is empty: give at least one frame of credits")
    needed = ("trace", "unit", "unit_id", "credit")
    rows = pl.concat([_channels(collected(frame, "credits", needed), i) for i, frame in enumerate(frames)])
    units = rows["unit"].unique().sort().to_list()
    if len(units) > 1:
        raise ParameterError(f"credits are at units {', '.join(units)}: compute all at one, best at 'event'")
    rewards = amounts(corpus, reward).with_columns(pl.col("trace").cast(pl.Int64))
    unknown = rows.join(rewards, on="trace", how="anti")
    if unknown.height:
        raise ParameterError(f"trace {unknown['trace'][0]} of the credits is not in the corpus")
    # shares of agents that are not trained are in the row without a unit
    rows = rows.filter(pl.col("reason").cast(pl.String).ne_missing("agent.frozen"))
    rows = rows.sort("channel", "row")  # sums in one order give one result
    size = pl.col("credit").abs()
    by_unit = rows.group_by("trace", "unit_id", maintain_order=True).agg(all=size.sum(), most=size.max())
    paid_twice = by_unit.group_by("trace", maintain_order=True).agg(
        double=(pl.col("all") - pl.col("most")).sum(), total=pl.col("all").sum()
    )
    reason = pl.col("reason").filter(pl.col("credit").is_null())
    per_trace = rows.group_by("trace", maintain_order=True).agg(
        n_channels=pl.col("channel").n_unique(),
        paid=pl.col("credit").sum(),
        known=pl.col("credit").is_not_null().all(),
        missing=reason.drop_nulls().first(),
    )
    usable = pl.col("known") & pl.col("reward").is_not_null()
    return (
        rewards.join(per_trace, on="trace", how="inner")
        .join(paid_twice, on="trace", how="left")
        .sort("trace")
        .with_columns(paid=pl.when("known").then("paid"))
        .select(
            pl.col("trace").cast(pl.UInt32),
            "trace_id",
            pl.col("n_channels").cast(pl.UInt32),
            "reward",
            "paid",
            partition_error=pl.when(usable).then(
                _rounded(pl.col("paid"), pl.col("reward"), pl.col("total"))
                / pl.max_horizontal(pl.col("reward").abs(), pl.lit(_FLOOR))
            ),
            collision=pl.when(usable & (pl.col("total") > 0))
            .then(pl.col("double") / pl.col("total"))
            .when(usable)
            .then(0.0),
            reason=pl.when(pl.col("reward").is_null())
            .then(pl.lit("reward.absent"))
            .when(~pl.col("known"))
            .then("missing"),
        )
    )


@verb
def free_ride(credits: Credits) -> pl.DataFrame:
    """Compute the free-ride index: how much less than an equal part each unit of a trace earned.

    Parameters
    ----------
    credits
        Shares of `credit` at a unit with several in a trace, as a rule ``agent``: ``trace unit unit_id
        credit``, one or several methods.

    Returns
    -------
    DataFrame
        A row per unit: ``trace trace_id unit unit_id method reward params credit free_ride reason`` (of the
        columns other than the needed ones those that `credits` has). ``free_ride`` = max(0, 1 - φ_i / (R/n)),
        dimensionless: R = Σ φ_i over the trace's n units. 0 for an equal part or more, 1 for nothing, above 1
        for a negative credit. Null where R is not above 0 (``reward.not_positive``: parts of a loss are not
        comparable) or where a credit of the trace is null (its reason). The row without a unit is left out.

    Raises
    ------
    ParameterError
        A column is absent, or a method gives advantages, which have no equal parts.

    Notes
    -----
    O(n) in rows. Tasks that need one agent only make the others free riders by this index; it describes the
    division, not the intent.

    Source: free-ride index, a diagnostic of this project, after the equal-share benchmark of team production
    (Holmström 1982).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> credits = pl.DataFrame({"trace": 0, "unit": "agent", "unit_id": ["lead", "worker", "idle"],
    ...     "credit": [0.5, 0.5, 0.0]})
    >>> ot.evaluation.free_ride(credits)["free_ride"].to_list()
    [0.0, 0.0, 1.0]
    """
    frame = collected(credits, "credits", ("trace", "unit", "unit_id", "credit"))
    _refuse_advantages(frame)
    frame = frame.filter(pl.col("unit_id").is_not_null())
    runs = [name for name in ("unit", *_RUN) if name in frame.columns]
    over = ["trace", *runs]
    credit = pl.col("credit").cast(pl.Float64).fill_nan(None)
    complete = credit.is_not_null().all().over(over)
    total = credit.sum().over(over)
    reason = pl.col("reason").cast(pl.String) if "reason" in frame.columns else pl.lit(None, pl.String)
    order = ["trace", "trace_id", "unit", "unit_id", *_RUN]
    return frame.select(
        *(name for name in order if name in frame.columns),
        credit.alias("credit"),
        free_ride=pl.when(complete & (total > 0)).then(
            pl.max_horizontal(0.0, 1.0 - credit * pl.len().over(over) / total)
        ),
        reason=pl.when(~complete)
        .then(reason.filter(credit.is_null()).drop_nulls().first().over(over))
        .when(total <= 0)
        .then(pl.lit("reward.not_positive")),
    )


def _channels(frame: pl.DataFrame, number: int) -> pl.DataFrame:
    """Rows with the number of their channel: the frame, and what differs inside it."""
    _refuse_advantages(frame)
    facts = [pl.col(name).cast(pl.String) for name in _RUN if name in frame.columns]
    reason = pl.col("reason").cast(pl.String) if "reason" in frame.columns else pl.lit(None, pl.String)
    keyed = frame.select(
        pl.col("trace").cast(pl.Int64),
        pl.col("unit").cast(pl.String),
        pl.col("unit_id").cast(pl.String),
        pl.col("credit").cast(pl.Float64).fill_nan(None),
        reason=reason,
        channel=pl.concat_str(pl.lit(f"{number:06}"), *facts, separator="\0", ignore_nulls=True),
    ).with_row_index("row")
    twice = keyed.select("trace", "unit_id", "channel").is_duplicated()
    if twice.any():
        trace, name = keyed.filter(twice).select("trace", "unit_id").row(0)
        raise ParameterError(f"credits have unit '{name}' of trace {trace} twice in one channel")
    return keyed


def _refuse_advantages(frame: pl.DataFrame) -> None:
    wrong = frame.filter(quantities(frame) == "advantage")
    if wrong.height:
        named = wrong["method"].cast(pl.String).min() if "method" in wrong.columns else None
        who = plain(repr(named)) if named else "the frame"
        raise ParameterError(
            f"{who} gives advantages, which do not add up to a reward: only shares can be checked here"
        )


def _rounded(paid: pl.Expr, reward: pl.Expr, total: pl.Expr) -> pl.Expr:
    """|paid - reward|, 0 within what rounding leaves of a sum of that size."""
    error = (paid - reward).abs()
    return pl.when(error <= 1e-12 * pl.max_horizontal(total, reward.abs())).then(0.0).otherwise(error)
