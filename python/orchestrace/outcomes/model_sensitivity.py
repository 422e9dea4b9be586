"""Sensitivity of a conclusion to the outcome model: one question under several models."""

from collections.abc import Sequence
from typing import Any, Final, cast

import polars as pl

from ..base.arguments import Seed, Threads
from ..base.errors import ParameterError
from ..base.progress import Progress
from ..base.schema import CREDITS, Unit
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..credit.verb import Rewards, credit
from ..interventions.composition import Specified
from ..replay.verb import Model, replay
from .fitting import FittedOutcome

MODELS: Final = pl.DataFrame(
    [
        ("noisy_or", "1 - Π(1 - w x)", True, True, "Any input may carry the event, each by its weight."),
        (
            "typed",
            "by event type",
            True,
            False,
            "Results need all inputs, aggregates the best one, the rest any.",
        ),
        ("noisy_and", "Π(1 - w (1 - x))", True, True, "Every input is needed, each by its weight."),
        ("linear", "min(1, Σ w x)", True, True, "Inputs add up, whatever the others are."),
        ("mean", "Σ x / n", False, False, "All inputs count alike."),
        ("max", "max x", False, False, "The best input decides."),
        ("min", "min x", False, False, "The worst input decides."),
        ("majority", "Σ w [x ≥ ½] > q Σ w", True, False, "Most of the weight decides, without shades."),
        ("reachability", "any x > 0", False, False, "Whatever arrives is enough."),
    ],
    schema={
        "model": pl.String(),
        "gate": pl.String(),
        "weighted": pl.Boolean(),
        "fitted": pl.Boolean(),
        "assumes": pl.String(),
    },
    orient="row",
)
FAMILIES: Final = ("noisy_or", "typed", "mean", "noisy_and", "max", "min", "majority")
_KEYS: Final = ("trace", "unit", "unit_id", "trace_id", "seq")
_EFFECT: Final = ("trace", "intervention", "unit_id", "trace_id")
_SMALL: Final = 1e-9  # of the largest value of the trace: what rounding leaves


@verb
def list_models() -> pl.DataFrame:
    """The outcome models, and what each assumes.

    Returns
    -------
    DataFrame
        A row a model: ``model`` (str), the name that ``outcome=`` takes; ``gate`` (str), the value of an
        event by the values x of its inputs; ``weighted`` (bool), whether the weights of edges enter;
        ``fitted`` (bool), whether `outcomes.fit` fits them; ``assumes`` (str).

    Notes
    -----
    Weights that are not given are normalized: shares of the weight into an event (D15). Constant time.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.outcomes.list_models().filter("fitted")["model"].to_list()
    ['noisy_or', 'noisy_and', 'linear']
    """
    return MODELS


