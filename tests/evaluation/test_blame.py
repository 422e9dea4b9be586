"""Blame sets: coverage on planted corpora, goldens of split conformal, an independent reference."""

import json
import math
import random
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import binom

import orchestrace as ot
from orchestrace.evaluation.blame import BlameRule
from orchestrace.evaluation.blame_model import fit_blame
from orchestrace.evaluation.blame_units import POSITION, STRUCTURE, blame_candidates
from orchestrace.evaluation.conformal import of_labels, ranking, threshold
from orchestrace.evaluation.localization import label_places
from reference.acts import acts_of
from samples import hand_runs, random_runs
from samples.examples import examples

SCORES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, -1.0, float("nan")]), min_size=1, max_size=9)


def units_of(rng: np.random.Generator, n: int, kind: str, name: str) -> pl.DataFrame:
    """`n` planted runs of 3 to 12 units, one of them blamed, with a score of this kind."""
    rows = []
    for run in range(n):
        size = int(rng.integers(3, 13))
        label = int(rng.integers(size))
        for unit in range(size):
            score = {"good": rng.normal() + 2.0 * (unit == label), "constant": 0.0, "random": rng.normal()}[
                kind
            ]
            names = (run, f"{name}{run}", f"{name}{run}", f"A/{unit}")
            rows.append((*names, unit, float(score), unit == label, 1, 1, ""))
    ids = ["trace", "trace_id", "task_id", "unit_id", "seq"]
    columns = [*ids, "score", "labeled", "n_labels", "n_placed", "stratum"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def hits(sets: pl.DataFrame) -> pl.Series:
    return sets.filter("labeled").sort("trace")["in_set"]


@pytest.mark.parametrize("kind", ["good", "constant", "random"])
@pytest.mark.parametrize("ties", ["count", "random"])
@pytest.mark.parametrize("nonconformity", ["rank", "share", "mass"])
def test_sets_hold_the_label_as_often_as_stated(kind, ties, nonconformity) -> None:
    """Of 200 corpora drawn anew one run each is judged: independent draws, so the binomial holds."""
    rng = np.random.default_rng(5)
    held = 0
    for corpus in range(200):
        rule = BlameRule(0.2, nonconformity, ties=ties, seed=corpus)
        held += hits(rule.sets(units_of(rng, 29, kind, "c"), units_of(rng, 1, kind, "j")))[0]
    assert held >= binom.ppf(0.001, 200, 0.8)
    if ties == "random" or (kind != "constant" and nonconformity == "rank"):
        # ranks are whole numbers, which a rank of a good score exceeds by their steps
        most = 0.8 + 1 / 30 + (0.0 if ties == "random" else 0.12)
        assert held <= binom.ppf(0.999, 200, most)


def test_the_goldens_of_the_threshold() -> None:
    ranks = np.array([1.0, 1, 2, 2, 3, 4, 5, 7, 9])
    assert [threshold(ranks, alpha) for alpha in (0.2, 0.1, 0.05)] == [7.0, 9.0, math.inf]


def test_the_golden_of_the_places() -> None:
    run, scores = np.zeros(4, np.int64), np.array([0.9, 0.5, 0.5, 0.1])
    labeled = np.array([False, True, False, False])
    assert of_labels(ranking(run, scores).nonconformity("rank"), run, labeled, every=False) == {0: 3.0}
    places = label_places(run, scores, labeled).row(0, named=True)
    assert [places[name] for name in ("expected_rank", "exam", "top1", "top2", "top3")] == [
        *(2.5, 0.625),
        *(0.0, 0.5, 1.0),
    ]


@given(st.lists(SCORES, min_size=1, max_size=4))
def test_ranks_are_those_of_plain_counting(runs) -> None:
    run = np.concatenate([np.full(len(scores), at) for at, scores in enumerate(runs)])
    flat = np.concatenate([np.array(scores) for scores in runs])
    order = np.random.default_rng(0).permutation(len(flat))
    ranks = ranking(run[order], flat[order])
    rank, share, mass = (ranks.nonconformity(name) for name in ("rank", "share", "mass"))
    for at, place in enumerate(order):
        plain = [-math.inf if math.isnan(score) else score for score in runs[run[place]]]
        mine = -math.inf if math.isnan(flat[place]) else flat[place]
        down = sum(score >= mine for score in plain)
        top = max(plain)
        weights = [1.0 if top == -math.inf else math.exp(score - top) for score in plain]
        above = sum(weight for weight, score in zip(weights, plain, strict=True) if score >= mine)
        assert rank[at] == down
        assert share[at] == down / len(plain)
        assert mass[at] == pytest.approx(above / sum(weights))


@given(SCORES, st.data())
def test_places_are_those_of_all_orders_of_ties(scores, data) -> None:
    labeled = np.array(data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores))))
    if not labeled.any() or len(scores) > 6:
        return
    plain = [-math.inf if math.isnan(score) else score for score in scores]
    first = []
    for order in permutations(range(len(plain))):
        ranked = sorted(order, key=lambda unit: -plain[unit])
        best = max(plain[unit] for unit in range(len(plain)) if labeled[unit])
        first.append(next(n for n, unit in enumerate(ranked, 1) if labeled[unit] and plain[unit] == best))
    row = label_places(np.zeros(len(plain), np.int64), np.array(scores), labeled).row(0, named=True)
    assert row["expected_rank"] == pytest.approx(sum(first) / len(first))
    for k in (1, 2, 3, 5):
        assert row[f"top{k}"] == pytest.approx(sum(n <= k for n in first) / len(first))


