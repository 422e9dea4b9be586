"""Decisions as rows: state before, action, and outcome of the run.

What the observed counterfactuals compare. Columns that describe the time before a decision may be matched
and regressed on; what came with it or later (``choice``, ``score``, ``tokens_after``) may not.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.schema import CREDITS, SCHEMAS, unknown_name
from ..base.text import in_json
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..corpus.reward import Reward, amounts
from .agents_so_far import roles, superiors, with_depth_so_far, with_role_so_far
from .context_keys import contexts

Source = Literal["auto", "recorded", "computed"]

DECISIONS: Final = _core.DECISIONS
_TEXT: Final = (
    "type",
    "agent",
    "role",
    "to",
    "tool",
    "action",
    "state_key",
    "prefix_key",
    "subtask_id",
    "model",
)
_RECORDED: Final = (*_TEXT, "p_behavior", "p_actions", "turn", "ok", "score", "value")
BEFORE: Final = ("position", "step", "tokens_before", "budget", "depth", "n_tools", "n_agents")
"""Numbers that are known before the decision."""
_COMPUTED: Final = (
    *(*BEFORE, "tools", "spawned", "tokens_after", "seconds_after", "context", "choice"),
    *("assumed", "context_reason", "spent", "owner"),
    *(
        "to_role",
        "role_told_later",
        "is_root",
        "to_team",
        "owner_role",
        "fresh_tool",
        "fresh_owner",
        "mark",
        "decides",
        "trace_id",
        "task_id",
        "system",
        "topology",
        "time_basis",
    ),
)

TIER: Final = CREDITS["tier"]
_CREDIT_REASONS: Final = CREDITS["reason"]
assert isinstance(_CREDIT_REASONS, pl.Enum)
_OUTSIDE: Final = ("user", "scorer", "environment")
_LARGEST: Final = 1e100
REASON: Final = pl.Enum(
    list(dict.fromkeys([*_CREDIT_REASONS.categories, "overlap.absent", "range.unknown", "siblings.absent"]))
)
"""Why a number is null."""

EFFECT: Final[dict[str, Any]] = {
    "effect": pl.Float64,
    "stderr": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
}
EVIDENCE: Final[dict[str, Any]] = {
    "support": pl.Float64,
    "tier": TIER,
    "reason": REASON,
    "params": pl.String,
}
"""Columns that every observed counterfactual begins and ends with, beside what it is about."""


def decision_rows(corpus: Corpus, reward: Reward | None, *, context: Source | None = None) -> pl.DataFrame:
    """A row per decision of an agent, ordered by ``trace_id``, time and ``seq``.

    Parameters
    ----------
    corpus
        In memory or on disk; pieces are loaded one at a time, and of each its decisions are kept.
    reward
        As in `credit`; decisions of traces without it have a null ``reward``. None: all have.
    context
        As in `contexts`; None leaves its columns out.

    Returns
    -------
    DataFrame
        ``trace seq`` (Int64), ``id trace_id task_id group_id system topology`` (String), ``t``, the event's
        ``type agent role to tool action state_key prefix_key subtask_id model p_behavior p_actions turn ok
        score value`` (the agent is its owner), own ``tokens``; ``is_root``, whether the root decides, and
        ``to_team``, whether the event goes to another agent of the team; as recorded up to the event,
        ``role`` and ``depth`` of the owner and ``to_role`` of the addressee; ``role_told_later``, whether
        that one has a role that comes later.
        Before the event: ``position`` events, ``step`` = ⌊log2(1 + position)⌋, ``tokens_before``, ``budget``
        = ⌊log2(1 + tokens_before)⌋ (null in a trace without tokens), ``n_tools`` and ``n_agents`` seen,
        ``tools``, a number that stands for the set of tools.
        After it: ``spawned`` (of orchestrator decisions: whether their owner spawns before its next one),
        ``tokens_after``, ``seconds_after`` (null without a clock), ``reward``.
        ``context choice assumed`` and, as ``context_reason``, ``reason`` of `contexts`; lifted columns,
        unless their name is one of these.

    Notes
    -----
    O(events log events). Rows do not depend on the order of files.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.decisions.rows import decision_rows
    >>> rows = decision_rows(ot.generate(traces=2, seed=0), "team")
    >>> rows["position"].min(), rows["spawned"].dtype
    (0, Boolean)
    """
    if reward is None:
        none = pl.lit(None, pl.Float64)
        rewards = corpus.traces.select(pl.col("trace").cast(pl.Int64), reward=none).collect()
    else:
        rewards = amounts(corpus, reward).select(pl.col("trace").cast(pl.Int64), "reward")
    size = rewards["reward"].abs().max()
    if isinstance(size, float) and size > _LARGEST:
        raise ParameterError(
            f"a reward is {size:.3g} in size, too large for sums of squares: expected at most {_LARGEST:.0e};"
            " give it a weight, as in reward={'team': 1e-300}"
        )
    traces = corpus.traces.select(
        pl.col("trace").cast(pl.Int64),
        "trace_id",
        pl.col("task_id", "group_id", "system", "topology", "time_basis").cast(pl.String),
    ).collect(engine="streaming")
    rows = pl.concat([_of_piece(piece) for piece in corpus.slices()], how="diagonal_relaxed")
    rows = rows.join(traces, on="trace", maintain_order="left").join(
        rewards, on="trace", maintain_order="left"
    )
    if context is not None:
        keys = contexts(corpus, context=context).select(
            pl.col("trace", "seq").cast(pl.Int64),
            pl.col("context", "choice").cast(pl.String),
            "assumed",
            context_reason=pl.col("reason").cast(pl.String),
        )
        rows = rows.join(keys, on=["trace", "seq"], how="left", maintain_order="left")
    clock = pl.col("time_basis").is_in(["seconds", "partial"])
    rows = rows.with_columns(seconds_after=pl.when(clock).then("seconds_after")).drop("time_basis")
    return rows.sort("trace_id", "trace", "t", "seq")


def _as_count(wide: pl.Expr) -> pl.Expr:
    """A sum of counts, the greatest one where it is beyond that."""
    most = pl.lit(2**63 - 1, dtype=pl.Int128)
    return pl.when(wide > most).then(most).otherwise(wide).cast(pl.Int64)


def _of_piece(corpus: Corpus) -> pl.DataFrame:
    reserved = {*SCHEMAS["events"], *_COMPUTED}
    lifted = [name for name in corpus.events.collect_schema().names() if name not in reserved]
    some = pl.when(pl.any_horizontal(pl.col("tokens_in", "tokens_out").is_not_null())).then(
        pl.sum_horizontal(pl.col("tokens_in", "tokens_out").fill_null(0))
    )
    events = (
        corpus.events.select(
            pl.col("trace", "seq").cast(pl.Int64),
            "id",
            "t",
            pl.col(_TEXT).cast(pl.String),
            *(name for name in _RECORDED if name not in _TEXT),
            *lifted,
            spent=pl.coalesce("tokens", some),
        )
        .collect(engine="streaming")
        .with_columns(
            pl.DataFrame(_core.ownership(store_of(corpus))).select(pl.col("owner").cast(pl.String), "is_root")
        )
        .sort("trace", "t", "seq")
        .with_columns(position=pl.int_range(pl.len()).over("trace"))
    )
    counted = pl.when(pl.col("spent").is_not_null().any().over("trace")).then(pl.col("spent").fill_null(0))
    fresh_tool = pl.col("tool").is_not_null() & pl.struct("trace", "tool").is_first_distinct()
    fresh_owner = pl.col("owner").is_not_null() & pl.struct("trace", "owner").is_first_distinct()
    events = events.with_columns(
        spent=counted,
        fresh_tool=fresh_tool,
        fresh_owner=fresh_owner.cast(pl.Int64),
        # the sum of hashes does not depend on the order in which tools were first used
        mark=pl.when(fresh_tool).then(pl.col("tool").hash(0)).otherwise(pl.lit(0, pl.UInt64)),
        decides=(pl.col("type") == "orchestrator_decision").cast(pl.Int64).cum_sum().over("trace", "owner"),
    )
    spawns = (pl.col("type") == "spawn").any().over("trace", "owner", "decides")
    # Wider than the counts: their sum may exceed 64 bits.
    wide = pl.col("spent").cast(pl.Int128)
    total = wide.sum().over("trace")
    so_far = wide.cum_sum().over("trace")
    rows = events.with_columns(
        tokens_before=_as_count(so_far - wide),
        tokens_after=pl.when(so_far.is_not_null()).then(_as_count(total - so_far)),
        seconds_after=pl.col("t").max().over("trace") - pl.col("t"),
        n_tools=pl.col("fresh_tool").cast(pl.Int64).cum_sum().over("trace")
        - pl.col("fresh_tool").cast(pl.Int64),
        n_agents=pl.col("fresh_owner").cum_sum().over("trace") - pl.col("fresh_owner"),
        tools=pl.col("mark").cum_sum().over("trace") - pl.col("mark"),
        spawned=pl.when(pl.col("type") == "orchestrator_decision").then(spawns),
    )
    rows = rows.filter(pl.col("owner").is_not_null() & pl.col("type").is_in(DECISIONS))
    recorded = roles(events)
    rows = with_role_so_far(rows, recorded, "owner", "owner_role")
    rows = rows.with_columns(_addressed(rows, events, recorded))
    rows = with_depth_so_far(rows, superiors(corpus, events), "depth")
    log = {name: (1.0 + pl.col(of)).log(2).floor().cast(pl.Int64) for name, of in _BUCKETS.items()}
    return rows.with_columns(**log, agent="owner", role="owner_role", tokens="spent").drop(
        "owner", "owner_role", "spent", "fresh_tool", "fresh_owner", "mark", "decides"
    )


def _addressed(rows: pl.DataFrame, events: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Of each addressee its role as recorded so far, whether one comes later, and if it is of the team."""
    acting = ~pl.col("type").is_in(["spawn", "despawn"])
    # agents outside of the team are marked by a role on an event that they own (D4)
    outside = events.filter(pl.col("role").is_in(_OUTSIDE) & acting).select("trace", "agent").unique()
    with_outside = recorded.join(
        outside.with_columns(outside=True), on=["trace", "agent"], how="full", coalesce=True
    ).with_columns(has_role=pl.any_horizontal(pl.col("own_role", "named_role").is_not_null()))
    place = pl.int_range(pl.len(), dtype=pl.UInt32)
    named = rows.select("trace", "position", "owner", "to", place=place).filter(pl.col("to").is_not_null())
    named = with_role_so_far(named, with_outside, "to", "to_role", also=("outside", "has_role"))
    other = (pl.col("to") != pl.col("owner")) & (pl.col("to") != "user") & pl.col("outside").is_null()
    named = named.select(
        "place",
        "to_role",
        to_team=other.fill_null(False),
        role_told_later=pl.col("to_role").is_null() & pl.col("has_role").fill_null(False),
    )
    addressed = rows.select(place=place).join(named, on="place", how="left", maintain_order="left")
    return addressed.select("to_role", pl.col("to_team", "role_told_later").fill_null(False))


