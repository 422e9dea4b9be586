"""Epochs of recordings: where each run could have been stopped, and what was known there."""

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Number
from ..base.division import Arguments, Division, Order, Pieces
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..corpus.reward import Reward, amounts
from .answers import COSTS
from .epochs import EPOCHS
from .features import with_scores

Source = Literal["draft", "decision", "score", "attempt", "turn"]

_DRAFTS: Final = ("orchestrator_decision", "aggregate")
_IN_TRACE: Final = ("draft", "decision", "score", "turn")
DECIDED: Final = ("stop", "continue")
"""What a recorded decision about stopping has in ``action``."""


def check_source(arguments: Arguments, pieces: Pieces) -> None:
    """Refuse tasks of attempts.

    Raises
    ------
    ParameterError
        The rows are numbered by their group in the whole corpus.
    """
    if "attempt" in (arguments.named.get("source"), *arguments.positional):
        raise ParameterError(
            "with source='attempt' a row is numbered by its group in the whole corpus: make this table on one"
            " machine"
        )


@verb(
    rows="an epoch of a run",
    division=Division(check=check_source, order=lambda arguments: Order(by=("trace",))),
)
def epochs(
    corpus: Corpus,
    source: Source | None = None,
    *,
    reward: Reward | None = "team",
    budget: float | Mapping[str, float] | None = None,
    engine: RunBy = None,
) -> pl.DataFrame:
    """List the epochs at which each recorded run could have stopped, with quality, cost and features so far.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    source
        What an epoch is. ``"draft"``: orchestrator decisions and aggregates with a ``draft_score``, the
        quality of the answer if the run stopped there. ``"decision"``: orchestrator decisions that record
        ``stop`` or ``continue`` as their ``action``. ``"score"``: events of agents with a ``score``.
        ``"turn"``: the last event of each turn of the root agent. ``"attempt"``: the runs of a group, an
        epoch each, by start. None takes for each trace the first of draft, decision, score and turn that it
        has.
    reward
        The outcome y of a run: a channel, or a weighted sum of channels. None leaves y null.
    budget
        What a run might spend: a number of tokens, or numbers by cost (``"epochs"``, ``"tokens"``,
        ``"seconds"``, ``"usd"``); it adds the feature ``x_budget_left``. No recording contains a budget.
    engine
        Who computes a corpus on disk, as in `credit`.

    Returns
    -------
    DataFrame
        One row per run and epoch k = 1..K, in canonical order: ``trace`` (UInt32; of attempts the number of
        the group) ``trace_id task_id group_id`` (String) ``k`` (UInt32) ``seq`` (Int64: the epoch's event)
        ``source`` (Enum) ``q`` (quality if stopped here; null without a draft or attempt) ``s`` (score)
        ``tokens seconds usd`` (Float64: of all events up to this one, whoever's; null if the run records
        none) ``last`` (Boolean) ``y`` (Float64) ``end`` (``agent`` if the last decision was to stop,
        ``budget`` where the recording is cut, else ``unknown``), then features ``x_...`` (Float64) and for
        each that may be absent ``x_..._missing`` (UInt8).
        ``x_tainted`` is 1 once untrusted content has reached an event that it did not begin at, null until an
        event says whether it is trusted; ``x_budget_left`` is the share of the budget that is left, of
        several budgets the least, below 0 where a run spent more.

    Raises
    ------
    ParameterError
        An unknown source, channel or cost, or a budget that is not a number above 0.

    Notes
    -----
    No feature sees an event after its epoch: a trace that is cut there has the same. O(events log events).
    Source: docs/reference/definitions.md, D29.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=4, seed=0)
    >>> table = ot.stopping.epochs(corpus, "turn")
    >>> table.group_by("trace").agg(table["last"].sum() == 4).height
    4
    """
    budgets = _budgets(budget)
    rewards = _NO_REWARDS
    if reward is not None and len(corpus):
        rewards = amounts(corpus, reward).select("trace", y="reward")
    if source == "attempt":
        return _with_missing(_left(_attempts(corpus, rewards), budgets))
    points = pl.concat([_piece(piece, source) for piece in corpus.slices()])
    facts = corpus.traces.select("trace", "trace_id", "task_id", "group_id", "partial")
    rows = points.join(facts.collect(engine="streaming"), on="trace", how="left", maintain_order="left")
    rows = rows.join(rewards, on="trace", how="left", maintain_order="left")
    rows = rows.with_columns(
        last=pl.col("k") == pl.col("k").max().over("trace"),
        end=pl.when("partial")
        .then(pl.lit("budget"))
        .when(pl.col("decided").last().over("trace") == "stop")
        .then(pl.lit("agent"))
        .otherwise(pl.lit("unknown")),
    )
    return _with_missing(_left(_laid_out(rows), budgets))


