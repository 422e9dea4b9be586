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
    answer = answering()  # what a method prints must not be taken for an answer
    warnings.simplefilter("ignore")
    first = json.loads(sys.stdin.readline())
    config = begun_config(json.loads(first["config"]))
    by_name = {cell.name: cell for cell in cells(config)}
    bench = Bench(config, first["threads"])
    answer(stage="ready")
    for line in sys.stdin:
        cell = by_name[json.loads(line)["cell"]]
        result = bench.measure(cell, lambda stage: answer(stage=stage))
        answer(stage="done", found=result)


if __name__ == "__main__":
    main()
