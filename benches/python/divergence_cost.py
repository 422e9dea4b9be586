"""What divergence and blame cost, beside reading: groups of 16 runs that begin alike.

    python benches/python/divergence_cost.py [--groups 1250] [--rounds 5]

Runs are made of seeded words: 25 calls of eight tools by two agents, of which up to three differ from the
group's. Prints processor seconds of each, the median of rounds that take turns.
"""

import argparse
import json
import random
import resource
import tempfile
from pathlib import Path
from statistics import median

import orchestrace as ot


def write(path: Path, groups: int) -> None:
    rng = random.Random(0)
    with path.open("w") as file:
        for group in range(groups):
            common = [rng.choice("ABCDEFGH") for _ in range(25)]
            for rollout in range(16):
                tools = list(common)
                for _ in range(rng.randrange(4)):
                    tools[rng.randrange(25)] = rng.choice("ABCDEFGH")
                events = []
                for n, tool in enumerate(tools):
                    agent = "worker" if n % 5 == 4 else "lead"
                    for kind in ("tool_call", "tool_result"):
                        place = len(events)
                        events.append(
                            {"id": f"e{place}", "t": place, "type": kind, "agent": agent, "tool": tool}
                        )
                edges = [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "causal"} for n in range(0, 50, 2)]
                failed = rng.random() < (0.7 if "H" in tools[:5] else 0.4)
                run = {
                    "trace_id": f"g{group}r{rollout}",
                    "task_id": f"g{group}",
                    "events": events,
                    "edges": edges,
                }
                rest = {"rewards": {"team": 1.0 - failed}, "costs": {"tokens": 0, "wall_clock_s": 0}}
                file.write(json.dumps(run | rest) + "\n")


def spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--groups", type=int, default=1250)
    options.add_argument("--rounds", type=int, default=5)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        write(path, arguments.groups)
        corpus = ot.read_traces(path)
        verbs = {
            "read_traces": lambda: ot.read_traces(path),
            "divergence": lambda: ot.evaluation.divergence(corpus),
            "lucky_passes": lambda: ot.evaluation.lucky_passes(corpus),
            "align": lambda: ot.evaluation.align(corpus),
            "branch_tests": lambda: ot.evaluation.branch_tests(corpus),
            "blame_candidates, step": lambda: ot.evaluation.blame_candidates(corpus),
            "blame_candidates, agent": lambda: ot.evaluation.blame_candidates(corpus, level="agent"),
        }
        times: dict[str, list[float]] = {name: [] for name in verbs}
        for _ in range(arguments.rounds):
            for name, verb in verbs.items():
                before = spent()
                verb()
                times[name].append(spent() - before)
        parsed = median(times["read_traces"])
        n_events = sum(corpus.traces.select("n_events").collect()["n_events"])
        print(f"{n_events:,} events, {corpus.traces.collect().height:,} runs")
        for name, seconds in times.items():
            print(f"{name:23} {median(seconds):7.3f} s  {median(seconds) / parsed:6.2f} of reading")


if __name__ == "__main__":
    main()
