"""Credit methods that look at a whole corpus, one file each. Importing the package registers them."""

from . import aristocrat, dae, gdpo, hca, hierarchical_grpo, qmix, rae, rudder, turn_credit, vdn

__all__ = [
    "aristocrat",
    "dae",
    "gdpo",
    "hca",
    "hierarchical_grpo",
    "qmix",
    "rae",
    "rudder",
    "turn_credit",
    "vdn",
]
