"""Everything that the package offers, by the name that a caller writes."""

import inspect
from collections.abc import Iterator
from typing import Any

import orchestrace as ot


def names(module: Any) -> list[str]:
    """The public names of a package."""
    listed: list[str] = module.__all__
    return listed


SPACES = {name: one for name in names(ot) if inspect.ismodule(one := getattr(ot, name))}


def public() -> Iterator[tuple[str, Any]]:
    """Names at the top and of the namespaces, each thing under its shortest name."""
    top = {name: getattr(ot, name) for name in names(ot) if name not in SPACES}
    yield from top.items()
    for space, module in SPACES.items():
        for name in module.__all__:
            if top.get(name) is not (one := getattr(module, name)) and not inspect.ismodule(one):
                yield f"{space}.{name}", one
