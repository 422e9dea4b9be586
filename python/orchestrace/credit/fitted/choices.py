"""What was chosen at each event, as columns of a regression that have the mean 0 whatever was done before.

A column stands for one choice in one setting, such as the action ``retry`` of the role ``coder``. An event
has there ``1[chosen] - p``, with p the probability of the choice. `p_actions` is p where it is recorded.
Elsewhere p is the share of the choice among events of the same role, type and `state_key`; events whose
`state_key` was met once, or that have none, are taken together by role and type. Sums of such columns over
a run are sums of martingale differences: what follows an event cannot confound what the event did.

Events that are alike in all of that are of one *kind*. There are few kinds, so that a run is counts of kinds,
and a row of the design is counts times a small matrix.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...corpus.corpus import Corpus
from ...corpus.owners import owners

FAMILIES: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "action": ((), "action"),
    "role, action": (("role",), "action"),
    "type, action": (("type",), "action"),
    "tool": ((), "tool"),
    "role, tool": (("role",), "tool"),
    "luck": ((), "result"),
    "luck of a tool": (("of_tool",), "result"),
}
"""Families of columns: the setting, and what is chosen in it. The last two are of what the world did."""

SKILL: Final = 5
"""How many of the families are of choices of agents; they come first."""

_FEWEST: Final = 5  # events that a column has at least
_MOST: Final = 400  # columns of a family; the others are left to the coarser ones
_KIND: Final = ("role", "type", "state", "action", "tool", "of_tool", "result", "options")
_STATE: Final = ("role", "type", "state")
_SCOPE: Final = ("role", "type", "options")
_NOTHING: Final = ""  # of a field that is null; no name is empty


def choice_rows(corpus: Corpus) -> pl.DataFrame:
    """Events of a piece at which somebody chose, or the world did: ``row trace`` and the fields of a kind.

    Somebody chose where `action` is recorded, or an agent calls a tool. The world chose where a result of a
    tool is marked as right or failed. ``p`` is `p_actions` where it sums to 1, with ``chosen``, the
    probability of the action taken.
    """
    wanted = ("type", "tool", "action", "state_key", "p_behavior", "p_actions", "ok", "trace")
    events = (
        corpus.events.select(*wanted).collect().with_row_index("row").hstack(owners(corpus).select("role"))
    )
    kind = pl.col("type").cast(pl.String)
    calls = (kind == "tool_call") & pl.col("tool").is_not_null()
    resulted = (kind == "tool_result") & pl.col("ok").is_not_null()
    decides = pl.col("action").is_not_null() | calls
    complete = pl.col("action").is_not_null() & ((pl.col("p_actions").list.sum() - 1.0).abs() < 1e-6)
    rows = events.filter(decides | resulted)

    def named(column: str) -> pl.Expr:
        return pl.col(column).cast(pl.String).fill_null(_NOTHING)

    return rows.select(
        "row",
        "trace",
        role=named("role"),
        type=kind,
        state=named("state_key"),
        action=named("action"),
        tool=pl.when(calls).then(named("tool")).otherwise(pl.lit(_NOTHING)),
        of_tool=pl.when(resulted).then(named("tool")).otherwise(pl.lit(_NOTHING)),
        result=pl.when(resulted)
        .then(pl.when("ok").then(pl.lit("ok")).otherwise(pl.lit("failed")))
        .otherwise(pl.lit(_NOTHING)),
        options=pl.when(complete).then(pl.col("p_actions").list.len()).otherwise(0).cast(pl.Int64),
        chosen="p_behavior",
        p=pl.when(complete).then("p_actions"),
    )


def kinds_of(rows: pl.DataFrame) -> pl.DataFrame:
    """How many events of each kind there are, in how many runs: the kinds of a piece."""
    return rows.group_by(_KIND).agg(n=pl.len(), runs=pl.col("trace").n_unique())


def named_options(rows: pl.DataFrame) -> pl.DataFrame:
    """How often each place of `p_actions` holds the probability of each action taken, ``role type options
    action n fits``: evidence for `Choices.of`, since recordings have no names for the places.
    """
    logged = rows.filter(pl.col("options") > 0)
    most = int(logged["options"].max() or 1)  # type: ignore[arg-type]  # of Int64
    place = (pl.col("p").list.get(at, null_on_oob=True) for at in range(most))
    fits = [
        ((of - pl.col("chosen")).abs() < 1e-9).sum().cast(pl.Int64).alias(f"{at}")
        for at, of in enumerate(place)
    ]
    counted = logged.group_by(*_SCOPE, "action").agg(*fits, n=pl.len().cast(pl.Int64))
    lists = pl.concat_list(pl.col(f"{at}") for at in range(most))
    return counted.select(*_SCOPE, "action", "n", fits=lists.list.head("options"))


def _actions_of_places(evidence: pl.DataFrame) -> pl.DataFrame:
    """The action of each place, ``role type options place action``, where all events agree on it.

    A place stands for an action if its probability is that of the action at every event that took it. Where
    two places or two actions would do, none is named, and shares take over.
    """
    fits = (
        evidence.with_columns(place=pl.int_ranges(0, "options"))
        .explode("place", "fits")
        .group_by(*_SCOPE, "action", "place")
        .agg(pl.col("n", "fits").sum())
        .filter(pl.col("n") == pl.col("fits"))
    )
    taken = evidence.group_by(_SCOPE).agg(actions=pl.col("action").n_unique())
    named = fits.join(taken, on=_SCOPE)
    one_to_one = (pl.col("action").n_unique() == pl.len()) & (pl.col("place").n_unique() == pl.len())
    all_named = pl.len() == pl.col("actions").first()
    return named.filter((one_to_one & all_named).over(_SCOPE)).select(*_SCOPE, "place", "action")


@dataclass(frozen=True)
class Choices:
    """Kinds and columns of a corpus.

    ``kinds`` has the fields of a kind, its number ``kind`` and that of its events, ``n``; ``recorded``,
    whether the probabilities of its actions are read from the event; ``supported``, whether somebody chose
    otherwise there. ``states`` are those that were met more than once. ``design`` (kinds, columns; sparse)
    is what an event of the kind has in every column, but for recorded probabilities, which ``places``
    (places, columns; sparse) subtracts: each place of `p_actions` is a ``slot`` of `slots`. ``columns``
    says what each column stands for.
    """

    kinds: pl.DataFrame
    states: pl.DataFrame
    columns: pl.DataFrame
    slots: pl.DataFrame
    design: Any
    places: Any

    @classmethod
    def of(cls, counted: pl.DataFrame, evidence: pl.DataFrame) -> "Choices":
        """From the counts of all pieces."""
        met = pl.col("state") != _NOTHING
        visits = counted.filter(met).group_by(_STATE).agg(pl.col("runs").sum())
        states = visits.filter(pl.col("runs") > 1).select(_STATE)
        named = _actions_of_places(evidence)
        recorded = named.select(_SCOPE).unique().with_columns(recorded=pl.lit(True))
        kinds = (
            _known_states(counted, states)
            .group_by(_KIND)
            .agg(pl.col("n").sum())
            .sort(_KIND)
            .join(recorded, on=_SCOPE, how="left", maintain_order="left")
            .with_columns(pl.col("recorded").fill_null(False))
            .with_row_index("kind")
        )
        columns = _columns(kinds)
        slots = _slots(named)
        first = slots.filter(place=0).select(*_SCOPE, first="slot")
        kinds = kinds.join(first, on=_SCOPE, how="left", maintain_order="left")
        design, places, others = [], [], []
        for number, (setting, choice) in enumerate(FAMILIES.values()):
            of_family = columns.filter(pl.col("family") == number)
            chosen, expected, compared = _entries(kinds, of_family, setting, choice)
            design += [chosen, expected]
            others.append(compared)
            if choice == "action":
                places.append(
                    slots.join(of_family, on=[*setting, "action"]).select("slot", "column", value=1.0)
                )
        supported = pl.concat(others).unique()
        return cls(
            kinds=kinds.with_columns(
                supported=pl.col("recorded") | pl.col("kind").is_in(supported["kind"].implode())
            ),
            states=states,
            columns=columns,
            slots=slots,
            design=_sparse(design, "kind", kinds.height, columns.height),
            places=_sparse(places, "slot", slots.height, columns.height),
        )

    @property
    def n(self) -> int:
        """Columns."""
        return self.columns.height

    @cached_property
    def family(self) -> Ints:
        """The family of each column, a place in `FAMILIES`."""
        return self.columns["family"].to_numpy().astype(np.int64)

    @property
    def overlap(self) -> float | None:
        """The share of choices that somebody made otherwise in their place; None where nobody chose."""
        chosen = self.kinds.filter(pl.col("result") == _NOTHING)
        n, compared = int(chosen["n"].sum()), int(chosen.filter("supported")["n"].sum())
        return compared / n if n else None

    def placed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with their ``kind``, and ``n``, ``recorded`` and ``supported`` of it."""
        return _known_states(rows, self.states).join(self.kinds, on=_KIND, how="left", maintain_order="left")

    def probabilities(self, placed: pl.DataFrame) -> pl.DataFrame:
        """The recorded probabilities, ``at trace slot p``; ``at`` is the place of the row."""
        logged = placed.with_row_index("at").filter("recorded").select("at", "trace", "first", "options", "p")
        size = logged["options"].to_numpy()
        place = np.arange(size.sum()) - (np.cumsum(size) - size).repeat(size)
        return pl.DataFrame(
            {
                "at": logged["at"].to_numpy().repeat(size),
                "trace": logged["trace"].to_numpy().repeat(size),
                "slot": logged["first"].to_numpy().astype(np.int64).repeat(size) + place,
                "p": logged["p"].explode(),
            }
        )

    def runs(self, placed: pl.DataFrame, traces: Ints) -> Floats:
        """The design of whole runs, (traces, columns): sums over the events of each of the `traces`."""

        def summed(frame: pl.DataFrame, column: str, amount: Floats, width: int) -> Any:
            run = np.searchsorted(traces, frame["trace"].to_numpy())
            return _csr(run, frame[column].to_numpy(), amount, (len(traces), width))

        x: Floats = (
            summed(placed, "kind", np.ones(placed.height), self.design.shape[0]) @ self.design
        ).toarray()
        logged = self.probabilities(placed)
        if logged.height:
            x -= summed(logged, "slot", logged["p"].to_numpy(), self.places.shape[0]) @ self.places
        return np.asarray(x)

    def events(self, placed: pl.DataFrame, weights: Floats, model: Ints) -> Floats:
        """The sum over columns of each row, (rows,), by its own model; `weights` are (columns, models)."""
        out: Floats = (self.design @ weights)[placed["kind"].to_numpy(), model]
        logged = self.probabilities(placed)
        if logged.height:
            at = logged["at"].to_numpy()
            terms = (self.places @ weights)[logged["slot"].to_numpy(), model[at]] * logged["p"].to_numpy()
            out -= np.bincount(at, weights=terms, minlength=len(out))
        return out

    def rows(self, placed: pl.DataFrame) -> Any:
        """The design of single events, (rows, columns; sparse)."""
        logged = self.probabilities(placed)
        shape = (placed.height, self.places.shape[0])
        weights = _csr(logged["at"].to_numpy(), logged["slot"].to_numpy(), logged["p"].to_numpy(), shape)
        return self.design[placed["kind"].to_numpy()] - weights @ self.places


