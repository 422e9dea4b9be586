"""Find where runs could have stopped, and what that pays."""

from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import polars as pl
import typer

from ... import stopping
from ...base.errors import ParameterError
from ...base.paths import path_of
from ...base.publication import refuse_existing
from ...base.text import counted
from ...corpus.corpus import Corpus
from ...plot.saving import save
from ...plot.stopping_frontiers import stopping as drawn_stopping
from ...statistics.folds import folds_over
from ...stopping.thresholds import METHODS
from ..options import StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import group
from ..tables import Columns, TableOptions

EXAMPLES: Final = (
    "stopping epochs stops.jsonl",
    "stopping evaluate attempts.jsonl --source attempt",
    "stopping abort stops.jsonl",
    "stopping frontier attempts.jsonl --source attempt --price 0 --price 0.1",
    "stopping regret attempts.jsonl --source attempt",
)
COLUMNS: Final = {
    "epochs": Columns("trace_id k source q s tokens last y"),
    "evaluate": Columns("method value lower upper gain bound mean_k reason"),
    "abort": Columns("rule far far_lower far_upper power early saved_failed lost"),
    "frontier": Columns("price method quality cost value lower upper early reason"),
    "regret": Columns("trace_id k k_best regret over_run under_run"),
}

of_stopping = group(__name__)

Source = Annotated[
    str | None,
    typer.Option("--source", help="draft, score, turn or attempt; default: the first that a run has."),
]
Channel = Annotated[str, typer.Option("--reward", help="The reward channel that is the outcome of a run.")]
Price = Annotated[
    float, typer.Option("--price", min=0.0, help="What a unit of cost costs, in units of the quality.")
]
Cost = Annotated[str, typer.Option("--cost", help="epochs, tokens, seconds or usd.")]
Problem = Annotated[
    str, typer.Option("--problem", help="answer: stop and hand over; abort: stop and give up.")
]
Estimand = Annotated[
    str,
    typer.Option("--estimand", help="capped: recorded stops stay; uncapped: as if no run had been stopped."),
]

_PICTURES = (".svg", ".png", ".html")


def _epochs(corpus: Corpus, source: str | None, reward: str) -> pl.DataFrame:
    chosen: Any = source
    return stopping.epochs(corpus, chosen, reward=reward)


def _paid(corpus: Corpus, source: str | None, reward: str, problem: str) -> pl.DataFrame:
    """Epochs of the runs that the problem can be asked of."""
    epochs = _epochs(corpus, source, reward)
    if not epochs.height:
        raise ParameterError(f"no run has a point to stop at{f' of --source {source}' if source else ''}")
    if problem == "abort":
        return _with(epochs, "y", f"the reward '{reward}'")
    return _with(epochs, "q", "quality at some epoch")


def _with(epochs: pl.DataFrame, needed: str, missing: str) -> pl.DataFrame:
    """The runs that have a column at all epochs; all of them if none has, which says what is missing."""
    lacking = epochs.filter(pl.col(needed).is_null())["trace"].unique()
    if not len(lacking) or len(lacking) == epochs["trace"].n_unique():
        return epochs
    typer.echo(f"{counted(len(lacking), 'run')} left out: no {missing}", err=True)
    return epochs.filter(~pl.col("trace").is_in(lacking.implode()))


@of_stopping
def epochs_(
    recordings: StrictOptions, table: TableOptions, source: Source = None, reward: Channel = "team"
) -> None:
    """List the points at which runs could have stopped."""
    corpus = usable(recordings)
    table.give(_epochs(corpus, source, reward), "epochs", COLUMNS["epochs"])
    report_quarantined(corpus, recordings, recordings.strict)


