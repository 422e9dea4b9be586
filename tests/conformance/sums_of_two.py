"""A task of verifiers for two agents, who answer one after the other: what is a sum of two numbers?"""

from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf  # type: ignore[import-not-found]  # in environments of `make conformance`


class SumData(vf.TaskData):  # type: ignore[misc]  # of a package that is not there
    """What is known of a task."""

    answer: str = ""


class SumTask(vf.Task):  # type: ignore[misc]
    """A run is right if the answer is anywhere in what was sampled."""

    @vf.reward  # type: ignore[untyped-decorator]
    async def right(self, trace: Any) -> float:
        """1 or 0."""
        text = " ".join(str(node.message) for node in trace.nodes if node.sampled)
        return float(self.data.answer in text)


class SumTaskset(vf.Taskset):  # type: ignore[misc]
    """Two tasks."""

    @classmethod
    def task_type(cls) -> type[SumTask]:
        """The type of its tasks."""
        return SumTask

    def load(self) -> Iterator[SumTask]:
        """The tasks."""
        for one, other in ((2, 3), (4, 5)):
            prompt = f"What is {one} + {other}?"
            data = SumData(prompt=prompt, answer=str(one + other), id=f"{one}+{other}")
            yield SumTask(data, self.config.task)


class SumConfig(vf.EnvConfig):  # type: ignore[misc]
    """Its agents."""

    planner: vf.AgentConfig = vf.AgentConfig()
    solver: vf.AgentConfig = vf.AgentConfig()


class SumEnv(vf.Env[SumConfig]):  # type: ignore[misc]
    """Both answer, the planner first."""

    async def run(self, task: SumTask, agents: Any) -> None:
        """One episode."""
        await agents.planner.run(task)
        await agents.solver.run(task)


__all__ = ["SumEnv", "SumTaskset"]
