"""Skill and luck of whole runs: how much of an outcome choices explain, and how much the answers of tools."""

from typing import Final

import numpy as np
import polars as pl

from ..base.arguments import Folds, Seed
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward, amounts
from ..credit.fitted.dae import fitted
from ..statistics.learners import one_thread

_COLUMNS: Final = ("outcome", "baseline", "skill", "luck", "residual")
_SUMS: Final = {"trace": pl.UInt32, "skill": pl.Float64, "luck": pl.Float64}


@verb(rows="a trace")
def luck(corpus: Corpus, *, reward: Reward = "team", folds: Folds = 5, seed: Seed = 0) -> pl.DataFrame:
    """Divide the outcome of every run into what its group earned, skill, luck, and what nobody can tell.

    Parameters
    ----------
    corpus
        The recordings.
    reward
        A channel, or weights of several.
    folds, seed
        Parts that tasks are divided into, and how.

    Returns
    -------
    DataFrame
        A row per run: ``trace`` (u32), ``trace_id`` (str); ``outcome``, its reward; ``baseline``, what was to
        be expected before its first choice: the mean reward of its group less what its runs happened to
        choose and to be answered (of all runs, where it is alone in its group); ``skill``, the sum of its
        advantages by ``dae``; ``luck``, what the answers of its tools added; ``residual``, the rest (all f64,
        in units of the reward): outcome = baseline + skill + luck + residual. ``r2`` (f64), how much of the
        differences within groups skill explains on tasks that the model did not see; ``r2_luck``, how much
        more luck does (both to six places). ``reason`` says why numbers are null.

    Raises
    ------
    ParameterError
        Unknown reward channel.

    Notes
    -----
    Luck is told apart from skill only as far as fields show both: an answer of a tool that depends on a
    choice before it is luck where the choice is not recorded. The residual is no luck: it is what the
    recording does not show. The evidence is a surrogate's. O(events · families + folds · columns³).

    Source: H.-R. Pan, B. Schölkopf, arXiv 2402.12874, whose decomposition this is, with linear parts.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, _ = ot.synthetic.planted(traces=64, effects="action", density=1.0, decisive=0.0, seed=0)
    >>> runs = ot.values.luck(corpus)
    >>> off = runs["outcome"] - runs.select("baseline", "skill", "luck", "residual").sum_horizontal()
    >>> bool(off.abs().max() < 1e-12)
    True
    """
    rewards = amounts(corpus, reward).select("trace", amount="reward")
    with one_thread("blas"):
        model = fitted(corpus, rewards, folds, seed)
        sums = []
        for piece in corpus.slices():
            placed = model.rows(piece)
            if model.reason is None:
                trace, run = np.unique(placed["trace"].to_numpy(), return_inverse=True)
                parts = {
                    name: np.bincount(
                        run, weights=model.values(placed, luck=name == "luck"), minlength=len(trace)
                    )
                    for name in ("skill", "luck")
                }
                sums.append(pl.DataFrame({"trace": trace, **parts}, schema=_SUMS))
    runs = (
        corpus.traces.select("trace", "trace_id")
        .collect()
        .join(rewards.rename({"amount": "outcome"}), on="trace", maintain_order="left")
        .join(model.baselines, on="trace", how="left", maintain_order="left")
        .join(pl.concat([pl.DataFrame(schema=_SUMS), *sums]), on="trace", how="left", maintain_order="left")
    )
    valued = pl.lit(model.reason is None) & pl.col("baseline").is_not_null()
    runs = runs.with_columns(pl.when(valued).then(pl.col("skill", "luck").fill_null(0.0)))
    rest = pl.col("outcome") - pl.col("baseline") - pl.col("skill") - pl.col("luck")
    reason = (
        pl.when(pl.col("baseline").is_null()).then(pl.lit("reward.absent")).otherwise(pl.lit(model.reason))
    )
    return runs.with_columns(residual=rest).select(
        "trace",
        "trace_id",
        *_COLUMNS,
        r2=pl.lit(model.fit.get("r2_cv"), pl.Float64).round(6),
        r2_luck=pl.lit(model.fit.get("r2_cv_luck"), pl.Float64).round(6),
        reason=reason.cast(CREDITS["reason"]),
    )
