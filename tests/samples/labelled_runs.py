"""Failed runs with the step that somebody blames, in the format of Who&When."""

import json
import random
from pathlib import Path


def write_labelled(path: Path, runs: int, seed: int = 0) -> Path:
    """Lines of runs of two agents; the blamed step is mostly an early one of the solver."""
    rng = random.Random(seed)
    lines = []
    for number in range(runs):
        n_steps = rng.randrange(6, 12)
        history = [
            {
                "name": ("Planner", "Solver")[step % 2],
                "role": "assistant",
                "content": f"step {step} of {number}",
            }
            for step in range(n_steps)
        ]
        blamed = 1 if rng.random() < 0.7 else rng.randrange(n_steps)
        lines.append(
            {
                "is_correct": False,
                "question": f"question {seed} {number}",
                "question_ID": f"{seed}-{number}",
                "ground_truth": "yes",
                "history": history,
                "mistake_agent": history[blamed]["name"],
                "mistake_step": str(blamed),
                "mistake_reason": "wrong",
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
