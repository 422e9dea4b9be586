"""Messages, delegations and aggregations: against plain Python, planted truth, and mistakes of users."""

import io
import json
import math
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from scipy.stats import t as student

import orchestrace as ot
from orchestrace.effects.observed import AGGREGATIONS, DELEGATIONS, MESSAGES
from orchestrace.statistics.shrinkage import shrunk
from reference.observed import mean, rows_of
from samples.examples import examples
from samples.hand_runs import event, run
from samples.random_runs import Document, corpora, jsonl


def read(documents: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), format="native")


# --- messages -----------------------------------------------------------------------------------------


def messages(documents: list[Document]) -> dict[tuple[int, int], tuple[Any, Any, Any, Any, Any]]:
    """Effect, error, degrees of freedom, reason and tier of every message, from the definition."""
    rows = rows_of(documents)
    firsts: dict[Any, dict[str, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        if None not in (row["context"], row["choice"], row["reward"]):
            bucket = firsts[row["group_id"], row["context"], row["role"]]
            bucket.setdefault(row["trace_id"], row)
    found = {}
    for row in rows:
        if row["type"] not in ("message", "return") or row["to"] in (None, row["agent"], "user"):
            continue
        bucket = firsts[row["group_id"], row["context"], row["role"]]
        answer: tuple[Any, Any, Any, Any] = (None, None, None, "siblings.absent")
        if row["reward"] is None:
            answer = (None, None, None, "reward.absent")
        elif row["context"] is None or row["choice"] is None:
            answer = (None, None, None, "graph.cycle" if row["cyclic"] else "field.absent")
        else:
            arms: dict[Any, list[float]] = defaultdict(list)
            for other in bucket.values():
                arms[other["choice"]].append(other["reward"])
            own = arms[row["choice"]]
            rest = [x for choice, xs in arms.items() if choice != row["choice"] for x in xs]
            if rest and own:  # a later visit may choose what no first one did
                df = len(bucket) - len(arms)
                squares = math.fsum((x - mean(xs)) ** 2 for xs in arms.values() for x in xs)
                error = math.sqrt(squares / df * (1 / len(own) + 1 / len(rest))) if df else None
                answer = (mean(own) - mean(rest), error, df, None)
        tier = None if answer[0] is None else "surrogate" if row["assumed"] else "observed"
        found[row["trace"], row["seq"]] = (*answer, tier)
    return found


@examples(80)
@given(corpora(full=("content_hash",)))
def test_messages_are_those_of_the_reference(documents: list[Document]) -> None:
    if not any("team" in document["rewards"] for document in documents):
        return
    table = ot.effects.message(read(documents), confidence=0.9)
    expected = messages(documents)
    assert table.select("trace", "seq").rows() == sorted(expected)
    for row in table.iter_rows(named=True):
        effect, error, df, reason, tier = expected[row["trace"], row["seq"]]
        assert row["effect"] == (None if effect is None else pytest.approx(effect, abs=1e-12))
        assert row["stderr"] == (None if error is None else pytest.approx(error, abs=1e-9))
        assert row["tier"] == tier
        assert row["support"] == float(effect is not None)
        if effect is not None and error is None:
            reason = "support.absent"
        elif effect is not None and error < 1e-9:  # every choice always came to the same
            reason, error = "group.degenerate", None
        assert row["reason"] == reason
        if error is not None:
            reach = student.ppf(0.95, df) * error
            assert row["upper"] == pytest.approx(effect + reach, abs=1e-9)
            assert row["lower"] == pytest.approx(effect - reach, abs=1e-9)
        else:
            assert row["lower"] is None and row["upper"] is None
        if effect is not None and (row["tokens"] or 0) > 0:
            assert row["utility"] == pytest.approx(effect / row["tokens"], abs=1e-12)
        else:
            assert row["utility"] is None


def test_messages_of_a_cycle_have_no_context(tmp_path) -> None:
    """Said as `c3` says it, in memory and on disk: no field is missing there."""
    told = {"agent": "ann", "type": "message", "to": "bob", "content_hash": "h"}
    documents = [
        run(n, float(n), [event(0, **told), event(1, **told)], [(0, 1), (1, 0)] if n == 1 else [(0, 1)])
        for n in range(3)
    ]
    (tmp_path / "runs.jsonl").write_bytes(jsonl(documents))
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=2)
    for corpus in (read(documents), ot.read_corpus(tmp_path / "corpus")):
        table = ot.effects.message(corpus)
        cyclic = {name: own["reason"].to_list() for (name,), own in table.group_by("trace_id")}
        assert cyclic["trace1"] == ["graph.cycle"] * 2
        assert cyclic["trace0"] == cyclic["trace2"] == ["siblings.absent"] * 2
        assert ot.effects.message(corpus, context="recorded")["reason"].to_list() == ["field.absent"] * 6


def test_messages_have_the_credit_of_c3() -> None:
    corpus, _ = ot.synthetic.planted(traces=96, seed=3)
    table = ot.effects.message(corpus).drop_nulls("effect")
    credits = ot.credit(corpus, method="c3", unit="event").select("trace", "seq", "credit")
    both = table.join(credits, on=["trace", "seq"])
    assert both.height == table.height > 20
    assert (both["effect"] - both["credit"]).abs().max() < 1e-12


def test_intervals_of_messages_cover_planted_contributions() -> None:
    inside = total = 0
    for seed in range(8):
        corpus, truth = ot.synthetic.planted(
            traces=320, seed=seed, decisive=0.0, density=0.4, events=8, group_size=10
        )
        table = ot.effects.message(corpus).drop_nulls("stderr")
        rows = table.join(truth.contributions, on=["trace", "seq"])
        # one answer a choice: those who made it share it; its siblings are one place of one group
        group = pl.col("trace") // 10
        per = rows.group_by(group.alias("group"), "seq", "effect").agg(
            pl.col("lower", "upper", "n_treated", "contribution").first(), n=pl.len()
        )
        whole = per.filter(pl.col("n").sum().over("group", "seq") == 10)  # all ten runs sent a message
        amount = (pl.col("n") * pl.col("contribution")).sum().over("group", "seq")
        rest = (amount - pl.col("n") * pl.col("contribution")) / (10 - pl.col("n"))
        judged = whole.with_columns(true=pl.col("contribution") - rest)
        inside += judged.filter(pl.col("true").is_between("lower", "upper")).height
        total += judged.height
    assert total > 80 and 0.9 <= inside / total <= 0.99


# --- delegations --------------------------------------------------------------------------------------


def test_shrinkage_by_hand() -> None:
    # x has four classes with two outcomes each, means 1, 5, 2, 4; y has one of the classes
    pairs = {("a", "x"): 1.0, ("b", "x"): 5.0, ("c", "x"): 2.0, ("d", "x"): 4.0, ("a", "y"): 3.0}
    units = [(c, who, mean + off) for (c, who), mean in pairs.items() for off in (-1.0, 1.0)]
    frame = pl.DataFrame(units, schema=["subtask", "delegate", "reward"], orient="row")
    table, variances = shrunk(frame, 0.95)
    sigma2 = 5 * 2.0 / 5
    q = 2 * (4 + 4 + 1 + 1)
    tau2 = (q - sigma2 * 3) / (8 - 4 * 4 / 8)
    assert variances == {"sigma2": pytest.approx(sigma2), "tau2": pytest.approx(tau2)}
    pull = (3 - 2) / 3 * (sigma2 / 2) / (tau2 + sigma2 / 2)
    drawn = {c: mean - pull * (mean - 3.0) for (c, who), mean in pairs.items() if who == "x"}
    assert table["subtask"].to_list() == ["a", "a", "b", "c", "d"]
    assert table["outcome_cf"].to_list() == pytest.approx([drawn["a"], 3.0, *(drawn[c] for c in "bcd")])
    assert table["support"].to_list() == pytest.approx([1 - pull, 1.0, *[1 - pull] * 3])
    assert table["effect"].to_list()[:2] == pytest.approx([(drawn["a"] - 3) / 2, (3 - drawn["a"]) / 2])
    v_x = (1 - pull) * sigma2 / 2 + pull**2 * (tau2 + sigma2 / 2) / 4 + 2 / (3 - 2) * (pull * 2.0) ** 2
    assert table["stderr"][0] == pytest.approx(math.sqrt((v_x + sigma2 / 2) / 4))
    assert table["reason"].to_list() == [None, None, *["siblings.absent"] * 3]
    assert table["effect"].null_count() == table["tier"].null_count() == 3


def test_large_outcomes_without_noise_are_numbers() -> None:
    cells = {"subtask": [*"aabbccdd"], "delegate": [*"xyxyxyxy"], "reward": [1e12, 3e12] * 4}
    found = shrunk(pl.concat([pl.DataFrame(cells)] * 2), 0.95)[0]
    assert found["effect"].to_list() == [-1e12, 1e12] * 4 and set(found["stderr"]) == {0.0}
    assert found["lower"].null_count() == found["upper"].null_count() == 8
    assert set(found["reason"]) == {"group.degenerate"} and set(found["tier"]) == {"surrogate"}


def test_noise_alone_is_drawn_together() -> None:
    rng = np.random.default_rng(0)
    names = [(f"c{c}", f"a{a}") for c in range(6) for a in range(4) for _ in range(5)]
    units = pl.DataFrame(names, schema=["subtask", "delegate"], orient="row")
    units = units.with_columns(reward=pl.Series(rng.normal(size=120)))
    table, _ = shrunk(units, 0.95)
    raw, drawn = table["mean"].var(), table["outcome_cf"].var()
    assert drawn < 0.5 * raw


@pytest.mark.parametrize("spread", [0.4, 1.0])
def test_intervals_of_delegations_cover_on_average(spread: float) -> None:
    rng = np.random.default_rng(4)
    inside = total = 0
    for _ in range(150):
        ability = rng.normal(size=5)
        true = {(f"c{c}", f"a{a}"): ability[a] + spread * rng.normal() for c in range(6) for a in range(5)}
        names = [pair for pair in true for _ in range(int(rng.integers(3, 9)))]
        values = [true[pair] + rng.normal() for pair in names]
        units = pl.DataFrame(names, schema=["subtask", "delegate"], orient="row")
        table, _ = shrunk(units.with_columns(reward=pl.Series(values)), 0.95)
        n = defaultdict(int)
        for pair in names:
            n[pair] += 1
        for row in table.iter_rows(named=True):
            own = [pair for pair in n if pair[0] == row["subtask"]]
            class_mean = sum(n[p] * true[p] for p in own) / sum(n[p] for p in own)
            effect = true[row["subtask"], row["delegate"]] - class_mean
            inside += row["lower"] <= effect <= row["upper"]
            total += 1
    assert 0.93 <= inside / total <= 0.97


def team(runs: list[tuple[str, float, list[dict[str, object]]]]) -> ot.Corpus:
    """Runs of (task, reward, events)."""
    events = [
        {"trace": n, "id": f"e{k}", "t": float(k), "agent": "lead", **event}
        for n, (_, _, own) in enumerate(runs)
        for k, event in enumerate(own)
    ]
    traces = {
        "trace": range(len(runs)),
        "trace_id": [f"run {n}" for n in range(len(runs))],
        "task_id": [task for task, _, _ in runs],
    }
    measures = [
        {"trace": n, "kind": "reward", "name": "team", "value": r} for n, (_, r, _) in enumerate(runs)
    ]
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(traces),
        events=pl.DataFrame(events, infer_schema_length=None),
        measures=pl.DataFrame(measures),
    )


