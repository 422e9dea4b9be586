"""The state before a decision as columns, from the events before it alone."""

from typing import Final

import polars as pl

from ...corpus.corpus import Corpus
from ...stopping.features import OF_SCORES
from ...stopping.recorded import so_far
from ..agents_so_far import roles, superiors, with_depth_so_far, with_role_so_far

_COUNTS: Final = ("x_position", "x_n_tools", "x_n_agents", "x_open_agents", "x_pending")
"""Numbers that are 0 before the first event; the others are unknown there."""
_AMOUNTS: Final = (
    *("x_tokens_before", "x_seconds", "x_usd"),
    *("x_duplicate_calls", "x_errors", "x_error_run"),
)
_BUCKETS: Final = {"x_step": "x_position", "x_budget": "x_tokens_before"}
OF_EPOCHS: Final = (
    *("x_k", *OF_SCORES, "x_q", "x_q_best", "x_q_delta1", "x_q_delta2", "x_q_delta3"),
    *("x_unchanged", "x_agreement"),
)
"""Numbers that only an epoch has."""
NUMBERS: Final = (
    *("x_position", "x_step", "x_tokens_before", "x_budget", "x_seconds", "x_usd", "x_depth"),
    *("x_n_tools", "x_n_agents", "x_open_agents", "x_pending"),
    *("x_duplicate_calls", "x_errors", "x_error_run"),
    *OF_EPOCHS,
)
WORDS: Final = ("x_role", "x_state_key", "x_subtask_id")


def states(corpus: Corpus, wanted: pl.DataFrame, *, inclusive: bool) -> pl.DataFrame:
    """State columns of some events, but those of epochs.

    Parameters
    ----------
    corpus
        In memory or on disk; pieces are loaded one at a time.
    wanted
        ``trace seq`` (Int64) of events.
    inclusive
        Whether the event itself was known, as it is to whoever decides after it.

    Returns
    -------
    DataFrame
        ``trace seq`` (Int64) ``actor`` (String, the owner of the event), the numbers (Float64) and the words
        (String) of this file, a row per event of `wanted`.

    Notes
    -----
    Numbers count the events before this one in canonical order. ``x_role`` is the role as recorded up to the
    event, by the rule of definition D4, ``x_depth`` that by the spawns before it. O(events log events), and
    rows times the depth of the deepest tree of agents.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> from orchestrace.decisions.tables.state import states
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> wanted = pl.DataFrame({"trace": [0, 0], "seq": [0, 1]})
    >>> states(corpus, wanted, inclusive=False)["x_position"].to_list()
    [0.0, 1.0]
    """
    return pl.concat(_of_piece(piece, wanted, inclusive) for piece in corpus.slices())


def _of_piece(corpus: Corpus, wanted: pl.DataFrame, inclusive: bool) -> pl.DataFrame:
    recorded = corpus.events.select("trace", "seq", "agent", "role", "state_key", "subtask_id").collect()
    events = so_far(corpus).join(recorded, on=["trace", "seq"], how="left", maintain_order="left")
    events = events.with_columns(
        pl.col("trace", "seq").cast(pl.Int64), pl.col("agent", "role").cast(pl.String)
    )
    fresh = pl.col("tool").is_not_null() & pl.struct("trace", "tool").is_first_distinct()
    place = pl.int_range(pl.len()).over("trace")
    events = events.with_columns(
        position=place,
        x_position=place + 1,
        x_tokens_before="tokens",
        x_seconds="seconds",
        x_usd="usd",
        x_n_tools=fresh.cast(pl.Int64).cum_sum().over("trace"),
    )
    if not inclusive:
        events = events.with_columns(
            *(pl.col(name).shift(1, fill_value=0).over("trace") for name in _COUNTS),
            *(pl.col(name).shift(1).over("trace") for name in _AMOUNTS),
        )
    log = {name: (1.0 + pl.col(of)).log(2).floor() for name, of in _BUCKETS.items()}
    above = superiors(corpus, events)
    events = with_role_so_far(events, roles(events), "owner", "x_role").with_columns(
        **log, x_state_key="state_key", x_subtask_id="subtask_id", actor="owner"
    )
    numbers = [name for name in NUMBERS if name not in OF_EPOCHS]
    chosen = events.join(wanted, on=["trace", "seq"], how="semi", maintain_order="left")
    return with_depth_so_far(chosen, above, "x_depth").select(
        *("trace", "seq", "actor"),
        pl.col(numbers).cast(pl.Float64),
        pl.col(WORDS).cast(pl.String),
    )
