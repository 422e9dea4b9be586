"""Schedules of a corpus on ten numbers of slots: orchestrace, a loop over heapq, SimPy.

    python benches/python/schedule_peers.py --events 1000000 --rounds 3

orchestrace begins with the tables in memory: it finds owners, builds graphs, finds durations, replays, checks
bounds and makes the frame. The others are given durations and lists of successors for every trace, outside of
what is timed, and only replay. Times are whole milliseconds, so that heapq has to agree to the bit. SimPy
grants a slot before it has looked at everything that ends at the same instant: its makespans are checked
against the bounds of Graham, and it is given fewer events (`--simpy-events`), since it is slow.
"""

import argparse
import heapq
import statistics
import time
from collections.abc import Callable

import polars as pl

import orchestrace as ot

SLOTS = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64]

Trace = tuple[list[int], list[list[int]], list[int], list[int], list[bool]]
"""Durations, successors, how many predecessors, the events in the order of the recording, and which take a
slot: those of the team do."""


def corpus_of(events: int) -> ot.Corpus:
    """A generated corpus (preset mixed, seed 1) whose times are whole milliseconds."""
    made = ot.generate(events=events, seed=1)
    whole = (pl.col("t", "duration_s") * 1000).round()
    return ot.Corpus.from_arrow(
        traces=made.traces.collect(),
        events=made.events.with_columns(whole).collect(),
        edges=made.edges.collect(),
    )


def given(corpus: ot.Corpus) -> list[Trace]:
    """What the peers get."""
    times = ot.schedules.simulate(corpus).select("trace", "duration", works=pl.col("source") != "outside")
    events = times.with_columns(corpus.events.select("t").collect()["t"])
    edges = corpus.edges.select("trace", "src", "dst").unique().sort("trace", "dst", "src").collect()
    by_trace = {key[0]: own for key, own in edges.partition_by("trace", as_dict=True).items()}
    found = []
    for (trace,), own in events.partition_by("trace", as_dict=True, maintain_order=True).items():
        n = own.height
        successors: list[list[int]] = [[] for _ in range(n)]
        waiting = [0] * n
        if trace in by_trace:
            for src, dst in by_trace[trace].select("src", "dst").iter_rows():
                successors[src].append(dst)
                waiting[dst] += 1
        t = own["t"].to_list()
        order = sorted(range(n), key=lambda v: (t[v], v))
        durations = [int(duration) for duration in own["duration"]]
        found.append((durations, successors, waiting, order, own["works"].to_list()))
    return found


def with_heapq(traces: list[Trace]) -> list[list[float]]:
    """Makespans, a list for each trace."""
    found = []
    for durations, successors, indegree, order, works in traces:
        rank = [0] * len(order)
        for place, v in enumerate(order):
            rank[v] = place
        own = []
        for k in SLOTS:
            waiting = indegree[:]
            ready = [rank[v] for v, count in enumerate(waiting) if not count and works[v]]
            heapq.heapify(ready)
            running = [(durations[v], v) for v, count in enumerate(waiting) if not count and not works[v]]
            heapq.heapify(running)
            outside: list[int] = []
            now = 0
            free = k
            while True:
                while free and ready:
                    v = order[heapq.heappop(ready)]
                    heapq.heappush(running, (now + durations[v], v))
                    free -= 1
                if not running:
                    break
                now = running[0][0]
                while running and running[0][0] == now:
                    v = heapq.heappop(running)[1]
                    free += works[v]
                    for w in successors[v]:
                        waiting[w] -= 1
                        if not waiting[w] and works[w]:
                            heapq.heappush(ready, rank[w])
                        elif not waiting[w]:
                            outside.append(w)
                for w in outside:
                    heapq.heappush(running, (now + durations[w], w))
                outside.clear()
            own.append(float(now))
        found.append(own)
    return found


def with_simpy(traces: list[Trace]) -> list[list[float]]:
    """Makespans, a list for each trace: a process an event, slots as a resource with priorities."""
    import simpy

    found = []
    for durations, successors, _, order, works in traces:
        rank = {v: place for place, v in enumerate(order)}
        inputs: list[list[int]] = [[] for _ in order]
        for u, after in enumerate(successors):
            for v in after:
                inputs[v].append(u)
        own = []
        for k in SLOTS:
            env = simpy.Environment()
            slots = simpy.PriorityResource(env, capacity=k)
            done = [env.event() for _ in order]

            def event(
                v: int,
                env=env,
                slots=slots,
                done=done,
                inputs=inputs,
                durations=durations,
                rank=rank,
                works=works,
            ):
                if inputs[v]:
                    yield env.all_of([done[u] for u in inputs[v]])
                if works[v]:
                    with slots.request(priority=rank[v]) as slot:
                        yield slot
                        yield env.timeout(durations[v])
                else:
                    yield env.timeout(durations[v])
                done[v].succeed()

            for v in order:
                env.process(event(v))
            env.run()
            own.append(float(env.now))
        found.append(own)
    return found


def with_orchestrace(corpus: ot.Corpus) -> pl.DataFrame:
    return ot.schedules.scaling_curve(corpus, slots=SLOTS)


def seconds(call: Callable[[], object], rounds: int) -> float:
    """The median, after one round of warm-up where there are several."""
    if rounds > 1:
        call()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--simpy-events", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    corpus = corpus_of(options.events)
    traces = given(corpus)
    events = sum(len(trace[0]) for trace in traces)
    curve = with_orchestrace(corpus)
    ours = seconds(lambda: with_orchestrace(corpus), max(3, options.rounds))
    wanted = curve["makespan"].to_list()
    assert [makespan for own in with_heapq(traces) for makespan in own] == wanted, "heapq disagrees"
    heap = seconds(lambda: with_heapq(traces), options.rounds)
    taken, count = [], 0
    for trace in traces:
        if count >= options.simpy_events:
            break
        taken.append(trace)
        count += len(trace[0])
    start = time.perf_counter()
    simulated = [makespan for own in with_simpy(taken) for makespan in own]
    simpy = time.perf_counter() - start
    bounds = curve.head(len(simulated))
    within = pl.Series(simulated).is_between(bounds["lower"] - 1e-6, bounds["upper"] + 1e-6)
    assert within.all(), "SimPy leaves the bounds of Graham"
    print(
        f"{events:,} events in {len(traces):,} traces, {len(SLOTS)} numbers of slots, {options.rounds} rounds"
    )
    print("| peer | events | seconds | ns an event and k | times orchestrace |")
    print("|---|---:|---:|---:|---:|")
    per = ours / events / len(SLOTS)
    for name, n, taken_s in [
        ("orchestrace", events, ours),
        ("heapq", events, heap),
        ("SimPy, one round", count, simpy),
    ]:
        each = taken_s / n / len(SLOTS)
        print(f"| {name} | {n:,} | {taken_s:.2f} | {each * 1e9:,.0f} | {each / per:.1f} |")


if __name__ == "__main__":
    main()
