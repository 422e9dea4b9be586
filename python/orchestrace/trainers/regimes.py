"""Which agents of a run are trained, and by how many policies."""

from typing import Final

import polars as pl

from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus

REGIMES: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "n_agents": pl.UInt32(),
        "n_trainable": pl.UInt32(),
        "n_frozen": pl.UInt32(),
        "n_names": pl.UInt32(),
        "n_models": pl.UInt32(),
        "regime": pl.Enum(["A", "B", "C"]),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `regimes` returns."""

_COPY: Final = r"#\d+$"


@verb
def regimes(corpus: Corpus) -> pl.DataFrame:
    """Say how each run trains its team: one agent of it, several by one policy, or each by its own.

    Parameters
    ----------
    corpus
        The recordings, for ``agents.trainable`` and the ``model`` of events.

    Returns
    -------
    DataFrame
        One row per trace: ``trace`` (UInt32) ``trace_id`` (String) ``n_agents n_trainable n_frozen`` (UInt32:
        agents, those whose policies are trained, those whose are not; of the others nothing says it)
        ``n_names`` (UInt32: names of trained agents; ``solver#2`` is ``solver`` a second time) ``n_models``
        (UInt32: models that answered for them, null where some of them name none) ``regime`` (Enum):

        ===== ==================================================================================
        A     one name is trained, the other agents are as they are
        B     several names are trained, and one model answers for all of them
        C     several names are trained, each by a model that answers for no other
        null  no agent is known to be trained, or several names are and models do not tell which
        ===== ==================================================================================

        ``reason`` (Enum: ``field.absent`` where ``regime`` is null).

    Raises
    ------
    ParameterError
        `corpus` is not a corpus.

    Notes
    -----
    O(events). Source: the survey's three regimes (arXiv 2605.02801), frozen sub-agents, joint training with a
    shared baseline, decoupled policies. A recording shows who is trained and which models answered, not which
    critic or optimizer is behind them: two copies of one model that are trained apart are one model here.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> led = corpus.events.filter(pl.col("agent").cast(pl.String) == "orchestrator")
    >>> marked = corpus.with_fields(led.select("trace", "seq", trainable=pl.lit(True)))
    >>> ot.trainers.regimes(marked)["regime"].to_list()
    ['A', 'A']
    """
    agents = corpus.agents.filter(pl.col("kind").cast(pl.String) == "agent").select(
        "trace", pl.col("agent").cast(pl.String), "trainable"
    )
    trained = agents.filter("trainable").select("trace", "agent", name=pl.col("agent").str.replace(_COPY, ""))
    models = (
        corpus.events.select("trace", pl.col("agent", "model").cast(pl.String))
        .join(trained, on=["trace", "agent"])
        .group_by("trace", "name", "agent")
        .agg(model=pl.col("model").drop_nulls().unique())
        .with_columns(named=pl.col("model").list.len() > 0)
    )
    of_trained = models.group_by("trace").agg(
        n_names=pl.col("name").n_unique(),
        n_models=pl.when(pl.col("named").all()).then(pl.col("model").explode().n_unique()),
    )
    # each model answers for one name alone if there are as many pairs of both as models
    pairs = (
        models.explode("model")
        .select("trace", "name", "model")
        .unique()
        .group_by("trace")
        .agg(n_pairs=pl.len())
    )
    counts = agents.group_by("trace").agg(
        n_agents=pl.len(),
        n_trainable=pl.col("trainable").sum(),
        n_frozen=(~pl.col("trainable")).sum(),
    )
    several = pl.col("n_names") > 1
    table = (
        corpus.traces.select("trace", "trace_id")
        .join(counts, on="trace", how="left")
        .join(of_trained, on="trace", how="left")
        .join(pairs, on="trace", how="left")
        .with_columns(pl.col("n_agents", "n_trainable", "n_frozen", "n_names").fill_null(0))
        .with_columns(
            regime=pl.when(pl.col("n_names") == 1)
            .then(pl.lit("A"))
            .when(several & (pl.col("n_models") == 1))
            .then(pl.lit("B"))
            .when(several & (pl.col("n_models") == pl.col("n_pairs")))
            .then(pl.lit("C"))
        )
        .with_columns(reason=pl.when(pl.col("regime").is_null()).then(pl.lit("field.absent")))
        .sort("trace")
        .collect()
    )
    return table.select(pl.col(name).cast(dtype) for name, dtype in REGIMES.items())
