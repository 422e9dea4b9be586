"""Explanation of one credit: the events, turns, edges, rollouts and rule behind it."""

import json
import math
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.arguments import TraceName
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..corpus.reward import PartialWeights, amounts, label_of, reward_of
from ..corpus.units import TracesByNumber
from .evidence import SCHEMA, Part, Question, evidence
from .registry import BY_CHANNEL, check_one_piece, described
from .rollout_values import ROLLOUT_METHODS
from .verb import credit

_NEEDED: Final = ("trace", "unit", "unit_id", "credit", "method", "reward", "params")
_COLUMNS: Final = ("part", "kind", "seq", "event", "other", "weight", "amount", "rule")
# what is in the column params and is no parameter of the method
_NOT_PARAMS: Final = ("seed", "version", "quality")


@verb
def explain(
    corpus: Corpus,
    credits: pl.DataFrame | pl.LazyFrame,
    unit_id: str | None,
    trace: TraceName | None = None,
) -> pl.DataFrame:
    """Show what made the credit of one unit: the parts that it is summed or averaged from, and their origin.

    Parameters
    ----------
    corpus
        The recordings that the credits were computed from. Credits alone do not say why.
    credits
        What `credit` returned. Its column ``params`` says how to run the method again.
    unit_id
        The unit; None for the row without one.
    trace
        Its trace, by number or ``trace_id``; needed where several traces have the unit.

    Returns
    -------
    DataFrame
        ``part kind seq event other weight amount rule``.

        Rows of the kind ``value`` make the credit: it is the sum of ``weight`` times ``amount`` over them. Of
        a share each event is a part of weight 1, of a game each player. Of an advantage each row of the
        method (event, turn, class or the trace) that has an event in the unit is one; the weights sum to 1.

        The other rows with the same ``part`` say where its amount comes from. Those with a weight sum to it
        likewise: ``edge`` (credit that came over an edge; ``other`` is the successor), ``outcome`` (the
        reward), ``game`` (the method's formula over coalitions of players), ``turn`` (rewards, critic's
        differences or returns of turns), ``rollout`` (rewards of the group; ``other`` is the trace),
        ``sibling`` (mean outcomes of alternatives), ``suspicion``, ``reward``, ``critic``, ``successor``
        (dag_gae). Rows without a weight give context: ``mean``, ``deviation``, ``count``, ``fit``, and
        ``method`` for a method that is known by its summary only.

        ``seq`` and ``event`` name an event of this trace, of a turn its first one. ``amount`` is in units of
        the reward where it is a reward, a return or a credit. ``rule`` says the formula. A null credit gives
        one row ``reason``.

    Raises
    ------
    ParameterError
        No row or several rows have the unit, a column is absent, the method is not known, or the corpus gives
        another credit than the frame has.

    Notes
    -----
    Runs the method again and asks it for its terms: on the trace; on its group, if the method compares
    rollouts; on the whole corpus, if it is fitted or whitens a batch. The terms take some 10 µs per event of
    the trace. For a group of 10⁴ rollouts of 120 events each that takes some 0.05 s on two cores, 0.1 to 0.5
    s for methods that compare what rollouts did (turns, contexts, classes, shapes), and 4 s for aristocrat
    and coma, which are written in Python. Methods along turns have a row for every later turn of every part;
    beyond 300 turns, and where events are the steps, the next step stands for all later ones.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> credits = ot.credit(corpus, method="flow", unit="agent")
    >>> parts = ot.explain(corpus, credits, "orchestrator", trace=0)
    >>> values = parts.filter(parts["kind"] == "value")
    >>> row = credits.filter(trace=0, unit_id="orchestrator")
    >>> round((values["weight"] * values["amount"]).sum() - row["credit"].item(), 12)
    0.0
    """
    row = _one_row(collected(credits, "credits", _NEEDED), unit_id, trace)
    if row["credit"] is None or row["credit"] != row["credit"]:
        return _reason(row.get("reason"))
    method = str(row["method"])
    entry = described(method)
    if entry is None:
        raise ParameterError(f"method '{method}' is not registered here, so it cannot run again")
    settings = json.loads(row["params"] or "{}")
    if settings.get("over", "all") != "all":
        raise ParameterError(
            f"credit is over='{settings['over']}', and what it is made of is known of all agents alone:"
            " explain a row of credit without over="
        )
    params = {name: value for name, value in settings.items() if name not in _NOT_PARAMS}
    reward = reward_of(None if row["reward"] is None else str(row["reward"]), corpus)
    by_channel = isinstance(reward, PartialWeights) and method in BY_CHANNEL
    if isinstance(reward, PartialWeights) and not by_channel:
        label = label_of(reward)
        sums = amounts(corpus, reward).select("trace", pl.col("reward").alias(label))
        corpus, reward = corpus.with_measures(sums), label
    number = int(row["trace"])
    if method in ROLLOUT_METHODS:
        check_one_piece(corpus, method)  # its terms are of all traces
    compared = _compared(corpus, str(entry["scope"]), number)
    around = corpus if entry["scope"] == "corpus" else compared
    unit = str(row["unit"])
    # a game is played by the units themselves, and by agents where the unit is a sum over agents
    game = any(param["name"] == "scaled" for param in entry["params"])
    level = "event" if not game else "agent" if unit in ("role", "team") else unit
    again = credit(
        around,
        method=method,
        unit=level,  # type: ignore[call-overload]
        reward=reward,
        missing="skip" if by_channel else "null",
        seed=settings.get("seed", 0),
        **params,
    )
    method_rows = again.filter((pl.col("trace") == row["trace"]) & pl.col("seq").is_not_null()).sort("seq")
    values: list[float | None] = method_rows["credit"].fill_nan(None).to_list()
    question = Question(
        method=method,
        params=params,
        reward=reward,
        number=number,
        trace=TracesByNumber(compared.filter(pl.col("trace") == number))[number],
        around=around,
        values=values,
        fit=settings.get("quality") or {},
        summary=f"{entry['summary']} ({entry['reference']})",
    )
    share = entry["quantity"] == "share"
    parts = _players(question, unit, unit_id, method_rows) if game else _parts(question, unit, unit_id, share)
    total = math.fsum(part.weight * part.amount for part in parts)
    remainder = row["credit"] - total
    loose = share and unit_id is None  # what no event holds is in the row without a unit
    if not loose and abs(remainder) > 1e-9 * max(1.0, abs(row["credit"])):
        raise ParameterError(
            f"the credit of {unit_id!r} is {row['credit']!r} in the frame and {total!r} from this corpus:"
            " give the corpus that it was computed from"
        )
    rule = "credit = Σ weight * amount" + ("" if share else ", a weighted mean of the method's own rows")
    rows: list[tuple[Any, ...]] = [
        (n, "value", part.seq, part.other, part.weight, part.amount, rule) for n, part in enumerate(parts)
    ]
    if loose and abs(remainder) > 1e-12:
        rows.append((len(parts), "value", None, "remainder", 1.0, remainder, rule))
    composed = pl.concat([pl.DataFrame(rows, schema=SCHEMA, orient="row"), evidence(question, parts)])
    events = pl.Series(question.names(composed["seq"]), dtype=pl.String)
    return composed.with_columns(event=events).select(_COLUMNS)


