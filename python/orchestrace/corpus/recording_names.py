"""Names that recordings have in a folder; a file that is named itself may be called anything."""

from typing import Final

from .. import _core

_SUFFIXES: Final = (*_core.RECORDING_SUFFIXES, *_core.ARCHIVE_SUFFIXES)
_ROWS: Final = (".parquet", ".arrow", ".feather")
_COMPRESSED: Final = _core.COMPRESSED_SUFFIXES
_ENDINGS: Final = (
    *_SUFFIXES,
    *(kind + packed for kind in _SUFFIXES for packed in _COMPRESSED),
    *_ROWS,
)

KINDS: Final = (
    f"{', '.join(sorted(_SUFFIXES))}, also with {' or '.join(sorted(_COMPRESSED))}; {', '.join(_ROWS)}"
)
"""What they end with, for an error."""


def is_recording(name: str) -> bool:
    """Whether a file of a folder is read, by its name."""
    return name.endswith(_ENDINGS) and not name.startswith(".")
