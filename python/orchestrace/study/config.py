"""The configuration of a study: a TOML file, validated before anything runs."""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from operator import index
from pathlib import Path
from typing import Annotated, Any, Final, get_args

from .. import _core
from ..base.arguments import Confidence, Integer, Number, Seed
from ..base.checks import expect_each
from ..base.errors import InputError, ParameterError
from ..base.misfits import judge_fields
from ..base.paths import expanded, expect_an_end
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..credit.registry import registered as written_in_python
from ..credit.verb import credit, list_methods as registered
from ..interventions.timing import Queue
from ..rewards import compute, list_rules
from ..stopping import list_rules as stopping_rules
from ..synthetic.planting import planted

UNITS: Final = ("event", "agent")
"""Levels at which contributions are planted."""

FEWEST_TASKS: Final = 5
"""With fewer tasks an interval over them says little: values are shown and marked, and no conclusion rests on
them."""

PRESET_OPTIONS: Final = (
    "topology",
    "outcome",
    "effects",
    "interaction",
    "density",
    "noise",
    "decisive",
    "value_noise",
    "depth",
    "branching",
    "branches",
    "actions",
    "length_spread",
    "dense",
)
"""Options of `synthetic.planted` that a preset sets; team and length are the ladder's, seeds are drawn."""


_Some = Annotated[int, Integer(1)]


