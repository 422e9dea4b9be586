"""Credits as trainer tables: one row per turn, numbers or lists along the tokens."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from ..base.arguments import Count, Discount
from ..base.deferred import Deferred
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import amounts, reward_of
from ..credit.quantities import quantities
from .layouts import LAYOUTS, TOKEN, TURN
from .turns import KEY, agent_uids, members, turns

if TYPE_CHECKING:
    from . import tokens as token_module
else:
    token_module = Deferred("orchestrace.trainers.tokens")

Frame = pl.DataFrame | pl.LazyFrame

_UNITS: Final = ("turn", "event", "token")
_BATCH_EVENTS: Final = 1 << 15
_TOKENS_OF_AN_EVENT: Final = 16
"""Tokens that take, in all lists of a row, what an event takes as Python objects."""
ROW_GROUP: Final = 1 << 13
"""Rows that are held before they are written: with lists along tokens each may take kilobytes."""
_NEEDED: Final = ("trace", "unit", "unit_id", "seq", "credit", "method", "reward", "reason", "params")
_RUN: Final = ("unit", "method", "reward", "params")
_OPTIONAL: Final = ("quantity",)
_CRITICS: Final = ("gae", "sequential_gae", "dag_gae")
"""Methods whose advantages become returns by adding the critic's value."""


@verb
def trainer_table(
    corpus: Corpus,
    credits: Frame,
    *,
    layout: Literal["verl", "trl"] = "verl",
    per: Literal["turn", "token"] = "turn",
    returns: Frame | None = None,
    lambda_: Discount | None = None,
    max_tokens: Count = 10_000_000,
) -> pl.DataFrame:
    """Turn credits into rows that a trainer of policies reads without renaming a column.

    Parameters
    ----------
    corpus
        The recordings.
    credits
        Rows of `credit` of one method with one set of parameters, at unit ``turn``, ``event`` or ``token``.
        Traces that they do not name have no rows.
    layout
        ``"verl"``: columns as in the ``DataProto`` of verl. ``"trl"``: as in the batches of TRL's
        ``GRPOTrainer``.
    per
        ``"turn"``: numbers, one for all tokens of the turn; ``"token"``: lists along the tokens that the turn
        wrote (``tokens_out`` of its events, in canonical order).
    returns
        Rows of `credit` that are returns, of method ``return_to_go`` say, at one of the same units. None: the
        credit itself of ``return_to_go``; of ``gae``, ``sequential_gae`` and ``dag_gae`` the advantage plus
        the turn's ``value``; else null.
    lambda_, max_tokens
        As in `trainers.token_credits`; the former for credits at unit ``token`` only.

    Returns
    -------
    DataFrame
        One row per turn of an agent (D6) in which it wrote something, in order of trace and first event.

        ===================== ============== ==========================================================
        verl                  trl            what it is
        ===================== ============== ==========================================================
        ``trace``             same           UInt32, the key inside of the corpus
        ``trajectory_id``     same           String, the ``trace_id``
        ``uid``               ``group_id``   String, the group of rollouts that are compared (D13)
        ``task_id``           same           String, what was asked: the key of the prompt
        ``prefix_key``        same           String, the recorded key of the context of the turn
        ``agent role turn``   same           String, who acted, and the ``unit_id`` of the turn
        ``turn_index``        same           UInt32, the place of the turn in its trajectory, from 0
        ``agent_step``        same           UInt32, the place of the row among those of its agent in the
                                             trajectory, from 0
        ``agent_uid``         same           String, what the recording calls the agent (``x_agent_id``): of
                                             rLLM the ``uid`` of its trajectory, of which ``agent_step`` is
                                             the step
        ``seqs``              same           List(UInt32), the events of the turn
        ``content_refs``      same           List(String), their texts, by reference
        ``response_length``   same           Int64, tokens of the turn; the length of the lists
        ``advantages``        same           Float64, or List(Float64) per token; units of the reward
        ``returns``           same           the same
        ``reward``            same           Float64, what the turn earned itself, the outcome included
                                             if it is the last of its trace (D14)
        ``sequence_log_prob`` same           Float64, sum of ln ``p_behavior`` where it is recorded
        ``method channel``    same           String, of the credits
        ``reason``            same           String, why ``advantages`` is null; or ``group.degenerate``
        ===================== ============== ==========================================================

        Per token also ``response_mask`` of verl (1 for tokens of the policy, 0 for those of tools, people
        and guards), ``completion_mask`` (1 for all) and ``tool_mask`` of TRL, ``token_level_rewards`` of verl
        (the reward at the last token), and ``old_log_probs`` or ``old_per_token_logps``: a list only if each
        event of the turn wrote one token whose probability is recorded, else null, since the probability of
        an action is not that of its tokens.

        A null stays a null and is never 0. Drop such rows before training:
        ``table.drop_nulls("advantages")``.

    Raises
    ------
    ParameterError
        Credits of several runs or at another unit, an unknown layout, or more tokens than `max_tokens`.

    Notes
    -----
    The policy writes the decisions, messages, returns, spawns, tool calls and aggregates of agents. A turn
    without any of these (only tool results, only a guard's verdict) has no row; its reward counts to the row
    before it. Users, environments and scorers have no turns at all (D4).

    Texts and token ids are not in the recordings' tables: join what a tokenizer made (``prompts``,
    ``responses``, ``prompt`` and ``completion``) by ``content_refs`` or by ``trajectory_id`` and ``seqs``. An
    advantage at unit ``event`` or ``token`` is averaged over the turn, a share is added up (D11). Per token
    an advantage stands at each token of its unit, a share is divided equally among them.

    Some 30 µs per event of the traces, to find their turns. A corpus on disk is worked through piece by
    piece; `export` writes such a table to a file without holding it. Sources: verl, protocol.py and
    core_algos.py; TRL, grpo_trainer.py.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> credits = ot.credit(corpus, method="grpo", unit="turn")
    >>> table = ot.trainers.trainer_table(corpus, credits)
    >>> table.select("uid", "turn", "advantages").columns
    ['uid', 'turn', 'advantages']
    >>> table.height <= credits["unit_id"].count()
    True
    """
    schema, frames = prepared(corpus, credits, layout, per, returns, lambda_, max_tokens)
    return pl.concat([pl.DataFrame(schema=schema), *frames])


