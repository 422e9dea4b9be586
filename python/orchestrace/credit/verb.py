"""The verb `credit`: one call for every method of the registry."""

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, overload

import polars as pl

from .. import _core
from ..base.arguments import Seed, Threads
from ..base.division import Arguments, Division
from ..base.durable import clear_temporary, replace
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.paths import expanded
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS, Over, Unit
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import (
    Missing,
    PartialWeights,
    Reward,
    amounts,
    check_channels,
    label_of,
    weights_of,
)
from ..disk.partitioned import PartitionedCorpus
from ..disk.staging import staging
from .division import check_rewards, check_scope, check_trained, modules_of
from .registry import BY_CHANNEL, Callback, Engine, computation, registered

_CALL = "call.json"

Rewards = Reward | Sequence[Reward]
Parameter = bool | int | float | str | list[int | float | str] | Iterable[float] | Callable[..., Any] | None


@dataclass(frozen=True)
class Absent:
    """A piece that a sink lacks: its number, its file, and what loads it."""

    number: int
    file: str
    load: Callable[[], Corpus]


Computed = Callable[[Iterable[Absent]], Iterable[tuple[str, pl.DataFrame]]]
"""Of pieces that are absent, file and rows of each."""


def sunk_by_others(
    corpus: PartitionedCorpus,
    sink: str | os.PathLike[str],
    resume: bool,
    computed: Computed,
    *,
    method: str = "flow",
    unit: Unit = "event",
    reward: Rewards = "team",
    missing: Missing = "null",
    over: Over = "all",
    seed: Seed = 0,
    **params: Any,
) -> pl.LazyFrame:
    """The sink of a call whose pieces are computed elsewhere, as `credit` fills it."""
    options, labels = _core_call(method, unit, reward, seed, None, params, (missing, over))
    return _sunk(corpus, Path(expanded(sink)), resume, computed, {**options, "reward": labels})


def _credited(corpus: Corpus, arguments: Arguments) -> Arguments:
    named = arguments.by_name(credit)
    check_rewards(corpus, named)
    check_trained(corpus, named["over"])
    return arguments