@dataclass(frozen=True)
class Size:
    """A rung of the ladder.

    Attributes
    ----------
    events, agents
        Of each trace.
    traces, group_size
        How many there are, and how many of them are rollouts of one task.
    """

    events: _Some
    agents: _Some
    traces: _Some = 64
    group_size: _Some = 8

    @property
    def label(self) -> str:
        return f"{self.events}x{self.agents}"

    @property
    def tasks(self) -> int:
        """How many tasks its traces are rollouts of: what intervals resample."""
        return -(-self.traces // self.group_size)


@dataclass(frozen=True)
class MethodRun:
    """A credit method with parameters, and the units at which it runs (none: those of the study)."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    units: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        settings = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        return f"{self.name} ({settings})" if settings else self.name


@dataclass(frozen=True)
class StudyConfig:
    """Everything that determines the numbers of a study, and the budget that decides what is too slow.

    Attributes
    ----------
    sizes
        The rungs.
    presets
        By name, options of `synthetic.planted`: topology, gates, interaction, noise, ...
    methods
        What is measured.
    units
        ``event`` and ``agent``, or one of them.
    slots, queues
        Of the schedules: numbers k of slots, orders of the queue.
    rewards, stopping
        Rules of `ot.rewards.list_rules` and of `ot.stopping.list_rules` that are measured, too.
    seed, replicates
        Corpora of every preset and size, each with a seed of its own that `seed` determines.
    budget_s
        Seconds that one credit call may take.
    confidence
        Coverage of the intervals, between 0 and 1.

    Examples
    --------
    >>> import orchestrace as ot
    >>> config = ot.study.parse_config({
    ...     "sizes": [{"events": 10, "agents": 2, "traces": 16}],
    ...     "presets": {"additive": {"outcome": "linear"}},
    ...     "methods": ["flow", {"name": "shapley", "params": {"samples": 16}}],
    ... })
    >>> [method.label for method in config.methods], config.units
    (['flow', 'shapley (samples=16)'], ('event', 'agent'))
    """

    sizes: tuple[Size, ...]
    presets: dict[str, dict[str, Any]]
    methods: tuple[MethodRun, ...]
    units: tuple[str, ...] = UNITS
    slots: tuple[int, ...] = ()
    queues: tuple[str, ...] = ("recorded",)
    rewards: tuple[MethodRun, ...] = ()
    stopping: tuple[str, ...] = ()
    seed: Seed = 0
    replicates: _Some = 1
    budget_s: Annotated[float, Number(above=0, below=2**63)] = 60.0
    confidence: Confidence = 0.95

    def text(self) -> str:
        """All of it as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def digest(self) -> str:
        """BLAKE2b-128 of all of it, whatever the order of its keys, which changes no number."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@verb
def read_config(path: str | os.PathLike[str]) -> StudyConfig:
    """Read the configuration of a study.

    Parameters
    ----------
    path
        A TOML file; ``examples/study.toml`` is one with all keys, docs/study.md says what they mean.

    Returns
    -------
    StudyConfig
        Judged: names are known, numbers in range, every preset can be generated, and every method takes its
        parameters.

    Raises
    ------
    InputError
        The file cannot be read.
    ParameterError
        It is not TOML, or a key or value is wrong; the message names it.

    Notes
    -----
    Linear in the file; a run of the smallest size is generated for each preset, and every method is called
    once: on no runs, or where it is written in Python on a few small ones.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import orchestrace as ot
    >>> text = 'methods = ["flow"]\\n[[sizes]]\\nevents = 10\\nagents = 2\\n'
    >>> text += '[presets.additive]\\nnoise = 0.5\\n'
    >>> file = pathlib.Path(tempfile.mkdtemp(), "study.toml")
    >>> _ = file.write_text(text)
    >>> ot.study.read_config(file).presets
    {'additive': {'noise': 0.5}}
    """
    expect_an_end(expanded(path))
    try:
        raw = Path(expanded(path)).read_bytes()
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: {error.strerror}") from None
    try:
        return parse_config(tomllib.loads(raw.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{os.fspath(path)} is not TOML: {error}") from None
    except ParameterError as error:
        raise ParameterError(f"{os.fspath(path)}: {error}") from None


@verb
def parse_config(document: Mapping[str, Any]) -> StudyConfig:
    """Make a configuration from the mapping that a TOML file holds.

    Parameters
    ----------
    document
        Keys and values as in the file.

    Returns
    -------
    StudyConfig
        Judged as by `read_config`.

    Raises
    ------
    ParameterError
        A key or value is wrong.

    Notes
    -----
    As `read_config`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> sizes = [{"events": 10, "agents": 2}]
    >>> ot.study.parse_config({"methods": ["flow"], "presets": {"linear": {}}, "sizes": sizes}).sizes
    (Size(events=10, agents=2, traces=64, group_size=8),)
    >>> ot.study.parse_config({"sizes": []})
    Traceback (most recent call last):
        ...
    orchestrace...ParameterError: the study has no sizes: give at least one [[sizes]] with events and agents
    """
    config = begun_config(document)
    _check_methods(config)
    _check_rewards(config)
    return config


def begun_config(document: Mapping[str, Any]) -> StudyConfig:
    """The configuration of a study that is begun: its methods were called then, and are not again by every
    worker, nor by who looks at results."""
    _core.check_process()
    if not isinstance(document, Mapping):
        raise ParameterError(f"the configuration is of type {type(document).__name__}, expected a mapping")
    _expect_names("key", document, [field.name for field in fields(StudyConfig)])
    judge_fields(StudyConfig, document)
    scalars: dict[str, Any] = {
        name: index(document[name]) for name in ("seed", "replicates") if name in document
    }
    scalars |= {name: _real(document[name]) for name in ("budget_s", "confidence") if name in document}
    config = StudyConfig(
        sizes=_sizes(document.get("sizes")),
        presets=_presets(document.get("presets")),
        methods=_methods(document.get("methods")),
        units=_words("units", document.get("units", list(UNITS)), UNITS),
        slots=_slots(document.get("slots", [])),
        queues=_words("queues", document.get("queues", ["recorded"]), get_args(Queue)),
        rewards=_rewards(document.get("rewards", [])),
        stopping=_words("stopping", document.get("stopping", []), tuple(stopping_rules()["method"])),
        **scalars,
    )
    if not config.units:
        raise ParameterError("units is empty: give 'event', 'agent' or both")
    if config.slots and not config.queues:
        raise ParameterError("queues is empty: give 'recorded', 'critical_path' or both, or no slots")
    _check_presets(config)
    return config


def _expect_names(kind: str, values: Mapping[str, Any], names: list[str]) -> None:
    for name in values:
        if name not in names:
            raise ParameterError(unknown_name(kind, str(name), names))


def _tables(label: str, items: object, instead: str) -> list[Any]:
    if items is not None and not isinstance(items, list | tuple):
        raise ParameterError(f"{label} is {items!r}, expected a list: {instead}")
    if not items:
        raise ParameterError(f"the study has no {label}: give at least one {instead}")
    return list(items)


def _real(number: float) -> float:
    """A number that JSON can write, which numbers of NumPy are not."""
    return number if isinstance(number, int | float) else float(number)


def _settings(owner: str, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Values that a file can hold, since workers are given them as text."""
    return {str(name): _setting(f"{name} of {owner}", value) for name, value in values.items()}


def _setting(label: str, value: object) -> Any:
    if isinstance(value, list | tuple):
        return [_setting(label, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ParameterError(
        f"{label} is {value!r}, expected a number, text, true or false, or a list of such, as in TOML"
    )


def _sizes(items: object) -> tuple[Size, ...]:
    sizes = []
    for item in _tables("sizes", items, "[[sizes]] with events and agents"):
        if not isinstance(item, Mapping) or not {"events", "agents"} <= item.keys():
            raise ParameterError(f"size {item!r}, expected a table with events and agents")
        _expect_names("key of sizes", item, [f.name for f in fields(Size)])
        judge_fields(Size, item)
        sizes.append(Size(**{name: index(value) for name, value in item.items()}))
    sizes.sort(key=lambda size: (size.events, size.agents))
    if twice := _twice([size.label for size in sizes]):
        raise ParameterError(f"size {twice} is given twice")
    return tuple(sizes)


def _presets(presets: object) -> dict[str, dict[str, Any]]:
    if presets is not None and not isinstance(presets, Mapping):
        raise ParameterError(f"presets is {presets!r}, expected tables by name: [presets.NAME]")
    if not presets:
        raise ParameterError("the study has no presets: give at least one [presets.NAME]")
    for name, options in presets.items():
        if not isinstance(options, Mapping):
            raise ParameterError(f"preset '{name}' is {options!r}, expected a table")
        _expect_names(f"option of preset '{name}'", options, list(PRESET_OPTIONS))
    return {str(name): _settings(f"preset '{name}'", options) for name, options in presets.items()}


def _methods(items: object) -> tuple[MethodRun, ...]:
    table = registered()
    params = {
        str(row["name"]): [param["name"] for param in row["params"]] for row in table.iter_rows(named=True)
    }
    reported = dict(table.select("name", "units").iter_rows())
    runs = []
    for item in _tables("methods", items, 'name: methods = ["flow", ...]'):
        run: object = {"name": item} if isinstance(item, str) else item
        if not isinstance(run, Mapping) or not isinstance(run.get("name"), str):
            raise ParameterError(f"method {item!r}, expected a name or a table with name and params")
        _expect_names("key of a method", run, [f.name for f in fields(MethodRun)])
        name = run["name"]
        if name not in params:
            raise ParameterError(unknown_name("method", name, list(params)))
        settings = run.get("params", {})
        if not isinstance(settings, Mapping):
            raise ParameterError(
                f"params of method '{name}' is {settings!r}, expected a table, as {{ NAME = VALUE }}"
            )
        _expect_names(f"parameter of method '{name}'", settings, params[name])
        units = _words(f"units of method '{name}'", run.get("units", []), UNITS)
        for unit in units:
            if unit not in reported[name]:
                raise ParameterError(f"method '{name}' does not report at unit '{unit}'")
        runs.append(MethodRun(name, _settings(f"method '{name}'", settings), units))
    if twice := _twice([run.label for run in runs]):
        raise ParameterError(f"method '{twice}' is given twice with the same parameters")
    return tuple(runs)


def _rewards(items: object) -> tuple[MethodRun, ...]:
    """Rules of reward, as `_methods`; each has the one unit that it pays."""
    if isinstance(items, list | tuple) and not items:
        return ()
    units = dict(list_rules().select("reward", "unit").iter_rows())
    runs = []
    for item in _tables("rewards", items, 'name: rewards = ["finish", ...]'):
        run: object = {"name": item} if isinstance(item, str) else item
        if not isinstance(run, Mapping) or not isinstance(run.get("name"), str):
            raise ParameterError(f"reward {item!r}, expected a name or a table with name and params")
        _expect_names("key of a reward", run, [f.name for f in fields(MethodRun)])
        name, settings = run["name"], run.get("params", {})
        if name not in units:
            raise ParameterError(unknown_name("reward", name, list(units)))
        if not isinstance(settings, Mapping):
            raise ParameterError(
                f"params of reward '{name}' is {settings!r}, expected a table, as {{ NAME = VALUE }}"
            )
        _words(f"units of reward '{name}'", run.get("units", []), (units[name],))
        runs.append(MethodRun(name, _settings(f"reward '{name}'", settings)))
    if twice := _twice([run.label for run in runs]):
        raise ParameterError(f"reward '{twice}' is given twice with the same parameters")
    return tuple(runs)


def _words(label: str, words: object, allowed: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(words, list | tuple):
        raise ParameterError(f"{label} is {words!r}, expected a list of names")
    for word in words:
        if word not in allowed:
            raise ParameterError(unknown_name(label, str(word), list(allowed)))
    if twice := _twice(list(words)):
        raise ParameterError(f"{label} names '{twice}' twice")
    return tuple(words)


def _slots(slots: object) -> tuple[int, ...]:
    if not isinstance(slots, list | tuple):
        raise ParameterError(f"slots is {slots!r}, expected a list of whole numbers")
    expect_each("slots", slots, Integer(1, 2**31 - 1))
    return tuple(sorted(set(map(index, slots))))


def _twice(names: list[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _check_presets(config: StudyConfig) -> None:
    """Generate one run of the smallest size each, so that a wrong option is no surprise in the third hour."""
    for size in config.sizes:
        if size.traces < size.group_size:
            raise ParameterError(f"size {size.label} has {size.traces} traces, fewer than one group")
    smallest = config.sizes[0]
    for name, options in config.presets.items():
        try:
            planted(traces=1, length=smallest.events, agents=smallest.agents, **options)
        except (ParameterError, TypeError, OverflowError) as error:
            raise ParameterError(f"preset '{name}': {error}") from None


def _check_methods(config: StudyConfig) -> None:
    """Call every method once, so that a wrong parameter is refused here and not in every cell.

    The core judges arguments where there is nothing to do too, so that the number of its draws costs nothing
    here; a function of Python is called on a few runs, as it would be with every cell.
    """
    nothing = Corpus(_core.read([]))
    small = planted(traces=16, group_size=8, length=6, agents=2)[0]
    reported = dict(registered().select("name", "units").iter_rows())
    for run in config.methods:
        corpus = small if run.name in written_in_python() else nothing
        for unit in run.units or config.units:
            if unit not in reported[run.name]:
                continue
            call: dict[str, Any] = {"method": run.name, "unit": unit, **run.params}
            try:
                credit(corpus, **call)
            except (ParameterError, TypeError, OverflowError) as error:
                text = (str(error).splitlines() or [""])[0]
                raise ParameterError(f"method '{run.label}' at unit '{unit}': {text}") from None


def _check_rewards(config: StudyConfig) -> None:
    """Pay no runs by every rule, which judges its parameters."""
    nothing = Corpus(_core.read([]))
    for run in config.rewards:
        try:
            compute(nothing, {run.name: run.params})
        except (ParameterError, TypeError, OverflowError) as error:
            text = (str(error).splitlines() or [""])[0]
            raise ParameterError(f"reward '{run.label}': {text}") from None
