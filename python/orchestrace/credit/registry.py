"""Credit methods written in Python: those of the project and those of callers.

A method values events; from there the core rolls up to every unit (docs/reference/definitions.md, D11). The
package's own methods are in `fitted/`; they are imported when the first of them is asked for, since they need
NumPy.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import polars as pl

from .. import _core
from ..base.deferred import Deferred
from ..base.errors import ParameterError
from ..base.schema import CREDITS, Unit, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..corpus.reward import PartialWeights, amounts
from ..disk.partitioned import PartitionedCorpus, check_groups, on_disk
from ..statistics.learners import one_thread
from .parameters import Param, Value, check_params, shown
from .rollout_values import ROLLOUT_METHODS, Call, RolloutValues
from .rollup import roll_up

if TYPE_CHECKING:
    from .. import games
else:
    games = Deferred("orchestrace.games")

Quantity = Literal["share", "advantage"]
Scope = Literal["trace", "group", "corpus"]
Callback = Callable[[int, int], object] | None
Rows = _core.Stream | pl.DataFrame
Engine = Callable[[Corpus, Callback], list[tuple[Rows, Mapping[str, object]]]]

_AXIOMS: Final = ("efficiency", "symmetry", "null player", "linearity", "zero mean")
_TIERS: Final = ("observed", "schedule", "surrogate")


@dataclass(frozen=True)
class EventValues:
    """Values that a method written in Python gives the events of a corpus.

    Parameters
    ----------
    values
        One row per event, in the order of `Corpus.events`: ``value`` (Float64, in units of the reward; null
        for an event that is in no row of the method) and optionally ``reason``, why a value is null, a word
        of the column ``reason`` of `CREDITS`.
    traces
        Per trace ``trace amount remainder reason``: what is divided, the part of it that no event holds,
        and why the trace has no values, or what there is to say about those that it has (this column may be
        left out). Traces that are not named, and all of them if this is None, divide their reward and leave
        no remainder.
    fit
        How well a fitted model describes the data; goes into ``params``, floats rounded to six places.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> ot.EventValues(pl.DataFrame({"value": [0.5, 0.5]})).fit
    {}
    """

    values: pl.DataFrame
    traces: pl.DataFrame | None = None
    fit: Mapping[str, object] = field(default_factory=dict)


Function = Callable[..., EventValues]
Fit = Callable[[Corpus, pl.DataFrame, dict[str, Any], int], object]


@dataclass(frozen=True)
class Registered:
    """A method with all that is known about it without running it."""

    name: str
    summary: str
    quantity: Quantity
    units: tuple[Unit, ...]
    axioms: tuple[str, ...]
    params: tuple[Param, ...]
    reference: str
    tier: str | None
    scope: Scope
    function: Function
    fit: Fit | None

    def described(self) -> dict[str, object]:
        """As the core describes its own methods."""
        return {
            "name": self.name,
            "summary": self.summary,
            "quantity": self.quantity,
            "units": list(self.units),
            "axioms": list(self.axioms),
            "params": [param.described() for param in self.params],
            "reference": self.reference,
            "tier": self.tier,
            "scope": self.scope,
        }


FITTED: Final = (
    *("remax", "gdpo", "rae", "hierarchical_grpo", "ccpo", "turn_credit", "igpo", "aristocrat", "coma"),
    *("hca", "dae", "rudder", "vdn", "qmix"),
)
"""Methods of the room `fitted`, in the order of `methods`."""
BY_CHANNEL: Final = frozenset({"gdpo"})
"""Methods of the room `fitted` that look at each channel by itself; a trace may lack some."""
_METHODS: Final[dict[str, Registered]] = {}


@verb
def credit_method(
    name: str,
    *,
    summary: str,
    quantity: Quantity,
    units: Sequence[Unit] = get_args(Unit),
    axioms: Sequence[str] = (),
    params: Sequence[Param] = (),
    reference: str = "",
    tier: Literal["observed", "schedule", "surrogate"] | None = None,
    scope: Scope = "trace",
    fit: Fit | None = None,
) -> Callable[[Function], Function]:
    """Register a credit method, so that `credit` knows it by name and `methods` lists it.

    The function is called with ``(corpus, rewards, params, seed)`` and returns `EventValues`: a corpus in
    memory, the frame ``trace amount`` (Float64; the reward of each trace of it, null where a channel is
    absent), the checked parameters with defaults, and the seed. Traces without a reward get null and
    ``reward.absent`` whatever it returns for them.

    Parameters
    ----------
    name
        Lower-case letters, digits and underscores. Registering a name again replaces the method, unless it is
        one of the package.
    summary, reference
        One line each: what it computes; where it comes from.
    quantity
        ``"share"``: values of a trace and its remainder sum to the amount. ``"advantage"``: one value per
        decision, averaged upward.
    units
        Levels at which it may be reported.
    axioms
        Claims, of efficiency, symmetry, null player, linearity, zero mean.
    params
        Parameters, as `Param`.
    tier
        What its numbers rest on; None where they only describe the record.
    scope
        What must be seen at once: a ``"trace"``, a ``"group"`` of rollouts, or the whole ``"corpus"``. It
        matters for a corpus on disk, which is read in pieces.
    fit
        For the scope ``"corpus"``: called once with the whole corpus (take `Corpus.slices` of it), the
        rewards of all traces, the parameters and the seed; what it returns is given to the function as a
        fifth argument, piece by piece. Without it, a corpus in several pieces is refused.

    Returns
    -------
    callable
        A decorator, which returns the function as it is.

    Raises
    ------
    ParameterError
        The name is taken or no name, or a word is not one of those above.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> @ot.credit_method("per_token", summary="by tokens written", quantity="share",
    ...     params=[ot.Param("floor", 1, "tokens that an event has at least", low=1)])
    ... def per_token(corpus, rewards, params, seed):
    ...     tokens = pl.col("tokens_out").fill_null(0).clip(params["floor"])
    ...     part = tokens / tokens.sum().over("trace")
    ...     events = corpus.events.join(rewards.lazy(), on="trace", how="left", maintain_order="left")
    ...     return ot.EventValues(events.select(value=part * pl.col("amount")).collect())
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> credits = ot.credit(corpus, method="per_token", unit="agent", floor=5)
    >>> bool((credits["residual"].abs() < 1e-12).all(ignore_nulls=False))
    True
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ParameterError(f"'{name}' is not a valid name of a method: expected a-z, 0-9 and _")
    for unit in units:
        _check_word("unit", unit, get_args(Unit))
    for axiom in axioms:
        _check_word("axiom", axiom, _AXIOMS)
    if not isinstance(params, Sequence) or not all(isinstance(param, Param) for param in params):
        raise ParameterError(f"params of method '{name}' must be a list of Param, found {shown(params)}")
    names = [param.name for param in params]
    if twice := sorted({repeated for repeated in names if names.count(repeated) > 1}):
        raise ParameterError(f"parameter '{twice[0]}' is given twice")
    if fit is not None and scope != "corpus":
        raise ParameterError(f"method '{name}' has a fit, so its scope is 'corpus', found '{scope}'")

    def register(function: Function) -> Function:
        is_internal = function.__module__.startswith(f"{__package__}.")
        if not is_internal and (name in _of_core() or name in FITTED):
            raise ParameterError(f"method '{name}' is one of the package: choose another name")
        _METHODS[name] = Registered(
            name=name,
            summary=summary,
            quantity=quantity,
            units=tuple(units),
            axioms=tuple(axioms),
            params=tuple(params),
            reference=reference,
            tier=tier,
            scope=scope,
            function=function,
            fit=fit,
        )
        return function

    return register


