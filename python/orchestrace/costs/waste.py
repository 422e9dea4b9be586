"""What runs spent in vain: retries, errors, loops, duplicates, work that led nowhere."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum
from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.division import Arguments, Division
from ..base.engines import RunBy
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.sums import ordered_total, total
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..schedules.scheduling import MaxGap, timing_options
from .price_list import PlannedPrices, Prices, list_of
from .pricing import runs_of, spent
from .tool_uses import USES, reading_tools, with_named_uses

By = Literal["class", "tool", "error", "shape"]

CLASSES: Final = pl.Enum(["retry", "error", "loop", "duplicate", "orphan", "dead", "useful"])
"""The classes of events, in the order in which they are tried."""
_SHARE_OF: Final = pl.Enum(["usd", "tokens", "seconds"])
_KEYS: Final[dict[By, tuple[str, ...]]] = {
    "class": ("class",),
    "tool": ("class", "tool"),
    "error": ("class", "tool", "error_type"),
    "shape": ("class", "tool", "role", "depth"),
}
_AMOUNTS: Final[dict[str, Any]] = {
    "tokens": pl.Int64,
    "unpriced_tokens": pl.Int64,
    "usd": pl.Float64,
    "seconds": pl.Float64,
    "seconds_critical": pl.Float64,
}
_SUMS: Final[dict[str, Any]] = {
    **_AMOUNTS,
    "tokens_after": pl.Int64,
    "usd_after": pl.Float64,
    "loss_share": pl.Float64,
    "share_of": _SHARE_OF,
    "usd_reason": CREDITS["reason"],
    "reason": CREDITS["reason"],
}
"""Columns of what `waste` returns, after its keys and counts."""
_COUNTS: Final = ("tokens", "unpriced_tokens", "tokens_after")
_FLOATS: Final = ("usd", "seconds", "seconds_critical", "usd_after")
EVENTS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "seq": pl.UInt32(),
        "class": CLASSES,
        "tool": pl.String(),
        "error_type": pl.String(),
        "owner": pl.String(),
        "role": pl.String(),
        "depth": pl.UInt32(),
        "call": pl.UInt32(),
        "made_by": pl.UInt32(),
        "after_answer": pl.Boolean(),
        **_AMOUNTS,
        "usd_reason": CREDITS["reason"],
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `waste_events` returns."""


def _prepared(corpus: Corpus, arguments: Arguments) -> Arguments:
    """Tools by name, and the prices of a file as they are now: tasks run elsewhere and later."""
    arguments = with_named_uses(corpus, arguments)
    prices = arguments.by_name(waste_events)["prices"]
    if prices is None or (isinstance(prices, str) and prices == "package"):
        return arguments
    listed = list_of(prices).with_columns(pl.col(pl.Date).cast(pl.String))
    return arguments.replacing(prices=PlannedPrices(listed.to_dict(as_series=False)))


