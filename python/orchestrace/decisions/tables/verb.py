"""The table of decisions: state, action, alternatives and effect."""

from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ... import _core
from ...base.arguments import Bounds, Confidence, Seed
from ...base.division import Arguments, Division, Order, Pieces
from ...base.engines import RunBy
from ...base.errors import ParameterError
from ...base.taxonomy import SUB_DECISIONS
from ...base.verbs import verb
from ...corpus.corpus import Corpus
from ...corpus.frames import collected
from ...corpus.parts import store_of
from ...corpus.reward import Reward
from ...effects.spawning import manski, reward_limits
from ...stopping.recorded import Source as EpochSource, check_source
from ..rows import Source, params_text
from .evidence import EVIDENCE, Facts, aggregated, delegated, sent, spawned, stopped
from .kinds import decided, stops
from .state import NUMBERS, WORDS

Kind = Literal["spawn", "delegate", "communicate", "aggregate", "stop"]

KINDS: Final = {decision.name: decision.id for decision in SUB_DECISIONS}
TABLE: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "seq": pl.UInt32,
    "trace_id": pl.String,
    "task_id": pl.String,
    "group_id": pl.String,
    "kind": pl.Enum(list(KINDS.values())),
    "actor": pl.String,
    **dict.fromkeys(NUMBERS, pl.Float64),
    **dict.fromkeys(WORDS, pl.String),
    "action": pl.String,
    "n_alternatives": pl.UInt32,
    "alternatives": pl.List(pl.String),
    "p_behavior": pl.Float64,
    "outcome": pl.Float64,
    "credit": pl.Float64,
    **EVIDENCE,
    "params": pl.String,
}
"""Columns of what `decisions.table` returns, for every kind."""


def _check_kind(arguments: Arguments, pieces: Pieces) -> None:
    kind = arguments.by_name(table)["kind"]
    if kind in ("spawn", "delegate"):
        raise ParameterError(
            f"decisions of kind '{kind}' have an effect that is estimated from all runs of a corpus: make"
            " this table on one machine, or plan 'decisions.contexts', whose rows are of one trace each"
        )
    check_source(arguments, pieces)


