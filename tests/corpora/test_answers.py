"""What a user asks of real sessions: who answered, what could have been dropped, whose time it was."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

WARMED_UP = Path("claude-code") / "real" / "-Users-dain-workspace-danieldemmel-me-next"
"""A session before which the program started agents, who greet and do nothing else."""


@pytest.fixture(scope="module")
def sessions(corpora: Path) -> ot.Corpus:
    corpus = ot.read_traces(corpora / "claude-code")
    return corpus.with_measures(corpus.traces.select("trace").with_columns(one=pl.lit(1.0)).collect())


def test_the_outcome_is_no_greeting_of_a_warm_up_agent(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / WARMED_UP)
    trace = corpus.traces.filter(pl.col("trace_id").str.starts_with("5ed31c36")).collect()
    corpus = corpus.filter(pl.col("trace") == trace["trace"][0])
    corpus = corpus.with_measures(corpus.traces.select("trace").with_columns(one=pl.lit(1.0)).collect())
    (outcome,) = ot.taint(corpus)["outcome"]
    assert corpus.events.filter(id=outcome).collect()["agent"].cast(pl.String).to_list() == ["main"]
    credits = ot.credit(corpus, method="flow", unit="agent", reward="one")
    earned = dict(credits.select(pl.col("unit_id").cast(pl.String), "credit").rows())
    assert earned["c3d572ee"] == earned["c63fe96c"] == 0.0
    # the row of nobody is what the human said
    assert earned["main"] > 0.4 and earned["main"] + earned[None] == pytest.approx(1.0)
    (row,) = ot.metrics(corpus).iter_rows(named=True)
    assert row["useless_agents"] == 2 and row["dead_tokens"] < 0.5


def test_nothing_unsupported_is_a_certain_number(sessions: ot.Corpus) -> None:
    table = ot.replay(sessions, ot.interventions.drop(each="spawn"))
    assert table.height >= 24
    bare = table.filter(pl.col("support").fill_null(0.0) == 0.0)
    assert bare.height >= 24 and bare["effect"].null_count() == bare.height
    assert bare["reason"].null_count() == 0
    assert bare.drop_nulls("upper").filter(pl.col("upper") < 0.0).is_empty()


def test_a_waiting_human_is_nobodys_work(sessions: ot.Corpus) -> None:
    times = ot.schedules.simulate(sessions).join(
        sessions.events.select("trace", "seq", pl.col("agent").cast(pl.String)).collect(), on=["trace", "seq"]
    )
    assert times.filter(agent="user")["duration"].drop_nulls().sum() == 0.0
    rows = ot.metrics(sessions)
    told = rows.drop_nulls("human_wait")
    assert told.height > 20 and (told["human_wait"] > 0.0).any()
    work = rows["model_time"] + rows["tool_time"]
    assert ((work - rows["work"]).abs() <= 1e-9 * rows["work"]).all()
    # nobody works a night through: with gaps of an hour taken out sessions of weeks are hours of work
    short = ot.metrics(sessions, max_gap=3600.0)
    assert short["work"].sum() < 12 * 3600.0 < 24 * 3600.0 < short["idle_time"].sum()
    assert (short["parallelism"].drop_nulls() < 3.0).all()
