"""What every credit method finds of planted contributions, as one Markdown table.

    python benches/python/planted_truth.py --traces 2000

Five models of the outcome, five seeds each, rollouts in groups of eight, `value` recorded. Spearman's rho
of credit with the true contribution, in three comparisons:

- event, agent: among the units of one trace; the mean over traces.
- siblings: among the decisions that rollouts of one group took in one context; the mean over contexts.

A rho is defined where both sides vary. A method that gives a whole trace one number ranks nothing inside
it: it has no row there, and is named below the table. Intervals are bootstrapped over tasks, which keep
their rollouts together. The last rows repeat the methods that read nothing but the reward with rewards
permuted among all traces, as they are and less their median. Permuted rewards no longer say which run did
well, but under gates, where no reward is negative, they still say that whoever did much earned much; less
the median they say nothing at all. The same numbers on every run.
"""

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

import orchestrace as ot
from orchestrace import rankings
from orchestrace.resampling import cluster_interval

MODELS: dict[str, dict[str, Any]] = {
    "linear": {"outcome": "linear"},
    "interaction": {"outcome": "linear", "interaction": 1.0},
    "noisy_or": {"outcome": "noisy_or"},
    "majority": {"outcome": "majority"},
    "mixed": {"outcome": "mixed"},
}
SEEDS = range(5)
UNITS = ("event", "agent", "siblings")
TOP = 0.05
# Beside the defaults of all methods: settings that change the question that a method answers.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("gae", {"rows": "events", "lambda_": 0.0, "gamma": 1.0}),
    ("flow", {"kernel": "edge_type"}),
    ("c3", {"baseline": "mean"}),
    ("spectrum", {"by": "agent"}),
    ("spectrum", {"by": "message"}),
    ("rudder", {"train": "runs"}),
]
# `value` of a planted corpus is the exact expected outcome: it tells the truth whatever the reward says.
READ_THE_CRITIC = frozenset({"gae", "sequential_gae", "eligibility", "dag_gae"})

# Fits centre rewards themselves, and take nearly all of the time.
FITTED = frozenset({"hca", "rudder", "vdn", "qmix"})

Run = tuple[str, dict[str, Any]]


def runs() -> list[Run]:
    """Every registered method with its defaults, each followed by its variants."""
    names = ot.methods()["name"].to_list()
    return [run for name in names for run in [(name, {}), *(v for v in VARIANTS if v[0] == name)]]


def label(run: Run) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in run[1].items())
    return f"{run[0]} ({settings})" if settings else run[0]


def shuffled(corpus: ot.Corpus, seed: int, *, centred: bool = False) -> ot.Corpus:
    """The corpus with the reward `team` permuted among all traces, less its median if `centred`."""
    team = corpus.measures.filter(kind="reward", name="team").sort("trace").collect()
    order = np.random.default_rng([seed, 1]).permutation(team.height)
    reward = team["value"].to_numpy()
    reward = reward - np.median(reward) if centred else reward
    return corpus.with_measures(team.select("trace", "kind", "name", value=pl.Series(reward[order])))


