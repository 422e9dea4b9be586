"""Processes that a test has started, directly or not, by what the system says of them."""

from pathlib import Path


def started(owner: int, words: bytes) -> list[tuple[int, int]]:
    """Process and parent of each that descends from `owner`, and whose command has these words."""
    parents: dict[int, int] = {}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue  # it has ended
        parents[int(entry.name)] = parent
        if words in command:
            found.append((int(entry.name), parent))
    return [pair for pair in found if _descends(pair[0], owner, parents)]


def _descends(process: int, owner: int, parents: dict[int, int]) -> bool:
    seen = set()
    while process in parents and process not in seen:
        seen.add(process)
        process = parents[process]
        if process == owner:
            return True
    return False
