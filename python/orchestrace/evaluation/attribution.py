"""Localization of blamed steps and agents by credit, beside positional baselines."""

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Confidence, Folds, Seed
from ..base.arrays import Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.frames import collected
from ..statistics.influence import Mean, mean_interval

Blame = Literal["highest", "lowest"]

BASELINES: Final = tuple(
    f"baseline: {rule}"
    for rule in ("random", "first speaker", "last speaker", "most frequent speaker", "constant step")
)
_ROUNDING: Final = 1e-12
"""Of the largest credit of a trace, how much two credits of equal units may differ by rounding."""
_NEEDED: Final = {
    "credits": ("trace_id", "unit", "unit_id", "credit", "method"),
    "labels": ("trace_id", "annotator", "turn", "agent"),
}


@verb
def failure_attribution(
    credits: pl.DataFrame,
    labels: pl.DataFrame | pl.LazyFrame,
    *,
    within: Sequence[int] = (1, 3, 5),
    tasks: pl.DataFrame | pl.LazyFrame | None = None,
    folds: Folds = 5,
    seed: Seed = 0,
    confidence: Confidence = 0.95,
    blame: Blame = "highest",
) -> pl.DataFrame:
    """Compare credit with the agent and the step that annotators name, and with positional baselines.

    Parameters
    ----------
    credits
        Rows of `credit` at unit ``turn``, of one or several methods and one or several traces; rows at unit
        ``agent``, where a method has them, decide its agent, else the owner of its blamed turn does.
    labels
        `Corpus.labels`, or a frame with its ``trace_id annotator turn agent`` (``label`` and ``weight`` are
        not used). Evaluated are the traces that have both credit and a label; a label without a turn counts
        for the agent only, one without an agent for the step only. If one annotator names several places in
        a trace, any of them is right.
    within
        Tolerances in steps, for the columns ``within_<k>``.
    tasks
        Which traces are rollouts of one task: ``trace_id task_id`` of all traces with a label, as
        `Corpus.traces` has them. None: every trace is a task of its own.
    folds, seed
        Folds over traces for the constant step, and their seed: it is chosen on the other folds, never on the
        trace itself.
    confidence
        Coverage of the intervals, between 0 and 1.
    blame
        Whether the unit with the ``"highest"`` or the ``"lowest"`` credit is blamed; it depends on the sign
        of the reward, not on the method.

    Returns
    -------
    DataFrame
        One row per annotator and method, baselines last: ``annotator method n_traces n_tasks``; for each of
        ``agent_accuracy step_accuracy within_<k>… mrr`` the mean over traces and its interval over tasks
        (``…_lower …_upper``), all in 0..1; ``agent_vs_best step_vs_best``: ``better``, ``worse`` or
        ``indistinct`` from the best baseline of that metric, by the interval of the paired difference (null
        for baselines, and if there was nothing to compare); ``interval_reason``: ``support.absent`` where a
        mean has no interval, since fewer than two tasks have it. Verdicts are ``indistinct`` there.

    Raises
    ------
    ParameterError
        A column is absent, no trace has both, a unit has two credits in one method or the method the name
        of a baseline, an annotator or a method is null, a turn is no whole number, `tasks` lack a trace or
        have it in two tasks, or an option is out of range.

    Notes
    -----
    *Ties* are broken in expectation, never by row order: a prediction among `s` units of equal credit scores
    the share of them that is right, and ``mrr`` is the expected reciprocal rank over all orders of the tied
    turns. Credits that differ by less than 1e-12 of the largest of their trace are equal: so much is the
    rounding of sums. A null credit ranks below every number; a trace whose credits are all null is a tie of
    all its turns. A trace for which a method has no row at all is a miss.

    *Names.* A method that occurs with several rewards or parameters is listed with what differs, as
    ``flow(kernel=edge_type)``.

    *Matching.* A step is the recorded number of a turn, ``<agent>/<turn>``; a derived turn, ``<agent>/+<k>``,
    competes but never matches. Names of agents are compared without regard to case.

    *Baselines* see only who speaks when. A speaker owns a turn; turns are ordered by ``seq`` where given,
    else by number. ``random`` draws a turn uniformly; ``first speaker`` takes the first turn, ``last
    speaker`` the last one, ``most frequent speaker`` the first turn of the agent with the most turns (the
    earlier one of equals), ``constant step`` the turn nearest to the step that is right most often on the
    other folds (the smaller one of equals). All take the owner of their turn as agent, and rank the others
    by distance from it. The best baseline is chosen on the data it is reported on, which favors it.

    *Intervals* are Wilson's with Student's t over tasks (docs/intervals.md), of paired differences in -1..1.

    Time is linear in rows, plus traces times distinct labeled steps.

    Source: Who&When (Zhang et al., arXiv 2505.00212) for agent and step accuracy; intervals, Wilson 1927,
    Bell & McCaffrey 2002.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> credits = pl.DataFrame({"trace_id": "a", "method": "mine", "unit": "turn",
    ...     "unit_id": ["Planner/0", "Coder/1", "Critic/2"], "credit": [0.1, 0.7, 0.2]})
    >>> labels = pl.DataFrame({"trace_id": ["a"], "annotator": ["me"], "turn": [1], "agent": ["coder"]})
    >>> table = ot.evaluation.failure_attribution(credits, labels)
    >>> table.select("method", "agent_accuracy", "step_accuracy", "mrr").row(0)
    ('mine', 1.0, 1.0, 1.0)
    """
    within = _distinct(within)
    credits = label_methods(credits)
    turns, agents = _units(_exact(credits, "credits"), 1.0 if blame == "highest" else -1.0)
    named = _exact(labels.collect() if isinstance(labels, pl.LazyFrame) else labels, "labels")
    if taken := [name for name in BASELINES if name in credits["method"].cast(pl.String)]:
        raise ParameterError(f"method '{taken[0]}' has the name of a baseline: give it another one")
    named = named.join(credits.select("trace_id").unique(), on="trace_id", how="semi")
    if named.is_empty():
        raise ParameterError(
            "no trace has both credits and a label: the trace_id of the two frames do not meet"
        )
    places = _places(turns)
    metrics = ["agent_accuracy", "step_accuracy", *(f"within_{k}" for k in within), "mrr"]
    methods = credits["method"].cast(pl.String).unique(maintain_order=True).to_list()
    rows = []
    for (annotator,), annotated in named.group_by("annotator", maintain_order=True):
        traces = annotated.select("trace_id").unique().sort("trace_id").with_row_index("t")
        truth = _Truth.of(annotated, traces)
        ours = truth.scores(_among(turns, traces), _among(agents, traces), within)
        baselines = _baselines(_among(places, traces), truth, traces.height, folds, seed)
        theirs = truth.scores(baselines, _among(agents.clear(), traces), within)
        per_trace = {name: ours.get(name, truth.misses(len(metrics))) for name in methods}
        per_trace |= {name: theirs.get(name, truth.misses(len(metrics))) for name in BASELINES}
        if traces.height < 2:  # nothing to choose a constant on
            per_trace[BASELINES[-1]] = truth.misses(len(metrics)) * float("nan")
        rows += _rows(str(annotator), per_trace, _codes(traces, tasks), metrics, confidence)
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(
        pl.col("agent_vs_best", "step_vs_best").cast(pl.String),
        pl.col("interval_reason").cast(CREDITS["reason"]),
    )


