"""The verb `replay`: how recorded runs would have ended if something were different."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import polars as pl

from .. import _core
from ..base.arguments import Number, Threads
from ..base.deferred import Deferred
from ..base.division import Arguments, Division, Order
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import REPLAYS, SCHEMAS, unknown_name
from ..base.text import in_json
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import expect_names
from ..corpus.parts import store_of
from ..interventions.composition import Spec, Specified, parts_of
from ..schedules.scheduling import MaxGap, replay_schedule, scenarios_of, timing_options

if TYPE_CHECKING:
    import numpy as np
else:
    np = Deferred("numpy")

Model = Literal["noisy_or", "typed", "noisy_and", "linear", "mean", "max", "min", "majority", "reachability"]

STRUCTURAL = frozenset({"drop", "set_value", "aggregate_by", "truncate"})
"""Kinds of interventions that change what happens; all others change when."""

NAMED = ("event", "agent", "role", "tool", "call", "spawn", "edge", "message")


@dataclass(frozen=True)
class Game:
    """Whose presence an outcome of your own is asked about.

    Attributes
    ----------
    trace_id
        The trace.
    players
        Ids of its events, in the order of the columns of the masks.
    """

    trace_id: str
    players: tuple[str, ...]


Outcome = Callable[[Any, Game], Any]
"""``outcome(masks, game)``: masks (m, events) of bool, the values of m runs as (m,) float64."""


def _scenario_names(arguments: Arguments) -> list[str]:
    names = []
    for intervention in arguments.positional:
        specs = [part.spec() for part in parts_of(intervention)]
        if all(spec["kind"] in STRUCTURAL for spec in specs):
            names.append(str(intervention))
        else:
            names += [name for name, _ in scenarios_of(intervention)]
    return names


def _with_distinct_names(corpus: Corpus, arguments: Arguments) -> Arguments:
    names = _scenario_names(arguments)
    if twice := [name for name in names if names.count(name) > 1]:
        raise ParameterError(f"two scenarios are called {twice[0]}: give each once, or plan them apart")
    for intervention in arguments.positional:
        if len(parts_of(intervention)) == 1:
            _expect_named(corpus, intervention)
    return arguments


def _expect_named(corpus: Corpus, intervention: Any) -> None:
    for part in parts_of(intervention):
        spec = part.spec()
        if spec["kind"] in STRUCTURAL:
            _expect_names_of(corpus, spec)


def _expect_names_of(corpus: Corpus, spec: Spec) -> None:
    for by in NAMED:
        value = spec.get(by)
        if value is not None:
            expect_names(corpus, by, value if isinstance(value, tuple) else [value])


def _refuse_unknown_of_tasks(corpus: Corpus, arguments: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    """Refuse a composed scenario that changes no trace of the corpus for a name that none has."""
    reason = pl.col("reason").cast(pl.String)
    acyclic = frame.filter((reason != "graph.cycle").fill_null(True))
    empty = acyclic.group_by("intervention").agg((reason == "selection.empty").fill_null(False).all())
    nothing = set(empty.filter("reason")["intervention"].cast(pl.String))
    for intervention in arguments.positional:
        if str(intervention) in nothing:
            _expect_named(corpus, intervention)
    return frame


@verb(
    rows="a scenario and trace",
    division=Division(
        prepare=_with_distinct_names,
        order=lambda arguments: Order(blocks=("intervention", tuple(_scenario_names(arguments)))),
        finish=_refuse_unknown_of_tasks,
    ),
)
def replay(
    corpus: Corpus,
    *interventions: Specified,
    outcome: Model | Outcome = "noisy_or",
    weights: Sequence[float] | Mapping[str, float] | object | None = None,
    quorum: Annotated[float, Number(0, below=1)] = 0.5,
    sensitivity: bool = True,
    structure_alone: bool = False,
    program_order: bool = False,
    durations: Literal["auto", "explicit", "gap"] = "auto",
    max_gap: MaxGap = "auto",
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Replay recorded runs with something changed, and compare the outcome, or the schedule.

    No model and no agent runs. An answer follows from the recording under stated assumptions, and its
    ``tier`` says under which.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    interventions
        One scenario each, made by `ot.interventions`: `drop`, `do`, `truncate`, `aggregate_by`,
        or several of them composed with ``&``. Scenarios with a schedule intervention (`concurrency`,
        `speed_up`, ...) say when a run would end, not how.
    outcome
        How an event depends on its inputs: ``noisy_or``; ``typed`` (results and returns need all of their
        inputs, aggregates the best one, in a debate the majority; safety events can veto); ``noisy_and``;
        ``linear`` (weighted mean); ``mean``; ``max``; ``min``; ``majority``; ``reachability``. Or a function
        of your own, ``outcome(masks, game)``: masks is a bool array (m, events), True where an event is
        present, and game has ``trace_id`` and ``players`` (the event ids). It returns (m,) float64 in any
        unit and range. It serves drops of events and truncations, which only change presence.
    weights
        How much edges carry. None takes the weights of D3, as shares of the weight into each event. Eight
        numbers of at least 0 in the order of the edge types (``temporal, causal, spawn, message,
        tool_dependency, return, aggregate, safety_flow``), or a mapping with all of these names, or a fitted
        outcome: used as they are.
    quorum
        Share of the weight (at least 0, below 1) that a majority has to exceed.
    sensitivity
        Bound every effect over seven families of gates.
    structure_alone
        Also give effects that rest on the graph and the assumed gates alone (``support`` is 0, and no weights
        are given). By default these are null.
    program_order
        Join consecutive events of one owner by temporal edges.
    durations, max_gap
        How long an event took, as in `simulate`; for schedule scenarios.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per scenario, trace and, with ``each=``, unit, in this order: ``trace intervention unit_id
        trace_id outcome outcome_cf effect stderr lower upper makespan makespan_cf tokens tokens_cf tier
        support reason params``. ``outcome`` is the value of the recorded outcome, 0..1 (Float64),
        ``outcome_cf`` that in the scenario, ``effect`` their difference ``outcome_cf - outcome``; ``lower``
        and ``upper`` are its least and greatest value over the families of gates; if signs differ, the reason
        is ``gate.unstable``. Schedule scenarios have ``makespan`` and ``makespan_cf`` instead (Float64,
        seconds, or steps with ``time.steps``); ``lower`` and ``upper`` are bounds of ``makespan_cf`` then.
        ``tokens`` and ``tokens_cf`` (Int64) are those of the run and of what remains of it, null if none are
        recorded. ``support`` is the share of events on a way to the outcome whose ``score`` is recorded; for
        schedules, the share of events whose duration is recorded. ``stderr`` is null, since nothing is
        sampled. Null with a reason: ``selection.empty`` (the trace has nothing of what is changed),
        ``support.absent`` (the change leads to the outcome, and no score on the way says what that is worth:
        ``lower`` and ``upper`` are then bounds that include 0, the case that others would have done the
        work), ``trace.partial`` (the recording lacks ways to its outcome, or the outcome),
        ``outcome.ambiguous``, ``graph.cycle``, ``result.range`` (your own outcome is not a finite number).

    Raises
    ------
    ParameterError
        No intervention, an object that is not an intervention, names that no trace has, options out of range,
        or an outcome function that does not return m numbers.

    Notes
    -----
    Abduction: x of an event is its ``score`` kept within 0..1, else what its gate makes of its inputs, and u
    what it has beyond that. Action: the interventions. Prediction: everything downstream is computed again,
    f(x) + u kept within 0..1. A scenario that changes nothing has the effect 0, bit for bit. So has every
    event that is not an ancestor of the outcome.

    A trace whose every unit is tried (``each=``) is refused where scenarios times events and edges times
    families of gates are more than 2^37, which takes a few minutes of one core.

    Tier ``surrogate``; ``observed`` where `interventions.aggregate_by` alone changes a scored outcome whose
    inputs are all scored; ``schedule`` for schedule scenarios.

    O((events + edges) · scenarios) for each family of gates, in parallel over traces and blocks of 64
    scenarios. Source: J. Pearl, Causality, 2009, section 7.1; gates and losses:
    docs/reference/definitions.md, D15 and D22.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=5, seed=0)
    >>> table = ot.replay(corpus, ot.interventions.drop(each="agent"))
    >>> table.select("unit_id", "lower", "upper", "reason").row(0)
    ('orchestrator', -1.0, 0.0, 'support.absent')
    >>> bool((table["lower"] <= table["effect"]).all() and (table["effect"] <= table["upper"]).all())
    True
    """
    scenarios = [
        (intervention, [part.spec() for part in parts_of(intervention)])
        for intervention in map(_checked, interventions)
    ]
    if not scenarios:
        raise ParameterError(
            "replay needs an intervention: ot.interventions.drop(agent='critic'), truncate(at=60), ..."
        )
    if not callable(outcome) and outcome not in get_args(Model):
        raise ParameterError(_no_model(outcome))
    timing = timing_options(durations, max_gap, program_order)
    options = {
        "weights": _weights(weights),
        "quorum": float(quorum),
        "sensitivity": bool(sensitivity),
        "structure_alone": bool(structure_alone),
        "program_order": bool(program_order),
    }
    tables = []
    with reporting(progress, "replaying") as callback:
        for structural, group in groupby(scenarios, lambda scenario: _is_structural(scenario[1])):
            those = list(group)
            if not structural:
                changes = [intervention for intervention, _ in those]
                tables.append(replay_schedule(corpus, changes, **timing, threads=threads, progress=callback))
            elif callable(outcome):
                tables.append(_by_function(corpus, those, outcome, bool(program_order), callback))
            else:
                tables.append(_surrogate(corpus, those, outcome, options, threads, callback))
    return pl.concat(tables) if len(tables) > 1 else tables[0]


