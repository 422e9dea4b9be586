"""The verbs of rewards: the rules, their payments, the terms of a payment, and payments as measures."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.arguments import Threads, TraceName
from ..base.division import Arguments, Division, Order, Pieces
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected, one_trace
from ..corpus.names import TOOLS, declared_names, names_of, tools_by_trust, with_named_tools
from ..corpus.parts import store_of
from ..corpus.pieces import empty_store
from ..corpus.reward import check_channels
from ..schedules.scheduling import Durations, MaxGap, timing_options
from .windows import Windows, windows_of, with_params

Parameter = bool | int | float | str | None
Rules = str | Sequence[str] | Mapping[str, Mapping[str, Parameter]]

REWARDS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "reward": CREDITS["reward"],
        "family": pl.Enum([f"R{n}" for n in range(1, 9)]),
        "unit": CREDITS["unit"],
        "unit_id": pl.String(),
        "seq": pl.UInt32(),
        "value": pl.Float64(),
        "reason": CREDITS["reason"],
        "params": CREDITS["params"],
    }
)
"""Columns and types of what `compute` returns."""


@verb
def list_rules() -> pl.DataFrame:
    """List the rules that `compute` knows.

    Returns
    -------
    DataFrame
        A row per rule: ``reward`` (its name), ``family`` (``R1`` to ``R8``), ``unit`` (what is paid),
        ``summary`` (the formula), ``addends`` (what a payment is the sum of), ``channels`` (rewards of the
        recording that it reads: structs ``name default doc``), ``metrics`` (of `metrics`, that it reads),
        ``params`` (structs ``name kind default doc``, weights among them) and ``reference`` (its source, and
        which part of it is not published).

    Notes
    -----
    Families are those of arXiv 2605.02801: R1 outcome, R2 individual, R3 role, R4 process, R5 tool,
    R6 verifier, R7 orchestration, R8 sums of several.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.rewards.list_rules().filter(reward="speedup")["summary"].item()
    '1 - critical_steps / total_steps'
    """
    text = ("name", "default", "doc")
    channel = pl.Struct(dict.fromkeys(text, pl.String))
    param = pl.Struct(dict.fromkeys(("name", "kind", "default", "doc"), pl.String))
    words = pl.List(pl.String)
    schema: dict[str, Any] = {
        "reward": pl.String,
        "family": pl.String,
        "unit": pl.String,
        "summary": pl.String,
        "addends": words,
        "channels": pl.List(channel),
        "metrics": words,
        "params": pl.List(param),
        "reference": pl.String,
    }
    return pl.DataFrame(_core.reward_rules(), schema=schema)


def _with_channels(corpus: Corpus, arguments: Arguments) -> Arguments:
    channels = arguments.named.get("channels")
    if isinstance(channels, dict):
        check_channels(corpus, channels.values())
    return with_named_tools(corpus, arguments)


def _check_schedules(arguments: Arguments, pieces: Pieces) -> None:
    if compares_windows(arguments.by_name(compute)["rewards"]):
        raise ParameterError(
            "anneal='diagnostic' compares all traces of a step of training, and a task sees its own alone:"
            " compute this rule on one machine, or plan it with another schedule"
        )


def _in_order_of_rules(arguments: Arguments) -> Order:
    rules = arguments.by_name(compute)["rewards"]
    return Order(blocks=("reward", (rules,) if isinstance(rules, str) else tuple(rules)))


@verb(
    rows="a rule, trace and unit",
    division=Division(
        prepare=_with_channels, narrowed=TOOLS, check=_check_schedules, order=_in_order_of_rules
    ),
)
def compute(
    corpus: Corpus,
    rewards: Rules,
    *,
    channels: Mapping[str, str] | None = None,
    subtasks: Mapping[str, Collection[str]] | None = None,
    harness: Mapping[str, Collection[str]] | None = None,
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Compute rewards by rules: what each run, or each unit of it, is paid.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    rewards
        A name of `rules`, a list of names, or a mapping of names to parameters:
        ``{"parl": {"lambda_parallel": 0.2}, "outcome": {}}``.
    channels
        Which reward of the recordings a rule's channel is, where it is not the default:
        ``{"outcome": "accuracy"}``. It goes to every rule that has the channel.
    subtasks, harness, untrusted_tools, trusted_tools, durations, max_gap, program_order
        As in `metrics`, for the rules that read metrics.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per trace, rule and unit that the rule pays, rules in the order asked for: ``trace`` (UInt32)
        ``trace_id task_id`` (String) ``reward`` (Categorical) ``family unit`` (Enum) ``unit_id`` (String)
        ``seq`` (UInt32: first event of the unit) ``value`` (Float64, in the unit of the rule's formula)
        ``reason`` (Enum: why it is null) ``params`` (Categorical: JSON with all parameters, channels and the
        version). A unit that a trace does not have has no row. With ``anneal="diagnostic"`` ``params`` also
        has ``anneal_left``, by which both weights of the row were multiplied; it is that of the trace's step.

    Raises
    ------
    ParameterError
        Unknown rule, parameter or channel, or a value out of range.

    Notes
    -----
    O(events + edges) once for all rules, up to logarithms; each formula and source is in `rules`. A channel
    that a trace lacks makes its row null (``reward.absent``), never 0. ``anneal="diagnostic"`` compares all
    traces of a step of training, so it reads the corpus twice: filter the corpus, and the weights follow from
    what is left of it.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> paid = ot.rewards.compute(corpus, {"parl": {"lambda_parallel": 0.2}, "outcome": {}})
    >>> paid["reward"].unique(maintain_order=True).to_list()
    ['parl', 'outcome']
    >>> paid.columns[:6]
    ['trace', 'trace_id', 'task_id', 'reward', 'family', 'unit']
    """
    requested = _requested(rewards, channels)
    tools = tools_by_trust(corpus, untrusted_tools, trusted_tools, ())
    options = {
        **timing_options(durations, max_gap, program_order),
        "subtasks": declared_names("subtasks", subtasks),
        "harness": declared_names("harness", harness),
        "tools": tools,
        "threads": threads,
    }
    windows = windows_of(corpus, requested, threads, progress)
    with reporting(progress, "paying") as callback:
        tables = _paid(corpus, requested, {**options, "progress": callback}, windows, addends=False)
    paid = [
        with_params(table, rule).select(
            *("trace", "trace_id", "task_id"),
            pl.lit(rule["name"], REWARDS["reward"]).alias("reward"),
            pl.lit(_about(rule["name"])["family"], REWARDS["family"]).alias("family"),
            pl.lit(_about(rule["name"])["unit"], REWARDS["unit"]).alias("unit"),
            *("unit_id", "seq", "value"),
            pl.col("reason").cast(REWARDS["reason"]),
            pl.col("params").cast(REWARDS["params"]),
        )
        for table, rule in zip(tables, requested, strict=True)
    ]
    return pl.concat(paid)


