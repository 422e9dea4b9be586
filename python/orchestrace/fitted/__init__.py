"""Credit methods that are fitted to a whole corpus; one file each. Importing the package registers them."""

from typing import Final

from . import hca, qmix, rudder, vdn

NAMES: Final = ("hca", "rudder", "vdn", "qmix")

__all__ = ["NAMES", "hca", "qmix", "rudder", "vdn"]
