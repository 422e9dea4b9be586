"""The bench of schedules compares like with like: its loop over heapq agrees with the engine."""

import importlib.util
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benches" / "python" / "schedule_peers.py"


def test_the_peer_of_the_bench_agrees() -> None:
    spec = importlib.util.spec_from_file_location("schedule_peers", SCRIPT)
    assert spec and spec.loader
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    corpus = bench.corpus_of(50_000)
    traces = bench.given(corpus)
    assert any(not all(works) for *_, works in traces)  # someone outside the team, who takes no slot
    found = [makespan for own in bench.with_heapq(traces) for makespan in own]
    assert found == bench.with_orchestrace(corpus)["makespan"].to_list()
