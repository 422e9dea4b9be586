"""Threads and blocks are nobody's business: the bytes of every table are the same."""

import io
from pathlib import Path

import pyarrow as pa
import pytest

import orchestrace as ot
from orchestrace import _core
from samples.inputs import gz, zst
from samples.verdict_cases import CASES

TABLES = ["traces", "events", "edges", "agents", "measures", "labels", "findings", "quarantine"]
THREADS = [1, 2, 7]
BLOCKS = [4 << 10, 64 << 10, 4 << 20]


def ipc(store: _core.Store, table: str) -> bytes:
    """Arrow IPC bytes of a whole table."""
    whole = pa.RecordBatchReader.from_stream(store.combined(table)).read_all()
    whole = whole.combine_chunks() if len(whole.to_batches()) > 1 else whole
    out = io.BytesIO()
    with pa.ipc.new_stream(out, whole.schema) as writer:
        writer.write_table(whole)
    return out.getvalue()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A generated corpus with a mutation, mostly broken, after every few lines."""
    path = tmp_path_factory.mktemp("determinism") / "runs.jsonl"
    ot.generate(path, preset="mixed", events=20_000, seed=1)
    good = path.read_bytes().splitlines(keepends=True)
    cases = [case.line + b"\n" for case in CASES if len(case.line) < 10_000]
    step = max(1, len(good) // 400)
    data = []
    for n in range(0, len(good), step):
        data += good[n : n + step]
        data += cases[2 * (n // step) : 2 * (n // step) + 2]
        data += [b"\n"] if n % 3 == 0 else []
    return b"".join(data)


@pytest.mark.parametrize("packed", [bytes, gz, zst], ids=["plain", "gz", "zst"])
def test_every_table_has_the_same_bytes(tmp_path: Path, mixed: bytes, packed) -> None:
    path = tmp_path / "runs"
    path.write_bytes(packed(mixed))
    first: dict[str, bytes] = {}
    for threads in THREADS:
        for block_size in BLOCKS:
            store = _core.read([str(path)], format="native", threads=threads, block_size=block_size)
            found = {table: ipc(store, table) for table in TABLES}
            assert store.records_quarantined > 50
            assert store.records_read == store.n_traces + store.records_quarantined
            first = first or found
            for table in TABLES:
                assert found[table] == first[table], (table, threads, block_size)


def test_a_list_of_files_and_streams_keeps_its_order(tmp_path: Path, mixed: bytes) -> None:
    cut = mixed.index(b"\n", len(mixed) // 2) + 1
    parts = [mixed[:cut], mixed[cut:]]
    paths = [tmp_path / "b", tmp_path / "a"]
    for path, part, packed in zip(paths, parts, (gz, bytes), strict=True):
        path.write_bytes(packed(part))
    first: dict[str, bytes] = {}
    for threads in THREADS:
        for block_size in BLOCKS:
            inputs = [str(paths[0]), str(paths[1]), io.BytesIO(zst(parts[0]))]
            store = _core.read(inputs, format="native", threads=threads, block_size=block_size)
            found = {table: ipc(store, table) for table in TABLES}
            first = first or found
            assert found == first, (threads, block_size)


def test_the_public_call_agrees_with_itself(tmp_path: Path, mixed: bytes) -> None:
    path = tmp_path / "runs"
    path.write_bytes(mixed)
    written = set()
    for threads in [None, *THREADS]:
        out = io.BytesIO()
        ot.read_traces(path, format="native", threads=threads).write_jsonl(out)
        written.add(out.getvalue())
    assert len(written) == 1


def test_generated_bytes_do_not_depend_on_threads() -> None:
    made = set()
    for threads in THREADS:
        out = io.BytesIO()
        ot.generate(out, preset="mixed", events=5_000, seed=3, threads=threads)
        made.add(out.getvalue())
    assert len(made) == 1
