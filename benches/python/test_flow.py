"""Backward flow from columns to one credit per event, building the graph included."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flow_peers import PEERS, Columns, columns

import orchestrace as ot


@pytest.fixture(scope="session")
def data(path: Path) -> Columns:
    return columns(ot.read_traces(path))


@pytest.fixture(scope="session")
def expected(data: Columns) -> np.ndarray:
    return PEERS["orchestrace"](data, None)


@pytest.mark.parametrize("peer", PEERS)
def test_flow(
    benchmark: Any, peer: str, data: Columns, expected: np.ndarray, threads: int | None, rounds: int
) -> None:
    benchmark.group = f"flow, {len(expected):,} events, {len(data.src):,} edges"
    benchmark.extra_info.update(peer=peer, task="flow", threads=threads or "default")
    found = benchmark.pedantic(
        PEERS[peer], args=(data, threads), rounds=rounds, warmup_rounds=1, iterations=1
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert found.sum() == pytest.approx(data.reward.sum(), abs=1e-6)
