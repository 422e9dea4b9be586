"""One picture of each kind, from what the verbs give of a corpus."""

import random
from collections.abc import Callable
from typing import Any

import polars as pl

import orchestrace as ot

Chart = Any


def _credits(corpus: ot.Corpus, *methods: str, unit: Any = "agent") -> list[pl.DataFrame]:
    return [ot.credit(corpus, method=method, unit=unit) for method in methods]


def _stops() -> pl.DataFrame:
    return ot.synthetic.stops(runs=60, seed=0)[0]


def observations(groups: int = 2, tasks: int = 12, seed: int = 0) -> pl.DataFrame:
    """Sizes and times that follow a power law with noise."""
    rng = random.Random(seed)
    sizes = (1, 2, 4, 8, 16, 32)
    return pl.DataFrame(
        [
            {"trace_id": f"t{n}", "n": float(x), "y": x**-0.5 * rng.uniform(0.6, 1.5), "by": f"g{n % groups}"}
            for n in range(tasks)
            for x in sizes
        ]
    )


def _laws(theme: Any) -> Chart:
    points = observations()
    law = ot.scaling.fit_law(points, x="n", y="y", by="by", n_boot=50)
    return ot.plot.laws(law, points, x="n", y="y", theme=theme)


def _interventions() -> list[Any]:
    some = ot.interventions
    return [some.speed_up(2, type="tool_result"), some.concurrency([1, 2]), some.serialize()]


DRAWN: dict[str, Callable[[ot.Corpus, Any], Chart]] = {
    "timeline": lambda c, theme: ot.plot.timeline(c, 0, theme=theme),
    "timeline with credit": lambda c, theme: ot.plot.timeline(
        c, 0, credit=ot.credit(c, method="flow", unit="event"), theme=theme
    ),
    "spawn_tree": lambda c, theme: ot.plot.spawn_tree(c, 0, theme=theme),
    "credit": lambda c, theme: ot.plot.credit(_credits(c, "flow")[0], theme=theme),
    "credit of methods": lambda c, theme: ot.plot.credit(
        pl.concat(_credits(c, "flow", "uniform", unit="role")), theme=theme
    ),
    "credit of events": lambda c, theme: ot.plot.credit(
        ot.credit(c, method="flow", unit="event"), top=5, theme=theme
    ),
    "effects": lambda c, theme: ot.plot.effects(
        ot.replay(c, ot.interventions.drop(each="role")), theme=theme
    ),
    "effects on schedules": lambda c, theme: ot.plot.effects(ot.replay(c, *_interventions()), theme=theme),
    "scaling": lambda c, theme: ot.plot.scaling(
        ot.schedules.scaling_curve(c, slots=[1, 2, 3, 4, 8, None]), theme=theme
    ),
    "stopping": lambda c, theme: ot.plot.stopping(
        ot.stopping.frontier(_stops(), ["fixed", "lsm"], prices=[0.0, 0.1], n_boot=20), theme=theme
    ),
    "stopping at a price": lambda c, theme: ot.plot.stopping(
        ot.stopping.evaluate(_stops(), ["fixed", "lsm", "oracle"], price=0.05, n_boot=20), theme=theme
    ),
    "taint": lambda c, theme: ot.plot.taint(c, 0, theme=theme),
    "agreement": lambda c, theme: ot.plot.agreement(
        c, _credits(c, "uniform", "flow", "shapley", "broadcast"), theme=theme
    ),
    "laws": lambda c, theme: _laws(theme),
    "envelopes": lambda c, theme: ot.plot.envelopes(corpora={"mine": c}, theme=theme),
}
"""By a name that begins with that of the function."""
