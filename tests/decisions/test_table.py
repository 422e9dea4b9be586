"""The table of the five decisions: against plain Python, without a look ahead, and equal to its parts."""

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace.decisions.rows import decision_rows
from orchestrace.decisions.tables.state import NUMBERS, OF_EPOCHS, WORDS
from orchestrace.decisions.tables.verb import KINDS, TABLE
from reference.decisions import rows_of, state
from reference.trace import Trace
from samples.examples import examples
from samples.hand_runs import event, run
from samples.random_runs import Document, corpora, jsonl

STATE = [*NUMBERS, *WORDS]
IN_TRACE = ["spawn", "delegate", "communicate", "aggregate"]


def read(documents: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), format="native", time_basis="seconds")


@st.composite
def recordings(draw: st.DrawFn) -> list[Document]:
    """Recordings in which anything that a state is made of may be there."""
    documents = draw(corpora(full=("content_hash",), max_traces=4, max_events=14))
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    words = ["spawn", "no_spawn", "send", "best", "worker", "ann", "stop", "continue"]
    for document in documents:
        for one in document["events"]:
            if r.random() < 0.3:
                one["ok"] = r.random() < 0.5
            if r.random() < 0.3:
                one["cost_usd"] = r.randrange(8) / 4
            if r.random() < 0.3:
                one["subtask_id"] = r.choice(["s1", "s2"])
            if r.random() < 0.3:
                one["tokens"] = r.randrange(2000)
            if r.random() < 0.3:
                one |= {"action": r.choice(words), "p_behavior": 0.5}
            if r.random() < 0.4:
                one["score"] = r.choice([0.0, 0.25, 0.5, 1.0])
            if one["type"] in ("orchestrator_decision", "aggregate") and r.random() < 0.3:
                one["draft_score"] = r.choice([0.0, 0.5, 1.0])
    return documents


def has_team(documents: list[Document]) -> bool:
    return any("team" in document["rewards"] for document in documents)


# --- rows, states and actions -----------------------------------------------------------------------------


@examples(150)
@given(recordings(), st.sampled_from(IN_TRACE))
def test_rows_are_those_of_plain_python(documents: list[Document], kind: Any) -> None:
    if not has_team(documents):
        return
    table = ot.decisions.table(read(documents), kind)
    expected = rows_of(documents, kind)
    assert table.select("trace_id", "seq").rows() == [(row["trace_id"], row["seq"]) for row in expected]
    left_out = {"context", "role", "choice"}
    if kind == "communicate":  # its alternatives are choices, whose reference is that of effects.message
        left_out |= {"n_alternatives", "alternatives"}
    for row, told in zip(table.to_dicts(), expected, strict=True):
        assert row["kind"] == KINDS[kind]
        for name in told.keys() - left_out:
            assert row[name] == pytest.approx(told[name], abs=1e-12), (name, row[name], told[name])
        assert all(row[name] is None for name in OF_EPOCHS)
    assert set(expected[0]) >= set(STATE) - set(OF_EPOCHS) if expected else True


@examples(60)
@given(recordings(), st.sampled_from([None, "draft", "decision", "score", "turn"]))
def test_stops_are_epochs_with_the_state_after_them(documents: list[Document], source: Any) -> None:
    if not has_team(documents):
        return
    corpus = read(documents)
    table = ot.decisions.table(corpus, "stop", source=source)
    told = ot.stopping.epochs(corpus, source).sort("trace_id", "trace", "k")
    assert table.select("trace", "seq", "x_k").rows() == told.select("trace", "seq", "x_k").rows()
    shared = [name for name in told.columns if name in STATE]
    assert len(shared) > 15
    assert_frame_equal(table.select(shared), told.select(shared))
    recorded = {
        (n, v): e.get("action") for n, one in enumerate(documents) for v, e in enumerate(one["events"])
    }
    assert table["action"].to_list() == [
        recorded[trace, seq] if origin == "decision" else "stop" if last else "continue"
        for trace, seq, origin, last in told.select("trace", "seq", "source", "last").iter_rows()
    ]
    assert table["outcome"].to_list() == told["y"].to_list()
    assert set(table["n_alternatives"]) <= {2} and set(table["kind"]) <= {"O5"}
    for row in table.to_dicts():
        document = documents[row["trace"]]
        trace = Trace(document)
        seen = [u for u in trace.order if trace.rank[u] <= trace.rank[row["seq"]]]
        for name, value in state(trace, document, seen).items():
            assert row[name] == pytest.approx(value, abs=1e-12), name
        assert row["actor"] == trace.owner[row["seq"]]
        one = trace.events[row["seq"]]
        said = one["action"] == row["action"]
        assert row["p_behavior"] == (one["p_behavior"] if said else None)


