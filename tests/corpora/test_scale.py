"""Sizes of published recordings: the survey's example by hand, and what holds of any recording."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.scaling.axes import scale_of


def test_the_surveys_example_by_hand(corpora: Path) -> None:
    """One orchestrator all the time; two spawned agents, one of which never returns: three at once."""
    scale = scale_of(ot.read_traces(corpora / "survey-artifact" / "example_trace.json")).drop("trace_id")
    assert scale.row(0, named=True) == {
        **{"trace": 0, "n_agents": 3, "peak_concurrency": 3, "n_steps": 5, "n_tool_calls": 1, "depth": 1},
        # events have no tokens and no seconds: the recorded costs
        **{"tokens": 12_000.0, "wall_clock_s": 420.0, "group_size": 1},
    }


@pytest.mark.parametrize("name", ["tau-bench", "agentdojo", "claude-code", "codex", "inspect-ai", "trail"])
def test_sizes_agree_with_the_tables(corpora: Path, name: str) -> None:
    corpus = ot.read_traces(corpora / name, extras=False)
    table = corpus.traces.collect()
    scale = scale_of(corpus)
    assert scale.height > 0
    assert scale["trace"].to_list() == table["trace"].to_list()
    assert scale["n_agents"].to_list() == table["n_agents"].to_list()
    assert (scale["n_steps"] <= table["n_events"]).all()
    gaps = ot.scaling.distance_to_published(scale)
    # published runs that are open are far below the largest reported swarm
    swarm = ot.scaling.distance_to_published(scale, by="axis", against="K2.6 Agent Swarm").filter(
        pl.col("axis") == "n_agents"
    )
    assert swarm["log10_ratio_max"][0] < -1
    assert (gaps["nearest"].is_null() == gaps["reason"].is_not_null()).all()
