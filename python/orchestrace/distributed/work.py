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
    tell = answering()
    first = json.loads(sys.stdin.readline())
    import_modules(first["modules"], first["folders"])
    tell(stage="ready")
    for line in sys.stdin:
        try:
            task = _planned(first["plan"], first["id"]).tasks[json.loads(line)["task"]]
            found = run_task(task, corpus=first["corpus"], threads=first["threads"])
        except OrchestraceError as error:
            tell(stage="refused", kind=type(error).__name__, text=plain(error))
        else:
            tell(stage="done", result=asdict(found))


@lru_cache(maxsize=1)
def _planned(folder: str, name: str) -> Plan:
    """The plan of a folder, as whoever started this process has judged it."""
    found = load_plan(folder)
    if found.id != name:
        raise SchemaError(f"the plan in '{folder}' was replaced while its tasks run: run them again")
    return found


if __name__ == "__main__":
    main()
