"""Values of policies from logged decisions: plain Python, one run after the other; `more_robust` in NumPy."""

import math
from typing import NamedTuple

import numpy as np


class Step(NamedTuple):
    """A decision: what was done, how likely it was, what the policy and the model say of each action."""

    action: str
    p: float
    target: dict[str, float]
    q: dict[str, float]
    reward: float


def mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def weights(run: list[Step], clip: float = math.inf) -> list[float]:
    """Of the run up to each decision."""
    found, product = [], 1.0
    for step in run:
        product *= step.target.get(step.action, 0.0) / step.p
        found.append(min(product, clip))
    return found


def total(run: list[Step], discount: float) -> float:
    return math.fsum(discount**t * step.reward for t, step in enumerate(run))


def expected(step: Step) -> float:
    return math.fsum(p * step.q[action] for action, p in step.target.items())


def backward(run: list[Step], discount: float) -> float:
    """The recursion of Jiang & Li, from the last decision to the first."""
    later = 0.0
    for step in reversed(run):
        ratio = step.target.get(step.action, 0.0) / step.p
        later = expected(step) + ratio * (step.reward + discount * later - step.q[step.action])
    return later


def values(
    runs: list[list[Step]],
    *,
    discount: float = 1.0,
    clip: float = math.inf,
    tau: float | None = None,
    bounds: tuple[float, float] | None = None,
) -> dict[str, float]:
    """Every estimator, in the words of sequences; without clipping also ``dr``."""
    last = [weights(run, clip)[-1] for run in runs]
    paid = [total(run, discount) for run in runs]
    found = {
        "is": mean([w * r for w, r in zip(last, paid, strict=True)]),
        "pdis": mean(
            [
                math.fsum(
                    discount**t * w * step.reward
                    for t, (w, step) in enumerate(zip(weights(run, clip), run, strict=True))
                )
                for run in runs
            ]
        ),
        "direct": mean([expected(run[0]) for run in runs]),
        "ess": math.fsum(last) ** 2 / math.fsum(w * w for w in last) if any(last) else 0.0,
        "mean_weight": mean(last),
    }
    if any(last):
        found["wis"] = found["is"] / found["mean_weight"]
        found["max_weight_share"] = max(last) / math.fsum(last)
    if clip == math.inf:
        found["dr"] = mean([backward(run, discount) for run in runs])
    if tau is not None:
        found["switch"] = mean(
            [
                expected(step) + (w * (step.reward - step.q[step.action]) if w <= tau else 0.0)
                for (step,), w in zip(runs, last, strict=True)
            ]
        )
    if bounds is not None:
        repeated = [math.prod(step.target.get(step.action, 0.0) for step in run) for run in runs]
        for name, end in zip(("lower", "upper"), bounds, strict=True):
            found[name] = mean([p * r + (1.0 - p) * end for p, r in zip(repeated, paid, strict=True)])
    return found


def more_robust(
    state: np.ndarray,
    marks: np.ndarray,
    followed: np.ndarray,
    p: np.ndarray,
    reward: np.ndarray,
    fold: np.ndarray,
    penalty: float,
) -> float:
    """Farajtabar, Chow & Ghavamzadeh 2018, for a policy without chance, by normal equations.

    `state` has a column per number, `marks` one per action: what the policy does. Numbers are standardized
    over the rows that are learnt from, whose weights have a mean of 1.
    """
    found = np.zeros(len(reward))
    for own in np.unique(fold):
        learn, judge = followed & (fold != own), fold == own
        if not learn.any():
            continue
        spread = state[learn].std(axis=0, ddof=1) if learn.sum() > 1 else np.zeros(state.shape[1])
        kept = spread > 1e-12
        columns = (state[:, kept] - state[learn][:, kept].mean(axis=0)) / spread[kept]
        x = np.column_stack([np.ones(len(reward)), columns, marks])
        weight = (1.0 - p[learn]) / p[learn] ** 2
        weight = weight / weight.mean()
        pull = np.diag([0.0] + [penalty] * (x.shape[1] - 1))
        normal = x[learn].T @ np.diag(weight) @ x[learn] + pull
        found[judge] = x[judge] @ np.linalg.solve(normal, x[learn].T @ (weight * reward[learn]))
    ratio = np.where(followed, 1.0 / p, 0.0)
    return float(np.mean(found + ratio * (reward - found)))
