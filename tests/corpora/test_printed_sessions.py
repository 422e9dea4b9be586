"""What `claude -p --output-format stream-json` printed, with the sums of its SOURCE.md."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot


@pytest.mark.parametrize(
    ("name", "tokens", "by_agent", "cost", "output", "recorded"),
    [
        ("explore_count_files", 55_683, {"main": 2, "Explore": 1}, 0.0763163, 576, 8),
        ("general_purpose_compute", 73_424, {"main": 3}, 0.11752375, 619, 17),
    ],
)
def test_printed_sessions(
    corpora: Path, name: str, tokens: int, by_agent: dict[str, int], cost: float, output: int, recorded: int
) -> None:
    corpus = ot.read_traces(corpora / "cli-streams" / "claude" / f"{name}.jsonl")
    assert corpus.quarantine.collect().height == 0
    metrics = ot.metrics(corpus)
    assert metrics.height == 1
    assert metrics["tokens"].item() == tokens
    events = corpus.events.with_columns(pl.col("agent", "type").cast(pl.String)).collect()
    responses = events.filter(pl.col("tokens").is_not_null()).group_by("agent").len()
    assert dict(responses.rows()) == by_agent
    assert events.filter(pl.col("type") == "spawn").height == 1
    # Responses have no time, so no clock is compared.
    assert corpus.traces.collect()["time_basis"].cast(pl.String).item() == "ordinal"
    codes = set(corpus.findings.collect()["code"].cast(pl.String))
    assert not {"clock.skew", "id.repeated"} & codes
    costs = corpus.measures.filter(pl.col("name").cast(pl.String) == "cost_usd").collect()
    assert costs["value"].to_list() == pytest.approx([cost])
    said = (
        corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.conflict")
        .collect()["message"]
        .to_list()
    )
    said = [message for message in said if " output tokens " in message]
    assert said == [
        f"the result says {output} output tokens of the main stream, "
        f"but its lines sum to {recorded}, which are used"
    ]