def test_increasing_transforms_and_larger_alpha() -> None:
    rng = np.random.default_rng(2)
    past, judge = (units_of(rng, n, "good", name) for n, name in ((40, "c"), (20, "j")))
    bent = [frame.with_columns(score=pl.col("score").exp() * 3 + 1) for frame in (past, judge)]
    sizes = []
    for alpha in (0.02, 0.05, 0.1, 0.2, 0.5):
        sets = BlameRule(alpha).sets(past, judge)
        assert sets["in_set"].equals(BlameRule(alpha).sets(*bent)["in_set"])
        sizes.append(sets["in_set"].sum())
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == judge.height  # 41 times .02 is below 1: the whole run
    assert sizes[-1] < sizes[0]


def test_labels_that_are_no_candidates_leave_no_set() -> None:
    rng = np.random.default_rng(3)
    past, judge = (units_of(rng, n, "good", name) for n, name in ((40, "c"), (3, "j")))
    lost = past.with_columns(
        labeled=pl.col("labeled") & (pl.col("trace") >= 10),
        n_placed=pl.when(pl.col("trace") >= 10).then(1).otherwise(0),
    )
    none = BlameRule(0.2).sets(lost, judge)
    assert none["in_set"].null_count() == judge.height
    assert none["reason"].unique().to_list() == ["label.unplaced"]
    assert none["unplaced"][0] == 0.25
    some = BlameRule(0.3).sets(lost, judge)
    assert some["reason"].null_count() == judge.height
    assert some["n_calibration"][0] == 30


def test_small_strata_are_pooled_among_themselves() -> None:
    rng = np.random.default_rng(4)
    past = units_of(rng, 46, "good", "c").with_columns(
        stratum=pl.col("trace").map_elements(
            lambda run: "large" if run < 34 else "s" if run < 40 else "t", return_dtype=pl.String
        )
    )
    judge = units_of(rng, 3, "good", "j").with_columns(
        stratum=pl.col("trace").replace_strict({0: "large", 1: "s", 2: "unseen"})
    )
    sets = BlameRule(0.1).sets(past, judge).unique("trace").sort("trace")
    assert sets["n_calibration"].to_list() == [34, 12, 12]
    few = BlameRule(0.05).sets(past, judge).unique("trace").sort("trace")
    assert few["reason"].to_list() == [None, "calibration.small", "calibration.small"]


def corpus_of(tasks: list[str], labeled: bool, blamed: str = "B") -> ot.Corpus:
    """Runs of eight turns by A and B; the second turn is labelled, of `blamed`."""
    events = [
        {"trace": run, "id": f"e{t}", "t": float(t), "turn": t, "type": "message", "agent": "AB"[t % 2]}
        for run in range(len(tasks))
        for t in range(8)
    ]
    labels = {"trace_id": tasks, "annotator": "me", "turn": 1, "agent": blamed, "label": "mistake"}
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame({"trace": range(len(tasks)), "trace_id": tasks, "task_id": tasks}),
        events=pl.DataFrame(events, schema_overrides={"turn": pl.UInt32}),
        labels=pl.DataFrame(labels, schema_overrides={"turn": pl.UInt32}) if labeled else None,
    )