@examples(60)
@given(recordings())
def test_the_state_is_that_of_rows_of_decisions(documents: list[Document]) -> None:
    """Position, tools and agents mean what they mean to `effects.matched`."""
    if not has_team(documents):
        return
    corpus = read(documents)
    table = ot.decisions.table(corpus, "communicate").with_columns(pl.col("trace", "seq").cast(pl.Int64))
    rows = table.join(decision_rows(corpus, "team"), on=["trace", "seq"], how="left")
    for name in ("position", "step", "n_tools", "n_agents"):
        assert rows[f"x_{name}"].to_list() == rows[name].cast(pl.Float64).to_list()
    told = rows.filter(pl.col("x_tokens_before").is_not_null())
    assert (told["x_budget"] == (1 + told["x_tokens_before"]).log(2).floor()).all()


def test_one_schema_for_all_kinds() -> None:
    full, empty = ot.generate(traces=8, seed=1), ot.generate(traces=2, seed=1).filter(pl.lit(False))
    schema = pl.Schema(TABLE)
    for kind in KINDS:
        for corpus in (full, empty):
            assert ot.decisions.table(corpus, kind).schema == schema, kind  # type: ignore[arg-type]
    assert ot.decisions.table(full, "stop", source="attempt").schema == schema
    assert set(KINDS.values()) == {"O1", "O2", "O3", "O4", "O5"}


@pytest.mark.parametrize("kind", ["spawn", "delegate"])
def test_counts_are_those_of_metrics(kind: Any) -> None:
    corpus = ot.generate(traces=30, seed=2)
    table = ot.decisions.table(corpus, kind)
    if kind == "delegate":
        told = ot.metrics(corpus, groups=["delegation"])
        assert table.height == told["n_delegations"].sum() > 50
    else:
        decisions = ot.metrics(corpus)["n_decisions"].sum()  # of any agent
        assert 20 < table.height <= decisions


# --- no look ahead ----------------------------------------------------------------------------------------


def without_the_rest(document: Document, kept: list[int]) -> Document:
    ids = {document["events"][v]["id"] for v in kept}
    return document | {
        "events": [document["events"][v] for v in kept],
        "edges": [edge for edge in document["edges"] if edge["src"] in ids and edge["dst"] in ids],
    }


def changed(document: Document, later: set[int], r: random.Random) -> Document:
    """The same recording, with anything told by later events that does not say whose they are."""
    copied: Document = json.loads(json.dumps(document))
    for v in later:
        one = copied["events"][v]
        one |= {"content_hash": "other", "args_hash": "other", "tokens": r.randrange(9000), "cost_usd": 9.0}
        one |= {"ok": r.random() < 0.5, "score": r.random(), "state_key": "other", "subtask_id": "other"}
        one |= {"action": "other", "p_behavior": 0.125, "tool": "other"} if one.get("tool") is None else {}
    copied["rewards"] = {name: 1.0 - value for name, value in copied["rewards"].items()}
    return copied


def owners_of(document: Document) -> list[str | None]:
    return Trace(document).owner


