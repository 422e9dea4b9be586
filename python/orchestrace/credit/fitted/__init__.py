"""Credit methods fitted to a whole corpus, one file each. Importing the package registers them."""

from . import aristocrat, hca, qmix, rudder, vdn

__all__ = ["aristocrat", "hca", "qmix", "rudder", "vdn"]
