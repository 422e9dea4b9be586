"""Schedules of recorded events: on fewer slots, with faster tools, without an agent."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import polars as pl

from .. import _core
from ..base.arguments import Amount, Threads
from ..base.division import Division, Order
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.ranges import in_range
from ..base.schema import CREDITS, REPLAYS
from ..base.text import in_json
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import expect_names
from ..corpus.parts import store_of
from ..corpus.pieces import empty_store
from ..interventions.composition import Spec, Specified, parts_of
from ..interventions.timing import Concurrency, Pool, Queue, Release, concurrency

Durations = Literal["auto", "explicit", "gap"]
MaxGap = Amount | Literal["auto"] | None

SCHEDULE_KINDS = frozenset(
    {"concurrency", "speed_up", "cap_stragglers", "remove", "merge", "split", "serialize"}
)
"""Kinds of interventions that are about the schedule alone."""

_UNITS = pl.Enum(["seconds", "steps"])
_SCHEDULE = {
    "trace": pl.UInt32(),
    "seq": pl.UInt32(),
    "duration": pl.Float64(),
    "start": pl.Float64(),
    "finish": pl.Float64(),
    "slack": pl.Float64(),
    "critical": pl.Boolean(),
    "source": pl.Enum(["duration_s", "t_end", "gap", "absent", "idle", "outside"]),
    "unit": _UNITS,
    "reason": CREDITS["reason"],
}
_CURVE = {
    "trace": pl.UInt32(),
    "trace_id": pl.String(),
    "k": pl.UInt32(),
    "makespan": pl.Float64(),
    "speedup": pl.Float64(),
    "utilization": pl.Float64(),
    "cost": pl.Float64(),
    "work": pl.Float64(),
    "span": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "peak": pl.UInt32(),
    "recorded": pl.Float64(),
    "unit": _UNITS,
    "tier": REPLAYS["tier"],
    "support": pl.Float64(),
    "reason": CREDITS["reason"],
    "params": pl.String(),
}


@verb(rows="an event", division=Division())
def simulate(
    corpus: Corpus,
    *,
    slots: int | None = None,
    pool: Pool = "all",
    queue: Queue = "recorded",
    release: Release = "none",
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Compute when every event happens if it begins as soon as it can, and how late it could be.

    Parameters
    ----------
    corpus
        The recordings.
    slots, pool, queue, release
        As in `concurrency`; None slots are as many as are needed. With ``release="recorded"`` and no slots,
        the schedule is that of the recording (identity).
    durations
        ``auto``: the field ``duration_s``, else ``t_end - t``, else (where times are seconds) the gap since
        what the event waits for ended; the gap for all events where some duration is absent and times are
        steps. ``explicit``: recorded durations, absent is 0. ``gap``: gaps for all events. What a human or a
        scorer does takes no time here.
    max_gap
        The longest gap that counts as somebody's work, in the unit of ``t``; a longer one is idle, as where a
        session rests until the next day. ``"auto"``: an hour where times are in seconds, no limit where they
        are steps. None: every gap counts.
    program_order
        Join consecutive events of one owner by temporal edges.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per event, in the order of `Corpus.events`: ``trace seq`` (UInt32), ``duration start finish
        slack`` (Float64, in `unit`, since the beginning of the first event), ``critical`` (Boolean: on the
        critical path), ``source`` (where the duration comes from: ``duration_s t_end gap absent``, ``idle``
        beyond `max_gap`, ``outside`` of a human or a scorer), ``unit`` (``seconds`` or ``steps``),
        ``reason``. ``slack`` and ``critical`` are about the dependencies alone,
        whatever the slots. ``reason`` is ``time.steps`` beside numbers that are steps; a trace whose edges
        close a cycle has nulls.

    Raises
    ------
    ParameterError
        Unknown word, or a number of slots below 1.

    Notes
    -----
    F(v) = d(v) + max F(pred); slack is how much later v could end without moving the last end; the critical
    path leads from the last end back through the predecessor that ended last (ties: the earlier in (t, seq)).
    O(events + edges); O((events + edges) log k) with k slots. Sources: Kelley and Walker, Critical-path
    planning and scheduling, 1959; Brent, J. ACM 21(2), 1974.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> table = ot.schedules.simulate(corpus)
    >>> table.filter("critical")["slack"].sum()
    0.0
    """
    if slots is not None and not isinstance(slots, int):
        raise ParameterError(f"slots is {slots!r}, expected one number or None; scaling_curve takes several")
    (only,) = concurrency(slots, pool=pool, queue=queue, release=release).slots
    scenario: Spec = {"changes": [], "slots": only, "pool": pool, "queue": queue, "release": release}
    options = timing_options(durations, max_gap, program_order)
    with reporting(progress, "scheduling") as callback:
        frames = [
            pl.DataFrame(
                _core.schedule(store_of(load()), scenario, **options, threads=threads, progress=callback)
            )
            for _, load in corpus.pieces()
        ]
    return pl.concat([pl.DataFrame(schema=_SCHEDULE), *frames])


