"""Packages whose names load when they are asked for (PEP 562), so that an import costs what it uses.

A package lists its names by the modules that define them, in one call of `load_when_asked`. What a type
checker reads stands beside it, in a block ``if TYPE_CHECKING``; `.ci/rooms.py` compares the two.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

Missing = Callable[[ModuleType, str, Iterable[str]], AttributeError]
"""Makes the error about a name that a package does not have, from the package, the name, and the modules that
are names of the package."""


def _without(package: ModuleType, name: str, _modules: Iterable[str]) -> AttributeError:
    return AttributeError(f"module '{package.__name__}' has no attribute '{name}'")


class Namespace(ModuleType):
    """A package whose names load when they are asked for.

    Python sets every imported module on its package. A name of the table is never replaced by the module of
    the same name: `orchestrace.credit` is the verb, also after ``import orchestrace.credit.verb``.
    """

    def __getattr__(self, name: str) -> Any:
        inside = vars(self)
        if name in inside["_modules"]:
            return import_module(f"{self.__name__}.{name}")
        if name not in inside["_places"]:
            raise inside["_missing"](self, name, inside["_modules"])
        value = getattr(import_module(inside["_places"][name], self.__name__), name)
        inside[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        shadows = value is sys.modules.get(f"{self.__name__}.{name}")
        if not (shadows and isinstance(value, ModuleType) and name in vars(self)["_places"]):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, so that functions that use a package can be sent to other processes."""
        return import_module, (self.__name__,)

    def __dir__(self) -> list[str]:
        """The public names, and those that Python itself asks for."""
        inside = vars(self)
        public = inside.get("__all__", (*inside["_places"], *inside["_modules"]))
        return sorted({*public, *(name for name in inside if name.startswith("__"))})


def load_when_asked(
    package: str,
    places: Mapping[str, str],
    modules: Iterable[str] = (),
    missing: Missing = _without,
) -> None:
    """Let a package load its names when they are asked for.

    Parameters
    ----------
    package
        Its ``__name__``.
    places
        The names by the module that defines them, relative to the package: ``{".verb": "credit methods"}``.
    modules
        Modules of the package that are names of their own.
    missing
        Makes the error about a name that it does not have; by default Python's own words.
    """
    of_name = {name: place for place, names in places.items() for name in names.split()}
    module = sys.modules[package]
    vars(module).update(_places=of_name, _modules=frozenset(modules), _missing=missing)
    module.__class__ = Namespace
