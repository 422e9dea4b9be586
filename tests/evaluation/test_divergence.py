"""Where groups of runs part, against plain Python; tests of steps, against all exchanges of outcomes."""

import itertools
import json
import math
import random
from collections import defaultdict
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from reference.lanes import Key, lanes_of
from samples.examples import examples
from samples.hand_runs import event, read, run
from samples.random_runs import Document, corpora

END: Key = ("end",)


def calls(number: int, tools: str, reward: float | None, task: str = "task") -> Document:
    """A run in which one agent calls tools of one letter."""
    return run(
        number, reward, [event(n, "a", "tool_call", tool=tool) for n, tool in enumerate(tools)], task=task
    )


FOUR = [calls(0, "ABC", 1.0), calls(1, "ABD", 1.0), calls(2, "AXY", 0.0), calls(3, "AXZ", 0.0)]


def test_the_worked_example() -> None:
    branches = ot.evaluation.divergence(read(FOUR))
    at_a = {row["tool"]: row for row in branches.filter(pl.col("depth") == 1).rows(named=True)}
    assert (at_a["X"]["p"], at_a["X"]["p_siblings"], at_a["X"]["effect"]) == (0.75, 0.25, 0.5)
    assert at_a["X"]["log_odds"] == pytest.approx(math.log(25))
    half = (at_a["X"]["upper"] - at_a["X"]["lower"]) / 2
    assert half == pytest.approx(NormalDist().inv_cdf(0.975) * math.sqrt(4.8))
    assert (at_a["X"]["trace"], at_a["X"]["seq"], at_a["X"]["n_fail"]) == (2, 1, 2)
    scores = ot.evaluation.divergence_scores(read(FOUR)).filter(pl.col("score") > 0)
    assert scores.rows() == [(2, 1, 0.5), (3, 1, 0.5)]


def test_rare_passes_are_atypical_and_only_those_beside_failures_are_lucky() -> None:
    passes = ot.evaluation.lucky_passes(
        read([calls(0, "ABC", 1.0), calls(1, "ABD", 1.0), calls(2, "X", 1.0)])
    )
    assert passes["atypical"].to_list() == pytest.approx([2 / 3, 2 / 3, 1.0])
    assert passes["luck"].to_list() == [0.0, 0.0, 0.0]
    assert passes["reason"].to_list() == ["group.degenerate"] * 3
    # the second passed where three others failed
    rows = [
        calls(0, "ABC", 1.0),
        calls(1, "AXC", 1.0),
        *(calls(n, "AX" + "DEF"[n - 2], 0.0) for n in (2, 3, 4)),
    ]
    passes = ot.evaluation.lucky_passes(read(rows))
    assert passes.select("depth", "n_others", "luck").rows() == [(1, 4, 0.75), (2, 3, 1.0)]


def test_where_a_run_ends_is_a_branch() -> None:
    branches = ot.evaluation.divergence(read([calls(0, "AB", 1.0), calls(1, "A", 0.0)]))
    assert branches.select("depth", "type", "tool", "n_fail", "seq").rows() == [
        (1, "tool_call", "B", 0, 1),
        (1, None, None, 1, None),
    ]


def test_groups_that_are_not_compared_say_why() -> None:
    rows = [
        *(calls(n, "AB", 1.0, "passed") for n in range(2)),
        *(calls(2 + n, "AB", float(n), "alike") for n in range(2)),
        *(calls(4 + n, "A" + "BC"[n], None, "unjudged") for n in range(2)),
        *(calls(6 + n, "A" + "BC"[n], float(n), "apart") for n in range(2)),
    ]
    found = ot.evaluation.divergence(read(rows))
    assert found.group_by("group_id", maintain_order=True).agg(pl.col("reason").first()).rows() == [
        ("passed", "group.degenerate"),
        ("alike", "siblings.absent"),
        ("unjudged", "reward.absent"),
        ("apart", None),
    ]
    exact = ot.evaluation.divergence(read(rows), key="exact")
    assert exact.filter(pl.col("group_id") == "apart")["reason"].to_list() == ["field.absent"]


