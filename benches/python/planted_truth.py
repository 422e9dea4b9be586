"""What every credit method finds of planted contributions, as Markdown tables.

    python benches/python/planted_truth.py --traces 2000

Five models of the outcome, five seeds each, rollouts in groups of eight, `value` recorded. Spearman's rho
of credit with the true contribution, in three comparisons:

- event, agent: among the units of one trace; the mean over traces.
- siblings: among the decisions that rollouts of one group took in one context; the mean over contexts.

A rho is defined where both sides vary. A method that gives a whole trace one number ranks nothing inside
it: it has no row there, and is named below the table. Intervals are those of the package (docs/intervals.md):
Wilson's with Student's t over tasks, whose rollouts never count as independent.

The null is a permutation of the reward among the rollouts of a group: then nothing connects credit with
truth but structure, and the rho that is left is the method's without the reward. It is not 0 for a share: a
share of a positive reward ranks by structure whatever the reward was. So the column `gain` is rho less that
of the null, task by task. Two permutations are drawn: the second one less the first must be 0, and says
whether the intervals are honest. Where fewer than 30 tasks have a value, none is told.

A second table has worlds in which effects hang on actions, roles or tools, for methods that look for that.
The same numbers on every run.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

import orchestrace as ot
from orchestrace.statistics import rankings
from orchestrace.statistics.influence import mean_interval

MODELS: dict[str, dict[str, Any]] = {
    "linear": {"outcome": "linear"},
    "interaction": {"outcome": "linear", "interaction": 1.0},
    "noisy_or": {"outcome": "noisy_or"},
    "majority": {"outcome": "majority"},
    "mixed": {"outcome": "mixed"},
}
LONG = {"density": 1.0, "decisive": 0.0}
# Few events, so that a tool is used in some rollouts only, and many rollouts: what a spectrum needs.
SHORT = {"agents": 1, "events": 8, "group_size": 32}
WORLDS: dict[str, dict[str, Any]] = {
    "action": LONG | {"effects": "action"},
    "role": LONG | {"effects": "role"},
    "tool": LONG | {"effects": "tool"},
    "tool, short runs": LONG | SHORT | {"effects": "tool"},
}
SEEDS = range(5)
UNITS = ("event", "agent", "siblings")
TOP = 0.05
FEWEST_TASKS = 30
RHO, GAIN, SIGN = (-1.0, 1.0), (-2.0, 2.0), (0.0, 1.0)
# Beside the defaults of all methods: settings that change the question that a method answers.
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("gae", {"rows": "events", "lambda_": 0.0, "gamma": 1.0}),
    ("flow", {"kernel": "edge_type"}),
    ("c3", {"baseline": "mean"}),
    ("spectrum", {"by": "agent"}),
    ("spectrum", {"by": "message"}),
    ("rudder", {"train": "runs"}),
    ("coma", {"critic": "value"}),
]
# Of the second table: what learns from many runs, beside two that do not.
LEARNING: list[tuple[str, dict[str, Any]]] = [
    ("hca", {}),
    ("dae", {}),
    ("rudder", {}),
    ("vdn", {}),
    ("qmix", {}),
    ("spectrum", {"threshold": 0.0}),
    ("spectrum", {"threshold": 0.0, "formula": "tarantula"}),
    ("c3", {}),
    ("flow", {}),
]
# `value` of a planted corpus is the exact expected outcome: it tells the truth whatever the reward says.
READ_THE_CRITIC = frozenset({"gae", "sequential_gae", "eligibility", "dag_gae", "coma (critic=value)"})
# They take most of the time: one permutation is enough.
FITTED = frozenset({"hca", "dae", "rudder", "vdn", "qmix"})
# Draws of methods that sample, where players are too many for all coalitions.
SAMPLES = 64

Run = tuple[str, dict[str, Any]]


def runs() -> list[Run]:
    """Every registered method with its defaults, each followed by its variants."""
    names = ot.list_methods()["name"].to_list()
    return [run for name in names for run in [(name, {}), *(v for v in VARIANTS if v[0] == name)]]


def label(run: Run) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in run[1].items())
    return f"{run[0]} ({settings})" if settings else run[0]


def permuted(corpus: ot.Corpus, model: str, seed: int, which: int) -> ot.Corpus:
    """The corpus with the reward `team` permuted among the rollouts of each group. Models have their own
    permutations, since their runs are the same."""
    team = corpus.measures.filter(kind="reward", name="team").collect()
    tasks = corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).collect()
    team = team.join(tasks, on="trace").sort("trace")
    reward, task = team["value"].to_numpy(), team["task_id"].rank("dense").to_numpy()
    rng = np.random.default_rng([seed, which, *model.encode()])
    # One random number a rollout: its rank within the group is where the reward comes from.
    there, here = np.lexsort((rng.random(task.size), task)), np.lexsort((np.arange(task.size), task))
    moved = np.empty_like(reward)
    moved[here] = reward[there]
    return corpus.with_measures(team.select("trace", "kind", "name", value=pl.Series(moved)))


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


@cache
def described(name: str) -> dict[str, Any]:
    """What is known of a method."""
    return ot.list_methods().row(by_predicate=pl.col("name") == name, named=True)


def takes(name: str, param: str) -> bool:
    """Whether a method has a parameter."""
    return any(one["name"] == param for one in described(name)["params"])


def units_of(name: str) -> list[str]:
    """Levels at which a method reports: those that go by links or spawns of agents have no events."""
    return list(described(name)["units"])


def sampled(name: str) -> dict[str, Any]:
    """The budget of a method that has one."""
    return {"samples": SAMPLES} if takes(name, "samples") else {}


def compared(
    corpus: ot.Corpus, truth: ot.synthetic.Truth, chosen: list[Run]
) -> Iterator[tuple[Run, str, pl.DataFrame]]:
    """Values of each run in each comparison; a method that cannot run raises."""
    tasks = corpus.traces.select("trace", task=pl.col("task_id").cast(pl.String)).collect()
    ids = corpus.events.select("trace", "seq", unit_id=pl.col("id").cast(pl.String)).collect()
    by_event = truth.contributions.select("trace", "seq", "contribution")
    by_event = by_event.join(ids, on=["trace", "seq"], maintain_order="left").join(tasks, on="trace")
    by_agent = truth.agents.select("trace", "contribution", unit_id="agent").join(tasks, on="trace")
    decisions = ot.decisions.contexts(corpus).drop_nulls(["context", "choice"]).join(tasks, on="trace")
    place = ["task", "context", "role"]
    siblings = decisions.filter(pl.col("choice").n_unique().over(place) > 1).select("trace", "seq", *place)
    for name, given in chosen:
        params = given | sampled(name)
        agents = ot.credit(corpus, method=name, unit="agent", **params).select("trace", "unit_id", "credit")
        yield (name, given), "agent", values(agents.join(by_agent, on=["trace", "unit_id"]), ["trace"])
        if "event" not in units_of(name):
            continue
        events = ot.credit(corpus, method=name, unit="event", **params).select("trace", "unit_id", "credit")
        events = events.join(by_event, on=["trace", "unit_id"])
        yield (name, given), "event", values(events, ["trace"])
        same = events.join(siblings.drop("task"), on=["trace", "seq"])
        same = same.with_columns(unit_id=pl.format("{}/{}", "trace", "seq"))
        yield (name, given), "siblings", values(same, place)


def measure(
    n_traces: int,
    models: dict[str, dict[str, Any]] = MODELS,
    chosen: list[Run] | None = None,
    nulls: bool = True,
) -> pl.DataFrame:
    """A row per model, seed, run, comparison and segment; `rewards` says what became of the rewards."""
    chosen = runs() if chosen is None else chosen
    reward_only = [run for run in chosen if not {run[0], label(run)} & READ_THE_CRITIC]
    # Games divide what the structure is worth, unless they are scaled to the reward: nothing to permute.
    reward_only = [run for run in reward_only if run[1].get("scaled") or not takes(run[0], "scaled")]
    unfitted = [run for run in reward_only if run[0] not in FITTED]
    frames = []
    for model, options in models.items():
        size = options.get("group_size", 8)
        each = max(n_traces // len(SEEDS) // size, 1) * size
        for seed in SEEDS:
            corpus, truth = ot.synthetic.planted(traces=each, seed=seed, **{"group_size": 8} | options)
            for control, given, wanted in (
                ("recorded", corpus, chosen),
                ("null", permuted(corpus, model, seed, 1), reward_only if nulls else []),
                ("second null", permuted(corpus, model, seed, 2), unfitted if nulls else []),
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


def by_task(found: pl.DataFrame, rewards: str) -> pl.DataFrame:
    """Mean rho of each task: ``run unit model seed task rho``."""
    own = found.filter(pl.col("rewards") == rewards, pl.col("rho").is_not_nan())
    return own.group_by("run", "unit", "model", "seed", "task", maintain_order=True).agg(pl.col("rho").mean())


def gains(found: pl.DataFrame, of: str = "recorded", over: str = "null") -> pl.DataFrame:
    """How much more one rho is than another, task by task: ``run unit model seed task rho``."""
    keys = ["run", "unit", "model", "seed", "task"]
    both = by_task(found, of).join(by_task(found, over), on=keys, suffix=" null", maintain_order="left")
    return both.select(*keys, rho=pl.col("rho") - pl.col("rho null"))


def interval(
    found: pl.DataFrame, column: str, within: tuple[float, float] = RHO
) -> tuple[float | None, float | None, float | None]:
    """Mean of the defined values, which are within a range, and its 95 % interval over tasks."""
    tasks = found["task"].rank("dense").to_numpy().astype(np.int64)
    mean = mean_interval(found[column].to_numpy(), tasks, confidence=0.95, within=within)
    return mean.estimate, mean.around.lower, mean.around.upper


def tasks_told(found: pl.DataFrame, column: str) -> int:
    """How many tasks have a value."""
    return found.filter(pl.col(column).is_finite())["task"].n_unique()


def cell(found: pl.DataFrame, column: str = "rho", within: tuple[float, float] = RHO) -> str:
    mean, low, high = interval(found, column, within)
    if mean is None or tasks_told(found, column) < FEWEST_TASKS:
        return "-"
    return f"{mean:.2f}" if low is None else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def markdown(found: pl.DataFrame) -> str:
    """The table. Rows without any value are left out and named below it."""
    models = found["model"].unique(maintain_order=True).to_list()
    lines = [
        f"| method | unit | {' | '.join(models)} | gain | sign, top 5 % |",
        f"|---|---|{'---:|' * (len(models) + 2)}",
    ]
    real, gained = found.filter(rewards="recorded"), gains(found)
    silent: dict[str, list[str]] = {}
    for run in found["run"].unique(maintain_order=True):
        for unit in UNITS:
            own = real.filter(run=run, unit=unit)
            cells = [cell(own.filter(model=model)) for model in models]
            if set(cells) == {"-"}:
                silent.setdefault(unit, []).append(f"`{run}`")
                continue
            gain = cell(gained.filter(run=run, unit=unit), within=GAIN)
            sign = cell(own, "sign", SIGN)
            lines.append(f"| `{run}` | {unit} | {' | '.join(cells)} | {gain} | {sign} |")
    lines += ["", *(f"- No ranking at unit {unit}: {', '.join(names)}." for unit, names in silent.items())]
    outside, counted = outside_the_band(gains(found, "second null", "null"))
    lines.append(
        f"- Two permutations of one corpus, one less the other: {len(outside)} of {counted} intervals do not"
        " contain 0" + "".join(f"; {text}" for text in outside) + "."
    )
    lines += [f"- {order_told(found, unit)}" for unit in UNITS]
    return "\n".join(lines)


def worlds(found: pl.DataFrame) -> str:
    """The table of worlds in which something can be seen."""
    names = found["model"].unique(maintain_order=True).to_list()
    lines = [f"| method | unit | {' | '.join(names)} |", f"|---|---|{'---:|' * len(names)}"]
    for run in map(label, LEARNING):
        for unit in ("event", "agent"):
            own = found.filter(run=run, unit=unit, rewards="recorded")
            cells = [cell(own.filter(model=name)) for name in names]
            lines.append(f"| `{run}` | {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def order_told(found: pl.DataFrame, unit: str) -> str:
    """How stable the order of methods is, and which neighbors of it are told apart."""
    table = orders(found)[unit]
    taus = agreement_of_seeds(table)
    pairs = gaps(by_task(found, "recorded").filter(pl.col("unit") == unit, pl.col("run").is_in(list(table))))
    right, counted = kept_order(pairs)
    apart = {frozenset(pair) for pair in separated(pairs)}
    ranked = sorted(table, key=lambda run: -float(np.mean(table[run])))
    order = ranked[0]
    for above, below in itertools.pairwise(ranked):
        order += (" > " if frozenset((above, below)) in apart else ", ") + below
    return (
        f"Order of {len(table)} methods at unit {unit}: Kendall's tau between two seeds {np.mean(taus):.2f}"
        f" on average. Of the pairs that four seeds tell apart, the fifth agrees in {right} of {counted}"
        f" ({right / max(counted, 1):.1%}). From the largest rho on, `>` where two neighbors are told apart:"
        f" {order}."
    )


def gaps(tasks: pl.DataFrame) -> dict[tuple[str, str], pl.DataFrame]:
    """How much more the first of two runs is than the second, on the tasks of both: ``seed gap``."""
    names = sorted(tasks["run"].unique().to_list())
    wide = tasks.pivot("run", index=["seed", "task"], values="rho")
    return {
        (a, b): wide.select("seed", gap=pl.col(a) - pl.col(b)).drop_nulls("gap")
        for a, b in itertools.combinations(names, 2)
    }


def separated(
    pairs: dict[tuple[str, str], pl.DataFrame], level: float = 0.05
) -> dict[tuple[str, str], float]:
    """The mean gap of the pairs that differ, by a t test over tasks at a level shared among all pairs."""
    found = {}
    for pair, own in pairs.items():
        gap = own["gap"].to_numpy()
        if gap.size < FEWEST_TASKS or not gap.any():
            continue
        bound = stats.t.ppf(1.0 - level / (2 * len(pairs)), gap.size - 1)
        if abs(gap.mean()) > bound * gap.std(ddof=1) / np.sqrt(gap.size):
            found[pair] = float(gap.mean())
    return found


def kept_order(pairs: dict[tuple[str, str], pl.DataFrame]) -> tuple[int, int]:
    """Pairs that four seeds tell apart: in how many the fifth has the same order, and how many there are."""
    right, counted = 0, 0
    for seed in SEEDS:
        here = pl.col("seed") == seed
        for pair, gap in separated({pair: own.filter(~here) for pair, own in pairs.items()}).items():
            own = pairs[pair].filter(here)["gap"]
            if own.len():
                counted += 1
                right += float(own.to_numpy().mean()) * gap > 0.0
    return right, counted


def outside_the_band(control: pl.DataFrame) -> tuple[list[str], int]:
    """Which of the methods' own 95 % intervals of a difference miss 0, and of how many."""
    outside, counted = [], 0
    for (model, run, unit), own in control.group_by("model", "run", "unit", maintain_order=True):
        # Where rewards have one sign a share hardly feels a permutation: too few tasks to judge a band by.
        if tasks_told(own.filter(pl.col("rho") != 0.0), "rho") < FEWEST_TASKS:
            continue
        counted += 1
        mean, low, high = interval(own, "rho", GAIN)
        if low is not None and high is not None and not low <= 0.0 <= high:
            outside.append(f"{run} {unit} {model} {mean:.2f} [{low:.2f}, {high:.2f}]")
    return outside, counted


