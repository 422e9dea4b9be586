"""Recorded decisions of each kind, their actions, and the alternatives that siblings took."""

from typing import Final

import polars as pl

from ... import _core
from ...corpus.corpus import Corpus
from ...corpus.reward import Reward
from ...effects.observed import aggregation
from ...stopping.recorded import Source as EpochSource
from ...stopping.recorded import epochs
from ..rows import Source, decision_rows
from .state import OF_EPOCHS, pieces_of, states

BUCKET: Final = ("group_id", "context", "role")
"""What siblings share."""
MOST_LISTED: Final = 32
"""Alternatives in a row: where each run does something else, lists of all would be quadratic."""
_REPRODUCED: Final = ("best", "mean", "majority")
_EXACT: Final = 1e-9
_OUTSIDE: Final = ("user", "scorer", "environment")


def decided(corpus: Corpus, kind: str, reward: Reward | None, context: Source) -> pl.DataFrame:
    """Decisions of a kind other than stop, in order of ``trace_id``, time and ``seq``.

    Columns are those of `decision_rows`, state columns, and ``actor``, ``done`` (the action),
    ``n_alternatives alternatives`` (actions of siblings, this one among them), ``p_behavior`` of what was
    done, ``outcome``.
    """
    rows = decision_rows(corpus, reward, context=context)
    parts = [_facts(load()) for load in pieces_of(corpus)]
    facts, outside = (pl.concat(frames) for frames in zip(*parts, strict=True))
    rows = rows.join(facts, on=["trace", "seq"], how="left", maintain_order="left")
    rows = rows.join(outside, on=["trace", "to"], how="left", maintain_order="left")
    found = {"spawn": _spawns, "delegate": _delegations, "communicate": _messages}
    rows = _aggregates(corpus, rows) if kind == "aggregate" else found[kind](rows)
    rows = rows.join(
        states(corpus, rows.select("trace", "seq"), with_own=False),
        on=["trace", "seq"],
        how="left",
        maintain_order="left",
    )
    said = pl.col("action") == pl.col("done")
    if kind == "delegate":
        said |= pl.col("action") == pl.col("to")
    rows = rows.with_columns(
        outcome=pl.col("reward").cast(pl.Float64),
        p_behavior=pl.when(said).then(pl.col("p_behavior").cast(pl.Float64)),
        **{name: pl.lit(None, pl.Float64) for name in OF_EPOCHS},
    )
    if kind == "communicate":  # what others did in its place is a choice of `contexts`, a hash
        none = {"n_alternatives": pl.lit(None, pl.UInt32), "alternatives": pl.lit(None, pl.List(pl.String))}
        return rows.with_columns(**none)
    return _with_alternatives(rows)


def _facts(corpus: Corpus) -> tuple[pl.DataFrame, pl.DataFrame]:
    """What the core says of events: whether the root acts, and in which turn; and who is not of the team."""
    facts = pl.DataFrame(_core.ownership(corpus._store)).select(
        pl.col("trace", "seq").cast(pl.Int64), "is_root", own_turn="turn"
    )
    # a role on an event of their own marks who is not of the team (D4)
    by_role = pl.col("role").cast(pl.String).is_in(_OUTSIDE)
    acting = ~pl.col("type").cast(pl.String).is_in(["spawn", "despawn"])
    outside = (
        corpus.events.filter(by_role & acting)
        .select(pl.col("trace").cast(pl.Int64), to=pl.col("agent").cast(pl.String), outside=True)
        .unique()
    )
    return facts, outside.collect(engine="streaming")


def _spawns(rows: pl.DataFrame) -> pl.DataFrame:
    """O1: each decision of the root, and whether a spawn follows before the root hears anything (D6)."""
    last = pl.when(pl.col("type") == "spawn").then("position").max().over("trace", "own_turn")
    follows = (last > pl.col("position")).fill_null(False)
    action = pl.when(follows).then(pl.lit("spawn")).otherwise(pl.lit("no_spawn"))
    return rows.with_columns(done=action).filter(
        (pl.col("type") == "orchestrator_decision") & pl.col("is_root")
    )


def _to_another() -> pl.Expr:
    """Whether an event goes to another agent of the team."""
    other = (pl.col("to") != pl.col("agent")) & (pl.col("to") != "user")
    return (other & pl.col("outside").is_null()).fill_null(False)