@verb(
    rows="a decision",
    division=Division(check=_check_kind, order=lambda arguments: Order(by=("trace_id", "trace"))),
)
def table(
    corpus: Corpus,
    kind: Kind,
    *,
    reward: Reward | None = "team",
    context: Source = "auto",
    credits: pl.DataFrame | pl.LazyFrame | None = None,
    bounds: Bounds | None = None,
    source: EpochSource | None = None,
    rule: Literal["best", "majority", "mean", "confidence"] = "confidence",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    engine: RunBy = None,
) -> pl.DataFrame:
    """List every decision of a kind: what was known before it, what was done, and what that was worth.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    kind
        ``"spawn"`` (O1): decisions of the root; the action is ``spawn`` if it spawns before its next one,
        else ``no_spawn``. ``"delegate"`` (O2): spawns, and messages of the root, to another agent; the action
        is the role of the delegate as recorded up to then, else its name. ``"communicate"`` (O3): messages to
        another agent; ``send``. ``"aggregate"`` (O4): aggregates; the first of ``best mean majority`` that
        gives the recorded score from the scores of the inputs, else ``other``; null if a score is missing.
        ``"stop"`` (O5): epochs of `stopping.epochs`; ``stop`` or ``continue`` as recorded by a decision,
        else ``continue``, and ``stop`` at the last.
    reward
        The outcome, as in `credit`. None for recordings that have none: what was known and done, with null
        outcomes.
    context
        Where contexts come from, as in `contexts`.
    credits
        Rows of `credit` at one unit, of one method and reward. A decision has the credit of the unit that its
        event belongs to: by ``trace`` and ``unit_id``, of the event itself, its turn, its agent and so on.
    bounds
        Least and greatest possible reward. Where no effect is identified, ``lower`` and ``upper`` are then
        what the outcome leaves open. They are never guessed.
    source
        What an epoch is, as in `stopping.epochs`; of ``stop`` alone.
    rule
        What an aggregate is compared with, as in `effects.aggregation`; of ``aggregate`` alone.
    confidence
        Coverage of the intervals.
    seed
        Of the folds of ``spawn``.
    engine
        Who computes a corpus on disk, as in `credit`.

    Returns
    -------
    DataFrame
        A row per decision, ordered by ``trace_id`` and time, with the same columns for every kind: ``trace
        seq`` (UInt32) ``trace_id task_id group_id`` (String) ``kind`` (Enum, O1 to O5) ``actor`` (String);
        the state, ``x_...`` (Float64; ``x_role x_state_key x_subtask_id`` String); ``action`` (String),
        ``n_alternatives`` (UInt32: the distinct actions of runs of its group in its context and role, this
        one among them; of messages, the choices there; null without a context) and ``alternatives`` (List of
        String, the first 32 of these; null for messages); ``p_behavior`` (Float64, where the recorded field
        ``action`` is this action), ``outcome`` (Float64), ``credit`` (Float64); ``effect lower upper``
        (Float64), of the action less its alternative; ``n_action n_other`` (UInt32, what was recorded on both
        sides; null where none is needed), ``tier reason params``.
        Effects: of ``spawn`` that of `effects.spawn` over all these decisions, with its sign; of ``delegate``
        that of `effects.delegation`, against the class as it was delegated; of ``communicate`` that of
        `effects.message`; of ``aggregate`` the recorded score less that by `rule`, in units of the score; of
        ``stop``, what the next epoch added to the quality. An effect that is not identified is null with a
        reason, ``range.unknown`` where siblings or overlap are absent and `bounds` are too.

    Raises
    ------
    ParameterError
        An unknown kind, channel, source, rule or word, a number out of range, a reward outside of `bounds`,
        or credits that are not of one unit, method and reward of this corpus.

    Notes
    -----
    State columns read only events before the decision in canonical order; of ``stop``, the event of the epoch
    too, after which it is decided. Who owns an event, and who is the root, is a matter of the whole trace.
    Columns that only epochs have (``x_k``, those of scores ``x_s...`` and qualities ``x_q...``,
    ``x_unchanged x_agreement``) are null for other kinds. Numbers that are not recorded up to there are null.

    Bounds of a decision with outcome R in [a, b]: R - b to R - a. Their means, signed, are those of 6.7.
    With ``source="attempt"`` a row is a run, ``trace`` the number of its group, and ``seq`` is null.

    O(events log events), and for ``spawn`` O(decisions * features²) more. Source: arXiv 2605.02801, section
    5; bounds, Manski 1990; docs/reference/definitions.md, D32.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=32, seed=1, spawn_effect=1.0)
    >>> rows = ot.decisions.table(corpus, "spawn")
    >>> sorted(rows["action"].unique()), rows["x_position"].min()
    (['no_spawn', 'spawn'], 0.0)
    >>> rows.schema == ot.decisions.table(corpus, "stop").schema
    True
    """
    if source is not None and kind != "stop":
        raise ParameterError(f"source is '{source}', but kind is '{kind}': only 'stop' has epochs")
    params: dict[str, object] = {"kind": kind, "reward": reward, "bounds": bounds}
    if kind == "stop":
        rows = stops(corpus, reward, source)
        evident, facts = stopped(rows)
    else:
        rows = decided(corpus, kind, reward, context)
        evident, facts = _evidence(corpus, rows, kind, reward, context, rule, confidence, seed)
        params |= {"context": context, "confidence": confidence}
        params |= {"seed": seed} if kind == "spawn" else {}
    if kind != "aggregate":
        evident = _bounded(evident, bounds)
    elif bounds is not None:
        reward_limits(evident, bounds)
    params |= facts
    stated = (
        pl.lit(params_text(params))
        if kind != "stop"
        else pl.col("source")
        .cast(pl.String)
        .replace_strict(
            {name: params_text(params | {"source": name}) for name in evident["source"].unique()},
            return_dtype=pl.String,
        )
    )
    evident = evident.with_columns(
        kind=pl.lit(KINDS[kind]),
        action="done",
        params=stated,
        credit=pl.lit(None) if credits is None else _credited(corpus, evident, credits),
    )
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in TABLE.items() if name not in evident.columns]
    return evident.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in TABLE.items())