@of_stopping
def evaluate_(
    recordings: StrictOptions,
    table: TableOptions,
    source: Source = None,
    reward: Channel = "team",
    price: Price = 0.0,
    cost: Cost = "epochs",
    problem: Problem = "answer",
    estimand: Estimand = "capped",
    method: Annotated[
        list[str] | None, typer.Option("--method", help="A rule of stopping; repeatable; default: all.")
    ] = None,
) -> None:
    """Compare rules of stopping on runs that they have not seen."""
    corpus = usable(recordings)
    options: dict[str, Any] = {"problem": problem, "estimand": estimand, "price": price, "cost": cost}
    comparison = stopping.evaluate(_paid(corpus, source, reward, problem), method, **options)
    table.give(comparison, "rules of stopping", COLUMNS["evaluate"])
    report_quarantined(corpus, recordings, recordings.strict)


@of_stopping
def abort_(
    recordings: StrictOptions,
    table: TableOptions,
    source: Source = None,
    reward: Channel = "team",
    alpha: Annotated[
        float, typer.Option("--alpha", help="The share of successful runs that may be cut.")
    ] = 0.1,
    success: Annotated[float, typer.Option("--success", help="The least outcome that is a success.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the division of tasks.")] = 0,
) -> None:
    """Show what giving up saves: fit on half of the tasks, test on the rest."""
    corpus = usable(recordings)
    epochs = _with(_paid(corpus, source, reward, "abort"), "s", "score at some epoch")
    if epochs["s"].null_count():
        raise ParameterError(
            "no run has a score at each point where it could be given up: name another --source, or record"
            " scores"
        )
    half = folds_over(epochs["task_id"].to_list(), 2, seed) if epochs.height else np.zeros(0, np.int64)
    past, new = (epochs.filter(pl.Series(half == part)) for part in (0, 1))
    rules = {
        method: stopping.fit_abort(past, method=method, alpha=alpha, success=success, seed=seed)
        for method in METHODS
    }
    results = stopping.evaluate_abort(new, rules, success=success, seed=seed)
    table.give(results, "abort rules on the other half of the tasks", COLUMNS["abort"])
    report_quarantined(corpus, recordings, recordings.strict)


@of_stopping
def frontier_(
    recordings: StrictOptions,
    table: TableOptions,
    source: Source = None,
    reward: Channel = "team",
    cost: Cost = "epochs",
    estimand: Estimand = "capped",
    price: Annotated[
        list[float] | None,
        typer.Option("--price", min=0.0, help="A price of a unit of cost; repeatable."),
    ] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="A rule of stopping; repeatable; default: all.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Also draw it: a file that ends in .svg, .png or .html.")
    ] = None,
) -> None:
    """Compute the quality and the cost that rules reach."""
    if not price:
        raise ParameterError("no price is given: --price 0 --price 0.05 --price 0.2")
    if plot is not None:
        if plot.suffix not in _PICTURES:
            raise ParameterError(f"plot '{plot}' must end in one of {', '.join(_PICTURES)}")
        if not table.force:
            refuse_existing(path_of(plot))
    corpus = usable(recordings)
    curve = stopping.frontier(
        _paid(corpus, source, reward, "answer"), method, prices=price, cost=cost, estimand=estimand
    )
    if plot is not None:
        save(drawn_stopping(curve), path_of(plot), overwrite=table.force)
    table.give(curve, "the frontier of stopping", COLUMNS["frontier"])
    report_quarantined(corpus, recordings, recordings.strict)


@of_stopping
def regret_(
    recordings: StrictOptions,
    table: TableOptions,
    source: Source = None,
    reward: Channel = "team",
    price: Price = 0.0,
    cost: Cost = "epochs",
    problem: Problem = "answer",
) -> None:
    """Show for each run how much better an earlier stop was."""
    corpus = usable(recordings)
    options: dict[str, Any] = {"problem": problem, "price": price, "cost": cost}
    regrets = stopping.regret(_paid(corpus, source, reward, problem), **options)
    table.give(regrets, "regret", COLUMNS["regret"])
    report_quarantined(corpus, recordings, recordings.strict)
