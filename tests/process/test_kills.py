"""kill -9 at random times: what is called again goes on, and ends as if nothing had happened.

What a kill does to `ingest` at every stage is in test_ingest_crash.py; here are many of them, and those of
results that go to files.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from process.test_ingest_crash import OPTIONS, killed, undisturbed
from samples import on_disk

KILLS = int(os.environ.get("ORCHESTRACE_KILLS", "200"))
SEED = int(os.environ.get("ORCHESTRACE_SEED", "0"))
CALL = {"method": "shapley", "unit": "agent", "samples": 64, "seed": 3}

DYING = """
import json, sys
import orchestrace as ot
source, sink, call = json.loads(sys.argv[1])
corpus = ot.read_corpus(source)
print("begun", flush=True)
ot.credit(corpus, sink=sink, resume=True, **call)
"""


def crediting(source: Path, sink: Path) -> subprocess.Popen[str]:
    """A call of `credit` into files, in a process of its own, at its begin."""
    process = subprocess.Popen(
        [sys.executable, "-c", DYING, json.dumps([str(source), str(sink), CALL])],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", process.communicate()[1]
    return process


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus on disk of several partitions."""
    folder = tmp_path_factory.mktemp("kills")
    (folder / "in.jsonl").write_bytes(on_disk.generated("kill", 6000, 1))
    ot.ingest(folder / "in.jsonl", folder / "out", partitions=6)
    return folder / "out"


def killed_while_crediting(source: Path, sink: Path, chance: random.Random, kills: int) -> int:
    """Kill the call until it has been killed so often, let it end; how many kills met it at work."""
    since = time.monotonic()
    first = crediting(source, sink.with_name(sink.name + " undisturbed"))
    _, errors = first.communicate()
    assert first.returncode == 0, errors
    seconds = time.monotonic() - since
    met = 0
    for _ in range(kills):
        process = crediting(source, sink)
        pause = chance.random() * 0.6 * seconds
        time.sleep(pause)
        if process.poll() is not None:
            seconds = pause  # of what is left there is less to do
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        met += process.returncode != 0
    last = crediting(source, sink)
    _, errors = last.communicate()
    assert last.returncode == 0, errors
    return met


def assert_credited(source: Path, sink: Path) -> None:
    """The files are those of a call that nobody disturbed, and no other."""
    undisturbed = sink.with_name(sink.name + " undisturbed")
    assert sorted(p.name for p in sink.rglob("*")) == sorted(p.name for p in undisturbed.rglob("*"))
    found, expected = (pl.scan_parquet(one / "*.parquet").collect() for one in (sink, undisturbed))
    assert_frame_equal(found, expected, check_exact=True)
    corpus = ot.read_corpus(source)
    assert set(found["trace_id"]) == set(corpus.traces.select("trace_id").collect()["trace_id"])


def test_a_call_of_credit_that_is_killed_goes_on(source: Path, tmp_path: Path) -> None:
    killed_while_crediting(source, tmp_path / "credits", random.Random(SEED), 2)
    assert_credited(source, tmp_path / "credits")


def test_what_a_killed_call_had_begun_goes_when_it_is_done(source: Path, tmp_path: Path) -> None:
    sink = tmp_path / "credits"
    ot.credit(ot.read_corpus(source), sink=sink, resume=True, **CALL)
    (sink / "part=001.parquet").unlink()
    begun, foreign = sink / ".0123456789abcdef.part=001.parquet.tmp", sink / ".notes.tmp"
    begun.write_bytes(b"PAR1")
    foreign.write_bytes(b"mine")
    ot.credit(ot.read_corpus(source), sink=sink, resume=True, **CALL)
    assert not begun.exists() and foreign.exists()


@pytest.mark.nightly
def test_many_kills_of_credit(source: Path, tmp_path: Path) -> None:
    """A quarter of ORCHESTRACE_KILLS (200) that meet a call at work, at most five for each call."""
    seed = SEED or int(time.strftime("%Y%m%d"))
    met = number = 0
    while met < KILLS // 4:
        assert number < KILLS, f"{met} kills of {number} calls met them at work"
        sink = tmp_path / f"credits {number}"
        met += killed_while_crediting(source, sink, random.Random(f"{seed}/{number}"), 5)
        assert_credited(source, sink)
        number += 1
    print(f"\nORCHESTRACE_SEED={seed}: {met} kills of {number} calls of credit at work")


@pytest.mark.nightly
def test_many_kills_of_ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three quarters of ORCHESTRACE_KILLS (200) that meet an ingest of all kinds of recordings at work."""
    seed = SEED or int(time.strftime("%Y%m%d"))
    source = tmp_path / "in"
    source.mkdir()
    on_disk.write_recordings(source, events=4000)
    on_disk.write_spans(source, traces=200, files=3)
    on_disk.make_small(monkeypatch.setattr, room=1 << 18, slice_rows=700)
    scenario = undisturbed(source, None, tmp_path / "whole")
    assert OPTIONS["threads"] == 2
    tried = met = number = 0
    while met < 3 * KILLS // 4:
        assert tried < 4 * KILLS, f"{met} of {tried} kills met it at work"
        chance = random.Random(f"{seed}/{number}")
        counted = killed("any time", chance, scenario, tmp_path / str(number))
        tried += counted.total()
        met += sum(n for stage, n in counted.items() if not stage.startswith("not "))
        number += 1
        print(f"{tried} kills of ingest, {met} at work", flush=True)
    print(f"\nORCHESTRACE_SEED={seed}")
