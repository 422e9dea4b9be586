"""Weights of outcome models, fitted to a corpus."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .. import _core
from ..base.arguments import Folds, Integer, Seed, Threads
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import TYPE_WEIGHTS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..corpus.reward import Reward, amounts
from ..statistics.calibration import Quality, quality
from ..statistics.folds import folds_over
from ..statistics.learners import one_thread
from .weight_estimation import LEAK, Estimate, N, Observations, Task, estimate, held_out, interval

Model = Literal["noisy_or", "noisy_and", "linear"]
_BY: Final = {"task": "task_id", "group": "group_id", "trace": "trace_id"}
_WEIGHTS: Final = {
    "type": pl.String(),
    "weight": pl.Float64(),
    "stderr": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "used": pl.Float64(),
    "n_edges": pl.UInt64(),
    "reason": pl.String(),
}


@dataclass(frozen=True, repr=False, eq=False)  # frames have no truth value
class FittedOutcome:
    """An outcome model with the weights that describe a corpus best; made by `outcomes.fit`.

    Wherever ``weights=`` is asked for it stands for eight numbers, one for each edge type in the order of
    the schema: the column ``used``.

    Attributes
    ----------
    model, targets, loss, by, folds, seed
        What was asked for.
    weights
        A row an edge type: ``type`` (str), ``weight`` (f64, null where the corpus does not determine it),
        ``stderr`` (f64, over clusters), ``lower upper`` (f64, 95 %), ``used`` (f64, the weight, or what
        stands in for it), ``n_edges`` (u64, edges that some target depends on), ``reason`` (str).
    leak, leak_stderr
        Probability that a gate is set off by nothing recorded (`noisy_or`), or constant of a sum
        (`linear`); 0 and null unless it was fitted.
    n_targets, n_traces, n_clusters
        What the fit rests on.
    support
        Share of the inputs of targets that the model did not have to compute: their score is recorded, or
        nothing leads to them.
    n_contradicted
        Targets that the model holds impossible, whatever the weights: above 0 where no input is, say.
    n_cyclic, n_unanswered, n_unrewarded
        Traces left out: their edges close a cycle, it is not known where their outcome is (fits to outcomes),
        or they lack the reward.
    brier, brier_base
        Mean squared error of predictions of held-out clusters, and that of the mean of the other ones; null
        with fewer than two clusters.
    brier_gain
        95 % interval of ``brier_base - brier``, Wilson's in -1..1 with Student's t over clusters.
    calibration
        Held-out predictions in bins: ``bin n`` (u32), ``expected observed lower upper`` (f64), where the
        interval is that of ``observed``, Wilson's with Student's t over clusters; ``reason`` (str):
        ``support.absent`` where one cluster has no interval.
    slope, intercept
        Of the least-squares line of targets on held-out predictions; 1 and 0 where these are calibrated.
    converged
        Whether the search for the least loss converged.
    """

    model: Model
    targets: Literal["scores", "outcome"]
    loss: Literal["log", "squared"]
    by: str
    folds: int
    seed: int
    weights: pl.DataFrame
    leak: float
    leak_stderr: float | None
    n_targets: int
    n_traces: int
    n_clusters: int
    support: float
    n_contradicted: int
    n_cyclic: int
    n_unanswered: int
    n_unrewarded: int
    brier: float | None
    brier_base: float | None
    brier_gain: tuple[float, float] | None
    calibration: pl.DataFrame
    slope: float | None
    intercept: float | None
    converged: bool

    def __iter__(self) -> Iterator[float]:
        """The eight weights as they are used.

        Raises
        ------
        ParameterError
            The model has a leak, for which eight weights have no place.
        """
        if self.leak > 0.0:
            raise ParameterError(
                f"the fitted model has a leak of {self.leak:.3g}, which weights cannot hold:"
                " fit with leak=False"
            )
        return iter(self.weights["used"].to_list())

    def __len__(self) -> int:
        return self.weights.height

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "NDArray[np.float64]":
        return np.array(list(self), dtype)

    def params(self) -> dict[str, object]:
        """What was fitted, how and how well, for a column ``params``: plain numbers and words."""
        return {
            "model": self.model,
            "targets": self.targets,
            "loss": self.loss,
            "by": self.by,
            "folds": self.folds,
            "seed": self.seed,
            "weights": {t: round(w, 6) for t, w in self.weights.select("type", "used").rows()},
            "unknown": self.weights.filter(pl.col("weight").is_null())["type"].to_list(),
            "leak": round(self.leak, 6),
            "n_targets": self.n_targets,
            "n_clusters": self.n_clusters,
            "brier": None if self.brier is None else round(self.brier, 6),
            "brier_base": None if self.brier_base is None else round(self.brier_base, 6),
            "version": _core.VERSION,
        }

    def __repr__(self) -> str:
        score = "not known" if self.brier is None else f"{self.brier:.4f}, base rate {self.brier_base:.4f}"
        if self.brier_gain is not None:
            score += f" (gain {self.brier_gain[0]:.4f} to {self.brier_gain[1]:.4f})"
        noun = "scores" if self.targets == "scores" else "outcomes"
        lines = [
            f"{self.model} fitted to {self.n_targets:,} {noun} of {self.n_traces:,} traces,"
            f" {self.n_clusters:,} clusters (by {self.by})",
            f"  held-out Brier score {score}",
        ]
        if self.slope is not None:
            lines.append(f"  calibration line {self.intercept:+.3f} + {self.slope:.3f} · predicted")
        for name, weight, error, used, n, reason in self.weights.select(
            "type", "weight", "stderr", "used", "n_edges", "reason"
        ).rows():
            weight_text = f"{used:.4f} used, not known" if weight is None else f"{weight:.4f}"
            weight_text += "" if error is None else f" ± {error:.4f}"
            lines.append(f"  {name:<16}{weight_text}  ({n:,} edges{f'; {reason}' if reason else ''})")
        if self.leak > 0.0:
            lines.append(f"  {'leak':<16}{self.leak:.4f}")
        if self.brier_gain is not None and self.brier_gain[1] <= 0.0:
            lines.append("  the base rate predicts better: this model does not describe these recordings")
        if not self.converged:
            lines.append("  the search for the least loss did not end: take the weights for a guess")
        return "\n".join(lines)


@verb
def fit(
    corpus: Corpus,
    *,
    model: Model = "noisy_or",
    targets: Literal["scores", "outcome"] = "scores",
    reward: Reward = "team",
    by: Literal["task", "group", "trace"] = "task",
    folds: Folds = 5,
    loss: Literal["log", "squared"] = "log",
    leak: bool = False,
    bins: Annotated[int, Integer(2, 1000)] = 10,
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
) -> FittedOutcome:
    """Fit the weights of an outcome model, one for each edge type, to recordings.

    Parameters
    ----------
    corpus
        The recordings.
    model
        ``"noisy_or"``: 1 - (1 - λ) Π(1 - w x). ``"noisy_and"``: Π(1 - w (1 - x)). ``"linear"``:
        min(1, λ + Σ w x). x are the inputs of an event, w the sum of the weights of the edges from one of
        them, in the noisy models at most 1.
    targets
        ``"scores"``: the field ``score`` of every event that has one, and inputs, predicted from its inputs.
        ``"outcome"``: the reward of every trace, predicted from its graph alone; far less is known from it.
    reward
        Channel, or weights of channels, with values in 0..1; for ``targets="outcome"``.
    by
        What is held out together, and what errors are computed over: runs of one task are not independent.
    folds
        2 or more; at most as many as there are clusters.
    loss
        ``"log"``: Bernoulli likelihood, also of fractions. ``"squared"``: least squares, non-negative ones
        for ``"linear"``.
    leak
        Whether to fit λ; 0 otherwise. A noisy-and has none.
    bins
        Of the calibration table, 2 to 1000.
    seed
        Of the folds, which depend on it and on the names of clusters.
    threads, progress
        As in `read_traces`. The bits do not depend on the number of threads.

    Returns
    -------
    FittedOutcome
        Weights in 0..1 (``"linear"``: 0 and more) with errors, or null with a reason; quality on held-out
        clusters. Pass it as ``weights=``, together with its ``model`` as ``outcome=``.

    Raises
    ------
    ParameterError
        There are no targets, a reward is outside of 0..1, or an option is out of range.

    Notes
    -----
    An input of a target counts with its score; without one, with what its own inputs make of it; without
    inputs, as 1 (D15). Parallel edges add up. No score enters for ``targets="outcome"``.

    Weights are maximum (quasi-)likelihood estimates with exact slopes, by Fisher scoring with bounded or
    non-negative least-squares steps from three beginnings, then L-BFGS-B where that does not end; least
    squares of ``"linear"`` take a single step where every input is recorded and no sum reaches 1. Errors
    leave out each cluster in turn (CR3), with Student intervals, of log-odds for probabilities. Reasons:
    ``type.absent``, no edge of the type; ``type.unmoved``, its edges change no prediction;
    ``type.collinear``, only together with the types that are named; these get null, and ``used`` is their
    common weight, or that of all types; ``curvature.none``, the loss is flat around it, also null.
    ``weight.bound`` (0 or 1), ``tasks.few`` (fewer than two clusters): a weight without an error.

    Time is O((events + edges) · evaluations), some 100 evaluations for the fit and as many for each fold, in
    parallel over traces; memory is linear in events, edges and targets.

    Source: Papke and Wooldridge, J. Applied Econometrics 11, 1996, section 2 (likelihood of fractions,
    sandwich errors); Brier, Monthly Weather Review 78, 1950; Lawson and Hanson, Solving Least Squares
    Problems, 1974, chapter 23.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> events = pl.DataFrame({"trace": range(4), "id": "a", "t": 0.0, "type": "message", "agent": "ann"})
    >>> late = events.with_columns(id=pl.lit("b"), t=1.0, score=pl.Series([1.0, 1.0, 0.0, 1.0]))
    >>> events = pl.concat([events, late], how="diagonal").sort("trace", "t")
    >>> traces = pl.DataFrame({"trace": range(4), "trace_id": ["p", "q", "r", "s"]})
    >>> edges = pl.DataFrame({"trace": range(4), "src": 0, "dst": 1, "type": "message"})
    >>> corpus = ot.Corpus.from_arrow(traces=traces, events=events, edges=edges)
    >>> fit = ot.outcomes.fit(corpus)
    >>> fit.weights.filter(type="message").select(pl.col("weight", "stderr").round(4)).row(0)
    (0.75, 0.25)
    """
    if leak and model == "noisy_and":
        raise ParameterError("a noisy_and has no leak: leave it out, or fit noisy_or or linear")
    task = Task(model, loss, leak)
    with reporting(progress, "fitting") as callback, one_thread():
        gathered = _gather(corpus, targets, reward, by, model, threads, callback)
        seen = gathered.seen
        estimated = estimate(seen, task)
        n_clusters = len(gathered.names)
        folds_used = min(folds, n_clusters)
        judged = None
        if n_clusters >= 2:
            fold = folds_over(gathered.names, folds_used, seed)
            judged = quality(*held_out(seen, task, fold), seen.targets, seen.clusters, bins)
        predicted = seen.predict(estimated.used)[0]
    impossible = ((predicted <= 0.0) & (seen.targets > 0.0)) | ((predicted >= 1.0) & (seen.targets < 1.0))
    # at a bound it is the weight that excludes a target, not the model
    still = np.abs(seen.predict(np.append(np.full(8, 0.5), estimated.used[8]))[0] - predicted) == 0.0
    return _result(
        task,
        estimated,
        judged,
        gathered,
        n_contradicted=int((impossible & still).sum()),
        settings={"targets": targets, "by": by, "folds": folds_used, "seed": seed},
    )


@dataclass(frozen=True)
class _Gathered:
    """What is fitted to."""

    seen: "Observations"
    names: list[str]
    n_edges: list[int]
    n_traces: int
    n_cyclic: int
    n_unanswered: int
    n_unrewarded: int
    support: float


def _gather(
    corpus: Corpus,
    targets: str,
    reward: Reward,
    by: str,
    model: str,
    threads: int | None,
    progress: Any,
) -> _Gathered:
    """Gates of all pieces of the corpus, one after the other, and the targets that count."""
    gates, tables = [], []
    # of the whole corpus: a channel may be recorded in other pieces only
    paid = amounts(corpus, reward).select("trace", target="reward") if targets == "outcome" else None
    for _, load in corpus.pieces():
        piece = load()
        compiled = _core.OutcomeGates(store_of(piece), targets=targets, threads=threads, progress=progress)
        table = pl.DataFrame(compiled.targets())
        keys = piece.traces.select(
            "trace", name=pl.col(_BY[by]).cast(pl.String), run=pl.col("trace_id").cast(pl.String)
        ).collect()
        table = table.join(keys, on="trace", how="left", maintain_order="left")
        if paid is not None:
            table = table.join(paid, on="trace", how="left", maintain_order="left")
        else:
            table = table.with_columns(target="score")
        gates.append(compiled)
        tables.append(table)
    if not tables or not sum(table.height for table in tables):
        raise ParameterError(
            "no event with inputs has a score: add scores (Corpus.with_fields), or fit with targets='outcome'"
            if targets == "scores"
            else "no trace has an outcome that something leads to"
        )
    rows = pl.concat(tables)
    rewarded = rows["target"].is_not_null()
    if not rewarded.any():
        raise ParameterError("no trace with an outcome has the requested reward")
    outside = rows.filter((pl.col("target") < 0.0) | (pl.col("target") > 1.0))
    if outside.height:
        raise ParameterError(
            f"the reward of trace {outside['trace'][0]} is {outside['target'][0]:g}, expected 0 to 1:"
            " give it a weight, as in reward={'team': 0.1}, or own measures (Corpus.with_measures)"
        )
    counted = rows.filter(rewarded)
    names = counted["name"].unique().sort().to_list()
    codes = rows.join(
        pl.DataFrame(
            {"name": names, "code": range(len(names))}, schema={"name": pl.String, "code": pl.Int64}
        ),
        on="name",
        how="left",
        maintain_order="left",
    )["code"].to_numpy(writable=True)
    # by names: recordings come in any order, on which sums hang, and the search magnifies their last digits
    in_order = rows.with_row_index("row").filter(rewarded).sort("run", "row")["row"].to_numpy()

    def predict(parameters: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        weights, leak = [float(w) for w in parameters[:N]], float(parameters[N])
        frames = [pl.DataFrame(g.predict(model, weights, leak, threads=threads)) for g in gates]
        table = pl.concat(frames).to_numpy()
        return table[in_order, 0], table[in_order, 1:]

    n_inputs, n_modeled = int(counted["n_inputs"].sum()), int(counted["n_modeled"].sum())
    return _Gathered(
        seen=Observations(
            predict=predict,
            targets=rows["target"].to_numpy()[in_order],
            clusters=codes[in_order].astype(np.int64),
            counted=np.ones(counted.height, bool),
        ),
        names=names,
        n_edges=[sum(column) for column in zip(*(g.n_edges for g in gates), strict=True)],
        n_traces=counted["trace"].n_unique(),
        n_cyclic=sum(g.n_cyclic for g in gates),
        n_unanswered=sum(g.n_unanswered for g in gates),
        n_unrewarded=rows.height - counted.height,
        support=1.0 - n_modeled / n_inputs,
    )


def _result(
    task: "Task",
    estimated: "Estimate",
    judged: "Quality | None",
    gathered: _Gathered,
    n_contradicted: int,
    settings: dict[str, Any],
) -> FittedOutcome:

    judged = judged or Quality()
    n_clusters = len(gathered.names)
    rows = []
    for k, name in enumerate(TYPE_WEIGHTS):
        used, error, reason = float(estimated.used[k]), float(estimated.stderr[k]), estimated.reasons[k]
        n = gathered.n_edges[k]
        reason = "type.absent" if n == 0 else reason
        unknown = reason is not None and reason.startswith(("type.", "curvature."))
        determined = error == error and not unknown
        lower, upper = interval(used, error, n_clusters, task.most) if determined else (None, None)
        rows.append(
            (name, None if unknown else used, error if determined else None, lower, upper, used, n, reason)
        )
    leak_error = float(estimated.stderr[LEAK])
    return FittedOutcome(
        model=task.model,
        loss=task.loss,
        weights=pl.DataFrame(rows, schema=_WEIGHTS, orient="row"),
        leak=float(estimated.used[LEAK]),
        leak_stderr=leak_error if leak_error == leak_error else None,
        n_targets=gathered.seen.targets.size,
        n_traces=gathered.n_traces,
        n_clusters=n_clusters,
        support=gathered.support,
        n_contradicted=n_contradicted,
        n_cyclic=gathered.n_cyclic,
        n_unanswered=gathered.n_unanswered,
        n_unrewarded=gathered.n_unrewarded,
        brier=judged.brier,
        brier_base=judged.brier_base,
        brier_gain=judged.gain,
        calibration=judged.table,
        slope=judged.slope,
        intercept=judged.intercept,
        converged=estimated.converged,
        **settings,
    )
