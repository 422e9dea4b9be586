"""Direct advantage estimation beside scikit-learn's ridge regression on the same design.

    python benches/python/dae_peers.py [--events 1000000] [--rounds 5]

Ours is the whole verb, from a corpus in memory to a frame of credits: shares of choices, the design, models
of five folds with a variance for each family of columns, 99 permutations, a value for each event. The peer
is handed the finished design of runs, and chooses one penalty of seven for each of the same folds by the
errors on four parts of the other tasks, as `RidgeCV` does with groups. It values no event and permutes
nothing. Rounds take turns; medians are printed, with the correlation of both predictions on unseen runs.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GroupKFold

import orchestrace as ot
from orchestrace.base.arrays import Floats
from orchestrace.corpus.reward import amounts
from orchestrace.credit.fitted.choices import SKILL
from orchestrace.credit.fitted.dae import Advantages, fitted

PENALTIES = tuple(10.0**k for k in range(-2, 5))


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def design(corpus: ot.Corpus, model: Advantages) -> tuple[Floats, Floats, Any, Any]:
    """Rows of runs around the mean of their group, the same of rewards, groups and folds."""
    traces = corpus.traces.select("trace", "task_id").collect()
    trace = traces["trace"].to_numpy().astype(np.int64)
    x = model.choices.runs(model.rows(corpus), trace)[:, model.choices.family < SKILL]
    y = amounts(corpus, "team")["reward"].to_numpy()
    group = traces["task_id"].cast(str).rank("dense").to_numpy() - 1
    size = np.bincount(group)[:, None]
    sums = np.zeros((len(size), x.shape[1]))
    np.add.at(sums, group, x)
    x = x - (sums / size)[group]
    y = y - (np.bincount(group, weights=y) / size[:, 0])[group]
    return x, y, group, model.folds.of(traces["trace"])


def peer(x: Floats, y: Floats, group: Any, fold: Any) -> Floats:
    """Predictions of runs by models of the other folds."""
    out = np.zeros(len(y))
    for number in range(int(fold.max()) + 1):
        training = np.flatnonzero(fold != number)
        parts = list(GroupKFold(4).split(x[training], groups=group[training]))
        chosen = RidgeCV(PENALTIES, fit_intercept=False, cv=parts).fit(x[training], y[training]).alpha_
        model = Ridge(chosen, fit_intercept=False).fit(x[training], y[training])
        out[fold == number] = model.predict(x[fold == number])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    corpus, _ = ot.synthetic.planted(
        traces=options.events // 800 * 8, group_size=8, effects="role", density=1.0, decisive=0.0, seed=0
    )
    rewards = amounts(corpus, "team").select("trace", amount="reward")
    model = fitted(corpus, rewards, 5, 0)
    x, y, group, fold = design(corpus, model)
    weights = model.weights(luck=False)[model.choices.family < SKILL]
    ours = np.einsum("np,pn->n", x, weights[:, fold])
    verb, fit, theirs = [], [], []
    predicted = ours
    for _ in range(options.rounds):
        verb.append(timed(lambda: ot.credit(corpus, method="dae", unit="event"))[0])
        fit.append(timed(lambda: fitted(corpus, rewards, 5, 0))[0])
        seconds, predicted = timed(lambda: peer(x, y, group, fold))
        theirs.append(seconds)

    def r2(values: Floats) -> float:
        return 1.0 - float(np.square(y - values).sum() / np.square(y).sum())

    n = corpus.events.select("seq").collect().height
    print(f"{n:,} events, {len(y):,} runs, {x.shape[1]} columns")
    for name, times in (
        ("ot.credit(method='dae')", verb),
        ("its fit alone", fit),
        ("RidgeCV, on the design", theirs),
    ):
        print(f"{name:<26} {statistics.median(times):6.2f} s  (of {min(times):.2f} to {max(times):.2f})")
    print(f"r2 on unseen tasks: {r2(ours):.4f}, of the peer {r2(predicted):.4f}")
    print(f"correlation of both: {np.corrcoef(ours, predicted)[0, 1]:.4f}")


if __name__ == "__main__":
    main()