def _slots(named: pl.DataFrame) -> pl.DataFrame:
    """All places of the scopes that are named, ``slot`` and ``role type options place action``; the action of
    a place that nobody took is null.
    """
    scopes = named.select(_SCOPE).unique().sort(_SCOPE).with_columns(place=pl.int_ranges(0, "options"))
    places = scopes.explode("place").join(named, on=[*_SCOPE, "place"], how="left", maintain_order="left")
    return places.with_row_index("slot")


def _known_states(rows: pl.DataFrame, states: pl.DataFrame) -> pl.DataFrame:
    """The same rows without the states that nobody met again."""
    if states.is_empty():
        return rows.with_columns(state=pl.lit(_NOTHING))
    again = states.with_columns(again=pl.lit(True))
    matched = rows.join(again, on=_STATE, how="left", maintain_order="left")
    state = pl.when("again").then("state").otherwise(pl.lit(_NOTHING))
    return matched.with_columns(state=state).drop("again")


def _columns(kinds: pl.DataFrame) -> pl.DataFrame:
    """The columns: ``column family`` and the fields of the setting and the choice.

    Those with fewer than five events are left to the coarser families, and at most 400 of a family are kept,
    the most frequent first.
    """
    fields = ("role", "type", "of_tool", "action", "tool", "result")
    frames = []
    for number, (setting, choice) in enumerate(FAMILIES.values()):
        names = (*setting, choice)
        of_family = (
            kinds.filter(pl.col(choice) != _NOTHING)
            .group_by(names)
            .agg(pl.col("n").sum())
            .filter(pl.col("n") >= _FEWEST)
            .sort("n", *names, descending=[True, *(False for _ in names)])
            .head(_MOST)
        )
        absent = (pl.lit(None, pl.String).alias(name) for name in fields if name not in names)
        numbered = of_family.with_columns(*absent, family=pl.lit(number, pl.Int64))
        frames.append(numbered.select("family", *fields))
    return pl.concat(frames).with_row_index("column")


