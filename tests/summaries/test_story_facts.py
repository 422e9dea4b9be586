"""A story denies nothing that a table has: every place where a fact may be is looked at."""

import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

IMPORTERS = Path(__file__).resolve().parents[2] / "data/importers"


def _some(frame: pl.LazyFrame, *holds: pl.Expr) -> bool:
    return not frame.filter(pl.any_horizontal(holds)).limit(1).collect().is_empty()


def _events(*columns: str) -> Callable[[ot.Corpus], bool]:
    return lambda corpus: _some(corpus.events, *(pl.col(name).is_not_null() for name in columns))


def _costs(pattern: str) -> Callable[[ot.Corpus], bool]:
    """Whether a trace states such a cost; whose writer does not know it writes 0."""
    named = pl.col("name").cast(pl.String).str.contains(pattern)
    kind = pl.col("kind").cast(pl.String) == "cost"
    return lambda corpus: _some(corpus.measures, kind & named & (pl.col("value") > 0))


def _in_seconds(corpus: ot.Corpus) -> bool:
    return _some(corpus.traces, pl.col("time_basis").cast(pl.String) == "seconds")


TOKENS = ("tokens", "tokens_in", "tokens_out", "tokens_cached", "tokens_cache_write", "tokens_reasoning")
READ = ("tokens_in", "tokens_cached", "tokens_cache_write")
#: What each denial says that no recording has, and every place where it could be.
DENIALS: dict[str, list[Callable[[ot.Corpus], bool]]] = {
    "No recording says how many tokens were used": [_events(*TOKENS), _costs("^tokens")],
    "No recording says how many were read": [_events(*READ), _costs("^tokens_(in|fresh|cache)")],
    "No recording says how many were written": [_events("tokens_out"), _costs("^tokens_out")],
    "No recording says what it cost": [_events("cost_usd"), _costs("^cost|usd$")],
    "Recordings say the order of events, not the time": [_costs("^wall_clock_s$"), _in_seconds],
    "no recording says when anything was": [_in_seconds],
    "No recording says what is untrusted": [lambda corpus: _some(corpus.events, pl.col("trusted").not_())],
    "No recording says which calls are privileged": [_events("privileged")],
    "No run has an answer that is known": [lambda corpus: bool(ot.taint(corpus)["outcome"].count())],
}


def denied(corpus: ot.Corpus) -> list[str]:
    """What the story of a corpus denies although a table has it; every denial must be one of the list."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = " ".join(text for _, text, _ in ot.summary(corpus).sentences())
    for sentence in re.findall(r"\b(?:No recording|No run|no recording|Recordings say) [^.;]*", said):
        known = any(sentence.startswith(one) for one in DENIALS)
        assert known or sentence.startswith("No run has a schedule"), sentence
    return [one for one, places in DENIALS.items() if one in said and any(has(corpus) for has in places)]


@pytest.mark.parametrize("name", sorted(path.name for path in IMPORTERS.iterdir() if path.is_dir()))
def test_no_denial_of_what_an_importer_read(name: str) -> None:
    inputs = sorted(path for path in (IMPORTERS / name).iterdir() if path.stem == "input")
    assert inputs
    mapping = next((path for path in (IMPORTERS / name).glob("mapping.*")), None)
    for path in inputs:
        assert not denied(ot.read_traces(path, mapping=mapping))


@pytest.mark.corpora
def test_no_denial_of_what_published_recordings_say(corpora: Path) -> None:
    told = {}
    for path in sorted(corpora.iterdir()):
        try:
            corpus = ot.read_traces(path) if path.is_dir() else None
        except (ot.InputError, ot.ParameterError):  # documents beside packed recordings
            continue
        if corpus is not None and len(corpus):
            told[path.name] = denied(corpus)
    assert len(told) > 10 and not any(told.values()), told


def test_a_denial_that_is_false_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = ot.generate(traces=3, seed=1)
    assert not denied(corpus)
    said = [(about, f"{one}.", "") for about, one in enumerate(DENIALS)]
    monkeypatch.setattr(type(ot.summary(corpus)), "sentences", lambda _: said)
    found = denied(corpus)
    assert (
        "No recording says how many tokens were used" in found
        and "No run has an answer that is known" in found
    )


@pytest.mark.parametrize("clock", [0.0, 95.0])
def test_what_runs_state_without_times(tmp_path: Path, clock: float) -> None:
    said = [{"id": "e", "t": 0, "type": "return", "agent": "a", "to": "user"}]
    run = {"trace_id": "r", "task_id": "t", "events": said, "edges": [], "rewards": {"team": 1.0}}
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(run | {"costs": {"tokens": 0, "wall_clock_s": clock}}))
    (time,) = [text for about, text, _ in ot.summary(ot.read_traces(path)).sentences() if about == "Time"]
    order = "Recordings say the order of events, not the time."
    assert time == ("Runs took 1 min 35 s; no recording says when anything was." if clock else order)
