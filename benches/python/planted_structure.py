"""What methods find where the graph itself makes the outcome, as one Markdown table.

    python benches/python/planted_structure.py --traces 2000

Every run's outcome is 1, made by the gates of the structural surrogate along its recorded edges. True is the
exact Shapley value of each agent in that game. Spearman's rho among the agents of a trace, the mean over
traces, with 95 % intervals over tasks: noisy-or gates, and linear ones.

Five seeds of `generate_planted`; effects play no part, only its graphs do. The same numbers on every run.
"""

import argparse
from typing import Any

import polars as pl
from planted_truth import SEEDS, Run, cell, interval, label, values

import orchestrace as ot

__all__ = ["GATES", "interval", "markdown", "measure"]

GATES = ("noisy_or", "linear")
RUNS: list[Run] = [
    ("uniform", {}),
    ("flow", {}),
    ("flow", {"kernel": "edge_type"}),
    ("flow", {"kernel": "shapley_gate"}),
    ("flow_discounted", {}),
]
# These play the game that made the outcome, each by a rule of its own.
GAMES: list[Run] = [(name, {}) for name in ("difference", "banzhaf", "owen", "myerson", "precedence_shapley")]


def measure(n_traces: int) -> pl.DataFrame:
    """Rho of each trace: ``gates run task rho``."""
    each = max(n_traces // len(SEEDS) // 8, 1) * 8
    frames = []
    for seed in SEEDS:
        made, _ = ot.synthetic.planted(traces=each, group_size=8, seed=seed)
        corpus = made.with_measures(made.traces.select("trace", team=pl.lit(1.0)).collect())
        tasks = corpus.traces.select("trace", task=pl.format("{}/{}", pl.lit(seed), "task_id")).collect()
        for gates in GATES:
            truth = credited(corpus, "shapley", {"outcome": gates}).rename({"credit": "contribution"})
            truth = truth.join(tasks, on="trace")
            for name, params in [*RUNS, *GAMES]:
                given = params | ({"outcome": gates} if (name, params) in GAMES else {})
                both = credited(corpus, name, given).join(truth, on=["trace", "unit_id"])
                found = values(both, ["trace"]).select("task", "rho")
                frames.append(
                    found.select(
                        pl.lit(gates).alias("gates"),
                        pl.lit(label((name, params))).alias("run"),
                        "task",
                        "rho",
                    )
                )
    return pl.concat(frames)


def credited(corpus: ot.Corpus, method: str, params: dict[str, Any]) -> pl.DataFrame:
    """Credit of agents: ``trace unit_id credit``."""
    return ot.credit(corpus, method=method, unit="agent", **params).select("trace", "unit_id", "credit")


def markdown(found: pl.DataFrame) -> str:
    """The table."""
    lines = [f"| method | {' | '.join(GATES)} |", f"|---|{'---:|' * len(GATES)}"]
    for run in map(label, [*RUNS, *GAMES]):
        cells = [cell(found.filter(run=run, gates=gates)) for gates in GATES]
        lines.append(f"| `{run}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=2000, help="traces, all seeds together")
    print(markdown(measure(parser.parse_args().traces)))


if __name__ == "__main__":
    main()