def delegated(to: str, subtask: str | None, kind: str = "spawn") -> dict[str, object]:
    return {"type": kind, "to": to, "subtask_id": subtask}


def test_delegations_are_spawns_and_messages_of_the_root() -> None:
    first = {"type": "orchestrator_decision"}
    code, text = delegated("ann", "code"), delegated("bob", "text", "message")
    others = [delegated("bob", None), {**delegated("ann", "text", "message"), "agent": "bob"}]
    runs = [
        ("t1", 1.0, [first, code, code, text]),
        ("t2", 0.0, [first, code, *others]),
        ("t3", 0.5, [first, delegated("bob", "code")]),
        ("t3", 1.0, [first, delegated("bob", "code"), delegated("lead", "text", "message")]),
    ]
    table = ot.effects.delegation(team(runs))
    assert table.select("subtask", "delegate", "mean", "n_delegations", "n_traces", "n_tasks").rows() == [
        ("code", "ann", 0.5, 3, 2, 2),
        ("code", "bob", 0.75, 2, 2, 1),
        ("text", "bob", 1.0, 1, 1, 1),
    ]
    assert table["reason"].to_list() == [None, None, "siblings.absent"]
    # two classes of one delegate are too few to draw to a mean; as delegated: two tasks to one
    assert table["outcome"].to_list()[:2] == pytest.approx([(2 * 0.5 + 0.75) / 3] * 2)
    assert json.loads(table["params"][0])["sigma2"] == pytest.approx(0.5)
    assert table.schema == pl.Schema(DELEGATIONS)


