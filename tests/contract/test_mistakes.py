"""Mistakes of a caller in Python: one line each, which names the argument and what is expected."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

Mistake = Callable[[ot.Corpus], Any]

MISTAKES: dict[str, tuple[Mistake, str]] = {
    "a path in place of a corpus": (lambda _: ot.credit("runs.jsonl"), "corpus is 'runs.jsonl', expected a"),
    "no file": (lambda _: ot.read_traces("nothing.jsonl"), "no such file or folder: 'nothing.jsonl'"),
    "no corpus on disk": (lambda _: ot.read_corpus("nothing"), "no corpus in 'nothing'"),
    "a file as a corpus": (lambda _: ot.read_corpus(__file__), "is a file, expected the folder of a corpus"),
    "a format": (
        lambda _: ot.read_traces(__file__, format="natif"),
        "unknown format 'natif'; did you mean 'atif'?",
    ),
    "a reward": (lambda one: ot.credit(one, reward="tema"), "unknown reward channel 'tema'; did you mean"),
    "a weight": (lambda one: ot.credit(one, reward={"team": "x"}), "weight of reward 'team'"),
    "a method": (lambda one: ot.credit(one, method="flwo"), "unknown method 'flwo'; did you mean 'flow'?"),
    "a unit": (lambda one: ot.credit(one, unit="agnet"), "unit is 'agnet', expected 'team',"),
    "a parameter": (lambda one: ot.credit(one, retantion=1), "unknown parameter 'retantion'; did you mean"),
    "a value": (
        lambda one: ot.credit(one, retention=2),
        "retention must be a number from 0.0 to 1.0, found 2",
    ),
    "a seed": (lambda one: ot.credit(one, seed=-1), "seed is -1, expected a whole number from 0"),
    "threads": (lambda one: ot.credit(one, threads=0), "threads is 0"),
    "an engine": (lambda one: ot.credit(one, engine="spark"), "engine is 'spark', expected"),
    "means by": (lambda one: ot.metrics(one, by="agents"), "by is 'agents', expected 'agent',"),
    "a group": (lambda one: ot.metrics(one, groups=["collab"]), "unknown group of metrics 'collab'"),
    "a gap": (lambda one: ot.metrics(one, max_gap=-1), "max_gap is -1, expected"),
    "a gap in words": (lambda one: ot.metrics(one, max_gap="1h"), "max_gap is '1h', expected"),
    "an agent": (
        lambda one: ot.replay(one, ot.interventions.drop(agent="nobody")),
        "unknown agent 'nobody' (known:",
    ),
    "nothing to drop": (lambda one: ot.replay(one, ot.interventions.drop()), "drop"),
    "an outcome": (
        lambda one: ot.replay(one, ot.interventions.drop(each="agent"), outcome="noisy"),
        "unknown outcome 'noisy' (known: noisy_or,",
    ),
    "a factor": (
        lambda _: ot.interventions.speed_up(0, tool="web"),
        "factor is 0, expected a number above 0",
    ),
    "slots": (lambda _: ot.interventions.concurrency([0]), "slots has 0, expected a whole number from 1"),
    "a time": (lambda _: ot.interventions.truncate(at=-5), "at is -5, expected a number from 0"),
    "a rule": (lambda one: ot.rewards.compute(one, "parll"), "unknown reward 'parll'; did you mean 'parl'?"),
    "a kind": (
        lambda one: ot.decisions.table(one, "spwan"),
        "kind is 'spwan', expected 'spawn',",
    ),
    "bounds": (
        lambda one: ot.decisions.table(one, "spawn", bounds=(1, 0)),
        "expected two numbers, the least first",
    ),
    "what carries": (lambda one: ot.taint(one, carry="everything"), "carry is 'everything', expected 'all',"),
    "a tool": (lambda one: ot.taint(one, untrusted_tools=["wbe"]), "unknown tool 'wbe'"),
    "a source": (lambda one: ot.stopping.epochs(one, "drft"), "source is 'drft', expected 'draft',"),
    "a share": (
        lambda _: ot.stopping.fit_abort(ot.synthetic.stops(runs=9)[0], alpha=2),
        "alpha is 2, expected a number between 0 and 1",
    ),
    "a price": (
        lambda _: ot.stopping.evaluate(ot.synthetic.stops(runs=9)[0], price=float("nan")),
        "price is nan, expected a finite number",
    ),
    "a price that pays": (
        lambda _: ot.stopping.frontier(ot.synthetic.stops(runs=9)[0], ["fixed"], prices=[0.1, -1]),
        "price is -1, expected a finite number from 0",
    ),
    "an export": (lambda one: ot.export(one, "perfeto", "x"), "; did you mean 'perfetto'?"),
    "a page of no reward": (
        lambda one: ot.view(one, "x.html", reward="tema"),
        "unknown reward channel 'tema'",
    ),
    "a preset": (
        lambda _: ot.generate(traces=1, preset="mixt"),
        "unknown preset 'mixt'; did you mean 'mixed'?",
    ),
    "two sizes": (lambda _: ot.generate(traces=1, events=1), "give traces or events, not both"),
    "a verb": (lambda _: ot.distributed.plan("x", "tiant", folder="y"), "unknown verb of a plan 'tiant'"),
    "a frame": (lambda _: ot.stopping.evaluate(pl.DataFrame({"a": [1]})), "epochs"),
    "a field": (lambda one: one.with_fields(pl.DataFrame({"a": [1]})), "a"),
}
"""A call, and what its one line says."""


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=6, seed=0)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line(
    name: str, corpus: ot.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, message = MISTAKES[name]
    with pytest.raises(ot.OrchestraceError) as refused:
        call(corpus)
    said = str(refused.value)
    assert message in said and said.isprintable() and "\n" not in said
    assert "--" not in said, "an option of the command, which a caller does not have"
    assert list(tmp_path.iterdir()) == []
