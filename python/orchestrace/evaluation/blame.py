"""Sets of steps or agents that hold what people would blame, with a stated frequency."""

from dataclasses import dataclass
from math import inf
from typing import Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import ColumnName, Confidence, Seed
from ..base.arrays import Floats
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..statistics.folds import keyed_hash
from .blame_model import fit_blame
from .blame_units import POSITION, STRUCTURE, Level, blame_candidates, features
from .conformal import Nonconformity, Ranking, of_labels, ranking, threshold

Score = Literal["position", "structure", "combined"]
FEATURES: Final[dict[str, tuple[str, ...]]] = {
    "position": POSITION,
    "structure": STRUCTURE,
    "combined": (*POSITION, *STRUCTURE),
}
_LENGTH: Final = "length"
_SMALL: Final = "calibration.small"
_UNPLACED: Final = "label.unplaced"


@verb
def blame(
    corpus: Corpus,
    *,
    calibration: Corpus,
    scores: Score | pl.DataFrame | pl.LazyFrame = "combined",
    coverage: Confidence = 0.9,
    level: Level = "step",
    nonconformity: Nonconformity = "rank",
    labels: Literal["any", "all"] = "any",
    ties: Literal["count", "random"] = "count",
    by: ColumnName | None = None,
    seed: Seed = 0,
    engine: RunBy = None,
) -> pl.DataFrame:
    """Find a set of steps of each run that holds the blamed step in a stated share of runs.

    Parameters
    ----------
    corpus
        The runs to judge. None may be of a task of `calibration`.
    calibration
        Runs with labels (`Corpus.labels`), exchangeable with those to judge: one system, tasks drawn alike.
        One run per task counts, drawn by seed and id.
    scores
        ``"position"``, ``"structure"`` or ``"combined"``: a logit of 7 functions of position, of 17 of what
        the recording says of a turn, or of both, fitted to half of the calibration tasks; the other half
        calibrates. Or a frame with ``trace_id unit_id`` and ``score``, else ``credit``, of both corpora, the
        higher the more suspect: rows of `credit` at unit ``turn`` (``agent`` at that level), of one method.
        It must not have been fitted to the calibration runs. A unit without a score ranks last.
    coverage
        1 - alpha.
    level
        Candidates are the turns in which an agent acts (``"step"``), so none that only holds results of
        tools, or the agents.
    nonconformity
        How far down the list a unit is: its ``"rank"``, its rank as a ``"share"`` of the run, or the softmax
        ``"mass"`` of the scores down to it.
    labels
        Of runs with several labels at least one (``"any"``) is in the set, or ``"all"`` are.
    ties
        Equal scores ``"count"`` against a unit, so that they enter together, or are placed at ``"random"``,
        by seed and trace, which makes the coverage exact and the sets smaller.
    by
        A column of `Corpus.traces`: a threshold for each of its values that has 1/alpha - 1 calibration runs;
        the others share one. ``"length"``, which is not the column of that name: thirds of runs by their
        number of candidates, with cuts from the half of the calibration tasks that fits; of a frame of
        scores, too, half makes the cuts. None: one threshold.
    seed
        Of the draws.
    engine
        What lists the candidates of `corpus`, if that is on disk, as in `credit`.

    Returns
    -------
    DataFrame
        A row per candidate of `corpus`, by trace, rank and ``seq``: ``trace`` UInt32, ``trace_id unit
        unit_id`` String, ``seq`` Int64, ``score`` Float64, ``rank`` UInt32 (ties count against), ``in_set``
        Boolean, ``set_size`` UInt32, ``share`` Float64 (of the run that is in the set), ``threshold alpha``
        Float64, ``n_calibration`` UInt32, ``unplaced`` Float64 (share of calibration runs whose label is no
        candidate), ``abstain`` Boolean (the set is empty, or more than half of the run), ``reason`` String:
        ``calibration.small`` (the set is the whole run, ``threshold`` null), or ``label.unplaced`` (more
        labels than alpha are no candidates: no set, ``in_set`` null), ``support.absent`` (no agent acts in
        the run, which has one row, without a unit).

    Raises
    ------
    ParameterError
        Calibration has no label or a task of a run to judge, scores lack a column or meet no candidate, or
        have two rows for a unit, or `by` is no column of the traces.

    Notes
    -----
    P(a label is in the set, or no label is a candidate) >= `coverage`, over exchangeable runs, for any score;
    ``labels="all"``: every label. It holds on average over runs, not for each. To choose the score or the
    nonconformity by what these calibration runs give voids it.

    O(events log events).

    Source: split conformal prediction, Vovk, Gammerman & Shafer 2005; Papadopoulos et al. 2002.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> def runs(tasks, **tables):
    ...     events = pl.DataFrame([{"trace": n, "id": f"e{t}", "t": float(t), "turn": t, "type": "message",
    ...         "agent": "AB"[t % 2]} for n in range(len(tasks)) for t in range(4)],
    ...         schema_overrides={"turn": pl.UInt32})
    ...     traces = pl.DataFrame({"trace": range(len(tasks)), "trace_id": tasks, "task_id": tasks})
    ...     return ot.Corpus.from_arrow(traces=traces, events=events, **tables)
    >>> past = [f"past-{n}" for n in range(40)]
    >>> labels = pl.DataFrame({"trace_id": past, "annotator": "me", "turn": 1, "agent": "B", "label": "x"},
    ...     schema_overrides={"turn": pl.UInt32})
    >>> judged = ot.evaluation.blame(runs(["new"]), calibration=runs(past, labels=labels))
    >>> judged.filter("in_set")["unit_id"].to_list()
    ['B/1']
    """
    judge, past = (
        blame_candidates(side, level=level, engine=by_engine).join(
            _strata(side, by), on="trace", how="left", maintain_order="left"
        )
        for side, by_engine in ((corpus, engine), (calibration, None))
    )
    past = one_run_per_task(past.filter(pl.col("n_labels") > 0), seed)
    if past.is_empty():
        raise ParameterError("calibration has no labels of its runs, expected runs that people have judged")
    if (shared := judge.join(past, on="task_id", how="semi")).height:
        raise ParameterError(
            f"calibration has the task '{shared['task_id'][0]}' of a run to judge, expected other tasks"
        )
    if isinstance(scores, str) or by == _LENGTH:
        fit, past = halves(past, seed)
        fit = fit.drop_nulls("unit_id")
    if by == _LENGTH:
        cuts = _length_cuts(fit)
        judge, past = (frame.with_columns(stratum=_third(cuts)) for frame in (judge, past))
    if isinstance(scores, str):
        model = fit_blame(
            features(fit, FEATURES[scores]), fit["trace"].cast(pl.Int64).to_numpy(), fit["labeled"].to_numpy()
        )
        judge, past = (
            frame.with_columns(score=pl.Series(model.scores(features(frame, FEATURES[scores]))))
            for frame in (judge, past)
        )
    else:
        suspicion = _scores(scores, level)
        judge, past = (
            frame.join(suspicion, on=["trace_id", "unit_id"], how="left", maintain_order="left")
            for frame in (judge, past)
        )
        for frame, side in ((past, "calibration"), (judge, "the runs to judge")):
            if frame.height and frame["score"].null_count() == frame.height:
                raise ParameterError(
                    f"scores have no number for any candidate of {side}: give those of both corpora"
                )
    rule = BlameRule(1.0 - coverage, nonconformity, labels, ties, seed)
    return _table(rule.sets(past, judge), level)


