"""Every method at every unit on all published recordings with an outcome; what tau-bench's groups say."""

import gzip
import itertools
import json
import os
import re
import runpy
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from corpora import recordings
from reference.validator import judge
from samples.inputs import reconcile

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benches/python/recordings.py"
SIZES = {
    "survey-artifact": 1,
    "who-and-when": 93,
    "tau-bench": 100,
    "agentrx": 15,
    "agentdojo": 582,
    "swe-agent": 11,
    "inspect-ai": 22,
}
CRITICS = {"gae", "sequential_gae", "eligibility", "dag_gae"}
OF_THE_POLICY = {"hca", "aristocrat", "coma"}
"""Critics read `value`, these `p_behavior` and `action`; no published recording has any of them."""
OF_LENGTHS = {"opo"}
"""They read `tokens_out`, which the native form of the published recordings leaves out."""
OF_SCORES = {"turn_credit", "igpo"}
OF_OTHER_RUNS = {"ccpo", "remax"}
OF_MIXED_TASKS_ONLY = {
    *("grpo", "dr_grpo", "rloo", "pass_k", "shape_normalized"),
    *("dr_mas", "at_grpo", "magrpo", "gigpo", "spectrum"),
}
METHODS = ot.list_methods().select("name", "units", "quantity").rows()
#: Of games: values in units of the reward, and samples, since exact ones end at twenty players.
GAMES = {
    name: {"scaled": True} | ({"samples": 64} if "samples" in known else {})
    for name, known in (
        (name, {param["name"] for param in params})
        for name, params in ot.list_methods().select("name", "params").iter_rows()
    )
    if "scaled" in known
}
#: What leads to the outcome is what they pay.
OF_THE_OUTCOME = {"flow", "flow_discounted", "dag_gae", "sharp", *GAMES}


@pytest.fixture(scope="module")
def read(corpora: Path) -> Any:
    """A corpus by its name, read once."""
    known: dict[str, ot.Corpus] = {}

    def one(name: str) -> ot.Corpus:
        if name not in known:
            known[name] = recordings.CORPORA[name](corpora)
        return known[name]

    return one


@pytest.fixture(scope="module")
def tau(corpora: Path) -> list[recordings.Document]:
    return list(recordings.tau_bench(corpora / "tau-bench/gpt-4o-airline.json.gz"))


def rewards_of(corpus: ot.Corpus, channel: str) -> dict[int, float]:
    kind, name = (pl.col(column).cast(pl.String) for column in ("kind", "name"))
    found = corpus.measures.filter((kind == "reward") & (name == channel))
    return dict(found.select("trace", "value").collect().rows())