def prepared(
    corpus: Corpus,
    credits: Frame,
    layout: str,
    per: str,
    returns: Frame | None,
    lambda_: float | None,
    max_tokens: int,
) -> tuple[pl.Schema, Iterator[pl.DataFrame]]:
    """The schema of a table and its pieces, once the call has been judged."""
    if layout not in LAYOUTS:
        raise ParameterError(unknown_name("layout", str(layout), list(LAYOUTS)))
    if per not in ("turn", "token"):
        raise ParameterError(unknown_name("per", str(per), ["turn", "token"]))
    run = _Run(credits, "credits")
    later = None if returns is None else _Run(returns, "returns")
    names = LAYOUTS[layout].names(per)
    ours = TURN if per == "turn" else TOKEN
    schema = pl.Schema({word: ours[name] for name, word in names.items()})
    options = (run, later, per == "token", lambda_, max_tokens)
    return schema, (
        frame.select(pl.col(name).alias(word) for name, word in names.items())
        for frame in _frames(corpus, *options)
    )


def turn_credits(corpus: Corpus, credits: Frame) -> tuple[bool, Iterator[tuple[Corpus, pl.DataFrame]]]:
    """Whether credits are shares; and traces, some at a time, with what each turn of theirs gets.

    ``trace place seqs credit reason``, a row per turn in which an agent wrote something.
    """
    run = _Run(credits, "credits")

    def pieces() -> Iterator[tuple[Corpus, pl.DataFrame]]:
        for piece, numbers in _batches(corpus, run, None, False):
            events = members(piece)
            rows = turns(events).select(*KEY, "seqs")
            events = events.join(rows.select(KEY), on=KEY, how="semi", maintain_order="left")
            yield piece, rows.join(_by_turn(run, numbers, events), on=KEY, how="left", maintain_order="left")

    return run.is_share, pieces()