PAST = corpus_of([f"past-{n}" for n in range(40)], labeled=True)
NEW = corpus_of(["x", "y"], labeled=False)


def test_a_planted_step_and_agent_are_found() -> None:
    steps = ot.evaluation.blame(NEW, calibration=PAST)
    assert steps.filter("in_set")["unit_id"].to_list() == ["B/1", "B/1"]
    assert steps["share"].unique().to_list() == [1 / 8]
    agents = ot.evaluation.blame(NEW, calibration=PAST, level="agent")
    assert agents.filter("in_set")["unit_id"].to_list() == ["B", "B"]


def test_turns_of_results_alone_are_no_candidates() -> None:
    kinds = ["message", "tool_call", "tool_result", "message"]
    events = pl.DataFrame(
        [
            {"trace": 0, "id": f"e{t}", "t": float(t), "turn": t, "type": kind, "agent": "A"}
            for t, kind in enumerate(kinds)
        ],
        schema_overrides={"turn": pl.UInt32},
    )
    corpus = ot.Corpus.from_arrow(traces=pl.DataFrame({"trace": [0], "trace_id": ["x"]}), events=events)
    sets = ot.evaluation.blame(corpus, calibration=PAST)
    assert sorted(sets["unit_id"]) == ["A/0", "A/1", "A/3"]


def test_a_frame_of_scores_needs_no_fit() -> None:
    ids = [*(f"past-{n}" for n in range(40)), "x", "y"]
    scores = pl.DataFrame(
        [
            {"trace_id": name, "unit_id": f"{'AB'[t % 2]}/{t}", "score": -abs(t - 1)}
            for name in ids
            for t in range(8)
        ]
    )
    shuffled = scores.sample(fraction=1.0, shuffle=True, seed=1)
    sets = ot.evaluation.blame(NEW, calibration=PAST, scores=scores)
    assert sets.filter("in_set")["unit_id"].to_list() == ["B/1", "B/1"]
    assert sets["n_calibration"].unique().to_list() == [40]
    assert sets.equals(ot.evaluation.blame(NEW, calibration=PAST, scores=shuffled))


def test_thirds_by_length_have_thresholds_of_their_own() -> None:
    """In long runs the blamed step has the highest score, in short ones the lowest."""
    lengths = {f"{kind}-{n}": size for kind, size in (("short", 3), ("long", 9)) for n in range(60)}
    judged = {"new-short": 3, "new-long": 9}

    def runs(sizes: dict[str, int], labels: list[dict[str, Any]] | None = None) -> ot.Corpus:
        turns = {
            name: [{"type": "message", "agent": "A", "turn": n, "t": float(n)} for n in range(size)]
            for name, size in sizes.items()
        }
        return hand(turns, labels)

    past = runs(lengths, [label(name, event_id="e0") for name in lengths])
    scores = pl.DataFrame(
        [
            {"trace_id": name, "unit_id": f"A/{n}", "score": float(n if size == 3 else -n)}
            for name, size in (lengths | judged).items()
            for n in range(size)
        ]
    )
    sizes = {}
    for by in (None, "length"):
        sets = ot.evaluation.blame(runs(judged), calibration=past, scores=scores, by=by)
        sizes[by] = dict(sets.unique("trace_id").select("trace_id", "set_size").rows())
        assert sets["threshold"].n_unique() == (1 if by is None else 2)
    assert sizes == {None: {"new-short": 3, "new-long": 3}, "length": {"new-short": 3, "new-long": 1}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"calibration": NEW}, "no labels"),
        ({"calibration": PAST, "by": "colour"}, "by is 'colour'"),
        ({"calibration": PAST, "coverage": 1.0}, "coverage is 1.0"),
        ({"calibration": PAST, "ties": "maybe"}, "ties is 'maybe'"),
        ({"calibration": PAST, "scores": pl.DataFrame({"trace_id": ["x"]})}, "unit_id"),
        ({"calibration": PAST, "scores": pl.DataFrame({"trace_id": ["x"], "unit_id": ["A/0"]})}, "'score'"),
    ],
)
def test_mistakes_are_one_line(options, message) -> None:
    with pytest.raises(ot.OrchestraceError, match=message) as caught:
        ot.evaluation.blame(NEW, **options)
    assert "\n" not in str(caught.value)


