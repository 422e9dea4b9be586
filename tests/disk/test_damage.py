"""Damaged files of a corpus on disk: one clear error that names the file, or the same data; never other data.

What is damaged is drawn from seeds. An ingest makes anew what its inputs can give again, and says in one line
what they cannot.
"""

import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.disk import integrity, manifest
from orchestrace.disk.ingesting import IngestReport
from samples import on_disk

TESTS = Path(__file__).parents[1]
SMALL = {"slice_rows": 800}
PARTITIONED = ("traces", "events", "edges", "agents", "measures", "labels", "findings")


def reported(corpus: ot.Corpus) -> object:
    return ot.metrics(corpus).with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()


def credited(corpus: ot.Corpus) -> object:
    made = ot.credit(corpus, method="discounted", unit="agent")
    return made.with_columns(pl.col(pl.Categorical).cast(pl.String)).to_dicts()


def written(corpus: ot.Corpus) -> object:
    """All tables, in their order."""
    tables = (*PARTITIONED, "quarantine", "record_counts")
    return [getattr(corpus, name).collect().to_dicts() for name in tables]


def counted(corpus: ot.Corpus) -> object:
    return len(corpus), corpus.records, len(corpus.filter(pl.col("n_events") > 3))


VERBS: dict[str, Callable[[ot.Corpus], object]] = {
    "tables": written,
    "metrics": reported,
    "credit": credited,
    "counts": counted,
}


def opened(folder: Path, **options: Any) -> ot.Corpus:
    """With slices that have room for any group."""
    return ot.read_corpus(folder, memory=64 << 20, **options)