def values(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """`rho` and `sign` of each segment that `keys` name; `task` goes along."""
    rows = rows.drop_nulls("credit").sort(*keys, "unit_id")
    if rows.is_empty():
        return pl.DataFrame(schema={"task": pl.String, "rho": pl.Float64, "sign": pl.Float64})
    segment = rows.select(pl.struct(keys).rle_id())[keys[0]].to_numpy().astype(np.int64)
    starts = rankings.segment_starts(segment)
    ours, theirs = rows["credit"].to_numpy(), rows["contribution"].to_numpy()
    sizes = np.diff(np.append(starts, ours.size))
    best = rankings.top(np.abs(theirs), starts, np.ceil(TOP * sizes - 1e-9).astype(np.int64))
    right = rankings.sums(best * (np.sign(ours) == np.sign(theirs)), starts)
    sign = right / rankings.sums(best, starts)
    rho = rankings.spearman(ours, theirs, starts)
    # What does not rank its units has no signs worth counting either.
    sign = np.where(np.isfinite(rho), sign, np.nan)
    return pl.DataFrame({"task": rows["task"].gather(starts), "rho": rho, "sign": sign})


def compared(
    corpus: ot.Corpus, truth: ot.Truth, chosen: list[Run]
) -> Iterator[tuple[Run, str, pl.DataFrame]]:
    """Values of each run in each comparison; a method that cannot run raises."""
    tasks = corpus.traces.select("trace", task=pl.col("task_id").cast(pl.String)).collect()
    ids = corpus.events.select("trace", "seq", unit_id=pl.col("id").cast(pl.String)).collect()
    by_event = truth.contributions.select("trace", "seq", "contribution")
    by_event = by_event.join(ids, on=["trace", "seq"], maintain_order="left").join(tasks, on="trace")
    by_agent = truth.agents.select("trace", "contribution", unit_id="agent").join(tasks, on="trace")
    decisions = ot.contexts(corpus).drop_nulls(["context", "choice"]).join(tasks, on="trace")
    place = ["task", "context", "role"]
    siblings = decisions.filter(pl.col("choice").n_unique().over(place) > 1).select("trace", "seq", *place)
    for name, params in chosen:
        events = ot.credit(corpus, method=name, unit="event", **params).select("trace", "unit_id", "credit")
        events = events.join(by_event, on=["trace", "unit_id"])
        yield (name, params), "event", values(events, ["trace"])
        agents = ot.credit(corpus, method=name, unit="agent", **params).select("trace", "unit_id", "credit")
        yield (name, params), "agent", values(agents.join(by_agent, on=["trace", "unit_id"]), ["trace"])
        same = events.join(siblings.drop("task"), on=["trace", "seq"])
        same = same.with_columns(unit_id=pl.format("{}/{}", "trace", "seq"))
        yield (name, params), "siblings", values(same, place)


def measure(
    n_traces: int, models: dict[str, dict[str, Any]] = MODELS, chosen: list[Run] | None = None
) -> pl.DataFrame:
    """A row per model, seed, run, comparison and segment; `rewards` says what became of the rewards."""
    each = max(n_traces // len(SEEDS), 8)
    chosen = runs() if chosen is None else chosen
    reward_only = [run for run in chosen if run[0] not in READ_THE_CRITIC]
    frames = []
    for model, options in models.items():
        for seed in SEEDS:
            corpus, truth = ot.generate_planted(traces=each, group_size=8, seed=seed, **options)
            for control, given, wanted in (
                ("recorded", corpus, chosen),
                ("shuffled", shuffled(corpus, seed), reward_only),
                (
                    "centred",
                    shuffled(corpus, seed, centred=True),
                    [run for run in reward_only if run[0] not in FITTED],
                ),
            ):
                for run, unit, found in compared(given, truth, wanted):
                    frames.append(
                        found.select(
                            pl.lit(model).alias("model"),
                            pl.lit(seed).alias("seed"),
                            pl.lit(label(run)).alias("run"),
                            pl.lit(unit).alias("unit"),
                            pl.lit(control).alias("rewards"),
                            pl.format("{}/{}/{}", pl.lit(model), pl.lit(seed), "task").alias("task"),
                            "rho",
                            "sign",
                        )
                    )
    return pl.concat(frames)


def interval(found: pl.DataFrame, column: str) -> tuple[float | None, float | None, float | None]:
    """Mean of the defined values, and its 95 % interval over tasks."""
    tasks = found["task"].rank("dense").to_numpy().astype(np.int64)
    return cluster_interval(found[column].to_numpy(), tasks, 1000, 0, 0.95)


def cell(found: pl.DataFrame, column: str = "rho") -> str:
    mean, low, high = interval(found, column)
    if mean is None:
        return "-"
    return f"{mean:.2f}" if low is None else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def markdown(found: pl.DataFrame) -> str:
    """The table. Rows without any value are left out and named below it."""
    models = found["model"].unique(maintain_order=True).to_list()
    lines = [
        f"| method | unit | {' | '.join(models)} | sign, top 5 % |",
        f"|---|---|{'---:|' * (len(models) + 1)}",
    ]
    real = found.filter(rewards="recorded")
    silent: dict[str, list[str]] = {}
    for run in map(label, runs()):
        for unit in UNITS:
            own = real.filter(run=run, unit=unit)
            cells = [cell(own.filter(model=model)) for model in models]
            if set(cells) == {"-"}:
                silent.setdefault(unit, []).append(f"`{run}`")
            else:
                lines.append(f"| `{run}` | {unit} | {' | '.join(cells)} | {cell(own, 'sign')} |")
    controls = {"shuffled": "shuffled rewards", "centred": "shuffled rewards less their median"}
    for control, name in controls.items():
        for unit in UNITS:
            own = found.filter(rewards=control, unit=unit)
            cells = [cell(own.filter(model=model)) for model in models]
            lines.append(f"| {name}, all methods | {unit} | {' | '.join(cells)} | {cell(own, 'sign')} |")
    stable = {unit: agreement_of_seeds(table) for unit, table in orders(found).items()}
    lines += ["", *(f"No ranking at unit {unit}: {', '.join(names)}." for unit, names in silent.items())]
    for control, name in controls.items():
        outside, counted = outside_the_band(found.filter(rewards=control))
        lines.append(
            f"{name.capitalize()}, each method alone: {len(outside)} of {counted} intervals do not contain 0"
            + "".join(f"; {text}" for text in outside)
            + "."
        )
    lines += [
        *(
            f"Order of {len(orders(found)[unit])} methods at unit {unit}: Kendall's tau between two seeds "
            f"{np.mean(taus):.2f} on average, at least {min(taus):.2f}."
            for unit, taus in stable.items()
        ),
    ]
    return "\n".join(lines)


def outside_the_band(control: pl.DataFrame) -> tuple[list[str], int]:
    """Which of the methods' own 95 % intervals miss 0 with shuffled rewards, and of how many."""
    outside, counted = [], 0
    for (model, run, unit), own in control.group_by("model", "run", "unit", maintain_order=True):
        mean, low, high = interval(own, "rho")
        if low is not None and high is not None:
            counted += 1
            if not low <= 0.0 <= high:
                outside.append(f"{run} {unit} {model} {mean:.2f} [{low:.2f}, {high:.2f}]")
    return outside, counted


def agreement_of_seeds(table: dict[str, list[float]]) -> list[float]:
    """Kendall's tau between the orders that two seeds put the runs into, for each pair of seeds."""
    by_seed = np.array(list(table.values())).T
    start = np.zeros(1, np.int64)
    return [float(rankings.kendall(a, b, start)[0]) for i, a in enumerate(by_seed) for b in by_seed[:i]]


def orders(found: pl.DataFrame) -> dict[str, dict[str, list[float]]]:
    """Per comparison and run the mean rho of each seed, over all models; runs without a value left out."""
    means = (
        found.filter(rewards="recorded")
        .with_columns(pl.col("rho").fill_nan(None))
        .group_by("unit", "run", "seed", maintain_order=True)
        .agg(pl.col("rho").mean())
        .sort("seed", maintain_order=True)
    )
    table: dict[str, dict[str, list[float]]] = {}
    for (unit, run), own in means.group_by("unit", "run", maintain_order=True):
        if own["rho"].null_count() == 0:
            table.setdefault(str(unit), {})[str(run)] = own["rho"].to_list()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=2000, help="traces per model, all seeds together")
    parser.add_argument("--json", help="file for the means by seed")
    options = parser.parse_args()
    found = measure(options.traces)
    print(markdown(found))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(orders(found), file, indent=1)


if __name__ == "__main__":
    main()