def _distinct(within: object) -> tuple[int, ...]:
    _core.check_process()
    try:
        steps = tuple(operator.index(k) for k in within)  # type: ignore[attr-defined]  # that is the question
    except TypeError:
        steps = (-1,)
    if len(set(steps)) != len(steps) or any(not 0 <= k < 2**63 for k in steps):
        raise ParameterError(f"within is {within!r}, expected different whole numbers from 0")
    return steps


def _no_null(frame: pl.DataFrame, frame_name: str, name: str) -> None:
    if frame[name].null_count():
        raise ParameterError(f"{frame_name}.{name} has a null, expected a name in every row")


def label_methods(credits: pl.DataFrame) -> pl.DataFrame:
    """A method that occurs with several rewards or parameters is named with what differs between them."""
    present = [name for name in ("reward", "params") if name in credits.columns]
    if "method" not in credits.columns:
        return credits
    _no_null(credits, "credits", "method")
    if not present:
        return credits
    names = pl.col("method", *present).cast(pl.String)
    runs = credits.select(names).unique(maintain_order=True)
    labels: list[str] = []
    for method, *facts in runs.iter_rows():
        options = [_options(facts) for name, *facts in runs.iter_rows() if name == method]
        mine = _options(facts)
        differs = [key for key in mine if any(other.get(key) != mine[key] for other in options)]
        differences = ", ".join(f"{key}={mine[key]}" for key in differs)
        labels.append(f"{method}({differences})" if differs else method)
    labeled = runs.with_columns(pl.Series("label", labels))
    return (
        credits.with_columns(names)
        .join(labeled, on=["method", *present], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(method="label")
        .drop("label")
    )


def _options(facts: list[str | None]) -> dict[str, object]:
    """Reward and parameters of a run by name; what is not the JSON of `credit` is given by its text."""
    options: dict[str, object] = {}
    for fact in facts:
        try:
            parsed = json.loads(fact or "null")
        except ValueError:
            parsed = None
        options |= parsed if isinstance(parsed, dict) else {"reward": fact}
    return options


def _exact(frame: pl.DataFrame, frame_name: str) -> pl.DataFrame:
    """Only the columns used, names as plain text, numbers wide enough for differences."""
    for name in _NEEDED[frame_name]:
        if name not in frame.columns:
            raise ParameterError(f"{frame_name} have no column '{name}' (found: {', '.join(frame.columns)})")
    types: dict[str, pl.DataType] = dict.fromkeys(_NEEDED[frame_name], pl.String())
    numbers: dict[str, pl.DataType] = (
        {"credit": pl.Float64(), "seq": pl.Int64()} if frame_name == "credits" else {"turn": pl.Int64()}
    )
    for name in numbers.keys() & set(frame.columns):
        if not (frame[name].dtype.is_numeric() or frame[name].null_count() == frame.height):
            raise ParameterError(f"{frame_name}.{name} has type {frame[name].dtype}, expected numbers")
        if name != "credit" and frame[name].dtype.is_float():
            wrong = frame[name].filter(~(frame[name].is_finite() & (frame[name].floor() == frame[name])))
            if wrong.len():
                raise ParameterError(f"{frame_name}.{name} has the value {wrong[0]}, expected whole numbers")
    if frame_name == "labels":
        _no_null(frame, frame_name, "annotator")
    optional = (
        [] if frame_name == "labels" or "seq" in frame.columns else [pl.lit(None, pl.Int64).alias("seq")]
    )
    try:
        return frame.with_columns(optional).select(
            pl.col(name).cast(dtype) for name, dtype in (types | numbers).items()
        )
    except pl.exceptions.PolarsError as error:
        raise ParameterError(f"{frame_name}: {str(error).splitlines()[0]}") from None


def _units(credits: pl.DataFrame, sign: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The turns and the agents with their scores, the blamed one highest."""
    key = ["trace_id", "method", "unit", "unit_id"]
    credits = credits.filter(pl.col("unit").is_in(["turn", "agent"]) & pl.col("unit_id").is_not_null())
    if (twice := credits.filter(pl.struct(key).is_duplicated())).height:
        trace, method, unit, name = twice.select(key).row(0)
        raise ParameterError(
            f"method '{method}' has several credits for {unit} '{name}' of trace '{trace}': give each reward "
            "and each set of parameters a method name of its own"
        )
    score = (pl.col("credit").fill_nan(None) * sign).fill_null(float("-inf")).alias("score")
    parts = pl.col("unit_id").str.extract_groups(r"(?s)^(?<agent>.*)/(?<turn>\+?[0-9]+)$")
    turns = (
        credits.filter(pl.col("unit") == "turn")
        .with_row_index("row")
        .with_columns(score, parts.alias("parts"))
    )
    turns = turns.unnest("parts")
    if turns.is_empty():
        raise ParameterError("credits have no row of unit 'turn' with a unit_id")
    if turns["turn"].null_count():
        unit_id = turns.filter(pl.col("turn").is_null())["unit_id"][0]
        raise ParameterError(f"unit_id '{unit_id}' of a turn, expected '<agent>/<turn>' or '<agent>/+<k>'")
    recorded = pl.when(~pl.col("turn").str.starts_with("+")).then(pl.col("turn").cast(pl.Int64, strict=False))
    order = pl.coalesce("seq", pl.col("turn").str.strip_prefix("+").cast(pl.Int64, strict=False), "row")
    turns = turns.select(
        "row",
        "trace_id",
        "method",
        "unit_id",
        "score",
        number=recorded,
        order=order,
        agent=pl.col("agent").str.to_lowercase(),
    )
    agents = credits.filter(pl.col("unit") == "agent").select(
        "trace_id", "method", score, agent=pl.col("unit_id").str.to_lowercase()
    )
    return _without_rounding(turns), _without_rounding(agents)


def _without_rounding(units: pl.DataFrame) -> pl.DataFrame:
    """The units with scores that are equal where they differ by rounding alone.

    Units that a method treats alike have sums of the same numbers in another order.
    """
    by, score = ["trace_id", "method"], pl.col("score")
    before = score.shift().over(by)
    room = _ROUNDING * score.abs().filter(score.is_finite()).max().over(by)
    # beside null credits, which are minus infinity here, differences are no numbers
    begins = before.is_null() | ((score != before) & (score - before > room.fill_null(0.0)))
    return (
        units.with_row_index("place")
        .sort(*by, "score", maintain_order=True)
        .with_columns(score=pl.when(begins).then(score).forward_fill().over(by))
        .sort("place")
        .drop("place")
    )


def _places(turns: pl.DataFrame) -> pl.DataFrame:
    """Who speaks when: the turns of a trace once, numbered in their order."""
    return (
        turns.unique(["trace_id", "unit_id"], keep="first", maintain_order=True)
        .sort("order", "row")
        .with_columns(place=pl.int_range(pl.len()).over("trace_id").cast(pl.Float64))
    )


def _among(frame: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """The rows of these traces, with the trace's number."""
    return frame.join(traces, on="trace_id", how="inner", maintain_order="left")


@dataclass
class _Truth:
    """What one annotator says: allowed steps and agents per trace."""

    steps: pl.DataFrame
    agents: pl.DataFrame
    n_traces: int

    @classmethod
    def of(cls, labels: pl.DataFrame, traces: pl.DataFrame) -> "_Truth":
        named = labels.join(traces, on="trace_id")
        steps = named.select("t", step="turn").drop_nulls().unique().sort("t", "step")
        agents = named.select("t", agent=pl.col("agent").str.to_lowercase()).drop_nulls().unique()
        return cls(steps, agents, traces.height)

    def misses(self, n_metrics: int) -> "Floats":
        """All zero, NaN where the annotator names no agent or no step."""
        table = np.zeros((self.n_traces, n_metrics))
        with_agent, with_step = np.zeros(self.n_traces, bool), np.zeros(self.n_traces, bool)
        with_agent[self.agents["t"].to_numpy()] = True
        with_step[self.steps["t"].to_numpy()] = True
        table[~with_agent, 0] = np.nan
        table[~with_step, 1:] = np.nan
        return table

    def scores(self, turns: pl.DataFrame, agents: pl.DataFrame, within: Sequence[int]) -> dict[str, "Floats"]:
        """One table per method, traces by metrics."""
        by = ["method", "t"]
        with_turns = set(turns["method"])
        ranked = self._ranked(turns)
        of_turns = ranked.group_by(by).agg(
            _share(pl.col("right").fill_null(False)).alias("turn_agent"),
            _share(pl.col("distance") == 0).alias("step"),
            *(_share(pl.col("distance") <= k).alias(f"within_{k}") for k in within),
            *_rank_of_first_match(),
        )
        of_agents = (
            self._named(agents).group_by(by).agg(_share(pl.col("right").fill_null(False)).alias("agent"))
        )
        has_agents = agents["method"].unique()
        joined = of_turns.join(of_agents, on=by, how="full", coalesce=True).with_columns(
            accuracy=pl.when(pl.col("method").is_in(has_agents.implode()))
            .then("agent")
            .otherwise("turn_agent")
        )
        tables = {}
        for (method,), rows in joined.group_by("method", maintain_order=True):
            columns = rows.select("accuracy", "step", *(f"within_{k}" for k in within)).fill_null(0.0)
            table = self.misses(columns.width + 1)
            if method not in with_turns:
                table[:, 1:] = np.nan
            places = rows["t"].to_numpy()
            table[places, :-1] += columns.to_numpy()
            table[places, -1] += _expected_reciprocal_ranks(
                rows.select("above", "tied", "matching").fill_null(0)
            )
            tables[str(method)] = table
        return tables

    def _named(self, units: pl.DataFrame) -> pl.DataFrame:
        right = self.agents.with_columns(right=pl.lit(True))
        top = (pl.col("score") == pl.col("score").max().over("method", "t")).alias("top")
        return units.join(right, on=["t", "agent"], how="left").with_columns(top)

    def _ranked(self, turns: pl.DataFrame) -> pl.DataFrame:
        """Turns with whether they are on top and how far from the nearest labeled step."""
        nearest = (
            turns.select("t", "number")
            .drop_nulls()
            .unique()
            .join(self.steps, on="t")
            .group_by("t", "number")
            .agg(distance=(pl.col("number") - pl.col("step")).abs().min())
        )
        return self._named(turns).join(nearest, on=["t", "number"], how="left")


def _share(right: pl.Expr) -> pl.Expr:
    """The share of the units on top that is right: the expected hit when ties are broken at random."""
    return (right.fill_null(False) & pl.col("top")).sum() / pl.col("top").sum()


def _rank_of_first_match() -> list[pl.Expr]:
    """How many turns rank above the best right one, how many tie with it, how many of these are right."""
    right = (pl.col("distance") == 0).fill_null(False)
    best = pl.col("score").filter(right).max()
    return [
        (pl.col("score") > best).sum().alias("above"),
        (pl.col("score") == best).sum().alias("tied"),
        (right & (pl.col("score") == best)).sum().alias("matching"),
    ]


def _expected_reciprocal_ranks(ties: pl.DataFrame) -> "Floats":
    """E[1 / rank of the first right turn] over all orders of the tied turns; 0 where none is right."""

    def expected(above: int, tied: int, matching: int) -> float:
        total, none_before = 0.0, 1.0
        for place in range(tied - matching + 1 if matching else 0):
            first_here = none_before * matching / (tied - place)
            total += first_here / (above + place + 1)
            none_before -= first_here
        return total

    distinct = {row: expected(*row) for row in ties.unique().iter_rows()}
    return np.array([distinct[row] for row in ties.iter_rows()], dtype=np.float64)


def _baselines(places: pl.DataFrame, truth: _Truth, n_traces: int, folds: int, seed: int) -> pl.DataFrame:
    """The baselines as if they were methods: each turn scored by its distance from the predicted one."""
    place, last = pl.col("place"), pl.col("place").max().over("t")
    speaker_turns = pl.len().over("t", "agent")
    busy = places.with_columns(speaker_turns=speaker_turns).with_columns(
        most=pl.col("speaker_turns").max().over("t")
    )
    first_busy = pl.when(pl.col("speaker_turns") == pl.col("most")).then(place).min().over("t")
    constant = places.join(_constant_steps(places, truth, n_traces, folds, seed), on="t", how="left")
    off = (pl.col("number") - pl.col("constant")).abs().cast(pl.Float64)
    scored = [
        places.with_columns(score=pl.lit(0.0)),
        places.with_columns(score=-place),
        places.with_columns(score=place - last),
        busy.with_columns(score=-(place - first_busy).abs()),
        constant.with_columns(score=(-off).fill_null(float("-inf"))),
    ]
    columns = ["t", "number", "agent", "score", "method"]
    return pl.concat(
        frame.with_columns(method=pl.lit(name)).select(columns)
        for name, frame in zip(BASELINES, scored, strict=True)
    )


def _constant_steps(
    places: pl.DataFrame, truth: _Truth, n_traces: int, folds: int, seed: int
) -> pl.DataFrame:
    """For every trace the step that is right most often on the other folds."""
    steps = truth.steps["step"].unique().sort().to_numpy()
    hits = np.zeros((n_traces, steps.size))
    numbers = dict(places.select("t", "number").drop_nulls().unique().group_by("t").agg("number").rows())
    allowed = dict(truth.steps.group_by("t").agg("step").rows())
    for t in numbers.keys() & allowed.keys():
        recorded = np.sort(np.array(numbers[t]))
        nearest = recorded[np.abs(recorded[None, :] - steps[:, None]).argmin(axis=1)]
        hits[t] = np.isin(nearest, allowed[t])
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    fold_of = np.empty(n_traces, np.int64)
    fold_of[rng.permutation(n_traces)] = np.arange(n_traces) % min(folds, max(n_traces, 1))
    chosen = np.zeros(n_traces, np.int64)
    for fold in np.unique(fold_of):
        others = hits[fold_of != fold].sum(axis=0)
        if others.size:
            chosen[fold_of == fold] = steps[others.argmax()]
    return pl.DataFrame({"t": np.arange(n_traces, dtype=np.uint32), "constant": chosen})


def _codes(traces: pl.DataFrame, tasks: pl.DataFrame | pl.LazyFrame | None) -> "Ints":
    """The task of each trace, by number."""
    if tasks is None:
        return traces["t"].cast(pl.Int64).to_numpy()
    pairs = collected(tasks, "tasks", ("trace_id", "task_id"))
    pairs = pairs.select(pl.col("trace_id", "task_id").cast(pl.String)).unique()
    joined = traces.join(pairs, on="trace_id", how="left", maintain_order="left")
    if joined.height > traces.height:
        twice = joined.filter(pl.col("trace_id").is_duplicated())["trace_id"][0]
        raise ParameterError(f"tasks have several task_id for trace '{twice}', expected one")
    if joined["task_id"].null_count():
        alone = joined.filter(pl.col("task_id").is_null())["trace_id"][0]
        raise ParameterError(f"tasks have no task_id for trace '{alone}': give Corpus.traces of its corpus")
    return joined["task_id"].rank("dense").cast(pl.Int64).to_numpy()


def _rows(
    annotator: str, per_trace: dict[str, "Floats"], tasks: "Ints", metrics: list[str], confidence: float
) -> list[dict[str, object]]:
    means = {
        name: [mean_interval(column, tasks, confidence=confidence, within=(0.0, 1.0)) for column in table.T]
        for name, table in per_trace.items()
    }
    best = {
        i: max(
            (name for name in BASELINES if means[name][i].estimate is not None),
            key=lambda name, i=i: means[name][i].estimate or 0.0,  # type: ignore[misc]
            default=None,
        )
        for i in (0, 1)
    }
    rows = []
    for name, estimates in means.items():
        row: dict[str, object] = {"annotator": annotator, "method": name, "n_traces": len(tasks)}
        row["n_tasks"] = len(set(tasks.tolist()))
        for metric, mean in zip(metrics, estimates, strict=True):
            ends = {f"{metric}_lower": mean.around.lower, f"{metric}_upper": mean.around.upper}
            row |= {metric: mean.estimate, **ends}
        for i, column in enumerate(("agent_vs_best", "step_vs_best")):
            rival = best[i]
            row[column] = None
            if name not in BASELINES and rival is not None and estimates[i].estimate is not None:
                apart = per_trace[name][:, i] - per_trace[rival][:, i]
                row[column] = _verdict(mean_interval(apart, tasks, confidence=confidence, within=(-1.0, 1.0)))
        reasons = [mean.around.reason for mean in estimates if mean.estimate is not None]
        row["interval_reason"] = next((reason for reason in reasons if reason is not None), None)
        rows.append(row)
    return rows


def _verdict(difference: Mean) -> str:
    lower, upper = difference.around.lower, difference.around.upper
    if lower is None or upper is None or lower <= 0.0 <= upper:
        return "indistinct"
    return "better" if lower > 0.0 else "worse"
