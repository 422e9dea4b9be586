"""However often an ingest into a bucket is killed, readers see a whole corpus, and the same call goes on.

The kill comes at a request that writes: before the server has it, or when it has it and the answer is not
there yet.
"""

import random
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.disk import manifest
from orchestrace.disk.home import Home
from orchestrace.storage.addresses import address_of
from samples import on_disk
from storage.servers import Bucket, proxied, started

pytestmark = pytest.mark.process
OUT = "s3://runs/corpus"


class Killer:
    """A plan that kills a process at its n-th request that writes."""

    def __init__(self, moment: int, after: bool) -> None:
        self.moment, self.after = moment, after
        self.process: subprocess.Popen[str] | None = None
        self.writes = 0

    def __call__(self, method: str, path: str) -> str | None:
        if method not in ("PUT", "POST", "DELETE"):
            return None
        self.writes += 1
        if self.writes != self.moment or self.process is None:
            return None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return "lose" if self.after else "drop"


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Recordings of several batches."""
    folder = tmp_path / "rec"
    folder.mkdir()
    on_disk.write_recordings(folder, events=2500)
    return folder


@pytest.fixture
def expected(recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pl.DataFrame]:
    """The rows of a folder, from an ingest that nobody kills."""
    on_disk.make_small(monkeypatch.setattr, slice_rows=700)
    ot.ingest(recordings, tmp_path / "local", partitions=3, threads=2, fields=on_disk.FIELDS)
    return on_disk.rows(ot.read_corpus(tmp_path / "local"))


def assert_whole(expected: dict[str, pl.DataFrame]) -> int:
    """What can be seen is a corpus, all files of it as they were written; how many traces it has."""
    home = Home(address_of(OUT))
    made = manifest.load_home(home)
    if made is None:
        return 0
    there = home.listing()
    for one in made.stored():
        assert one.expected is not None and there[one.name].size == one.expected.size
    found = on_disk.rows(ot.read_corpus(OUT))
    traces = found["traces"]["trace"]
    for table in ("traces", "events", "edges", "measures"):
        whole = expected[table].filter(pl.col("trace").is_in(traces.implode()))
        on_disk.assert_table(table, found[table], whole)
    return traces.len()


def run(
    recordings: Path,
    expected: dict[str, pl.DataFrame],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moments: list[tuple[int, bool]],
) -> None:
    """Kill ingests one after the other into one bucket, then let one come to its end."""
    seen, killed = 0, 0
    for number, (moment, after) in enumerate(moments):
        killer = Killer(moment, after)
        with proxied(bucket.endpoint, killer) as proxy:
            killer.process = started(recordings, OUT, tmp_path / f"writer {number % 2}", proxy.url)
            _, errors = killer.process.communicate(timeout=120)
        # an ingest that has less to write than that comes to its end
        assert killer.process.returncode in (0, -signal.SIGKILL), errors
        killed += killer.process.returncode != 0
        monkeypatch.setenv("ORCHESTRACE_CACHE", str(tmp_path / f"reader {number}"))
        now = assert_whole(expected)
        assert now >= seen
        seen = now
    assert killed
    process = started(recordings, OUT, tmp_path / "writer", bucket.endpoint)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    monkeypatch.setenv("ORCHESTRACE_CACHE", str(tmp_path / "reader"))
    on_disk.assert_rows(ot.read_corpus(OUT), expected)
    made = manifest.load_home(Home(address_of(OUT)))
    assert made is not None and made.complete
    assert set(bucket.keys("corpus/")) == {f"corpus/{name}" for name in made.files()} | {
        "corpus/manifest.json"
    }


@pytest.mark.every_nth(1)
def test_kills_leave_a_whole_corpus(
    recordings: Path,
    expected: dict[str, pl.DataFrame],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moments = [(1, True), (5, False), (12, True), (30, False)]
    run(recordings, expected, bucket, tmp_path, monkeypatch, moments)


@pytest.mark.nightly
@pytest.mark.every_nth(1)
@pytest.mark.parametrize("seed", range(5))
def test_fifty_kills_leave_a_whole_corpus(
    recordings: Path,
    expected: dict[str, pl.DataFrame],
    bucket: Bucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
) -> None:
    draws = random.Random(seed)
    moments = [(draws.randrange(1, 60), draws.random() < 0.5) for _ in range(10)]
    run(recordings, expected, bucket, tmp_path, monkeypatch, moments)