def _entries(
    kinds: pl.DataFrame, of_family: pl.DataFrame, setting: tuple[str, ...], choice: str
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Of a family: 1 for what each kind chose, less what was to be expected, ``kind column value``, both but
    for recorded probabilities; and the kinds that somebody chose otherwise at.
    """
    here = kinds.filter(pl.col(choice) != _NOTHING)
    chosen = here.join(of_family, on=[*setting, choice]).select("kind", "column", value=1.0)
    # Who chooses in one cell has one policy, as far as the recording says.
    cell = ("type", "of_tool") if choice == "result" else _STATE
    counts = here.group_by(*cell, choice).agg(pl.col("n").sum())
    shares = counts.select(
        *cell, choice, share=pl.col("n") / pl.col("n").sum().over(cell), others=pl.len().over(cell) - 1
    )
    compared = here.join(shares.filter(pl.col("others") > 0).select(cell).unique(), on=cell).select("kind")
    estimated = here.filter(~pl.col("recorded")) if choice == "action" else here
    expected = (
        estimated.select("kind", *dict.fromkeys((*cell, *setting)))
        .join(shares, on=cell)
        .join(of_family, on=[*setting, choice])
        .select("kind", "column", value=-pl.col("share"))
    )
    return chosen, expected, compared


def _sparse(entries: list[pl.DataFrame], row: str, height: int, width: int) -> Any:
    """A sparse matrix of ``column value``; entries of one place add up."""
    all_ = pl.concat(entries).sort(row, "column", "value")
    return _csr(all_[row].to_numpy(), all_["column"].to_numpy(), all_["value"].to_numpy(), (height, width))


def _csr(row: Ints, column: Ints, values: Floats, shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_matrix

    return csr_matrix((values, (row.astype(np.int64), column.astype(np.int64))), shape=shape)