def _checked(intervention: object) -> Specified:
    if isinstance(intervention, Specified) and not isinstance(intervention, type):
        return intervention
    if isinstance(intervention, list | tuple):
        raise ParameterError(
            "interventions are a list: pass them one by one, ot.replay(corpus, *interventions)"
        )
    raise ParameterError(
        f"intervention is {intervention!r}, expected one that ot.interventions makes: drop(...),"
        " truncate(...), ..."
    )


def _no_model(outcome: object) -> str:
    if isinstance(outcome, str):
        return unknown_name("outcome", outcome, list(get_args(Model)))
    message = f"outcome is of type {type(outcome).__name__}, expected the name of a model or a function"
    fitted = getattr(outcome, "model", None)
    return message + (f": outcome='{fitted}', weights=<this>" if fitted in get_args(Model) else "")


def _is_structural(specs: list[Spec]) -> bool:
    return all(spec.get("kind") in STRUCTURAL for spec in specs)


def _is_boolean(spec: Spec) -> bool:
    between = spec.get("edge") or spec.get("message") or spec.get("each") in ("edge", "message")
    return spec.get("kind") in ("drop", "truncate") and not between


_Scenario = tuple[Specified, list[Spec]]
_Callback = Callable[[int, int], object] | None


def _surrogate(
    corpus: Corpus,
    scenarios: list[_Scenario],
    outcome: str,
    options: dict[str, Any],
    threads: int | None,
    callback: _Callback,
) -> pl.DataFrame:
    specs = [spec for _, spec in scenarios]
    call: dict[str, Any] = {"outcome": outcome, **options, "threads": threads, "progress": callback}
    tables = [
        pl.DataFrame(_core.replay_structural(store_of(load()), specs, **call)) for _, load in corpus.pieces()
    ]
    if not tables:
        # Arguments are judged by the core, also where there is nothing to replay.
        tables = [pl.DataFrame(_core.replay_structural(_core.read([]), specs, **call))]
    rows = pl.concat(tables).sort("scenario", maintain_order=True)
    _refuse_unknown(corpus, rows, specs)
    return _finished(rows, scenarios, {"outcome": outcome, **options})


