"""Direct advantage estimation: what each choice adds to the expected reward, and what luck added.

```text
R = V_0 + Σ_t A(s_t, a_t) + Σ_t B(s_t, a_t, s_t+1) + residual,   Σ_a π(a|s) A(s, a) = 0
```

A is linear in the columns of `choices`, which have the mean 0 under the policy whatever was done before:
the fit needs no model of the value of a state, and no critic. B is the same for what tools answered, fitted
to what A leaves. Runs are compared within their group; V_0 is its mean reward, less the mean of what its
runs chose and met, so that eight lucky rollouts do not raise what was to be expected of them. Every run is
valued by models that did not see its task, and each family of columns is shrunk as the training tasks say
(`family_ridge`).

Where the outcome has nothing to do with the choices, a regression shows noise that looks like credit. So the
rewards are permuted within groups 99 times: unless the fit predicts unseen tasks better than the mean does,
and better than 95 of 100 such fits, all values are null with `signal.absent`.
O(events · families + runs · p² + folds · steps · p³), one pass to count and one to add up; 800 bytes a run.
Reference: H.-R. Pan et al., arXiv 2109.06093; H.-R. Pan, B. Schölkopf, arXiv 2402.12874, which has B.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Bools, Floats
from ...corpus.corpus import Corpus
from ...statistics.folds import REASON, Folds, check_size, folds_of
from ..registry import EventValues, credit_method
from .choices import FAMILIES, SKILL, Choices, choice_rows, kinds_of, named_options
from .family_ridge import Posterior, Sums, posterior
from .grouped_runs import PERMUTATIONS, GroupedRuns, sums_of_folds, sums_of_others, total
from .vdn import FOLDS

NO_SIGNAL: Final = "signal.absent"
_NO_SUPPORT: Final = "support.absent"
_LEVEL: Final = 0.05
_GRID: Final = tuple(10.0**k for k in range(-2, 5))  # penalties of the fits to permuted rewards


@dataclass(frozen=True)
class Advantages:
    """What is fitted: for each fold what the other tasks say of A and B.

    ``baselines`` is ``trace baseline``, the reward to be expected before the first choice; ``reason`` says
    why no advantage is given. ``held`` is a corpus in memory with its choices; None where the corpus is
    on disk, whose choices are read again piece by piece.
    """

    choices: Choices
    folds: Folds
    skill: list[Posterior]
    luck: list[Posterior]
    baselines: pl.DataFrame
    reason: str | None
    fit: dict[str, object]
    held: tuple[Corpus, pl.DataFrame] | None = None

    def rows(self, corpus: Corpus) -> pl.DataFrame:
        """The choices of the rewarded runs of a piece; of a corpus in memory, those that it was fitted to."""
        if self.held and self.held[0] is corpus:
            return self.held[1]
        return self.choices.placed(_rewarded(choice_rows(corpus), self.folds))

    def weights(self, luck: bool) -> Floats:
        """θ of each fold, (columns, folds): of A, or of B."""
        is_luck = self.choices.family >= SKILL
        models = self.luck if luck else self.skill
        out = np.zeros((self.choices.n, self.folds.n))
        for number, model in enumerate(models):
            out[is_luck == luck, number] = model.mean
        return out

    def values(self, placed: pl.DataFrame, luck: bool) -> Floats:
        """A of each row, or B, by the model that did not see its task."""
        return self.choices.events(placed, self.weights(luck), self.folds.of(placed["trace"]))


def _p_value(sums: list[Sums]) -> float:
    """The share of permutations whose rewards are predicted as well, on unseen tasks, as the recorded ones:
    by a ridge regression of its best penalty, the same for all of them.
    """
    if not len(sums[0].xx):
        return 1.0
    errors = np.zeros((len(_GRID), PERMUTATIONS + 1))
    for number, part in enumerate(sums):
        others = sums_of_others(sums, number)
        values, vectors = np.linalg.eigh(others.xx)
        values = np.maximum(values, 0.0)
        right = vectors.T @ others.xy
        typical = max(float(np.diagonal(others.xx).mean()), np.finfo(float).tiny)
        for at, penalty in enumerate(_GRID):
            errors[at] += part.error(vectors @ (right / (values + penalty * typical)[:, None]))
    explained = 1.0 - errors.min(axis=0) / total(sums).yy
    return float((explained >= explained[0]).mean())


def _of_luck(sums: Sums, skill: Floats, is_luck: Bools) -> Sums:
    """What A leaves, on the columns of B."""
    first = Sums(sums.xx, sums.xy[:, :1], sums.yy[:1], sums.n)
    left = first.xy[is_luck] - first.xx[np.ix_(is_luck, ~is_luck)] @ skill[:, None]
    error = first.part(~is_luck).error(skill[:, None])
    return Sums(sums.xx[np.ix_(is_luck, is_luck)], left, error, sums.n)


def _rewarded(rows: pl.DataFrame, folds: Folds) -> pl.DataFrame:
    return rows.filter(pl.col("trace").is_in(folds.traces["trace"].implode()))


def fitted(corpus: Corpus, rewards: pl.DataFrame, most: int, seed: int) -> Advantages:
    """A and B of a corpus, on disk or in memory; ``most`` folds. One thread for BLAS is the caller's to set.

    Raises
    ------
    ParameterError
        A reward is too large for sums of squares.
    """
    folds = folds_of(corpus, rewards, most, seed)
    check_size(folds)
    in_memory: list[pl.DataFrame] = []
    counted, evidence = [], []
    for piece in corpus.slices():
        rows = _rewarded(choice_rows(piece), folds)
        counted.append(kinds_of(rows))
        evidence.append(named_options(rows))
        if piece is corpus:
            in_memory.append(rows)
    choices = Choices.of(pl.concat(counted), pl.concat(evidence))
    held = (corpus, choices.placed(in_memory[0])) if in_memory else None
    groups = corpus.traces.select("trace", "trace_id", "group_id").collect(engine="streaming")
    degenerate = folds.n < 2
    runs = GroupedRuns.of(folds, groups, seed) if not degenerate else None
    if runs is None or not np.abs(runs.y[:, 0]).max() > 0.0:
        quality: dict[str, object] = {"r2_cv": None, "n": folds.traces.height, "folds": folds.n}
        return Advantages(choices, folds, [], [], _means(folds, groups), REASON, quality, held)
    pieces = (choices.placed(_rewarded(choice_rows(piece), folds)) for piece in corpus.slices())
    sums, means = sums_of_folds(iter([held[1]]) if held else pieces, choices, runs, folds.n)
    is_luck = choices.family >= SKILL
    of_skill = [part.part(~is_luck) for part in sums]
    skill, luck = [], []
    error = both = 0.0
    for number in range(folds.n):
        training = sums_of_others(sums, number)
        skill.append(posterior(training.part(~is_luck), choices.family[~is_luck], SKILL))
        of_luck = _of_luck(training, skill[-1].mean, is_luck)
        luck.append(posterior(of_luck, choices.family[is_luck] - SKILL, len(FAMILIES) - SKILL))
        unseen = _of_luck(sums[number], skill[-1].mean, is_luck)
        error += float(unseen.yy[0])
        both += float(unseen.error(luck[-1].mean[:, None])[0])
    around = float(total(sums).yy[0])
    p_value = _p_value(of_skill)
    r2 = 1.0 - error / around
    if both >= error:  # what tools answered says nothing that is worth a number
        luck = [
            Posterior(np.zeros_like(m.mean), np.zeros_like(m.covariance), m.of_family, m.noise) for m in luck
        ]
        both = error
    quality = {
        "r2_cv": r2,
        "r2_cv_luck": (error - both) / around,
        "p_value": p_value,
        "n": int(runs.size.sum()),
        "folds": folds.n,
        "columns": choices.n,
        "overlap": choices.overlap,
    }
    silent = r2 <= 0.0 or p_value > _LEVEL
    reason = NO_SIGNAL if silent else None
    model = Advantages(choices, folds, skill, luck, _means(folds, groups), reason, quality, held)
    return model if silent else replace(model, baselines=_baselines(model, runs, means))


def _means(folds: Folds, groups: pl.DataFrame) -> pl.DataFrame:
    """The mean reward of the group of each run; of all runs where it is alone in it."""
    runs = groups.join(folds.traces, on="trace", how="inner", maintain_order="left")
    alone = pl.len().over("group_id") == 1
    mean = pl.when(alone).then(pl.col("amount").mean()).otherwise(pl.col("amount").mean().over("group_id"))
    return runs.select("trace", baseline=mean)


def _baselines(model: Advantages, runs: GroupedRuns, means: Floats) -> pl.DataFrame:
    """The mean reward of a cell, less what its runs happened to choose and to be answered; where a run is
    alone, the mean of that over all cells.
    """
    fold = np.zeros(len(runs.size), dtype=np.int64)
    fold[runs.cell] = runs.fold
    weights = model.weights(luck=False) + model.weights(luck=True)
    expected = runs.mean - np.einsum("cp,pc->c", means, weights[:, fold])
    overall = float(np.average(expected, weights=runs.size))
    expected = np.where(runs.size > 1, expected, overall)
    return pl.DataFrame({"trace": pl.Series(runs.trace).cast(pl.UInt32), "baseline": expected[runs.cell]})


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> Advantages:
    return fitted(corpus, rewards, params["folds"], seed)


@credit_method(
    "dae",
    summary="what a choice adds to the expected reward, fitted to choices that the policy could have made",
    quantity="advantage",
    params=(FOLDS,),
    reference="arXiv 2109.06093; 2402.12874",
    tier="surrogate",
    scope="corpus",
    fit=_fit,
)
def dae(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Advantages
) -> EventValues:
    """Advantages of the choices of a piece.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, _ = ot.synthetic.planted(traces=64, effects="action", density=1.0, decisive=0.0, seed=0)
    >>> credits = ot.credit(corpus, method="dae", unit="event").drop_nulls("credit")
    >>> credits.height > 0
    True
    """
    placed = model.rows(corpus)
    if model.reason is None:
        value = pl.when("supported").then(pl.Series("value", model.values(placed, luck=False)))
        reason = pl.when(~pl.col("supported")).then(pl.lit(_NO_SUPPORT))
    else:
        value = pl.when(pl.lit(model.reason == REASON)).then(0.0)
        reason = pl.when(pl.lit(model.reason != REASON)).then(pl.lit(model.reason))
    chosen = placed.with_columns(value=value, reason=reason).filter(pl.col("result") == "")
    events = corpus.events.select("trace").collect().with_row_index("row")
    events = events.join(chosen.select("row", "value", "reason"), on="row", how="left", maintain_order="left")
    served = chosen.select("trace").unique().with_columns(known=pl.lit(True))
    absent = pl.when(pl.col("known").is_null()).then(pl.lit("field.absent"))
    traces = rewards.join(served, on="trace", how="left", maintain_order="left").select(
        "trace",
        "amount",
        remainder=pl.lit(0.0),
        reason=absent.otherwise(pl.lit(model.reason)) if model.reason else absent,
    )
    return EventValues(events.select("value", "reason"), traces, model.fit)
