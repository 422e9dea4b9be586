"""Commands whose calls fail one after the other, what lies in their folder, how one reads what they leave."""

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orchestrace as ot
from orchestrace.base.errors import OrchestraceError
from orchestrace.corpus.on_disk import MANIFEST
from orchestrace.distributed.folder import load_plan
from samples import on_disk
from samples.on_disk import blamed, document, generated, lines

State = dict[str, frozenset[str]]
"""What one reads: of each table its rows, of each file its bytes; nothing where there is nothing."""


@dataclass(frozen=True)
class Scenario:
    """A command and its folder."""

    name: str
    prepare: Callable[[Path], object]
    words: Callable[[Path], list[Any]]
    read: Callable[[Path], State]
    check_tidy: Callable[[Path], object]
    is_stepwise: bool = False
    """Whether what is done in part stays, and the next call goes on from it."""
    room: int | None = None
    """Of a batch, where there are to be several."""
    reconcile: Callable[[Path], object] | None = None
    """Checks what is there in part."""
    is_alone: bool = True
    """Whether nobody else writes there, so that the next call removes what a killed one left."""
    is_once: bool = False
    """Whether the command refuses what it has made."""


def digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=16).hexdigest()


def corpus(folder: Path) -> State:
    """All rows of a corpus; the number of each is part of it where tables have an order."""
    if not (folder / MANIFEST).exists():
        return {}
    return {
        table: frozenset({digest(frame.schema), *map(digest, enumerate(frame.iter_rows()))})
        for table, frame in on_disk.rows(ot.read_corpus(folder)).items()
    }


def files(folder: Path) -> State:
    """All files of a folder, but temporary ones and parts of an engine, which lie beside the corpus.

    How long tasks took is left out.
    """
    named = {path.relative_to(folder): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): frozenset({digest(content(path))})
        for name, path in named.items()
        if not any(part.startswith((".", "corpus.")) for part in name.parts)
    }


def content(path: Path) -> object:
    """The bytes of a file; of the record of a task all but its time."""
    raw = path.read_bytes()
    if path.parent.name == "parts" and path.suffix == ".json":
        with suppress(ValueError):  # it may have lost its end
            return json.loads(raw) | {"seconds": 0}
    return raw


def nothing_aside(folder: Path) -> None:
    """No temporary file is left, whoever wrote it."""
    assert not [path for path in folder.rglob(".*")], list(folder.rglob(".*"))


def recordings(work: Path) -> Path:
    """Recordings of several kinds, with labels, repeats and damage."""
    source = work / "in"
    source.mkdir(parents=True)
    first = generated("a", 20, 1) + lines(document("again"), document("again")) + on_disk.BROKEN
    (source / "a.jsonl").write_bytes(first)
    (source / "b.jsonl").write_bytes(lines(blamed("1", 1), blamed("2", 2)))
    return source


def more(work: Path) -> None:
    """A corpus, and afterwards a further input, and one that has changed."""
    source = recordings(work)
    ot.ingest(source, work / "corpus", partitions=1, threads=1)
    (source / "c.jsonl").write_bytes(generated("c", 40, 3) + lines(document("again")))
    on_disk.touch(source / "b.jsonl", lines(blamed("2", 2), blamed("3", 0)))


def damaged(work: Path) -> None:
    """A corpus of which a file has another byte."""
    ot.ingest(recordings(work), work / "corpus", partitions=1, threads=1)
    path = max((work / "corpus").glob("part=*/events/*"), key=lambda one: one.stat().st_size)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def batches(work: Path) -> None:
    """Recordings of several batches."""
    source = work / "in"
    source.mkdir(parents=True)
    (source / "a.jsonl").write_bytes(generated("a", 420, 1) + lines(document("again"), document("again")))


def spread(work: Path) -> None:
    """A corpus of traces that are spread over files, and a further file with spans of all of them."""
    source = work / "in"
    source.mkdir(parents=True)
    last = on_disk.write_spans(source, traces=3, files=2)[-1]
    late = last.read_bytes()
    last.unlink()
    ot.ingest(source, work / "corpus", partitions=1, threads=1)
    last.write_bytes(late)


def sound(work: Path) -> None:
    """A corpus of two partitions."""
    ot.ingest(recordings(work), work / "corpus", partitions=2, threads=1)


def planned(work: Path) -> None:
    """A corpus, and a plan of two tasks."""
    sound(work)
    plan = ot.distributed.plan(work / "corpus", "credit", folder=work / "plan", method="flow", unit="agent")
    assert len(plan.tasks) == 2


def computed(work: Path) -> None:
    """The same with the parts of all tasks."""
    planned(work)
    for task in load_plan(work / "plan").tasks:
        ot.distributed.run_task(task, threads=1)


def ingest(work: Path) -> list[Any]:
    return ["ingest", work / "in", "-o", work / "corpus", "--partitions", 1, "--threads", 1]


def tidy_corpus(work: Path) -> None:
    on_disk.assert_tidy(work / "corpus")


def of_corpus(work: Path) -> State:
    return corpus(work / "corpus")


def reconcile(work: Path) -> None:
    """No record of a corpus is lost or counted twice; one that is damaged says so."""
    with suppress(OrchestraceError):
        on_disk.reconcile(work / "corpus")


def ingesting(name: str, prepare: Callable[[Path], object], room: int | None = None) -> Scenario:
    return Scenario(name, prepare, ingest, of_corpus, tidy_corpus, True, room, reconcile)


def writing(name: str, *words: object, prepare: Callable[[Path], object] = sound, **more: bool) -> Scenario:
    """A command that reads a corpus and writes something else; words in braces are below the folder."""

    def command(work: Path) -> list[Any]:
        return [work / word[1:-1] if str(word).startswith("{") else word for word in map(str, words)]

    return Scenario(name, prepare, command, files, nothing_aside, **more)


def exporting(target: str, file: str, *words: object, **more: bool) -> Scenario:
    options = ("--to", target, "-o", f"{{{file}}}", "--threads", 1)
    return writing(f"export {target}", "export", "{corpus}", *options, *words, is_alone=False, **more)


CREDIT: Final = ("credit", "{corpus}", "--unit", "event", "--sink", "{sink}", "--threads", 1)
ONE: Final = ("--trace", "a-00000000")

SCENARIOS: Final = {
    one.name: one
    for one in (
        ingesting("ingest", recordings),
        ingesting("growth", more),
        ingesting("repair", damaged),
        ingesting("merge", batches, room=1 << 18),
        ingesting("gather", spread),
        writing("credit", *CREDIT, is_stepwise=True),
        writing("engine", *CREDIT, "--engine", "processes", "--workers", 1, is_stepwise=True),
        exporting("jsonl", "out.jsonl", "--force"),
        exporting("parquet", "out", is_once=True),
        exporting("trl", "out.parquet", "--force"),
        exporting("perfetto", "out.json", "--force"),
        exporting("ocel", "out.json", "--force"),
        exporting("mermaid", "out.mmd", "--force", *ONE),
        writing("plan", "plan", "{corpus}", "taint", "-o", "{plan}", is_alone=False),
        writing(
            *("run-task", "run-task", "{plan}", "0,1", "--threads", 1),
            prepare=planned,
            is_stepwise=True,
            is_alone=False,
        ),
        writing(
            *("reduce", "reduce", "{plan}", "-o", "{out.parquet}", "--force"),
            prepare=computed,
            is_alone=False,
        ),
        writing(*("view", "view", "{corpus}", "-o", "{out.html}", "--force", "--threads", 1), is_alone=False),
    )
}
