"""Trace JSONL to tables, edges resolved: everybody on the same file."""

from pathlib import Path
from typing import Any

import pytest
from ingest_peers import FIELDS, PEERS, Peer, Tables


@pytest.fixture(scope="session")
def expected(path: Path, threads: int | None) -> Tables:
    return PEERS[0].read(path, threads)


def test_peers_read_the_same_fields() -> None:
    from orchestrace.base.schema import SCHEMAS

    assert {"trace", "seq", *FIELDS, "extras"} == set(SCHEMAS["events"])


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_ingest(
    benchmark: Any, peer: Peer, path: Path, expected: Tables, threads: int | None, rounds: int
) -> None:
    benchmark.group = f"ingest, {expected.rows[1]:,} events, {path.stat().st_size / 1e6:.0f} MB"
    benchmark.extra_info.update(peer=peer.name, task="ingest", threads=threads or "default")
    found = benchmark.pedantic(peer.read, args=(path, threads), rounds=rounds, warmup_rounds=1, iterations=1)
    assert found.rows == expected.rows
    assert found.reach == expected.reach
    assert found.sum_t == pytest.approx(expected.sum_t, rel=1e-12)