class _Run:
    """Credits of one call of `credit`, of which the rows of some traces are asked for."""

    def __init__(self, credits: Frame, label: str) -> None:
        self._rows = credits.lazy()
        names = self._rows.collect_schema().names()
        for name in _NEEDED:
            if name not in names:
                raise ParameterError(f"{label} has no column '{name}' (found: {', '.join(names)})")
        texts = [pl.col(name).cast(pl.String) for name in (*_RUN, *_OPTIONAL) if name in names]
        runs = self._rows.select(texts).unique().collect(engine="streaming")
        if runs.height > 1:
            differs = next(name for name in runs.columns if runs[name].n_unique() > 1)
            raise ParameterError(
                f"{label} has several values of '{differs}': filter it to one method at one unit"
            )
        self.unit, self.method, self.label = runs.row(0)[:3] if runs.height else ("turn", None, None)
        if self.unit not in _UNITS:
            raise ParameterError(
                f"{label} is at unit '{self.unit}': compute it with unit='turn', 'event' or 'token'"
            )
        adds_up = quantities(runs).to_list()
        if adds_up == [None]:
            raise ParameterError(
                f"method '{self.method}' is not registered here, so it is unknown whether its credit adds up:"
                " give the column 'quantity'"
            )
        self.is_share = adds_up == ["share"]
        about = self._rows.select(pl.col("trace").cast(pl.UInt32)).unique()
        self._about = about.collect(engine="streaming")["trace"]

    def load(self, traces: pl.Series) -> None:
        """Hold the rows of some traces that have a unit, and of no others."""
        mine = self._rows.filter(pl.col("trace").is_in(traces.implode()), pl.col("unit_id").is_not_null())
        self._held = mine.with_columns(
            pl.col("trace", "seq").cast(pl.UInt32), pl.col("credit").cast(pl.Float64).fill_nan(None)
        ).collect(engine="streaming")

    def of(self, traces: pl.Series) -> pl.DataFrame:
        """The rows of some of the traces that are held."""
        return self._held.filter(pl.col("trace").is_in(traces.implode()))

    def traces(self, piece: Corpus) -> pl.Series:
        """The traces of a piece that the credits are about, those that they say nothing but a reason of
        included."""
        numbers = piece.traces.select("trace").collect()["trace"]
        return numbers.filter(numbers.is_in(self._about.implode()))


def _frames(
    corpus: Corpus, run: _Run, later: _Run | None, by_token: bool, lambda_: float | None, max_tokens: int
) -> Iterator[pl.DataFrame]:
    """Rows of the turns of each piece, under our own names."""
    paid = _paid(corpus, run.label)
    left = max_tokens
    for piece, numbers in _batches(corpus, run, later, by_token):
        events = members(piece)
        rows = turns(events)
        events = events.join(rows.select(KEY), on=KEY, how="semi", maintain_order="left")
        rows = rows.join(agent_uids(piece), on=["trace", "agent"], how="left", maintain_order="left")
        rows = rows.join(_trace_keys(piece), on="trace", how="left", maintain_order="left")
        rows = _rewarded(rows, paid)
        rows = rows.join(_by_turn(run, numbers, events), on=KEY, how="left", maintain_order="left")
        rows = rows.rename({"credit": "advantages"}).with_columns(returns=_returns(run))
        if later is not None:
            later_returns = _by_turn(later, numbers, events).select(*KEY, returns="credit")
            rows = rows.drop("returns").join(later_returns, on=KEY, how="left", maintain_order="left")
        if by_token:
            # wider than the counts: their sum may exceed 64 bits
            total = int(events["n"].cast(pl.Int128).sum())
            if total > left:
                raise ParameterError(
                    f"the lists would hold more than max_tokens={max_tokens:,} tokens: filter the corpus, "
                    "or raise it"
                )
            left -= total
            rows = _along_tokens(piece, rows, events, run, later, numbers, lambda_, max_tokens)
        yield rows.with_columns(
            turn_index="place",
            method=pl.lit(run.method, pl.String),
            channel=pl.lit(run.label, pl.String),
            reason=pl.col("reason").cast(pl.String),
        ).cast(pl.Schema(TOKEN if by_token else TURN))


