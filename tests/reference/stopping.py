"""Stopping rules again in plain Python, from their definitions (D27 to D29): loops over runs, no arrays."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """Scores and cumulative costs by epoch, and the outcome."""

    name: str
    scores: list[float]
    costs: list[float]
    success: bool
    task: str


def features(scores: Sequence[float], k_max: int) -> list[dict[str, float]]:
    """Of each epoch, from the scores up to it."""
    rows, ewm = [], 0.0
    for k in range(1, len(scores) + 1):
        seen = scores[:k]
        ewm = seen[0] if k == 1 else 0.7 * ewm + 0.3 * seen[-1]
        rows.append(
            {
                "x_k": float(k),
                "x_k_rel": k / k_max,
                "x_s": seen[-1],
                "x_s_mean": sum(seen) / k,
                "x_s_min": min(seen),
                "x_s_max": max(seen),
                "x_s_delta": seen[-1] - seen[-2] if k > 1 else 0.0,
                "x_s_ewm": ewm,
            }
        )
    return rows


def at_least(n: int, p: float, r: int) -> float:
    """P(Bin(n, p) >= r)."""
    return math.fsum(math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(r, n + 1))


def rank(n: int, alpha: float, method: str, confidence: float | None = None) -> int | None:
    """The order statistic that is the threshold; by search, not by formula."""
    for r in range(1, n + 1):
        if method == "pac":
            enough = at_least(n, 1 - 0.9 * alpha, r) <= 0.1 * alpha
        else:
            # of n + 1 exchangeable maxima the new one is among the n + 1 - r largest
            enough = (n + 1 - r) / (n + 1) <= alpha + 1e-12
            if confidence is not None:
                enough = enough and at_least(n, 1 - alpha, r) <= 1 - confidence
        if enough:
            return r
    return None


def stops(runs: Sequence[Run], evidence: Sequence[Sequence[float]], threshold: float) -> list[int | None]:
    """The first epoch of each run whose evidence is above the threshold."""
    return [next((k for k, value in enumerate(values, 1) if value > threshold), None) for values in evidence]


def evaluation(runs: Sequence[Run], stop: Sequence[int | None]) -> dict[str, float | None]:
    """Rates and savings of alarms."""
    won = [at for run, at in zip(runs, stop, strict=True) if run.success]
    lost = [(run, at) for run, at in zip(runs, stop, strict=True) if not run.success]
    total = math.fsum(run.costs[-1] for run in runs)

    def rest(run: Run, at: int | None) -> float:
        return 0.0 if at is None else run.costs[-1] - run.costs[at - 1]

    both = list(zip(runs, stop, strict=True))
    return {
        "far": sum(at is not None for at in won) / len(won) if won else None,
        "power": sum(at is not None for _, at in lost) / len(lost) if lost else None,
        "early": sum(at is not None and at < len(run.scores) for run, at in lost) / len(lost)
        if lost
        else None,
        "saved": math.fsum(rest(run, at) for run, at in both) / total,
        "saved_failed": math.fsum(rest(run, at) for run, at in lost) / total,
        "lost": sum(run.success and at is not None and at < len(run.scores) for run, at in both) / len(runs),
    }


def auc(failed: Sequence[float], won: Sequence[float]) -> float | None:
    """The chance that evidence of a failed run is higher, over all pairs."""
    if not failed or not won:
        return None
    return sum((f > w) + 0.5 * (f == w) for f in failed for w in won) / (len(failed) * len(won))


def release(peaks: Sequence[float], scores: Sequence[float]) -> tuple[list[float], list[float]]:
    """p-values of the best score so far, and products of calibrated p-values of each score."""

    def p(score: float) -> float:
        return (1 + sum(peak >= score for peak in peaks)) / (len(peaks) + 1)

    products = [math.prod(0.5 * p(score) ** -0.5 for score in scores[: k + 1]) for k in range(len(scores))]
    return [p(max(scores[: k + 1])) for k in range(len(scores))], products


@dataclass(frozen=True)
class Stopped:
    """What stopping a run pays at each epoch, the chance of a recorded stop there, and how the run ended."""

    payoffs: list[float]
    hazards: list[float]
    failed: bool = False


def beyond(runs: Sequence[Stopped]) -> tuple[int, list[list[float]]]:
    """The last epoch of a claim, and the weight of every run at each epoch up to it."""
    deepest = max(len(run.payoffs) for run in runs)
    weights: list[list[float]] = [[] for _ in runs]
    for k in range(1, deepest + 1):
        there = [n for n, run in enumerate(runs) if len(run.payoffs) >= k]
        whole = [math.prod(1 / (1 - h) for h in runs[n].hazards[: k - 1]) for n in there]
        most = sorted(whole)[math.ceil(0.99 * len(whole)) - 1]
        now = [min(one, most) for one in whole]
        lost = any(len(run.payoffs) < k and not run.failed for run in runs)
        if lost and sum(now) ** 2 / sum(one * one for one in now) < 30:
            return k - 1, weights
        for n, one in zip(there, now, strict=True):
            weights[n].append(one)
        if any(runs[n].hazards[k - 1] > 0.99 for n in there):
            return k, weights
    return deepest, weights


def uncapped(runs: Sequence[Stopped], stops: Sequence[int | None], needs: str = "stop") -> float | None:
    """The mean payoff of a rule that stops each run at an epoch, None where it would have gone on."""
    horizon, weights = beyond(runs)
    above = below = 0.0
    for run, own, stop in zip(runs, weights, stops, strict=True):
        recorded = min(len(run.payoffs), horizon)
        ends = run.failed or len(run.payoffs) >= horizon  # by itself, or because the claim ends there
        at = recorded if stop is None or stop > recorded else stop
        if stop is None or stop > recorded:
            seen = recorded if ends else None
        elif needs == "stop":
            seen = at
        elif needs == "next":
            seen = at + 1 if at < recorded else at if ends else None
        else:
            seen = recorded if ends else None
        if seen is not None:
            above += own[seen - 1] * run.payoffs[at - 1]
            below += own[seen - 1]
    return above / below if below else None
