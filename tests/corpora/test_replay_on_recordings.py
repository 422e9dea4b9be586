"""Replay of recordings: where nothing is changed nothing changes, and what is known by hand."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from corpora.recordings import CORPORA
from corpora.test_survey_artifact import native_files

MODELS = ["noisy_or", "typed", "noisy_and", "linear", "mean", "max", "min", "majority", "reachability"]
OURS = Path(__file__).parents[2] / "data"


def assert_identity(corpus: ot.Corpus) -> None:
    """A change that changes nothing, under every model: the recorded score of the outcome, to the bit."""
    for model in MODELS:
        table = ot.replay(corpus, ot.interventions.truncate(at=1e12), outcome=model, sensitivity=False)  # type: ignore[arg-type]
        told = table.filter(pl.col("reason").is_null())
        assert (told["outcome"] == told["outcome_cf"]).all() and (told["effect"] == 0).all()
        assert set(table["reason"].drop_nulls()) <= {"graph.cycle", "trace.partial", "outcome.ambiguous"}
        partial = corpus.traces.filter("partial").select("trace").collect()["trace"]
        assert table.filter(pl.col("reason") == "trace.partial")["trace"].is_in(partial.implode()).all()


def test_nothing_changes_in_our_own_files() -> None:
    files = sorted([*OURS.glob("samples/*.json*"), *OURS.glob("importers/*/*.json*")])
    read: dict[str, int] = {}
    for path in files:
        native = '"trace_id"' in path.read_text() and '"events"' in path.read_text()
        if native or path.name.startswith("input."):
            corpus = ot.read_traces(path, format="native" if native else "auto")
            read[path.parent.name] = read.get(path.parent.name, 0) + len(corpus)
            assert_identity(corpus)
    assert read["samples"] > 30 and read["native"] > 0 and read["who_and_when"] > 0


def test_nothing_changes_in_native_files(corpora: Path) -> None:
    files = [path for path in native_files(corpora) if "schema" not in path.name]
    assert files
    for path in files:
        assert_identity(ot.read_traces(path, format="native"))


@pytest.mark.parametrize("name", ["survey-artifact", "who-and-when"])
def test_nothing_changes_in_imported_files(corpora: Path, name: str) -> None:
    assert_identity(CORPORA[name](corpora))


def test_the_example_of_the_survey(corpora: Path) -> None:
    # e3 and e2 meet in e4 over a message (0.7) and a causal edge (1); everything else hangs on one path
    corpus = ot.read_traces(corpora / "survey-artifact/example_trace.json")
    scenarios = [ot.interventions.drop(each="event"), ot.interventions.drop(each="event", mode="node")]
    # nothing is scored, so that nothing but the edges speaks
    unmeasured = ot.replay(corpus, *scenarios)
    assert unmeasured["reason"].unique().to_list() == ["support.absent"]
    assert (unmeasured["effect"].null_count(), unmeasured["upper"].to_list()) == (16, [0.0] * 16)
    table = ot.replay(corpus, *scenarios, structure_alone=True)
    assert table["outcome"].unique().to_list() == [1]

    def half(share: float) -> float:
        return (1 - 0.25**share) / 0.75

    meeting = {"e2": half(0.7 / 1.7), "e3": half(1 / 1.7)}
    want = [meeting.get(f"e{n}", 0.0) for n in range(1, 9)]
    assert table["outcome_cf"].to_list() == pytest.approx(want * 2, abs=1e-12)
    agents = ot.replay(corpus, ot.interventions.drop(each="agent"), structure_alone=True)
    # everybody is on the only path behind the meeting
    assert agents["effect"].to_list() == [-1] * agents.height and agents.height == 3


def test_every_event_of_every_run(corpora: Path) -> None:
    # chains: what leads to the outcome takes everything with it, what does not takes nothing
    corpus = CORPORA["who-and-when"](corpora)
    table = ot.replay(corpus, ot.interventions.drop(each="event"))
    assert table.height == corpus.events.select(pl.len()).collect().item()
    told = table.filter(pl.col("reason").is_null() | (pl.col("reason") == "gate.unstable"))
    assert (told["effect"] <= 0).all() and (told["effect"] >= -1).all()
    assert (told["lower"] <= told["effect"]).all() and (told["effect"] <= told["upper"]).all()
