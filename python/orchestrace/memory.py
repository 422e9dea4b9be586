"""A budget of memory: how it is given, and what of it goes where."""

import re
from typing import Final

from .corpus import check_numbers
from .errors import ParameterError

_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
MOST_PARTITIONS: Final = 256
"""Of one corpus, however large it is and however small the budget."""
BATCH_SHARE: Final = 0.33
"""Of the budget, what the tables of one batch may take: beside them are blocks, a partition, and what is
written."""
GATHER_SHARE: Final = 0.25
"""Of the budget, what the texts of traces may take that are put together from several records; what is more
goes to a temporary file in the folder of the corpus."""
LEAST: Final = 64 << 20
"""The smallest budget."""
OVERHEAD: Final = 56 << 20
"""Of the budget, what the threads and buffers of the libraries take however little there is to do."""
LEAST_BATCH: Final = 8 << 20
"""What the tables of a batch may take however little is left."""
PARTITION_SHARE: Final = 0.125
"""Of the budget, what one partition should take, so that whatever is computed on it has room."""


def memory_bytes(memory: int | str) -> int:
    """A budget in bytes, given as a number or as ``"1GiB"``."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(found[2].upper()) if found else None
        if found is None or unit is None:
            raise ParameterError(
                f"memory is '{memory}', expected a number of bytes or one like '512MiB', '2GiB'"
            )
        memory = int(min(float(found[1]) * unit, 2.0**63))
    check_numbers(memory=memory)
    room = int(memory)
    if room < LEAST:
        shown = f"{room} bytes" if room < 2**20 else f"{room / 2**20:.3g}MiB"
        raise ParameterError(f"memory is {shown}, expected at least {LEAST >> 20}MiB")
    return room


def partitions_of(size: int, room: int) -> int:
    """As many partitions as let one of them fit its share of the budget."""
    return max(1, min(MOST_PARTITIONS, round(size / (room * PARTITION_SHARE))))