def _delegations(rows: pl.DataFrame) -> pl.DataFrame:
    """O2: each spawn, and each message of the root, to another agent (D18)."""
    told = (pl.col("type") == "message") & pl.col("is_root")
    given = ((pl.col("type") == "spawn") | told) & _to_another()
    return rows.filter(given).with_columns(done=pl.coalesce("to_role", "to"))


def _messages(rows: pl.DataFrame) -> pl.DataFrame:
    """O3: each message to another agent."""
    return rows.filter((pl.col("type") == "message") & _to_another()).with_columns(done=pl.lit("send"))


def _aggregates(corpus: Corpus, rows: pl.DataFrame) -> pl.DataFrame:
    """O4: each aggregate, and the rule that gives its score from those of its inputs."""
    rules = aggregation(corpus, by="event").select(
        pl.col("trace", "seq").cast(pl.Int64),
        pl.col("rule").cast(pl.String),
        "outcome",
        "outcome_cf",
        "effect",
    )
    known = rules.filter(pl.col("effect").is_not_null() & pl.col("rule").is_in(_REPRODUCED))
    scale = pl.max_horizontal(pl.lit(1.0), pl.col("outcome").abs())
    gives = pl.col("effect").abs() <= _EXACT * scale
    place = pl.col("rule").replace_strict({rule: n for n, rule in enumerate(_REPRODUCED)})
    action = known.group_by("trace", "seq").agg(
        done=pl.coalesce(pl.col("rule").filter(gives).sort_by(place.filter(gives)).first(), pl.lit("other"))
    )
    own = rows.filter(pl.col("type") == "aggregate")
    return own.join(action, on=["trace", "seq"], how="left", maintain_order="left")


def _with_alternatives(rows: pl.DataFrame) -> pl.DataFrame:
    """The distinct actions that runs took in the group, context and role of each decision."""
    known = rows.filter(pl.all_horizontal(pl.col("context", "done").is_not_null()))
    actions = known.group_by(BUCKET).agg(
        n_alternatives=pl.col("done").n_unique().cast(pl.UInt32),
        alternatives=pl.col("done").unique().sort().head(MOST_LISTED),
    )
    rows = rows.join(actions, on=BUCKET, how="left", nulls_equal=True, maintain_order="left")
    nothing = pl.col("context").is_null() | pl.col("done").is_null()
    return rows.with_columns(
        pl.when(~nothing).then(pl.col(name)).alias(name) for name in ("n_alternatives", "alternatives")
    )


def stops(corpus: Corpus, reward: Reward | None, source: EpochSource | None) -> pl.DataFrame:
    """O5: each epoch, after which the run went on or stopped; columns as of `decided`, ``source q last``."""
    rows = epochs(corpus, source, reward=reward)
    rows = rows.with_columns(pl.col("trace", "seq").cast(pl.Int64)).sort("trace_id", "trace", "k")
    if source == "attempt":  # its rows are whole runs, which no event decides
        rows = rows.with_columns(actor=pl.lit(None, pl.String), action=None, p_behavior=None)
    else:
        wanted = rows.select("trace", "seq")
        told = corpus.events.select(pl.col("trace", "seq").cast(pl.Int64), "action", "p_behavior")
        told = told.join(wanted.lazy(), on=["trace", "seq"], how="semi")
        known = states(corpus, wanted, with_own=True)
        known = known.drop(name for name in known.columns if name in rows.columns and name.startswith("x_"))
        for more in (known, told.collect(engine="streaming")):
            rows = rows.join(more, on=["trace", "seq"], how="left", maintain_order="left")
    done = pl.when("last").then(pl.lit("stop")).otherwise(pl.lit("continue"))
    said = pl.col("action").cast(pl.String) == done
    return rows.with_columns(
        done=done,
        outcome="y",
        x_tokens_before="tokens",
        x_seconds="seconds",
        x_usd="usd",
        x_budget=(1.0 + pl.col("tokens")).log(2).floor(),
        n_alternatives=pl.lit(2, pl.UInt32),
        alternatives=pl.lit(["continue", "stop"], pl.List(pl.String)),
        p_behavior=pl.when(said).then(pl.col("p_behavior").cast(pl.Float64)),
    )
