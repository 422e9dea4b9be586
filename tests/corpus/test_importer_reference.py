"""Spans, sessions and conversations beside importers of plain Python: every value of every table.

The reference is the one that `benches/python/importer_peers.py` times. Where a trace lies within its file it
does not know.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot

SCRIPTS = Path(__file__).resolve().parents[2] / "benches" / "python"


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    for name in ("importer_corpora", "importer_python", "importer_peers"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("kind", ["otel", "claude_code", "pi", "messages"])
def test_every_value_is_that_of_an_importer_in_plain_python(kind: str, seed: int, tmp_path: Path) -> None:
    from importer_corpora import WRITERS  # type: ignore[import-not-found]
    from importer_peers import FORMATS, TABLES, paired_tables  # type: ignore[import-not-found]
    from importer_python import read  # type: ignore[import-not-found]

    path = tmp_path / FORMATS[kind]
    WRITERS[path.name](path, 2, seed)
    corpus = ot.read_traces(path)
    ours = {table: getattr(corpus, table).collect() for table in TABLES}
    theirs = dict(zip(TABLES, read(path), strict=True))
    assert ours["events"].height > 400
    for one, other in paired_tables(ours, theirs):
        assert_frame_equal(one, other, check_dtypes=False, rel_tol=1e-9, abs_tol=1e-9)


def test_a_value_that_differs_is_noticed(tmp_path: Path) -> None:
    from importer_corpora import write_sessions
    from importer_peers import TABLES, paired_tables

    path = tmp_path / "sessions"
    write_sessions(path, 1)
    corpus = ot.read_traces(path)
    ours = {table: getattr(corpus, table).collect() for table in TABLES}
    wrong = ours | {"agents": ours["agents"].with_columns(n_events=pl.col("n_events") + 1)}
    with pytest.raises(AssertionError):
        for one, other in paired_tables(ours, wrong):
            assert_frame_equal(one, other, check_dtypes=False)
    with pytest.raises(SystemExit, match="lacks"):
        list(paired_tables(ours, ours | {"agents": ours["agents"].drop("depth")}))
