"""Advantages on live episodes of the package itself, read from what it wrote."""

import gzip
import json
import os
from pathlib import Path

import pytest

vf = pytest.importorskip(
    "verifiers.v1.episode", exc_type=ImportError, reason="verifiers is not installed: make conformance"
)

import orchestrace as ot  # noqa: E402
from orchestrace.trainers import verifiers  # noqa: E402

CORPORA = os.environ.get("ORCHESTRACE_CORPORA", "")


@pytest.mark.skipif(not CORPORA, reason="ORCHESTRACE_CORPORA names no published corpora")
def test_live_episodes_get_what_the_export_writes(tmp_path: Path) -> None:
    packed = Path(CORPORA, "verifiers", "kuhn-train", "traces.jsonl.gz")
    lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
    episodes = [vf.Episode.model_validate_json(line) for line in lines]
    source = tmp_path / "traces.jsonl"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    corpus = ot.read_traces(source)
    credits = ot.credit(corpus, method="dr_grpo", unit="turn", reward="payoff")
    ot.export(corpus, "verifiers", tmp_path / "out.jsonl", credits=credits)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert verifiers.assign(episodes, "dr_grpo", reward="payoff") > 0
    live = {one.id: [[node.advantages for node in trace.nodes] for trace in one.traces] for one in episodes}
    filed = {
        one["id"]: [[node.get("advantages") for node in trace["nodes"]] for trace in one["traces"]]
        for one in written
    }
    assert live == filed
