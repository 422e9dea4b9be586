"""The notebooks of examples/notebooks as pages."""

from pathlib import Path


def pages(run: bool, scratch: Path) -> dict[str, str]:
    return {}