def computation(corpus: Corpus, options: Mapping[str, Any]) -> Engine:
    """The function that computes the credit of one piece of `corpus`, rows and facts for each of the rewards:
    the core, or a method of this registry.

    Raises
    ------
    ParameterError
        No method has the name, or the arguments are not such that the method takes.
    """
    name = options["method"]
    _check_scope(corpus, name)
    if name in _of_core():
        outcome = None
        if callable(options["params"].get("outcome")):
            outcome, options = games.outcome_function(options)
        if (
            name in ROLLOUT_METHODS
            and isinstance(corpus, PartitionedCorpus)
            and _in_several(corpus.full_corpus)
        ):
            return RolloutValues(corpus, options, outcome)

        def of_core(piece: Corpus, callback: Callback) -> list[tuple[Rows, Mapping[str, object]]]:
            streams, facts = _core.credit(store_of(piece), **options, own=outcome, progress=callback)
            return [(stream, facts) for stream in streams]

        return of_core
    method = method_of(name)
    if method is None:
        existing = [*_of_core(), *registered()]
        raise ParameterError(unknown_name("method", str(name), existing))
    if options["over"] != "all":
        raise ParameterError(
            f"method '{name}' has no over='{options['over']}': it learns from what all agents did; take a"
            " method of the core, or leave the rows of the others out"
        )
    if options["unit"] not in method.units:
        raise ParameterError(unknown_name("unit", str(options["unit"]), list(method.units)))
    params = check_params(method.params, options["params"])
    rewards = [_paid(corpus, weights, name in BY_CHANNEL) for weights in options["rewards"]]
    # of a task the corpus that it is a part of: what is fitted has seen all of it
    everything: Corpus = corpus.full_corpus if isinstance(corpus, PartitionedCorpus) else corpus

    @functools.cache
    def model(which: int) -> object:
        if everything is corpus:
            return _fitted(method, corpus, rewards[which], options, which)
        return _held_model(method.fit, everything, Call(options), which)

    def compute(piece: Corpus, _callback: Callback) -> list[tuple[Rows, Mapping[str, object]]]:
        return [credited(piece, which) for which in range(len(rewards))]

    def credited(piece: Corpus, which: int) -> tuple[Rows, Mapping[str, object]]:
        traces = piece.traces.select("trace").collect()
        here = traces.join(rewards[which], on="trace", how="left", maintain_order="left")
        arguments: tuple[object, ...] = (piece, here, params, options["seed"])
        if method.fit and not len(piece):  # nothing to value, as where a plan is judged: nothing is fitted
            result = EventValues(pl.DataFrame(schema={"value": pl.Float64}))
        else:
            arguments = (*arguments, model(which)) if method.fit else arguments
            with _sums_in_order(method):
                result = method.function(*arguments)
        values, traces = _checked(method, piece, here, result)
        rows = roll_up(
            piece,
            unit=options["unit"],
            quantity=method.quantity,
            values=values,
            traces=traces,
            threads=options["threads"],
        )
        effect = {**params, "seed": options["seed"], "version": _core.VERSION}
        return rows, {"quantity": method.quantity, "tier": method.tier, "params": _json(effect, result.fit)}

    return compute


