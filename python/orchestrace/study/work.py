"""A worker of a study: cells in on standard input, measurements out, a line of JSON each.

A process of its own, so that a call beyond the budget can be ended, whatever it is busy with, and so that one
that takes all memory ends alone. It ends by itself when whoever started it is gone.
"""

import json
import os
import sys
import threading
import time
import warnings
from typing import Any

from .cells import cells
from .config import begun_config
from .measure import Bench


def main() -> None:
    """Serve until there is no more input."""
    # What a method prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def tell(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    first = json.loads(sys.stdin.readline())
    config = begun_config(json.loads(first["config"]))
    known = {cell.name: cell for cell in cells(config)}
    bench = Bench(config, first["threads"])
    tell(stage="ready")
    for line in sys.stdin:
        cell = known[json.loads(line)["cell"]]
        found = bench.measure(cell, lambda stage: tell(stage=stage))
        tell(stage="done", found=found)


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
