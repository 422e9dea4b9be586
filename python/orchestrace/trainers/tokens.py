"""Credit per written token: one list per event, made on request only."""

import json
import math
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..base.arguments import Count, Discount
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..corpus.units import TracesByNumber
from ..credit.quantities import quantities

_DECAYING: Final = ("gae", "sequential_gae")
_COLUMNS: Final = (
    "trace",
    "trace_id",
    "unit_id",
    "seq",
    "method",
    "quantity",
    "reward",
    "params",
    "credit",
    "reason",
)


@verb
def token_credits(
    corpus: Corpus,
    credits: pl.DataFrame | pl.LazyFrame,
    *,
    lambda_: Discount | None = None,
    max_tokens: Count = 10_000_000,
) -> pl.DataFrame:
    """Assign the credit of events to the tokens that they wrote.

    Parameters
    ----------
    corpus
        The recordings, for ``tokens_out``.
    credits
        Rows of `credit` at unit ``token``, of one or several methods: the credit of all tokens of an event.
    lambda_
        For ``gae`` and ``sequential_gae`` only: decay per token inside of a turn, 0 to 1. The last token of
        the turn has the turn's advantage A, the one k tokens before it lambda_**k · A: GAE over tokens with a
        discount of 1, the reward at the turn's last token and one critic's value per turn. Where the column
        ``params`` says ``rows="events"``, each event is such a step instead of the turn. None, as with all
        other methods: every token has A.
    max_tokens
        Refuse to make more numbers than this; each takes 8 bytes.

    Returns
    -------
    DataFrame
        The rows that have an event, in their order: ``trace trace_id unit_id seq method reward params credit
        reason`` as far as `credits` has them, then ``n_tokens`` (Int64) and ``tokens`` (List(Float64), in
        units of the reward, one number per token; null where the credit is). The tokens of a share add up to
        it, each having an equal part; an advantage is the same for every token.

    Raises
    ------
    ParameterError
        The credits are at another unit, an event is not in the corpus or wrote no tokens there, a method is
        not known, an option is out of range, or there are more tokens than `max_tokens`.

    Notes
    -----
    Linear in tokens; with `lambda_` also some 10 µs per event of the traces, to find their turns.

    Source: GAE, arXiv 1506.02438, eq. 16, with a discount of 1 inside of a turn.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> wrote = pl.DataFrame({"trace": [0], "seq": [3], "tokens_out": [4]})
    >>> corpus = corpus.with_fields(wrote)
    >>> tokens = ot.trainers.token_credits(corpus, ot.credit(corpus, method="broadcast", unit="token"))
    >>> tokens.select("seq", "n_tokens").row(0)
    (3, 4)
    >>> tokens["tokens"][0].n_unique()
    1
    """
    frame = collected(credits, "credits", ("trace", "unit", "unit_id", "seq", "credit", "method"))
    wrong = frame["unit"].cast(pl.String).unique().drop_nulls().to_list()
    if wrong not in ([], ["token"]):
        raise ParameterError(f"credits are at unit '{min(wrong)}': compute them with unit='token'")
    rows = frame.filter(pl.col("unit_id").is_not_null()).select(n for n in _COLUMNS if n in frame.columns)
    wrote = corpus.events.select("trace", "seq", n_tokens="tokens_out").collect(engine="streaming")
    rows = rows.with_columns(pl.col("trace", "seq").cast(pl.UInt32))
    rows = rows.join(wrote, on=["trace", "seq"], how="left", maintain_order="left")
    silent = rows.filter(pl.col("n_tokens").fill_null(0) <= 0)
    if silent.height:
        trace, name = silent.select("trace", "unit_id").row(0)
        raise ParameterError(f"event '{name}' of trace {trace} has no tokens in this corpus (tokens_out)")
    # wider than the counts: their sum may exceed 64 bits
    total = int(rows["n_tokens"].cast(pl.Int128).sum())
    if total > max_tokens:
        raise ParameterError(
            f"the lists would hold {total:,} tokens, {8 * total / 2**20:,.0f} MiB, more than max_tokens="
            f"{max_tokens:,}: filter the credits, or raise it"
        )
    names = rows["method"].cast(pl.String)
    adds_up = quantities(rows)
    unknown = names.filter(adds_up.is_null()).drop_nulls()
    if unknown.len():
        raise ParameterError(
            f"method '{unknown[0]}' is not registered here, so it is unknown whether its credit adds up:"
            " give the column 'quantity'"
        )
    share = adds_up == "share"
    each = pl.when(share).then(pl.col("credit") / pl.col("n_tokens")).otherwise("credit").fill_nan(None)
    rows = rows.with_columns(tokens=pl.when(each.is_not_null()).then(each.repeat_by("n_tokens")))
    decaying = names.is_in(list(_DECAYING))
    if lambda_ is None or lambda_ == 1.0 or not decaying.any():
        return rows
    after = _tokens_after(corpus.filter(pl.col("trace").is_in(rows["trace"].unique().implode())))
    rows = rows.join(after, on=["trace", "seq"], how="left", maintain_order="left")
    if "params" in rows.columns:
        alone = [text for text in rows["params"].unique() if _by_events(text)]
        step = pl.col("params").cast(pl.String).is_in(alone)
        rows = rows.with_columns(after=pl.when(step).then(0).otherwise("after"))
    lists = [
        None if tokens is None else _decayed(credit, n, later, lambda_) if decays else tokens
        for credit, n, later, tokens, decays in zip(
            rows["credit"], rows["n_tokens"], rows["after"], rows["tokens"], decaying, strict=True
        )
    ]
    # as series: a null that comes first would not show Polars the type
    series = [None if numbers is None else pl.Series(numbers, dtype=pl.Float64) for numbers in lists]
    return rows.with_columns(tokens=pl.Series(series, dtype=pl.List(pl.Float64))).drop("after")


def _by_events(params: object) -> bool:
    """Whether the steps of that run were events, each with an advantage of its own."""
    try:
        options = json.loads(str(params))
    except ValueError:
        return False
    return isinstance(options, dict) and options.get("rows") == "events"


def _tokens_after(corpus: Corpus) -> pl.DataFrame:
    """Of every event of a turn: how many tokens its turn writes after it. ``trace seq after``."""
    rows = []
    for number, trace in TracesByNumber(corpus).items():
        for turn in trace.turns:
            later = 0
            for seq in reversed(turn.events):
                rows.append((number, seq, later))
                later += max(int(trace.number("tokens_out", seq) or 0), 0)
    return pl.DataFrame(rows, schema={"trace": pl.UInt32, "seq": pl.UInt32, "after": pl.Int64}, orient="row")


def _decayed(credit: float, n: int, later: int | None, lambda_: float) -> "NDArray[np.float64] | list[float]":
    if later is None:
        return [credit] * n
    if lambda_ == 0.0:
        return [0.0 if later or k else credit for k in reversed(range(n))]
    # far from the end powers vanish, and that is their value
    with np.errstate(under="ignore"):
        exponents = np.arange(later + n - 1, later - 1, -1, dtype=np.float64)
        return credit * np.exp(exponents * math.log(lambda_))