def test_no_task_is_judged_by_itself() -> None:
    with pytest.raises(ot.ParameterError, match="past-"):
        ot.evaluation.blame(PAST, calibration=PAST)


def test_the_fit_is_the_maximum_of_its_likelihood() -> None:
    """No small change of a coefficient improves the penalized likelihood, summed in plain Python."""
    rng = np.random.default_rng(7)
    run = np.repeat(np.arange(12), 6)
    labeled = np.arange(72) % 6 == rng.integers(6, size=12)[run]
    table = np.c_[rng.normal(size=72) + labeled, rng.normal(size=72)]
    model = fit_blame(table, run, labeled)

    def value(weight: np.ndarray, shift: float) -> float:
        standard = (table - table.mean(axis=0)) / table.std(axis=0)
        total = -0.15 * float((weight**2).sum())
        for unit in range(72):
            odds = float(standard[unit] @ weight) + shift
            share = 0.5 if labeled[unit] else 0.1
            total -= share * math.log1p(math.exp(-odds if labeled[unit] else odds))
        return total

    def best(weight: np.ndarray) -> float:
        return max(value(weight, shift / 200) for shift in range(-200, 201))

    peak = best(model.weight)
    random.seed(0)
    for _ in range(8):
        assert best(model.weight + np.array([random.uniform(-0.3, 0.3), 0.2])) < peak


def hand(runs: dict[str, list[dict[str, Any]]], labels: list[dict[str, Any]] | None = None) -> ot.Corpus:
    """Runs by name, each of its own task, with labels."""
    documents = [
        hand_runs.run(at, 0.0, [{"id": f"e{n}", **one} for n, one in enumerate(events)], task=name)
        | {"trace_id": name}
        for at, (name, events) in enumerate(runs.items())
    ]
    corpus = hand_runs.read(documents)
    if labels is None:
        return corpus
    texts = dict.fromkeys(("trace_id", "annotator", "event_id", "agent", "label"), pl.String())
    rows = pl.DataFrame(labels, schema={**texts, "turn": pl.UInt32()})
    names = ("traces", "events", "edges", "measures")
    tables = {name: getattr(corpus, name).collect() for name in names}
    return ot.Corpus.from_arrow(**tables, labels=rows)


def label(trace: str, **fields: Any) -> dict[str, Any]:
    return {"trace_id": trace, "annotator": "me", "label": "x", **fields}


def test_results_of_tools_are_of_the_turn_of_their_caller() -> None:
    events = [
        {"t": 0, "type": "message", "agent": "A", "turn": 0},
        {"t": 1, "type": "tool_call", "agent": "A", "tool": "web", "turn": 1},
        {"t": 2, "type": "tool_result", "agent": "web", "tool": "web", "turn": 1, "ok": False},
        {"t": 3, "type": "message", "agent": "A", "turn": 2},
    ]
    corpus = hand({"r": events}, [label("r", event_id="e2", turn=1)])
    units = blame_candidates(corpus, level="step")
    assert units.select("unit_id", "failed", "after_failure", "labeled", "n_placed").rows() == [
        ("A/0", 0.0, 0.0, False, 1),
        ("A/1", 1.0, 0.0, True, 1),
        ("A/2", 0.0, 1.0, False, 1),
    ]


@examples(60)
@given(random_runs.corpora(max_traces=4, max_events=14), st.randoms(use_true_random=False))
def test_what_is_said_of_candidates_is_plain_counting(documents, random) -> None:
    for document in documents:
        for one in document["events"]:
            if random.random() < 0.5:
                one["ok"] = random.random() < 0.6
    corpus = hand_runs.read(documents)
    units = blame_candidates(corpus, level="step").drop_nulls("unit_id")
    names = ("trace", "unit_id", "agent", "seq", *POSITION, *STRUCTURE)
    rows = [[row[name] for name in names] for row in acts_of(corpus)]
    expected = pl.DataFrame(rows, schema=units.select(names).schema, orient="row", strict=False)
    assert_frame_equal(units.select(names), expected, rel_tol=1e-15, abs_tol=0.0)


