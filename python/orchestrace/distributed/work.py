"""A worker of a plan: numbers of tasks in on standard input, results out, a line of JSON each."""

import json
import sys
from dataclasses import asdict

from ..base.children import answering
from ..base.errors import OrchestraceError
from ..base.text import plain
from .folder import load_plan
from .running import run_task


def main() -> None:
    """Serve until there is no more input."""
    tell = answering()
    first = json.loads(sys.stdin.readline())
    tasks = load_plan(first["plan"]).tasks
    tell(stage="ready")
    for line in sys.stdin:
        task = tasks[json.loads(line)["task"]]
        try:
            found = run_task(task, corpus=first["corpus"], threads=first["threads"])
        except OrchestraceError as error:
            tell(stage="refused", kind=type(error).__name__, text=plain(error))
        else:
            tell(stage="done", result=asdict(found))


if __name__ == "__main__":
    main()
