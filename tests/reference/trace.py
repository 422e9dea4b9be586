"""A native trace document in plain Python: order, owners, turns, outcome, graph, units (D1, D3 to D6)."""

from collections import defaultdict
from functools import cached_property
from typing import Any

from reference.tables import event_rows, trace_row

Event = dict[str, Any]
ORCHESTRATION = ("orchestrator_decision", "spawn", "despawn", "aggregate")
RECEIVED = ("message", "return", "spawn", "human_intervention")
EDGE_WEIGHTS = {
    "temporal": 0.2,
    "causal": 1.0,
    "spawn": 0.5,
    "message": 0.7,
    "tool_dependency": 0.9,
    "return": 1.0,
    "aggregate": 1.2,
    "safety_flow": 0.3,
}
SPEECH = ("message", "return", "human_intervention")
UNITS = ["team", "role", "agent", "turn", "event", "orchestrator", "message", "tool", "token"]
#: Roles of those who take part without being of the team.
OUTSIDE = ("user", "scorer", "environment")


class Turn:
    """Events of one agent between two receptions, or with one recorded number."""

    def __init__(self, owner: str, label: str, ordinal: int, events: list[int]) -> None:
        self.owner = owner
        self.label = label
        self.ordinal = ordinal  #: among the turns of its owner, from 0
        self.events = events  #: in canonical order