def _evidence(
    corpus: Corpus,
    rows: pl.DataFrame,
    kind: str,
    reward: Reward | None,
    context: Source,
    rule: str,
    confidence: float,
    seed: int,
) -> tuple[pl.DataFrame, Facts]:
    if kind == "spawn":
        return spawned(rows, confidence, seed)
    if kind == "delegate":
        return delegated(rows, confidence)
    if kind == "communicate":
        return sent(corpus, rows, reward, context, confidence)
    return aggregated(corpus, rows, rule)


def _bounded(rows: pl.DataFrame, bounds: tuple[float, float] | None) -> pl.DataFrame:
    """With what the outcome leaves open where no effect is identified."""
    unknown = pl.col("effect").is_null()
    rows = rows.with_columns(
        reason=pl.when(unknown & pl.col("outcome").is_null())
        .then(pl.lit("reward.absent", EVIDENCE["reason"]))
        .otherwise("reason")
    )
    limits = None if bounds is None else reward_limits(rows.with_columns(reward="outcome"), bounds)
    if limits is None:
        open_ended = unknown & pl.col("reason").cast(pl.String).is_in(["siblings.absent", "overlap.absent"])
        never = pl.lit("range.unknown", EVIDENCE["reason"])
        return rows.with_columns(reason=pl.when(open_ended).then(never).otherwise("reason"))
    # what was done is the one side, so that the other is all that is open
    outcome = rows["outcome"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    lower, upper = manski(np.ones(rows.height, dtype=bool), outcome, *limits)
    ends = {"lower": pl.Series(lower).fill_nan(None), "upper": pl.Series(upper).fill_nan(None)}
    is_bounded = unknown & pl.col("outcome").is_not_null()
    return rows.with_columns(
        *(pl.when(is_bounded).then(pl.lit(end)).otherwise(name).alias(name) for name, end in ends.items()),
        tier=pl.when(is_bounded).then(pl.lit("observed", EVIDENCE["tier"])).otherwise("tier"),
    )


def _credited(corpus: Corpus, rows: pl.DataFrame, credits: pl.DataFrame | pl.LazyFrame) -> pl.Series:
    """The credit of the unit that each decision belongs to."""
    frame = collected(credits, "credits", ("trace", "unit", "unit_id", "credit"))
    levels = frame["unit"].cast(pl.String).drop_nulls().unique().sort().to_list()
    if len(levels) > 1:
        raise ParameterError(f"credits are at units {', '.join(levels)}: give those of one")
    if not levels:
        return pl.Series("credit", [None] * rows.height, dtype=pl.Float64)
    credited = frame.select(
        pl.col("trace").cast(pl.Int64), pl.col("unit_id").cast(pl.String), pl.col("credit").cast(pl.Float64)
    ).drop_nulls("unit_id")
    traces = corpus.traces.select(pl.col("trace").cast(pl.Int64)).collect(engine="streaming")
    unknown = credited.join(traces, on="trace", how="anti", maintain_order="left")
    if unknown.height:
        raise ParameterError(
            f"trace {unknown['trace'][0]} of the credits is not in the corpus: give the corpus they are of"
        )
    twice = credited.filter(pl.struct("trace", "unit_id").is_duplicated())
    if twice.height:
        raise ParameterError(
            f"credits have unit '{twice['unit_id'][0]}' of trace {twice['trace'][0]} twice: give those of one"
            " method and one reward"
        )
    wanted = rows.select("trace", "seq")
    parts = []
    for piece in corpus.slices():
        ids = pl.DataFrame(_core.unit_ids(store_of(piece), levels[0]))
        ids = ids.with_columns(pl.col("trace", "seq").cast(pl.Int64), pl.col("unit_id").cast(pl.String))
        parts.append(ids.join(wanted, on=["trace", "seq"], how="semi"))
    units = wanted.join(pl.concat(parts), on=["trace", "seq"], how="left", maintain_order="left")
    return units.join(credited, on=["trace", "unit_id"], how="left", maintain_order="left")["credit"]