@overload
def credit(
    corpus: Corpus,
    *,
    method: str = ...,
    unit: Unit = ...,
    reward: Rewards = ...,
    missing: Missing = ...,
    over: Over = ...,
    seed: Seed = ...,
    engine: RunBy = ...,
    threads: Threads = ...,
    progress: Progress = ...,
    sink: None = ...,
    resume: bool = ...,
    **params: Parameter,
) -> pl.DataFrame: ...
@overload
def credit(
    corpus: Corpus,
    *,
    method: str = ...,
    unit: Unit = ...,
    reward: Rewards = ...,
    missing: Missing = ...,
    over: Over = ...,
    seed: Seed = ...,
    engine: RunBy = ...,
    threads: Threads = ...,
    progress: Progress = ...,
    sink: str | os.PathLike[str],
    resume: bool = ...,
    **params: Parameter,
) -> pl.LazyFrame: ...
@verb(
    rows="a trace and unit",
    division=Division(
        prepare=_credited,
        check=lambda arguments, pieces: check_scope(arguments.by_name(credit), pieces),
        sunk=sunk_by_others,
        modules=lambda arguments: modules_of(arguments.by_name(credit)),
    ),
)
def credit(
    corpus: Corpus,
    *,
    method: str = "flow",
    unit: Unit = "event",
    reward: Rewards = "team",
    missing: Missing = "null",
    over: Over = "all",
    seed: Seed = 0,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
    sink: str | os.PathLike[str] | None = None,
    resume: bool = True,
    **params: Parameter,
) -> pl.DataFrame | pl.LazyFrame:
    """Divide the reward of every trace among its units, or give every unit its advantage.

    Parameters
    ----------
    corpus
        The recordings.
    method
        A name that `methods` lists, with its paper, parameters and requirements.
    unit
        The level at which to report. Each level divides all events of a trace; the row whose ``unit_id`` is
        null holds what belongs to no unit.
    reward
        A reward channel, or a weighted sum of several: ``{"team": 1.0, "format": 0.2}``. A list computes
        several in one pass over the traces; the column ``reward`` says which row is which.
    missing
        What a sum is where a trace lacks a channel. ``"null"``: none, ``reward.absent``. ``"skip"``: the sum
        of the channels that it has, as in TRL, where a reward function may not apply to a prompt; a trace
        that has none of them has no reward.
    over
        Whose credit it is. ``"trainable"``: that of agents whose policies are trained (``agents.trainable``);
        their decisions are compared with each other alone, they are the players of games, and rows of others
        are null (``agent.frozen``, of games ``player.fixed``). What a share gives to others is in the row
        without a unit. Methods that are fitted to a corpus have no such credit.
    seed
        For methods that sample; the same seed gives the same bits on any number of threads.
    engine
        What computes a corpus on disk. None is this process; ``"processes"`` and ``"ray"`` are worker
        processes of this machine and a Ray cluster. `distributed.processes` and `distributed.ray` make an
        engine with options. The result is the same, bit for bit.
    threads, progress
        As in `read_traces`. With an engine, `threads` are the cores of a task, and progress counts tasks.
    sink
        A folder for a result that is larger than memory: one Parquet file per piece of the corpus. The call
        then returns a scan of the files.
    resume
        Continue a `sink` that has pieces already: compute those that are missing. They must come from the
        same call on the same corpus on disk with the same memory budget. False takes a new or empty folder
        only.
    **params
        Parameters of the method; `methods` lists them with their defaults. The ``outcome`` of a game may be a
        function of coalitions, a bool array of shape (m, n), and of the game, with ``trace_id`` and the list
        ``players`` of n unit ids; it gives m numbers, as the function of `games.values` does.

    Returns
    -------
    DataFrame, or LazyFrame with `sink`
        One row per trace and unit in the schema `CREDITS`: ``trace unit unit_id trace_id seq credit stderr
        n_samples method quantity reward tier residual reason params``. ``credit`` is in units of the reward.
        A trace that the method cannot serve keeps its rows with null credit and a ``reason``. If ``quantity``
        is ``share``, the rows of a trace sum to its reward, the row without a unit included. If it is
        ``advantage``, do not sum them.

    Raises
    ------
    ParameterError
        Unknown method, unit, channel or parameter, a value out of range, or no agent is known to be trained.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> credits = ot.credit(corpus, method="uniform", unit="agent")
    >>> credits.columns[:6]
    ['trace', 'unit', 'unit_id', 'trace_id', 'seq', 'credit']
    >>> credits["trace"].n_unique()
    3
    """
    options, labels = _core_call(method, unit, reward, seed, threads, params, (missing, over))
    corpus = _with_sums(corpus, options, labels)
    if isinstance(corpus, PartitionedCorpus):
        options["elsewhere"] = corpus.reward_channels()
    constants = {"unit": unit, "method": method, "reward": labels}
    try:
        compute = computation(corpus, options)
        check_trained(corpus, over)
        _warn_of_lone_rollouts(corpus, method)
        with reporting(progress, "crediting") as callback:
            if sink is not None:

                def computed(absent: Iterable[Absent]) -> Iterator[tuple[str, pl.DataFrame]]:
                    for piece in absent:
                        yield piece.file, _piece(piece.load(), compute, constants, callback)

                return _sunk(corpus, Path(expanded(sink)), resume, computed, {**options, **constants})
            # Arguments are judged by the core, also where there is nothing to do: in an empty piece.
            pieces = [_piece(piece, compute, constants, callback) for piece in corpus.slices()]
    except ParameterError:
        for named in options["rewards"]:
            check_channels(corpus, named)  # its message says what to do without any reward
        raise
    return pl.concat(pieces) if len(pieces) > 1 else pieces[0]


def _core_call(
    method: str,
    unit: Unit,
    reward: Rewards,
    seed: int,
    threads: int | None,
    params: dict[str, Any],
    whose: tuple[Missing, Over],
) -> tuple[dict[str, Any], list[str]]:
    """The call as the core takes it, and the label of each reward."""
    missing, over = whose
    several = list(reward) if isinstance(reward, Sequence) and not isinstance(reward, str) else [reward]
    if not several:
        raise ParameterError("reward names no channel")
    rewards = [{choice: 1.0} if isinstance(choice, str) else weights_of(choice) for choice in several]
    if missing == "skip":
        rewards = [PartialWeights(channels) if len(channels) > 1 else channels for channels in rewards]
    labels = [
        choice if isinstance(choice, str) else label_of(weights)
        for choice, weights in zip(several, rewards, strict=True)
    ]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ParameterError(f"reward '{twice[0]}' is given twice")
    weights = params.get("weights")
    if isinstance(weights, Iterable) and not isinstance(weights, str):
        params["weights"] = list(weights)  # a fitted outcome gives its eight numbers
    return {
        "method": method,
        "unit": unit,
        "rewards": rewards,
        "params": params,
        "over": over,
        "seed": seed,
        "threads": threads,
    }, labels


