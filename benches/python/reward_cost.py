"""What all rules of reward cost beside reading.

    python benches/python/reward_cost.py [--events 1000000] [--rounds 7]

Medians over rounds in one process, after one round that is not counted; reading and paying take turns on the
same files with the default threads.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from metric_cost import seconds

import orchestrace as ot


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    rules = ot.rewards.list_rules()["reward"].to_list()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.jsonl"
        ot.generate(path, preset="mixed", events=asked.events, seed=0)
        corpus = ot.read_traces(path)
        reading, paying = [], []
        for _ in range(asked.rounds + 1):
            reading.append(seconds(lambda: ot.read_traces(path)))
            paying.append(seconds(lambda: ot.rewards.compute(corpus, rules)))
        rows = ot.rewards.compute(corpus, rules).height
    parse, pay = (statistics.median(times[1:]) for times in (reading, paying))
    print(
        f"{asked.events:,} events: read {parse:.3f} s, {len(rules)} rules ({rows:,} rows) {pay:.3f} s, "
        f"ratio {pay / parse:.2f}"
    )


if __name__ == "__main__":
    main()