def _fitted(
    method: Registered, corpus: Corpus, paid: pl.DataFrame, options: Mapping[str, Any], which: int
) -> object:
    """What a method fits to a whole corpus, for one of the rewards."""
    assert method.fit is not None
    params = check_params(method.params, options["params"])
    channels = {"weights": options["rewards"][which]} if method.name in BY_CHANNEL else {}
    with _sums_in_order(method):
        return method.fit(corpus, paid, {**params, **channels}, options["seed"])


@functools.lru_cache(maxsize=2)
def _held_model(_fit: Fit, everything: Corpus, call: Call, which: int) -> object:
    """As `_fitted`, for the tasks of a plan, one after the other in a process, on a corpus that stays open.

    The fit is part of the key, since a name can be registered again.
    """
    method = method_of(call.options["method"])
    assert method is not None
    paid = _paid(everything, call.options["rewards"][which], method.name in BY_CHANNEL)
    return _fitted(method, everything, paid, call.options, which)


def _paid(corpus: Corpus, weights: dict[str, float], by_channel: bool) -> pl.DataFrame:
    """The reward of every trace, ``trace amount``; by channel also its amount in each channel."""
    if not by_channel:
        return amounts(corpus, weights).select("trace", amount="reward")
    paid = amounts(corpus, PartialWeights(weights)).select("trace", amount="reward")
    for name in weights:
        of = amounts(corpus, PartialWeights({name: 1.0})).select(pl.col("reward").alias(f"channel {name}"))
        paid = paid.hstack(of)
    return paid