def delegations() -> pl.Expr:
    """Whether a decision is a delegation: a spawn, or a message of the root, to another agent (D18)."""
    by_message = (pl.col("type") == "message") & pl.col("is_root")
    return ((pl.col("type") == "spawn") | by_message) & pl.col("to_team")


def delegate_role() -> pl.Expr:
    """The role of a delegate as recorded up to the decision, else its name (D32)."""
    return pl.coalesce("to_role", "to")


_BUCKETS: Final = {"step": "position", "budget": "tokens_before"}


def flag(rows: pl.DataFrame, expression: pl.Expr, name: str) -> pl.Series:
    """What an expression of a caller says of every row: true, false or null.

    Raises
    ------
    ParameterError
        It names an unknown column, or does not give one truth value per row.
    """
    answers = _evaluated(rows, expression, name)
    if answers.dtype not in (pl.Boolean, pl.Null):
        raise ParameterError(f"{name} gives {answers.dtype}, expected true or false for every decision")
    return answers.cast(pl.Boolean)


def number(rows: pl.DataFrame, expression: pl.Expr, name: str) -> pl.Series:
    """A number of every row, by an expression of a caller."""
    answers = _evaluated(rows, expression, name)
    if not (answers.dtype.is_numeric() or answers.dtype == pl.Null):
        raise ParameterError(f"{name} gives {answers.dtype}, expected a number for every decision")
    return answers.cast(pl.Float64)


