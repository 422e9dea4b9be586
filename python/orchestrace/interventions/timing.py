"""Interventions on timing: fewer slots, faster tools, agents removed, merged, split.

Each is a frozen dataclass with a method `spec`, which says it in plain values; `a & b` is both, in this
order.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from ..base.arguments import Integer, Number, PositiveShare
from ..base.checks import expect_each
from ..base.errors import ParameterError
from ..base.verbs import verb
from .composition import Composable, Spec, expect_event_type


@dataclass(frozen=True, repr=False)
class Concurrency(Composable):
    """The same work on given numbers of slots: one scenario for each."""

    slots: tuple[int | None, ...]
    pool: str
    queue: str
    release: str

    def spec(self) -> Spec:
        return {
            "kind": "concurrency",
            "slots": list(self.slots),
            "pool": self.pool,
            "queue": self.queue,
            "release": self.release,
        }

    def named(self, slots: object) -> str:
        """How it is written down, with these slots."""
        usual = {"pool": "all", "queue": "recorded", "release": "none"}
        more = [
            f"{name}={getattr(self, name)!r}" for name, word in usual.items() if getattr(self, name) != word
        ]
        return f"concurrency({', '.join([str(slots), *more])})"

    def __repr__(self) -> str:
        return self.named(list(self.slots) if len(self.slots) != 1 else self.slots[0])


@dataclass(frozen=True, repr=False)
class _Selecting(Composable):
    """Whatever changes selected events."""

    by: str | None
    value: str | None

    def _selected(self) -> Spec:
        return {"by": self.by, "value": self.value}

    def _spelled(self) -> str:
        return "" if self.by is None else f"{self.by}={self.value!r}"


@dataclass(frozen=True, repr=False)
class SpeedUp(_Selecting):
    """Durations divided by a factor."""

    factor: float

    def spec(self) -> Spec:
        return {"kind": "speed_up", "factor": self.factor, **self._selected()}

    def __repr__(self) -> str:
        return f"speed_up({', '.join(filter(None, (f'{self.factor:g}', self._spelled())))})"


@dataclass(frozen=True, repr=False)
class CapStragglers(_Selecting):
    """Durations cut to a quantile of their class."""

    quantile: float

    def spec(self) -> Spec:
        return {"kind": "cap_stragglers", "quantile": self.quantile, **self._selected()}

    def __repr__(self) -> str:
        return f"cap_stragglers({', '.join(filter(None, (f'{self.quantile:g}', self._spelled())))})"


@dataclass(frozen=True, repr=False)
class Remove(_Selecting):
    """Events that do not happen."""

    def spec(self) -> Spec:
        return {"kind": "remove", "cascade": "stay", **self._selected()}

    def __repr__(self) -> str:
        return f"skip({self._spelled()})"


@dataclass(frozen=True, repr=False)
class Merge(Composable):
    """Several agents as one."""

    agents: tuple[str, ...]

    def spec(self) -> Spec:
        return {"kind": "merge", "agents": list(self.agents)}

    def __repr__(self) -> str:
        return f"merge({list(self.agents)})"


@dataclass(frozen=True, repr=False)
class Split(Composable):
    """One agent as several."""

    agent: str
    parts: int

    def spec(self) -> Spec:
        return {"kind": "split", "agent": self.agent, "parts": self.parts}

    def __repr__(self) -> str:
        return f"split({self.agent!r}, {self.parts})"


@dataclass(frozen=True, repr=False)
class Serialize(Composable):
    """One event at a time."""

    def spec(self) -> Spec:
        return {"kind": "serialize"}

    def __repr__(self) -> str:
        return "run_sequentially()"


Pool = Literal["all", "agents", "tools"]
Queue = Literal["recorded", "critical_path"]
Release = Literal["none", "recorded"]


@verb
def concurrency(
    slots: int | Sequence[int | None] | None,
    *,
    pool: Pool = "all",
    queue: Queue = "recorded",
    release: Release = "none",
) -> Concurrency:
    """Schedule the same work on k slots.

    Parameters
    ----------
    slots
        Numbers k of slots, at least 1; None is as many as are needed. A list makes one scenario of each.
    pool
        What takes a slot. ``all``: every event, one each. ``agents``: every agent, one while any of its
        events runs; what belongs to nobody needs none. ``tools``: every tool result, whose duration is the
        work of the tool; everything else needs none.
    queue
        Which of the events that could begin goes first: the first in the recording (``recorded``), or the one
        with the longest path behind it (``critical_path``, ties as recorded).
    release
        ``recorded``: no event begins before it did in the recording. The bounds of Graham and Brent hold
        without release times only.

    Returns
    -------
    Concurrency
        For `replay`.

    Raises
    ------
    ParameterError
        A number below 1, or an unknown word.

    Notes
    -----
    O((events + edges) log k) for each k. Source: list scheduling, R. L. Graham, SIAM J. Appl. Math. 17(2),
    1969.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.concurrency([1, 2, None]))
    concurrency([1, 2, None])
    """
    if slots is None or isinstance(slots, int):
        slots = (slots,)
    if isinstance(slots, str) or not isinstance(slots, Iterable):
        raise ParameterError(f"slots is {slots!r}, expected a whole number, None, or a list of them")
    slots = tuple(slots)
    if not slots:
        raise ParameterError("slots is empty: name a number of slots, or None for as many as are needed")
    expect_each("slots", (k for k in slots if k is not None), Integer(1, 2**32 - 1))
    return Concurrency(slots, pool, queue, release)


@verb
def speed_up(
    factor: Annotated[float, Number(above=0, infinite=True)],
    *,
    tool: str | None = None,
    agent: str | None = None,
    role: str | None = None,
    type: str | None = None,
    event: str | None = None,
) -> SpeedUp:
    """Make selected events, or all, `factor` times as fast.

    Parameters
    ----------
    factor
        What durations are divided by: 2 is twice as fast, 0.5 takes twice as long. Above 0.
    tool, agent, role, type, event
        Which events: results of a tool (their durations are its work), events owned by an agent or by agents
        of a role, of a type, or the one of this id. At most one of them; none selects all events.

    Raises
    ------
    ParameterError
        A factor that is not above 0, or several selections.

    Notes
    -----
    Where durations are gaps between times, a duration contains waiting that a faster tool would not shorten:
    the answer is then the best case. Source: methods of project scheduling, J. E. Kelley, M. R. Walker, 1959.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.speed_up(2, tool="browser"))
    speed_up(2, tool='browser')
    """
    by, value = _selection(tool=tool, agent=agent, role=role, type=type, event=event)
    if factor == math.inf:
        raise ParameterError("factor is infinite: remove the events instead")
    return SpeedUp(by, value, float(factor))


@verb
def cap_stragglers(
    quantile: PositiveShare,
    *,
    tool: str | None = None,
    agent: str | None = None,
    role: str | None = None,
    type: str | None = None,
) -> CapStragglers:
    """Cut selected events to a quantile of the durations of their kind.

    Parameters
    ----------
    quantile
        q in (0, 1]. Events are of one kind if they share type and tool; of the m selected events of a kind in
        a trace, none takes longer than the ⌈q m⌉-th shortest.
    tool, agent, role, type
        Which events, as in `interventions.speed_up`; none selects all.

    Raises
    ------
    ParameterError
        A quantile out of range, or several selections.

    Notes
    -----
    The quantile is a duration that was recorded, so that whole numbers stay whole. O(n log n) a trace.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.cap_stragglers(0.9, type="tool_result"))
    cap_stragglers(0.9, type='tool_result')
    """
    by, value = _selection(tool=tool, agent=agent, role=role, type=type)
    return CapStragglers(by, value, float(quantile))


@verb
def skip(
    *,
    agent: str | None = None,
    event: str | None = None,
    tool: str | None = None,
    role: str | None = None,
    type: str | None = None,
) -> Remove:
    """Let selected events take no time, no slot and no tokens.

    What waited for them waits for what they waited for: the order among all others stays. (`drop` also takes
    what depends on them.)

    Parameters
    ----------
    agent, event, tool, role, type
        Which events: owned by an agent or by agents of a role, the one of this id, calls and results of a
        tool, of a type. Exactly one of them.

    Raises
    ------
    ParameterError
        No selection, or several.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.skip(agent="critic"))
    skip(agent='critic')
    """
    by, value = _selection(agent=agent, event=event, tool=tool, role=role, type=type)
    if by is None:
        raise ParameterError("skip what? Name one of agent=, event=, tool=, role=, type=")
    return Remove(by, value)


@verb
def merge(agents: Sequence[str]) -> Merge:
    """Merge several agents into one, which does one thing at a time.

    With ``pool="agents"`` they take one slot together. Merges that share an agent are one merge.

    Parameters
    ----------
    agents
        Names of at least two agents.

    Raises
    ------
    ParameterError
        Fewer than two names.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.merge(["planner", "critic"]))
    merge(['planner', 'critic'])
    """
    names = () if isinstance(agents, str) else tuple(agents)
    if len(set(names)) < 2 or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"agents is {agents!r}, expected the names of at least two agents")
    return Merge(names)


@verb
def split(agent: str, parts: Annotated[int, Integer(1, 64)] = 2) -> Split:
    """Split one agent into several, which work side by side.

    Only program order (temporal edges) holds an agent to one thing at a time, and only program order is
    loosened. Events of the agent that other edges join are one piece of work; pieces are dealt in the order
    of their first event, each to the part with the least work so far. Within a part, program order stays. An
    agent whose events all hang together does not gain from being split.

    Parameters
    ----------
    agent
        Its name.
    parts
        How many it becomes, 1 to 64.

    Raises
    ------
    ParameterError
        A number out of range.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.split("executor", 3))
    split('executor', 3)
    """
    return Split(agent, int(parts))


@verb
def run_sequentially() -> Serialize:
    """Run one event at a time, whatever the slots: the makespan is the work.

    Examples
    --------
    >>> import orchestrace as ot
    >>> print(ot.interventions.run_sequentially())
    run_sequentially()
    """
    return Serialize()


def _selection(**names: str | None) -> tuple[str | None, str | None]:
    """Return the only option that selects, and its value."""
    chosen = {by: value for by, value in names.items() if value is not None}
    if len(chosen) > 1:
        raise ParameterError(
            f"{' and '.join(chosen)} at once: select by one of them, and join interventions by &"
        )
    for by, value in chosen.items():
        if by == "type":
            expect_event_type(value)
        return by, value
    return None, None
