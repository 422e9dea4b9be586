"""Whatever ends an ingest, what is published stays, and the same call goes on to the same rows and numbers.

`ORCHESTRACE_KILLS` is how many moments are tried; the tally of what they hit is printed (`pytest -s`).
"""

import collections
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import manifest
from samples import on_disk
from samples.on_disk import (
    FIELDS,
    assert_rows,
    assert_tidy,
    document,
    files,
    generated,
    lines,
    reconcile,
    rows,
    touch,
)

KILLS = int(os.environ.get("ORCHESTRACE_KILLS", "25"))
SMALL = {"room": 1 << 18, "slice_rows": 700}
# How many batches there are depends on the threads.
OPTIONS = {"partitions": 3, "threads": 2}
KINDS = ("parsing", "writing", "renaming", "manifest", "merging", "any time")
TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process does is done as in the one that is killed."""
    on_disk.make_small(monkeypatch.setattr, **SMALL)


def kind(stage: str) -> str:
    """What an ingest does at a stage, in one word."""
    first = stage.partition(",")[0].partition(":")[0]
    return first if first in KINDS else "any time"


def started(source: Path, out: Path, **spec: Any) -> subprocess.Popen[str]:
    """An ingest in a process of its own, at its begin."""
    spec = {"source": str(source), "out": str(out), "small": SMALL, "options": OPTIONS, **spec}
    process = subprocess.Popen(
        [sys.executable, "-m", "process.dying", json.dumps(spec)],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n", process.communicate()[1]
    return process


@dataclass
class Scenario:
    """An ingest, undisturbed."""

    source: Path
    begin: Path | None
    """The corpus before it."""
    expected: dict[str, pl.DataFrame]
    records: dict[str, int]
    moments: dict[str, list[tuple[str, int]]]
    """Every moment at which it can be killed, by kind."""
    seconds: float

    def prepare(self, out: Path) -> None:
        if self.begin is not None:
            shutil.copytree(self.begin, out)

    def check(self, out: Path) -> None:
        """The same call goes on to the same corpus."""
        report = ot.ingest(self.source, out, fields=FIELDS, **OPTIONS)
        assert report.records == self.records
        assert_rows(ot.read_corpus(out), self.expected)
        assert_tidy(out)


def undisturbed(source: Path, begin: Path | None, out: Path) -> Scenario:
    scenario = Scenario(source, begin, {}, {}, {}, 0.0)
    scenario.prepare(out)
    process = started(source, out)
    since = time.monotonic()
    told, errors = process.communicate()
    scenario.seconds = time.monotonic() - since
    assert process.returncode == 0, errors
    for stage, times in json.loads(told.splitlines()[-1]).items():
        scenario.moments.setdefault(kind(stage), []).extend((stage, n) for n in range(times))
    corpus = ot.read_corpus(out)
    scenario.expected, scenario.records = rows(corpus), corpus.records
    assert_tidy(out)
    return scenario


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    """A corpus from nothing, and one of which inputs grew, shrank, lost originals of repeats or are new."""
    folder = tmp_path_factory.mktemp("scenarios")
    source = folder / "in"
    source.mkdir()
    on_disk.write_recordings(source, events=2500)
    again = generated("again", 500, 5)
    half = b"".join(again.splitlines(keepends=True)[::2])
    (source / "r1.jsonl").write_bytes(again)
    (source / "r2.jsonl.gz").write_bytes(gzip.compress(again + lines(document("r2")) + b"noise\n"))
    (source / "r3.jsonl").write_bytes(half + lines(document("r3")))
    with pytest.MonkeyPatch.context() as patch:
        on_disk.make_small(patch.setattr, **SMALL)
        ot.ingest(source, folder / "before", fields=FIELDS, **OPTIONS)
        before = rows(ot.read_corpus(folder / "before"))
        plain = (source / "a plain one.jsonl").read_bytes().splitlines(keepends=True)
        touch(source / "a plain one.jsonl", b"".join(plain[5:]) + generated("more", 300, 6))
        touch(source / "r1.jsonl", half[: len(half) // 2] + lines(document("r1")))
        touch(source / "s.jsonl", generated("new", 300, 7) + lines(document("noted", 4)))
        made = [
            undisturbed(source, None, folder / "fresh"),
            undisturbed(source, folder / "before", folder / "changed"),
            gathered(folder),
        ]
    changed = made[1]
    assert changed.records["duplicate"] > 0
    kept = before["traces"].join(changed.expected["traces"], on=["trace", "trace_id"], how="semi").height
    assert kept > before["traces"].height // 2
    for one in made[:2]:
        assert set(one.moments) == set(KINDS)
        assert len([m for m in one.moments["parsing"] if m[0] == "parsing: after"]) > 5
        assert len([m for m in one.moments["merging"] if m[0] == "merging, partition: before"]) == 3
    return made


def gathered(folder: Path) -> Scenario:
    """A corpus of traces that are spread over files: one file came later, one has changed since."""
    source = folder / "spans"
    source.mkdir()
    paths = on_disk.write_spans(source, traces=300, files=3)
    late = paths[1].read_bytes()
    paths[1].unlink()
    (source / "whole.jsonl").write_bytes(generated("whole", 300, 8))
    ot.ingest(source, folder / "partly", fields=FIELDS, **OPTIONS)
    paths[1].write_bytes(late)
    touch(paths[2], paths[2].read_bytes() + on_disk.request(on_disk.span(500, 0)) + b"noise\n")
    one = undisturbed(source, folder / "partly", folder / "together")
    assert set(one.moments) == set(KINDS)
    assert len([m for m in one.moments["parsing"] if m[0] == "parsing: after"]) > 5
    return one


@pytest.mark.nightly
@pytest.mark.every_nth(16)
@pytest.mark.parametrize("what", KINDS)
def test_a_kill_at_any_moment(what: str, scenarios: list[Scenario], tmp_path: Path) -> None:
    counted: collections.Counter[str] = collections.Counter()
    for number in range(KINDS.index(what), KILLS, len(KINDS)):
        counted += killed(
            what, random.Random(number), scenarios[number // len(KINDS) % 3], tmp_path / str(number)
        )
    print(f"\nkilled {counted.total()} times: " + "; ".join(f"{n} {w}" for w, n in sorted(counted.items())))
    assert any(kind(stage) == what for stage in counted if not stage.startswith("not ")), counted


def killed(what: str, chance: random.Random, scenario: Scenario, out: Path) -> collections.Counter[str]:
    """Kill, look at what is there, and let the same call go on; at which stages that was."""
    tally: collections.Counter[str] = collections.Counter()
    scenario.prepare(out)
    for _ in range(1 + (chance.random() < 0.3)):  # what goes on is killed too
        if what == "any time":
            process = started(scenario.source, out)
            pause = chance.random() * 0.8 * scenario.seconds
            time.sleep(pause)
            if process.poll() is not None:
                scenario.seconds = pause  # it was measured on a machine that had more to do
            process.send_signal(signal.SIGKILL)
            stage = what
        else:
            # Stages have unequal numbers of moments; each stage is as likely as the others. How many batches
            # there are depends on the threads, so that the last moments need not come.
            stage = chance.choice(sorted({stage for stage, _ in scenario.moments[what]}))
            times = sum(one == stage for one, _ in scenario.moments[what])
            process = started(scenario.source, out, moment=(stage, chance.randrange(-(-2 * times // 3))))
        _, errors = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), errors
        tally[stage if process.returncode else f"not {stage}"] += 1
        if (out / MANIFEST).exists():
            reconcile(out)  # what is there is a corpus at every moment
    scenario.check(out)
    return tally


def test_files_half_written_are_removed(scenarios: list[Scenario], tmp_path: Path) -> None:
    """The kill that leaves most behind: all files of a step have their names, and no manifest lists them."""
    out = tmp_path / "out"
    process = started(scenarios[0].source, out, moment=("merging, manifest, renaming: before", 0))
    process.communicate()
    made = manifest.load(out)
    assert process.returncode == -signal.SIGKILL and made is not None
    assert len(set(files(out)) - set(made.files())) > 4
    scenarios[0].check(out)


# other ends


def mount(folder: Path, *options: str) -> None:
    """A file system of our own, or no test."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"cannot mount: {error}")
    if done.returncode:
        pytest.skip(f"may not mount a file system: {done.stderr.strip()}")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "volume"
    mount(folder, "size=64m")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def one_line(error: BaseException) -> str:
    text = str(error)
    assert "\n" not in text and "Traceback" not in text
    return text


