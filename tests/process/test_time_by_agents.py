"""Every verb takes time by the agents of a run: at most 1.2 times as much an agent for four times the agents.

Chains, fans, teams, cycles and meshes of thousands of agents in one run. Left out is what plays the run once
for each agent, or is said to be super-linear. What seems slow is measured again, the least time counts.
"""

import gc
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from example_calls import over_any_corpus
from process.large_trace_calls import SHAPES, corpus, exported
from samples.export_calls import viewers

AGENTS = 3_000
TIMES = 4
LINEAR = 1.2
TRIES = 6
NOISE = 0.03
"""Seconds that a call takes whatever it is called with, or less."""
PLAYED = ("replay", "outcomes.sensitivity")
"""Verbs whose examples play a run once for each agent; so do methods of the tier ``surrogate``."""


def calls(runs: ot.Corpus, page: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All that may be asked of a run."""
    for name, verb in over_any_corpus().items():
        if name not in PLAYED:
            yield f"example of {name}", partial(verb, runs)
    recorded = ot.list_methods().filter(pl.col("tier").ne_missing("surrogate"))
    for method, units in recorded.select("name", "units").iter_rows():
        for unit in units:
            yield f"{method} by {unit}", partial(ot.credit, runs, method=method, unit=unit)
    linear = ot.list_metrics().filter(pl.col("cost") == "linear")
    for group in linear["group"].unique(maintain_order=True):
        yield f"metrics of {group}", partial(ot.metrics, runs, groups=[group])
    for by in ("agent", "role"):
        yield f"metrics by {by}", partial(ot.metrics, runs, by=by)
    for kind in viewers():
        yield f"export as {kind}", partial(exported, runs, kind)
    yield "the page", partial(ot.view, runs, page)


def seconds(call: Callable[[], Any]) -> float | None:
    """Processor's seconds of a call; None of one that is refused."""
    gc.disable()  # how often it looks at all objects hangs on what others left in this process
    since = time.process_time()
    try:
        call()
    except ot.OrchestraceError:
        return None
    finally:
        gc.enable()
    return time.process_time() - since


def excess(little: Callable[[], Any], much: Callable[[], Any]) -> float:
    """How many times as long an agent takes in the larger run."""
    few, many = float("inf"), float("inf")
    for _ in range(TRIES):
        one, other = seconds(little), seconds(much)
        if one is None or other is None:
            return 0.0
        few, many = min(few, one), min(many, other)
        if many <= LINEAR * TIMES * max(few, NOISE):
            break
    return many / (TIMES * max(few, NOISE))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_the_agents(shape: str, tmp_path: Path) -> None:
    few, many = corpus(shape, AGENTS), corpus(shape, TIMES * AGENTS)
    pairs = zip(calls(few, tmp_path / "few.html"), calls(many, tmp_path / "many.html"), strict=True)
    found = {name: excess(little, much) for (name, little), (_, much) in pairs}
    assert len(found) > 200
    assert not {name: f"{times:.1f} times" for name, times in found.items() if times > LINEAR}
