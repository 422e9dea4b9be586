"""A worker of a study: cells in on standard input, measurements out, a line of JSON each.

A process of its own, so that a call beyond the budget can be ended, whatever it is busy with, and so that one
that takes all memory ends alone. It ends by itself when whoever started it is gone.
"""

import json
import sys
import warnings

from ..base.children import answering
from .cells import cells
from .config import begun_config
from .measure import Bench


def main() -> None:
    """Serve until there is no more input."""
    tell = answering()  # what a method prints must not be taken for an answer
    warnings.simplefilter("ignore")
    first = json.loads(sys.stdin.readline())
    config = begun_config(json.loads(first["config"]))
    known = {cell.name: cell for cell in cells(config)}
    bench = Bench(config, first["threads"])
    tell(stage="ready")
    for line in sys.stdin:
        cell = known[json.loads(line)["cell"]]
        found = bench.measure(cell, lambda stage: tell(stage=stage))
        tell(stage="done", found=found)


if __name__ == "__main__":
    main()
