"""Credit methods that are fitted to a whole corpus; one file each. Importing the package registers them."""

from typing import Final

from . import aristocrat, hca, qmix, rudder, vdn

NAMES: Final = ("aristocrat", "coma", "hca", "rudder", "vdn", "qmix")

__all__ = ["NAMES", "aristocrat", "hca", "qmix", "rudder", "vdn"]
