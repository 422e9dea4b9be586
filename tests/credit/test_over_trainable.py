"""Credit over trained agents: whom they are compared with, what is left of others; the regimes of runs."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal, assert_series_equal

import orchestrace as ot
from samples.examples import examples
from samples.hand_runs import credited, event, read, run, turns
from samples.random_runs import Document, corpora

TRAINED = ("ann", "bob")
OF_TRACES = ("uniform", "flow", "discounted", "gae", "broadcast", "return_to_go")
OF_GROUPS = (
    "grpo",
    "dr_grpo",
    "rloo",
    "opo",
    "dr_mas",
    "at_grpo",
    "magrpo",
    "marshal",
    "gigpo",
    "c3",
    "spectrum",
)
KEY = ["trace", "unit_id", "seq"]


def marked(documents: list[Document], trained: tuple[str, ...]) -> list[Document]:
    """The documents with a flag on every event that an agent carries."""
    for document in documents:
        for one in document["events"]:
            one["trainable"] = one["agent"] in trained
    return documents


def trained_agents(corpus: ot.Corpus) -> pl.DataFrame:
    agents = corpus.agents.filter("trainable").select("trace", pl.col("agent").cast(pl.String)).collect()
    return agents.with_columns(is_trained=pl.lit(True))


def both(corpus: ot.Corpus, method: str, unit: str, **params: Any) -> pl.DataFrame:
    """Credits over all and over trained agents side by side."""
    frames = [
        ot.credit(corpus, method=method, unit=unit, over=over, **params)  # type: ignore[call-overload]
        .with_columns(pl.col("reason").cast(pl.String))
        .select(*KEY, "credit", "reason", "residual")
        for over in ("all", "trainable")
    ]
    return frames[0].join(frames[1], on=KEY, nulls_equal=True, how="full", suffix="_over")


@pytest.mark.parametrize("method", OF_TRACES)
@given(corpora())
@examples(30)
def test_trained_agents_keep_what_a_trace_gives_them(method: str, documents: list[Document]) -> None:
    corpus = read(marked(documents, TRAINED))
    if not trained_agents(corpus).height:
        return
    rows = both(corpus, method, "agent").join(
        trained_agents(corpus), left_on=["trace", "unit_id"], right_on=["trace", "agent"], how="left"
    )
    own = rows.filter("is_trained", pl.col("credit").is_not_null())
    assert_series_equal(own["credit"], own["credit_over"].alias("credit"), abs_tol=1e-12)
    others = rows.filter(pl.col("is_trained").is_null() & pl.col("unit_id").is_not_null())
    assert others["credit_over"].null_count() == others.height
    served = others.filter(pl.col("credit").is_not_null())
    assert set(served["reason_over"]) <= {"agent.frozen"}


@pytest.mark.parametrize("unit", ["agent", "event", "turn", "role", "team"])
@given(corpora())
@examples(20)
def test_shares_sum_to_the_reward_with_what_is_left_of_others(unit: str, documents: list[Document]) -> None:
    corpus = read(marked(documents, TRAINED))
    if not trained_agents(corpus).height:
        return
    for method in ("uniform", "flow"):
        over = ot.credit(corpus, method=method, unit=unit, over="trainable")  # type: ignore[call-overload]
        every = ot.credit(corpus, method=method, unit=unit)  # type: ignore[call-overload]
        sums = [
            frame.filter(pl.col("residual").is_not_null())
            .group_by("trace", maintain_order=True)
            .agg(pl.col("credit").sum() + pl.col("residual").first())
            for frame in (every, over)
        ]
        assert_frame_equal(*sums, abs_tol=1e-12)


@pytest.mark.parametrize("method", OF_GROUPS)
@given(corpora())
@examples(20)
def test_where_all_are_trained_nothing_changes(method: str, documents: list[Document]) -> None:
    corpus = read(marked(documents, ("lead", "ann", "bob", "search", "user")))
    trained = trained_agents(corpus)
    is_agent = pl.col("kind").cast(pl.String) == "agent"
    if (
        not trained.height
        or trained.height < corpus.agents.filter(is_agent).select(pl.len()).collect().item()
    ):
        return  # somebody did nothing but spawn or despawn, which says nothing of who does it
    if trained["trace"].n_unique() < len(corpus):
        return  # a run without agents is a rollout of the group where credit is over all
    rows = both(corpus, method, "agent").join(
        trained, left_on=["trace", "unit_id"], right_on=["trace", "agent"], how="semi"
    )
    assert_series_equal(rows["credit"], rows["credit_over"].alias("credit"), abs_tol=1e-12)


def siblings(key_of_frozen: str | None) -> list[Document]:
    """Three rollouts in which two workers, one of them trained, meet the same state."""
    documents = []
    for n, reward in enumerate((1.0, 0.0, 0.5)):
        keys = ["s", key_of_frozen, "t"]
        paid, acts = [0.1 * n, 0.7 - n, reward], [f"a{n}", f"b{n}", f"c{n}"]
        events = turns("ann", "bob", "ann", state_key=keys, prefix_key=keys, reward=paid, content_hash=acts)
        for one in events:
            one |= {"role": "worker", "trainable": one["agent"] == "ann"}
        documents.append(run(n, reward, events))
    return documents


@pytest.mark.parametrize("method", ["gigpo", "c3"])
def test_a_frozen_colleague_is_no_baseline(method: str) -> None:
    """Credit over trained agents is that of a corpus in which the others are at no state."""
    met, apart = read(siblings("s")), read(siblings(None))
    units = [(trace, "ann") for trace in range(3)]
    params: dict[str, Any] = {"context": "recorded"} if method == "c3" else {}

    def of(corpus: ot.Corpus, **more: Any) -> list[Any]:
        found = credited(corpus, method, "agent", **params, **more)
        return [found[unit] for unit in units]

    assert of(met, over="trainable") == of(apart)
    assert of(met) != of(apart), "with the colleague in it the baseline is another one"
    rest = credited(met, method, "agent", **params, over="trainable")
    assert {rest[trace, "bob"] for trace in range(3)} == {(None, "agent.frozen")}


def test_rewards_of_agents_are_compared_among_the_trained() -> None:
    documents = []
    for n in range(4):
        events = turns("ann", "bob", reward=[float(n), 100.0 * n])
        documents.append(run(n, 1.0, marked([{"events": events}], ("ann",))[0]["events"]))
    found = credited(documents, "dr_grpo", "agent", reward_of="agent", over="trainable")
    assert [found[n, "ann"][0] for n in range(4)] == [-1.5, -0.5, 0.5, 1.5]
    assert {found[n, "bob"] for n in range(4)} == {(None, "agent.frozen")}


@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo", "reinforce_pp", "dr_mas", "shape_normalized"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_run_of_nobody_who_is_trained_is_no_rollout(method: str, on_disk: bool, tmp_path: Path) -> None:
    """Credit is that of a corpus without it."""

    def rollouts(rewards: list[float]) -> list[Document]:
        runs = [run(n, reward, turns("ann")) for n, reward in enumerate(rewards)]
        trained = marked(runs[:2], ("ann",)) + marked(runs[2:], ())
        # a second piece on disk
        return trained + marked([run(9, 0.5, turns("ann"), task="other")], ("ann",))

    def of(documents: list[Document], name: str) -> list[float | None]:
        corpus = read(documents)
        if on_disk:
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in documents))
            ot.ingest(tmp_path / f"{name}.jsonl", tmp_path / name, partitions=3)
            corpus = ot.read_corpus(tmp_path / name)
        rows = ot.credit(corpus, method=method, unit="agent", over="trainable").filter(unit_id="ann")
        found = dict(rows.select("trace_id", "credit").rows())
        return [found["trace0"], found["trace1"]]

    with_it, without = of(rollouts([1.0, 0.0, 10.0]), "with"), of(rollouts([1.0, 0.0]), "without")
    assert with_it == without and None not in with_it


def team() -> list[Document]:
    events = [
        event(0, "lead", "orchestrator_decision"),
        event(1, "ann", score=0.5),
        event(2, "bob", score=0.8),
        event(3, "lead", "aggregate", score=0.9),
    ]
    for one in events:
        one["trainable"] = one["agent"] == "ann"
    return [run(0, 1.0, events, [(0, 1), (0, 2), (1, 3), (2, 3)])]


@pytest.mark.parametrize("outcome", ["noisy_or", "linear", "max"])
def test_others_always_act_in_games(outcome: str) -> None:
    """One trained agent earns what the team loses without it."""
    alone = credited(team(), "shapley", "agent", outcome=outcome, scaled=False, over="trainable")
    full = credited(team(), "difference", "agent", outcome=outcome, scaled=False)
    earned, lost = alone[0, "ann"][0], full[0, "ann"][0]
    assert earned is not None and lost is not None and earned == pytest.approx(lost, abs=1e-12)
    assert {alone[0, name] for name in ("bob", "lead")} == {(None, "player.fixed")}


def test_players_of_own_outcomes_are_the_trained() -> None:
    seen: list[list[str]] = []

    def worth(coalitions: Any, game: Any) -> Any:
        seen.append(list(game.players))
        return coalitions.sum(axis=1) * 2.0

    found = credited(team(), "shapley", "agent", outcome=worth, scaled=False, over="trainable")
    assert seen[0] == ["ann"]
    assert found[0, "ann"][0] == 2.0


def test_users_and_environments_play_no_game() -> None:
    events = [event(0, "user", to="ann"), event(1, "ann", "return", to="user", trainable=True)]
    document = run(0, 1.0, events, [(0, 1)])
    found = credited([document], "shapley", "event", over="trainable")
    assert found[0, "e0"] == (None, "player.fixed")
    assert found[0, "e1"][0] is not None


def test_a_run_without_players_pays_what_is_always_there() -> None:
    trained, frozen = team()[0], team()[0] | {"trace_id": "trace1", "task_id": "other"}
    marked([frozen], ())
    found = credited([trained, frozen], "shapley", "agent", over="trainable")
    assert {found[1, name] for name in ("ann", "bob", "lead")} == {(None, "player.fixed")}
    assert found[1, None] == (1.0, None)


@pytest.mark.parametrize("method", ["myerson", "permission", "precedence_shapley"])
def test_games_along_links_have_no_credit_of_some(method: str) -> None:
    with pytest.raises(ot.ParameterError, match=f"method '{method}' has no over='trainable'"):
        ot.credit(read(team()), method=method, unit="agent", over="trainable")


def test_what_is_paid_to_the_trained_and_to_others_is_the_reward() -> None:
    corpus = read(team())
    credits = ot.credit(corpus, method="uniform", unit="agent", over="trainable")
    [row] = ot.evaluation.reward_accounting(corpus, credits).rows(named=True)
    assert (row["paid"], row["partition_error"], row["reason"]) == (1.0, 0.0, None)


def test_what_cannot_be_asked_is_said(tmp_path: Path) -> None:
    unsaid = read([run(0, 1.0)])
    with pytest.raises(ot.ParameterError, match=r"no recording says .* with corpus.with_fields"):
        ot.credit(unsaid, over="trainable")
    with pytest.raises(ot.ParameterError, match=r"over is 'trained', expected"):
        ot.credit(unsaid, over="trained")  # type: ignore[call-overload]
    corpus = read(team())
    with pytest.raises(ot.ParameterError, match="method 'coma' has no over='trainable'"):
        ot.credit(corpus, method="coma", over="trainable")
    credits = ot.credit(corpus, method="uniform", unit="agent", over="trainable")
    assert json.loads(credits["params"][0])["over"] == "trainable"
    with pytest.raises(ot.ParameterError, match="explain a row of credit without over="):
        ot.explain(corpus, credits, "ann", trace=0)


@pytest.mark.parametrize("method", ["uniform", "dr_mas", "reinforce_pp", "shapley"])
def test_a_corpus_on_disk_says_the_same(method: str, tmp_path: Path) -> None:
    documents = marked(
        [run(n, float(n % 3), turns("ann", "bob", "ann"), task=f"task{n % 4}") for n in range(24)], ("ann",)
    )
    source = tmp_path / "runs.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in documents))
    ot.ingest(source, tmp_path / "corpus", partitions=4)
    calls = dict(method=method, unit="agent", over="trainable")
    here = ot.credit(read(documents), **calls)  # type: ignore[call-overload]
    disk = ot.read_corpus(tmp_path / "corpus")
    order = ["trace_id", "unit_id"]
    columns = [*order, "credit", "reason"]
    there = ot.credit(disk, **calls)  # type: ignore[call-overload]
    assert_frame_equal(here.sort(order).select(columns), there.sort(order).select(columns))
    assert here.filter(unit_id="ann")["credit"].is_not_null().sum() == 24
    sunk = ot.credit(disk, **calls, sink=tmp_path / "sink").collect()  # type: ignore[call-overload]
    assert_frame_equal(sunk.sort(order).select(columns), there.sort(order).select(columns))


def test_marks_of_the_user_count() -> None:
    corpus = read([run(0, 1.0, turns("ann", "bob"))])
    ann = corpus.events.filter(pl.col("agent").cast(pl.String) == "ann").select("trace", "seq")
    once = corpus.with_fields(ann.with_columns(trainable=pl.lit(True)))
    assert once.agents.select("trainable").collect()["trainable"].to_list() == [True, None]
    found = credited(once, "uniform", "agent", over="trainable")
    assert found == {(0, "ann"): (0.5, None), (0, "bob"): (None, "agent.frozen"), (0, None): (0.5, None)}


@pytest.mark.parametrize(
    ("agents", "regime"),
    [
        ({"ann": (True, "m"), "bob": (False, "m")}, "A"),
        ({"ann": (True, "m"), "ann#2": (True, "m"), "bob": (None, "n")}, "A"),
        ({"ann": (True, None)}, "A"),
        ({"ann": (True, "m"), "bob": (True, "m")}, "B"),
        ({"ann": (True, "m"), "bob": (True, "n")}, "C"),
        ({"ann": (True, "m"), "bob": (True, "n"), "cat": (True, "n")}, None),
        ({"ann": (True, "m"), "bob": (True, None)}, None),
        ({"ann": (False, "m"), "bob": (None, "n")}, None),
    ],
)
def test_regimes(agents: dict[str, tuple[bool | None, str | None]], regime: str | None) -> None:
    events = []
    for n, (name, (trainable, model)) in enumerate(agents.items()):
        known = {"trainable": trainable, "model": model}
        events.append(event(n, name) | {key: value for key, value in known.items() if value is not None})
    row = ot.trainers.regimes(read([run(0, 1.0, events)])).row(0, named=True)
    assert row["regime"] == regime
    assert row["reason"] == (None if regime else "field.absent")
    flags = [trainable for trainable, _ in agents.values()]
    assert (row["n_agents"], row["n_trainable"], row["n_frozen"]) == (
        len(flags),
        flags.count(True),
        flags.count(False),
    )


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6))
@examples(30)
def test_an_agent_is_what_all_its_events_say(flags: list[bool | None]) -> None:
    events = [event(n) | ({} if flag is None else {"trainable": flag}) for n, flag in enumerate(flags)]
    said = {flag for flag in flags if flag is not None}
    agents = read([run(0, 1.0, events)]).agents.collect()
    assert agents["trainable"].to_list() == [said.pop() if len(said) == 1 else None]