def test_only_exact_keys_of_lone_agents_are_observed() -> None:
    def told(number: int, says: str, agent: str) -> Document:
        events = [event(0, "a", "tool_call", args_hash="q"), event(1, agent, "tool_call", args_hash=says)]
        return run(number, float(number % 2), events)

    alone = ot.evaluation.divergence(read([told(0, "x", "a"), told(1, "y", "a")]), key="exact")
    assert alone["tier"].to_list() == ["observed"] * 2
    team = [told(n, "xy"[n], "a") for n in range(2)]
    for document in team:
        document["events"].append(event(2, "b", "tool_call", args_hash="z"))
    assert ot.evaluation.divergence(read(team), key="exact")["tier"].to_list() == ["surrogate"] * 2
    assert set(ot.evaluation.divergence(read(FOUR))["tier"]) == {"surrogate"}


def outcomes(documents: list[Document]) -> dict[int, bool | None]:
    rewards = [document["rewards"].get("team") for document in documents]
    return {n: None if reward is None else reward >= 1.0 - 1e-6 for n, reward in enumerate(rewards)}


def prefixes(root: list[Key]) -> list[tuple[tuple[Key, ...], Key]]:
    """Each node that a run comes to, and what it does there."""
    return [(tuple(root[:n]), step) for n, step in enumerate([*root, END])]


@pytest.mark.parametrize("key", ["shape", "exact"])
@examples(60)
@given(corpora(max_traces=8, max_events=8))
def test_equals_plain_python(key: Any, documents: list[Document]) -> None:
    corpus = read(documents)
    runs = lanes_of(corpus, key)
    found = ot.evaluation.divergence(corpus, key=key)
    passed = outcomes(documents)
    names = dict(corpus.traces.select("trace", "trace_id").collect().iter_rows())
    for group_id, rows in found.partition_by("group_id", as_dict=True).items():
        of_group = corpus.traces.filter(pl.col("group_id") == group_id[0]).collect()["trace"].to_list()
        if rows["effect"].null_count() == len(rows) and rows["reason"][0] is not None and len(rows) == 1:
            continue
        tree: dict[Any, dict[Key, list[int]]] = defaultdict(lambda: defaultdict(list))
        for trace in of_group:
            for node, step in prefixes([step for _, step in runs[trace].root]):
                tree[node][step].append(trace)
        expected = []
        for node, children in tree.items():
            if len(children) < 2:
                continue
            all_failed = sum(passed[t] is False for of in children.values() for t in of)
            all_passed = sum(passed[t] is True for of in children.values() for t in of)
            for through in children.values():
                f, s = sum(passed[t] is False for t in through), sum(passed[t] is True for t in through)
                effect = None
                others = all_failed - f, all_passed - s
                if f + s and sum(others):
                    rate = all_failed / (all_failed + all_passed)
                    effect = (f + 2 * rate) / (f + s + 2) - (others[0] + 2 * rate) / (sum(others) + 2)
                first = min(through, key=names.__getitem__)
                expected.append((len(node), first, s, f, effect))
        columns = ["depth", "trace", "n_pass", "n_fail", "effect"]
        mine = sorted(rows.select(columns).rows(), key=str)
        assert len(mine) == len(expected)
        for one, two in zip(mine, sorted(expected, key=str), strict=True):
            assert one[:4] == two[:4]
            assert one[4] == pytest.approx(two[4])


@examples(40)
@given(corpora(max_traces=8, max_events=8))
def test_luck_equals_plain_python(documents: list[Document]) -> None:
    corpus = read(documents)
    runs = lanes_of(corpus, "shape")
    groups = dict(corpus.traces.select("trace", "group_id").collect().iter_rows())
    passed = outcomes(documents)
    for row in ot.evaluation.lucky_passes(corpus).rows(named=True):
        mine = [step for _, step in runs[row["trace"]].root]
        others = [t for t in groups if groups[t] == groups[row["trace"]] and t != row["trace"]]
        at = {t: [step for _, step in runs[t].root] for t in others}
        passes = [t for t in others if passed[t]]
        assert row["n_passes"] == len(passes) + 1
        if row["reason"] in ("reward.absent", "field.absent"):
            continue
        if len(passes) >= 2 and mine:
            shares = [
                sum(at[t][:n] == mine[:n] for t in passes) / len(passes) for n in range(1, len(mine) + 1)
            ]
            assert row["atypical"] == pytest.approx(1 - sum(shares) / len(shares))
        else:
            assert row["atypical"] is None
        depth = max(
            (n for n in range(len(mine) + 1) if any(at[t][:n] == mine[:n] for t in others)), default=0
        )
        beside = [passed[t] for t in others if at[t][:depth] == mine[:depth] and passed[t] is not None]
        assert row["n_others"] == len(beside)
        assert row["luck"] == (pytest.approx(1 - sum(beside) / len(beside)) if beside else None)