@pytest.mark.parametrize("share", [0.05, 0.4, 0.8])
def test_a_full_disk(scenarios: list[Scenario], volume: Path, share: float) -> None:
    scenario = scenarios[1]
    out = volume / "out"
    scenario.prepare(out)
    used = sum(path.stat().st_blocks * 512 for path in out.rglob("*"))
    limit = int(used * (1 + share))
    mount(volume, "remount", f"size={limit}")
    with pytest.raises(ot.InputError, match=r"cannot write to '.*out': .*No space left") as caught:
        ot.ingest(scenario.source, out, fields=FIELDS, **OPTIONS)
    assert "the same call resumes" in one_line(caught.value)
    reconcile(out)
    told = CliRunner().invoke(app, ["ingest", str(scenario.source), "-o", str(out)])
    assert told.exit_code == 1 and "No space left on device" in told.stderr and "Traceback" not in told.stderr
    with pytest.raises(ot.InputError, match="No space left"):
        ot.ingest(scenario.source, out, fields=FIELDS, **OPTIONS)
    mount(volume, "remount", "size=64m")
    scenario.check(out)


def test_a_disk_that_has_no_room_for_a_manifest(volume: Path, scenarios: list[Scenario]) -> None:
    (volume / "fill").write_bytes(b"x")
    mount(volume, "remount", "size=4k")
    with pytest.raises(ot.InputError, match="No space left on device") as caught:
        ot.ingest(scenarios[0].source, volume / "out", fields=FIELDS, **OPTIONS)
    one_line(caught.value)
    mount(volume, "remount", "size=64m")
    scenarios[0].check(volume / "out")