class Sound:
    """A corpus that nothing happened to, and what every verb says of it."""

    def __init__(self, folder: Path) -> None:
        self.inputs, self.folder = folder / "in", folder / "corpus"
        on_disk.write_recordings(self.inputs, events=500)
        with pytest.MonkeyPatch.context() as patch:
            on_disk.make_small(patch.setattr, **SMALL)
            ot.ingest(self.inputs, self.folder, partitions=2, fields=on_disk.FIELDS)
        known = manifest.load(self.folder)
        assert known is not None
        self.files = sorted(known.files())
        self.said = {name: str(verb(opened(self.folder))) for name, verb in VERBS.items()}
        self.rows = on_disk.rows(ot.read_corpus(self.folder))

    def copy(self, folder: Path) -> Path:
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(self.folder, folder)
        return folder

    def of(self, table: str) -> list[str]:
        return [name for name in self.files if f"{table}/" in name]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return Sound(tmp_path_factory.mktemp("sound"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk.make_small(monkeypatch.setattr, **SMALL)


def flip(path: Path, draw: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    path.write_bytes(raw)


def cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(1, path.stat().st_size))


def delete(path: Path, draw: random.Random) -> None:
    path.unlink()


def empty(path: Path, draw: random.Random) -> None:
    path.write_bytes(b"")


def grow(path: Path, draw: random.Random) -> None:
    path.write_bytes(path.read_bytes() + b"PAR1")


def replace_by_folder(path: Path, draw: random.Random) -> None:
    path.unlink()
    path.mkdir()


HARM = {one.__name__: one for one in (flip, cut, delete, empty, grow, replace_by_folder)}


def judge(sound: Sound, folder: Path, names: list[str], verbs: list[str], **options: Any) -> list[str]:
    """Every verb says what it said of the sound corpus, or has one line with the name of a damaged file."""
    told = []
    for verb in verbs:
        try:
            said = str(VERBS[verb](opened(folder, **options)))
        except ot.OrchestraceError as error:
            line = str(error)
            assert "\n" not in line and any(name in line for name in names), line
            told.append(line)
        else:
            assert said == sound.said[verb], f"{verb} says something else of {names}"
    return told


# --- verbs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["traces", "events", "edges", "measures", "agents", "quarantine"])
@pytest.mark.parametrize("how", HARM)
def test_a_damaged_file_is_one_line(sound: Sound, tmp_path: Path, how: str, table: str) -> None:
    draw = random.Random(f"{how} {table}")
    folder = sound.copy(tmp_path / "corpus")
    name = draw.choice(sound.of(table))
    HARM[how](folder / name, draw)
    (told, *_) = judge(sound, folder, [name], ["tables", "counts"])
    assert f"'{folder / name}' is damaged ({table}" in told
    assert ("it is not a file" if how == "replace_by_folder" else ", expected ") in told
    assert f"ingest(inputs, '{folder}')" in told and "restore the file" in told
    partition = re.match(r"part=(\d+)/", name)
    assert partition is None or f"of partition {partition[1]})" in told


def test_flips(sound: Sound, tmp_path: Path) -> None:
    for seed in range(8):
        draw = random.Random(seed)
        folder, name = sound.copy(tmp_path / "corpus"), draw.choice(sound.files)
        flip(folder / name, draw)
        told = judge(sound, folder, [name], ["tables", draw.choice(["metrics", "credit"])])
        assert told or name.startswith("index"), "verbs do not read the index of a corpus that is complete"


@pytest.mark.nightly
@pytest.mark.parametrize("how", HARM)
def test_many_damaged_files(sound: Sound, tmp_path: Path, how: str) -> None:
    for seed in range(300 if how == "flip" else 40):
        draw = random.Random(f"{how} {seed}")
        folder, name = sound.copy(tmp_path / "corpus"), draw.choice(sound.files)
        HARM[how](folder / name, draw)
        told = judge(sound, folder, [name], list(VERBS))
        assert told or name.startswith("index")


@pytest.mark.parametrize("table", ["traces", "measures"])
def test_swapped_files(sound: Sound, tmp_path: Path, table: str) -> None:
    """Both are sound files with the rows of others."""
    folder, names = sound.copy(tmp_path / "corpus"), sound.of(table)
    a, b = names[0], names[-1]
    assert a.partition("/")[0] != b.partition("/")[0]
    os.rename(folder / a, tmp_path / "aside")
    os.rename(folder / b, folder / a)
    os.rename(tmp_path / "aside", folder / b)
    assert judge(sound, folder, [a, b], ["tables"])
    report = ot.ingest(sound.inputs, folder)
    assert set(report.repaired) == {a, b}
    on_disk.assert_rows(ot.read_corpus(folder), sound.rows)


def test_a_file_is_compared_once_and_again_when_it_changed(
    sound: Sound, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sound.copy(tmp_path / "corpus")
    hashed: list[str] = []
    whole = ot._core.fingerprint

    def counting(path: str, length: int) -> str:
        hashed.append(path)
        return whole(path, length)

    monkeypatch.setattr(ot._core, "fingerprint", counting)
    corpus = opened(folder)
    assert not hashed, "opening compares nothing"
    corpus.traces.collect()
    assert sorted(hashed) == sorted(str(folder / name) for name in sound.of("traces"))
    credited(corpus)
    written(corpus)
    reported(corpus.filter(pl.col("n_events") > 0))
    index = set(sound.of("index"))
    assert sorted(hashed) == sorted(str(folder / name) for name in sound.files if name not in index)
    changed = sound.of("events")[0]
    flip(folder / changed, random.Random(3))
    with pytest.raises(ot.InputError, match=re.escape(changed)):
        credited(corpus)


def test_verification_can_be_skipped(sound: Sound, tmp_path: Path) -> None:
    """Sizes are compared even then, and what Polars stumbles over is told in the same line."""
    folder, name = sound.copy(tmp_path / "corpus"), sound.of("events")[0]
    assert not judge(sound, folder, [], list(VERBS), verify=False)
    path = folder / name
    raw = path.read_bytes()
    path.write_bytes(raw[:-8] + bytes([raw[-8] ^ 1]) + raw[-7:])  # the length of the footer
    told = judge(sound, folder, [name], ["credit"], verify=False)
    assert "BLAKE3" in told[0]
    delete(path, random.Random(0))
    assert "it is gone" in judge(sound, folder, [name], ["tables"], verify=False)[0]
    with pytest.raises(ot.ParameterError, match="verify is 'no', expected True or False"):
        ot.read_corpus(folder, verify="no")  # type: ignore[arg-type]


def test_an_exported_corpus_has_checksums(sound: Sound, tmp_path: Path) -> None:
    ot.export(opened(sound.folder), "parquet", tmp_path / "made")
    made = manifest.load(tmp_path / "made")
    assert made is not None and all(one.expected for one in made.stored())
    name = next(name for name in made.files() if "/events/" in name)
    flip(tmp_path / "made" / name, random.Random(0))
    with pytest.raises(
        ot.InputError, match=f"{re.escape(name)}.*restore the file, or export the corpus again$"
    ):
        written(ot.read_corpus(tmp_path / "made"))


# --- manifests --------------------------------------------------------------------------------------------


def damaged_manifests(sound: Sound, folder: Path, seeds: range) -> None:
    sound.copy(folder)
    raw = (folder / MANIFEST).read_bytes()
    for seed in seeds:
        draw = random.Random(seed)
        text = bytearray(raw)
        at = draw.randrange(len(text))
        if seed % 3 == 0:
            text[at] ^= 1 << draw.randrange(8)
        elif seed % 3 == 1:
            text[at : at + draw.randrange(1, 9)] = b""
        else:  # a digit for another one, which is JSON still
            digits = [i for i, byte in enumerate(text) if chr(byte).isdigit()]
            at = draw.choice(digits)
            text[at] = ord(draw.choice([c for c in "123456789" if c != chr(text[at])]))
        (folder / MANIFEST).write_bytes(text)
        judge(sound, folder, [MANIFEST], ["tables", "counts"])


def test_damaged_manifests(sound: Sound, tmp_path: Path) -> None:
    damaged_manifests(sound, tmp_path / "corpus", range(36))


@pytest.mark.nightly
def test_many_damaged_manifests(sound: Sound, tmp_path: Path) -> None:
    damaged_manifests(sound, tmp_path / "corpus", range(1000, 1600))


def test_a_manifest_says_what_it_is(sound: Sound) -> None:
    raw = (sound.folder / MANIFEST).read_bytes()
    text, _, rest = raw.rpartition(b',"blake2b":"')
    assert rest == hashlib.blake2b(text, digest_size=32).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.0", "'2.0', newer than '{ours}', which this engine reads: upgrade orchestrace, or ingest"),
        ("0.9", "'0.9', older than '{ours}', and this engine does not read it: ingest"),
        ("one", "'one', which no engine has; this one reads '{ours}': ingest"),
    ],
)
def test_versions_that_cannot_be_read(sound: Sound, tmp_path: Path, version: str, expected: str) -> None:
    folder = sound.copy(tmp_path / "corpus")
    on_disk.rewrite_manifest(folder, schema_version=version)
    for verb in (ot.read_corpus, lambda at: ot.ingest(sound.inputs, at)):
        with pytest.raises(ot.SchemaError) as caught:
            verb(folder)
        line = str(caught.value)
        assert expected.format(ours=_core.SCHEMA_VERSION) in line and "\n" not in line
        assert line.endswith("ingest the recordings into another folder")


def test_a_later_minor_version_is_read_but_not_added_to(sound: Sound, tmp_path: Path) -> None:
    folder = sound.copy(tmp_path / "corpus")
    on_disk.rewrite_manifest(folder, schema_version="1.999")
    assert not judge(sound, folder, [], list(VERBS))
    before = on_disk.files(folder)
    with pytest.raises(ot.SchemaError, match=r"'1\.999', newer than .* upgrade orchestrace to add to it"):
        ot.ingest(sound.inputs, folder)
    assert on_disk.files(folder) == before


def test_a_corpus_without_checksums_is_read_and_gets_them(sound: Sound, tmp_path: Path) -> None:
    folder = sound.copy(tmp_path / "corpus")
    on_disk.forget_checksums(folder)
    assert not judge(sound, folder, [], list(VERBS))
    name = sound.of("events")[0]
    cut(folder / name, random.Random(1))
    assert judge(sound, folder, [name], ["credit", "metrics"])
    report = ot.ingest(sound.inputs, folder)
    assert report.repaired == (name,)
    on_disk.assert_rows(ot.read_corpus(folder), sound.rows)
    made = manifest.load(folder)
    assert made is not None and all(one.expected for one in made.stored())
    kept = next(one for one in made.files() if "/traces/" in one)
    flip(folder / kept, random.Random(2))
    assert judge(sound, folder, [kept], ["tables"])


# --- ingest -----------------------------------------------------------------------------------------------


def repaired(sound: Sound, folder: Path, names: list[str]) -> IngestReport:
    """The corpus is what it was, and nothing is left to do."""
    report = ot.ingest(sound.inputs, folder)
    assert sorted(report.repaired) == sorted(names) and all(name in repr(report) for name in names)
    on_disk.assert_rows(ot.read_corpus(folder), sound.rows)
    on_disk.assert_tidy(folder)
    again = ot.ingest(sound.inputs, folder)
    assert set(again.inputs["status"]) == {"unchanged"} and not again.repaired
    return report


@pytest.mark.parametrize(
    ("table", "how"),
    [("traces", delete), ("events", flip), ("findings", cut), ("index", flip), ("quarantine", empty)],
)
def test_an_ingest_repairs(
    sound: Sound, tmp_path: Path, table: str, how: Callable[[Path, random.Random], None]
) -> None:
    folder, draw = sound.copy(tmp_path / "corpus"), random.Random(table)
    name = draw.choice(sound.of(table))
    how(folder / name, draw)
    report = repaired(sound, folder, [name])
    told = dict(report.inputs.select("input", "status").iter_rows())
    assert "repaired" in told.values()
    assert table == "index" or "unchanged" in told.values(), (
        "only the inputs whose rows it held are read again"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("how", HARM)
def test_an_ingest_repairs_every_file(sound: Sound, tmp_path: Path, how: str) -> None:
    for name in sound.files:
        folder = sound.copy(tmp_path / "corpus")
        if how != "replace_by_folder":  # a folder that is not ours is nobody's to remove
            HARM[how](folder / name, random.Random(name))
            repaired(sound, folder, [name])
    for seed in range(20):
        draw, folder = random.Random(seed), sound.copy(tmp_path / "corpus")
        names = draw.sample(sound.files, draw.randrange(2, 6))
        for name in names:
            HARM["delete" if how == "replace_by_folder" else how](folder / name, draw)
        repaired(sound, folder, names)


@pytest.mark.parametrize("table", ["events", "labels", "index"])
def test_traces_that_are_spread_over_inputs_are_repaired(tmp_path: Path, table: str) -> None:
    (tmp_path / "in").mkdir()
    on_disk.write_spans(tmp_path / "in", traces=12, files=3)
    (tmp_path / "in" / "who.jsonl").write_bytes(on_disk.lines(*(on_disk.blamed(str(n), 1) for n in range(3))))
    folder = tmp_path / "corpus"
    ot.ingest(tmp_path / "in", folder, partitions=2)
    expected = on_disk.rows(ot.read_corpus(folder))
    known = manifest.load(folder)
    assert known is not None
    name = next(name for name in known.files() if f"{table}/" in name)
    flip(folder / name, random.Random(0))
    assert ot.ingest(tmp_path / "in", folder).repaired == (name,)
    on_disk.assert_rows(ot.read_corpus(folder), expected)
    on_disk.assert_tidy(folder)


@pytest.mark.parametrize(
    ("table", "gone"), [("events", True), ("index", True), ("record_counts", True), ("events", False)]
)
def test_what_no_input_can_give_again_is_told(sound: Sound, tmp_path: Path, table: str, gone: bool) -> None:
    """An input is gone, or changed and not named; nothing is touched."""
    inputs, folder = tmp_path / "in", tmp_path / "corpus"
    shutil.copytree(sound.inputs, inputs)
    ot.ingest(inputs, folder, partitions=2, fields=on_disk.FIELDS)
    known = manifest.load(folder)
    assert known is not None
    for name in [name for name in known.files() if f"{table}/" in name]:
        flip(folder / name, random.Random(0))
    lost = inputs / "a plain one.jsonl"
    if gone:
        lost.unlink()
    else:
        on_disk.touch(lost, lost.read_bytes() + b"{}\n")
    before = on_disk.files(folder)
    with pytest.raises(ot.InputError) as caught:
        ot.ingest(inputs / "c.json", folder)
    line = str(caught.value)
    assert "is damaged" in line and f"'{lost}'" in line and "\n" not in line
    assert ("which is gone: put it back" if gone else "which has changed since") in line
    assert line.endswith("or restore the file; nothing was changed")
    assert on_disk.files(folder) == before
    if not gone:  # named, it is what it is now
        assert ot.ingest(inputs, folder).repaired
        fresh = tmp_path / "fresh"
        ot.ingest(inputs, fresh, partitions=2, fields=on_disk.FIELDS)
        on_disk.assert_content(ot.read_corpus(folder), ot.read_corpus(fresh))


@pytest.mark.parametrize(("table", "times"), [("index", 1), ("index", 9), ("events", 9)])
def test_a_read_that_fails_gives_no_trace_another_number(
    table: str, times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    for name in "ab":
        (source / f"{name}.jsonl").write_bytes(
            on_disk.lines(*(on_disk.document(f"{name}{n}") for n in range(4)))
        )
    ot.ingest(source, out, partitions=1)
    on_disk.touch(source / "a.jsonl", on_disk.lines(on_disk.document("a3"), on_disk.document("a4")))
    ot.ingest(source, out)
    expected, left, original = on_disk.rows(ot.read_corpus(out)), [times], integrity.fingerprint

    def fingerprint(path: Path) -> manifest.Fingerprint:
        if table in path.parts and left[0]:
            left[0] -= 1
            raise ot.InputError(f"{path}: Input/output error (os error 5)")
        return original(path)

    with monkeypatch.context() as patch:
        patch.setattr(integrity, "fingerprint", fingerprint)
        if (table, times) == ("index", 9):
            with pytest.raises(
                ot.InputError, match=r"cannot be read: .*run the same call again.*nothing was"
            ):
                ot.ingest(source, out)
        else:
            ot.ingest(source, out)
    on_disk.assert_rows(ot.read_corpus(out), expected)
    ot.ingest(source, out)
    on_disk.assert_rows(ot.read_corpus(out), expected)


def test_a_merge_does_not_pass_damage_on(sound: Sound, tmp_path: Path) -> None:
    """Whatever an ingest reads it compares, also where it is told not to compare the rest."""
    folder = tmp_path / "corpus"
    ot.ingest(sound.inputs / "c.json", folder, partitions=2, fields=on_disk.FIELDS)
    known = manifest.load(folder)
    assert known is not None
    for name in list(known.files()):
        if "/measures/" in name:
            flip(folder / name, random.Random(0))
    for _ in range(2):
        with pytest.raises(ot.InputError, match=r"/measures/.* is damaged"):
            ot.ingest(sound.inputs, folder, verify=False)
    assert ot.ingest(sound.inputs, folder).repaired
    fresh = tmp_path / "fresh"
    ot.ingest(sound.inputs, fresh, partitions=2, fields=on_disk.FIELDS)
    on_disk.assert_content(ot.read_corpus(folder), ot.read_corpus(fresh))


def killed(sound: Sound, folder: Path, table: str, moment: tuple[str, int] | None) -> dict[str, int] | None:
    """A repair in a process that is killed at a moment, then finished by this one.

    Gives how often each stage was reached, or None if the process was killed.
    """
    flip(sound.copy(folder) / sound.of(table)[0], random.Random(0))
    spec = {"source": str(sound.inputs), "out": str(folder), "small": SMALL, "options": {"partitions": 2}}
    command = [sys.executable, "-m", "process.dying", json.dumps(spec | {"moment": moment})]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True)
    ot.ingest(sound.inputs, folder)
    on_disk.assert_rows(ot.read_corpus(folder), sound.rows)
    on_disk.assert_tidy(folder)
    if done.returncode == -signal.SIGKILL:
        assert moment is not None
        return None
    assert done.returncode == 0, done.stderr
    reached: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return reached


def test_a_repair_that_is_killed_is_finished_later(sound: Sound, tmp_path: Path) -> None:
    assert killed(sound, tmp_path / "corpus", "events", ("manifest, renaming: after", 0)) is None


@pytest.mark.nightly
@pytest.mark.parametrize("table", ["traces", "events", "index", "quarantine", "record_counts"])
def test_repairs_that_are_killed_anywhere(sound: Sound, tmp_path: Path, table: str) -> None:
    first = killed(sound, tmp_path / "corpus", table, None)
    assert first is not None
    moments = [(stage, n) for stage, times in first.items() for n in range(times)]
    draw = random.Random(table)
    kills = 0
    asked = draw.sample(moments, min(len(moments), 40))
    for stage, n in asked:
        reached = killed(sound, tmp_path / "corpus", table, (stage, n))
        # Where batches are cut depends on timing, so a stage may be reached less often than the first time.
        assert reached is None or reached.get(stage, 0) <= n
        kills += reached is None
    print(f"{table}: {kills} kills of {len(asked)}")
    assert kills > len(asked) / 2