@verb
def explain(
    corpus: Corpus,
    trace: TraceName,
    reward: str,
    *,
    params: Mapping[str, Parameter] | None = None,
    channels: Mapping[str, str] | None = None,
    subtasks: Mapping[str, Collection[str]] | None = None,
    harness: Mapping[str, Collection[str]] | None = None,
) -> pl.DataFrame:
    """Show the terms that a rule's payments in one trace are made of.

    Parameters
    ----------
    corpus
        The recordings.
    trace
        A trace, by number or id.
    reward, params
        A name of `rules`, and its parameters.
    channels, subtasks, harness
        As in `compute`.

    Returns
    -------
    DataFrame
        One row per unit and addend, in the order of addition: ``unit unit_id`` (String) ``seq`` (UInt32)
        ``addend`` (String) ``value`` (Float64) ``total`` (Float64: the payment; the addends of a unit, added
        one after the other, are this number) ``reason params`` (as in `compute`; windows of training are
        those of the whole corpus).

    Raises
    ------
    ParameterError
        As `compute`, or an unknown trace.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> parts = ot.rewards.explain(corpus, 0, "parl")
    >>> parts["addend"].to_list()
    ['performance', 'parallel', 'finish']
    >>> sum(parts["value"]) == parts["total"][0]
    True
    """
    requested = _requested({reward: params or {}}, channels)
    run = one_trace(corpus, trace)
    options = {
        **timing_options("auto", None, False),
        "subtasks": declared_names("subtasks", subtasks),
        "harness": declared_names("harness", harness),
        "tools": tools_by_trust(corpus, (), (), ()),
        "threads": None,
        "progress": None,
    }
    windows = windows_of(corpus, requested, None, None)
    [table] = _paid(run, requested, options, windows, addends=True)
    about = _about(reward)
    long = (
        with_params(table, requested[0])
        .with_row_index("row")
        .unpivot(
            list(about["addends"]),
            index=["row", "unit_id", "seq", "value", "reason", "params"],
            variable_name="addend",
            value_name="part",
        )
    )
    order = pl.Enum(list(about["addends"]))
    return long.sort("row", pl.col("addend").cast(order), maintain_order=True).select(
        pl.lit(about["unit"]).alias("unit"),
        "unit_id",
        "seq",
        "addend",
        pl.col("part").alias("value"),
        pl.col("value").alias("total"),
        pl.col("reason").cast(REWARDS["reason"]),
        pl.col("params").cast(REWARDS["params"]),
    )


