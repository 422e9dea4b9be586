"""The measurement of one cell, on a corpus that it makes or shares with the cell before it."""

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..corpus.parts import sizes_of
from ..credit.verb import credit
from ..rewards import compute
from ..schedules.scheduling import scaling_curve
from ..statistics.influence import mean_interval
from ..stopping import evaluate
from ..synthetic.planting import Truth, planted
from .cells import CREDIT, REWARD, SCHEDULE, STOP, Cell, seed_of
from .config import StudyConfig
from .costs import measured
from .paid import followed
from .stopped import drawn_epochs, judged_stops
from .truth_rank import judged

OK: Final = "ok"
TOO_SLOW: Final = "too_slow"
REFUSED: Final = "refused"
FAILED: Final = "failed"

Stage = Callable[[str], object]


class Bench:
    """Measures cells; keeps the corpus of the last one, since neighbors share it."""

    def __init__(self, config: StudyConfig, threads: int | None = None) -> None:
        self._config = config
        self._threads = threads
        self._name = ""
        self._held: tuple[Corpus, Truth] | None = None

    def measure(self, cell: Cell, stage: Stage = lambda _: None) -> dict[str, Any]:
        """``status reason numbers cost``, of credit also ``tasks``, of all others ``rows``.

        `stage` hears ``call`` when what counts against the budget begins, and ``judge`` when it is over.
        """
        if cell.kind == STOP:
            return {"status": OK, "reason": None, **self._stopping(cell, stage)}
        corpus, truth = self._corpus(cell)
        sizes = sizes_of(corpus)
        shape = {
            "n_traces": sizes["traces"],
            "n_events": sizes["events"],
            "mean_agents": truth.agents.height / sizes["traces"],
        }
        try:
            kinds = {CREDIT: self._credit, SCHEDULE: self._schedule, REWARD: self._reward}
            result = kinds[cell.kind](cell, corpus, truth, stage)
        except ParameterError as error:
            text = (str(error).splitlines() or [""])[0]
            return {"status": REFUSED, "reason": text, "numbers": shape, "cost": {}}
        result["numbers"] = shape | result["numbers"]
        return {"status": OK, "reason": None, **result}

    def _corpus(self, cell: Cell) -> tuple[Corpus, Truth]:
        if self._held is None or self._name != cell.corpus:
            self._held = None  # before the next one takes its room
            size = cell.size
            self._held = planted(
                traces=size.traces,
                group_size=size.group_size,
                length=size.events,
                agents=size.agents,
                seed=seed_of(self._config.seed, "corpus", cell.corpus),
                threads=self._threads,
                **self._config.presets[cell.preset],
            )
            self._name = cell.corpus
        return self._held

    def _credit(self, cell: Cell, corpus: Corpus, truth: Truth, stage: Stage) -> dict[str, Any]:
        config = self._config
        call: dict[str, Any] = {"method": cell.run.name, "unit": cell.unit, "threads": self._threads}
        call |= {"seed": seed_of(config.seed, "credit", cell.name), **cell.run.params}
        stage("call")
        credits, cost = measured(lambda: credit(corpus, **call))
        stage("judge")
        numbers, tasks = judged(corpus, truth, credits, cell.unit, config.confidence)
        return {"numbers": numbers, "cost": cost, "tasks": tasks.to_dict(as_series=False)}

    def _schedule(self, cell: Cell, corpus: Corpus, _: Truth, stage: Stage) -> dict[str, Any]:
        config = self._config
        stage("call")
        curve, cost = measured(
            lambda: scaling_curve(
                corpus,
                slots=config.slots,
                queue=cell.run.name,  # type: ignore[arg-type]  # judged with the configuration
                threads=self._threads,
            )
        )
        stage("judge")
        return {"numbers": {}, "cost": cost, "rows": _by_slots(corpus, curve, config.confidence)}

    def _reward(self, cell: Cell, corpus: Corpus, _: Truth, stage: Stage) -> dict[str, Any]:
        rule = {cell.run.name: cell.run.params}
        stage("call")
        paid, cost = measured(lambda: compute(corpus, rule, threads=self._threads))
        stage("judge")
        return {"numbers": {}, "cost": cost, "rows": [followed(corpus, paid, self._config.confidence)]}

    def _stopping(self, cell: Cell, stage: Stage) -> dict[str, Any]:
        config = self._config
        # every rule is asked the same runs
        epochs, truth = drawn_epochs(cell, seed_of(config.seed, "corpus", cell.corpus))
        options: dict[str, Any] = {"price": truth.price, "confidence": config.confidence}
        seed = seed_of(config.seed, "stop", cell.name)
        stage("call")
        values, cost = measured(lambda: evaluate(epochs, [cell.run.name], seed=seed, **options))
        stage("judge")
        shape = {"n_traces": cell.size.traces, "n_events": epochs.height, "mean_agents": None}
        return {"numbers": shape, "cost": cost, "rows": [judged_stops(epochs, truth, values)]}


def _by_slots(corpus: Corpus, curve: pl.DataFrame, confidence: float) -> list[dict[str, Any]]:
    """A row for each k: means over traces with intervals over tasks, and whether the bounds held."""
    tasks = corpus.traces.select("trace", task=pl.col("task_id").cast(pl.String)).collect()
    tasks = tasks.with_columns(pl.col("task").rank("dense").cast(pl.Int64))
    scheduled = curve.drop_nulls("makespan").join(tasks, on="trace", maintain_order="left")
    slack = 1e-9 * pl.col("upper")
    scheduled = scheduled.with_columns(
        over_lower=pl.when(pl.col("lower") > 0).then(pl.col("makespan") / pl.col("lower")),
        of_upper=pl.when(pl.col("upper") > 0).then(pl.col("makespan") / pl.col("upper")),
        best=pl.when(pl.col("lower") > 0).then(pl.col("work") / pl.col("lower")),
        worst=pl.when(pl.col("upper") > 0).then(pl.col("work") / pl.col("upper")),
        parallelism=pl.when(pl.col("span") > 0).then(pl.col("work") / pl.col("span")),
        held=(pl.col("lower") - slack <= pl.col("makespan"))
        & (pl.col("makespan") <= pl.col("upper") + slack),
    )
    rows: list[dict[str, Any]] = []
    for (k,), of_k in scheduled.group_by("k", maintain_order=True):
        held = of_k["held"].to_numpy().mean()
        row: dict[str, Any] = {"k": k, "n_traces": of_k.height, "n_tasks": of_k["task"].n_unique()}
        row["in_bounds"] = float(held)
        for name in ("makespan", "speedup", "over_lower", "of_upper", "utilization"):
            values = of_k[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            within = (0.0, 1.0) if name == "utilization" else None
            mean = mean_interval(values, of_k["task"].to_numpy(), confidence=confidence, within=within)
            row |= {
                name: mean.estimate,
                f"{name}_lower": mean.around.lower,
                f"{name}_upper": mean.around.upper,
            }
            if mean.estimate is not None and mean.around.reason is not None:
                row.setdefault("interval_reason", mean.around.reason)
        for name in ("best", "worst", "parallelism"):
            row[name] = of_k[name].mean()
        rows.append({**row, "time_unit": of_k["unit"][0]})
    return rows
