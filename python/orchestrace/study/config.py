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
def parse_config(given: Mapping[str, Any]) -> StudyConfig:
    """Make a configuration from the mapping that a TOML file holds.

    Parameters
    ----------
    given
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
    made = begun_config(given)
    _check_methods(made)
    _check_rewards(made)
    return made


def begun_config(given: Mapping[str, Any]) -> StudyConfig:
    """The configuration of a study that is begun: its methods were called then, and are not again by every
    worker, nor by who looks at results."""
    _core.check_process()
    if not isinstance(given, Mapping):
        raise ParameterError(f"the configuration is of type {type(given).__name__}, expected a mapping")
    _known("key", given, [one.name for one in fields(StudyConfig)])
    judge_fields(StudyConfig, given)
    scalars: dict[str, Any] = {name: index(given[name]) for name in ("seed", "replicates") if name in given}
    scalars |= {name: _real(given[name]) for name in ("budget_s", "confidence") if name in given}
    made = StudyConfig(
        sizes=_sizes(given.get("sizes")),
        presets=_presets(given.get("presets")),
        methods=_methods(given.get("methods")),
        units=_words("units", given.get("units", list(UNITS)), UNITS),
        slots=_slots(given.get("slots", [])),
        queues=_words("queues", given.get("queues", ["recorded"]), get_args(Queue)),
        rewards=_rewards(given.get("rewards", [])),
        stopping=_words("stopping", given.get("stopping", []), tuple(stopping_rules()["method"])),
        **scalars,
    )
    if not made.units:
        raise ParameterError("units is empty: give 'event', 'agent' or both")
    if made.slots and not made.queues:
        raise ParameterError("queues is empty: give 'recorded', 'critical_path' or both, or no slots")
    _check_presets(made)
    return made


def _known(what: str, given: Mapping[str, Any], names: list[str]) -> None:
    for name in given:
        if name not in names:
            raise ParameterError(unknown_name(what, str(name), names))


def _tables(what: str, given: object, instead: str) -> list[Any]:
    if given is not None and not isinstance(given, list | tuple):
        raise ParameterError(f"{what} is {given!r}, expected a list: {instead}")
    if not given:
        raise ParameterError(f"the study has no {what}: give at least one {instead}")
    return list(given)


def _real(given: float) -> float:
    """A number as JSON has it, which writes none of NumPy."""
    return given if isinstance(given, int | float) else float(given)


def _settings(what: str, given: Mapping[Any, Any]) -> dict[str, Any]:
    """Values as a file has them: what has no text could not be passed to a worker, nor found again."""
    return {str(name): _setting(f"{name} of {what}", value) for name, value in given.items()}


def _setting(what: str, given: object) -> Any:
    if isinstance(given, list | tuple):
        return [_setting(what, one) for one in given]
    if given is None or isinstance(given, bool | int | float | str):
        return given
    raise ParameterError(
        f"{what} is {given!r}, expected a number, text, true or false, or a list of such, as in TOML"
    )


def _sizes(given: object) -> tuple[Size, ...]:
    made = []
    for one in _tables("sizes", given, "[[sizes]] with events and agents"):
        if not isinstance(one, Mapping) or not {"events", "agents"} <= one.keys():
            raise ParameterError(f"size {one!r}, expected a table with events and agents")
        _known("key of sizes", one, [f.name for f in fields(Size)])
        judge_fields(Size, one)
        made.append(Size(**{name: index(value) for name, value in one.items()}))
    made.sort(key=lambda size: (size.events, size.agents))
    if twice := _twice([size.label for size in made]):
        raise ParameterError(f"size {twice} is given twice")
    return tuple(made)


def _presets(given: object) -> dict[str, dict[str, Any]]:
    if given is not None and not isinstance(given, Mapping):
        raise ParameterError(f"presets is {given!r}, expected tables by name: [presets.NAME]")
    if not given:
        raise ParameterError("the study has no presets: give at least one [presets.NAME]")
    for name, options in given.items():
        if not isinstance(options, Mapping):
            raise ParameterError(f"preset '{name}' is {options!r}, expected a table")
        _known(f"option of preset '{name}'", options, list(PRESET_OPTIONS))
    return {str(name): _settings(f"preset '{name}'", options) for name, options in given.items()}


def _methods(given: object) -> tuple[MethodRun, ...]:
    table = registered()
    params = {str(row["name"]): [one["name"] for one in row["params"]] for row in table.iter_rows(named=True)}
    reported = dict(table.select("name", "units").iter_rows())
    made = []
    for one in _tables("methods", given, 'name: methods = ["flow", ...]'):
        run: object = {"name": one} if isinstance(one, str) else one
        if not isinstance(run, Mapping) or not isinstance(run.get("name"), str):
            raise ParameterError(f"method {one!r}, expected a name or a table with name and params")
        _known("key of a method", run, [f.name for f in fields(MethodRun)])
        name = run["name"]
        if name not in params:
            raise ParameterError(unknown_name("method", name, list(params)))
        own = run.get("params", {})
        if not isinstance(own, Mapping):
            raise ParameterError(
                f"params of method '{name}' is {own!r}, expected a table, as {{ NAME = VALUE }}"
            )
        _known(f"parameter of method '{name}'", own, params[name])
        units = _words(f"units of method '{name}'", run.get("units", []), UNITS)
        for unit in units:
            if unit not in reported[name]:
                raise ParameterError(f"method '{name}' does not report at unit '{unit}'")
        made.append(MethodRun(name, _settings(f"method '{name}'", own), units))
    if twice := _twice([run.label for run in made]):
        raise ParameterError(f"method '{twice}' is given twice with the same parameters")
    return tuple(made)


def _rewards(given: object) -> tuple[MethodRun, ...]:
    """Rules of reward, as `_methods`; each has the one unit that it pays."""
    if isinstance(given, list | tuple) and not given:
        return ()
    known = dict(list_rules().select("reward", "unit").iter_rows())
    made = []
    for one in _tables("rewards", given, 'name: rewards = ["finish", ...]'):
        run: object = {"name": one} if isinstance(one, str) else one
        if not isinstance(run, Mapping) or not isinstance(run.get("name"), str):
            raise ParameterError(f"reward {one!r}, expected a name or a table with name and params")
        _known("key of a reward", run, [f.name for f in fields(MethodRun)])
        name, own = run["name"], run.get("params", {})
        if name not in known:
            raise ParameterError(unknown_name("reward", name, list(known)))
        if not isinstance(own, Mapping):
            raise ParameterError(
                f"params of reward '{name}' is {own!r}, expected a table, as {{ NAME = VALUE }}"
            )
        _words(f"units of reward '{name}'", run.get("units", []), (known[name],))
        made.append(MethodRun(name, _settings(f"reward '{name}'", own)))
    if twice := _twice([run.label for run in made]):
        raise ParameterError(f"reward '{twice}' is given twice with the same parameters")
    return tuple(made)


def _words(what: str, given: object, known: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise ParameterError(f"{what} is {given!r}, expected a list of names")
    for word in given:
        if word not in known:
            raise ParameterError(unknown_name(what, str(word), list(known)))
    if twice := _twice(list(given)):
        raise ParameterError(f"{what} names '{twice}' twice")
    return tuple(given)


def _slots(given: object) -> tuple[int, ...]:
    if not isinstance(given, list | tuple):
        raise ParameterError(f"slots is {given!r}, expected a list of whole numbers")
    expect_each("slots", given, Integer(1, 2**31 - 1))
    return tuple(sorted(set(map(index, given))))


def _twice(names: list[str]) -> str | None:
    return next((name for name in names if names.count(name) > 1), None)


def _check_presets(made: StudyConfig) -> None:
    """Generate one run of the smallest size each, so that a wrong option is no surprise in the third hour."""
    for size in made.sizes:
        if size.traces < size.group_size:
            raise ParameterError(f"size {size.label} has {size.traces} traces, fewer than one group")
    smallest = made.sizes[0]
    for name, options in made.presets.items():
        try:
            planted(traces=1, length=smallest.events, agents=smallest.agents, **options)
        except (ParameterError, TypeError, OverflowError) as error:
            raise ParameterError(f"preset '{name}': {error}") from None


def _check_methods(made: StudyConfig) -> None:
    """Call every method once, so that a wrong parameter is refused here and not in every cell.

    The core judges arguments where there is nothing to do too, so that the number of its draws costs nothing
    here; a function of Python is called on a few runs, as it would be with every cell.
    """
    nothing = Corpus(_core.read([]))
    small = planted(traces=16, group_size=8, length=6, agents=2)[0]
    reported = dict(registered().select("name", "units").iter_rows())
    for run in made.methods:
        corpus = small if run.name in written_in_python() else nothing
        for unit in run.units or made.units:
            if unit not in reported[run.name]:
                continue
            call: dict[str, Any] = {"method": run.name, "unit": unit, **run.params}
            try:
                credit(corpus, **call)
            except (ParameterError, TypeError, OverflowError) as error:
                text = (str(error).splitlines() or [""])[0]
                raise ParameterError(f"method '{run.label}' at unit '{unit}': {text}") from None


def _check_rewards(made: StudyConfig) -> None:
    """Pay no runs by every rule, which judges its parameters."""
    nothing = Corpus(_core.read([]))
    for run in made.rewards:
        try:
            compute(nothing, {run.name: run.params})
        except (ParameterError, TypeError, OverflowError) as error:
            text = (str(error).splitlines() or [""])[0]
            raise ParameterError(f"reward '{run.label}': {text}") from None
