"""k bad lines planted anywhere among n good ones: n traces, and k rows that say which line, where and why.

For every kind of badness, whatever the threads, the size of blocks, and how the file is packed.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st

from orchestrace import _core
from samples.examples import examples
from samples.inputs import gz, zst
from samples.verdict_cases import BASE, CASES, put, text

MAX_RECORD = 20_000
MAX_STRING = 15_000

#: Name to line and code: the rejected mutations, and what only a limit makes bad.
KINDS: dict[str, tuple[bytes, str]] = {
    case.name: (case.line, case.fault.code) for case in CASES if case.fault and len(case.line) < 5_000
} | {
    "long": (put("/events/3/x_note", ["n" * 9_000] * 3), "record.too_large"),
    "long noise": (b"x" * (MAX_RECORD + 1), "record.too_large"),
    "long text": (put("/events/3/x_note", "n" * (MAX_STRING + 1)), "record.too_large"),
}
PACKS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gz": gz, "zst": zst}
ENDS = [b"\n", b"\r\n", b"\n\n", b" \t\n"]

Line = tuple[str | None, bytes]  # kind of badness or None, and the line end


def good(name: str) -> bytes:
    return text(BASE | {"trace_id": name})


class Planted:
    """A file of good and bad lines, and what must come of it."""

    def __init__(self, lines: list[Line], pack: str, name: str) -> None:
        data, at = b"", 1
        self.traces: list[tuple[str, int, int]] = []
        self.rejects: list[tuple[int, int, int, str]] = []
        for n, (kind, end) in enumerate(lines):
            line, code = KINDS[kind] if kind else (good(f"{name}{n}"), "")
            # White space around a record is none of it.
            lead = len(line) - len(line.lstrip(b" \t\r"))
            start, length = len(data) + lead, len(line.strip(b" \t\r"))
            if kind:
                self.rejects.append((at, start, length, code))
            else:
                self.traces.append((f"{name}{n}", at, start))
            data += line + end
            at += end.count(b"\n")
        self.packed = PACKS[pack](data)
        self.name = name


def check(files: list[Planted], folder: Path, threads: int, block_size: int) -> None:
    paths = [folder / file.name for file in files]
    store = _core.read(
        [str(path) for path in paths],
        format="native",
        threads=threads,
        block_size=block_size,
        max_record=MAX_RECORD,
        max_string=MAX_STRING,
        max_expansion=10**6,
    )
    traces = pl.DataFrame(store.table("traces")).with_columns(pl.col("file").cast(pl.String))
    assert traces.select("file", "trace_id", "line", "offset").rows() == [
        (str(path), *row) for path, file in zip(paths, files, strict=True) for row in file.traces
    ]
    rejects = pl.DataFrame(store.table("quarantine"))
    rejects = rejects.select(
        pl.col("file").cast(pl.String), "line", "offset", "length", pl.col("code").cast(pl.String)
    )
    assert rejects.rows() == [
        (str(path), *row) for path, file in zip(paths, files, strict=True) for row in file.rejects
    ]
    assert store.records_read == sum(len(file.traces) + len(file.rejects) for file in files)


@contextmanager
def written(files: list[Planted]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            (Path(folder) / file.name).write_bytes(file.packed)
        yield Path(folder)


lines = st.lists(
    st.tuples(st.none() | st.sampled_from(sorted(KINDS)), st.sampled_from(ENDS)), min_size=1, max_size=25
)


@examples(25)
@given(st.lists(st.tuples(lines, st.sampled_from(sorted(PACKS))), min_size=1, max_size=3))
def test_bad_lines_cost_themselves(planned: list[tuple[list[Line], str]]) -> None:
    # The first line of a file is good: another one may decide that the file is an array or one document.
    files = [Planted([(None, b"\n"), *each], pack, f"f{n}-") for n, (each, pack) in enumerate(planned)]
    with written(files) as folder:
        for threads in (1, 2, 7):
            for block_size in (300, 1_111, 16_384, 4 << 20):
                check(files, folder, threads, block_size)


@pytest.mark.parametrize("pack", PACKS)
def test_every_kind_of_badness_at_once(pack: str) -> None:
    """Each kind between good lines; and a file with nothing but bad lines after its first."""
    kinds = sorted(KINDS)
    assert {code for _, code in KINDS.values()} >= {
        code
        for _, code, _, _ in _core.codes()
        if code.startswith(("field.", "id.", "edge.", "number.", "utf8."))
    } - {"number.rounded", "field.ignored", "field.absent", "utf8.replaced", "id.repeated"}
    mixed: list[Line] = [line for kind in kinds for line in ((None, b"\n"), (kind, b"\r\n"))]
    files = [
        Planted([*mixed, (None, b"\n")], pack, "mixed"),
        Planted([(None, b"\n"), *((kind, b"\n") for kind in reversed(kinds))], pack, "bad"),
    ]
    assert len(files[0].rejects) == len(kinds) > 300
    with written(files) as folder:
        for threads in (1, 2, 7):
            for block_size in (700, 65_536, 4 << 20):
                check(files, folder, threads, block_size)
