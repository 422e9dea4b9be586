"""Intervals of means over tasks by their definitions: dense matrices, roots of the score, binomial trials."""

import math
from typing import Any

import numpy as np
from scipy import optimize, stats

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


def by_matrices(values: Floats, task: Ints) -> tuple[float, float]:
    """The error and its degrees of freedom by the definition of CR2: residuals of a regression on a constant,
    each cluster's multiplied by (I - H_cc)^(-1/2); Satterthwaite's for independent rows."""
    n = len(values)
    hat = np.full((n, n), 1.0 / n)
    residual = (np.eye(n) - hat) @ values
    squares, lines = 0.0, []
    for one in np.unique(task):
        own = np.flatnonzero(task == one)
        eigen, vectors = np.linalg.eigh(np.eye(len(own)) - hat[np.ix_(own, own)])
        adjusted = vectors @ np.diag(eigen**-0.5) @ vectors.T
        squares += (np.ones(len(own)) @ adjusted @ residual[own] / n) ** 2
        lines.append((np.eye(n) - hat)[own].T @ adjusted @ np.ones(len(own)) / n)
    products = np.array(lines) @ np.array(lines).T
    return math.sqrt(squares), float(np.trace(products) ** 2 / np.square(products).sum())


def student(values: Floats, task: Ints, confidence: float) -> tuple[float, float]:
    """Mean -/+ t times the error."""
    error, df = by_matrices(values, task)
    low, high = stats.t.interval(confidence, df, loc=values.mean(), scale=error)
    return float(low), float(high)


def score(values: Floats, task: Ints, confidence: float) -> tuple[float, float]:
    """Of values in 0..1: the means that are t errors away, if a mean p has the variance p(1 - p) / trials."""
    error, df = by_matrices(values, task)
    p = float(values.mean())
    if error < 1e-12:
        unseen = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / (df + 1.0))
        return p * (1.0 - unseen), p + unseen * (1.0 - p)
    t = stats.t.ppf((1.0 + confidence) / 2.0, df)

    def apart(mean: float) -> float:
        return float((p - mean) ** 2 * p * (1 - p) - (t * error) ** 2 * mean * (1 - mean))

    ends = optimize.brentq(apart, 0.0, p, xtol=1e-14), optimize.brentq(apart, p, 1.0, xtol=1e-14)
    return float(ends[0]), float(ends[1])
