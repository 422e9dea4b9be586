"""Files that are written: there completely or not at all, and never over a file that somebody else made."""

import contextlib
import io
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orchestrace as ot
from orchestrace.base.publication import published_folder, write_parquet
from samples.episodes import episodes_file
from samples.export_calls import corpus_for, files, options_of

LIMIT = 4096
"""Bytes that a file may have where the disk is said to be full: less than any writer below needs."""

STUDY = {
    "methods": ["flow"],
    "sizes": [{"events": 10, "agents": 2, "traces": 16}],
    "presets": {f"p{number}": {"noise": 0.5} for number in range(60)},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> ot.Corpus:
    """Some traces, and rejected records that are longer than the limit."""
    episodes_file()  # which other files than those under test are too large for, too
    folder = tmp_path_factory.mktemp("corpus")
    buffer = io.BytesIO()
    ot.generate(buffer, events=3_000, seed=0)
    (folder / "runs.jsonl").write_bytes(buffer.getvalue() + b"{" + b"x" * 3 * LIMIT + b"\n")
    return ot.read_traces(folder / "runs.jsonl")


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> ot.Corpus:
    folder = tmp_path_factory.mktemp("disk")
    ot.generate(folder / "runs.jsonl", events=3_000, seed=0)
    ot.ingest(folder / "runs.jsonl", folder / "out")
    return ot.read_corpus(folder / "out")


Write = Callable[[ot.Corpus, Path, bool], object]


def exported(corpus: ot.Corpus, format: str, path: Path, overwrite: bool) -> int:
    some = corpus_for(format, corpus)
    return ot.export(some, format, path, overwrite=overwrite, **options_of(format, some))


TRAINED = {"method": "grpo", "unit": "turn"}
FILES: dict[str, Write] = {
    "write_jsonl": lambda c, path, over: c.write_jsonl(path, overwrite=over),
    "write_quarantined": lambda c, path, over: c.write_quarantined(path, overwrite=over),
    "generate": lambda c, path, over: ot.generate(path, events=3_000, overwrite=over),
    "synthetic.planted": lambda c, path, over: ot.synthetic.planted(path, traces=64, overwrite=over),
    **{f"export {name}": lambda c, path, over, name=name: exported(c, name, path, over) for name in files()},
    "parquet of a command": lambda c, path, over: write_parquet(c.events.collect(), path, overwrite=over),
}
"""Every writer of a file."""


def folder_of_tables(c: ot.Corpus, path: Path) -> None:
    with published_folder(path) as folder:
        write_parquet(c.events.collect(), folder / "events.parquet")


FOLDERS: dict[str, Callable[[ot.Corpus, Path], object]] = {
    "export parquet": lambda c, path: ot.export(c, "parquet", path),
    "credit sink": lambda c, path: ot.credit(c, method="uniform", sink=path),
    "study": lambda c, path: ot.study.run(STUDY, path, workers=0),
    "tables": folder_of_tables,
}
"""Every writer of a folder."""

each_file = pytest.mark.parametrize("name", FILES)


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The system refuses to let files grow beyond that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@each_file
def test_what_cannot_be_completed_leaves_no_file(name: str, corpus: ot.Corpus, tmp_path: Path) -> None:
    target = tmp_path / "out"
    with files_of_at_most(LIMIT), pytest.raises(ot.InputError) as caught:
        FILES[name](corpus, target, False)
    assert str(caught.value) == f"{target}: File too large"
    assert os.listdir(tmp_path) == []


@each_file
def test_what_cannot_be_completed_leaves_the_file_of_before(
    name: str, corpus: ot.Corpus, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    target.write_text("old")
    with files_of_at_most(LIMIT), pytest.raises(ot.InputError, match="File too large"):
        FILES[name](corpus, target, True)
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["out"]


@each_file
def test_a_device_without_room_is_one_line(name: str, corpus: ot.Corpus) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("the system has no /dev/full")
    with pytest.raises(ot.InputError) as caught:
        FILES[name](corpus, Path("/dev/full"), False)
    assert str(caught.value) == "/dev/full: No space left on device; make room or choose another place"


@each_file
def test_a_file_that_exists_is_replaced_only_if_that_is_asked_for(
    name: str, corpus: ot.Corpus, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    target.write_text("mine")
    with pytest.raises(ot.InputError) as caught:
        FILES[name](corpus, target, False)
    assert str(caught.value) == f"'{target}' exists; pass overwrite=True to replace it"
    assert target.read_text() == "mine" and os.listdir(tmp_path) == ["out"]
    FILES[name](corpus, target, True)
    assert target.read_bytes()[:4] != b"mine" and os.listdir(tmp_path) == ["out"]


def test_a_corpus_on_disk_writes_by_the_same_rules(on_disk: ot.Corpus, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    with files_of_at_most(LIMIT), pytest.raises(ot.InputError, match=r"out\.jsonl: File too large$"):
        on_disk.write_jsonl(target)
    assert os.listdir(tmp_path) == []
    on_disk.write_jsonl(target)
    with pytest.raises(ot.InputError, match="pass overwrite=True"):
        on_disk.write_jsonl(target)
    assert on_disk.write_jsonl(target, overwrite=True) == len(on_disk)


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_that_cannot_be_completed_hold_no_part_of_a_file(
    name: str, corpus: ot.Corpus, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    with files_of_at_most(LIMIT), pytest.raises(ot.InputError) as caught:
        FOLDERS[name](corpus, target)
    assert "File too large" in str(caught.value) and str(target) in str(caught.value)
    assert "\n" not in str(caught.value)
    files = [path for path in target.rglob("*") if path.is_file()]
    assert [path for path in files if path.name.endswith(".tmp")] == []
    for path in files:
        assert path.suffix == ".json" and path.read_text().endswith("}\n"), path


def test_a_file_that_comes_while_another_is_written_is_not_replaced(
    corpus: ot.Corpus, tmp_path: Path
) -> None:
    target = tmp_path / "out.jsonl"
    with pytest.raises(ot.InputError, match="exists"):
        corpus.write_jsonl(target, progress=lambda done, total: target.write_text("mine"))
    assert target.read_text() == "mine" and os.listdir(tmp_path) == ["out.jsonl"]


def test_nothing_is_written_through_a_link_that_lies_where_a_file_is_prepared(
    corpus: ot.Corpus, tmp_path: Path
) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".out.jsonl.tmp").symlink_to(tmp_path / "victim")
    corpus.write_jsonl(tmp_path / "out.jsonl")
    assert (tmp_path / "victim").read_text() == "mine"


SMALL_DISK = """
import pathlib, subprocess, sys
import orchestrace as ot

folder = pathlib.Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
corpus = ot.generate(events=20_000, seed=0)
credits = ot.credit(corpus, method="grpo", unit="turn")
calls = {
    "jsonl": lambda path: corpus.write_jsonl(path),
    "parquet": lambda path: ot.export(corpus, "verl", path, credits=credits),
    "generate": lambda path: ot.generate(path, events=20_000),
}
for name, call in calls.items():
    try:
        call(folder / name)
    except ot.InputError as error:
        print(error)
    print([path.name for path in folder.iterdir()])
"""


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    """On a disk of its own, in a namespace of mounts that nobody else sees."""
    unshare = shutil.which("unshare")
    folder = tmp_path / "disk"
    folder.mkdir()
    alone = [unshare or "", "--mount"] if os.geteuid() == 0 else [unshare or "", "--map-root-user", "--mount"]
    trial = [*alone, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    if unshare is None or subprocess.run(trial, capture_output=True).returncode:
        pytest.skip("the machine does not let this process mount a file system")
    done = subprocess.run(
        [*alone, sys.executable, "-c", SMALL_DISK, str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    names = ("jsonl", "parquet", "generate")
    assert done.returncode == 0, done.stderr
    told = "No space left on device; make room or choose another place"
    assert done.stdout == "".join(f"{folder / name}: {told}\n[]\n" for name in names)
