"""The spawn ledger: what each sub-agent was asked for, what it cost, and whether its answer was used."""

from typing import Any, Final

import polars as pl

from ..base.arguments import Threads
from ..base.division import Arguments, Division, Pieces
from ..base.engines import RunBy
from ..base.progress import Progress
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..credit.division import check_rewards, check_scope, modules_of
from ..credit.verb import credit
from ..metrics.verb import metrics
from ..schedules.scheduling import MaxGap
from .price_list import PlannedPrices, Prices, list_of
from .verb import table

_COUNTED: Final = ("n_turns", "n_tool_calls", "n_tool_errors")
_KINDS: Final = (
    *("tokens", "tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens_reasoning"),
)
_REASONS: Final = ("n_tool_errors", "tokens", "cost_usd", "seconds", "work", "used", "credit")

LEDGER: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "trace_id": pl.String,
    "agent": pl.String,
    "parent": pl.String,
    "role": pl.String,
    "depth": pl.UInt32,
    "n_spawns": pl.UInt32,
    **dict.fromkeys((*_COUNTED, *_KINDS), pl.Int64),
    "cost_usd": pl.Float64,
    "basis": None,
    "unpriced_share": pl.Float64,
    "floor": pl.Boolean,
    "seconds": pl.Float64,
    "work": pl.Float64,
    "critical": pl.Boolean,
    "critical_work": pl.Float64,
    "time_unit": None,
    "answered": pl.Boolean,
    "used": pl.Boolean,
    "credit": pl.Float64,
    "reason": pl.Struct({name: CREDITS["reason"] for name in _REASONS}),
}
"""Columns of what `spawns` returns; None where another table has the type."""


def _with_prices(corpus: Corpus, arguments: Arguments) -> Arguments:
    """The prices of a file as they are now: tasks run elsewhere and later."""
    options = arguments.by_name(spawns)
    if options["reward"] is not None:
        check_rewards(corpus, {**options, "missing": "null"})
    if options["prices"] is None or options["prices"] == "package":
        return arguments
    listed = list_of(options["prices"]).with_columns(pl.col(pl.Date).cast(pl.String))
    return arguments.replacing(prices=PlannedPrices(listed.to_dict(as_series=False)))


def _check_method(arguments: Arguments, pieces: Pieces) -> None:
    check_scope(arguments.by_name(spawns), pieces)


def _modules(arguments: Arguments) -> tuple[str, ...]:
    return modules_of(arguments.by_name(spawns))


