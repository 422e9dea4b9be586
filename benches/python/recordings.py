"""What is said of published recordings: tables of docs/who-and-when.md, docs/tau-bench.md and docs/gaming.md.

    ORCHESTRACE_CORPORA=... python benches/python/recordings.py [who-and-when | tau-bench | gaming]

The readers are those of the tests, `tests/corpora/recordings.py`. Nothing is timed, everything is
exact or seeded: the same files give the same tables.
"""

import argparse
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from corpora import recordings  # the tests are no package: the line above says where it is

TEXT = pl.String
KERNELS = ("edge_type", "time_decay", "lrp", "shapley_gate")
#: Orders, or sets, of games with more than 20 players.
SAMPLES = 64


def markdown(caption: str, header: list[str], lines: Iterable[Iterable[object]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(
        [f"**{caption}**", "", *("| " + " | ".join(map(str, line)) + " |" for line in [header, rule, *lines])]
    )


# --- Who&When ---------------------------------------------------------------------------------------------


def as_amounts(params: list[dict[str, Any]]) -> dict[str, Any]:
    """Of a game, what makes its values parts of the reward, and a budget for many players."""
    known = {one["name"] for one in params}
    budget = {"samples": SAMPLES} if "samples" in known else {}
    return {"scaled": True, **budget} if "scaled" in known else {}


def turn_and_agent(corpus: ot.Corpus) -> pl.DataFrame:
    """Every method, and the kernels of flow, with the failure of the run as the amount to divide."""
    runs = [
        (name, name, as_amounts(params), units)
        for name, units, params in ot.list_methods().select("name", "units", "params").iter_rows()
    ]
    runs += [(f"flow, {kernel}", "flow", {"kernel": kernel}, ["turn", "agent"]) for kernel in KERNELS]
    return pl.concat(
        ot.credit(corpus, method=method, unit=unit, reward="failed", **params).with_columns(
            pl.col("method", "reason").cast(TEXT), run=pl.lit(run)
        )
        for run, method, params, units in runs
        for unit in ("turn", "agent")
        if unit in units
    )


def rankings(credits: pl.DataFrame) -> tuple[list[str], dict[str, str]]:
    """The runs that distinguish turns or agents of some trace; for the others, why they do not.

    A null beside a 0 distinguishes nothing: it says that a turn is outside the method.
    """
    values = (
        credits.filter(pl.col("unit_id").is_not_null())
        .group_by("run", "trace", "unit", maintain_order=True)
        .agg(
            differ=pl.col("credit").drop_nulls().n_unique() > 1,
            reason=pl.col("reason").filter(pl.col("reason").fill_null("") != "unit.none").first(),
        )
    )
    able = values.group_by("run", maintain_order=True).agg(pl.col("differ").any(), pl.col("reason").first())
    silent = able.filter(~pl.col("differ"))
    why = dict(silent.select("run", pl.col("reason").fill_null("one value for all")).rows())
    return able.filter("differ")["run"].to_list(), why


def localized(credits: pl.DataFrame, labels: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """`ot.evaluation.failure_attribution` with the runs under the names that they have here."""
    named = credits.drop("method", "params", "reward").rename({"run": "method"})
    return ot.evaluation.failure_attribution(named, labels, within=(1, 5))


def percent(row: dict[str, Any], metric: str) -> str:
    if row[metric] is None:
        return ""
    mean, low, high = (100 * row[f"{metric}{end}"] for end in ("", "_lower", "_upper"))
    return f"{mean:.0f} [{low:.0f}, {high:.0f}]"


def localization_table(subset: str, corpus: ot.Corpus) -> str:
    credits = turn_and_agent(corpus)
    able, why = rankings(credits)
    found = localized(credits.filter(pl.col("run").is_in(able)), corpus.labels)
    lines = [
        [
            row["method"],
            percent(row, "agent_accuracy"),
            row["agent_vs_best"] or "",
            percent(row, "step_accuracy"),
            row["step_vs_best"] or "",
            percent(row, "within_5"),
        ]
        for row in found.to_dicts()
    ]
    header = ["method", "agent, %", "against best baseline", "step, %", "against best baseline", "step ±5, %"]
    turns = credits.filter((pl.col("run") == "uniform") & (pl.col("unit") == "turn"))["unit_id"].count()
    caption = f"{subset}: {found['n_traces'][0]} failed runs, {turns} turns of agents"
    reasons = sorted(set(why.values()))
    silent = "; ".join(
        f"`{reason}`: " + ", ".join(name for name, own in why.items() if own == reason) for reason in reasons
    )
    return f"{markdown(caption, header, lines)}\n\nNo ranking of anything: {silent}."


def second_labels(path: Path, corpus: ot.Corpus) -> pl.DataFrame:
    """The root causes of AgentRx, with all steps that failed, for the traces that are in the corpus."""
    labels = ot.evaluation.place_labels(corpus, ot.read_traces(path).labels).with_columns(
        pl.col("trace_id", "agent", "annotator").cast(TEXT), pl.col("turn").cast(pl.Int64)
    )
    known = corpus.traces.select(pl.col("trace_id").cast(TEXT)).collect()
    labels = labels.join(known, on="trace_id", how="semi", maintain_order="left")
    failures = labels.filter(pl.col("annotator") == "agentrx")
    steps = failures.group_by("trace_id").agg(steps="turn")
    causes = labels.filter(pl.col("annotator") == "agentrx.root_cause")
    found = causes.select("trace_id", "turn", "agent").join(steps, on="trace_id", maintain_order="left")
    return found.with_columns(annotator=pl.lit("AgentRx"))


def as_credits(labels: pl.DataFrame, credits: pl.DataFrame, name: str) -> pl.DataFrame:
    """What an annotator says as if it were a method: 1 for the step and the agent that are blamed, else 0."""
    places = credits.filter((pl.col("run") == "uniform") & pl.col("unit_id").is_not_null())
    said = labels.select("trace_id", "turn", blamed=pl.col("agent").str.to_lowercase())
    number = pl.col("unit_id").str.extract(r"/(\d+)$").cast(pl.Int64)
    is_right = (
        pl.when(pl.col("unit") == "turn")
        .then(number == pl.col("turn"))
        .otherwise(pl.col("unit_id").str.to_lowercase() == pl.col("blamed"))
    )
    marked = places.join(said, on="trace_id", maintain_order="left").with_columns(
        credit=is_right.cast(pl.Float64), run=pl.lit(name)
    )
    points = marked.group_by("trace_id", "unit").agg(pl.col("credit").sum())
    if points.filter(pl.col("credit") != 1).height or points.height != 2 * labels.height:
        raise SystemExit(f"{name}: a label names no turn or no agent of its trace")
    return marked.select(credits.columns)


def agreement_table(corpus: ot.Corpus, second: pl.DataFrame) -> str:
    """Two annotations of the same runs, each measured by the other, beside methods and baselines."""
    first = corpus.labels.collect().with_columns(pl.col("trace_id", "agent", "annotator").cast(TEXT))
    first = first.join(second, on="trace_id", how="semi")
    credits = turn_and_agent(corpus).join(second, on="trace_id", how="semi")
    able, _ = rankings(credits)
    credits = credits.filter(pl.col("run").is_in(able))
    sides = []
    for truth, rival in ((first, second), (second, first)):
        annotator = as_credits(rival.select("trace_id", "turn", "agent"), credits, "the other annotation")
        sides.append(localized(pl.concat([credits, annotator]), truth).to_dicts())
    lines = [
        [row["method"], *(percent(side, metric) for side in (row, mirror) for metric in METRICS)]
        for row, mirror in zip(*sides, strict=True)
    ]
    header = ["", *(f"{what}, % of {who}" for who in ("Who&When", "AgentRx") for what in ("agent", "step"))]
    other = next(row for row in sides[0] if row["method"] == "the other annotation")
    both = first.join(second, on="trace_id", suffix="_second")
    agents = both.select(
        first=pl.col("agent").str.to_lowercase(), second=pl.col("agent_second").str.to_lowercase()
    )
    same = (agents["first"] == agents["second"]).sum()
    steps = (both["turn"] == both["turn_second"]).sum()
    among = both.select(pl.col("turn").is_in(pl.col("steps")).sum()).item()
    n = both.height
    expected = sum(
        (agents["first"] == name).sum() * (agents["second"] == name).sum()
        for name in agents["first"].unique()
    )
    kappa = (same / n - expected / n**2) / (1 - expected / n**2)
    said = (
        f"Same agent in {same} of {n} runs (Cohen's kappa {kappa:.2f}), same step in {steps}; "
        f"the step of Who&When is among the failures that AgentRx lists in {among}. "
        f"Against the best baseline on the labels of Who&When the second annotation is "
        f"{other['agent_vs_best']} on agents and {other['step_vs_best']} on steps."
    )
    return f"{markdown(f'hand_crafted, the {n} runs that both annotated', header, lines)}\n\n{said}"


METRICS = ("agent_accuracy", "step_accuracy")


def who_and_when(root: Path) -> list[str]:
    corpora = {}
    for subset in ("algorithm_generated", "hand_crafted"):
        corpora[subset] = recordings.who_and_when(root / f"who-and-when/{subset}.jsonl.gz")
    tables = [localization_table(subset, corpus) for subset, corpus in corpora.items()]
    second = second_labels(root / "agentrx/magentic_one_ground_truth.json", corpora["hand_crafted"])
    return [*tables, agreement_table(corpora["hand_crafted"], second)]


# --- tau-bench --------------------------------------------------------------------------------------------

OUTCOMES = ("mixed", "all succeed", "all fail")


def outcomes(corpus: ot.Corpus) -> pl.DataFrame:
    """``trace task_id reward outcome``: what all rollouts of the trace's task came to."""
    rewards = corpus.measures.filter(
        (pl.col("kind").cast(TEXT) == "reward") & (pl.col("name").cast(TEXT) == "team")
    )
    low, high = (end().over("task_id") for end in (pl.col("reward").min, pl.col("reward").max))
    return (
        corpus.traces.select("trace", pl.col("task_id").cast(TEXT))
        .join(rewards.select("trace", reward="value"), on="trace")
        .with_columns(outcome=pl.when(low < high).then(0).when(low > 0).then(1).otherwise(2))
        .with_columns(outcome=pl.col("outcome").replace_strict(dict(enumerate(OUTCOMES))))
        .sort("trace")
        .collect()
    )


def task_table(found: pl.DataFrame) -> str:
    lines = []
    for outcome in OUTCOMES:
        own = found.filter(pl.col("outcome") == outcome)
        succeeded = int(own["reward"].sum())
        lines.append(
            [outcome, own["task_id"].n_unique(), own.height, f"{own.height / found.height:.0%}", succeeded]
        )
    total = [
        "together",
        found["task_id"].n_unique(),
        found.height,
        "100%",
        int(found["reward"].sum()),
    ]
    header = ["outcomes of a task's rollouts", "tasks", "rollouts", "share of rollouts", "succeeded"]
    return markdown("tau-bench, airline, gpt-4o", header, [*lines, total])


def method_table(corpus: ot.Corpus, found: pl.DataFrame) -> str:
    """How many turns each group method gives a credit other than 0."""
    methods = ot.list_methods()
    runs: list[tuple[str, dict[str, Any]]] = [
        (name, {}) for name in methods.filter(pl.col("scope") == "group")["name"]
    ]
    runs += [("marshal", {"gamma": 1.0}), ("reinforce_pp", {}), ("reinforce_pp", {"baseline": True})]
    lines = []
    for method, params in runs:
        credits = ot.credit(corpus, method=method, unit="turn", **params).join(found, on="trace")
        valued = credits.filter(pl.col("credit").is_not_null())
        cells = []
        for outcome in OUTCOMES:
            own = valued.filter(pl.col("outcome") == outcome)["credit"]
            cells.append(f"{(own != 0).sum()} of {own.len()}")
        told = ", ".join(f"{key}={value}" for key, value in params.items())
        lines.append([f"{method} ({told})" if told else method, *cells])
    header = ["method", *(f"{outcome}: turns ≠ 0" for outcome in OUTCOMES)]
    return markdown("turns with a credit other than 0", header, lines)


def sibling_table(corpus: ot.Corpus, found: pl.DataFrame) -> str:
    """How many decisions have a sibling: another rollout of the task in the same context."""
    contexts = ot.decisions.contexts(corpus).drop_nulls(["context", "choice"]).join(found, on="trace")
    groups = contexts.group_by("task_id", "context", "role").agg(
        pl.len(),
        pl.col("trace").n_unique().alias("rollouts"),
        pl.col("choice").n_unique().alias("choices"),
        pl.col("outcome").first(),
    )
    shared = groups.filter(pl.col("rollouts") > 1)
    lines = []
    for outcome in OUTCOMES:
        own = shared.filter(pl.col("outcome") == outcome)
        decisions = contexts.filter(pl.col("outcome") == outcome).height
        lines.append([outcome, decisions, own.height, own.filter(pl.col("choices") > 1).height])
    header = ["outcomes", "decisions", "contexts of several rollouts", "of these with several choices"]
    return markdown("decisions that c3 and gigpo could compare", header, lines)


def upper_tail(strata: Iterable[tuple[int, int, int]], seen: int) -> float:
    """P(at least `seen` failing rollouts with it), if within each task it went with failure by chance only.

    With passing rollouts in the place of failing ones: that an action was left out of failing ones by chance.
    A stratum is a task: rollouts, failing ones, ones with the action. The sum of independent hypergeometric
    counts, exactly: the stratified form of Fisher's test (Mantel and Haenszel 1959; Gart 1970).
    """
    law = {0: 1.0}
    for n, failing, having in strata:
        total = math.comb(n, having)
        own = {
            k: math.comb(failing, k) * math.comb(n - failing, having - k) / total
            for k in range(failing + 1)
            if k <= having
        }
        law = {
            s: sum(p * own.get(s - before, 0.0) for before, p in law.items())
            for s in range(max(law) + max(own) + 1)
        }
    return sum(p for s, p in law.items() if s >= seen)


def suspects(corpus: ot.Corpus, found: pl.DataFrame) -> str:
    """Actions of the agent in mixed tasks: in how many rollouts, what spectrum says, whether it is chance."""
    mixed = found.filter(pl.col("outcome") == "mixed").with_columns(failed=pl.col("reward") < 0.5)
    events = corpus.events.select("trace", "seq", pl.col("type", "tool", "agent").cast(TEXT)).collect()
    acts = events.filter((pl.col("agent") == "agent") & (pl.col("type") != "tool_result"))
    marks = ot.credit(corpus, method="spectrum", unit="event").select(
        "trace", "seq", suspicion=-pl.col("credit")
    )
    present = (
        acts.join(mixed, on="trace")
        .join(marks, on=["trace", "seq"])
        .with_columns(action=pl.coalesce("tool", pl.col("type")))
        .group_by("action", "task_id", "trace", "failed")
        .agg(pl.col("suspicion").first())
    )
    size = dict(mixed.group_by("task_id").len().rows())
    failing = dict(mixed.group_by("task_id").agg(pl.col("failed").sum()).rows())
    rows = []
    for (action,), own in present.group_by("action"):
        tasks = dict(own.group_by("task_id").len().rows())
        seen = int(own["failed"].sum())
        strata = [(size[task], failing[task], tasks.get(task, 0)) for task in size]
        more = upper_tail(strata, seen)
        fewer = upper_tail([(n, n - bad, having) for n, bad, having in strata], own.height - seen)
        suspicion = own.group_by("task_id").agg(pl.col("suspicion").first())["suspicion"].mean()
        numbers = (f"{suspicion:.2f}", f"{more:.3f}", f"{fewer:.3f}")
        rows.append((f"`{action}`", len(tasks), seen, own.height - seen, *numbers))
    rows.sort(key=lambda row: (row[-2], row[0]))
    failed = int(mixed["failed"].sum())
    header = [
        "action",
        "mixed tasks with it",
        f"failing rollouts (of {failed})",
        f"passing rollouts (of {mixed.height - failed})",
        "mean suspiciousness",
        "p, done",
        "p, left out",
    ]
    return markdown("actions in mixed tasks", header, rows)


def tau_bench(root: Path) -> list[str]:
    corpus = recordings.CORPORA["tau-bench"](root)
    found = outcomes(corpus)
    return [
        task_table(found),
        method_table(corpus, found),
        sibling_table(corpus, found),
        suspects(corpus, found),
    ]


# --- rewards that would be gamed ---------------------------------------------------------------------------

CALL_REWARDS = ("tool_success", "distinct_calls")


def gaming(root: Path) -> list[str]:
    """What two rewards of calls would pay for, had these runs been trained on them."""
    corpus = ot.read_traces(root / "tau-bench/gpt-4o-airline.json.gz")
    found = ot.rewards.detect_hacking(corpus, ot.rewards.compute(corpus, CALL_REWARDS))
    named = found.filter(pl.col("detector").is_in(["tool_spam", "fake_success"]))
    ends = ("value", "lower", "upper")
    lines = [
        [
            f"`{row['reward']}`",
            f"`{row['detector']}`",
            "{:.2f} [{:.2f}, {:.2f}]".format(*(round(row[end], 2) + 0.0 for end in ends)),
            row["bound"],
            "alarm" if row["alarm"] else "",
            row["n_traces"],
            row["n_tasks"],
        ]
        for row in named.iter_rows(named=True)
    ]
    header = ["reward", "detector", "value", "bound", "", "runs", "tasks"]
    return [markdown("tau-bench, airline, gpt-4o", header, lines)]


PAGES: dict[str, Callable[[Path], list[str]]] = {
    "who-and-when": who_and_when,
    "tau-bench": tau_bench,
    "gaming": gaming,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", nargs="?", choices=list(PAGES), help="one page's tables; all if left out")
    page = parser.parse_args().page
    folder = os.environ.get("ORCHESTRACE_CORPORA")
    if not folder:
        parser.error("ORCHESTRACE_CORPORA is not set: it names the folder of the published corpora")
    # Who&When has one run of a task: what that leaves to be said is in the tables.
    warnings.filterwarnings("ignore", "method .* compares the rollouts of a group", RuntimeWarning)
    for name in [page] if page else PAGES:
        print(f"# {name}\n")
        print("\n\n".join(PAGES[name](Path(folder))), end="\n\n")


if __name__ == "__main__":
    main()
