"""A worker of a plan: numbers of tasks in on standard input, results out, a line of JSON each."""

import json
import sys
from dataclasses import asdict
from functools import lru_cache

from ..base.children import answering, import_modules
from ..base.errors import OrchestraceError, SchemaError
from ..base.text import plain
from .folder import load_plan
from .running import run_task
from .tasks import Plan


def main() -> None:
    """Serve until there is no more input."""
    send = answering()
    first = json.loads(sys.stdin.readline())
    import_modules(first["modules"], first["folders"])
    send(stage="ready")
    for line in sys.stdin:
        try:
            task = _planned(first["plan"], first["id"]).tasks[json.loads(line)["task"]]
            result = run_task(task, corpus=first["corpus"], threads=first["threads"])
        except OrchestraceError as error:
            send(stage="refused", kind=type(error).__name__, text=plain(error))
        else:
            send(stage="done", result=asdict(result))


@lru_cache(maxsize=1)
def _planned(folder: str, name: str) -> Plan:
    """The plan of a folder, which the process that started this one has judged."""
    plan = load_plan(folder)
    if plan.id != name:
        raise SchemaError(f"the plan in '{folder}' was replaced while its tasks run: run them again")
    return plan


if __name__ == "__main__":
    main()