@examples(60)
@given(recordings(), st.integers(0, 40), st.randoms(use_true_random=False))
@pytest.mark.every_nth(4)
def test_nothing_after_a_decision_is_known_there(
    documents: list[Document], at: int, r: random.Random
) -> None:
    document = documents[0]
    if "team" not in document["rewards"]:
        return
    trace = Trace(document)
    for kind in KINDS:
        options: dict[str, Any] = {"source": "score"} if kind == "stop" else {}
        whole = ot.decisions.table(read([document]), kind, **options)  # type: ignore[arg-type]
        if not whole.height:
            continue
        row = whole.row(at % whole.height, named=True)
        kept = [v for v in range(len(trace)) if trace.rank[v] <= trace.rank[row["seq"]]]
        later = set(range(len(trace))) - set(kept)
        cut = without_the_rest(document, kept)
        # whose an event is, and who is an agent at all, may hang on what comes later: these are left out
        if owners_of(cut) != [trace.owner[v] for v in kept] or Trace(cut).root != trace.root:
            continue
        place = {v: n for n, v in enumerate(kept)}
        for other, seq in ((cut, place[row["seq"]]), (changed(document, later, r), row["seq"])):
            if other is not cut and owners_of(other) != trace.owner:
                continue
            found = ot.decisions.table(read([other]), kind, **options).filter(seq=seq)  # type: ignore[arg-type]
            assert found.height == 1
            told = whole.filter(seq=row["seq"]).select(STATE).row(0)
            assert found.select(STATE).row(0) == told, kind


def test_a_spawn_of_who_acts_already_is_not_known_before() -> None:
    events = [
        event(0, agent="lead", type="orchestrator_decision"),
        event(1, agent="ann", type="message", to="lead"),
        event(2, agent="lead", type="spawn", to="ann"),
        event(3, agent="ann", type="message", to="lead"),
    ]
    corpus = read([run(0, 1.0, events, [])])
    assert ot.decisions.table(corpus, "communicate")["x_depth"].to_list() == [0.0, 1.0]


def test_a_role_that_is_told_later_is_not_known_before() -> None:
    events = [
        event(0, agent="lead", type="orchestrator_decision"),
        event(1, agent="lead", type="orchestrator_decision", role="planner"),
        event(2, agent="lead", type="orchestrator_decision"),
    ]
    table = ot.decisions.table(read([run(0, 1.0, events, [])]), "spawn")
    assert table["x_role"].to_list() == [None, "planner", "planner"]


# --- effects are those of their verbs -----------------------------------------------------------------------


def planted(**options: Any) -> tuple[ot.Corpus, ot.synthetic.Truth]:
    given: dict[str, Any] = {"traces": 96, "agents": 3, "events": 8, "seed": 3, **options}
    return ot.synthetic.planted(**given)