class Trace:
    """What the methods read of a document; events are numbered as in the document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.events: list[Event] = event_rows(document, 0)
        self.group: str = trace_row(document, 0)["group_id"]
        self.task: str = document["task_id"]
        place = {event["id"]: seq for seq, event in enumerate(self.events)}
        #: (src, dst) to the types of all rows between them
        self.edges: dict[tuple[int, int], list[str]] = defaultdict(list)
        for edge in document["edges"]:
            self.edges[place[edge["src"]], place[edge["dst"]]].append(edge["type"])

    def __len__(self) -> int:
        return len(self.events)

    @cached_property
    def order(self) -> list[int]:
        """Canonical order (D1)."""
        return sorted(range(len(self)), key=lambda v: (self.events[v]["t"], v))

    @cached_property
    def rank(self) -> list[int]:
        """Place of every event in canonical order."""
        rank = [0] * len(self)
        for place, v in enumerate(self.order):
            rank[v] = place
        return rank

    def amount(self, weights: dict[str, float]) -> float | None:
        """The reward that is asked for; None if a channel is absent."""
        rewards = self.document["rewards"]
        if any(name not in rewards for name in weights):
            return None
        return sum(weight * float(rewards[name]) for name, weight in weights.items())

    def last(self, events: list[int]) -> int | None:
        return max(events, key=self.rank.__getitem__, default=None)

    def first(self, events: list[int]) -> int | None:
        return min(events, key=self.rank.__getitem__, default=None)

    # --- owners (D4) --------------------------------------------------------------------------------

    @cached_property
    def call(self) -> list[int | None]:
        """Of every tool_result the tool_call that it answers."""
        calls = [v for v in range(len(self)) if self.events[v]["type"] == "tool_call"]
        found: list[int | None] = []
        for v, event in enumerate(self.events):
            if event["type"] != "tool_result":
                found.append(None)
                continue
            joined = self.last([u for u in calls if (u, v) in self.edges])
            earlier = [u for u in calls if self.rank[u] < self.rank[v] and self.events[u]["tool"] is not None]
            named = self.last([u for u in earlier if self.events[u]["tool"] == event["tool"]])
            found.append(named if joined is None else joined)
        return found

    @cached_property
    def outside(self) -> dict[str, str]:
        """Who is not of the team, and what instead."""
        kinds = {"user": "user"}
        for v in self.order:
            event = self.events[v]
            if event["role"] in OUTSIDE and event["type"] not in ("spawn", "despawn"):
                kinds.setdefault(event["agent"], event["role"])
        return kinds

    @cached_property
    def owner(self) -> list[str | None]:
        """Of every event the agent that it belongs to."""
        acting = {event["agent"] for event in self.events if event["type"] != "tool_result"}

        def of(v: int) -> str | None:
            event = self.events[v]
            kind = self.outside.get(event["agent"])
            of_tool = event["agent"] not in acting or kind == "environment"
            if event["type"] == "tool_result" and of_tool and kind != "user":
                call = self.call[v]
                return None if call is None else of(call)
            if event["type"] == "human_intervention" or kind is not None:
                return None
            return str(event["agent"])

        return [of(v) for v in range(len(self))]

    def owned(self, *types: str) -> list[int]:
        """Events with an owner, of these types or of any, in canonical order."""
        wanted = [v for v in self.order if self.owner[v] is not None]
        return [v for v in wanted if not types or self.events[v]["type"] in types]

    @cached_property
    def agents(self) -> list[str]:
        """All owners, in order of their first event."""
        return list(dict.fromkeys(str(self.owner[v]) for v in self.owned()))

    @cached_property
    def spawner(self) -> dict[str, str]:
        """Who spawned whom before that one did anything."""
        names = {event["agent"] for event in self.events}
        found: dict[str, str] = {}
        acted: set[str] = set()
        for v in self.order:
            event, owner = self.events[v], self.owner[v]
            if owner is None:
                continue
            acted.add(owner)
            child = event["to"]
            if event["type"] == "spawn" and child in names and child not in acted:
                found.setdefault(child, owner)
        return found

    def head(self, agent: str) -> str:
        """Whom an agent works for, over any number of hops."""
        while agent in self.spawner:
            agent = self.spawner[agent]
        return agent

    @cached_property
    def heard(self) -> list[str]:
        """Whom the human addressed, each as whom it works for, in order of hearing."""
        humans = {
            v
            for v, event in enumerate(self.events)
            if event["type"] == "human_intervention" or self.outside.get(event["agent"]) == "user"
        }
        after = len(self)  # a name in `to` comes after where the edges of the event lead
        told = [(self.rank[src], self.rank[dst], self.owner[dst]) for src, dst in self.edges if src in humans]
        told += [
            (self.rank[v], after, self.events[v]["to"])
            for v in sorted(humans)
            if self.events[v]["to"] in self.agents
        ]
        told.sort(key=lambda one: one[:2])
        return list(dict.fromkeys(self.head(agent) for *_, agent in told if agent is not None))

    @cached_property
    def leads(self) -> bool:
        """Whether somebody decides or spawns."""
        return bool(self.owned("orchestrator_decision", "spawn"))

    @cached_property
    def root(self) -> str | None:
        if self.heard:
            return self.heard[0]
        for types in (["orchestrator_decision"], ["spawn"], []):
            found = self.owned(*types)
            if found:
                return self.head(str(self.owner[found[0]]))
        return None

    @cached_property
    def role(self) -> dict[str | None, str | None]:
        """Of every agent its role."""
        roles: dict[str | None, str | None] = {None: None}
        for agent in self.agents:
            roles[agent] = self.told_role(agent, self.order)
        return roles

    def told_role(self, agent: str, until: list[int]) -> str | None:
        """The role of an agent by these events, which are in canonical order."""
        own = [
            v
            for v in until
            if self.owner[v] == agent == self.events[v]["agent"]
            and self.events[v]["type"] not in ("spawn", "despawn")
        ]
        naming = [v for v in until if self.events[v]["type"] == "spawn" and self.events[v]["to"] == agent]
        said = [self.events[v]["role"] for v in own + naming if self.events[v]["role"] is not None]
        return said[0] if said else None

    def until(self, v: int) -> list[int]:
        """The events up to one, this one included, in canonical order."""
        return [u for u in self.order if self.rank[u] <= self.rank[v]]

    # --- turns (D6) ---------------------------------------------------------------------------------

    @cached_property
    def turns(self) -> list[Turn]:
        """All turns in order of their first event."""
        found: dict[tuple[str, str], list[int]] = {}
        for agent in self.agents:
            here: tuple[str, str] | None = None
            received, opened = False, 0
            for v in self.order:
                event = self.events[v]
                if self.owner[v] != agent:
                    if event["type"] in RECEIVED and event["to"] == agent:
                        received = True
                    continue
                number = event["turn"]
                call = self.call[v]
                if number is None and call is not None and self.owner[call] == agent:
                    number = self.events[call]["turn"]
                is_result = event["type"] == "tool_result"
                if number is not None:
                    here, received = (agent, f"{agent}/{number}"), False
                elif here is None or (received and not is_result):
                    here, received = (agent, f"{agent}/+{opened + 1}"), False
                received = received or is_result
                opened += here not in found
                found.setdefault(here, []).append(v)
        ordered = sorted(found.items(), key=lambda item: self.rank[item[1][0]])
        ordinals: dict[str, int] = defaultdict(int)
        turns = []
        for (owner, label), events in ordered:
            turns.append(Turn(owner, label, ordinals[owner], events))
            ordinals[owner] += 1
        return turns

    # --- graph (D3, D5) -----------------------------------------------------------------------------

    @cached_property
    def partial(self) -> bool:
        """Whether the recording ends before the run did."""
        facts = self.document["events"][0].get("x_trace", {})
        return bool(facts.get("partial", False))

    @property
    def outcome(self) -> int | None:
        """The outcome; None for a virtual sink, or where it is not known."""
        return self._decided[0]

    @property
    def unknown(self) -> str | None:
        """Why it is not known where the outcome is."""
        return self._decided[1]

    @cached_property
    def _decided(self) -> tuple[int | None, str | None]:
        ambiguous, partial = (None, "outcome.ambiguous"), (None, "trace.partial")
        answers = self.owned("aggregate", "return")

        def to_user(v: int) -> bool:
            return self.outside.get(str(self.events[v]["to"])) == "user"

        def to_agent(v: int) -> bool:
            to = self.events[v]["to"]
            known = any(event["agent"] == to for event in self.events)
            return known and to not in self.outside and to != self.owner[v]

        def by(agent: str | None, of: list[int]) -> list[int]:
            return [v for v in of if self.owner[v] == agent]

        def by_one(of: list[int]) -> int | bool:
            """The last answer of the one agent that gave any; whether several did."""
            givers = {self.owner[v] for v in of}
            return of[-1] if len(givers) == 1 else bool(givers)

        def is_asked(agent: str | None) -> bool:
            others = [v for v, owner in enumerate(self.owner) if owner not in (None, agent)]
            named = any(self.events[v]["to"] == agent for v in others)
            return named or any(src in others and self.owner[dst] == agent for src, dst in self.edges)

        addressed = [v for v in answers if to_user(v)]
        root = self.root if self.heard or self.leads else None
        if len(self.heard) > 1:
            answered = [agent for agent in self.heard if by(agent, addressed)]
            if len(answered) != 1 or self.partial:
                return ambiguous
            root = answered[0]
        if root is not None and by(root, addressed):
            return by(root, addressed)[-1], None
        own = [] if root is None or self.partial else by(root, answers)
        passed_on = [v for v in addressed if len(self.heard) != 1 or is_asked(self.owner[v])]
        found = by_one(passed_on)
        if found is not False and found is not True:
            return found, None
        if own:
            return own[-1], None
        if found is True:
            return ambiguous
        if self.partial:
            return partial
        open_ones = [v for v in answers if not to_agent(v)]
        aggregates = [v for v in answers if self.events[v]["type"] == "aggregate"]
        found = by_one(open_ones if root is None else aggregates)
        if found is True:
            return ambiguous
        return (None if found is False else found), None

    def weights(self, program_order: bool = False) -> dict[tuple[int, int], float]:
        """Merged edges with the sums of their types' weights."""
        merged = {ends: sum(EDGE_WEIGHTS[kind] for kind in kinds) for ends, kinds in self.edges.items()}
        if program_order:
            last: dict[str, int] = {}
            for v in self.owned():
                owner = str(self.owner[v])
                u = last.get(owner)
                if u is not None and (u, v) not in merged and (v, u) not in merged:
                    merged[u, v] = EDGE_WEIGHTS["temporal"]
                last[owner] = v
        return merged

    def topological(self, edges: dict[tuple[int, int], float]) -> list[int] | None:
        """Events, every one after its predecessors; None for a cycle."""
        waiting = [sum(1 for _, dst in edges if dst == v) for v in range(len(self))]
        ready = [v for v in self.order if waiting[v] == 0]
        found = []
        while ready:
            u = ready.pop(0)
            found.append(u)
            for src, dst in edges:
                if src == u:
                    waiting[dst] -= 1
                    if waiting[dst] == 0:
                        ready.append(dst)
            ready.sort(key=self.rank.__getitem__)
        return found if len(found) == len(self) else None

    @cached_property
    def is_cyclic(self) -> bool:
        """Whether edges and the order in which agents acted contradict each other."""
        return self.topological(self.weights(program_order=True)) is None

    # --- contexts -----------------------------------------------------------------------------------

    def _like(self, v: int) -> tuple[str, bool]:
        return self.events[v]["type"], self.owner[v] is None

    def _reaches(self, v: int) -> set[str | None]:
        """Whose events the edges of an event lead to, but for its own actor's; None is somebody outside."""
        others = [dst for src, dst in self.edges if src == v]
        named = [w for w in others if self.events[w]["agent"] != self.events[v]["agent"]]
        return {self.owner[w] for w in named if self.owner[w] is None or self.owner[w] != self.owner[v]}

    def _addressee(self, v: int) -> str | None:
        to, speaks = self.events[v]["to"], self.events[v]["type"] in SPEECH
        if to is None and speaks and self.owner[v] is None and len(self.agents) == 1:
            return self.agents[0]
        return to if to in self.agents and to != self.owner[v] else None

    @cached_property
    def unaddressed(self) -> list[int]:
        """What everybody may have heard: of its like the trace tells nowhere which other agent heard it."""
        told = {
            self._like(v)
            for v in range(len(self))
            if self._addressee(v) is not None or self._reaches(v) - {None}
        }
        return [
            v
            for v in self.order
            if len(self.agents) > 1
            and self.events[v]["type"] in SPEECH
            and self.events[v]["to"] is None
            and not self._reaches(v)
            and self._like(v) not in told
        ]

    def is_assumed(self, v: int) -> bool:
        """Whether somebody else said before what everybody may have heard."""
        before = [u for u in self.unaddressed if self.rank[u] < self.rank[v]]
        return any(self.owner[u] is None or self.owner[u] != self.owner[v] for u in before)

    @cached_property
    def heard_edges(self) -> set[tuple[int, int]]:
        """Edges with program order, and from what was heard to where it was: at the hearer's next event."""
        found = set(self.weights(program_order=True))
        for v in range(len(self)):
            to = self._addressee(v)
            after = self.first(
                [w for w in self.owned() if self.owner[w] == to and self.rank[w] > self.rank[v]]
            )
            if to is not None and to not in self._reaches(v) and after is not None:
                found.add((v, after))
        for w in range(len(self)):
            before = [u for u in self.unaddressed if self.rank[u] < self.rank[w]]
            own = [v for v in self.owned() if self.owner[v] == self.owner[w] and self.rank[v] < self.rank[w]]
            since = self.rank[own[-1]] if own and self.owner[w] is not None else -1
            hears = w in self.unaddressed or (
                self.owner[w] is not None and before and self.rank[before[-1]] > since
            )
            if before and hears:
                found.add((before[-1], w))
        return found

    # --- units (D4) ---------------------------------------------------------------------------------

    def units(self, level: str) -> list[str | None]:
        """Of every event the `unit_id` that it belongs to."""
        events = self.events
        if level == "team":
            return ["team"] * len(self)
        if level == "event":
            return [event["id"] for event in events]
        if level == "agent":
            return list(self.owner)
        if level == "role":
            return [self.role[owner] for owner in self.owner]
        if level == "turn":
            label = {v: turn.label for turn in self.turns for v in turn.events}
            return [label.get(v) for v in range(len(self))]
        if level == "orchestrator":
            return [
                owner if event["type"] in ORCHESTRATION else None
                for event, owner in zip(events, self.owner, strict=True)
            ]
        if level == "token":
            return [event["id"] if (event["tokens_out"] or 0) > 0 else None for event in events]
        if level == "message":
            return [
                event["id"]
                if event["type"] in ("message", "return")
                and owner is not None
                and event["to"] not in (None, owner, *self.outside)
                else None
                for event, owner in zip(events, self.owner, strict=True)
            ]
        found: list[str | None] = []
        for event, call in zip(events, self.call, strict=True):
            of = None
            if event["type"] == "tool_result":
                of = event["id"] if call is None else events[call]["id"]
            elif event["type"] == "tool_call":
                of = event["id"]
            found.append(of)
        return found
