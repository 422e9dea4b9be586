"""Verbs on corpora beyond one machine: plans of tasks that run anywhere, and the table of their parts."""

from .engines import run
from .planning import plan
from .reducing import reduce, status
from .running import run_task
from .tasks import Plan, Task, TaskResult
from .verb_engines import PlanEngine, processes, ray
from .verbs import list_verbs

__all__ = [
    "Plan",
    "PlanEngine",
    "Task",
    "TaskResult",
    "list_verbs",
    "plan",
    "processes",
    "ray",
    "reduce",
    "run",
    "run_task",
    "status",
]
