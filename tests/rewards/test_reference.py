"""Every rule on random recordings, against plain Python, and against what must always hold."""

import io
import json
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.rewards import Payer, shares
from samples.examples import examples
from samples.random_runs import Document, corpora, jsonl

QUICK = examples(100, derandomize=True)
RULES = ot.rewards.list_rules()["reward"].to_list()
#: Parameters to try beside the defaults.
TRIED: dict[str, dict[str, Any]] = {
    "outcome": {"weight": -2.0},
    "success": {"threshold": 0.5},
    "shaping": {"gamma": 0.5, "potential": "score"},
    "instantiation": {"n_target": 2},
    "parl": {"parallel": "instantiation", "n_target": 1, "anneal": "cosine", "anneal_steps": 3.0},
    "critical_steps": {"weight": 0.25},
    "tokens": {"weight": 0.5},
    "usd": {"weight": 0.5},
    "latency": {"weight": 2.0},
    "mgrpo_main": {"alpha_format": 0.5, "alpha_outcome": 0.25},
    "mgrpo_sub": {"alpha_format": 0.5, "alpha_quality": 0.25, "alpha_outcome": 2.0, "quality": "reward"},
    "matpo": {"alpha_format": 0.5},
    "context_folding": {"scope_weight": 1.0},
    "rlinf": {"w_format": 0.5, "w_search": 1.0, "w_length": 0.0, "w_context": 2.0},
    "puppeteer": {"gamma": 0.5, "lambda_": 1.0, "phi": 3.0},
}


MORE: list[tuple[str, dict[str, Any]]] = [
    ("parl", {"anneal": "diagnostic", "lambda_finish": 0.7}),
    ("puppeteer", {"law": "released", "gamma": 0.99, "growth": 3.0, "max_steps": 2}),
]
"""Beside the defaults and what `TRIED` has."""


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[Document], str]:
    documents = draw(corpora(max_traces=4))
    indicator = st.sampled_from([0.0, 1.0])
    for document in documents:
        for name in ("search", "length", "over_context", "scope"):
            if draw(st.booleans()):
                document["rewards"][name] = draw(indicator)
        for event in document["events"]:
            if event["type"].startswith("tool"):
                event["ok"] = draw(st.booleans())
        if draw(st.booleans()):
            document.setdefault("metrics", {})["task_success"] = draw(indicator)
        if draw(st.booleans()):
            document.setdefault("metrics", {})["train_step"] = draw(st.sampled_from([0, 1, 250]))
    return documents, draw(st.sampled_from(["seconds", "ordinal"]))


def read(documents: list[Document], basis: str) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)


def test_every_rule_has_a_reference() -> None:
    assert set(RULES) == {name for name in vars(Payer) if name in RULES}
    assert set(TRIED) <= set(RULES)


@QUICK
@given(recordings(), st.booleans())
def test_every_rule_pays_what_plain_python_does(recorded: tuple[list[Document], str], tried: bool) -> None:
    pays_what_plain_python_does(recorded, {name: TRIED.get(name, {}) if tried else {} for name in RULES})


@QUICK
@given(
    recordings(),
    st.sampled_from(["none", "linear", "cosine", "exponential", "diagnostic"]),
    st.sampled_from([{}, {"parallel": "instantiation", "n_target": 2}, {"anneal_steps": 0.5}]),
)
def test_annealed_weights_are_those_of_plain_python(
    recorded: tuple[list[Document], str], anneal: str, more: dict[str, Any]
) -> None:
    pays_what_plain_python_does(recorded, {"parl": {"anneal": anneal, **more}})


@QUICK
@given(recordings())
def test_the_released_costs_are_those_of_plain_python(recorded: tuple[list[Document], str]) -> None:
    pays_what_plain_python_does(recorded, {name: params for name, params in MORE if name == "puppeteer"})