@pytest.mark.parametrize("propensity", ["fitted", "recorded"])
def test_spawns_have_the_effect_of_spawn(propensity: str) -> None:
    corpus, _ = planted(spawn_effect=1.0, decisive=0.0, events=4)
    if propensity == "fitted":
        # the same choice as a field of events, which an expression can name
        corpus = corpus.with_fields(
            ot.decisions.table(corpus, "spawn").select("trace", "seq", model="action")
        )
        treatment, among = pl.col("model") == "spawn", pl.col("model").is_in(["spawn", "no_spawn"])
    else:
        first = corpus.events.select("trace", "seq", "p_behavior").filter(pl.col("seq") == 0).collect()
        words = ot.decisions.table(corpus, "spawn").select("trace", "seq", action="action")
        known = words.join(first, on=["trace", "seq"], how="left").with_columns(
            pl.col("p_behavior").fill_null(0.5)
        )
        corpus = corpus.with_fields(known)
        among = pl.col("action").is_in(["spawn", "no_spawn"]) & (pl.col("type") == "orchestrator_decision")
        treatment = pl.col("action") == "spawn"
    told = ot.effects.spawn(corpus, treatment=treatment, among=among, bounds=(-50.0, 50.0), costs=False)
    aipw, bounds = told.row(0, named=True), told.row(1, named=True)
    table = ot.decisions.table(corpus, "spawn", bounds=(-50.0, 50.0))
    assert (
        json.loads(aipw["params"])["propensity"] == json.loads(table["params"][0])["propensity"] == propensity
    )
    inside = table.filter(pl.col("effect").is_not_null())
    assert inside.height == round(aipw["overlap"] * table.height) == aipw["n_treated"] + aipw["n_control"]
    assert inside["tier"].unique().to_list() == [aipw["tier"]]
    for action, sign, n in (("spawn", 1, "n_treated"), ("no_spawn", -1, "n_control")):
        own = inside.filter(action=action)
        ends = (aipw["lower"], aipw["upper"]) if sign > 0 else (-aipw["upper"], -aipw["lower"])
        assert own.select("effect", "lower", "upper").unique().rows() == [(sign * aipw["effect"], *ends)]
        assert own["n_action"].unique().to_list() == [aipw[n]] == [own.height]
        assert own["n_other"].unique().to_list() == [inside.height - own.height]
    # the bounds of single decisions, with the sign of the choice, are in the mean those of Manski
    outcome, spawned = table["outcome"], table["action"] == "spawn"
    low, high = outcome - 50.0, outcome + 50.0
    lower = table.select(pl.when(spawned).then(low).otherwise(-high)).to_series().mean()
    upper = table.select(pl.when(spawned).then(high).otherwise(-low)).to_series().mean()
    assert (lower, upper) == pytest.approx((bounds["lower"], bounds["upper"]))


def test_spawns_without_overlap_are_bounds() -> None:
    """Every run spawns: no number says what would have been without, whatever is fitted."""
    events = [
        event(0, agent="lead", type="orchestrator_decision"),
        event(1, agent="lead", type="spawn", to="ann"),
        event(2, agent="ann", type="return", to="lead"),
    ]
    corpus = read([run(n, n % 3 / 2, events, [(0, 1), (1, 2)]) for n in range(9)])
    alone = ot.decisions.table(corpus, "spawn")
    assert alone["effect"].null_count() == alone.height == 9
    assert set(alone["reason"]) == {"range.unknown"} and alone["lower"].null_count() == 9
    bounded = ot.decisions.table(corpus, "spawn", bounds=(0.0, 1.0))
    assert set(bounded["reason"]) == {"overlap.absent"} and set(bounded["tier"]) == {"observed"}
    assert bounded["lower"].to_list() == [n % 3 / 2 - 1.0 for n in range(9)]
    assert bounded["upper"].to_list() == [n % 3 / 2 for n in range(9)]


def test_delegations_have_the_effect_of_delegation() -> None:
    corpus, _ = planted()
    table = ot.decisions.table(corpus, "delegate", confidence=0.9)
    told = ot.effects.delegation(corpus, delegate="role", confidence=0.9)
    assert table.height == told["n_delegations"].sum() > 50
    joined = table.join(
        told, left_on=["x_subtask_id", "action"], right_on=["subtask", "delegate"], how="left", suffix="_told"
    )
    for name in ("effect", "lower", "upper", "tier", "reason"):
        assert_frame_equal(
            joined.select(name), joined.select(pl.col(f"{name}_told").cast(TABLE[name]).alias(name))
        )
    assert joined["n_action"].to_list() == joined["n_delegations"].to_list()
    whole = {task: own["n_delegations"].sum() for (task,), own in told.group_by("subtask")}
    assert [n + m for n, m in table.select("n_action", "n_other").rows()] == [
        whole[task] for task in table["x_subtask_id"]
    ]


