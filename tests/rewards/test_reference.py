"""Every rule on random recordings, against plain Python, and against what must always hold."""

import io
import json
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import orchestrace as ot
from reference.rewards import Payer
from samples.examples import examples
from samples.random_runs import Document, corpora, jsonl

QUICK = examples(100, derandomize=True)
RULES = ot.rewards.rules()["reward"].to_list()
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
    "matpo": {"alpha_format": 0.5},
    "context_folding": {"scope_weight": 1.0},
    "rlinf": {"w_format": 0.5, "w_search": 1.0, "w_length": 0.0, "w_context": 2.0},
    "puppeteer": {"gamma": 0.5, "lambda_": 1.0, "phi": 3.0},
}


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
    return documents, draw(st.sampled_from(["seconds", "ordinal"]))


def read(documents: list[Document], basis: str) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)


def test_every_rule_has_a_reference() -> None:
    assert set(RULES) == {name for name in vars(Payer) if name in RULES}
    assert set(TRIED) <= set(RULES)


@QUICK
@given(recordings(), st.booleans())
def test_every_rule_pays_what_plain_python_does(recorded: tuple[list[Document], str], tried: bool) -> None:
    documents, basis = recorded
    asked = {name: TRIED.get(name, {}) if tried else {} for name in RULES}
    table = ot.rewards.compute(read(documents, basis), asked)
    assert table["reward"].unique(maintain_order=True).to_list() == [
        n for n in RULES if n in set(table["reward"])
    ]
    for number, document in enumerate(documents):
        payer = Payer(document, basis)
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
    for name in ("parl", "rlinf", "puppeteer", "shaping"):
        parts = ot.rewards.explain(corpus, 0, name)
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


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_threads_do_not_show(threads: int) -> None:
    corpus = ot.generate(traces=300, seed=2)
    one = ot.rewards.compute(corpus, RULES, threads=1)
    assert ot.rewards.compute(corpus, RULES, threads=threads).equals(one)


def test_a_corpus_on_disk_pays_the_same(tmp_path: Any) -> None:
    corpus = ot.generate(traces=120, seed=3)
    path = tmp_path / "runs.jsonl"
    with path.open("wb") as out:
        corpus.write_jsonl(out)
    ot.ingest(str(path), tmp_path / "disk")
    disk = ot.read_corpus(tmp_path / "disk")
    key = ["reward", "trace_id", "unit_id"]
    here, there = (ot.rewards.compute(one, RULES).sort(key).drop("trace") for one in (corpus, disk))
    assert here.equals(there)
    paid = ot.rewards.attach(disk, there_with_traces(disk))
    assert set(paid.reward_channels()) == {"team", "parl"} | set(disk.reward_channels())


def there_with_traces(disk: ot.Corpus) -> pl.DataFrame:
    return ot.rewards.compute(disk, "parl")