def test_a_disk_that_may_only_be_read(scenarios: list[Scenario], volume: Path, tmp_path: Path) -> None:
    scenario = scenarios[1]
    out = volume / "out"
    scenario.prepare(out)
    mount(volume, "remount", "ro")
    for target in (out, volume / "other"):
        with pytest.raises(ot.InputError, match="Read-only file system") as caught:
            ot.ingest(scenario.source, target, fields=FIELDS, **OPTIONS)
        one_line(caught.value)
    assert len(ot.read_corpus(out)) > 0
    told = CliRunner().invoke(app, ["ingest", str(scenario.source), "-o", str(volume / "other")])
    assert told.exit_code == 1 and "Read-only file system" in told.stderr
    assert len(told.stderr.splitlines()) == 1 and "Traceback" not in told.stderr
    mount(volume, "remount", "rw")
    scenario.check(out)
    mount(volume, "remount", "ro")
    # Nothing is new, so nothing is written.
    assert set(ot.ingest(scenario.source, out, **OPTIONS).inputs["status"]) == {"unchanged"}


def test_the_second_process_stops_and_the_first_goes_on(scenarios: list[Scenario], tmp_path: Path) -> None:
    scenario, out = scenarios[0], tmp_path / "out"
    first = started(scenario.source, out, moment=("writing: before", 3), act="wait")
    assert first.stdout is not None and first.stdout.readline() == "reached\n"
    with pytest.raises(ot.InputError, match=f"another ingest is writing to '{out}'") as caught:
        ot.ingest(scenario.source, out, **OPTIONS)
    one_line(caught.value)
    _, errors = first.communicate("go on\n")
    assert first.returncode == 0, errors
    assert_rows(ot.read_corpus(out), scenario.expected)
    scenario.check(out)


