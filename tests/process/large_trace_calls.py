"""Calls on one large trace, run by `test_large_traces.py` in a process with a limited address space.

`python large_trace_calls.py SHAPE SIZE GROUP BYTES` writes a line for every call: its name, a tab, and
``begin``; then the same with ``value``, ``refused`` and the message, or ``lost`` and what ended it.
"""

import io
import json
import os
import re
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orchestrace as ot
from example_calls import over_any_corpus
from samples.export_calls import viewers

Calls = Iterator[tuple[str, Callable[[], Any]]]


def event(number: int, agent: str, kind: str = "message", **more: object) -> dict[str, object]:
    same = {"role": "worker", "turn": number, "tokens_out": 5, "duration_s": 1.0}
    return {"id": f"e{number}", "t": number, "type": kind, "agent": agent, **same, **more}


def edge(src: int, dst: int, kind: str = "causal") -> dict[str, str]:
    return {"src": f"e{src}", "dst": f"e{dst}", "type": kind}


def line(agents: int) -> tuple[list[Any], list[Any]]:
    """Agents that act one after the other, each once."""
    return [event(n, f"a{n}") for n in range(agents)], [edge(n, n + 1) for n in range(agents - 1)]


def one(events: int) -> tuple[list[Any], list[Any]]:
    """Events of one agent that nothing joins."""
    return [event(n, "a0") for n in range(events)], []


def team(agents: int) -> tuple[list[Any], list[Any]]:
    """A root that spawns all others, each of which returns to it, and puts together what they say."""
    events = [event(0, "a0", "orchestrator_decision")]
    edges = []
    for n in range(1, agents + 1):
        events.append(event(n, "a0", "spawn", to=f"a{n}"))
        edges.append(edge(0, n, "spawn"))
    for n in range(1, agents + 1):
        events.append(event(agents + n, f"a{n}", "return", **{"from": f"a{n}", "to": "a0"}))
        edges += [edge(n, agents + n, "spawn"), edge(agents + n, 2 * agents + 1, "aggregate")]
    return [*events, event(2 * agents + 1, "a0", "aggregate", rule="majority")], edges


def deep(agents: int) -> tuple[list[Any], list[Any]]:
    """Agents of which each spawns the next one."""
    events = [event(n, f"a{n}", "spawn", to=f"a{n + 1}") for n in range(agents)]
    return events, [edge(n, n + 1, "spawn") for n in range(agents - 1)]


def fan(agents: int) -> tuple[list[Any], list[Any]]:
    """A root that spawns all others, who act once and go nowhere."""
    events, edges = [event(0, "a0", "orchestrator_decision")], []
    for n in range(agents):
        events += [event(2 * n + 1, "a0", "spawn", to=f"a{n + 1}"), event(2 * n + 2, f"a{n + 1}")]
        edges += [edge(0, 2 * n + 1, "spawn"), edge(2 * n + 1, 2 * n + 2)]
    return events, edges


def cycle(agents: int) -> tuple[list[Any], list[Any]]:
    """Agents that write to the next one each, and the last to the first: an event follows from itself."""
    events = [event(n, f"a{n}", to=f"a{(n + 1) % agents}") for n in range(agents)]
    return events, [edge(n, (n + 1) % agents) for n in range(agents)]


