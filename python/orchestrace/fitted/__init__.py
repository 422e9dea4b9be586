"""Credit methods that are fitted to a whole corpus (methods `hca`, `rudder`, `vdn`, `qmix`); one file each."""

from typing import Final

NAMES: Final[tuple[str, ...]] = ()
