"""A training in two processes, started by `torch.distributed.run`: what the loss of each gets, as JSON."""

import json
import sys
from importlib import import_module
from pathlib import Path

from conformance.test_trl import STEPS, trainer


def main(folder: str, method: str) -> None:
    made = trainer(Path(folder), method)
    made.train()
    assert made.accelerator.num_processes == 2
    steps = [
        {
            "advantages": step["advantages"].tolist(),
            "mask": step["mask"].tolist(),
            "rewards": step["rewards"],
            "prompts": step["prompts"],
        }
        for step in made.seen
    ]
    assert len(steps) == STEPS
    Path(folder, f"rank{made.accelerator.process_index}.json").write_text(json.dumps(steps))
    import_module("torch").distributed.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