def mesh(events: int) -> tuple[list[Any], list[Any]]:
    """A few agents that write to each other, each event after the one before and one of long ago."""
    many = max(events // 8, 2)
    rows = [event(n, f"a{n % many}", to=f"a{(7 * n + 1) % many}") for n in range(events)]
    return rows, [edge(n, m) for m in range(1, events) for n in {m - 1, max(m - 5, 0)}]


SHAPES = {shape.__name__: shape for shape in (line, one, team, deep, fan, cycle, mesh)}


def corpus(shape: str, size: int) -> ot.Corpus:
    events, edges = SHAPES[shape](size)
    document = {
        "trace_id": shape,
        "task_id": "task",
        "rewards": {"team": 1},
        "costs": {"tokens": 1, "wall_clock_s": 1},
        "events": events,
        "edges": edges,
    }
    read = ot.read_traces(io.BytesIO(json.dumps(document).encode()), max_record=1 << 30)
    assert len(read) == 1, read
    return read


def methods(runs: ot.Corpus) -> Calls:
    """Every method at every unit."""
    for name, units in ot.list_methods().select("name", "units").iter_rows():
        for unit in units:
            yield f"{name} by {unit}", lambda m=name, u=unit: ot.credit(runs, method=m, unit=u)


def verbs(runs: ot.Corpus) -> Calls:
    """Examples of verbs, and what asks many methods, a method many times, or the trace unit by unit."""
    for name, verb in over_any_corpus().items():
        yield f"example of {name}", lambda v=verb: v(runs)
    yield "compare by agent", lambda: compared(runs, "agent")
    yield "compare by event", lambda: compared(runs, "event")
    for method in ("shapley", "owen", "difference"):
        yield (
            f"model_sensitivity of {method}",
            lambda m=method: ot.outcomes.sensitivity(runs, method=m, unit="event"),
        )
    for each in ("agent", "event"):
        yield (
            f"model_sensitivity of each {each}",
            lambda e=each: ot.outcomes.sensitivity(runs, ot.interventions.drop(each=e)),
        )
    for method in ("flow", "discounted", "return_to_go", "grpo", "difference"):
        for unit in ("agent", "event"):
            yield f"explain {method} by {unit}", lambda m=method, u=unit: explained(runs, m, u)
    yield "faithfulness", lambda: ot.evaluation.faithfulness(runs, ot.credit(runs, unit="agent"))
    groups = ot.list_metrics()["group"].unique().sort().to_list()
    for group in groups:
        yield f"metrics of {group}", lambda g=group: ot.metrics(runs, groups=[g])
    yield "replay of each event", lambda: ot.replay(runs, ot.interventions.drop(each="event"))
    for kind in viewers():
        yield f"export as {kind}", lambda k=kind: exported(runs, k)


def unions(_: ot.Corpus) -> Calls:
    """Sizes at which powers of two as floats were infinite, and shifts wrapped around."""
    for size in (20, 21, 1_024, 1_025, 1_026, 1_056, 1_064, 1_087, 1_100, 2_000, 3_000):
        runs = corpus("one", size)
        for method in ("owen", "winter"):
            yield (
                f"{method} of {size}",
                lambda r=runs, m=method: ot.credit(r, method=m, unit="event"),
            )


def compared(runs: ot.Corpus, unit: Any) -> object:
    rows = ot.compare(runs, unit=unit)
    # what only one method refuses is a row with its error; anything else has its class before it
    lost = [told for told in rows["error"].drop_nulls() if re.match(r"\w*(Error|Exception)\b", told)]
    assert not lost, lost
    return rows


def explained(runs: ot.Corpus, method: str, unit: Any) -> object:
    credits = ot.credit(runs, method=method, unit=unit)
    return ot.explain(runs, credits, str(credits["unit_id"].drop_nulls()[0]))


def exported(runs: ot.Corpus, kind: Any) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return ot.export(runs, kind, Path(folder) / "file")


def told(name: str, *words: object) -> None:
    os.write(1, ("\t".join([name, *map(str, words)]).replace("\n", " ") + "\n").encode())


def main() -> None:
    shape, size, group, most = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    runs = corpus(shape, int(size))
    for name, call in {"methods": methods, "verbs": verbs, "unions": unions}[group](runs):
        told(name, "begin")
        try:
            call()
        except ot.OrchestraceError as error:
            told(name, "refused", error)
        except BaseException as error:  # a panic of the core is no Exception
            told(name, "lost", type(error).__name__, error)
        else:
            told(name, "value")


if __name__ == "__main__":
    main()
