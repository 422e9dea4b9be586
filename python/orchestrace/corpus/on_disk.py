"""Detection of a corpus on disk among folders of recordings."""

import os
from typing import Final

MANIFEST: Final = "manifest.json"
BEGINNING: Final = b'{"partitions"'
"""What a manifest begins with."""


def is_corpus(folder: str) -> bool:
    """Whether a folder is a corpus on disk, by the beginning of its manifest."""
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as file:
            return file.read(len(BEGINNING)) == BEGINNING
    except OSError:
        return False