def replay_schedule(
    corpus: Corpus,
    interventions: Sequence[Any],
    *,
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Replay schedules: the same events at other times.

    Parameters
    ----------
    corpus
        The recordings.
    interventions
        One scenario each, made by `ot.interventions`: `concurrency`, `speed_up`, `cap_stragglers`, `skip`,
        `merge`, `split`, `run_sequentially`, `drop`, or several of them joined by ``&``. `concurrency` of
        several k is a scenario for each.
    durations, max_gap, program_order, threads, progress
        As in `simulate`.

    Returns
    -------
    DataFrame
        Rows of `replay`, one per scenario and trace, scenarios in the order given. ``makespan`` is that of
        the same replay with nothing changed, on unlimited slots: the difference to ``makespan_cf`` is what
        the intervention does. ``tokens`` counts all events, ``tokens_cf`` those that are left. ``support`` is
        the share of events whose duration is recorded. ``outcome`` and its effect are null: what events did
        stays as it was. ``reason`` is ``time.steps`` where makespans are steps, ``selection.empty`` where the
        trace has nothing that would change.

    Raises
    ------
    ParameterError
        A name that the corpus does not have, or interventions that cannot be combined.

    Notes
    -----
    O((events + edges) log k) for each scenario. Source: Graham 1969 (list scheduling);
    docs/reference/definitions.md, D7, D8, D10.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> from orchestrace.schedules.scheduling import replay_schedule
    >>> from orchestrace.interventions import concurrency, run_sequentially
    >>> table = replay_schedule(corpus, [run_sequentially(), concurrency(1)])
    >>> table.height, table["makespan_cf"][:3].equals(table["makespan_cf"][3:])
    (6, True)
    """
    scenarios = [scenario for intervention in interventions for scenario in scenarios_of(intervention)]
    _check_names(corpus, [change for _, core in scenarios for change in core["changes"]])
    options = timing_options(durations, max_gap, program_order)
    replayed = _replayed(corpus, scenarios, options, threads, progress)
    table = replayed.with_columns(tier=pl.when(pl.col("makespan_cf").is_not_null()).then(pl.lit("schedule")))
    nulls = {name: pl.lit(None) for name in REPLAYS.names() if name not in table.columns}
    return table.with_columns(**nulls).select(pl.col(name).cast(dtype) for name, dtype in REPLAYS.items())


@verb(rows="a trace and number of slots", division=Division(order=lambda arguments: Order(by=("trace",))))
def scaling_curve(
    corpus: Corpus,
    slots: Sequence[int | None] = (1, 2, 4, 8, None),
    *,
    pool: Pool = "all",
    queue: Queue = "recorded",
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Compute makespan, cost and utilization of every trace on k slots, with the bounds of Graham and Brent.

    Parameters
    ----------
    corpus
        The recordings.
    slots
        Numbers k of slots; None is as many as are needed.
    pool, queue
        As in `concurrency`.
    durations, max_gap, program_order, engine, threads, progress
        As in `simulate`.

    Returns
    -------
    DataFrame
        One row per trace and k: ``trace`` (UInt32) ``trace_id``, ``k`` (UInt32, null for as many as are
        needed), ``makespan`` T_k, ``speedup`` T1/T_k, ``utilization`` (share of the slots' time that is
        taken), ``cost`` k T_k (what k slots cost until the end; null without k), ``work`` T1, ``span`` T∞,
        ``lower`` and ``upper`` (bounds of T_k), ``peak`` (UInt32: most slots taken at a time), ``recorded``
        (makespan of the recording; null where durations are seconds and its times are steps), ``unit`` of
        all times, ``tier support reason params``. Numbers are
        Float64; one beyond the floats is null, and ``reason`` ``result.range``.

    Raises
    ------
    ParameterError
        Unknown word, or a number of slots below 1.

    Notes
    -----
    max(T1/k, T∞) <= T_k <= T1/k + T∞ (1 - 1/k) for any queue (Graham 1969, equal to Brent's T∞ + (T1 - T∞)/k,
    J. ACM 21(2), 1974). More slots can make T_k longer (Graham's anomalies), never beyond the bound. Where
    only some events need slots, ``upper`` is W/k + the longest path in which these count (1 - 1/k), W being
    their work; for agents, who do several things on one slot, ``lower`` is T∞. O((events + edges) log k) for
    each k.

    Examples
    --------
    >>> import orchestrace as ot
    >>> curve = ot.schedules.scaling_curve(ot.generate(traces=2, seed=0), slots=[1, None])
    >>> serial = curve.filter(k=1)
    >>> serial["makespan"].equals(serial["upper"]) or (serial["makespan"] - serial["work"]).abs().max() < 1e-9
    True
    """
    intervention = concurrency(slots, pool=pool, queue=queue)
    options = timing_options(durations, max_gap, program_order)
    replayed = _replayed(corpus, scenarios_of(intervention), options, threads, progress)
    ks = pl.DataFrame(
        {"scenario": range(len(intervention.slots)), "k": intervention.slots},
        {"scenario": pl.UInt32, "k": pl.UInt32},
    )
    table = replayed.join(ks, on="scenario", how="left", maintain_order="left").sort(
        "trace", maintain_order=True
    )
    makespan = pl.col("makespan_cf")
    table = table.with_columns(
        makespan=makespan,
        speedup=pl.when(makespan > 0).then(pl.col("work") / makespan),
        cost=makespan * pl.col("k"),
        tier=pl.when(makespan.is_not_null()).then(pl.lit("schedule")),
    )
    curve = table.select(pl.col(name).cast(dtype) for name, dtype in _CURVE.items())
    return in_range(curve, [name for name, dtype in _CURVE.items() if dtype == pl.Float64])


def timing_options(durations: Durations, max_gap: MaxGap, program_order: bool) -> dict[str, Any]:
    """How events are timed, as the core takes it."""
    return {"durations": durations, "max_gap": max_gap, "program_order": bool(program_order)}


def _replayed(
    corpus: Corpus,
    scenarios: list[tuple[str, dict[str, Any]]],
    options: dict[str, Any],
    threads: int | None,
    progress: Progress,
) -> pl.DataFrame:
    """What the core says, scenario by scenario, with their names and parameters."""
    specs = [core for _, core in scenarios]
    with reporting(progress, "replaying") as callback:
        frames = [
            pl.DataFrame(
                _core.replay_schedules(store_of(load()), specs, **options, threads=threads, progress=callback)
            )
            for _, load in corpus.pieces()
        ]
    shared = {**options, "version": _core.VERSION}
    names = pl.DataFrame(
        {
            "scenario": range(len(scenarios)),
            "intervention": [name for name, _ in scenarios],
            "params": [
                json.dumps({**core, **shared}, sort_keys=True, separators=(",", ":"), default=in_json)
                for core in specs
            ],
        },
        {"scenario": pl.UInt32, "intervention": pl.String, "params": pl.String},
    )
    if not frames:  # a corpus on disk without a trace
        frames = [pl.DataFrame(_core.replay_schedules(empty_store(), specs, **options))]
    rows = pl.concat(frames).sort("scenario", maintain_order=True)
    return rows.join(names, on="scenario", how="left", maintain_order="left")


def _flat(spec: Spec) -> Iterator[Spec]:
    """The parts of an intervention, in their order."""
    if spec.get("kind") == "together":
        for part in spec["parts"]:
            yield from _flat(part)
    else:
        yield spec


def scenarios_of(intervention: Any) -> list[tuple[str, dict[str, Any]]]:
    """Scenarios of the core, and what they are called."""
    if not isinstance(intervention, Specified) or isinstance(intervention, type):
        raise ParameterError(
            f"an intervention is of type {type(intervention).__name__}, expected what concurrency, speed_up, "
            "cap_stragglers, remove, merge, split, serialize or drop make"
        )
    specs = list(_flat(intervention.spec()))
    settings = [spec for spec in specs if spec["kind"] == "concurrency"]
    if len(settings) > 1:
        raise ParameterError("concurrency is given twice in one scenario: give one, with a list of slots")
    changes = [_change(spec) for spec in specs if spec["kind"] != "concurrency"]
    divided = [change["agent"] for change in changes if change["kind"] == "split"]
    if again := [agent for n, agent in enumerate(divided) if agent in divided[:n]]:
        raise ParameterError(
            f"agent '{again[0]}' is split twice in one scenario: give one split with more parts"
        )
    setting = settings[0] if settings else concurrency(None).spec()
    core = {"changes": changes, **{name: setting[name] for name in ("pool", "queue", "release")}}
    parts = parts_of(intervention)
    return [
        (
            " & ".join(part.named(k) if isinstance(part, Concurrency) else str(part) for part in parts),
            {**core, "slots": k},
        )
        for k in setting["slots"]
    ]


def _change(spec: Spec) -> Spec:
    """A part of a scenario as the core takes it."""
    kind = spec["kind"]
    if kind in SCHEDULE_KINDS:
        return spec
    if kind != "drop":
        raise ParameterError(f"'{kind}' changes outcomes, not schedules: replay it in a scenario of its own")
    selection = {
        name: value
        for name, value in spec.items()
        if value is not None and name not in ("kind", "mode", "lost")
    }
    by = [name for name in selection if name in ("event", "agent", "role", "tool", "type")]
    if len(selection) != 1 or len(by) != 1:
        options = ", ".join(f"{name}=" for name in selection if name not in by) or "no selection"
        raise ParameterError(
            f"drop with {options} has no schedule: here drop by one of event=, agent=, role=, tool=, type="
        )
    mode, lost = spec.get("mode", "subtree"), spec.get("lost", "all")
    return {
        "kind": "remove",
        "by": by[0],
        "value": selection[by[0]],
        "cascade": "stay" if mode == "node" else lost,
    }


def _check_names(corpus: Corpus, changes: list[Spec]) -> None:
    """Refuse names that no trace has."""
    wanted: dict[str, set[str]] = {}
    for change in changes:
        if change["kind"] == "merge":
            wanted.setdefault("agent", set()).update(change["agents"])
        elif change["kind"] == "split":
            wanted.setdefault("agent", set()).add(change["agent"])
        elif change.get("by") in ("agent", "role", "tool", "event"):
            wanted.setdefault(change["by"], set()).add(change["value"])
    for by, names in sorted(wanted.items()):
        expect_names(corpus, by, names)
