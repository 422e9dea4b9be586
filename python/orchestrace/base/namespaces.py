"""Packages whose names load when they are asked for (PEP 562), so that an import costs what it uses.

A package imports its public names in a block ``if TYPE_CHECKING``, each as itself (``from .verb import credit
as credit``), and calls `load_lazily`, which reads that block: one list for type checkers and at run time.
"""

import ast
import sys
from collections.abc import Callable, Iterable
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


def load_lazily(package: str, missing: Missing = _without) -> None:
    """Let a package load its names when they are asked for, and list them as ``__all__``.

    Parameters
    ----------
    package
        Its ``__name__``.
    missing
        Makes the error about a name that it does not have; by default Python's own words.

    Raises
    ------
    ImportError
        The source of the package is not there to be read.
    """
    module = sys.modules[package]
    file = str(module.__file__)
    if not file.endswith(".py"):
        raise ImportError(f"{package} needs its source: give what bundles it the .py files too", name=package)
    loader: Any = module.__loader__
    places, modules = listed(ast.parse(loader.get_data(file)))
    versions = ["__version__"] if "__version__" in vars(module) else []
    vars(module).update(_places=places, _modules=modules, _missing=missing)
    vars(module)["__all__"] = sorted([*places, *modules, *versions])
    module.__class__ = Namespace


def listed(tree: ast.Module) -> tuple[dict[str, str], frozenset[str]]:
    """The names of a package by the modules that define them, and the modules that are names themselves."""
    places: dict[str, str] = {}
    modules: set[str] = set()
    for block in tree.body:
        if not isinstance(block, ast.If) or ast.unparse(block.test) != "TYPE_CHECKING":
            continue
        for line in block.body:
            assert isinstance(line, ast.ImportFrom)
            names = [name.name for name in line.names]
            if line.module is None:
                modules.update(names)
            else:
                places.update(dict.fromkeys(names, "." * line.level + line.module))
    return places, frozenset(modules)
