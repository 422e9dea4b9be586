"""A bucket on this machine, for the tests of this folder."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestrace.storage import repeating, stores
from storage import servers

REASON = "obstore, moto and boto3 are not installed: pip install '.[storage-tests]'"


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """A server of S3 with the bucket `runs`, and the environment that leads to it."""
    for name in ("obstore", "boto3", "moto.server"):
        pytest.importorskip(name, reason=REASON)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch, servers.s3(patch) as url:
        yield url


@pytest.fixture
def bucket(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> servers.Bucket:
    """The bucket, with scratch files and copies in folders of the test's own."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("ORCHESTRACE_CACHE", str(tmp_path / "cache"))
    found = servers.Bucket(server)
    found.clear()
    return found


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that wait for milliseconds where others wait for seconds."""
    client: dict[str, Any] = {**stores.CLIENT, "timeout": "500ms", "connect_timeout": "1s"}
    retries = {**stores.RETRIES, "max_retries": 4, "backoff": servers.quick_backoff()}
    monkeypatch.setattr(stores, "CLIENT", client)
    monkeypatch.setattr(stores, "RETRIES", retries)
    monkeypatch.setattr(repeating, "FIRST_WAIT", 0.01)
