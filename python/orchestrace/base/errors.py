"""Errors that a caller may catch, all subclasses of `OrchestraceError`."""

from typing import TYPE_CHECKING

from .._core import InputError, OrchestraceError, ParameterError, SchemaError
from .text import plain

if TYPE_CHECKING:
    import polars as pl

__all__ = ["InputError", "OrchestraceError", "ParameterError", "QuarantineError", "SchemaError"]


class QuarantineError(OrchestraceError):
    """More records were rejected than the caller allows.

    Attributes
    ----------
    frame
        The rejects, in the schema of `Corpus.quarantine`.
    """

    frame: "pl.DataFrame"

    def __init__(self, frame: "pl.DataFrame", count: int | None = None) -> None:
        self.frame = frame
        count = frame.height if count is None else count
        if frame.height == 0:
            super().__init__(f"{count} records were rejected")
            return
        first = frame.row(0, named=True)
        at = f" at {first['path']}" if first["path"] else ""
        more = f" (and {count - 1:,} more: see .frame)" if count > 1 else ""
        where = f"{first['file']}:{first['line']}"
        # A traceback prints the message as it is.
        super().__init__(plain(f"{where}: {first['code']}{at}: {first['message']}{more}"))
