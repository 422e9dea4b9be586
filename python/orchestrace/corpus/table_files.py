"""Tables of callers in files: CSV, Parquet, JSON lines."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from ..base.errors import InputError, ParameterError
from ..base.paths import expect_an_end
from ..base.text import plain

_IDS: Final = {"trace_id": pl.String()}
"""Ids are texts, even those of digits alone."""

_READERS: Final[dict[str, Callable[[BinaryIO], pl.DataFrame]]] = {
    ".csv": lambda file: pl.read_csv(file, schema_overrides=_IDS, infer_schema_length=None),
    ".parquet": pl.read_parquet,
    ".jsonl": lambda file: pl.read_ndjson(file, schema_overrides=_IDS, infer_schema_length=None),
    ".ndjson": lambda file: pl.read_ndjson(file, schema_overrides=_IDS, infer_schema_length=None),
}


def read_table(path: Path, subject: str) -> pl.DataFrame:
    """A table that a caller has in a file, and its subject.

    Raises
    ------
    InputError
        The file cannot be read.
    ParameterError
        Its name ends otherwise.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from orchestrace.corpus.table_files import read_table
    >>> path = Path(tempfile.mkdtemp()) / "dump.csv"
    >>> _ = path.write_text("reward,group\\n1.0,a\\n")
    >>> read_table(path, "advantages").rows()
    [(1.0, 'a')]
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        endings = ", ".join(_READERS)
        raise ParameterError(f"'{path}' ends in '{path.suffix}', expected a file of {subject}: {endings}")
    expect_an_end(path)
    try:
        with open(path, "rb") as file:
            return reader(file)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(plain(f"{path}: cannot be read as {path.suffix} ({reason})")) from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
