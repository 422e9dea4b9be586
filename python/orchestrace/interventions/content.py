"""Interventions on content: drop, set, truncate, another rule for aggregates.

Each is a frozen dataclass with a method `spec`, which says it in plain values; `a & b` is both at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..base.arguments import Amount, Share
from ..base.errors import ParameterError
from ..base.verbs import verb
from .composition import Composable, Spec, expect_event_type

Each = Literal["event", "agent", "role", "tool", "call", "spawn", "message", "edge"]
Mode = Literal["subtree", "node"]
Lost = Literal["all", "any"]
Rule = Literal["best", "majority", "mean", "confidence"]

SELECTORS = ("event", "agent", "role", "tool", "call", "spawn", "edge", "message", "type", "each")
"""What an intervention can select by, as `drop` names its arguments."""
_BETWEEN = ("edge", "message")  # not events, but what passes between them


@dataclass(frozen=True, repr=False)
class Drop(Composable):
    """Something that is not there; made by `drop`."""

    by: str
    value: str | tuple[str, str]
    mode: str
    lost: str

    def spec(self) -> Spec:
        selectors = dict.fromkeys(SELECTORS) | {self.by: self.value}
        return {"kind": "drop", **selectors, "mode": self.mode, "lost": self.lost}

    def __repr__(self) -> str:
        mode = "" if self.mode == "subtree" else f", mode={self.mode!r}"
        lost = "" if self.lost == "all" else f", lost={self.lost!r}"
        return f"drop({self.by}={self.value!r}{mode}{lost})"


@dataclass(frozen=True, repr=False)
class SetValue(Composable):
    """Events whose value is another; made by `interventions.do`."""

    by: str
    value: str
    to: float

    def spec(self) -> Spec:
        return {"kind": "set_value", self.by: self.value, "to": self.to}

    def __repr__(self) -> str:
        return f"do({self.by}={self.value!r}, to={self.to!r})"


@dataclass(frozen=True, repr=False)
class Truncate(Composable):
    """A run that ends early; made by `truncate`."""

    at: float | None
    event: str | None

    def spec(self) -> Spec:
        return {"kind": "truncate", "at": self.at, "event": self.event}

    def __repr__(self) -> str:
        return f"truncate(at={self.at!r})" if self.event is None else f"truncate(event={self.event!r})"


@dataclass(frozen=True, repr=False)
class AggregateBy(Composable):
    """Another rule in aggregates; made by `interventions.aggregate_by`."""

    rule: str

    def spec(self) -> Spec:
        return {"kind": "aggregate_by", "rule": self.rule}

    def __repr__(self) -> str:
        return f"aggregate_by({self.rule!r})"


@verb
def drop(
    *,
    event: str | None = None,
    agent: str | None = None,
    role: str | None = None,
    tool: str | None = None,
    call: str | None = None,
    spawn: str | None = None,
    edge: tuple[str, str] | None = None,
    message: str | None = None,
    type: str | None = None,
    each: Each | None = None,
    mode: Mode = "subtree",
    lost: Lost = "all",
) -> Drop:
    """Remove something from a run.

    Parameters
    ----------
    event, agent, role, tool, call, type
        Events: the one of this id, those that an agent or the agents of a role own, the calls of a tool with
        their results, one call with its results, those of a type.
    spawn
        An agent, those that it spawned and theirs, and the spawn events that name them.
    edge, message
        What does not arrive: over the edge between the events of two ids, or from the message of an id to
        events of other agents. The events stay.
    each
        One scenario for each unit of a level in every trace: ``event``, ``agent``, ``role``, ``tool`` (by
        name), ``call``, ``spawn``, ``message``, ``edge``. Exactly one of all these arguments.
    mode
        ``"subtree"``: what depended on it is lost, too. ``"node"``: everything else stays, and loses an
        input.
    lost
        An event is lost when ``"all"`` of its inputs are, or already when ``"any"`` of them is.

    Returns
    -------
    Drop
        For `replay`; compose with ``&``.

    Raises
    ------
    ParameterError
        No selection, several, or an unknown word.

    Notes
    -----
    O(events + edges) for 64 scenarios at once. Source: docs/reference/definitions.md, D22.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.interventions.drop(agent="critic")
    drop(agent='critic')
    >>> ot.interventions.drop(edge=("e3", "e4"), mode="node") & ot.interventions.truncate(at=60)
    drop(edge=('e3', 'e4'), mode='node') & truncate(at=60.0)
    """
    names = dict(
        zip(SELECTORS, (event, agent, role, tool, call, spawn, edge, message, type, each), strict=True)
    )
    by, value = _selected("drop", names)
    if mode == "node" and lost == "any":
        raise ParameterError(
            "lost='any' says what is lost with it, and mode='node' loses nothing more: leave one"
        )
    return Drop(by, value, mode, lost)


@verb
def do(
    *,
    to: Share,
    event: str | None = None,
    agent: str | None = None,
    role: str | None = None,
    tool: str | None = None,
    call: str | None = None,
    type: str | None = None,
    each: Literal["event", "agent", "role", "tool", "call", "spawn"] | None = None,
) -> SetValue:
    """Set the value of events: the do-operator.

    Parameters
    ----------
    to
        The value, 0..1; 1 is what a good event has.
    event, agent, role, tool, call, type, each
        Which events, as in `drop`; exactly one of them. An event that is dropped as well stays dropped; of
        two values for one event the later one holds.

    Raises
    ------
    ParameterError
        No selection, several, or a value out of range.

    Notes
    -----
    Source: J. Pearl, Causality, 2009, section 3.4.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.interventions.do(agent="critic", to=1)
    do(agent='critic', to=1.0)
    """
    names = {
        "event": event,
        "agent": agent,
        "role": role,
        "tool": tool,
        "call": call,
        "type": type,
        "each": each,
    }
    by, value = _selected("do", names)
    if by == "each" and value in _BETWEEN:
        raise ParameterError(f"a value can be set for events, not for each {value}: drop them")
    assert isinstance(value, str)
    return SetValue(by, value, float(to))


@verb
def truncate(*, at: Amount | None = None, event: str | None = None) -> Truncate:
    """End a run early: later events are absent, and the outcome answers from what has arrived.

    Parameters
    ----------
    at
        Time after the first event of the trace, in its own unit (seconds or steps). What happens at this time
        still happens.
    event
        Id of the last event that happens; ties in time as in the recording. One of the two.

    Raises
    ------
    ParameterError
        Neither, both, or a time below 0.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.interventions.truncate(at=30)
    truncate(at=30.0)
    """
    if (at is None) == (event is None):
        raise ParameterError("truncate needs either at= (a time) or event= (the last event), and not both")
    if event is not None:
        return Truncate(None, event)
    assert at is not None
    return Truncate(float(at), None)


@verb
def aggregate_by(rule: Rule) -> AggregateBy:
    """Apply another rule in events of type ``aggregate``.

    Parameters
    ----------
    rule
        ``"best"``: the best input. ``"majority"``: 1 if the inputs at or above ½ hold more than the quorum of
        the weight, else 0. ``"mean"``: of all inputs. ``"confidence"``: log-odds Σ w ln(x/(1-x)), with the
        shares of the weight as w; certain inputs decide, and make ½ where they contradict each other.

    Raises
    ------
    ParameterError
        An unknown word.

    Notes
    -----
    What an aggregate did beyond the recorded rule (its residual) goes with the rule. Source: pooled log-odds:
    C. Genest, J. Zidek, Statistical Science 1(1), 1986.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.interventions.aggregate_by("majority")
    aggregate_by('majority')
    """
    return AggregateBy(rule)


def _selected(verb: str, names: Mapping[str, object]) -> tuple[str, str | tuple[str, str]]:
    """Return the only option that selects, and its value."""
    chosen = {by: value for by, value in names.items() if value is not None}
    if not chosen:
        raise ParameterError(f"{verb} what? Name one of {', '.join(f'{name}=' for name in names)}")
    if len(chosen) > 1:
        raise ParameterError(
            f"{verb}: {'= and '.join(chosen)}= at once: select by one of them, and compose two with &"
        )
    ((by, value),) = chosen.items()
    if by == "edge":
        ends = tuple(value) if isinstance(value, tuple | list) else ()
        if len(ends) != 2 or not all(isinstance(end, str) for end in ends):
            raise ParameterError(f"edge is {value!r}, expected the ids of two events: edge=('e3', 'e4')")
        return by, (ends[0], ends[1])
    assert isinstance(value, str)
    if by == "type":
        expect_event_type(value)
    return by, value
