"""Every error that a caller may want to catch, all of them below `OrchestraceError`."""

import polars as pl

from ._core import InputError, OrchestraceError, ParameterError, SchemaError

__all__ = ["InputError", "OrchestraceError", "ParameterError", "QuarantineError", "SchemaError"]


class QuarantineError(OrchestraceError):
    """Records were rejected and the caller asked for ``on_error="raise"``.

    Attributes
    ----------
    frame
        The rejects, in the schema of `Corpus.quarantine`.
    """

    frame: pl.DataFrame

    def __init__(self, frame: pl.DataFrame) -> None:
        self.frame = frame
        first = frame.row(0, named=True)
        at = f" at {first['path']}" if first["path"] else ""
        more = f" (and {frame.height - 1} more: see .frame)" if frame.height > 1 else ""
        super().__init__(f"{first['file']}:{first['line']}: {first['code']}{at}: {first['message']}{more}")