@verb(
    rows="a sub-agent",
    division=Division(prepare=_with_prices, narrowed=("prices",), check=_check_method, modules=_modules),
)
def spawns(
    corpus: Corpus,
    *,
    prices: Prices = "package",
    batch: bool = False,
    reward: Reward | None = None,
    method: str = "flow",
    max_gap: MaxGap = "auto",
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """List every sub-agent: who asked for it, what it cost, and whether its answer was used.

    Parameters
    ----------
    corpus
        The recordings.
    prices, batch
        As in `costs.table`.
    reward, method
        What is divided among the agents, and how, for ``credit``. None: the channel ``team``, where there is
        one.
    max_gap
        As in `metrics`.
    engine
        What computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per agent that another one spawned, by run and in the order in which they were spawned:
        ``trace`` (UInt32), ``trace_id agent`` (String); ``parent``, who asked for it; ``role``, for what kind
        of work; ``depth`` (UInt32) below the root; ``n_spawns`` (UInt32), how often it was asked for. Its own
        turns, tool calls and errors and tokens by kind (Int64), without those of agents below it.
        ``cost_usd`` (Float64), ``basis unpriced_share floor`` as in `costs.table`. ``seconds`` (Float64):
        from spawn to the last return or despawn, or else to the end of the run; null where times are steps;
        ``work``: its own durations, in ``time_unit``; ``critical``: whether any of it lies on the critical
        path, and ``critical_work``, how much. ``answered``: it returned something to another agent, not as a
        failure; ``used``: such an answer has a path to the outcome, null where it answered and the outcome is
        not known. ``credit`` (Float64): its share of the reward, null without one. ``reason``: a struct that
        says why a number is null.

    Raises
    ------
    ParameterError
        An argument is out of range, or the method divides no reward among agents.

    Notes
    -----
    Tier: all but ``credit`` is read off the recording. That an answer was used says that something read it
    before the outcome, not that it changed the outcome: `effects.spawn` estimates that, over many runs.
    O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.read_traces("data/samples")
    >>> ledger = ot.costs.spawns(corpus)
    >>> bool((ledger["n_spawns"] >= 1).all())
    True
    """
    measured = metrics(corpus, by="agent", max_gap=max_gap, threads=threads, progress=progress)
    # those that are measured: a task of a plan computes some of the traces whose tables it sees
    runs = measured.select("trace", of_run="trace_id").unique("trace", keep="first", maintain_order=True)
    agents = _spawned(corpus, runs["trace"])
    dollars = table(corpus, by="agent", prices=prices, batch=batch)
    paid = _credits(corpus, reward, method, threads)
    rows = (
        agents.join(measured.with_columns(pl.col("agent").cast(pl.String)), on=["trace", "agent"], how="left")
        .join(
            dollars.select(
                "trace", "agent", "basis", "unpriced_share", "floor", priced="cost_usd", why="reason"
            ),
            on=["trace", "agent"],
            how="left",
        )
        .join(paid, on=["trace", "agent"], how="left")
        .join(runs.with_row_index("place"), on="trace", how="left")
        .sort("place", "at", "agent")
    )
    return _shaped(rows)


def _spawned(corpus: Corpus, traces: pl.Series) -> pl.DataFrame:
    """Agents of some traces that another one spawned: ``trace agent parent role depth n_spawns acted at``.

    One that did nothing since is among them: who spawned it and as what is then that of the first spawn.
    """
    mine = pl.col("trace").is_in(traces.implode())
    agents = (
        corpus.agents.filter(mine)
        .select(*("trace", "depth", "first_seq"), pl.col("agent", "kind", "parent", "role").cast(pl.String))
        .collect(engine="streaming")
    )
    spawns = (
        corpus.events.filter(mine, pl.col("type").cast(pl.String) == "spawn", pl.col("to").is_not_null())
        .select("trace", "seq", "t", pl.col("agent", "to", "role").cast(pl.String))
        .sort("trace", "t", "seq")
        .with_row_index("at")
        .group_by("trace", pl.col("to").alias("agent"), maintain_order=True)
        .agg(
            pl.len().alias("n_spawns"),
            pl.col("at").first(),
            pl.col("agent", "role").first().name.prefix("first_"),
        )
        .collect(engine="streaming")
    )
    parents = agents.select("trace", first_agent="agent", above="depth")
    acted = pl.col("first_seq").is_not_null()
    return (
        spawns.join(agents, on=["trace", "agent"], how="left")
        .join(parents, on=["trace", "first_agent"], how="left")
        .with_columns(acted=acted)
        # scorers, humans and the environment are no sub-agents, whoever asked for them
        .filter(
            (pl.col("kind") == "agent") | pl.col("kind").is_null(),
            pl.when(acted)
            .then(pl.col("parent").is_not_null())
            .otherwise(pl.col("first_agent") != pl.col("agent")),
        )
        .select(
            "trace",
            "agent",
            "n_spawns",
            "acted",
            "at",
            parent=pl.coalesce("parent", "first_agent"),
            role=pl.when("acted").then("role").otherwise("first_role"),
            depth=pl.when("acted").then("depth").otherwise(pl.col("above") + 1),
        )
    )


def _credits(corpus: Corpus, reward: Reward | None, method: str, threads: int | None) -> pl.DataFrame:
    """``trace agent credit credit_reason`` of every agent; without rows where no run has the reward."""
    if reward is None and "team" not in corpus.reward_channels():
        kinds = {"trace": pl.UInt32, "agent": pl.String, "credit": pl.Float64, "credit_reason": pl.String}
        return pl.DataFrame(schema=kinds)
    shares = credit(corpus, method=method, unit="agent", reward=reward or "team", threads=threads)
    return shares.select(
        "trace",
        "credit",
        agent=pl.col("unit_id").cast(pl.String),
        credit_reason=pl.col("reason").cast(pl.String),
    )


def _shaped(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of `LEDGER`."""
    timed = pl.col("clock_unit").cast(pl.String) == "seconds"

    def why(name: str) -> pl.Expr:
        return pl.col("reason").struct.field(name).cast(pl.String)

    reasons = {
        "n_tool_errors": pl.when("acted").then(why("n_tool_errors")).otherwise(pl.lit("field.absent")),
        "tokens": pl.when("acted").then(why("tokens")).otherwise(pl.lit("field.absent")),
        "cost_usd": pl.when(pl.col("priced").is_null()).then(
            pl.coalesce(pl.col("why").cast(pl.String), pl.lit("field.absent"))
        ),
        "seconds": pl.when(~pl.col("acted"))
        .then(pl.lit("field.absent"))
        .when(timed)
        .then(why("lifetime"))
        .otherwise(pl.lit("time.steps")),
        "work": pl.when("acted").then(why("work")).otherwise(pl.lit("field.absent")),
        "used": pl.when("answers").then(why("n_answers_used")),
        "credit": pl.when(pl.col("credit").is_null()).then(
            pl.coalesce("credit_reason", pl.lit("reward.absent"))
        ),
    }
    # what never answered was not used, whatever the outcome
    rows = rows.with_columns(answers=pl.when("acted").then(pl.col("n_answers") > 0).otherwise(False))
    shaped = rows.with_columns(
        trace_id="of_run",
        n_spawns=pl.col("n_spawns").fill_null(0),
        cost_usd="priced",
        seconds=pl.when(timed).then("lifetime"),
        critical=pl.when("acted").then(pl.col("critical_work") > 0).otherwise(False),
        answered="answers",
        used=pl.when("answers").then(pl.col("n_answers_used") > 0).otherwise(False),
        **{name: pl.when("acted").then(name).otherwise(0) for name in ("n_turns", "n_tool_calls")},
        reason=pl.struct(reason.cast(CREDITS["reason"]).alias(name) for name, reason in reasons.items()),
    )
    return shaped.select(
        pl.col(name) if kind is None else pl.col(name).cast(kind) for name, kind in LEDGER.items()
    )