def _one_row(credits: pl.DataFrame, unit_id: str | None, trace: TraceName | None) -> dict[str, Any]:
    of_unit = pl.col("unit_id").is_null() if unit_id is None else pl.col("unit_id") == unit_id
    rows = credits.filter(of_unit)
    subject = "no unit" if unit_id is None else f"unit {unit_id!r}"
    if trace is not None:
        key = "trace_id" if isinstance(trace, str) else "trace"
        if key not in rows.columns:
            raise ParameterError(f"credits have no column '{key}' to find the trace by")
        rows = rows.filter(pl.col(key) == trace)
        subject += f" in trace {trace!r}"
    if rows.is_empty():
        units = credits["unit_id"].drop_nulls().unique(maintain_order=True)
        hint = (
            "" if unit_id is None or unit_id in units else f": {unknown_name('unit', unit_id, list(units))}"
        )
        raise ParameterError(f"credits have no row of {subject}{hint}")
    if rows["trace"].n_unique() > 1:
        ids = rows["trace_id" if "trace_id" in rows.columns else "trace"].unique(maintain_order=True)
        first = ", ".join(map(repr, ids.head(3))) + (", ..." if ids.len() > 3 else "")
        raise ParameterError(f"{rows['trace'].n_unique()} traces have {subject}: give trace=, one of {first}")
    if rows.height > 1:
        raise ParameterError(
            f"credits have {rows.height} rows of {subject}: filter them to one method and unit"
        )
    return rows.row(0, named=True)


def _reason(reason: object) -> pl.DataFrame:
    meanings = {code: text for kind, code, _, text in _core.codes() if kind == "reason"}
    code = None if reason is None else str(reason)
    rule = meanings.get(code or "", "") or "The credit is null and no reason is given."
    row = (None, "reason", None, code, None, None, rule)
    frame = pl.DataFrame([row], schema=SCHEMA, orient="row")
    return frame.with_columns(event=pl.lit(None, pl.String)).select(_COLUMNS)


def _group(corpus: Corpus, number: int) -> str:
    group = corpus.traces.filter(pl.col("trace") == number).select("group_id").collect(engine="streaming")
    if group.is_empty():
        raise ParameterError(f"trace {number} of the credits is not in the corpus")
    return str(group.item())


def _compared(corpus: Corpus, scope: str, number: int) -> Corpus:
    """The trace, and where it is compared with others those of its group."""
    group = _group(corpus, number)
    return corpus.filter(pl.col("trace") == number if scope == "trace" else pl.col("group_id") == group)


def _players(question: Question, unit: str, unit_id: str | None, method_rows: pl.DataFrame) -> list[Part]:
    """The players whose values the unit's credit sums."""
    units = question.trace.units(unit)
    return [
        Part(seq, name, 1.0, value)
        for seq, name, value in method_rows.select("seq", "unit_id", "credit").iter_rows()
        if value is not None and units[seq] == unit_id
    ]


def _parts(question: Question, unit: str, unit_id: str | None, share: bool) -> list[Part]:
    """The own rows of the method that make the unit's credit, with their weights."""
    trace = question.trace
    members = [seq for seq, name in enumerate(trace.units(unit)) if name == unit_id]
    if share:
        return [Part(seq, None, 1.0, value) for seq in members if (value := question.values[seq]) is not None]
    rows = [row for row, _ in question.own_rows]
    seen = list(dict.fromkeys(row for seq in members if (row := rows[seq]) is not None))
    events: dict[int | None, list[int]] = {}
    for seq in trace.order:
        events.setdefault(rows[seq], []).append(seq)
    first = {row: events[row][0] for row in seen}
    valued = [(row, value) for row in seen if (value := question.values[first[row]]) is not None]
    weights = [1.0] * len(valued)
    if question.params.get("weight") == "tokens_out" and len(valued) > 1:
        weights = [math.fsum(trace.number("tokens_out", s) or 0.0 for s in events[row]) for row, _ in valued]
    total = math.fsum(weights)
    return [
        Part(first[row], question.own_rows[first[row]][1], weight / total, value)
        for (row, value), weight in zip(valued, weights, strict=True)
        if total > 0
    ]
