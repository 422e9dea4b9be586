"""Options of the benches and the one corpus that all of them read."""

import os
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--events", type=int, default=200_000, help="events of the generated corpus")
    parser.addoption(
        "--rounds", type=int, default=7, help="rounds of every measurement, after one of warm-up"
    )
    parser.addoption("--threads", type=int, default=0, help="threads of every peer; 0: its own default")


def pytest_configure(config: pytest.Config) -> None:
    if threads := config.getoption("--threads"):  # Polars and Numba read these when they are imported
        os.environ["POLARS_MAX_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)


@pytest.fixture(scope="session")
def threads(request: pytest.FixtureRequest) -> int | None:
    return request.config.getoption("--threads") or None


@pytest.fixture(scope="session")
def rounds(request: pytest.FixtureRequest) -> int:
    return request.config.getoption("--rounds")


@pytest.fixture(scope="session")
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated corpus: preset mixed, seed 1."""
    import orchestrace as ot

    path = tmp_path_factory.mktemp("corpus") / "mixed.jsonl"
    ot.generate(path, events=request.config.getoption("--events"), seed=1)
    return path
