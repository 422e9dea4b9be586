"""One picture of each kind, from what the verbs give of a corpus."""

import io
import random
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl

import orchestrace as ot
from example_calls import example_of
from namespaces import names
from samples.hand_runs import event, run
from samples.random_runs import jsonl

Chart = Any


def _credits(corpus: ot.Corpus, *methods: str, unit: Any = "agent") -> list[pl.DataFrame]:
    return [ot.credit(corpus, method=method, unit=unit) for method in methods]


def _stops() -> pl.DataFrame:
    return ot.synthetic.stops(runs=60, seed=0)[0]


def observations(groups: Sequence[str] = ("g0", "g1"), tasks: int = 12, seed: int = 0) -> pl.DataFrame:
    """Sizes and times that follow a power law with noise."""
    rng = random.Random(seed)
    sizes = (1, 2, 4, 8, 16, 32)
    return pl.DataFrame(
        [
            {
                "trace_id": f"t{n}",
                "n": float(x),
                "y": x**-0.5 * rng.uniform(0.6, 1.5),
                "by": groups[n % len(groups)],
            }
            for n in range(tasks)
            for x in sizes
        ]
    )


def _laws(theme: Any, groups: Sequence[str] = ("g0", "g1")) -> Chart:
    points = observations(groups)
    law = ot.scaling.fit_law(points, x="n", y="y", by="by", n_boot=50)
    return ot.plot.laws(law, points, x="n", y="y", theme=theme)


def _interventions() -> list[Any]:
    some = ot.interventions
    return [some.speed_up(2, type="tool_result"), some.concurrency([1, 2]), some.run_sequentially()]


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
"""By a name that begins with that of the function. One without a picture here draws its example."""


def _example(function: Callable[..., Chart]) -> Callable[[ot.Corpus, Any], Chart]:
    return lambda _, theme: example_of(function).answer({"theme": theme})


_DRAWN_ABOVE = {name.partition(" ")[0] for name in DRAWN}
DRAWN |= {
    name: _example(getattr(ot.plot, name)) for name in names(ot.plot) if name not in (*_DRAWN_ABOVE, "save")
}


def corpus_of(names: list[str]) -> ot.Corpus:
    """Six runs alike, in which agents, tools and roles have these names."""
    events = [
        event(n, name, "message", duration_s=1.0, to=names[(n + 1) % len(names)], tool=name, role=name)
        for n, name in enumerate(names)
    ]
    edges = [(n, n + 1) for n in range(len(events) - 1)]
    documents = [run(n, 1.0, events, edges, edge_type="message") for n in range(6)]
    return ot.read_traces(io.BytesIO(jsonl(documents)), format="native")


def pictures_of(corpus: ot.Corpus) -> dict[str, Chart]:
    """Pictures with the names that a recording has."""
    agents = corpus.events.select(pl.col("agent").cast(pl.String)).collect()["agent"]
    return {
        "timeline": ot.plot.timeline(corpus, 0),
        "spawn_tree": ot.plot.spawn_tree(corpus, 0),
        "credit": ot.plot.credit(ot.credit(corpus, method="uniform", unit="agent")),
        "effects": ot.plot.effects(ot.replay(corpus, ot.interventions.drop(each="agent"))),
        "envelopes": ot.plot.envelopes(corpora={agents[0]: corpus}),
    }


def pictures_with_names(names: list[str]) -> dict[str, Chart]:
    """Pictures with these names in every place that has names of a user, at least two."""
    corpus = corpus_of(names)
    credits = ot.credit(corpus, method="uniform", unit="agent")
    of_methods = [credits.with_columns(method=pl.lit(name)) for name in names]
    stops = ot.stopping.evaluate(_stops(), ["fixed", "lsm"], price=0.05, n_boot=5)
    rules = pl.col("method").cast(pl.String).replace({"fixed": names[0], "lsm": names[1]})
    curve = ot.schedules.scaling_curve(corpus, slots=[1, 2, None])
    return pictures_of(corpus) | {
        "taint": ot.plot.taint(corpus, 0),
        "credit of methods": ot.plot.credit(pl.concat(of_methods)),
        "agreement": ot.plot.agreement(corpus, of_methods[:2]),
        "laws": _laws("auto", names),
        "scaling": ot.plot.scaling(curve, title=" ".join(names)),
        "stopping at a price": ot.plot.stopping(stops.with_columns(method=rules), title=names[0]),
        "empty": ot.plot.credit(credits.clear()),
    }