def _budgets(budget: float | Mapping[str, float] | None) -> dict[str, float]:
    """What may be spent, by cost."""
    if budget is None:
        return {}
    limits: dict[str, float] = {}
    for name, most in (budget if isinstance(budget, Mapping) else {"tokens": budget}).items():
        if name not in COSTS:
            raise ParameterError(unknown_name("cost", str(name), list(COSTS)))
        if not Number(above=0).has(most):
            raise ParameterError(f"budget is {briefly(most)} {name}, expected a finite number above 0")
        limits[name] = most
    return limits


def _left(rows: pl.DataFrame, budgets: dict[str, float]) -> pl.DataFrame:
    """Beside rows of epochs, the share of the tightest budget that is left; null where no cost is known."""
    if not budgets:
        return rows
    spent = rows.select(pl.col("k" if name == "epochs" else name).cast(pl.Float64) for name in budgets)
    # Polars divides one row and many by a number in different ways, whose last bits differ
    with np.errstate(over="ignore"):
        left = 1.0 - spent.fill_null(np.nan).to_numpy() / np.array(list(budgets.values()), np.float64)
    # divided by a budget next to 0, the spending overflows
    least = np.where(np.isfinite(left), left, np.inf).min(axis=1)
    share = pl.Series(np.where(least < np.inf, least, np.nan), dtype=pl.Float64).fill_nan(None)
    return rows.with_columns(x_budget_left=share)


_NO_REWARDS: Final = pl.DataFrame(schema={"trace": pl.UInt32, "y": pl.Float64})