def corpus_of(rng: random.Random, groups: int, size: int, bad: float, rate: float = 0.3) -> list[Document]:
    """Groups of runs that choose at random among three steps twice; X adds to the chance of failure."""
    documents = []
    for group in range(groups):
        for _ in range(size):
            tools = "A" + rng.choice("XYZ") + rng.choice("PQ")
            failed = rng.random() < rate + bad * ("X" in tools)
            documents.append(calls(len(documents), tools, float(not failed), f"task{group}"))
    return documents


def exchanged(documents: list[Document]) -> tuple[dict[str, float], dict[str, float]]:
    """z and p of each tool over all ways to exchange outcomes within groups, by enumeration."""
    groups: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for document in documents:
        tools = "".join(one["tool"] for one in document["events"])
        groups[document["task_id"]].append((tools, 1.0 - document["rewards"]["team"]))
    for name in [name for name, of in groups.items() if len({y for _, y in of}) == 1]:
        del groups[name]

    def excess(outcomes: dict[str, tuple[float, ...]]) -> dict[str, float]:
        sums: dict[str, float] = defaultdict(float)
        for name, of in groups.items():
            nodes: dict[str, list[tuple[str, float]]] = defaultdict(list)
            for (tools, _), y in zip(of, outcomes[name], strict=True):
                for depth, tool in enumerate(tools):
                    nodes[tools[:depth]].append((tool, y))
            for here in nodes.values():
                for tool in {tool for tool, _ in here}:
                    taken = [y for one, y in here if one == tool]
                    sums[tool] += sum(taken) - sum(y for _, y in here) * len(taken) / len(here)
        return sums

    observed = excess({name: tuple(y for _, y in of) for name, of in groups.items()})
    ways = [sorted(set(itertools.permutations(y for _, y in of))) for of in groups.values()]
    drawn = [excess(dict(zip(groups, way, strict=True))) for way in itertools.product(*ways)]
    deviation = {tool: math.sqrt(np.mean([one[tool] ** 2 for one in drawn])) for tool in observed}
    z = {tool: observed[tool] / deviation[tool] for tool in observed if deviation[tool] > 1e-9}
    p = {tool: float(np.mean([abs(one[tool]) >= abs(observed[tool]) - 1e-9 for one in drawn])) for tool in z}
    return z, p


@pytest.mark.parametrize("seed", range(6))
def test_tests_equal_those_over_all_exchanges(seed: int) -> None:
    documents = corpus_of(random.Random(seed), groups=3, size=4, bad=0.6)
    z, p = exchanged(documents)
    tested = ot.evaluation.branch_tests(read(documents), draws=9999).filter(pl.col("tool").is_not_null())
    mine = {row["tool"]: row for row in tested.rows(named=True) if row["z"] is not None}
    assert set(mine) == set(z)
    for tool, row in mine.items():
        assert row["z"] == pytest.approx(z[tool])
        assert row["p_value"] == pytest.approx(p[tool], abs=0.02)
        assert row["p_adjusted"] >= row["p_value"]


def test_tests_follow_names_and_not_files() -> None:
    documents = corpus_of(random.Random(0), groups=6, size=6, bad=0.4)
    one = ot.evaluation.branch_tests(read(documents), draws=199)
    turned = ot.evaluation.branch_tests(read(documents[::-1]), draws=199)
    assert_frame_equal(one, turned)
    assert_frame_equal(one, ot.evaluation.branch_tests(read(documents), draws=199, threads=1))


def test_effects_are_those_of_mantel_and_haenszel() -> None:
    documents = corpus_of(random.Random(3), groups=12, size=8, bad=0.5)
    [row] = (
        ot.evaluation.branch_tests(read(documents), draws=9).filter(pl.col("tool") == "X").rows(named=True)
    )
    tables = []
    for _, of in itertools.groupby(documents, key=lambda document: document["task_id"]):
        runs = [(one["events"][1]["tool"] == "X", one["rewards"]["team"] == 0.0) for one in of]
        counts = [sum(pair == cell for pair in runs) for cell in itertools.product((True, False), repeat=2)]
        failures = counts[0] + counts[2]
        if 0 < counts[0] + counts[1] < len(runs) and 0 < failures < len(runs):
            tables.append(counts)
    a, b, c, d = (np.array(column, dtype=float) for column in zip(*tables, strict=True))
    n = a + b + c + d
    weight = (a + b) * (c + d) / n
    assert row["effect"] == pytest.approx(float((weight * (a / (a + b) - c / (c + d))).sum() / weight.sum()))
    assert row["odds_ratio"] == pytest.approx(float((a * d / n).sum() / (b * c / n).sum()))
    assert (row["n_groups"], row["n_nodes"], row["n_runs"]) == (len(n), len(n), int((a + b).sum()))