@examples(40)
@given(recordings())
def test_messages_have_the_effect_of_message(documents: list[Document]) -> None:
    if not has_team(documents):
        return
    corpus = read(documents)
    table = ot.decisions.table(corpus, "communicate", bounds=(-2.0, 1.0))
    told = ot.effects.message(corpus)
    joined = table.join(told, on=["trace", "seq"], how="left", suffix="_told")
    assert joined["unit_id"].null_count() == 0
    found = joined.filter(pl.col("effect_told").is_not_null())
    for name in ("effect", "lower", "upper", "tier", "reason"):
        assert found[name].cast(pl.String).to_list() == found[f"{name}_told"].cast(pl.String).to_list()
    lost = joined.filter(pl.col("effect_told").is_null())
    assert lost["effect"].null_count() == lost.height
    assert lost["reason"].cast(pl.String).to_list() == lost["reason_told"].cast(pl.String).to_list()
    assert lost["upper"].to_list() == [None if y is None else y + 2.0 for y in lost["outcome"]]
    assert lost["lower"].to_list() == [None if y is None else y - 1.0 for y in lost["outcome"]]
    for ours, theirs in (
        ("n_action", "n_treated"),
        ("n_other", "n_control"),
        ("n_alternatives", "n_candidates"),
    ):
        assert joined[ours].to_list() == joined[theirs].to_list()


@pytest.mark.parametrize("rule", ["best", "majority", "mean", "confidence"])
def test_aggregates_have_the_effect_of_aggregation(rule: Any) -> None:
    corpus = ot.generate(traces=60, seed=0)
    table = ot.decisions.table(corpus, "aggregate", rule=rule)
    told = ot.effects.aggregation(corpus, by="event").filter(rule=rule)
    joined = table.join(told, on=["trace", "seq"], how="left", suffix="_told")
    assert joined["effect"].to_list() == [None if x is None else -x for x in joined["effect_told"]]
    assert joined["effect"].count() > 20
    same = joined.filter(action=rule)
    assert same["effect"].abs().max() in (None, pytest.approx(0.0, abs=1e-8))
    assert json.loads(table["params"][0])["unit"] == "score"


def test_the_action_of_an_aggregate_is_the_rule_that_gives_its_score() -> None:
    def joined(score: float | None, *inputs: float | None) -> list[dict[str, Any]]:
        own = [event(n, agent=f"w{n}", type="return", to="lead", score=x) for n, x in enumerate(inputs)]
        return [*own, event(len(own), agent="lead", type="aggregate", score=score)]

    cases = [
        (joined(0.9, 0.9, 0.1, 0.2), "best"),
        (joined(0.4, 0.9, 0.1, 0.2), "mean"),
        (joined(0.0, 0.9, 0.1, 0.2), "majority"),
        (joined(0.3, 0.9, 0.1, 0.2), "other"),
        (joined(0.5, 0.5, 0.5), "best"),  # each rule gives it: the first
        (joined(None, 0.9, 0.1), None),
        (joined(0.9, 0.9, None), None),
    ]
    documents = [
        run(n, 1.0, events, [(v, len(events) - 1) for v in range(len(events) - 1)])
        for n, (events, _) in enumerate(cases)
    ]
    for document in documents:
        document["edges"] = [edge | {"type": "aggregate"} for edge in document["edges"]]
    table = ot.decisions.table(read(documents), "aggregate")
    assert table["action"].to_list() == [action for _, action in cases]
    unknown = table.filter(pl.col("action").is_null())
    assert unknown.select("reason", "effect").unique().rows() == [("field.absent", None)]