@dataclass(frozen=True)
class BlameRule:
    """How sets are made of scores: of `calibrate` the thresholds, of `judge` the sets."""

    alpha: float
    nonconformity: Nonconformity = "rank"
    labels: Literal["any", "all"] = "any"
    ties: Literal["count", "random"] = "count"
    seed: int = 0

    def sets(self, calibrate: pl.DataFrame, judge: pl.DataFrame) -> pl.DataFrame:
        """`judge` with ``rank in_set threshold n_calibration unplaced reason``; both have a ``stratum``."""
        _, values = self._nonconformity(calibrate)
        run = calibrate["trace"].cast(pl.Int64).to_numpy()
        of_run = of_labels(values, run, calibrate["labeled"].to_numpy(), self.labels == "all")
        facts = calibrate.unique("trace", keep="first", maintain_order=True)
        rows = [
            (stratum, of_run.get(trace), n_placed == 0 if self.labels == "any" else n_placed < n_labels)
            for trace, stratum, n_labels, n_placed in facts.select(
                pl.col("trace").cast(pl.Int64), "stratum", "n_labels", "n_placed"
            ).iter_rows()
        ]
        counts: dict[str, int] = {}
        for stratum, _, unplaced in rows:
            counts[stratum] = counts.get(stratum, 0) + (not unplaced)
        large = {stratum for stratum, n in counts.items() if self.alpha * (n + 1) >= 1.0 - 1e-9}
        cells: list[tuple[str | None, float | None, int, float, str | None]] = []
        for cell in [*sorted(large), None]:
            members = [row for row in rows if (row[0] == cell if cell is not None else row[0] not in large)]
            cells.append((cell, *self._threshold([(value, lost) for _, value, lost in members])))
        thresholds = pl.DataFrame(
            cells,
            orient="row",
            schema={
                "cell": pl.String,
                "threshold": pl.Float64,
                "n_calibration": pl.UInt32,
                "unplaced": pl.Float64,
                "reason": pl.String,
            },
        )
        ranks, stands = self._nonconformity(judge)
        cell_of = pl.when(pl.col("stratum").is_in(sorted(large))).then("stratum")
        table = judge.with_columns(
            rank=pl.Series(ranks.nonconformity("rank")).cast(pl.UInt32),
            stands=pl.Series(stands),
            cell=cell_of,
        ).join(thresholds, on="cell", how="left", nulls_equal=True, maintain_order="left")
        # rounding of a share or a mass must not part equals
        inside = pl.col("stands") <= pl.col("threshold").fill_null(inf) * (1.0 + 1e-12)
        return table.with_columns(
            alpha=pl.lit(self.alpha),
            in_set=pl.when(~pl.col("reason").eq_missing(pl.lit(_UNPLACED))).then(inside),
        ).drop("stands", "cell")

    def _threshold(
        self, members: list[tuple[float | None, bool]]
    ) -> tuple[float | None, int, float, str | None]:
        """Threshold, runs it is from, share of runs whose label is no candidate, reason."""
        placed = np.array([value for value, lost in members if not lost and value is not None], np.float64)
        unplaced = 1.0 - len(placed) / len(members) if members else 0.0
        if unplaced > self.alpha:
            return None, len(placed), unplaced, _UNPLACED
        limit = threshold(placed, self.alpha)
        if limit == inf:
            return None, len(placed), unplaced, _SMALL
        return limit, len(placed), unplaced, None

    def _nonconformity(self, units: pl.DataFrame) -> tuple[Ranking, Floats]:
        run = units["trace"].cast(pl.Int64).to_numpy()
        score = units["score"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
        ranks = ranking(run, score)
        draws = None
        if self.ties == "random":
            names = units["trace_id"].unique(maintain_order=True).to_list()
            drawn = {
                name: (int.from_bytes(keyed_hash(f"blame {name}", self.seed)[:6], "big") + 1) / 2.0**48
                for name in names
            }
            draws = units["trace_id"].replace_strict(drawn, return_dtype=pl.Float64).to_numpy()
        return ranks, ranks.nonconformity(self.nonconformity, draws)


def one_run_per_task(units: pl.DataFrame, seed: int) -> pl.DataFrame:
    """The units of one run of each task, drawn by seed and id."""
    runs = units.select("trace_id", "task_id").unique().rows()
    drawn: dict[str, tuple[bytes, str]] = {}
    for trace_id, task_id in runs:
        key = (keyed_hash(trace_id, seed), trace_id)
        drawn[task_id] = min(drawn.get(task_id, key), key)
    return units.filter(pl.col("trace_id").is_in([trace_id for _, trace_id in drawn.values()]))


def halves(units: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The units of half of the tasks, and those of the others."""
    tasks = sorted(set(units["task_id"]), key=lambda task: (keyed_hash(f"half {task}", seed), task))
    first = pl.col("task_id").is_in(tasks[: len(tasks) // 2])
    return units.filter(first), units.filter(~first)


def _strata(corpus: Corpus, by: str | None) -> pl.DataFrame:
    traces = corpus.traces
    names = traces.collect_schema().names()
    if by not in (None, _LENGTH, *names):
        raise ParameterError(
            f"by is '{by}', expected '{_LENGTH}' or a column of the traces: "
            + ", ".join(name for name in names if name != _LENGTH)
        )
    stratum = pl.lit("") if by is None or by == _LENGTH else pl.col(by).cast(pl.String).fill_null("")
    return traces.select("trace", stratum=stratum).collect(engine="streaming")


def _length_cuts(fit: pl.DataFrame) -> tuple[float, float]:
    """Numbers of candidates below which a third, and two thirds, of the runs lie."""
    lengths = fit.group_by("trace").len()["len"].sort()
    lower, upper = (lengths.quantile(share, "nearest") for share in (1 / 3, 2 / 3))
    return lower or 0.0, upper or 0.0


def _third(cuts: tuple[float, float]) -> pl.Expr:
    """Which third of `_length_cuts` the run of a unit is in."""
    n = pl.len().over("trace")
    return pl.when(n <= cuts[0]).then(pl.lit("1")).when(n <= cuts[1]).then(pl.lit("2")).otherwise(pl.lit("3"))


def _scores(scores: pl.DataFrame | pl.LazyFrame, level: Level) -> pl.DataFrame:
    frame = collected(scores, "scores", ("trace_id", "unit_id"))
    column = next((name for name in ("score", "credit") if name in frame.columns), None)
    if column is None:
        raise ParameterError("scores have no column 'score' or 'credit'")
    if "unit" in frame.columns:
        frame = frame.filter(pl.col("unit").cast(pl.String) == ("turn" if level == "step" else "agent"))
    table = frame.select(pl.col("trace_id", "unit_id").cast(pl.String), score=pl.col(column).cast(pl.Float64))
    table = table.drop_nulls("unit_id")
    if (twice := table.filter(pl.struct("trace_id", "unit_id").is_duplicated())).height:
        raise ParameterError(
            f"scores have several rows for unit '{twice['unit_id'][0]}', expected one method"
        )
    return table


def _table(units: pl.DataFrame, level: Level) -> pl.DataFrame:
    # the row of a run in which nobody acts
    acts = pl.col("unit_id").is_not_null()
    units = units.with_columns(
        pl.when(acts).then("in_set"),
        pl.when(acts).then("rank"),
        pl.when(acts).then("score"),
        reason=pl.when(acts).then("reason").otherwise(pl.lit("support.absent")),
    )
    size = pl.col("in_set").sum().over("trace").cast(pl.UInt32)
    judged = pl.col("in_set").is_not_null()
    return (
        units.with_columns(set_size=pl.when(judged).then(size), size=pl.len().over("trace"))
        .with_columns(share=pl.col("set_size") / pl.col("size"))
        .with_columns(
            # an empty set says as little as half of the run
            abstain=(pl.col("share") > 0.5) | (pl.col("set_size") == 0),
            unit=pl.lit("turn" if level == "step" else "agent"),
        )
        .sort("trace", "rank", "seq", "unit_id")
        .select(
            *("trace", "trace_id", "unit", "unit_id", "seq", "score", "rank", "in_set", "set_size", "share"),
            *("threshold", "alpha", "n_calibration", "unplaced", "abstain", "reason"),
        )
    )