@verb
def sensitivity(
    corpus: Corpus,
    *interventions: Specified,
    method: str | None = None,
    unit: Unit = "agent",
    outcomes: Sequence[str | FittedOutcome] = FAMILIES,
    reward: Rewards = "team",
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
    **params: Any,
) -> pl.DataFrame:
    """Ask one question under several outcome models, and mark results that do not hold in all of them.

    Parameters
    ----------
    corpus
        The recordings.
    interventions
        As in `replay`, whose effects are compared. Without any, credits are.
    method, unit, reward, seed, threads, progress, **params
        As in `credit`; the method must have the parameter ``outcome``. With interventions there is no
        method, and ``threads``, ``progress`` and ``params`` are those of `replay`.
    outcomes
        Two or more models: names of `outcomes.list_models`, or results of `outcomes.fit`, which bring their
        weights. The column ``model`` names them: ``noisy_or``, or ``noisy_or fitted``.

    Returns
    -------
    DataFrame
        A row per unit and model, units in the order of `credit`, models as asked for: ``trace unit unit_id
        trace_id seq``; ``model`` (str); ``credit`` (f64, units of the method); ``rank`` (f64, 1 for the most
        credit in the trace, ties share their mean; null for the row without a unit); ``lower upper`` (f64,
        least and greatest credit over the models); ``sign_stable rank_stable`` (bool, the same in all
        models), ``stable`` (both; the sign alone where there is no rank); ``tier`` (str) and ``reason``: why
        a credit is null, or ``gate.unstable`` where its sign changes. What fewer than two models value has
        null for stability. Of interventions: ``trace intervention unit_id trace_id``, ``effect`` in place of
        ``credit``, and ranks inside of a trace and scenario.

    Raises
    ------
    ParameterError
        Fewer than two models, one given twice, neither a method nor an intervention, or what `credit` or
        `replay` refuses.

    Notes
    -----
    A credit below 1e-9 of the largest one of its trace in size counts as 0. Ranks change easily: where two
    units are close, a change of rank says little; look at the interval. The time is that of the credits. The
    spread is over structures that are assumed; the truth need not be inside.

    Source: sensitivity over gate families, docs/reference/definitions.md, D15.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> table = ot.outcomes.sensitivity(corpus, method="shapley", outcomes=["noisy_or", "min"])
    >>> table["model"].unique(maintain_order=True).to_list()
    ['noisy_or', 'min']
    """
    if (method is None) == (not interventions):
        raise ParameterError("sensitivity needs a method, or interventions, and not both")
    models = _labeled(outcomes)
    tables = []
    for label, model in models.items():
        name = model if isinstance(model, str) else model.model
        more = params if isinstance(model, str) else {**params, "weights": list(model)}
        if method is None:
            # replay itself refuses a word that names no model
            effects = replay(
                corpus,
                *interventions,
                outcome=cast("Model", name),
                sensitivity=False,
                structure_alone=True,  # what each model assumes is the question
                threads=threads,
                progress=progress,
                **more,
            )
            tables.append(
                effects.select(*_EFFECT, "effect", "tier", "reason").with_columns(model=pl.lit(label))
            )
            continue
        rows = credit(
            corpus,
            method=method,
            unit=unit,
            reward=reward,
            seed=seed,
            threads=threads,
            progress=progress,
            outcome=name,
            **more,
        )
        if rows["reward"].n_unique() > 1:
            raise ParameterError("reward is a list: ask for one reward at a time")
        tables.append(rows.select(*_KEYS, "credit", "tier", "reason").with_columns(model=pl.lit(label)))
    if method is None:
        return stability(pl.concat(tables), list(_EFFECT), ["trace", "intervention"], "effect")
    return stability(pl.concat(tables), list(_KEYS), ["trace"], "credit")


def _labeled(outcomes: Sequence[str | FittedOutcome]) -> dict[str, str | FittedOutcome]:
    """Models by the name that distinguishes them."""
    if isinstance(outcomes, str) or len(outcomes) < 2:
        raise ParameterError("outcomes must be two models or more, as in outcomes=['noisy_or', 'typed']")
    models: dict[str, str | FittedOutcome] = {}
    for model in outcomes:
        label = model if isinstance(model, str) else f"{model.model} fitted"
        if label in models:
            raise ParameterError(f"outcome '{label}' is given twice")
        models[label] = model
    return models


def stability(rows: pl.DataFrame, keys: list[str], within: list[str], value: str) -> pl.DataFrame:
    """Ranks of each model, spread over the models, and whether sign and rank are the same in all.

    `rows` has the `keys` of what is valued, ``unit_id``, ``model``, `value`, ``tier`` and ``reason``; ranks
    are `within` these columns.
    """
    place = rows.select(keys).unique(maintain_order=True).with_row_index("place")
    rows = rows.join(place, on=keys, how="left", nulls_equal=True, maintain_order="left")
    within = [*within, "model"]
    # ties and signs by what is more than rounding
    size = pl.col(value).abs().max().over(within)
    rounded = pl.when(size > 0.0).then((pl.col(value) / size / _SMALL).round() * _SMALL).otherwise(0.0)
    ranked = pl.when(pl.col("unit_id").is_not_null()).then(-pl.col("rounded"))
    rows = rows.with_columns(rounded=pl.when(pl.col(value).is_not_null()).then(rounded))
    rows = rows.with_columns(sign=pl.col("rounded").sign(), rank=ranked.rank("average").over(within))

    def same(name: str) -> pl.Expr:
        alike = pl.col(name).drop_nulls().n_unique().over("place") <= 1
        return pl.when(pl.col(name).count().over("place") >= 2).then(alike)

    rows = rows.with_columns(
        lower=pl.col(value).min().over("place"),
        upper=pl.col(value).max().over("place"),
        sign_stable=same("sign"),
        rank_stable=same("rank"),
    )
    unranked = pl.col("unit_id").is_null()
    both = pl.col("sign_stable") & (unranked | pl.col("rank_stable"))
    unstable = pl.when(pl.col("sign_stable").not_()).then(pl.lit("gate.unstable"))
    return rows.sort("place", maintain_order=True).select(
        *keys,
        "model",
        value,
        "rank",
        "lower",
        "upper",
        "sign_stable",
        "rank_stable",
        stable=both,
        tier=pl.col("tier").cast(CREDITS["tier"]),
        reason=pl.coalesce(pl.col("reason").cast(pl.String), unstable),
    )
