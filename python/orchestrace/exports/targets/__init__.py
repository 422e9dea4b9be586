"""The targets of `export`: a file for each, which has its name, its options and how it is written."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

from ..format import Export


def _targets() -> Iterator[Export]:
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        module = import_module(f"{__name__}.{path.stem}")
        yield from (target for target in vars(module).values() if isinstance(target, Export))


EXPORTS: Final = {target.name: target for target in sorted(_targets(), key=lambda target: target.name)}
"""Every target, by its name."""
