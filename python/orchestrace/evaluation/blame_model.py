"""A score of suspicion that is learnt from labelled runs: logistic regression, without any language model."""

from dataclasses import dataclass

import numpy as np

from ..base.arrays import Bools, Floats, Ints
from ..statistics.learners import in_one_order

_RIDGE = 0.3
"""Weight of the squared coefficients, for features of unit variance and runs of weight 1."""


@dataclass(frozen=True)
class BlameModel:
    """Coefficients of standardized features."""

    mean: Floats
    scale: Floats
    weight: Floats

    def scores(self, table: Floats) -> Floats:
        """Log odds that a unit is the labelled one, up to a constant; (units,) float64."""
        standard = (table - self.mean) / self.scale
        return np.asarray((standard * self.weight).sum(axis=1), dtype=np.float64)


@in_one_order
def fit_blame(table: Floats, run: Ints, labeled: Bools) -> BlameModel:
    """The logit with a ridge, of runs that count alike whatever their length.

    Parameters
    ----------
    table
        (units, features) float64.
    run
        The run of each unit, (units,) int64.
    labeled
        Whether people blame it, (units,) bool.

    Notes
    -----
    Newton's method; O(units features²) a step, at most 50 steps. Without a label all weights are 0.
    """
    n_features = table.shape[1]
    mean = table.mean(axis=0) if len(table) else np.zeros(n_features)
    scale = table.std(axis=0) if len(table) else np.ones(n_features)
    scale = np.where(scale > 1e-12, scale, 1.0)
    design = np.c_[(table - mean) / scale, np.ones(len(table))]
    penalty = np.r_[np.full(n_features, _RIDGE), 1e-6]
    _, codes = np.unique(run, return_inverse=True)
    # the labelled units of a run weigh as much as its others together; a run without a label says nothing
    n_labeled = np.bincount(codes, labeled.astype(np.float64), minlength=1)
    n_others = np.bincount(codes, minlength=1) - n_labeled
    alike = np.where(labeled, n_labeled[codes], n_others[codes])
    weight = np.where(n_labeled[codes] > 0, 0.5 / np.maximum(alike, 1.0), 0.0)
    beta = np.zeros(n_features + 1)
    for _ in range(50):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ beta, -40.0, 40.0)))
        gradient = design.T @ (weight * (labeled - chance)) - penalty * beta
        curvature = (design * (weight * chance * (1.0 - chance))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        beta = beta + step
        if float(np.abs(step).max()) < 1e-10:
            break
    return BlameModel(mean, scale, beta[:-1])