@examples(12)
@given(corpora(max_traces=8, max_events=8), st.integers(2, 4))
def test_on_disk_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document], partitions: int
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    source = folder / "runs.jsonl"
    source.write_text("\n".join(map(json.dumps, documents)))
    corpus = ot.read_traces(source)
    ot.ingest(source, folder / "disk", partitions=partitions)
    disk = ot.read_corpus(folder / "disk")
    keys = ["group_id", "depth", "type", "label", "tool", "n_pass", "n_fail"]
    columns = [*keys, "p", "effect", "log_odds", "reason"]

    def rows(of: ot.Corpus) -> pl.DataFrame:
        return ot.evaluation.divergence(of).select(columns).sort(*keys, "p", nulls_last=True)

    assert_frame_equal(rows(corpus), rows(disk))
    one, two = (ot.evaluation.branch_tests(of, draws=19) for of in (corpus, disk))
    assert_frame_equal(one, two)


def test_branches_that_differ_in_texts_alone_are_not_tested() -> None:
    def says(number: int, arguments: str) -> Document:
        return run(number, float(number % 2), [event(0, "a", "tool_call", args_hash=arguments)])

    corpus = read([says(n, "pqrs"[n]) for n in range(4)])
    assert ot.evaluation.divergence(corpus, key="exact")["effect"].len() == 4
    assert ot.evaluation.branch_tests(corpus, key="exact", draws=9).is_empty()


def test_an_empty_corpus_has_no_rows() -> None:
    corpus = read(FOUR).filter(pl.col("trace") > 10)
    assert ot.evaluation.divergence(corpus).is_empty()
    assert ot.evaluation.branch_tests(corpus).is_empty()
    assert ot.evaluation.lucky_passes(corpus).is_empty()
    assert ot.evaluation.align(corpus).is_empty()


def test_groups_of_other_pieces_have_nodes_of_their_own(tmp_path: Path) -> None:
    rng = random.Random(5)
    documents = []
    for group in range(24):
        rate = 0.1 if group % 2 else 0.8
        for _ in range(6):
            tool = rng.choice("XXXY" if group % 2 else "XYYY")
            documents.append(calls(len(documents), tool, float(rng.random() < rate), f"task{group}"))
    (tmp_path / "runs.jsonl").write_text("\n".join(map(json.dumps, documents)))
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "disk", partitions=8)
    disk = ot.read_corpus(tmp_path / "disk")
    assert sum(1 for _ in disk.pieces()) > 1
    one, two = (ot.evaluation.branch_tests(of, draws=99) for of in (read(documents), disk))
    assert_frame_equal(one, two)
    x, y = (one.filter(tool=tool).row(0, named=True) for tool in "XY")
    assert x["effect"] == pytest.approx(-y["effect"])
    assert x["z"] == pytest.approx(-y["z"])


@pytest.mark.parametrize("group_id", [None, "g"])
def test_one_task_has_no_interval_and_nodes_are_counted_once(group_id: str | None) -> None:
    rows = [dict(one) for one in FOUR]
    if group_id is not None:  # a group with several tasks
        for n, one in enumerate(rows):
            one["events"][0]["x_trace"] = {"group_id": group_id}
            one["task_id"] = f"task{n % 2}"
    corpus = read(rows)
    if group_id is not None and corpus.traces.collect()["group_id"].n_unique() != 1:
        pytest.skip("the format has no groups of several tasks")
    tested = ot.evaluation.branch_tests(corpus, draws=9)
    b = tested.filter(tool="B").row(0, named=True)
    assert (b["effect"], b["n_nodes"], b["n_groups"], b["lower"], b["interval_reason"]) == (
        *(-1.0, 1, 1),
        *(None, "support.absent"),
    )


def test_a_confidence_next_to_1_has_an_interval() -> None:
    """One plus it, halved, is 1 in floating point, whose quantile is infinite."""
    branches = ot.evaluation.divergence(
        ot.generate(traces=64, seed=0), reward="team", success=0.5, confidence=1 - 1e-16
    ).drop_nulls("effect")
    assert branches.height and (branches["upper"] - branches["lower"]).is_finite().all()