@verb
def attach(corpus: Corpus, rewards: pl.DataFrame | pl.LazyFrame) -> Corpus:
    """Attach computed rewards of the team to a corpus as channels, which every verb takes as ``reward=``.

    Parameters
    ----------
    corpus
        The recordings that the rewards were computed from.
    rewards
        Rows of `compute` or `combine` whose unit is ``team``. A null value gives nothing.

    Raises
    ------
    ParameterError
        A row pays a unit smaller than the team, or a trace is not of the corpus.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> attached = ot.rewards.attach(corpus, ot.rewards.compute(corpus, "parl"))
    >>> ot.credit(attached, reward="parl", unit="agent")["reward"].unique().to_list()
    ['parl']
    """
    rows = collected(rewards, "rewards", ("trace", "reward", "unit", "value"))
    smaller = rows.filter(pl.col("unit").cast(pl.String) != "team")
    if smaller.height:
        name, unit = smaller.select(pl.col("reward", "unit").cast(pl.String)).row(0)
        raise ParameterError(
            f"reward '{name}' pays the unit '{unit}', but a channel belongs to a whole run: leave it out, or"
            " give the values to events by corpus.with_fields(frame with trace, seq, reward)"
        )
    paid = rows.filter(pl.col("value").is_not_null())
    named = paid.select("trace", pl.col("reward").alias("name"), "value")
    return corpus.with_measures(named.with_columns(kind=pl.lit("reward")))


def compares_windows(rewards: Rules) -> bool:
    """Whether a rule compares the traces of a step of training, so that no part of a corpus pays it alone."""
    return any(_core.reward_is_diagnostic(rule) for rule in _requested(rewards, None))


def _requested(rewards: object, channels: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """The rules as the core takes them."""
    if isinstance(rewards, str):
        rewards = [rewards]
    if isinstance(rewards, Mapping):
        for name, params in rewards.items():
            if not isinstance(params, Mapping):
                raise ParameterError(f"rewards[{name!r}] is {params!r}, expected parameters by name: {{}}")
        named = {name: dict(rewards[name]) for name in names_of("rewards", list(rewards))}
    else:
        listed = names_of("rewards", rewards)
        if twice := [name for name in listed if listed.count(name) > 1]:
            raise ParameterError(f"reward '{twice[0]}' is requested twice")
        named = {name: {} for name in listed}
    if not named:
        raise ParameterError("rewards names no rule: ot.rewards.list_rules() lists them")
    rules = {row["reward"]: row for row in _core.reward_rules()}
    for name in named:
        if name not in rules:
            raise ParameterError(unknown_name("reward", name, list(rules)))
    if channels is not None and not isinstance(channels, Mapping):
        raise ParameterError(f"channels is {channels!r}, expected names by channel: {{'outcome': 'team'}}")
    measures = dict(channels or {})
    has = {name: [channel["name"] for channel in rules[name]["channels"]] for name in named}
    for channel, measure in measures.items():
        everywhere = sorted({channel for names in has.values() for channel in names})
        if channel not in everywhere:
            raise ParameterError(unknown_name("channel of these rewards", str(channel), everywhere))
        if not isinstance(measure, str):
            raise ParameterError(f"channels[{channel!r}] is {measure!r}, expected the name of a reward")
    return [
        {
            "name": name,
            "params": params,
            "channels": {channel: measures[channel] for channel in has[name] if channel in measures},
        }
        for name, params in named.items()
    ]


def _about(name: str) -> dict[str, Any]:
    return next(row for row in _core.reward_rules() if row["reward"] == name)


def _paid(
    corpus: Corpus,
    requested: list[dict[str, Any]],
    options: dict[str, Any],
    windows: Windows,
    addends: bool,
) -> list[pl.DataFrame]:
    """What each rule pays in all pieces of a corpus."""
    elsewhere = corpus.reward_channels() if any(rule["channels"] for rule in requested) else []
    more = {"rules": requested, "elsewhere": elsewhere, "addends": addends, "windows": windows}
    request = {**options, **more}
    pieces = [
        [pl.DataFrame(table) for table in _core.pay(store_of(load()), **request)]
        for _, load in corpus.pieces()
    ]
    if not pieces:  # a corpus on disk without a trace
        pieces = [[pl.DataFrame(table) for table in _core.pay(empty_store(), **request)]]
    return [pl.concat(tables) for tables in zip(*pieces, strict=True)]