def bits(frame: pl.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Numbers bit for bit (0.0 is not -0.0) and where they are null."""
    numbers = frame.select(pl.col(pl.Float64))
    return [
        (column.fill_null(0.0).to_numpy().view(np.uint64), column.is_null().to_numpy()) for column in numbers
    ]


# --- the readers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
def test_every_recording_is_read(read: Any, name: str) -> None:
    corpus = read(name)
    reconcile(corpus)
    assert len(corpus) == SIZES[name]
    assert set(SIZES) == set(recordings.CORPORA)
    assert corpus.findings.filter(pl.col("code").cast(pl.String) == "graph.cycle").collect().is_empty()


def test_the_readers_lose_nothing(corpora: Path, tau: list[recordings.Document]) -> None:
    """The counts that SOURCE.md of each corpus gives."""
    swe = list(recordings.swe_agent(corpora / "swe-agent"))
    eleven = list(recordings.inspect_ai(corpora / "inspect-ai/logs"))
    for documents in (tau, swe, eleven):
        assert [judge(json.dumps(each).encode()) for each in documents] == [[]] * len(documents)
        assert len({each["trace_id"] for each in documents}) == len(documents)

    def count(documents: list[recordings.Document], kind: str) -> int:
        return sum(event["type"] == kind for each in documents for event in each["events"])

    assert (count(tau, "tool_call"), count(tau, "tool_result")) == (577, 577)
    assert sum(each["rewards"]["team"] for each in tau) == 49
    judged = [each for each in swe if each["rewards"]]
    assert (len(swe), len(judged), count(judged, "tool_call")) == (11, 10, 108)


# --- all methods at all units -------------------------------------------------------------------------------


@pytest.mark.every_nth(13)
@pytest.mark.parametrize("method, units, quantity", METHODS, ids=[name for name, *_ in METHODS])
@pytest.mark.parametrize("name", SIZES)
def test_every_method_at_every_unit(
    read: Any, name: str, method: str, units: list[str], quantity: str
) -> None:
    corpus, channel = read(name), recordings.CHANNELS.get(name, "team")
    rewards = rewards_of(corpus, channel)
    assert 0 < len(rewards) <= SIZES[name]
    for unit in units:
        options = GAMES.get(method, {})
        credits = ot.credit(corpus, method=method, unit=unit, reward=channel, threads=1, **options)
        again = ot.credit(corpus, method=method, unit=unit, reward=channel, threads=2, **options)
        assert credits.equals(again)
        for (ones, nulls), (others, other_nulls) in zip(bits(credits), bits(again), strict=True):
            assert np.array_equal(ones, others) and np.array_equal(nulls, other_nulls)

        keys = ["trace", "unit_id"]
        assert not credits.select(keys).is_duplicated().any()  # so at most one row of a trace without a unit
        every = ot.credit(corpus, method="uniform", unit=unit, reward=channel)
        named = credits.filter(pl.col("unit_id").is_not_null()).select(keys)
        assert named.equals(every.filter(pl.col("unit_id").is_not_null()).select(keys))
        assert credits["trace"].n_unique() == SIZES[name]
        if unit == "event":
            assert named.height == corpus.events.select(pl.len()).collect().item()

        rows = credits.select("trace", "unit_id", "credit", pl.col("reason").cast(pl.String))
        reasons = set(rows["reason"])
        # nothing to scale by: the outcome hangs on nobody who plays, or no drawn coalition reached it
        of_games = {"reward.not_positive", "support.absent"} if method in GAMES else set()
        # the outcome is not known, or not recorded to its end
        of_games |= {"outcome.ambiguous", "trace.partial"} if method in OF_THE_OUTCOME else set()
        # it looks for a signal first, and where it has one, unique choices have no value
        of_games |= {"signal.absent", "support.absent"} if method == "dae" else set()
        # no published team was run without one of its agents, and none says which run was greedy
        of_games |= {"siblings.absent"} if method in OF_OTHER_RUNS else set()
        assert reasons <= {None, "field.absent", "reward.absent", "unit.none", "group.degenerate", *of_games}
        assert not rows.filter(pl.col("credit").is_infinite() | pl.col("credit").is_nan()).height
        null = pl.col("credit").is_null()
        silent = ["field.absent", "reward.absent", "unit.none", *of_games]
        why = pl.col("reason").is_in(silent).fill_null(False)
        assert rows.filter(null != why).is_empty()
        of_unit = rows.filter(pl.col("unit_id").is_not_null())
        flat = of_unit.filter(pl.col("reason") == "group.degenerate")["credit"]
        assert (flat.to_numpy().view(np.uint64) == 0).all()
        unpaid = of_unit.filter(~pl.col("trace").is_in(list(rewards)))
        assert set(unpaid["reason"]) <= {"reward.absent", "field.absent", "unit.none", *of_games}
        if method in GAMES:
            left = (
                credits.drop_nulls("credit")
                .group_by("trace")
                .agg(pl.col("credit").sum(), residual=pl.first("residual"))
            )
            for trace, total, residual in left.rows():
                assert abs(total + residual - rewards[trace]) <= 1e-9
        elif quantity == "share":
            sums = dict(rows.drop_nulls("credit").group_by("trace").agg(pl.col("credit").sum()).rows())
            untold = rows.filter(
                pl.col("reason").cast(pl.String).is_in(["outcome.ambiguous", "trace.partial"])
            )
            assert sums.keys() == rewards.keys() - set(untold["trace"])
            assert all(abs(total - rewards[trace]) <= 1e-9 for trace, total in sums.items())


@pytest.mark.parametrize("name", SIZES)
def test_a_field_that_is_missing_is_said_to_be(read: Any, name: str) -> None:
    corpus, channel = read(name), recordings.CHANNELS.get(name, "team")
    events = corpus.events.select("value", "p_behavior", "action", "score").collect()
    assert events.null_count().row(0) == (events.height,) * 4
    silent = set()
    for method, units, _ in METHODS:
        if method == "dae":  # it says so of runs in which nobody chose, beside others
            continue
        unit = "event" if "event" in units else "agent"
        credits = ot.credit(corpus, method=method, unit=unit, reward=channel, **GAMES.get(method, {}))
        absent = (credits["reason"].cast(pl.String) == "field.absent").fill_null(False)
        if absent.any():
            silent.add(method)
            assert credits["credit"].null_count() == credits.height
    assert silent == CRITICS | OF_THE_POLICY | OF_LENGTHS | OF_SCORES


# --- groups of tau-bench ------------------------------------------------------------------------------------


def outcomes(documents: list[recordings.Document]) -> dict[str, set[float]]:
    found: dict[str, set[float]] = defaultdict(set)
    for each in documents:
        found[each["task_id"]].add(each["rewards"]["team"])
    return found


def by_task(corpus: ot.Corpus, method: str, **params: float) -> dict[str, pl.DataFrame]:
    tasks = corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).collect()
    rows = ot.credit(corpus, method=method, unit="turn", **params).join(tasks, on="trace")
    rows = rows.filter(pl.col("unit_id").is_not_null()).with_columns(pl.col("reason").cast(pl.String))
    return {str(task): own for (task,), own in rows.group_by("task_id")}


def test_a_third_of_the_rollouts_are_of_mixed_tasks(tau: list[recordings.Document]) -> None:
    kinds = Counter(frozenset(found) for found in outcomes(tau).values())
    assert kinds == {frozenset({0.0, 1.0}): 9, frozenset({1.0}): 8, frozenset({0.0}): 8}
    assert set(Counter(each["task_id"] for each in tau).values()) == {4}


def test_only_mixed_tasks_have_a_signal(read: Any, tau: list[recordings.Document]) -> None:
    """Where all rollouts came to the same, every group method is exactly 0 and says why."""
    mixed = {task for task, found in outcomes(tau).items() if len(found) == 2}
    succeeded = Counter(each["task_id"] for each in tau if each["rewards"]["team"] == 1)
    group = set(ot.list_methods().filter(pl.col("scope") == "group")["name"])
    assert group >= OF_MIXED_TASKS_ONLY | {"c3", "marshal", "aristocrat", "coma", "sharp"}
    for method in OF_MIXED_TASKS_ONLY | {"c3"}:
        for task, rows in by_task(read("tau-bench"), method).items():
            if task not in mixed:
                assert (rows["credit"].to_numpy().view(np.uint64) == 0).all(), method
                assert set(rows["reason"]) == {"group.degenerate"}
            elif method != "c3":  # with two that succeed the best of them is not ahead of the second
                paid = method != "pass_k" or succeeded[task] == 1
                assert (rows["credit"] != 0).any() == paid, (method, task)


def test_marshal_pays_for_length_where_all_succeed(read: Any, tau: list[recordings.Document]) -> None:
    """Its returns are discounted by turn, so that they differ within a task without anything to compare."""
    found = outcomes(tau)
    for task, rows in by_task(read("tau-bench"), "marshal").items():
        same = found[task] == {1.0}
        assert (rows["credit"] != 0).any() == (same or len(found[task]) == 2)
    for task, rows in by_task(read("tau-bench"), "marshal", gamma=1.0).items():
        assert (rows["credit"] != 0).any() == (len(found[task]) == 2)


def test_no_two_rollouts_decide_differently_in_one_context(read: Any, tau: list[recordings.Document]) -> None:
    """Why c3 is 0 everywhere: counted from the transcripts, of which the agent saw all that came before."""
    choices: dict[Any, set[Any]] = defaultdict(set)
    rollouts: dict[Any, set[str]] = defaultdict(set)
    for each in tau:
        seen: tuple[Any, ...] = (each["task_id"],)
        for event in each["events"]:
            what = tuple(event.get(key) for key in ("type", "agent", "tool", "args_hash", "content_hash"))
            if event["agent"] == "agent":
                choices[seen].add(what)
                rollouts[seen].add(each["trace_id"])
            seen = (*seen, what)
    shared = [context for context, own in rollouts.items() if len(own) > 1]
    assert len(shared) == 3 and all(len(choices[context]) == 1 for context in shared)
    contexts = (
        ot.decisions.contexts(read("tau-bench")).group_by("context").agg(pl.col("trace", "choice").n_unique())
    )
    assert contexts.filter(pl.col("trace") > 1)["choice"].to_list() == [1, 1, 1]
    credits = ot.credit(read("tau-bench"), method="c3", unit="event")["credit"].drop_nulls()
    assert credits.len() > 1000 and (credits == 0).all()


# --- the pages ----------------------------------------------------------------------------------------------


def test_the_pages_say_what_the_script_prints(corpora: Path) -> None:
    """Run `python benches/python/recordings.py` and copy its tables where this fails."""
    for page, least in {"who-and-when": 21, "tau-bench": 21, "gaming": 7}.items():
        run = subprocess.run(
            [sys.executable, SCRIPT, page],
            capture_output=True,
            encoding="utf-8",
            check=True,
            env={**os.environ, "ORCHESTRACE_CORPORA": str(corpora), "PYTHONIOENCODING": "utf-8"},
        )
        lines = [line for line in run.stdout.splitlines()[1:] if line]
        assert len(lines) >= least
        said = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line not in said] == []


def test_two_annotations_agree_as_often_as_the_page_says(corpora: Path) -> None:
    """Counted from both sources."""
    runs = gzip.decompress((corpora / "who-and-when/hand_crafted.jsonl.gz").read_bytes())
    first = {run["question_ID"]: run for run in map(json.loads, runs.splitlines())}
    counts: Counter[str] = Counter()
    for second in json.loads((corpora / "agentrx/magentic_one_ground_truth.json").read_bytes()):
        run = first[second["trajectory_id"]]
        step = int(run["mistake_step"])
        named = {int(failure["failure_id"]): failure for failure in second["failures"]}
        root = named[int(second["root_cause"]["failure_id"])]
        counts["runs"] += 1
        counts["agent"] += root["failed_agent"].casefold() == run["mistake_agent"].casefold()
        counts["step"] += int(root["step_number"]) - 1 == step
        counts["among"] += step in {int(failure["step_number"]) - 1 for failure in second["failures"]}
    page = (ROOT / "docs/who-and-when.md").read_text(encoding="utf-8")
    said = re.search(r"Same agent in (\d+) of (\d+) runs .*same step in (\d+);.* lists in (\d+)\.", page)
    assert said is not None
    assert tuple(map(int, said.groups())) == tuple(counts[key] for key in ("agent", "runs", "step", "among"))


def test_the_chance_of_an_action_in_failing_rollouts() -> None:
    """Against the count of all ways to say which rollouts failed."""
    upper_tail = runpy.run_path(str(SCRIPT))["upper_tail"]
    strata = [(4, 2, 1), (4, 3, 2), (4, 1, 4)]
    ways = [
        [sum(rollout < having for rollout in failed) for failed in itertools.combinations(range(n), failing)]
        for n, failing, having in strata
    ]
    sums = Counter(map(sum, itertools.product(*ways)))
    for seen in range(6):
        exact = sum(times for total, times in sums.items() if total >= seen) / sums.total()
        assert upper_tail(strata, seen) == pytest.approx(exact, abs=1e-12)
