"""The cells of a study: corpus, name and seed of each measurement.

A seed depends on the seed of the study and on the name of its purpose, never on the place in a list: a study
with one more preset has the same numbers in all the others.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..credit.verb import list_methods as registered
from ..rewards import list_rules
from .config import MethodRun, Size, StudyConfig

CREDIT, SCHEDULE, REWARD, STOP = "credit", "schedule", "reward", "stop"
STOPS = "stops"
"""The world of the cells of stopping, whose runs are epochs and none of the presets."""


@dataclass(frozen=True)
class Cell:
    """One measurement on one corpus: a method at a unit, a queue, a rule of reward or of stopping."""

    kind: str
    preset: str
    size: Size
    replicate: int
    run: MethodRun
    unit: str

    @property
    def corpus(self) -> str:
        """The name of its corpus, which cells share."""
        return f"{self.preset}/{self.size.label}/{self.replicate}"

    @property
    def series(self) -> str:
        """What it has in common with the cells of other sizes: one curve of the ladder."""
        return f"{self.kind}/{self.preset}/{self.replicate}/{self.run.label}/{self.unit}"

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.corpus}/{self.run.label}/{self.unit}"

    @property
    def file(self) -> str:
        """Readable where the name allows it, and always unique."""
        readable = re.sub(r"[^A-Za-z0-9_.=-]+", "-", self.name).strip("-")[:100]
        return f"{readable}-{hashlib.blake2b(self.name.encode(), digest_size=6).hexdigest()}.json"


def cells(config: StudyConfig) -> list[Cell]:
    """All cells, from the cheapest size to the most expensive; those of one corpus in a row."""
    return [cell for size in _by_cost(config) for cell in _of_size(config, size)]


def _by_cost(config: StudyConfig) -> list[Size]:
    return sorted(config.sizes, key=lambda size: (size.events, size.agents))


def _of_size(config: StudyConfig, size: Size) -> Iterator[Cell]:
    reported = dict(registered().select("name", "units").iter_rows())
    paid = dict(list_rules().select("reward", "unit").iter_rows())
    for preset in config.presets:
        for replicate in range(config.replicates):
            if config.slots:
                for queue in config.queues:
                    yield Cell(SCHEDULE, preset, size, replicate, MethodRun(queue), "trace")
            for run in config.methods:
                for unit in run.units or config.units:
                    if unit in reported[run.name]:
                        yield Cell(CREDIT, preset, size, replicate, run, unit)
            for run in config.rewards:
                yield Cell(REWARD, preset, size, replicate, run, paid[run.name])
    for replicate in range(config.replicates):
        for name in config.stopping:
            yield Cell(STOP, STOPS, size, replicate, MethodRun(name), "run")


def seed_of(seed: int, purpose: str, name: str) -> int:
    """63 bits for one purpose and name."""
    text = f"{seed}\0{purpose}\0{name}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little") >> 1