def _evaluated(rows: pl.DataFrame, expression: pl.Expr, name: str) -> pl.Series:
    for column in expression.meta.root_names():
        if column not in rows.columns:
            raise ParameterError(f"{name}: " + unknown_name("column", column, rows.columns))
    try:
        answers = rows.select(pl.repeat(True, pl.len()), answer=expression)["answer"]
    except pl.exceptions.PolarsError as error:
        raise ParameterError(f"{name}: {str(error).splitlines()[0]}") from None
    return answers


def named_columns(rows: pl.DataFrame, names: object, option: str) -> list[str]:
    """Columns of the rows that a caller names.

    Raises
    ------
    ParameterError
        No list of names, or a name that no column has.
    """
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ParameterError(f"{option} is {names!r}, expected a list of columns of the decisions")
    columns = list(names)
    for column in columns:
        if not isinstance(column, str) or column not in rows.columns:
            raise ParameterError(f"{option}: " + unknown_name("column", str(column), rows.columns))
        if rows[column].dtype.is_nested():
            raise ParameterError(f"{option}: column '{column}' holds lists, expected numbers or words")
    return columns


def params_text(params: Mapping[str, object]) -> str:
    """All options of a call as one JSON text, keys sorted; expressions as Polars spells them."""

    def plain(value: object) -> object:
        if isinstance(value, pl.Expr):
            return str(value)
        if isinstance(value, float) and value != value:
            return None
        return value

    return json.dumps(
        {key: plain(params[key]) for key in sorted(params)}, default=in_json, ensure_ascii=False
    )