def pays_what_plain_python_does(
    recorded: tuple[list[Document], str], asked: dict[str, dict[str, Any]]
) -> None:
    documents, basis = recorded
    table = ot.rewards.compute(read(documents, basis), asked)
    assert table["reward"].unique(maintain_order=True).to_list() == [
        n for n in asked if n in set(table["reward"])
    ]
    steps = shares(documents)
    for number, document in enumerate(documents):
        payer = Payer(document, basis, steps)
        for name, params in asked.items():
            told = table.filter(trace=number, reward=name)
            assert (told["value"].is_null() == told["reason"].is_not_null()).all()
            found = dict(zip(told["unit_id"], told["value"], strict=True))
            expected = dict(getattr(payer, name)(**params))
            assert found.keys() == expected.keys(), name
            for unit, value in expected.items():
                assert found[unit] == (
                    value if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)
                ), name


@QUICK
@given(recordings())
def test_addends_sum_to_the_payment(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    corpus = read(documents, basis)
    asked: dict[str, dict[str, Any]] = {name: {} for name in ("parl", "rlinf", "puppeteer", "shaping")}
    asked |= {"mgrpo_sub": {"alpha_format": 0.3, "alpha_quality": 0.7, "quality": "reward"}}
    for name, params in [*asked.items(), *MORE]:
        parts = ot.rewards.explain(corpus, 0, name, params=params)
        paid = ot.rewards.compute(corpus, {name: params}).filter(trace=0)
        assert set(parts["params"]) == set(paid["params"])
        assert parts.unique("unit_id", maintain_order=True)["total"].to_list() == paid["value"].to_list()
        for (_, total, reason), of in parts.group_by("unit_id", "total", "reason"):
            assert (total is None) == (reason is not None)
            if total is not None:
                running = 0.0
                for part in of["value"]:
                    running += part
                assert running == total


@QUICK
@given(recordings(), st.sampled_from(["matpo", "mgrpo_main", "rlinf", "context_folding", "parl"]))
def test_sums_are_linear_in_their_channels(recorded: tuple[list[Document], str], name: str) -> None:
    documents, basis = recorded
    flat = {"w_format": 0.0} if name == "rlinf" else {}  # whose format has an offset
    doubled = json.loads(json.dumps(documents))
    for document in doubled:
        document["rewards"] = {channel: 2 * value for channel, value in document["rewards"].items()}
    if name == "parl":
        flat = {"lambda_parallel": 0.0, "lambda_finish": 0.0}
    one = ot.rewards.compute(read(documents, basis), {name: flat})
    two = ot.rewards.compute(read(doubled, basis), {name: flat})
    assert (2 * one["value"]).to_list() == pytest.approx(two["value"].to_list(), nan_ok=True)


@QUICK
@given(recordings())
def test_sub_agents_are_paid_linearly_by_their_fields(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    doubled = json.loads(json.dumps(documents))
    for document in doubled:
        document["rewards"] = {channel: 2 * value for channel, value in document["rewards"].items()}
        for event in document["events"]:
            if event.get("reward") is not None:
                event["reward"] *= 2
    asked = {"mgrpo_sub": {"alpha_format": 0.0, "quality": "reward"}}
    one, two = (ot.rewards.compute(read(given, basis), asked) for given in (documents, doubled))
    assert (2 * one["value"]).to_list() == two["value"].to_list()


@QUICK
@given(recordings())
def test_without_other_weights_a_sub_agent_is_paid_the_outcome(recorded: tuple[list[Document], str]) -> None:
    documents, basis = recorded
    alone = {"alpha_format": 0.0, "alpha_quality": 0.0, "alpha_outcome": 1.0}
    table = ot.rewards.compute(read(documents, basis), {"outcome": {}, "mgrpo_sub": alone})
    outcome = table.filter(reward="outcome").select("trace", outcome="value")
    subs = table.filter(reward="mgrpo_sub").join(outcome, on="trace", how="left", maintain_order="left")
    assert subs["value"].to_list() == subs["outcome"].to_list()


def test_without_other_weights_a_sum_is_the_outcome() -> None:
    corpus = ot.generate(traces=20, seed=1)
    channels = dict.fromkeys(("format", "search", "length", "over_context", "scope"), "team")
    none: dict[str, dict[str, Any]] = {
        "parl": {"lambda_parallel": 0.0, "lambda_finish": 0.0},
        "matpo": {"alpha_format": 0.0},
        "mgrpo_main": {"alpha_format": 0.0, "alpha_outcome": 1.0},
        "rlinf": {"w_format": 0.0, "w_search": 0.0, "w_length": 0.0, "w_context": 0.0},
        "context_folding": {"scope_weight": 0.0},
    }
    table = ot.rewards.compute(corpus, {"outcome": {}, **none}, channels=channels)
    outcome = table.filter(reward="outcome")["value"].to_list()
    assert None not in outcome and len(set(outcome)) > 1
    for name in none:
        assert table.filter(reward=name)["value"].to_list() == outcome, name


DIAGNOSTIC: dict[str, dict[str, Any]] = {"parl": {"anneal": "diagnostic", "lambda_parallel": 0.0}}


def trained(n: int) -> list[Document]:
    """Runs of five steps of training, of one agent or of several; the tasks of each are in all steps."""
    documents, rng = [], random.Random(0)
    for at in range(n):
        agents = ["lead", "ann", "bob"][: rng.randrange(1, 4)]
        events = [{"id": f"e{k}", "t": k, "type": "message", "agent": one} for k, one in enumerate(agents)]
        events += [
            {"id": f"s{k}", "t": 0, "type": "spawn", "agent": "lead", "to": one}
            for k, one in enumerate(agents[1:])
        ]
        documents.append(
            {"trace_id": f"run {at}", "task_id": f"task {at % 31}", "events": events, "edges": []}
            | {"rewards": {"team": at % 3}, "costs": {"tokens": 0, "wall_clock_s": 0}}
            | {"metrics": {"train_step": at % 5}}
        )
    return documents


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_windows_are_the_same_on_any_threads(threads: int) -> None:
    documents = trained(500)
    corpus = read(documents, "seconds")
    table = ot.rewards.compute(corpus, DIAGNOSTIC, threads=threads)
    assert table.equals(ot.rewards.compute(corpus, DIAGNOSTIC, threads=1))
    left = [json.loads(told)["anneal_left"] for told in table["params"]]
    expected = shares(documents)
    assert left == [1 - float(expected[document["metrics"]["train_step"]]) for document in documents]
    assert len(set(left)) == 5


def test_windows_are_those_of_the_whole_corpus_on_disk(tmp_path: Any) -> None:
    documents = trained(300)
    path = tmp_path / "runs.jsonl"
    path.write_bytes(jsonl(documents))
    ot.ingest(str(path), tmp_path / "disk", partitions=8, time_basis="seconds")
    corpus, disk = read(documents, "seconds"), ot.read_corpus(tmp_path / "disk")
    here, there = (
        ot.rewards.compute(one, DIAGNOSTIC).sort("trace_id").drop("trace") for one in (corpus, disk)
    )
    assert here["params"].n_unique() == 5 and here.equals(there)
    name = here["trace_id"][0]
    told = [ot.rewards.explain(one, name, "parl", params=DIAGNOSTIC["parl"]) for one in (corpus, disk)]
    assert told[0].equals(told[1]) and set(told[0]["params"]) == {here["params"][0]}


def test_rewards_come_to_a_corpus_on_disk(tmp_path: Any) -> None:
    ot.generate(tmp_path / "runs.jsonl", traces=120, seed=3)
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "disk")
    disk = ot.read_corpus(tmp_path / "disk")
    paid = ot.rewards.attach(disk, ot.rewards.compute(disk, "parl"))
    assert set(paid.reward_channels()) == {"parl", *disk.reward_channels()} > {"parl"}