def _sums_in_order(method: Registered) -> AbstractContextManager[object]:
    """One thread for BLAS, whose sums depend on the number of threads; methods of callers keep theirs."""
    if method.name not in FITTED:
        return nullcontext()
    return one_thread("blas")


def _check_scope(corpus: Corpus, name: str) -> None:
    """Refuse a corpus on disk whose pieces divide the traces that the method compares."""
    if not isinstance(corpus, PartitionedCorpus):
        return
    method = method_of(name)
    entry = described(name)
    scope = entry["scope"] if entry else None
    if scope == "group":
        check_groups(corpus)
    fitted = method is not None and method.fit is not None
    if scope == "corpus" and not fitted and name not in ROLLOUT_METHODS:
        check_one_piece(corpus, name)


def check_one_piece(corpus: Corpus, name: str) -> None:
    """Refuse a corpus on disk that is read in several pieces.

    Raises
    ------
    ParameterError
        Says how it comes to be in one.
    """
    if isinstance(corpus, PartitionedCorpus) and _in_several(corpus):
        raise ParameterError(
            f"method '{name}' compares all traces of a corpus at once, and {in_pieces(corpus)}, or filter it"
            " first"
        )


def _in_several(corpus: PartitionedCorpus) -> bool:
    return sum(1 for _ in corpus.pieces()) > 1


def in_pieces(corpus: PartitionedCorpus) -> str:
    """Text: why a corpus on disk is in several pieces, and how to read it in one."""
    partitions = len(on_disk(corpus).manifest.parts)
    if partitions > 1:
        return (
            f"this one has {partitions} partitions: ingest its recordings into another folder, with"
            " partitions=1 and a memory= that holds all of them"
        )
    return "this one does not fit into its budget: read it with a larger one (memory=)"


def described(name: str) -> Mapping[str, Any] | None:
    """The row of `methods` of a method of the core or of this registry; None where no method has the name."""
    method = method_of(name)
    return method.described() if method else _of_core().get(name)


def method_of(name: str) -> Registered | None:
    """The method written in Python that has this name."""
    if name in FITTED:
        _load_fitted()
    return _METHODS.get(name)


def registered() -> dict[str, Registered]:
    """Methods written in Python, the package's own first."""
    _load_fitted()
    return {name: _METHODS[name] for name in [*FITTED, *(name for name in _METHODS if name not in FITTED)]}


def _load_fitted() -> None:
    """Import the package's own methods, each of which registers itself."""
    import_module("orchestrace.credit.fitted")