@pytest.mark.parametrize(
    "stage", ["writing: before", "manifest, renaming: before", "merging, writing: after"]
)
def test_an_interrupt_while_files_are_written(scenarios: list[Scenario], tmp_path: Path, stage: str) -> None:
    scenario, out = scenarios[0], tmp_path / "out"
    process = started(scenario.source, out, moment=(stage, 1), act="wait")
    assert process.stdout is not None and process.stdout.readline() == "reached\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode in (130, -signal.SIGINT) and "KeyboardInterrupt" in errors
    assert not list(out.rglob("*.parquet.tmp")), "what is not published is removed at once where it can be"
    reconcile(out)
    scenario.check(out)


def test_an_interrupt_while_parsing(tmp_path: Path) -> None:
    """In the midst of an input that takes seconds: it is compressed, and blank but for a few records."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (source / "a.jsonl").write_bytes(generated("a", 1500, 1))
    blank = gzip.compress((b" " * 1023 + b"\n") * (32 << 10), compresslevel=1, mtime=0)
    ends = [gzip.compress(lines(*(document(f"{n}{i}", 9) for i in range(200))), mtime=0) for n in "bc"]
    (source / "b.jsonl.gz").write_bytes(ends[0] + blank * 24 + ends[1])
    process = started(source, out, moment=("parsing: before", 1), act="wait")
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "reached\n"
    process.stdin.write("go on\n")
    process.stdin.flush()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode in (130, -signal.SIGINT) and "KeyboardInterrupt" in errors
    ot.ingest(source, out, **OPTIONS, fields=FIELDS)
    assert_rows(ot.read_corpus(out), rows(ot.read_traces(source, fields=FIELDS)))
    assert_tidy(out)


# what happens between two calls


def test_inputs_that_change_or_go_after_a_kill(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    data = {name: generated(name, 600, n) for n, name in enumerate("abc")}
    for name, content in data.items():
        (source / f"{name}.jsonl").write_bytes(content)
    process = started(source, out, moment=("hashing: before", 1))
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    (source / "a.jsonl").unlink()
    touch(source / "b.jsonl", data["b"].replace(b'"b-', b'"x-'))
    report = ot.ingest(source, out, **OPTIONS, fields=FIELDS)
    status = {Path(name).stem: word for name, word in report.inputs.select("input", "status").iter_rows()}
    assert status == {"b": "replaced", "c": "unchanged"}
    (source / "a.jsonl").write_bytes(data["a"])
    on_disk.assert_content(ot.read_corpus(out), ot.read_traces(source, fields=FIELDS))
    assert_tidy(out)


@pytest.mark.nightly
def test_a_second_reading_goes_on_though_its_input_is_not_named(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    first = lines(*(document(f"x{n}", 30) for n in range(40)))
    (source / "a.jsonl").write_bytes(first)
    for name in ("b", "c"):
        (source / f"{name}.jsonl").write_bytes(generated(name, 1500, 2) + first)
    ot.ingest(source, out, **OPTIONS, fields=FIELDS)
    touch(source / "a.jsonl", lines(document("y")))
    # The call names one input; the repeats of what it lost are in two others. Count the steps of that call.
    shutil.copytree(out, tmp_path / "copy")
    told, _ = started(source / "a.jsonl", tmp_path / "copy").communicate()
    steps = json.loads(told.splitlines()[-1])["parsing: before"]
    expected = rows(ot.read_corpus(tmp_path / "copy"))
    assert steps > 5
    # How many batches there are depends on the threads: 11 or 12, so that the last need not come.
    for step in range(1, steps - 1, -(-steps // 6)):
        again = tmp_path / f"again{step}"
        shutil.copytree(out, again)
        process = started(source / "a.jsonl", again, moment=("parsing: before", step))
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        ot.ingest(source / "a.jsonl", again, **OPTIONS, fields=FIELDS)
        assert_rows(ot.read_corpus(again), expected)
        assert_tidy(again)
    on_disk.assert_content(ot.read_corpus(again), ot.read_corpus(tmp_path / "copy"))