def _batches(
    corpus: Corpus, run: _Run, later: _Run | None, by_token: bool
) -> Iterator[tuple[Corpus, pl.Series]]:
    """The traces that the credits are about, so many at a time as their events are few as Python objects."""
    for piece in corpus.slices():
        numbers = run.traces(piece)
        for source in (run, later):
            if source is not None:
                source.load(numbers)
        tokens = pl.col("tokens_out").fill_null(0).clip(0).cast(pl.Int128).sum() // _TOKENS_OF_AN_EVENT
        tokens = tokens.clip(0, 2**40).cast(pl.Int64)
        weight = pl.len().cast(pl.Int64) + (tokens if by_token else 0)
        mine = piece.events.filter(pl.col("trace").is_in(numbers.implode()))
        sizes = mine.group_by("trace").agg(weight=weight).sort("trace").collect()
        batch = (sizes["weight"].cum_sum() // _BATCH_EVENTS).alias("batch")
        for part in sizes.with_columns(batch).partition_by("batch", maintain_order=True):
            some = part["trace"]
            is_complete = some.len() == len(piece)
            yield piece if is_complete else piece.filter(pl.col("trace").is_in(some.implode())), some


def _paid(corpus: Corpus, label: str | None) -> pl.DataFrame | None:
    """What every trace was paid; None where that is not in this corpus."""
    if label is None:
        return None
    try:
        return amounts(corpus, reward_of(label, corpus))
    except ParameterError:
        return None


def _trace_keys(piece: Corpus) -> pl.DataFrame:
    return piece.traces.select("trace", "task_id", trajectory_id="trace_id", group="group_id").collect()


def _rewarded(rows: pl.DataFrame, paid: pl.DataFrame | None) -> pl.DataFrame:
    """The outcome on the last turn of each trace (D14); null where it is not known what was paid."""
    if paid is None:
        return rows.with_columns(reward=pl.lit(None, pl.Float64))
    outcomes = paid.select("trace", outcome="reward")
    rows = rows.join(outcomes, on="trace", how="left", maintain_order="left")
    is_last = pl.col("place") == pl.col("place").max().over("trace")
    earned = pl.when(is_last).then(pl.col("reward") + pl.col("outcome")).otherwise("reward")
    return rows.with_columns(reward=earned).drop("outcome")


def _by_turn(run: _Run, numbers: pl.Series, events: pl.DataFrame) -> pl.DataFrame:
    """Credit and reason of every turn: ``trace place credit reason``."""
    rows = run.of(numbers)
    every = events.select(*KEY, "turn", "seq")
    reason = pl.col("reason").cast(pl.String)
    if run.unit == "turn":
        firsts = every.unique(KEY, keep="first", maintain_order=True)
        credited = rows.select("trace", "credit", reason, turn=pl.col("unit_id").cast(pl.String))
        _check_once(credited, ["trace", "turn"], "turn")
        by_turn = firsts.join(credited, on=["trace", "turn"], how="left", maintain_order="left")
        absent = "unit.none"
    else:
        credited = rows.select("trace", "seq", "credit", reason)
        _check_once(credited, ["trace", "seq"], "event")
        value = pl.col("credit")
        total = value.sum() if run.is_share else value.mean()
        by_turn = (
            every.join(credited, on=["trace", "seq"], how="left", maintain_order="left")
            .group_by(KEY, maintain_order=True)
            .agg(
                credit=pl.when(value.is_not_null().any()).then(total),
                reason=pl.col("reason").drop_nulls().first(),
            )
        )
        # at unit token a turn without a row is one whose tokens were not counted
        absent = "field.absent" if run.unit == "token" else "unit.none"
    why = pl.when(pl.col("credit").is_null()).then(pl.col("reason").fill_null(absent)).otherwise("reason")
    return by_turn.select(*KEY, "credit", reason=why)


def _check_once(rows: pl.DataFrame, key: list[str], unit: str) -> None:
    if (twice := rows.filter(pl.struct(key).is_duplicated())).height:
        trace, name = twice.select(key).row(0)
        raise ParameterError(f"credits has two rows for {unit} {name!r} of trace {trace}")


def _returns(run: _Run) -> pl.Expr:
    if run.method == "return_to_go":
        return pl.col("advantages")
    if run.method in _CRITICS:
        return pl.col("advantages") + pl.col("value")
    return pl.lit(None, pl.Float64)


def _along_tokens(
    piece: Corpus,
    rows: pl.DataFrame,
    events: pl.DataFrame,
    run: _Run,
    later: _Run | None,
    numbers: pl.Series,
    lambda_: float | None,
    max_tokens: int,
) -> pl.DataFrame:
    """Numbers of turns as lists along what they wrote."""
    written = events.filter(pl.col("n") > 0)
    lists = _lists(piece, rows, written, run, numbers, lambda_, max_tokens, "advantages")
    probability = pl.col("p_behavior")
    is_action = (pl.col("n") == 1) & probability.is_not_null()
    aside = written.select(
        *KEY,
        mask=pl.lit(1).repeat_by("n"),
        trained=pl.col("trained").cast(pl.Int64).repeat_by("n"),
        log_probs=pl.when(is_action).then(probability.log().repeat_by("n")),
    )
    lists = lists.join(_joined(aside, ["mask", "trained", "log_probs"]), on=KEY, how="left")
    if later is not None:
        later_rows = rows.with_columns(advantages="returns")
        later_lists = _lists(piece, later_rows, written, later, numbers, None, max_tokens, "returns")
        lists = lists.join(later_lists, on=KEY, how="left")
    rows = rows.drop("advantages", "returns").join(lists, on=KEY, how="left", maintain_order="left")
    if later is None:
        shift = pl.col("value") if run.method in _CRITICS else pl.lit(0.0)
        has_returns = run.method in ("return_to_go", *_CRITICS)
        returns = pl.col("advantages") + shift if has_returns else pl.lit(None, pl.List(pl.Float64))
        rows = rows.with_columns(returns=returns)
    last = pl.concat_list(
        pl.lit(0.0).repeat_by((pl.col("response_length") - 1).clip(0)), pl.col("reward").repeat_by(1)
    )
    has = (pl.col("response_length").fill_null(0) > 0) & pl.col("reward").is_not_null()
    silent = pl.col("advantages").is_null() & pl.col("reason").is_null()
    return rows.with_columns(
        token_rewards=pl.when(has).then(last),
        reason=pl.when(silent).then(pl.lit("field.absent")).otherwise("reason"),
    )


def _lists(
    piece: Corpus,
    rows: pl.DataFrame,
    written: pl.DataFrame,
    run: _Run,
    numbers: pl.Series,
    lambda_: float | None,
    max_tokens: int,
    name: str,
) -> pl.DataFrame:
    """One list per turn that wrote something; null if some event of it has no value."""
    events = written.select(*KEY, "seq", "n")
    if run.unit == "turn":
        credited = rows.select(*KEY, "response_length", credit="advantages")
        events = events.join(credited, on=KEY, how="left", maintain_order="left")
        each = pl.col("credit") / pl.col("response_length") if run.is_share else pl.col("credit")
    elif run.unit == "event":
        credited = run.of(numbers).select("trace", "seq", "credit")
        events = events.join(credited, on=["trace", "seq"], how="left", maintain_order="left")
        each = pl.col("credit") / pl.col("n") if run.is_share else pl.col("credit")
    else:
        of_tokens = token_module.token_credits(piece, run.of(numbers), lambda_=lambda_, max_tokens=max_tokens)
        credited = of_tokens.select("trace", "seq", tokens="tokens")
        events = events.join(credited, on=["trace", "seq"], how="left", maintain_order="left")
        return _joined(events.select(*KEY, pl.col("tokens").alias(name)), [name])
    tokens = pl.when(each.is_not_null()).then(each.repeat_by("n"))
    return _joined(events.select(*KEY, tokens.alias(name)), [name])


def _joined(events: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Lists of events put together to lists of their turns, null if one of them is."""
    return events.group_by(KEY, maintain_order=True).agg(
        pl.when(pl.col(name).is_not_null().all()).then(pl.col(name).drop_nulls().explode().implode()).first()
        for name in names
    )