def _checked(
    method: Registered, corpus: Corpus, rewards: pl.DataFrame, result: EventValues
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Values and traces as the roll-up takes them. Raises ParameterError for a wrong result of a method."""
    if not isinstance(result, EventValues):
        raise ParameterError(f"method '{method.name}' returned {type(result).__name__}, expected EventValues")
    values = result.values
    if not isinstance(values, pl.DataFrame):
        raise ParameterError(
            f"method '{method.name}' returned values of type {type(values).__name__}, expected a DataFrame"
            " with a column 'value'"
        )
    if "value" not in values.columns or not values["value"].dtype.is_numeric():
        raise ParameterError(f"method '{method.name}' returned no numbers in a column 'value'")
    events = corpus.events.select("trace", "seq").collect()
    if values.height != events.height:
        raise ParameterError(
            f"method '{method.name}' returned {values.height:,} values for {events.height:,} events"
        )
    reason = values["reason"] if "reason" in values.columns else pl.Series("reason", [None] * values.height)
    values = events.with_columns(value=values["value"].cast(pl.Float64), reason=_as_reason(method, reason))
    infinite = values.filter(~pl.col("value").is_finite())
    if infinite.height:
        raise ParameterError(
            f"method '{method.name}' returned {infinite['value'][0]} for event {infinite['seq'][0]} of trace"
            f" {infinite['trace'][0]}"
        )
    traces = rewards.select("trace", "amount", remainder=pl.lit(0.0), reason=pl.lit(None, CREDITS["reason"]))
    if result.traces is not None:
        of_traces = _checked_traces(method, result.traces)
        traces = traces.join(
            of_traces, on="trace", how="left", maintain_order="left", suffix=" given"
        ).select(
            "trace",
            *(pl.coalesce(f"{name} given", name).alias(name) for name in ("amount", "remainder", "reason")),
        )
    absent = rewards["amount"].is_null()
    if absent.any():
        gone = rewards.select("trace").filter(absent)["trace"].implode()
        values = values.with_columns(value=pl.when(~pl.col("trace").is_in(gone)).then("value"))
        traces = traces.with_columns(
            amount=pl.when(~pl.col("trace").is_in(gone)).then("amount"),
            reason=pl.when(pl.col("trace").is_in(gone))
            .then(pl.lit("reward.absent", CREDITS["reason"]))
            .otherwise("reason"),
        )
    # A trace with a reason and without a value is refused; one with values has them, and the reason beside.
    valued = values.group_by("trace").agg(n=pl.col("value").count())
    n = traces.select("trace").join(valued, on="trace", how="left", maintain_order="left")["n"].fill_null(0)
    traces = traces.with_columns(amount=pl.when(pl.col("reason").is_null() | (n > 0)).then("amount"))
    return values, traces


def _checked_traces(method: Registered, frame: object) -> pl.DataFrame:
    """The traces that a method returned, ``trace amount remainder reason`` in the types of `CREDITS`."""
    subject = f"method '{method.name}' returned traces"
    if not isinstance(frame, pl.DataFrame):
        raise ParameterError(f"{subject} of type {type(frame).__name__}, expected a DataFrame")
    for name in ("trace", "amount", "remainder"):
        if name not in frame.columns:
            raise ParameterError(f"{subject} without a column '{name}'")
        if not (frame[name].dtype.is_numeric() or frame[name].dtype == pl.Null):
            raise ParameterError(
                f"{subject} with a column '{name}' of type {frame[name].dtype}, expected numbers"
            )
    traces = frame["trace"].cast(pl.UInt32, strict=False)
    if traces.null_count():
        number = frame["trace"].filter(traces.is_null())[0]
        raise ParameterError(f"{subject} with {number} as number of a trace")
    if traces.is_duplicated().any():
        raise ParameterError(f"{subject} with trace {traces.filter(traces.is_duplicated())[0]} twice")
    reason = (
        frame["reason"] if "reason" in frame.columns else pl.Series([None] * frame.height, dtype=pl.String)
    )
    checked = frame.select(
        pl.col("amount", "remainder").cast(pl.Float64), trace=traces, reason=_as_reason(method, reason)
    )
    for name in ("amount", "remainder"):
        infinite = checked.filter(~pl.col(name).is_finite())
        if infinite.height:
            row = infinite.row(0, named=True)
            raise ParameterError(f"{subject} with {name} {row[name]} for trace {row['trace']}")
    return checked


def _as_reason(method: Registered, reasons: pl.Series) -> pl.Series:
    dtype = CREDITS["reason"]
    assert isinstance(dtype, pl.Enum)
    words = dtype.categories.to_list()
    for word in reasons.cast(pl.String).drop_nulls().unique(maintain_order=True):
        if word not in words:
            raise ParameterError(f"method '{method.name}': " + unknown_name("reason", word, words))
    return reasons.cast(pl.String).cast(dtype)


def _json(effect: Mapping[str, Value], fit: Mapping[str, object]) -> str:
    """The column `params`: keys in byte order, `fit` only where something was fitted."""
    fields = {name: shown(value) for name, value in effect.items()}
    if fit:
        rounded = {name: round(x, 6) + 0.0 if isinstance(x, float) else x for name, x in fit.items()}
        fields["quality"] = "{" + ",".join(f"{shown(k)}:{shown(rounded[k])}" for k in sorted(rounded)) + "}"
    return "{" + ",".join(f"{shown(name)}:{fields[name]}" for name in sorted(fields)) + "}"


def _check_word(kind: str, word: object, allowed: Sequence[str]) -> None:
    if word not in allowed:
        raise ParameterError(unknown_name(kind, str(word), list(allowed)))


@functools.cache
def _of_core() -> dict[str, Mapping[str, Any]]:
    return {str(method["name"]): method for method in _core.methods()}