def _by_function(
    corpus: Corpus,
    scenarios: list[_Scenario],
    outcome: Outcome,
    program_order: bool,
    callback: _Callback,
) -> pl.DataFrame:
    for intervention, parts in scenarios:
        if not all(_is_boolean(spec) for spec in parts):
            raise ParameterError(
                f"{intervention} changes more than the presence of events, and a custom outcome function sees"
                " nothing else: name a model, outcome='noisy_or'"
            )
    specs = [spec for _, spec in scenarios]
    tables = []
    done, total = 0, len(corpus)
    for _, load in corpus.pieces():
        piece = load()
        traces = piece.traces.select("trace", "trace_id").collect()
        ids = piece.events.select("trace", "id").collect().partition_by("trace", maintain_order=True)
        for at, ((trace, trace_id), events) in enumerate(zip(traces.iter_rows(), ids, strict=True)):
            stream, present = _core.replay_presence(store_of(piece), specs, at, program_order=program_order)
            rows = pl.DataFrame(stream)
            masks = np.frombuffer(present, np.bool_).reshape(rows.height, events.height)
            game = Game(trace_id, tuple(events["id"]))
            values = _with_outcomes(outcome, rows, masks, game)
            tables.append(values.with_columns(trace=pl.lit(trace, pl.UInt32), trace_id=pl.lit(trace_id)))
            done += 1
            if callback is not None:
                callback(done, total)
    empty = pl.DataFrame(schema={"scenario": pl.UInt32, "reason": REPLAYS["reason"]})
    rows = pl.concat([empty, *tables], how="diagonal").sort("scenario", maintain_order=True)
    _refuse_unknown(corpus, rows, specs)
    name = getattr(outcome, "__qualname__", type(outcome).__qualname__)
    return _finished(rows, scenarios, {"outcome": f"own:{name}", "program_order": program_order})


