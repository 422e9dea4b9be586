"""Recorded decisions of each kind, their actions, and the alternatives that siblings took."""

from typing import Final

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.reward import Reward
from ...effects.observed import aggregation
from ...stopping.recorded import Source as EpochSource, epochs
from ..rows import Source, decision_rows, delegate_role, delegations
from .state import OF_EPOCHS, states

BUCKET: Final = ("group_id", "context", "role")
"""What siblings share."""
MOST_LISTED: Final = 32
"""Alternatives in a row: where each run does something else, lists of all would be quadratic."""
_REPRODUCED: Final = ("best", "mean", "majority")
_EXACT: Final = 1e-9


def decided(corpus: Corpus, kind: str, reward: Reward | None, context: Source) -> pl.DataFrame:
    """Decisions of a kind other than stop, in order of ``trace_id``, time and ``seq``.

    Columns are those of `decision_rows`, state columns, and ``actor``, ``done`` (the action),
    ``n_alternatives alternatives`` (actions of siblings, this one among them), ``p_behavior`` of what was
    done, ``outcome``.
    """
    rows = decision_rows(corpus, reward, context=context)
    by_kind = {"spawn": _spawns, "delegate": _delegations, "communicate": _messages}
    rows = _aggregates(corpus, rows) if kind == "aggregate" else by_kind[kind](rows)
    rows = rows.join(
        states(corpus, rows.select("trace", "seq"), inclusive=False),
        on=["trace", "seq"],
        how="left",
        maintain_order="left",
    )
    is_recorded = pl.col("action") == pl.col("done")
    if kind == "delegate":
        is_recorded |= pl.col("action") == pl.col("to")
    rows = rows.with_columns(
        outcome=pl.col("reward").cast(pl.Float64),
        p_behavior=pl.when(is_recorded).then(pl.col("p_behavior").cast(pl.Float64)),
        **{name: pl.lit(None, pl.Float64) for name in OF_EPOCHS},
    )
    if kind == "communicate":  # what others did in its place is a choice of `contexts`, a hash
        none = {"n_alternatives": pl.lit(None, pl.UInt32), "alternatives": pl.lit(None, pl.List(pl.String))}
        return rows.with_columns(**none)
    return _with_alternatives(rows)


def _spawns(rows: pl.DataFrame) -> pl.DataFrame:
    """O1: each decision of the root, and whether it spawns before its next one."""
    action = pl.when("spawned").then(pl.lit("spawn")).otherwise(pl.lit("no_spawn"))
    return rows.with_columns(done=action).filter(
        (pl.col("type") == "orchestrator_decision") & pl.col("is_root")
    )


def _delegations(rows: pl.DataFrame) -> pl.DataFrame:
    """O2: each spawn, and each message of the root, to another agent (D18)."""
    return rows.filter(delegations()).with_columns(done=delegate_role())


def _messages(rows: pl.DataFrame) -> pl.DataFrame:
    """O3: each message to another agent."""
    return rows.filter((pl.col("type") == "message") & pl.col("to_team")).with_columns(done=pl.lit("send"))


def _aggregates(corpus: Corpus, rows: pl.DataFrame) -> pl.DataFrame:
    """O4: each aggregate, and the rule that gives its score from those of its inputs."""
    rules = aggregation(corpus, by="event").select(
        pl.col("trace", "seq").cast(pl.Int64),
        pl.col("rule").cast(pl.String),
        "outcome",
        "outcome_cf",
        "effect",
    )
    scored = rules.filter(pl.col("effect").is_not_null() & pl.col("rule").is_in(_REPRODUCED))
    scale = pl.max_horizontal(pl.lit(1.0), pl.col("outcome").abs())
    gives = pl.col("effect").abs() <= _EXACT * scale
    place = pl.col("rule").replace_strict({rule: n for n, rule in enumerate(_REPRODUCED)})
    action = scored.group_by("trace", "seq").agg(
        done=pl.coalesce(pl.col("rule").filter(gives).sort_by(place.filter(gives)).first(), pl.lit("other"))
    )
    aggregates = rows.filter(pl.col("type") == "aggregate")
    return aggregates.join(action, on=["trace", "seq"], how="left", maintain_order="left")


def _with_alternatives(rows: pl.DataFrame) -> pl.DataFrame:
    """The distinct actions that runs took in the group, context and role of each decision."""
    decisions = rows.filter(pl.all_horizontal(pl.col("context", "done").is_not_null()))
    actions = decisions.group_by(BUCKET).agg(
        n_alternatives=pl.col("done").n_unique().cast(pl.UInt32),
        alternatives=pl.col("done").unique().sort().head(MOST_LISTED),
    )
    rows = rows.join(actions, on=BUCKET, how="left", nulls_equal=True, maintain_order="left")
    nothing = pl.col("context").is_null() | pl.col("done").is_null()
    return rows.with_columns(
        pl.when(~nothing).then(pl.col(name)).alias(name) for name in ("n_alternatives", "alternatives")
    )


def stops(corpus: Corpus, reward: Reward | None, source: EpochSource | None) -> pl.DataFrame:
    """O5: each epoch, with the recorded decision, or whether the run went on or stopped after it.

    Columns are those of `decided`, and ``source q last``.
    """
    rows = epochs(corpus, source, reward=reward)
    rows = rows.with_columns(pl.col("trace", "seq").cast(pl.Int64)).sort("trace_id", "trace", "k")
    if source == "attempt":  # its rows are whole runs, which no event decides
        rows = rows.with_columns(actor=pl.lit(None, pl.String), action=None, p_behavior=None)
    else:
        wanted = rows.select("trace", "seq")
        recorded = corpus.events.select(pl.col("trace", "seq").cast(pl.Int64), "action", "p_behavior")
        recorded = recorded.join(wanted.lazy(), on=["trace", "seq"], how="semi")
        before = states(corpus, wanted, inclusive=True)
        before = before.drop(
            name for name in before.columns if name in rows.columns and name.startswith("x_")
        )
        for more in (before, recorded.collect(engine="streaming")):
            rows = rows.join(more, on=["trace", "seq"], how="left", maintain_order="left")
    went = pl.when("last").then(pl.lit("stop")).otherwise(pl.lit("continue"))
    done = pl.when(pl.col("source") == "decision").then(pl.col("action").cast(pl.String)).otherwise(went)
    is_recorded = pl.col("action").cast(pl.String) == done
    return rows.with_columns(
        done=done,
        outcome="y",
        x_tokens_before="tokens",
        x_seconds="seconds",
        x_usd="usd",
        x_budget=(1.0 + pl.col("tokens")).log(2).floor(),
        n_alternatives=pl.lit(2, pl.UInt32),
        alternatives=pl.lit(["continue", "stop"], pl.List(pl.String)),
        p_behavior=pl.when(is_recorded).then(pl.col("p_behavior").cast(pl.Float64)),
    )
