"""The bench of schedules compares like with like: its loop over heapq agrees with the engine."""

from samples.scripts import loaded


def test_the_peer_of_the_bench_agrees() -> None:
    bench = loaded("schedule_peers")
    corpus = bench.corpus_of(50_000)
    traces = bench.given(corpus)
    assert any(not all(works) for *_, works in traces)  # someone outside the team, who takes no slot
    found = [makespan for own in bench.with_heapq(traces) for makespan in own]
    assert found == bench.with_orchestrace(corpus)["makespan"].to_list()