def test_going_on_is_worth_what_the_next_epoch_added() -> None:
    corpus, _ = planted(stop_cost=0.1)
    table = ot.decisions.table(corpus, "stop", bounds=(-50.0, 50.0))
    told = ot.stopping.epochs(corpus, "draft").sort("trace_id", "k")
    assert table.height == told.height > 100
    quality = told["q"].to_list()
    for n, (row, last) in enumerate(zip(table.iter_rows(named=True), told["last"], strict=True)):
        if last:
            assert (row["action"], row["effect"], row["reason"]) == ("stop", None, "siblings.absent")
            assert (row["lower"], row["upper"]) == (row["outcome"] - 50.0, row["outcome"] + 50.0)
        else:
            assert row["effect"] == quality[n + 1] - quality[n] and row["reason"] is None
            assert (row["lower"], row["upper"], row["tier"]) == (None, None, "observed")
    # the effects of a run add up to what its last answer is better than its first
    for _, own in table.group_by("trace_id"):
        ends = told.filter(pl.col("trace_id") == own["trace_id"][0])["q"]
        assert own["effect"].sum() == pytest.approx(ends[-1] - ends[0], abs=1e-9)


def test_epochs_without_a_quality_have_no_effect() -> None:
    table = ot.decisions.table(ot.generate(traces=5, seed=0), "stop", source="turn")
    reasons = table.group_by("action").agg(pl.col("reason").unique()).sort("action")
    assert reasons.rows() == [("continue", ["field.absent"]), ("stop", ["range.unknown"])]
    assert table["effect"].null_count() == table.height
    assert {json.loads(text)["source"] for text in table["params"]} == {"turn"}


def test_attempts_are_decisions_to_try_again() -> None:
    corpus, _ = planted()
    table = ot.decisions.table(corpus, "stop", source="attempt")
    told = ot.stopping.epochs(corpus, "attempt")
    assert table.height == told.height == len(corpus)
    assert table["seq"].null_count() == table["actor"].null_count() == table.height
    assert table["x_k"].to_list() == told.sort("trace_id", "k")["x_k"].to_list()
    gains = table.filter(action="continue")["effect"]
    assert gains.null_count() == 0 and (gains >= 0.0).all() and (gains > 0.0).any()  # the best so far


# --- credit, order, disk, mistakes -------------------------------------------------------------------------


