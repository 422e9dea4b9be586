"""Faithfulness of credit: curves of deletion and insertion."""

import json
from typing import Annotated, Any

import polars as pl

from .. import _core
from ..base.arguments import Integer, Seed, Threads
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.text import in_json
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..corpus.parts import store_of
from ..replay.verb import Model
from .attribution import label_methods

_KEY = ["trace", "seq"]
_SCHEMA = {
    "trace": CREDITS["trace"],
    "trace_id": CREDITS["trace_id"],
    "method": pl.String(),
    **dict.fromkeys(
        ("deletion", "insertion", "deletion_random", "insertion_random", "gap"), CREDITS["credit"]
    ),
    "tier": CREDITS["tier"],
    "reason": CREDITS["reason"],
    "params": CREDITS["params"],
}


@verb
def faithfulness(
    corpus: Corpus,
    credits: pl.DataFrame | pl.LazyFrame,
    *,
    outcome: Model = "noisy_or",
    steps: Annotated[int, Integer(1, 10_000)] = 20,
    orders: Annotated[int, Integer(1, 100_000)] = 16,
    seed: Seed = 0,
    program_order: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Delete and insert events in the order of their credit, and follow the outcome.

    Parameters
    ----------
    corpus
        The recordings that were credited.
    credits
        Rows of `credit` at unit ``event``, of one or several methods: ``trace seq credit method``, and
        ``reason`` where a credit is null. Its traces are evaluated, whatever else the corpus has.
    outcome
        The structural surrogate that says what the outcome is worth when events are absent.
        ``"noisy_or"``: every event is a noisy-or of its predecessors with normalized weights.
        ``"typed"``: results and returns need all of their inputs, aggregates the best one (in a debate the
        majority), safety events can veto; everything else is that noisy-or. The other models are those
        of `replay`.
    steps
        Equal parts, 1 to 10,000, in which the events go and come.
    orders
        Random orders for each trace, 1 to 100,000: what credit is compared with, and how ties are broken.
    seed
        Of the random orders, which depend on it and on the ``trace_id``.
    program_order
        Join consecutive events of one owner by temporal edges.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per method and trace, in the order of the corpus, methods as they first occur: ``trace
        trace_id method deletion insertion deletion_random insertion_random gap tier reason params``. The
        four areas under the curves and ``gap`` are Float64 without a unit, areas in 0..1. ``gap`` is the mean
        of ``deletion_random - deletion`` and ``insertion - insertion_random``: above 0 the order of credit
        is better than chance, 0 where all credit is equal. ``tier`` is ``surrogate``: the curves say what
        follows from the structure of the recording, not what would have happened.

    Raises
    ------
    ParameterError
        A column is absent, the rows are of another unit, an event has two credits in one method, no trace is
        in the corpus, or an option is out of range.

    Notes
    -----
    Let v be the surrogate, 1 for the whole recording unless a safety event vetoes in ``typed``. At point k of
    S the first ⌊k n/S⌋ of n events are absent (deletion) or alone present (insertion); an absent event
    passes nothing on, its successors stay. Areas are by the trapezoidal rule. Credits are compared with their
    sign: where a reward is negative, negate the credit to begin with what mattered most. Events of equal
    credit come in each of the random orders, and the areas are means over them.

    A trace of which an event has no credit, or whose edges close a cycle, is null with the ``reason``. Events
    that a method does not value (``unit.none``) are below all others; if it values none, the trace is null.

    Time is O((events + edges) · steps · orders), in parallel over traces.

    Source: RISE (Petsiuk et al., arXiv 1806.07421, section 4.1) for deletion and insertion areas.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=5, seed=0)
    >>> credits = ot.credit(corpus, method="uniform")
    >>> table = ot.evaluation.faithfulness(corpus, credits)
    >>> table.select("method", "tier", "gap").row(0)
    ('uniform', 'surrogate', 0.0)
    """
    rows = label_methods(_checked(collected(credits, "credits", (*_KEY, "credit", "method"))))
    options: dict[str, Any] = {
        "outcome": outcome,
        "steps": steps,
        "orders": orders,
        "seed": seed,
        "program_order": program_order,
    }
    params = json.dumps(
        {**options, "version": _core.VERSION}, sort_keys=True, separators=(",", ":"), default=in_json
    )
    methods = rows["method"].unique(maintain_order=True).to_list()
    by_method = {name: _ranks(rows.filter(pl.col("method") == name), name) for name in methods}
    areas: dict[str, list[pl.DataFrame]] = {name: [] for name in methods}
    with reporting(progress, "replaying") as callback:
        for _, load in corpus.pieces():
            piece = load()
            events = piece.events.select(*_KEY).collect()
            for name, ranks in by_method.items():
                joined = events.join(ranks, on=_KEY, how="left", maintain_order="left")
                stream = _core.faithfulness(
                    store_of(piece), joined.select("rank"), **options, threads=threads, progress=callback
                )
                areas[name].append(_with_reasons(pl.DataFrame(stream), joined, ranks, name, params))
    if rows.height and not any(table.height for tables in areas.values() for table in tables):
        raise ParameterError("no trace of the credits is in the corpus: were they computed on another one?")
    empty = pl.DataFrame(schema=_SCHEMA)
    return pl.concat([empty, *(table for tables in areas.values() for table in tables)])


def _checked(credits: pl.DataFrame) -> pl.DataFrame:
    """Rows of events in the columns that count."""
    if "unit" in credits.columns:
        others = credits["unit"].cast(pl.String).unique().drop_nulls().to_list()
        if other := sorted(set(others) - {"event"}):
            raise ParameterError(f"credits are of unit '{other[0]}': compute them with unit='event'")
    if "reason" not in credits.columns:
        credits = credits.with_columns(reason=pl.lit(None, pl.String))
    try:
        return credits.with_columns(
            pl.col("trace", "seq").cast(pl.UInt32),
            pl.col("credit").cast(pl.Float64),
            pl.col("method", "reason").cast(pl.String),
        ).drop_nulls("seq")
    except pl.exceptions.PolarsError as error:
        raise ParameterError(f"credits: {str(error).splitlines()[0]}") from None


def _ranks(rows: pl.DataFrame, method: str) -> pl.DataFrame:
    """What the events of a method are ordered by; null refuses the trace."""
    if rows.select(_KEY).is_duplicated().any():
        raise ParameterError(f"an event has two credits of method '{method}': give one row for each")
    valued = pl.col("credit").is_not_null().any().over("trace")
    unvalued = pl.col("credit").is_null() & (pl.col("reason") == "unit.none") & valued
    below = pl.when(unvalued).then(pl.lit(float("-inf"))).otherwise("credit")
    return rows.select(*_KEY, rank=below, why=pl.when(below.is_null()).then("reason"))


def _with_reasons(
    areas: pl.DataFrame, joined: pl.DataFrame, ranks: pl.DataFrame, method: str, params: str
) -> pl.DataFrame:
    """The traces of the credits, with the reason that their method gave for a null."""
    why = joined.drop_nulls("why").group_by("trace").agg(why=pl.col("why").first())
    rows = areas.join(ranks.select("trace").unique(), on="trace", how="semi", maintain_order="left").join(
        why, on="trace", how="left", maintain_order="left"
    )
    reason = pl.coalesce("why", pl.col("reason").cast(pl.String))
    columns = {
        "method": pl.lit(method),
        "tier": pl.lit("surrogate"),
        "reason": reason,
        "params": pl.lit(params),
    }
    return rows.with_columns(**columns).select(pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items())