def _with_outcomes(outcome: Outcome, rows: pl.DataFrame, masks: Any, game: Game) -> pl.DataFrame:
    """The rows of one trace with what the outcome says of them."""
    valid = rows["reason"].is_null().to_numpy()
    runs = np.concatenate([np.ones((1, masks.shape[1]), np.bool_), masks[valid]])
    answer = outcome(runs, game)
    try:
        values = np.asarray(answer, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if values.shape != (len(runs),):
        raise ParameterError(
            f"outcome returned {_shape(answer)} for {len(runs)} runs of trace '{game.trace_id}',"
            f" expected an array of {len(runs)} numbers"
        )
    changed = np.full(rows.height, np.nan)
    changed[valid] = values[1:]
    recorded = np.where(valid, values[0], np.nan)
    finite = np.isfinite(changed) & np.isfinite(recorded) & np.isfinite(changed - recorded)
    beyond = pl.lit("result.range", rows["reason"].dtype)
    is_finite = pl.Series(finite)
    return rows.with_columns(
        outcome=pl.when(is_finite).then(pl.Series(recorded)),
        outcome_cf=pl.when(is_finite).then(pl.Series(changed)),
        effect=pl.when(is_finite).then(pl.Series(changed - recorded)),
        tokens=pl.when(is_finite).then("tokens"),
        tokens_cf=pl.when(is_finite).then("tokens_cf"),
        tier=pl.when(is_finite).then(pl.lit("surrogate", REPLAYS["tier"])),
        reason=pl.when(pl.Series(valid & ~finite)).then(beyond).otherwise("reason"),
    )


def _shape(answer: object) -> str:
    shape = getattr(answer, "shape", None)
    return f"shape {shape}" if shape is not None else f"a {type(answer).__name__}"


def _finished(rows: pl.DataFrame, scenarios: list[_Scenario], options: dict[str, Any]) -> pl.DataFrame:
    """All columns of the table; those of schedules alone are null."""
    names = pl.Series([str(intervention) for intervention, _ in scenarios], dtype=pl.String)
    params = json.dumps(
        {**options, "version": _core.VERSION}, sort_keys=True, separators=(",", ":"), default=in_json
    )
    table = rows.with_columns(intervention=names.gather(rows["scenario"]), params=pl.lit(params))
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in REPLAYS.items()
    )


def _refuse_unknown(corpus: Corpus, rows: pl.DataFrame, specs: list[list[Spec]]) -> None:
    """A name that no trace has is a mistake; one that some traces lack is not."""
    empty = (
        rows.filter((pl.col("reason").cast(pl.String) != "graph.cycle").fill_null(True))
        .group_by("scenario")
        .agg((pl.col("reason").cast(pl.String) == "selection.empty").all())
        .filter("reason")
    )
    for scenario in sorted(empty["scenario"]):
        for spec in specs[scenario]:
            _expect_names_of(corpus, spec)


def _weights(weights: object) -> list[float] | None:
    """Eight numbers in the order of the edge types, whatever form they come in."""
    types = SCHEMAS["edges"]["type"].categories.to_list()  # type: ignore[attr-defined]
    if weights is None:
        return None
    if isinstance(weights, Mapping):
        if unknown := [name for name in weights if name not in types]:
            raise ParameterError(unknown_name("edge type in weights", str(unknown[0]), types))
        if lacking := [name for name in types if name not in weights]:
            raise ParameterError(f"weights has no '{lacking[0]}': name all of {', '.join(types)}")
        weights = [weights[name] for name in types]
    try:
        numbers = [float(weight) for weight in weights]  # type: ignore[attr-defined]  # that is the question
    except ParameterError:  # a fitted outcome that no eight numbers stand for
        raise
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != len(types) or not all(0 <= weight < float("inf") for weight in numbers):
        raise ParameterError(f"weights: expected {len(types)} numbers of at least 0, for {', '.join(types)}")
    return numbers