@verb(rows="an event", division=Division(prepare=_prepared, narrowed=(*USES, "prices")))
def waste_events(
    corpus: Corpus,
    *,
    reading: Iterable[str] = (),
    writing: Iterable[str] = (),
    prices: Prices = "package",
    batch: bool = False,
    max_gap: MaxGap = "auto",
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Say of every event whether it was in vain, and what it cost.

    Parameters
    ----------
    corpus
        The recordings.
    reading, writing
        Tools that only read, beside those that the package lists, and tools that do more, though it lists
        them: names, or patterns such as ``"get_*"``. What is in neither list counts as writing.
    prices, batch
        As in `costs.table`.
    max_gap
        As in `metrics`.
    engine
        What computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per event, in the order of the corpus: ``trace seq`` (UInt32); ``class`` (Enum), the first
        that fits: ``retry``, a failed call that its agent makes again later; ``error``, another failed
        call; ``loop``, calls of one agent that repeat with a period of four at most, three times or
        more in a row, without a failure, from the second time on; ``duplicate``, a call of a reading
        tool with arguments that it had before, without a call of another tool than reading ones since;
        ``orphan``, events without a path to the outcome of an agent that was spawned, never returned
        and was not dismissed; ``dead``, others without one; ``useful``. Results are of the class of
        their call.

        ``tool`` (String) of calls and their results; ``error_type`` (String) of failed ones, which is
        ``x_error_type`` of the call, else of its first result that has it, null where neither does;
        ``owner role`` (String), ``depth`` (UInt32) below the root; ``call`` (UInt32), the call that the
        event is or answers, and ``made_by``, the decision or message that made the call. ``after_answer``
        (Boolean): it came after the answer stood, which is the first draft that passes (whose
        ``draft_score`` is 1) where drafts are judged, else the outcome.

        ``tokens unpriced_tokens`` (Int64), ``usd seconds seconds_critical`` (Float64): what the event cost;
        the last is the part on the critical path. What an event cost that made calls is divided equally among
        these calls, so that a retry costs what it took to ask for it, and the event itself is left with 0.
        Null where it is not recorded; ``usd_reason`` says why, ``seconds`` are null where times are steps.
        ``reason`` says why the class is null: ``outcome.absent``, ``outcome.ambiguous``, ``trace.partial``,
        ``graph.cycle``. Calls that are lost by themselves are known even there.

    Raises
    ------
    ParameterError
        An argument is out of range, or a tool that no trace has.
    InputError, SchemaError
        The list of prices cannot be read.

    Notes
    -----
    Calls are equal if tool and ``args_hash`` (else ``content_ref``) are; without these there are no
    retries, loops and duplicates. A tool that is in no list may change what others read, so that what
    follows it is no duplicate; calls that are issued at one time count as made one after the other. What
    is done by people, scorers and the environment costs the team nothing: ``useful``. Polling is a loop
    by design, a failure may have taught something, and what has no recorded edge looks dead. Definition:
    docs/reference/definitions.md, D38. O(events + edges + calls log calls).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> events = ot.costs.waste_events(corpus)
    >>> events.height == corpus.events.collect().height
    True
    >>> events["tokens"].sum() == ot.costs.table(corpus)["tokens"].sum()
    True
    """
    request = _Request(tuple(reading_tools(corpus, reading, writing)), prices, batch, max_gap, threads)
    with reporting(progress, "looking for waste") as callback:
        return pl.concat(list(_of_pieces(corpus, request, callback)))


@dataclass(frozen=True)
class _Request:
    """What both verbs are called with, tools by name."""

    reading: tuple[str, ...]
    prices: Prices
    batch: bool
    max_gap: MaxGap
    threads: int | None


def _of_pieces(corpus: Corpus, request: _Request, progress: Any) -> Iterator[pl.DataFrame]:
    """The rows of `waste_events`, piece by piece."""
    listed, runs, times = (
        list_of(request.prices),
        runs_of(corpus),
        timing_options("auto", request.max_gap, False),
    )
    for piece in corpus.slices():
        store = store_of(piece)
        classes = pl.DataFrame(
            _core.waste_events(store, reading=request.reading, threads=request.threads, progress=progress)
        )
        schedule = pl.DataFrame(_core.schedule(store, _AS_RECORDED, **times, threads=request.threads))
        dollars = spent(piece.events, runs, listed, batch=request.batch)
        yield _attributed(_priced(classes, schedule, dollars), piece)


_AS_RECORDED: Final[dict[str, object]] = {
    **{"changes": [], "slots": None},
    **{"pool": "all", "queue": "recorded", "release": "none"},
}


def _priced(classes: pl.DataFrame, schedule: pl.DataFrame, dollars: pl.DataFrame) -> pl.DataFrame:
    """Classes with what each event spent by itself."""
    in_seconds = pl.col("unit").cast(pl.String) == "seconds"
    timed = schedule.select(
        seconds=pl.when(in_seconds).then("duration"),
        seconds_critical=pl.when(in_seconds & pl.col("critical").is_not_null()).then(
            pl.when("critical").then("duration").otherwise(0.0)
        ),
    )
    priced = dollars.select(
        *("trace", "seq", "tokens"),
        unpriced_tokens=pl.when(pl.col("cost_usd").is_null())
        .then(pl.col("tokens").fill_null(0))
        .otherwise(0),
        usd="cost_usd",
        usd_reason="reason",
    )
    return classes.hstack(timed).join(priced, on=["trace", "seq"], how="left", maintain_order="left")


def _attributed(rows: pl.DataFrame, piece: Corpus) -> pl.DataFrame:
    """What events cost that made calls, divided among their calls; with role and depth of owners."""
    # events of a trace are neighbours, in the order of `seq`
    is_made = pl.col("made_by").is_not_null()
    rows = rows.with_row_index("row").with_columns(
        maker=pl.when(is_made).then(pl.col("row").cast(pl.Int64) - pl.col("seq") + pl.col("made_by"))
    )
    calls = rows.filter(is_made).select(
        "row",
        "maker",
        n=pl.len().over("maker").cast(pl.Int64),
        at=pl.int_range(pl.len()).over("maker").cast(pl.Int64),
    )
    of_makers = rows.select(*_AMOUNTS)[calls["maker"]]
    n, at = pl.col("n"), pl.col("at")
    parts = pl.concat([calls, of_makers, rows.select("usd_reason")[calls["maker"]]], how="horizontal").select(
        "row",
        *(
            (pl.col(name) // n + (at < pl.col(name) % n).cast(pl.Int64)).alias(f"{name}_part")
            for name in ("tokens", "unpriced_tokens")
        ),
        *((pl.col(name) / n).alias(f"{name}_part") for name in ("usd", "seconds", "seconds_critical")),
        reason_part="usd_reason",
    )
    makers = calls.select(row=pl.col("maker").cast(pl.UInt32), makes=True).unique("row")
    rows = rows.join(parts, on="row", how="left", maintain_order="left").join(
        makers, on="row", how="left", maintain_order="left"
    )
    rest = {
        name: pl.when(pl.col("makes") & pl.col(name).is_not_null()).then(0).otherwise(pl.col(name))
        for name in _AMOUNTS
    }
    amounts = {
        name: pl.when(left.is_not_null() | pl.col(f"{name}_part").is_not_null()).then(
            left.fill_null(0) + pl.col(f"{name}_part").fill_null(0)
        )
        for name, left in rest.items()
    }
    agents = piece.agents.select(
        "trace", pl.col("role").cast(pl.String), "depth", owner=pl.col("agent").cast(pl.String)
    ).collect()
    rows = rows.with_columns(
        pl.col("tool", "owner", "class").cast(pl.String),
        **amounts,
        usd_reason=pl.when(pl.col("makes").is_null()).then("usd_reason").fill_null(pl.col("reason_part")),
    ).join(agents, on=["trace", "owner"], how="left", maintain_order="left")
    rows = rows.with_columns(at=_CALL).join(
        _error_types(rows, piece), on=["trace", "at"], how="left", maintain_order="left"
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in EVENTS.items())


_CALL: Final = pl.coalesce("call", "seq")
"""The call that an event is of, or the event itself."""


def _error_types(rows: pl.DataFrame, piece: Corpus) -> pl.DataFrame:
    """``trace at error_type`` of failed calls: what the call, or the first of its results, names.

    ``at`` is the call, or a result whose call is not recorded.
    """
    names = piece.events.filter(pl.col("extras").str.contains('"x_error_type":', literal=True))
    types = names.select(
        "trace", "seq", error_type=pl.col("extras").str.json_path_match("$.x_error_type")
    ).collect()
    types = types.filter(pl.col("error_type") != "")
    failed = rows.filter(pl.col("class").is_in(["retry", "error"]))
    return (
        failed.select("trace", "seq", at=_CALL)
        .join(types, on=["trace", "seq"], how="inner", maintain_order="left")
        .group_by("trace", "at", maintain_order=True)
        .agg(pl.col("error_type").first())
    )


@verb
def waste(
    corpus: Corpus,
    *,
    by: By = "tool",
    reading: Iterable[str] = (),
    writing: Iterable[str] = (),
    prices: Prices = "package",
    batch: bool = False,
    max_gap: MaxGap = "auto",
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Add up what runs spent in vain, the greatest loss first.

    Parameters
    ----------
    corpus
        The recordings.
    by
        ``"class"`` gives a row per class, ``"tool"`` per class and tool, ``"error"`` also per type of the
        error of failed calls, ``"shape"`` per tool, role of the agent and its depth below the root.
    reading, writing, prices, batch, max_gap, threads, progress
        As in `waste_events`.

    Returns
    -------
    DataFrame
        ``class`` (Enum), then as `by` says ``tool error_type role`` (String) and ``depth`` (UInt32); ``traces
        events`` (UInt32); ``tokens unpriced_tokens`` (Int64), ``usd seconds seconds_critical`` (Float64),
        whose sums over all rows are those of the corpus; ``tokens_after`` (Int64) and ``usd_after``
        (Float64): the part that was spent by decisions and messages after the answer stood. Null where
        nothing is recorded, or no event has a price.

        ``loss_share`` (Float64): the part of all that was spent, of the dollars if all tokens have a price,
        else of the tokens, else of the seconds, as ``share_of`` (Enum) says; null where nothing is recorded.
        ``usd_reason`` says why some tokens have no price, ``reason`` why a class is not known. Rows are in
        the order of their loss; then come those without a class, last what was ``useful``.

    Raises
    ------
    ParameterError
        As in `waste_events`, or an unknown word for `by`.
    InputError, SchemaError
        The list of prices cannot be read.

    Notes
    -----
    What is lost by class is what the events of the class cost, not what runs would cost without them: a run
    that had not gone wrong might have gone another way. A class without prices is not cheap, which is why one
    unpriced token makes shares those of tokens. What a recording states of a whole run alone is in no row.
    O(events + edges + calls log calls).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> table = ot.costs.waste(corpus, by="class")
    >>> abs(table["loss_share"].sum() - 1.0) < 1e-9
    True
    """
    keys = [*_KEYS[by], "reason"]
    request = _Request(tuple(reading_tools(corpus, reading, writing)), prices, batch, max_gap, threads)
    with reporting(progress, "looking for waste") as callback:
        # sums of traces first: those of a corpus then do not depend on its pieces
        parts = [_by_trace(events, keys) for events in _of_pieces(corpus, request, callback)]
    table = (
        pl.concat(parts)
        .group_by(keys, maintain_order=True)
        .agg(
            traces=pl.col("trace").n_unique(),
            events=pl.col("events").sum(),
            **{name: total(pl.col(name)) for name in _COUNTS},
            **{name: ordered_total(pl.col(name)) for name in _FLOATS},
            usd_reason=pl.col("usd_reason").min().cast(CREDITS["reason"]),
        )
    )
    return _ranked(table, keys[:-1])


def _by_trace(events: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Sums over the events of each trace, in their order."""
    # what was spent to make a call was spent when it was made up
    makers = events.select("trace", made_by="seq", maker_after="after_answer")
    events = events.join(makers, on=["trace", "made_by"], how="left", maintain_order="left")
    after = pl.coalesce("maker_after", "after_answer")
    later = {
        # 0 of what came before the answer stood, null where that is not known
        f"{name}_after": pl.when(after).then(name).when(~after & pl.col(name).is_not_null()).then(0)
        for name in ("tokens", "usd")
    }
    rows = events.with_columns(**later, usd_reason=pl.col("usd_reason").cast(pl.String))
    return rows.group_by("trace", *keys, maintain_order=True).agg(
        events=pl.len(),
        **{name: total(pl.col(name)) for name in _COUNTS},
        **{name: pl.col(name).drop_nulls().cum_sum().last() for name in _FLOATS},
        usd_reason=pl.col("usd_reason").min(),
    )


def _ranked(table: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Rows with their share of all that was spent, the greatest loss first."""
    spent_by = {name: fsum(table[name].drop_nulls()) for name in ("usd", "tokens", "seconds")}
    is_priced = spent_by["usd"] > 0 and not table["unpriced_tokens"].sum()
    of = "usd" if is_priced else next((name for name in ("tokens", "seconds") if spent_by[name] > 0), None)
    share = pl.lit(None, pl.Float64) if of is None else pl.col(of).fill_null(0) / spent_by[of]
    is_lost = pl.col("class").is_not_null() & (pl.col("class") != "useful")
    place = pl.when(is_lost).then(0).when(pl.col("class").is_null()).then(1).otherwise(2)
    ranked = table.with_columns(loss_share=share, share_of=pl.lit(of, _SHARE_OF)).sort(
        [place, *(pl.col(name) for name in ("loss_share", "events", *keys, "reason"))],
        descending=[False, True, True, *(False for _ in keys), False],
        nulls_last=True,
    )
    return ranked.select(
        *keys, "traces", "events", *(pl.col(name).cast(kind) for name, kind in _SUMS.items())
    )
