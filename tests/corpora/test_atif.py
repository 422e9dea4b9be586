"""ATIF: the one real trajectory, redacted by its authors."""

import json
from pathlib import Path

import orchestrace as ot
from samples.inputs import documents


def test_a_redacted_trajectory_keeps_its_order_and_its_tokens(corpora: Path) -> None:
    path = corpora / "agent-cli-fixtures" / "atif" / "nemo_relay_atif_v1.7_real_redacted.json"
    source = json.loads(path.read_text())
    corpus = ot.read_traces(path)
    counts = corpus.record_counts.collect()
    assert counts["count"].sum() == len(source["steps"]) == source["final_metrics"]["total_steps"]
    (trace,) = documents(corpus).values()
    totals = source["final_metrics"]
    assert trace["trace_id"] == source["session_id"]
    assert trace["costs"]["tokens"] == totals["total_prompt_tokens"] + totals["total_completion_tokens"]
    calls = sum(len(step.get("tool_calls", [])) for step in source["steps"])
    types = [event["type"] for event in trace["events"]]
    assert (types.count("tool_call"), types.count("tool_result")) == (calls, calls)
    returned = {edge["dst"] for edge in trace["edges"] if edge["type"] == "return"}
    assert len(returned) == calls
    row = corpus.traces.select("time_basis", "partial").collect().row(0)
    assert row == ("ordinal", True)