def test_delegations_without_a_variance_or_a_class() -> None:
    runs = [("t1", 1.0, [delegated("ann", "code")]), ("t2", 0.0, [delegated("bob", "code")])]
    table = ot.effects.delegation(team(runs))
    assert table["effect"].null_count() == table["outcome_cf"].null_count() == 2
    assert table["reason"].to_list() == ["support.absent"] * 2 and table["mean"].to_list() == [1.0, 0.0]
    assert ot.effects.delegation(team([("t", 1.0, [delegated("ann", None)])])).is_empty()


# --- aggregations -------------------------------------------------------------------------------------


def by_rule(scores: list[float], clip: float) -> dict[str, float]:
    odds = math.fsum(math.log(p / (1 - p)) for p in (min(max(s, clip), 1 - clip) for s in scores))
    return {
        "best": max(scores),
        "majority": float(sum(s >= 0.5 for s in scores) > len(scores) / 2),
        "mean": mean(scores),
        "confidence": 1 / (1 + math.exp(-odds)),
    }


@pytest.mark.parametrize("clip", [0.01, 0.2])
def test_aggregations_are_those_of_the_reference(clip: float) -> None:
    corpus = ot.generate(traces=60, seed=0)
    table = ot.effects.aggregation(corpus, by="event", clip=clip)
    events = {(e["trace"], e["seq"]): e for e in corpus.events.collect().iter_rows(named=True)}
    into: dict[tuple[int, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for edge in corpus.edges.collect().iter_rows(named=True):
        into[edge["trace"], edge["dst"]][edge["type"]].add(edge["src"])
    expected, effects = 0, defaultdict(list)
    rows = {(r["trace"], r["seq"], r["rule"]): r for r in table.iter_rows(named=True)}
    for key, joined in events.items():
        if joined["type"] != "aggregate":
            continue
        kinds = into[key]
        inputs = kinds["aggregate"] or kinds["return"] | kinds["message"]
        if not inputs:
            continue
        scores = [events[key[0], u]["score"] for u in inputs]
        for rule in ("best", "majority", "mean", "confidence"):
            row = rows[*key, rule]
            expected += 1
            known = [s for s in scores if s is not None]
            assert (row["n_inputs"], row["n_scored"]) == (len(inputs), len(known))
            assert row["outcome"] == joined["score"] and row["unit_id"] == joined["id"]
            if len(known) < len(inputs):
                assert row["outcome_cf"] is None and row["reason"] == "field.absent"
                continue
            value = by_rule(known, clip)[rule]
            assert row["outcome_cf"] == pytest.approx(value, abs=1e-12)
            if joined["score"] is None:
                assert row["effect"] is None and row["tier"] is None and row["reason"] == "field.absent"
                continue
            assert row["effect"] == pytest.approx(value - joined["score"], abs=1e-12)
            assert row["tier"] == "observed" and row["stderr"] is None
            effects[rule].append((row["effect"], key[0]))
    assert expected == table.height > 100 and len(effects["best"]) > 50
    tasks = dict(corpus.traces.select("trace", "task_id").collect().iter_rows())
    for row in ot.effects.aggregation(corpus, clip=clip).iter_rows(named=True):
        own = effects[row["rule"]]
        whole = mean([effect for effect, _ in own])
        assert row["effect"] == pytest.approx(whole) and row["n_used"] == len(own)
        sums, share = defaultdict(float), defaultdict(float)
        for effect, trace in own:
            sums[tasks[trace]] += (effect - whole) / len(own)
            share[tasks[trace]] += 1 / len(own)
        squares = [s * s / (1 - share[task]) for task, s in sums.items()]
        assert row["stderr"] == pytest.approx(math.sqrt(sum(squares)))
        assert row["lower"] < row["effect"] < row["upper"]


def test_aggregations_without_scores_or_inputs() -> None:
    corpus, _ = ot.synthetic.planted(traces=8, seed=0)
    table = ot.effects.aggregation(corpus)
    assert set(table["reason"]) == {"field.absent"} and table["effect"].null_count() == 4
    alone = team([("t", 1.0, [{"type": "aggregate"}])])
    assert set(ot.effects.aggregation(alone)["reason"]) == {"outcome.absent"}
    assert ot.effects.aggregation(alone, by="event").is_empty()


@pytest.mark.parametrize("result", [1e308, -1e308])
def test_aggregations_beyond_the_floats_say_so(result: float) -> None:
    inputs = [event(n, agent=agent, score=1e308) for n, agent in enumerate(("ann", "bob"))]
    events = [*inputs, event(2, agent="cleo", type="aggregate", score=result)]
    runs = [run(n, 1.0, events, [(0, 2), (1, 2)], task=f"t{n}", edge_type="aggregate") for n in range(3)]
    corpus = ot.read_traces(io.BytesIO(jsonl(runs)), format="native")
    by_rule, by_event = (ot.effects.aggregation(corpus, by=by) for by in ("rule", "event"))  # type: ignore[arg-type]
    for table in (by_rule, by_event):
        assert all(table[name].drop_nulls().is_finite().all() for name in ("outcome", "outcome_cf", "effect"))
    rows = {row["rule"]: row for row in by_rule.rows(named=True)}
    assert {row["reason"] for row in rows.values()} == {"result.range"}
    assert rows["best"]["effect"] == (0.0 if result > 0 else None) and rows["majority"]["outcome_cf"] == 1.0
    beyond = by_event.filter(pl.col("outcome_cf").is_null() | pl.col("effect").is_null())
    assert beyond.height and set(beyond["reason"]) == {"result.range"} and beyond["tier"].null_count()


# --- all of them --------------------------------------------------------------------------------------

VERBS = {
    "matched": lambda c: ot.effects.matched(c, pl.col("type") == "message"),
    "spawn": lambda c: ot.effects.spawn(c, monotone=True),
    "messages": ot.effects.message,
    "delegations": lambda c: ot.effects.delegation(c, delegate="role"),
    "rules": lambda c: ot.effects.aggregation(c),
    "aggregates": lambda c: ot.effects.aggregation(c, by="event"),
}


@pytest.mark.parametrize("name", VERBS)
@pytest.mark.parametrize(
    "make", [lambda: ot.generate(traces=40, seed=1), lambda: ot.synthetic.planted(traces=40)[0]]
)
def test_no_number_without_a_tier_and_no_gap_without_a_reason(name: str, make: Any) -> None:
    table = VERBS[name](make())
    numbers = table.filter(pl.col("effect").is_not_null())
    assert numbers["tier"].null_count() == 0
    if name != "aggregates":  # a single one has no spread
        assert (numbers["reason"].is_null() == numbers["lower"].is_not_null()).all()
        assert (numbers["stderr"] != 0.0).all() or numbers.filter(stderr=0.0)["lower"].null_count() > 0
    assert (numbers["lower"] < numbers["upper"]).all()
    bare = table.filter(pl.col("effect").is_null())
    bounds = bare.filter(pl.col("lower").is_not_null())
    assert bounds.is_empty() or (name == "spawn" and set(bounds["estimate"]) <= {"bounds", "monotone"})
    assert bare.filter(pl.col("lower").is_null())["reason"].null_count() == 0
    assert bare["stderr"].null_count() == bare.height
    assert table["support"].is_between(0.0, 1.0).all() and table["params"].null_count() == 0
    assert all(json.loads(text) for text in table["params"].unique())


@pytest.mark.parametrize("name", VERBS)
def test_a_corpus_without_traces(name: str) -> None:
    corpus = ot.generate(traces=3, seed=0)
    nothing = corpus.filter(pl.col("trace") < 0)
    if name in ("rules", "aggregates"):
        assert VERBS[name](nothing)["effect"].null_count() == VERBS[name](nothing).height
    else:
        table = VERBS[name](nothing)
        assert table["effect"].null_count() == table.height


def test_columns_are_fixed() -> None:
    corpus = ot.generate(traces=12, seed=0)
    assert ot.effects.message(corpus).schema == pl.Schema(MESSAGES)
    assert ot.effects.delegation(corpus).schema == pl.Schema(DELEGATIONS)
    for by in ("rule", "event"):
        assert ot.effects.aggregation(corpus, by=by).schema == pl.Schema(AGGREGATIONS[by])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: ot.effects.message(c, reward="tem"), "unknown reward channel 'tem'"),
        (lambda c: ot.effects.message(c, confidence=2), "confidence is 2, expected a number between 0 and 1"),
        (lambda c: ot.effects.message(c, context="none"), "context is 'none', expected"),
        (lambda c: ot.effects.delegation(c, subtask="clas"), "subtask: unknown column 'clas'"),
        (lambda c: ot.effects.delegation(c, delegate="tool"), "delegate is 'tool', expected"),
        (lambda c: ot.effects.aggregation(c, by="run"), "by is 'run', expected"),
        (lambda c: ot.effects.aggregation(c, clip=0.5), "clip is 0.5"),
        (lambda c: ot.effects.aggregation(c, confidence=0), "confidence is 0"),
        (lambda c: ot.effects.aggregation(3), "corpus is 3, expected a corpus"),
    ],
)
def test_mistakes_are_told_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        call(ot.generate(traces=3, seed=0))
    assert message in str(error.value) and "\n" not in str(error.value)
