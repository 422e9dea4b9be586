"""Data sets of conversations: runs of sums, some right and some wrong, as hubs hold them."""

import json
from pathlib import Path
from typing import Any


def chat(
    task: str, run: str, question: str, answers: list[str], reward: float | None, **more: Any
) -> dict[str, Any]:
    """A run that answers again when it is asked again; a reward of None is a run that nobody judged."""
    messages = [{"role": "system", "content": "Add."}, {"role": "user", "content": question}]
    for at, answer in enumerate(answers):
        messages += [{"role": "user", "content": "Sure?"}] * (at > 0)
        messages.append({"role": "assistant", "content": answer})
    verdict = {} if reward is None else {"reward": reward}
    return {"instance_id": task, "trajectory_id": run, "messages": messages, **verdict, **more}


def write_chats(path: Path, chats: list[dict[str, Any]]) -> Path:
    """A file of runs, a line each."""
    path.write_text("".join(json.dumps(one) + "\n" for one in chats))
    return path


def sums(tasks: int = 4) -> list[dict[str, Any]]:
    """Of each task one run that passes at once, one that passes late, and two that fail."""
    chats = []
    for task in range(tasks):
        right, question = str(2 * task), f"{task} + {task}?"
        for run, (answers, reward) in enumerate(
            [([right], 1.0), (["7", right], 1.0), (["7"], 0.0), (["7", "8"], 0.0)]
        ):
            chats.append(chat(f"sum-{task}", f"sum-{task}-{run}", question, answers, reward))
    return chats
