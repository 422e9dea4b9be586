"""Decisions of published recordings: every kind answers, and counts are those of a walk in plain Python.

The sources' texts are data that models and tools wrote; nothing of them is kept here.
"""

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from corpora.recordings import CHANNELS, CORPORA
from orchestrace.decisions.tables.verb import KINDS, TABLE
from reference.decisions import is_one
from reference.trace import Trace
from samples.cut_runs import known_behind_the_cut

#: How folders are read that are no fixture of `CORPORA`.
PLAIN = ["claude-code", "codex", "langfuse", "otel-kagent", "atif-goldens", "trail"]


def read(corpora: Path, name: str) -> tuple[ot.Corpus, str | None]:
    """The corpus, and the reward to ask for; None where no run has any."""
    corpus = CORPORA[name](corpora) if name in CORPORA else ot.read_traces(corpora / name)
    channel = CHANNELS.get(name, "team")
    return corpus, channel if channel in corpus.reward_channels() else None


@pytest.mark.parametrize("name", [*CORPORA, *PLAIN])
def test_every_kind_answers(corpora: Path, name: str) -> None:
    corpus, reward = read(corpora, name)
    for kind in KINDS:
        table = ot.decisions.table(corpus, kind, reward=reward, bounds=(-100.0, 100.0))  # type: ignore[arg-type]
        assert table.schema == pl.Schema(TABLE)
        unknown = table.filter(pl.col("effect").is_null())
        assert unknown["reason"].null_count() == 0
        bounded = unknown.filter(pl.col("lower").is_not_null())
        if kind == "aggregate" or reward is None:
            assert bounded.is_empty()
        else:
            assert bounded.height == unknown["outcome"].count()
        told = table.filter(pl.col("effect").is_not_null())
        assert told["tier"].null_count() == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["who-and-when", "tau-bench", "agentdojo", "langfuse", "claude-code"])
@pytest.mark.every_nth(6)
def test_a_run_that_ends_with_the_decision_says_the_same(corpora: Path, name: str, kind: Any) -> None:
    corpus, reward = read(corpora, name)
    corpus = corpus.filter(pl.col("n_events") < 300)  # a decision is a document of its own
    corpus = corpus.filter(pl.col("trace") % max(1, len(corpus) // 40) == 0)
    options = {"reward": reward} | ({"source": "turn"} if kind == "stop" else {})
    whole, cut = known_behind_the_cut(corpus, kind, **options)
    # whose an earlier event is may hang on what comes later (D4), and epochs are numbered by owners
    left_out = [name for name in ("x_k",) if kind == "stop"]
    assert_frame_equal(whole.drop(left_out), cut.drop(left_out))


@pytest.mark.parametrize("name", ["who-and-when", "tau-bench", "agentdojo", "langfuse", "claude-code"])
def test_counts_are_those_of_plain_python(corpora: Path, name: str) -> None:
    corpus, reward = read(corpora, name)
    if name == "claude-code":  # references walk every pair of events: short runs only
        corpus = corpus.filter(pl.col("n_events") < 400)
    out = io.BytesIO()
    corpus.write_jsonl(out)
    expected: dict[Any, int] = dict.fromkeys(KINDS, 0)
    for line in out.getvalue().splitlines():
        trace = Trace(json.loads(line))
        for v in trace.owned():
            for kind in KINDS:
                expected[kind] += kind != "stop" and is_one(trace, v, kind)
        turns = [turn for turn in trace.turns if turn.owner == trace.root]
        expected["stop"] += len(turns)
    found = {
        kind: ot.decisions.table(
            corpus,
            kind,  # type: ignore[arg-type]
            reward=reward,
            source="turn" if kind == "stop" else None,
        ).height
        for kind in KINDS
    }
    assert found == expected
    assert found["stop"] > 5