def test_steps_stand_in_the_order_of_time() -> None:
    events = [{"t": n, "type": "message", "agent": "AB"[n % 2], "turn": n} for n in range(6)]
    turned = [one | {"id": f"e{n}"} for n, one in list(enumerate(events))[::-1]]
    names = [
        blame_candidates(hand({"r": rows}), level="step")["unit_id"].to_list() for rows in (events, turned)
    ]
    assert names[0] == names[1] == ["A/0", "B/1", "A/2", "B/3", "A/4", "B/5"]


def test_labels_of_somebody_else_are_placed_on_nobody() -> None:
    events = [{"t": n, "type": "message", "agent": "AB"[n % 2], "turn": n} for n in range(4)]
    for blamed, placed in (("Zed", 0), ("B", 1)):
        units = blame_candidates(hand({"r": events}, [label("r", turn=1, agent=blamed)]), level="step")
        assert units["n_placed"].to_list() == [placed] * 4
        assert units["labeled"].sum() == placed


def test_labelled_runs_in_which_nobody_acts_count() -> None:
    acting = [{"t": n, "type": "message", "agent": "AB"[n % 2], "turn": n} for n in range(4)]
    silent = [{"t": n, "type": "message", "agent": "user", "turn": n} for n in range(4)]
    runs = {f"r{n:02}": acting if n % 2 else silent for n in range(40)}
    past = hand(runs, [label(name, event_id="e1", turn=1) for name in runs])
    new = hand({"new": acting, "quiet": silent})
    judged = ot.evaluation.blame(new, calibration=past, coverage=0.8)
    assert set(judged["reason"]) == {"label.unplaced", "support.absent"}
    assert judged.filter(trace_id="quiet").select("unit_id", "in_set", "reason").rows() == [
        (None, None, "support.absent")
    ]
    assert 0.3 < judged["unplaced"][0] < 0.7


def test_scores_of_one_side_alone_are_refused() -> None:
    acting = [{"t": n, "type": "message", "agent": "AB"[n % 2], "turn": n} for n in range(4)]
    runs = {f"r{n:02}": acting for n in range(20)}
    past = hand(runs, [label(name, event_id="e1", turn=1) for name in runs])
    scores = pl.DataFrame({"trace_id": list(runs), "unit_id": "B/1", "score": 1.0})
    with pytest.raises(ot.ParameterError, match="no number for any candidate of the runs to judge"):
        ot.evaluation.blame(hand({"new": acting}), calibration=past, scores=scores)


def test_on_disk_the_candidates_are_the_same(tmp_path: Path) -> None:
    golden = Path(__file__).resolve().parents[2] / "data" / "importers" / "who_and_when" / "input.jsonl"
    run = json.loads(golden.read_text(encoding="utf-8").splitlines()[0])
    source = tmp_path / "runs.jsonl"
    runs = [{**run, "question_ID": f"q{n}", "_file": f"Algorithm-Generated/{n}.json"} for n in range(9)]
    source.write_text("\n".join(map(json.dumps, runs)))
    ot.ingest(source, tmp_path / "disk", partitions=3)
    corpus, disk = ot.read_traces(source), ot.read_corpus(tmp_path / "disk")
    assert sum(1 for _ in disk.pieces()) > 1
    for level in ("step", "agent"):
        tables = [
            blame_candidates(of, level=level, engine=engine).drop("trace").sort("trace_id", "seq", "unit_id")
            for of, engine in ((corpus, None), (disk, None), (disk, ot.distributed.processes(workers=1)))
        ]
        assert tables[0]["labeled"].any()
        assert_frame_equal(tables[0], tables[1])
        assert tables[2].equals(tables[1])


def test_an_engine_gives_the_same_sets(tmp_path: Path) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=12, preset="mixed", seed=5)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "disk", partitions=3)
    disk = ot.read_corpus(tmp_path / "disk")
    acting = [{"t": n, "type": "message", "agent": "AB"[n % 2], "turn": n} for n in range(4)]
    names = [f"r{n:02}" for n in range(40)]
    past = hand(dict.fromkeys(names, acting), [label(name, event_id="e1", turn=1) for name in names])
    for level in ("step", "agent"):
        here, there = (
            ot.evaluation.blame(disk, calibration=past, level=level, by="length", engine=engine)
            for engine in (None, ot.distributed.processes(workers=1))
        )
        assert here["in_set"].any()
        assert there.equals(here)
