"""Return redistribution: an event gets the change of a regression g that predicts R from its prefix.

`r'_t = g_t - g_{t-1}` in canonical order, and what is left of R at the end, `R - g_T`, is spread. The
remainder, which no event holds, is g_0: everything sums to R. Every run is scored by a model that did not
see its task. g is a ridge regression on sums over the prefix (O(events · p² + folds · p³), one pass), or
boosted trees on the same (grown once a fold). Reference: J. A. Arjona-Medina et al., arXiv 1806.07857. Axiom:
efficiency.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...corpus.corpus import Corpus
from ...statistics.folds import REASON, Folds, check_size, fit_quality, folds_of
from ...statistics.learners import learner, one_thread
from ..parameters import Param
from ..registry import EventValues, credit_method
from .features import EventTable, Vocabulary, event_table, prefixes
from .ridge import Moments, cross_fitted
from .vdn import ALPHA, FOLDS

Predictor = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Redistribution:
    """What is fitted: g for each fold, and the mean reward of every group."""

    vocabulary: Vocabulary
    folds: Folds
    predictors: list[Predictor]
    groups: pl.DataFrame
    fit: dict[str, object]


@dataclass(frozen=True)
class _Rows:
    """Prefixes of rewarded runs to learn from: x (rows, p), y, weights, fold; and the complete runs."""

    x: Floats
    y: Floats
    weights: Floats
    fold: Ints
    complete: Floats
    reward: Floats
    fold_of_run: Ints


def _rows(corpus: Corpus, folds: Folds, vocabulary: Vocabulary, train: str) -> Iterator[_Rows]:
    for piece in corpus.slices():
        traces = piece.traces.select("trace").collect()["trace"]
        fold = folds.of(traces)
        rewarded = traces.to_frame().join(folds.traces, on="trace", how="left", maintain_order="left")
        amount = rewarded["amount"].fill_null(0.0).to_numpy()
        for table in event_table(piece, vocabulary).blocks():
            yield _rows_of(table, fold[table.here], amount[table.here], train)


def _rows_of(table: EventTable, fold: Ints, amount: Floats, train: str) -> _Rows:
    x = prefixes(table)
    runs = np.flatnonzero((fold >= 0) & (table.lengths > 0))
    complete, reward, of_run = x[table.starts[runs + 1] - 1], amount[runs], fold[runs]
    if train == "runs":
        return _Rows(complete, reward, np.ones(len(runs)), of_run, complete, reward, of_run)
    taught = np.flatnonzero(fold[table.trace] >= 0)
    of = np.concatenate([table.trace[taught], runs])  # the empty prefix is one of them
    rows = np.concatenate([x[taught], np.zeros((len(runs), x.shape[1]))])
    # Each run counts once, however long it is.
    weights = 1.0 / (table.lengths[of] + 1.0)
    return _Rows(rows, amount[of], weights, fold[of], complete, reward, of_run)


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> Redistribution:
    vocabulary = Vocabulary.of(corpus)
    folds = folds_of(corpus, rewards, params["folds"], seed)
    # Trees have single precision within.
    check_size(folds, 1e30 if params["fit"] == "boosting" else 1e100)
    groups = corpus.traces.select("trace", "group_id").collect(engine="streaming")
    groups = groups.join(rewards, on="trace").group_by("group_id").agg(mean=pl.col("amount").mean())
    if folds.n == 0:
        quality = fit_quality(folds.traces["amount"].to_numpy(), np.zeros(0), np.zeros(0), 0)
        return Redistribution(vocabulary, folds, [], groups, quality)
    complete, reward, fold = [], [], []
    learnt: _Boosting | _Ridge = _Boosting(seed) if params["fit"] == "boosting" else _Ridge(params["alpha"])
    for rows in _rows(corpus, folds, vocabulary, params["train"]):
        learnt.add(rows, folds.n)
        complete.append(rows.complete)
        reward.append(rows.reward)
        fold.append(rows.fold_of_run)
    predictors = learnt.predictors(folds.n)
    ends, truth, of_run = np.concatenate(complete), np.concatenate(reward), np.concatenate(fold)
    unseen = np.zeros(len(truth))
    for number in range(folds.n):
        unseen[of_run == number] = predictors[number](ends[of_run == number])
    quality = fit_quality(truth, predictors[-1](ends), unseen, folds.n, learnt.chosen)
    return Redistribution(vocabulary, folds, predictors[:-1], groups, quality)


class _Ridge:
    """Only moments are kept: p² numbers a fold."""

    def __init__(self, alpha: float | None) -> None:
        self._alpha = alpha
        self.chosen: dict[str, object] = {}
        self._parts: list[Moments] = []

    def add(self, rows: _Rows, folds: int) -> None:
        """Takes in the rows of one piece."""
        parts = []
        for number in range(folds):
            in_fold = rows.fold == number
            parts.append(Moments.of(rows.x[in_fold], rows.y[in_fold], rows.weights[in_fold]))
        self._parts = [a + b for a, b in zip(self._parts, parts, strict=True)] if self._parts else parts

    def predictors(self, folds: int) -> list[Predictor]:
        """g without each fold, and last of all rows."""
        models = cross_fitted(self._parts, self._alpha)
        self.chosen["alpha"] = models[-1][1]
        return [model for model, _ in models]


@dataclass(frozen=True)
class _Trees:
    model: Any

    def __call__(self, x: Floats) -> Floats:
        with one_thread():
            predictions: Floats = self.model.predict(x.astype(np.float32))
        return predictions


class _Boosting:
    """All rows are kept, in single precision."""

    def __init__(self, seed: int) -> None:
        self._learner = learner("ensemble", "HistGradientBoostingRegressor", "fit='boosting'")
        self._seed = seed % 2**32
        self.chosen: dict[str, object] = {}
        self._rows: list[_Rows] = []

    def add(self, rows: _Rows, folds: int) -> None:
        """Takes in the rows of one piece."""
        self._rows.append(rows)

    def predictors(self, folds: int) -> list[Predictor]:
        """g without each fold, and last of all rows."""
        x = np.concatenate([rows.x.astype(np.float32) for rows in self._rows])
        y = np.concatenate([rows.y for rows in self._rows])
        weights = np.concatenate([rows.weights for rows in self._rows])
        fold = np.concatenate([rows.fold for rows in self._rows])
        predictors: list[Predictor] = []
        for left_out in range(folds + 1):
            training = fold != left_out
            # Early stopping would draw its own validation rows across tasks.
            model = self._learner(random_state=self._seed, early_stopping=False, min_samples_leaf=5)
            with one_thread():
                model.fit(x[training], y[training], sample_weight=weights[training])
            predictors.append(_Trees(model))
        return predictors


@credit_method(
    "rudder",
    summary="an event gets the change that it makes in the predicted reward",
    quantity="share",
    axioms=("efficiency",),
    params=(
        ALPHA,
        Param(
            "fit",
            "ridge",
            "the regression g; boosting needs the extra fit",
            kind=("ridge", "boosting"),
        ),
        FOLDS,
        Param(
            "residual",
            "spread",
            "who gets what g does not explain: all events alike, or the last one",
            kind=("spread", "last"),
        ),
        Param(
            "start",
            "model",
            "g_0, which no event gets: g of nothing, the mean reward of the group, or 0",
            kind=("model", "group", "zero"),
        ),
        Param(
            "train",
            "prefixes",
            "what g learns from: every prefix of a run, or complete runs only",
            kind=("prefixes", "runs"),
        ),
    ),
    reference="arXiv 1806.07857",
    tier="surrogate",
    scope="corpus",
    fit=_fit,
)
def rudder(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Redistribution
) -> EventValues:
    """Redistribution of a piece by the fitted predictors.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=30, seed=0)
    >>> credits = ot.credit(corpus, method="rudder", unit="agent")
    >>> bool((credits["residual"].abs() < 1e-9).all())
    True
    """
    table = event_table(corpus, model.vocabulary)
    amount = rewards["amount"].fill_null(0.0).to_numpy()
    values = np.zeros(len(table.row))
    if model.folds.n == 0:
        frame = rewards.select("trace", "amount", remainder="amount", reason=pl.lit(REASON))
        return EventValues(pl.DataFrame({"value": values}), frame, model.fit)
    fold = model.folds.of(rewards["trace"])
    after, start = _predicted(table, fold, model.predictors)
    if params["start"] == "zero":
        start = np.zeros(len(fold))
    elif params["start"] == "group":
        groups = corpus.traces.select("trace", "group_id").collect()
        means = groups.join(model.groups, on="group_id", how="left", maintain_order="left")["mean"]
        start = means.fill_null(0.0).to_numpy()
    some = table.lengths > 0
    first, last = table.starts[:-1][some], table.starts[1:][some] - 1
    change = np.diff(after, prepend=0.0)
    change[first] = after[first] - start[some]
    left = np.zeros(len(fold))
    left[some] = amount[some] - after[last]
    if params["residual"] == "last":
        change[last] += left[some]
    else:
        change += (left / np.maximum(table.lengths, 1))[table.trace]
    values[table.row] = change
    traces = rewards.select("trace", "amount", remainder=pl.Series(start), reason=pl.lit(None, pl.String))
    return EventValues(pl.DataFrame({"value": values}), traces, model.fit)


def _predicted(events: EventTable, fold: Ints, predictors: list[Predictor]) -> tuple[Floats, Floats]:
    """g after every event of the table, and g of nothing for every trace; 0 without a reward."""
    after, start = np.zeros(len(events.row)), np.zeros(len(fold))
    for table in events.blocks():
        x, fold_here = prefixes(table), fold[table.here]
        at = events.starts[table.first]
        for number, predict in enumerate(predictors):
            here = np.flatnonzero(fold_here[table.trace] == number)
            if len(here):
                after[at + here] = predict(x[here])
                start[fold == number] = predict(np.zeros((1, x.shape[1])))[0]
    return after, start