@pytest.mark.every_nth(5)
@pytest.mark.parametrize("unit", ["event", "turn", "agent", "role", "team"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_credit_is_that_of_the_unit_of_the_event(unit: Any, kind: Any) -> None:
    corpus = ot.generate(traces=12, seed=4)
    credits = ot.credit(corpus, method="uniform", unit=unit)
    assert isinstance(credits, pl.DataFrame)
    table = ot.decisions.table(corpus, kind, credits=credits)
    by_unit = {
        (trace, name): credit
        for trace, name, credit in credits.select("trace", pl.col("unit_id").cast(pl.String), "credit").rows()
    }
    out = io.BytesIO()
    corpus.write_jsonl(out)
    documents = [json.loads(line) for line in out.getvalue().splitlines()]
    units = [Trace(document).units(unit) for document in documents]
    for trace, seq, credit in table.select("trace", "seq", "credit").rows():
        name = units[trace][seq]
        assert credit == (None if name is None else by_unit[trace, name])
    assert table["credit"].count() > 0
    assert_frame_equal(table.drop("credit"), ot.decisions.table(corpus, kind).drop("credit"))


def test_credits_that_do_not_fit() -> None:
    corpus = ot.generate(traces=3, seed=4)
    both = ot.credit(corpus, method="uniform", unit="agent"), ot.credit(corpus, method="flow", unit="agent")
    events = ot.credit(corpus, method="uniform", unit="event")
    with pytest.raises(ot.ParameterError, match="twice: give those of one method and one reward"):
        ot.decisions.table(corpus, "spawn", credits=pl.concat(both))
    with pytest.raises(ot.ParameterError, match="credits are at units agent, event"):
        ot.decisions.table(corpus, "spawn", credits=pl.concat([both[0], events]))
    with pytest.raises(ot.ParameterError, match="is not in the corpus"):
        ot.decisions.table(corpus.filter(pl.col("trace") == 0), "spawn", credits=events)
    with pytest.raises(ot.ParameterError, match="credits has no column 'unit_id'"):
        ot.decisions.table(corpus, "spawn", credits=events.drop("unit_id"))


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_order_of_recordings_changes_nothing(kind: Any) -> None:
    out = io.BytesIO()
    planted(spawn_effect=1.0)[0].write_jsonl(out)
    lines = out.getvalue().splitlines(keepends=True)
    mixed = random.Random(5).sample(lines, len(lines))
    tables = [
        ot.decisions.table(ot.read_traces(io.BytesIO(b"".join(order))), kind, bounds=(-50.0, 50.0))
        for order in (lines, mixed)
    ]
    assert_frame_equal(tables[0].drop("trace"), tables[1].drop("trace"), check_exact=True)


def test_the_table_is_a_file_that_trainers_read(tmp_path: Path) -> None:
    table = ot.decisions.table(planted()[0], "delegate")
    table.write_parquet(tmp_path / "decisions.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "decisions.parquet"), table)


def test_bounds_hold_any_outcome_of_the_other_choice() -> None:
    rng = np.random.default_rng(0)
    corpus, _ = planted(decisive=0.0)
    for kind in ("communicate", "stop"):
        table = ot.decisions.table(corpus, kind, bounds=(-60.0, 60.0))
        own = table.filter(pl.col("effect").is_null())
        other = pl.Series(rng.uniform(-60.0, 60.0, own.height))
        effect = own["outcome"] - other
        assert own.height > 20 and ((own["lower"] <= effect) & (effect <= own["upper"])).all()
        assert np.allclose(own["upper"] - own["lower"], 120.0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_recordings_without_rewards_have_decisions(kind: Any) -> None:
    corpus, _ = planted(spawn_effect=1.0)
    out = io.BytesIO()
    corpus.write_jsonl(out)
    bare = [json.loads(line) | {"rewards": {}} for line in out.getvalue().splitlines()]
    with pytest.raises(ot.ParameterError, match="unknown reward channel 'team'"):
        ot.decisions.table(read(bare), kind)
    table = ot.decisions.table(read(bare), kind, reward=None, bounds=(0.0, 1.0))
    same = ["trace_id", "seq", "actor", "action", "p_behavior", *STATE]
    assert_frame_equal(table.select(same), ot.decisions.table(read(bare_of(bare)), kind).select(same))
    assert table["outcome"].null_count() == table["lower"].null_count() == table.height > 20
    unknown = table.filter(pl.col("effect").is_null())
    expected = {"aggregate": {"field.absent"}}.get(kind, {"reward.absent"})
    assert set(unknown["reason"]) == expected
    assert (unknown.height < table.height) == (kind == "stop")  # what an epoch adds needs no reward


def bare_of(documents: list[Document]) -> list[Document]:
    return [document | {"rewards": {"team": 1.0}} for document in documents]


def test_mistakes() -> None:
    corpus = ot.generate(traces=2, seed=0)
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("spwan", {}, "did you mean 'spawn'"),
        ("spawn", {"reward": "taem"}, "unknown reward channel 'taem'"),
        ("spawn", {"source": "turn"}, "only 'stop' has epochs"),
        ("stop", {"source": "drfat"}, "did you mean 'draft'"),
        ("aggregate", {"rule": "bset"}, "did you mean 'best'"),
        ("spawn", {"bounds": (1.0, 0.0)}, "expected two numbers, the least first"),
        ("communicate", {"bounds": (0.9, 0.95)}, "beyond bounds"),
        ("aggregate", {"bounds": (0.9, 0.95)}, "beyond bounds"),
        ("spawn", {"confidence": 2.0}, "confidence is 2.0"),
        ("spawn", {"context": "nope"}, "nope"),
    ]
    for kind, options, message in cases:
        with pytest.raises(ot.ParameterError, match=message):
            ot.decisions.table(corpus, kind, **options)  # type: ignore[arg-type]