def agreement_of_seeds(table: dict[str, list[float]]) -> list[float]:
    """Kendall's tau between the orders that two seeds put the runs into, for each pair of seeds."""
    by_seed = np.array(list(table.values())).T
    start = np.zeros(1, np.int64)
    return [float(rankings.kendall(a, b, start)[0]) for i, a in enumerate(by_seed) for b in by_seed[:i]]


def orders(found: pl.DataFrame) -> dict[str, dict[str, list[float]]]:
    """Per comparison and run the mean rho of each seed, over all models; runs with few values left out."""
    known = found.filter(pl.col("rewards") == "recorded", pl.col("rho").is_finite())
    means = (
        known.filter(pl.col("task").n_unique().over("unit", "run") >= FEWEST_TASKS)
        .group_by("unit", "run", "seed", maintain_order=True)
        .agg(pl.col("rho").mean())
        .sort("seed", maintain_order=True)
    )
    table: dict[str, dict[str, list[float]]] = {}
    for (unit, run), own in means.group_by("unit", "run", maintain_order=True):
        if own.height == len(SEEDS):
            table.setdefault(str(unit), {})[str(run)] = own["rho"].to_list()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=2000, help="traces per model, all seeds together")
    parser.add_argument("--json", help="file for the means by seed")
    parser.add_argument("--methods", help="names, separated by commas, of the methods to run; default: all")
    options = parser.parse_args()
    names = options.methods.split(",") if options.methods else ot.list_methods()["name"].to_list()
    chosen = [run for run in runs() if run[0] in names]
    found = measure(options.traces, chosen=chosen)
    print(markdown(found))
    print()
    print(worlds(measure(2 * options.traces, WORLDS, LEARNING, nulls=False)))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(orders(found), file, indent=1)


if __name__ == "__main__":
    main()