def _laid_out(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of epochs, then those of features."""
    named = [pl.col(name).cast(dtype) for name, dtype in EPOCHS.items()]
    quality = pl.col("q")
    before = [quality.shift(n).over("trace") for n in (1, 2, 3)]
    rows = rows.sort("trace", "k", maintain_order=True).with_columns(x_k=pl.col("k").cast(pl.Float64))
    rows = with_scores(rows).with_columns(
        x_q=quality,
        x_q_best=quality.cum_max().over("trace"),
        **{
            f"x_q_delta{n}": pl.when((quality - earlier).is_finite()).then(quality - earlier)
            for n, earlier in enumerate(before, 1)
        },
    )
    features = [name for name in rows.columns if name.startswith("x_")]
    return rows.select(*named, *(pl.col(name).cast(pl.Float64) for name in features))


def _with_missing(rows: pl.DataFrame) -> pl.DataFrame:
    names = [name for name in rows.columns if name.startswith("x_") and name != "x_k"]
    return rows.with_columns(pl.col(name).is_null().cast(pl.UInt8).alias(f"{name}_missing") for name in names)


def _piece(corpus: Corpus, source: Source | None) -> pl.DataFrame:
    """Epochs of the traces of a piece, without what is known of whole runs."""
    events = _tainted(corpus, so_far(corpus)).with_columns(_epoch_of(source).alias("source"))
    epoch = pl.col("source").is_not_null()
    events = events.with_columns(epochs_before=_so_far(epoch) - epoch.cast(pl.Int64))
    return (
        _compared(events)
        .filter(epoch)
        .with_columns(
            k=pl.int_range(1, pl.len() + 1).over("trace"),
            q=pl.when(pl.col("source").is_in(["draft", "decision"])).then("draft_score"),
            decided=pl.when(pl.col("source") == "decision").then("action"),
            s=pl.when(pl.col("source") != "turn").then("score"),
        )
    )


def _tainted(corpus: Corpus, events: pl.DataFrame) -> pl.DataFrame:
    """Beside events in canonical order, whether untrusted content has reached another event so far (D17).

    Content that gets anywhere takes a first edge, away from an event that it began at: nothing more of the
    closure is needed. O(edges + events log events).
    """
    key = ["trace", "seq"]
    marks = corpus.events.select(*key, "trusted", "sanitizer").collect()
    events = events.join(marks, on=key, how="left", maintain_order="left").with_columns(
        place=pl.int_range(pl.len())
    )
    stops = pl.col("sanitizer").fill_null(False) | (pl.col("type") == "human_intervention")
    seed = ~pl.col("trusted").fill_null(True)
    ends = events.select(*key, "place", seed=seed & ~stops, plain=~seed & ~stops)
    carried = corpus.edges.filter(pl.col("type") != "temporal").select("trace", "src", "dst").collect()
    begun = ends.filter("seed").select("trace", src="seq", begun="place")
    reached = ends.filter("plain").select("trace", dst="seq", place="place")
    first = carried.join(begun, on=["trace", "src"]).join(reached, on=["trace", "dst"])
    # an edge is there once both of its ends are
    places = first.select(place=pl.max_horizontal("begun", "place")).unique()
    is_marked, is_tainted = pl.col("trusted").is_not_null(), pl.col("place").is_in(places["place"].implode())
    return events.with_columns(
        x_tainted=pl.when(_so_far(is_marked) > 0).then((_so_far(is_tainted) > 0).cast(pl.Float64))
    ).drop("place", "trusted", "sanitizer")


def so_far(corpus: Corpus) -> pl.DataFrame:
    """Events of a corpus in memory in canonical order, with costs and counts of all events up to each.

    Beside the columns of events that epochs read: ``owner turn is_root`` of `_core.ownership`, ``tokens usd
    seconds`` (cumulative), and ``x_...`` of definition D29.
    """
    store = store_of(corpus)
    owned = pl.DataFrame(_core.ownership(store)).select("trace", "seq", "owner", "turn", "is_root")
    clock = corpus.traces.select(
        "trace", clocked=pl.col("time_basis").is_in(["seconds", "partial"])
    ).collect()
    columns = ("trace", "seq", "t", "type", "to", "tool", "content_ref", "content_hash", "args_hash", "ok")
    events = corpus.events.select(*columns, "tokens", "cost_usd", "score", "draft_score", "action").collect()
    events = events.join(owned, on=["trace", "seq"], how="left", maintain_order="left")
    events = events.join(clock, on="trace", how="left", maintain_order="left")
    events = events.sort("trace", "t", "seq", maintain_order=True)
    text = ("owner", "to", "tool", "action")
    events = events.with_columns(pl.col(text).cast(pl.String), pl.col("type").cast(pl.String))
    return _counted(events)


def _epoch_of(source: Source | None) -> pl.Expr:
    """What makes an event an epoch, of the first source that its trace has; else null."""
    draft = pl.col("type").is_in(_DRAFTS) & pl.col("draft_score").is_not_null()
    decides = (pl.col("type") == "orchestrator_decision") & pl.col("action").is_in(DECIDED).fill_null(False)
    score = pl.col("score").is_not_null() & pl.col("owner").is_not_null()
    of_root = pl.col("is_root").fill_null(False) & pl.col("turn").is_not_null()
    turn = of_root & (pl.int_range(pl.len()) == pl.len() - 1).over("trace", "turn")
    marks = {"draft": draft, "decision": decides, "score": score, "turn": turn}
    label = pl.lit(None, pl.String)
    for name in reversed(_IN_TRACE if source is None else (source,)):
        has = marks[name].any().over("trace")
        label = pl.when(has).then(pl.when(marks[name]).then(pl.lit(name))).otherwise(label)
    return label


def _first(*keys: str) -> pl.Expr:
    """Whether an event is the first of its trace with these values, none of them null."""
    present = pl.all_horizontal(pl.col(key).is_not_null() for key in keys)
    return present & (pl.int_range(pl.len()).over("trace", *keys) == 0)


def _so_far(flags: pl.Expr) -> pl.Expr:
    return flags.cast(pl.Int64).cum_sum().over("trace")


def _counted(events: pl.DataFrame) -> pl.DataFrame:
    """Costs and counts up to every event, in canonical order."""
    is_a = {
        name: pl.col("type") == name for name in ("spawn", "despawn", "return", "tool_call", "tool_result")
    }
    events = events.with_columns(
        content=pl.coalesce("content_hash", "content_ref"),
        call=pl.when(is_a["tool_call"]).then(
            pl.concat_str("tool", pl.lit("\x00"), pl.coalesce("args_hash", "content_ref"))
        ),
        spawned=pl.when(is_a["spawn"]).then("to"),
        ended=pl.when(is_a["return"]).then("owner").when(is_a["despawn"]).then("to"),
    )
    # an agent that was spawned and has ended is closed
    births = events.filter(_first("spawned")).select("trace", ended="spawned", made_at="t", made_seq="seq")
    events = events.join(births, on=["trace", "ended"], how="left", maintain_order="left")
    after = (pl.col("t") > pl.col("made_at")) | (
        (pl.col("t") == pl.col("made_at")) & (pl.col("seq") > pl.col("made_seq"))
    )
    events = events.with_columns(closed=pl.when(after).then("ended"))
    judged, failed = pl.col("ok").is_not_null(), (~pl.col("ok")).fill_null(False)
    errors = _so_far(failed)
    at_success = pl.when(pl.col("ok").fill_null(False)).then(errors).forward_fill().over("trace").fill_null(0)
    calls, distinct = _so_far(pl.col("call").is_not_null()), _so_far(_first("call"))
    seconds = pl.col("t") - pl.col("t").first().over("trace")
    return events.with_columns(
        tokens=_spent("tokens"),
        usd=_spent("cost_usd"),
        seconds=pl.when("clocked").then(seconds),
        x_open_agents=_so_far(_first("spawned")) - _so_far(_first("closed")),
        x_pending=(_so_far(is_a["tool_call"]) - _so_far(is_a["tool_result"])).clip(lower_bound=0),
        x_duplicate_calls=pl.when(calls > 0).then(1.0 - distinct / calls),
        x_errors=pl.when(_so_far(judged) > 0).then(errors),
        x_error_run=pl.when(_so_far(judged) > 0).then(errors - at_success),
        x_n_agents=_so_far(_first("owner")),
    )


def _spent(name: str) -> pl.Expr:
    """The sum up to each event; null until an event records any."""
    # as floats, since sums of the largest counts overflow
    running = pl.col(name).cast(pl.Float64).fill_null(0.0).cum_sum().over("trace")
    return pl.when(_so_far(pl.col(name).is_not_null()) > 0).then(running)


def _compared(events: pl.DataFrame) -> pl.DataFrame:
    """Whether returns since the epoch before agree, and for how many epochs the content has been the same."""
    key = ["trace", "epochs_before"]
    returned = events.filter((pl.col("type") == "return") & pl.col("content").is_not_null())
    counts = returned.group_by(*key, "content").len()
    agreed = counts.group_by(key).agg(x_agreement=pl.col("len").max() / pl.col("len").sum())
    events = events.join(agreed, on=key, how="left", maintain_order="left")
    at = events.filter(pl.col("source").is_not_null()).select("trace", "seq", "content")
    new = (pl.col("content").ne_missing(pl.col("content").shift(1)) | pl.col("content").is_null()).over(
        "trace"
    )
    run = at.with_columns(run=new.cast(pl.Int64).cum_sum().over("trace")).with_columns(
        x_unchanged=pl.when(pl.col("content").is_not_null()).then(pl.int_range(pl.len()).over("trace", "run"))
    )
    unchanged = run.select("trace", "seq", "x_unchanged")
    return events.join(unchanged, on=["trace", "seq"], how="left", maintain_order="left")


def _attempts(corpus: Corpus, rewards: pl.DataFrame) -> pl.DataFrame:
    """An epoch for each finished run of a group; the quality is the best reward so far."""
    facts = corpus.traces.filter(~pl.col("partial").fill_null(False)).select(
        "trace", "trace_id", "task_id", "group_id", "started_at"
    )
    rows = facts.collect(engine="streaming").join(rewards, on="trace", how="left", maintain_order="left")
    rows = rows.filter(pl.col("y").is_not_null()).sort("task_id", "group_id", "started_at", "trace_id")
    spent = corpus.events.group_by("trace").agg(
        tokens=pl.when(pl.col("tokens").count() > 0).then(pl.col("tokens").cast(pl.Float64).sum()),
        usd=pl.when(pl.col("cost_usd").count() > 0).then(pl.col("cost_usd").sum()),
        seconds=(pl.col("t").max() - pl.col("t").min()),
    )
    clock = corpus.traces.select("trace", clocked=pl.col("time_basis").is_in(["seconds", "partial"]))
    rows = rows.join(spent.collect(engine="streaming"), on="trace", how="left", maintain_order="left")
    rows = rows.join(clock.collect(engine="streaming"), on="trace", how="left", maintain_order="left")
    group = ["task_id", "group_id"]
    rows = rows.with_columns(seconds=pl.when("clocked").then("seconds"))
    rows = rows.with_columns(
        pl.col("tokens", "usd", "seconds").cum_sum().over(group),
        k=pl.int_range(1, pl.len() + 1).over(group),
        q=pl.col("y").cum_max().over(group),
        s=pl.lit(None, pl.Float64),
        number=(pl.struct(group).rank("dense") - 1).cast(pl.UInt32),
    )
    rows = rows.with_columns(
        trace=pl.col("number"),
        trace_id=pl.concat_str("task_id", pl.lit("/"), pl.col("group_id").fill_null("")),
        y=pl.col("q").last().over(group),
        last=pl.col("k") == pl.col("k").max().over(group),
        seq=pl.lit(None, pl.Int64),
        source=pl.lit("attempt"),
        end=pl.lit("unknown"),
    )
    return _laid_out(rows)
