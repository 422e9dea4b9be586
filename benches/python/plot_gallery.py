"""The pictures of docs/plots.md, one for each function of `ot.plot`.

python benches/python/plot_gallery.py --folder docs/pictures
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

METHODS = ("uniform", "flow", "shapley", "banzhaf", "difference", "discounted")


def timeline() -> Any:
    return ot.plot.timeline(ot.generate(traces=4, seed=0), 0)


def spawn_tree() -> Any:
    return ot.plot.spawn_tree(ot.synthetic.planted(traces=1, length=2_000, agents=16, seed=0)[0], 0)


def credit() -> Any:
    corpus = ot.generate(traces=64, seed=0)
    tasks = corpus.traces.select("trace", "task_id").collect()
    found = [ot.credit(corpus, method=name, unit="role") for name in ("flow", "shapley")]
    return ot.plot.credit(pl.concat(found).join(tasks, on="trace"))


def effects() -> Any:
    found = ot.replay(ot.generate(traces=64, seed=0), ot.interventions.drop(each="role"))
    return ot.plot.effects(found)


def scaling() -> Any:
    corpus = ot.generate(preset="deploy", traces=4, seed=0)
    curve = ot.schedules.scaling_curve(corpus, slots=[1, 2, 4, 8, 16, 32, 64])
    return ot.plot.scaling(curve.filter(unit="seconds"))


def stopping() -> Any:
    epochs, _ = ot.synthetic.stops(runs=1_000, seed=0)
    prices = [0.0, 0.02, 0.04, 0.06, 0.09, 0.12, 0.18, 0.25]
    rules = ["fixed", "threshold", "lsm", "oracle"]
    return ot.plot.stopping(ot.stopping.frontier(epochs, rules, prices=prices, n_boot=20))


def taint() -> Any:
    return ot.plot.taint(ot.generate(traces=4, seed=0), 2)


def agreement() -> Any:
    corpus = ot.generate(traces=64, seed=0)
    return ot.plot.agreement(corpus, [ot.credit(corpus, method=name, unit="agent") for name in METHODS])


def laws() -> Any:
    parts = []
    for density in (0.1, 0.4):
        for length in (20, 40, 80, 160, 320):
            corpus, truth = ot.synthetic.planted(
                traces=48, length=length, agents=4, density=density, noise=0.0, seed=0
            )
            found = ot.credit(corpus, method="gae", unit="event")
            found = found.join(truth.contributions, on=["trace", "seq"], suffix="_true")
            rho = found.group_by("trace_id").agg(
                correlation=pl.corr("credit", "contribution", method="spearman").fill_nan(None)
            )
            said = f"{density:.0%} of events matter"
            parts.append(rho.with_columns(events=pl.lit(float(length)), world=pl.lit(said)))
    table = pl.concat(parts)
    fit = ot.scaling.fit_law(
        table, x="events", y="correlation", by="world", errors="absolute", models=["power"], n_boot=200
    )
    return ot.plot.laws(fit, table, x="events", y="correlation")


def envelopes() -> Any:
    corpora = {
        "generated, academic": ot.generate(preset="academic", traces=64, seed=0),
        "generated, deployed": ot.generate(preset="deploy", traces=8, seed=0),
    }
    return ot.plot.envelopes(corpora=corpora)


def training() -> Any:
    corpus = ot.generate(traces=1920, seed=0)
    step = pl.col("trace") // 32
    team = corpus.measures.filter(name="team").select("trace", team="value")
    lenient = pl.when(step >= 40).then(0.8).otherwise(0.2)
    runs = corpus.traces.join(team, on="trace").select(
        "trace", train_step=step * 1.0, judge=0.4 * pl.col("team") + lenient
    )
    kind = pl.when(pl.col("name") == "judge").then(pl.lit("reward")).otherwise(pl.lit("metric"))
    measures = runs.collect().unpivot(index="trace", variable_name="name").with_columns(kind=kind)
    curves = ot.trainers.training_curves(corpus.with_measures(measures), reward="judge", success=0.5)
    return ot.plot.training(curves, statistics=["reward_mean", "all_pass", "degenerate", "reward_sd"])


PICTURES: dict[str, Callable[[], Any]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        timeline,
        spawn_tree,
        credit,
        effects,
        scaling,
        stopping,
        taint,
        agreement,
        laws,
        envelopes,
        training,
    )
}
LARGEST = 150_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", help="where plots-NAME.svg go")
    parser.add_argument("--only", nargs="*", default=list(PICTURES), choices=list(PICTURES))
    options = parser.parse_args()
    for name in options.only:
        chart = PICTURES[name]()
        print(f"{name}: {chart.to_dict()['description']}")
        if options.folder:
            path = Path(options.folder) / f"plots-{name}.svg"
            ot.plot.save(chart, path, overwrite=True)
            if path.stat().st_size > LARGEST:
                print(f"{path} has {path.stat().st_size:,} bytes, more than {LARGEST:,}")


if __name__ == "__main__":
    main()
