"""Memory budgets: their parsing and their division."""

import re
from typing import Any, Final

from ..base.arguments import Integer
from ..base.checks import expect
from ..base.errors import ParameterError

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
RECORD_SHARE: Final = 0.25
"""Of the budget, what one record may have: its bytes, its tables and what is written of them take up to
three times that beside the overhead."""
STRING_SHARE: Final = 0.1
"""Of the budget, what one string may have: as text of the record, of the tables and of the file it takes up
to nine times that."""
LEAST_RECORD: Final = 16 << 20
"""The longest record that every budget has room for."""
LEAST_STRING: Final = 8 << 20
"""The longest string that every budget has room for."""
PARTITION_SHARE: Final = 0.125
"""Of the budget, what one partition should take, so that whatever is computed on it has room."""


def memory_bytes(memory: int | str) -> int:
    """A budget in bytes, given as a number or as ``"1GiB"``."""
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(match[2].upper()) if match else None
        if match is None or unit is None:
            raise ParameterError(
                f"memory is '{memory}', expected a number of bytes or one like '512MiB', '2GiB'"
            )
        memory = int(min(float(match[1]) * unit, 2.0**63))
    expect("memory", memory, Integer())
    room = int(memory)
    if room < LEAST:
        shown = f"{room} bytes" if room < 2**20 else f"{room / 2**20:.3g}MiB"
        raise ParameterError(f"memory is {shown}, expected at least {LEAST >> 20}MiB")
    return room


def bounded(options: dict[str, Any], room: int) -> dict[str, Any]:
    """Options of a reading that holds no more of a record, and of texts that wait, than there is room for.

    Raises
    ------
    ParameterError
        A limit that was given is beyond the budget.
    """
    memory = f"'{room >> 20}MiB'"
    limits: dict[str, int] = {}
    for name, usual, share, least in (
        ("max_record", 512 << 20, RECORD_SHARE, LEAST_RECORD),
        ("max_string", 64 << 20, STRING_SHARE, LEAST_STRING),
    ):
        most, value = max(int(room * share), least), options.get(name)
        if value is not None and value > most:
            needed = f"'{-(-int(value / share) >> 20)}MiB'"
            raise ParameterError(
                f"{name} is {value}, and memory={memory} has room for at most {most}: "
                f"give memory={needed}, or a smaller {name}"
            )
        if value is None and most < usual:
            limits[name] = most
    set_by_memory = (memory, list(limits)) if limits else None
    gathered = max(int(room * GATHER_SHARE), LEAST_BATCH)
    return {**options, **limits, "set_by_memory": set_by_memory, "gather_budget": gathered}


def partitions_of(size: int, room: int) -> int:
    """As many partitions as let one of them fit its share of the budget."""
    return max(1, min(MOST_PARTITIONS, round(size / (room * PARTITION_SHARE))))
