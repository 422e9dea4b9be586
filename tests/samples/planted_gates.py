"""Recordings whose scores are drawn from an outcome model with known weights."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

import orchestrace as ot
from orchestrace.base.schema import TYPE_WEIGHTS

TYPES = list(TYPE_WEIGHTS)
Floats = NDArray[np.float64]


def gate(model: str, theta: Floats, leak: float, kinds: NDArray[np.int64], x: Floats) -> Floats:
    """Values of gates, a row each; a place without an input has the kind -1. From the definition."""
    w = np.where(kinds < 0, 0.0, theta[kinds])
    if model == "noisy_or":
        return np.asarray(1.0 - (1.0 - leak) * np.prod(1.0 - w * x, axis=1))
    if model == "noisy_and":
        return np.asarray(np.prod(1.0 - w * (1.0 - x), axis=1))
    return np.asarray(np.minimum(leak + (w * x).sum(axis=1), 1.0))


def planted_gates(
    model: str,
    theta: Floats,
    rng: np.random.Generator,
    *,
    leak: float = 0.0,
    tasks: int = 60,
    traces: int = 2,
    gates: int = 6,
    most: int = 3,
    kinds: tuple[int, ...] = tuple(range(8)),
    fractions: bool = False,
    task_effect: float = 0.0,
) -> ot.Corpus:
    """Traces of gates with scored inputs of their own; the score of a gate is a draw with its value.

    With a `task_effect` all gates of a task are drawn with one shared uniform number that often, so that
    they depend on each other and keep their means.
    """
    n_traces = tasks * traces
    n = n_traces * gates
    fan_in = rng.integers(1, most + 1, n)
    there = np.arange(most) < fan_in[:, None]
    kind = np.where(there, rng.choice(kinds, (n, most)), -1)
    x = rng.random((n, most))
    if not fractions:
        x = (x < 0.6).astype(np.float64)
    p = gate(model, theta, leak, kind, x)
    task = np.repeat(np.arange(tasks), traces * gates)
    shared = rng.random(tasks)[task]
    u = np.where(rng.random(n) < task_effect, shared, rng.random(n))
    score = (u < p).astype(np.float64)
    # events of a gate: its inputs, then itself
    size = fan_in + 1
    trace = np.repeat(np.arange(n_traces), gates)
    begin = np.concatenate([[0], np.cumsum(size)[:-1]])
    first = np.concatenate([[0], np.cumsum(np.bincount(trace, weights=size).astype(np.int64))[:-1]])
    seq = begin - first[trace]
    rows, places = np.nonzero(there)
    inputs = pl.DataFrame({"trace": trace[rows], "seq": seq[rows] + places, "score": x[rows, places]})
    outputs = pl.DataFrame({"trace": trace, "seq": seq + fan_in, "score": score})
    events = pl.concat([inputs, outputs]).with_columns(
        pl.col("trace", "seq").cast(pl.UInt32),
        id=pl.col("seq").cast(pl.String),
        t=pl.col("seq").cast(pl.Float64),
        type=pl.lit("message"),
        agent=pl.lit("ann"),
    )
    edges = pl.DataFrame(
        {
            "trace": trace[rows],
            "src": seq[rows] + places,
            "dst": (seq + fan_in)[rows],
            "type": np.array(TYPES)[kind[rows, places]],
        }
    ).with_columns(pl.col("trace", "src", "dst").cast(pl.UInt32))
    of = np.arange(n_traces)
    named = pl.DataFrame(
        {"trace": of, "trace_id": [f"r{k}" for k in of], "task_id": [f"t{k // traces}" for k in of]}
    ).with_columns(pl.col("trace").cast(pl.UInt32))
    return ot.Corpus.from_arrow(traces=named, events=events.sort("trace", "seq"), edges=edges)