def _with_sums(corpus: Corpus, options: dict[str, Any], labels: list[str]) -> Corpus:
    """The corpus with a channel for each sum of the channels that are there, which the core cannot add up."""
    for at, (weights, label) in enumerate(zip(options["rewards"], labels, strict=True)):
        if isinstance(weights, PartialWeights) and options["method"] not in BY_CHANNEL:
            sums = amounts(corpus, weights).select("trace", pl.col("reward").alias(label))
            corpus = corpus.with_measures(sums)
            options["rewards"][at] = {label: 1.0}
    return corpus


@cache
def _of_siblings() -> frozenset[str]:
    """Methods of the core that compare units with siblings in the group. Methods of whole rollouts are not
    among them: they give a reason in every row that has no sibling."""
    entries = (
        entry for entry in _core.methods() if entry["scope"] == "group" and entry["tier"] == "observed"
    )
    return frozenset(str(entry["name"]) for entry in entries)


def _warn_of_lone_rollouts(corpus: Corpus, method: str) -> None:
    if method not in _of_siblings() or not corpus.is_whole or len(corpus) == 0:
        return
    sizes = corpus.traces.group_by("group_id").len()
    if sizes.select(pl.col("len").max()).collect().item() == 1:
        warnings.warn(
            f"method '{method}' compares the rollouts of a group, and every group of this corpus has one:"
            " give the runs of one task a common group_id",
            RuntimeWarning,
            stacklevel=5,
        )


def _piece(
    corpus: Corpus,
    compute: Engine,
    constants: dict[str, Any],
    callback: Callback,
) -> pl.DataFrame:
    frames = []
    for (rows, facts), label in zip(compute(corpus, callback), constants["reward"], strict=True):
        # a game that is not scaled to a reward divides the value of the outcome itself
        paid = label if facts.get("paid", True) else None
        columns = {name: facts[name] for name in ("quantity", "tier", "params")}
        same = {**constants, "reward": paid, **columns}
        # without the columns that are null in every row
        frames.append(_filled(pl.DataFrame(rows), same))
    return pl.concat(frames) if len(frames) > 1 else frames[0]


_FEW = 50_000
"""Rows up to which writing a constant out takes less time than a query that does not."""


def _filled(varying: pl.DataFrame, same: dict[str, Any]) -> pl.DataFrame:
    """A frame with all columns of `CREDITS`: those that it lacks have one value in every row."""
    present = set(varying.columns)
    if varying.height > _FEW:
        return varying.select(
            pl.col(name) if name in present else pl.lit(same.get(name), dtype).alias(name)
            for name, dtype in CREDITS.items()
        )
    return pl.DataFrame(
        [
            varying.get_column(name)
            if name in present
            else _constant(name, same.get(name)).new_from_index(0, varying.height)
            for name in CREDITS
        ]
    )


@lru_cache(maxsize=256)
def _constant(name: str, value: str | None) -> pl.Series:
    """One value of a column of `CREDITS`."""
    return pl.Series(name, [value], CREDITS[name])


def _sunk(
    corpus: Corpus, folder: Path, resume: bool, computed: Computed, options: dict[str, Any]
) -> pl.LazyFrame:
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"sink '{folder}' is a file, expected a folder")
    if folder.exists() and not resume and any(folder.iterdir()):
        raise ParameterError(
            f"folder '{folder}' is not empty: choose another, or pass resume=True to continue it"
        )
    if folder.is_dir() and not (folder / _CALL).exists() and (others := _strangers(folder)):
        raise ParameterError(
            f"folder '{folder}' is not empty, it has '{others[0]}', expected a new folder or results of"
            " this call: choose another"
        )
    call = _check_same(folder, corpus, options)
    paths = []

    def absent() -> Iterator[Absent]:
        for number, (name, load) in enumerate(corpus.pieces()):
            path = folder / f"{name}.parquet"
            paths.append(path)
            if not _is_whole(path):
                yield Absent(number, path.name, load)

    for name, frame in computed(absent()):
        with staging(folder) as files:
            files.write(frame, name)
            if call is not None:  # before the first part has its name: nobody could say whose part it is
                replace(folder / _CALL, _writing(call))
                call = None
            files.publish()
    clear_temporary(folder)  # all parts are written: what killed calls began is not needed
    return (
        pl.scan_parquet(paths, glob=False, hive_partitioning=False) if paths else pl.LazyFrame(schema=CREDITS)
    )


