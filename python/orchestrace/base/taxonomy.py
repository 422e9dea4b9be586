"""The axes of the survey's taxonomy (arXiv 2605.02801), and which verbs declare that they serve one.

A verb says so where it is defined, by `concerns`; nothing else in the package claims it. Credit units and
reward families need no declaration: the registries of credit methods and of rewards know them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .errors import ParameterError
from .schema import unknown_name


@dataclass(frozen=True)
class RewardFamily:
    """One family of rewards; `tags` are the words of the column ``reward_type`` of the paper pool."""

    id: str
    name: str
    tags: tuple[str, ...]


@dataclass(frozen=True)
class SubDecision:
    """One thing that orchestration decides; `event_types` are those of the events that record it."""

    id: str
    name: str
    event_types: tuple[str, ...]


REWARD_FAMILIES: Final = (
    RewardFamily("R1", "shared team outcome", ("shared",)),
    RewardFamily("R2", "individual", ("individual",)),
    RewardFamily("R3", "role", ("role",)),
    RewardFamily("R4", "process", ("process",)),
    RewardFamily("R5", "tool", ("tool",)),
    RewardFamily("R6", "debate or verifier", ("debate", "verifier")),
    RewardFamily("R7", "orchestration", ("orchestration",)),
    RewardFamily("R8", "hybrid", ("hybrid",)),
)
"""Section 3 of the survey; the pool has two words for R6."""

CREDIT_UNITS: Final = ("team", "orchestrator", "role", "agent", "turn", "message", "tool", "token")
"""Words of the column ``credit_granularity``, the coarsest first; the engine's `event` is not among them."""

SUB_DECISIONS: Final = (
    SubDecision("O1", "spawn", ("spawn", "despawn")),
    # a delegation is a spawn, or a message of the root, to another agent
    SubDecision("O2", "delegate", ("spawn", "message")),
    SubDecision("O3", "communicate", ("message",)),
    SubDecision("O4", "aggregate", ("aggregate",)),
    # the published schema has no event for it
    SubDecision("O5", "stop", ()),
)
"""Section 5 of the survey."""

_IDS: Final = tuple(decision.id for decision in SUB_DECISIONS)
_DECLARED: Final[dict[str, list[str]]] = {}

_Verb = TypeVar("_Verb", bound=Callable[..., Any])


def concerns(*ids: str) -> Callable[[_Verb], _Verb]:
    """Declare that a verb estimates effects of a sub-decision (O1-O5).

    The function itself stays as it is.

    Raises
    ------
    ParameterError
        The taxonomy has no such sub-decision.

    Examples
    --------
    >>> import orchestrace.effects.spawning  # the module that declares it
    >>> from orchestrace.base.taxonomy import verbs_for
    >>> verbs_for("O1")
    ['effects.spawn']
    """
    for identifier in ids:
        if identifier not in _IDS:
            raise ParameterError(unknown_name("sub-decision", identifier, list(_IDS)))

    def declare(verb: _Verb) -> _Verb:
        for identifier in ids:
            names = _DECLARED.setdefault(identifier, [])
            name = verb.__name__
            if verb.__module__.startswith("orchestrace."):
                name = f"{verb.__module__.split('.')[1]}.{name}"
            if name not in names:
                names.append(name)
        return verb

    return declare


def verbs_for(id: str) -> list[str]:
    """Names of the verbs that have declared a sub-decision, sorted; those of modules that are loaded.

    Examples
    --------
    >>> import orchestrace.effects.observed
    >>> from orchestrace.base.taxonomy import verbs_for
    >>> verbs_for("O4")
    ['effects.aggregation']
    """
    return sorted(_DECLARED.get(id, []))
