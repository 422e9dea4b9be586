"""Everything that the package offers, by the name that a caller writes."""

import inspect
from collections.abc import Iterator
from typing import Any

import orchestrace as ot

SPACES = {name: one for name in ot.__all__ if inspect.ismodule(one := getattr(ot, name))}


def public() -> Iterator[tuple[str, Any]]:
    """Names at the top and of the namespaces, each thing under its shortest name."""
    top = {name: getattr(ot, name) for name in ot.__all__ if name not in SPACES}
    yield from top.items()
    for space, module in SPACES.items():
        for name in module.__all__:
            if top.get(name) is not (one := getattr(module, name)) and not inspect.ismodule(one):
                yield f"{space}.{name}", one