def _is_whole(path: Path) -> bool:
    """Whether a part is there to its end, which a disk may have lost that had said that it was written."""
    try:
        with open(path, "rb") as file:
            pl.read_parquet_schema(file)
    except (FileNotFoundError, pl.exceptions.ComputeError):
        return False
    return True


def _strangers(folder: Path) -> list[str]:
    """Names in a folder that no sink writes, sorted."""
    names = (path.name for path in folder.iterdir())
    return sorted(name for name in names if not name.endswith((".parquet", ".tmp")))


def _writing(text: str) -> Callable[[BinaryIO], int]:
    return lambda file: file.write(text.encode())


def _check_same(folder: Path, corpus: Corpus, options: dict[str, Any]) -> str | None:
    """The call as text, to be written beside its first piece; None if it is there and is this one."""
    identity = corpus.identity()
    has_results = folder.is_dir() and any(folder.glob("*.parquet"))
    if identity is None:
        if has_results:
            raise ParameterError(
                f"folder '{folder}' has results, and only those of a corpus on disk without own measures"
                " or fields can be resumed: choose another"
            )
        identity = {}
    chosen = {name: value for name, value in options.items() if name not in ("threads", "elsewhere")}
    call = {**chosen, **identity, "version": _core.VERSION, "schema": _core.SCHEMA_VERSION}
    text = json.dumps(call, sort_keys=True, default=str)
    if not has_results:
        return text
    try:
        earlier = json.loads((folder / _CALL).read_text())
    except (OSError, ValueError):
        raise ParameterError(
            f"folder '{folder}' has Parquet files of something else: choose another"
        ) from None
    for name, value in json.loads(text).items():
        if earlier.get(name) != value:
            raise ParameterError(
                f"folder '{folder}' has the results of another call: {name} is {earlier.get(name)!r} there,"
                f" {value!r} now"
            )
    return None


@verb
def list_methods() -> pl.DataFrame:
    """All credit methods: what they compute, for which units, with which parameters, after which paper.

    Returns
    -------
    DataFrame
        ``name summary quantity scope tier units axioms params reference``; ``scope`` says which traces a
        method must see together (``trace``, ``group`` or ``corpus``); ``params`` is a list of structs
        ``name kind default doc``, the default spelt as text.

    Examples
    --------
    >>> import orchestrace as ot
    >>> {"uniform", "discounted", "flow", "grpo"} <= set(ot.list_methods()["name"])
    True
    """
    param = pl.Struct({"name": pl.String, "kind": pl.String, "default": pl.String, "doc": pl.String})
    words = pl.List(pl.String)
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "name": pl.String,
        "summary": pl.String,
        "quantity": pl.String,
        "scope": pl.String,
        "tier": pl.String,
        "units": words,
        "axioms": words,
    }
    entries = [*_core.methods(), *(method.described() for method in registered().values())]
    columns = [*schema, "params", "reference"]
    rows = [
        {**{name: entry[name] for name in columns}, "params": _spelt(entry["params"])} for entry in entries
    ]
    return pl.DataFrame(rows, schema={**schema, "params": pl.List(param), "reference": pl.String})


@verb
def list_importers() -> pl.DataFrame:
    """All formats that `read_traces` knows.

    Examples
    --------
    >>> import orchestrace as ot
    >>> "native" in ot.list_importers()["name"]
    True
    """
    return pl.DataFrame(_core.importers())


def _spelt(params: object) -> list[dict[str, str]]:
    assert isinstance(params, list)
    return [
        {key: value if isinstance(value, str) else json.dumps(value) for key, value in param.items()}
        for param in params
    ]
