"""Credit methods that look at a whole corpus, one file each. Importing the package registers them."""

from . import (
    aristocrat,
    ccpo,
    dae,
    gdpo,
    hca,
    hierarchical_grpo,
    igpo,
    qmix,
    rae,
    remax,
    rudder,
    turn_credit,
    vdn,
)

__all__ = [
    "aristocrat",
    "ccpo",
    "dae",
    "gdpo",
    "hca",
    "hierarchical_grpo",
    "igpo",
    "qmix",
    "rae",
    "remax",
    "rudder",
    "turn_credit",
    "vdn",
]
