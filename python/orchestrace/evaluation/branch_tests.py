"""Whether a step goes with failure, over all groups: a test per step, errors controlled over all of them."""

from typing import Final, NamedTuple

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Confidence, Resamples, Seed, Success, Threads
from ..base.arrays import Floats, Ints
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..statistics.influence import interval
from .lanes import Key
from .run_tree import RunTree, described

BRANCH_TESTS: Final = pl.Schema(
    {
        "type": pl.String(),
        "label": pl.String(),
        "tool": pl.String(),
        "n_groups": pl.UInt32(),
        "n_nodes": pl.UInt32(),
        "n_runs": pl.UInt32(),
        "effect": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "odds_ratio": pl.Float64(),
        "z": pl.Float64(),
        "p_value": pl.Float64(),
        "p_adjusted": pl.Float64(),
        "finding": pl.Boolean(),
        "interval_reason": CREDITS["reason"],
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `branch_tests` returns."""

_WORDS: Final = ("type", "label", "tool")
_CELLS: Final = 20_000_000
"""Numbers of drawn outcomes in memory at a time."""


@verb
def branch_tests(
    corpus: Corpus,
    *,
    key: Key = "shape",
    reward: Reward = "team",
    success: Success = 1.0,
    alpha: Alpha = 0.05,
    confidence: Confidence = 0.95,
    draws: Resamples = 999,
    seed: Seed = 0,
    threads: Threads = None,
) -> pl.DataFrame:
    """Test over all groups which steps go with failure where runs part, all tests as one family.

    Parameters
    ----------
    corpus
        The recordings; runs are compared with those of their group that had done the same before.
    key
        When two runs had done the same, as in `divergence`; what is tested are shapes in any case.
    reward, success
        What runs are paid, and from which reward on they passed, as in `pass_rates`.
    alpha
        The chance of any finding where no step goes with failure.
    confidence
        Coverage of the intervals, each by itself.
    draws
        How often outcomes are exchanged at random among the runs of each group.
    seed
        Of these draws, which follow names of groups and runs, not files.
    threads
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per shape of step that some branch of a group with both outcomes begins with, the least
        ``p_adjusted`` first: ``type label tool`` (String; all null: the run ends); ``n_groups n_nodes
        n_runs`` (UInt32): groups, nodes, and runs that took it, which it is compared in; ``effect``
        (Float64): the share of failures among runs that took it less that among those that did not at the
        same node, nodes weighed as Mantel and Haenszel do, and its interval ``lower upper`` over tasks, over
        groups where one has several (``interval_reason`` says why not); ``odds_ratio`` (Float64) of Mantel
        and Haenszel, null where a sum of it is 0; ``z`` (Float64): failures beyond those expected, in
        standard deviations of exchanged outcomes; ``p_value``: two-sided, of this step alone;
        ``p_adjusted``: over all steps;
        ``finding`` (Boolean): ``p_adjusted`` is at most `alpha`. ``reason`` is ``group.degenerate`` where
        exchanging outcomes moves nothing.

    Raises
    ------
    ParameterError
        Unknown words or channels.

    Notes
    -----
    Outcomes are exchanged within groups, which is exact where they have nothing to do with steps: runs of
    a group are then exchangeable. ``p_adjusted`` compares each |z| with the largest of all steps in each
    draw, so that the chance of any finding is at most `alpha`, whatever depends on what. A finding goes with
    failure; it need not cause it: what the runs differ in besides comes with it.

    O(steps + draws · runs log runs). Sources: Mantel & Haenszel 1959; Westfall & Young, Resampling-based
    multiple testing, 1993 (single-step max T).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> tested = ot.evaluation.branch_tests(corpus, success=0.5, draws=99)
    >>> bool((tested["p_adjusted"] >= tested["p_value"]).all())
    True
    """
    visits = pl.concat(
        [_VISITS.clear(), *(_visits(load(), key, reward, success, threads) for _, load in corpus.pieces())]
    )
    # nodes have numbers of their own in each piece; draws go by the names of runs, not by their order
    visits = visits.sort("group_id", "trace_id", "trace", maintain_order=True)
    nodes = visits.select("group_id", "node").unique(maintain_order=True).with_row_index("number")
    visits = visits.join(nodes, on=["group_id", "node"], nulls_equal=True, maintain_order="left")
    visits = visits.with_columns(node=pl.col("number").cast(pl.UInt64)).drop("number")
    # where one way on is left without runs that were never judged, nothing parts
    parts = pl.struct(*_WORDS).n_unique().over("node") > 1
    visits = visits.filter(parts)
    if visits.is_empty():
        return pl.DataFrame(schema=BRANCH_TESTS)
    weights = _Weights.of(visits)
    rows = weights.shapes.hstack(_measured(weights, confidence))
    rows = rows.hstack(_tested(weights, draws, seed))
    finding = pl.col("p_adjusted") <= alpha
    rows = rows.with_columns(finding=finding).sort("p_adjusted", "p_value", *_WORDS, nulls_last=True)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in BRANCH_TESTS.items())


_VISITS: Final = pl.DataFrame(
    schema={
        "group_id": pl.String(),
        "task_id": pl.String(),
        "trace_id": pl.String(),
        "trace": pl.UInt32(),
        "failed": pl.Float64(),
        "node": pl.UInt64(),
        **dict.fromkeys(_WORDS, pl.String()),
    }
)


def _visits(piece: Corpus, key: Key, reward: Reward, success: float, threads: int | None) -> pl.DataFrame:
    """A row per judged run and branching that it comes to: the step it took there."""
    tree = RunTree.of(piece, key, reward, success, threads)
    rows = tree.compared().drop_nulls("passed")
    children = described(tree.children(rows)).select("node", "child", *_WORDS)
    runs = tree.runs.select("trace", "trace_id", "group_id", "task_id")
    taken = rows.drop("type", "tool").join(children, on=["node", "child"], maintain_order="left")
    taken = taken.join(runs, on="trace", maintain_order="left").with_columns(
        failed=(~pl.col("passed")).cast(pl.Float64)
    )
    return taken.select(_VISITS.columns)


class _Weights(NamedTuple):
    """The sums that are tested, as weights of the runs' outcomes.

    At a node with N runs of which n took the step, F failed and f of the former, f - F n / N is what failed
    beyond what was expected: a sum of outcomes, each weighed by whether the run took it, less n / N.
    """

    shapes: pl.DataFrame
    """A row per shape: its words, ``n_groups n_nodes n_runs``, the sums of its odds ratio."""
    runs: pl.DataFrame
    """A row per run, in order of group and name: ``group`` and ``task`` (numbers), ``failed``."""
    entries: pl.DataFrame
    """``shape run weight``, each pair once."""
    tasks: pl.DataFrame
    """``shape task scale excess``: Σ n (N - n) / N and the excess over the nodes of each task."""

    @classmethod
    def of(cls, visits: pl.DataFrame) -> "_Weights":
        order = ["group_id", "trace_id", "trace"]
        runs = visits.select(*order, "task_id", "failed").unique("trace").sort(order)
        # what is independent: tasks, or groups where one has several tasks
        several = (pl.col("task_id").n_unique().over("group_id") > 1).any()
        cluster = pl.when(several).then("group_id").otherwise("task_id")
        runs = runs.with_columns(
            run=pl.int_range(pl.len()),
            group=pl.col("group_id").rle_id().cast(pl.Int64),
            task=cluster.rank("dense").cast(pl.Int64) - 1,
        )
        visits = visits.join(runs.select("trace", "run", "group", "task"), on="trace", maintain_order="left")
        cells = visits.group_by("group", "task", "node", *_WORDS, maintain_order=True).agg(
            n=pl.len().cast(pl.Float64), f=pl.col("failed").sum()
        )
        nodes = cells.group_by("node").agg(N=pl.col("n").sum(), F=pl.col("f").sum())
        cells = cells.join(nodes, on="node", maintain_order="left").filter(pl.col("n") < pl.col("N"))
        shapes = cells.select(_WORDS).unique().sort(_WORDS, nulls_last=True).with_row_index("shape")
        cells = cells.join(shapes, on=_WORDS, nulls_equal=True, maintain_order="left")
        n, of_all, f, failed = (pl.col(name) for name in ("n", "N", "f", "F"))
        passed, others = n - f, (of_all - n)
        cells = cells.with_columns(
            excess=f - failed * n / of_all,
            scale=n * others / of_all,
            up=f * (others - (failed - f)) / of_all,
            down=passed * (failed - f) / of_all,
        ).sort("shape", "group", "node")
        at = cells["shape"].to_numpy()
        sums = {name: np.bincount(at, cells[name].to_numpy(), len(shapes)) for name in ("up", "down", "n")}
        counts = cells.group_by("shape").agg(n_groups=pl.col("group").n_unique(), n_nodes=pl.len())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((sums["down"] > 0) & (sums["up"] > 0), sums["up"] / sums["down"], np.nan)
        shapes = shapes.join(counts, on="shape", maintain_order="left").with_columns(
            n_runs=pl.Series(sums["n"]).cast(pl.UInt32), odds_ratio=pl.Series(ratio).fill_nan(None)
        )
        # each run at a node of a shape weighs -n/N, and 1 more if it took the step
        at_nodes = visits.select("node", "run").join(
            cells.select("node", "shape", share=-n / of_all), on="node"
        )
        took = visits.join(shapes.select("shape", *_WORDS), on=_WORDS, nulls_equal=True)
        took = took.join(cells.select("node", "shape"), on=["node", "shape"], how="semi")
        entries = pl.concat(
            [at_nodes.select("shape", "run", weight="share"), took.select("shape", "run", weight=1.0)]
        )
        entries = entries.sort("shape", "run", "weight")
        pairs = entries.select(pl.struct("shape", "run").rle_id())[:, 0].to_numpy()
        weight = np.bincount(pairs, entries["weight"].to_numpy())
        entries = (
            entries.select("shape", "run").unique(maintain_order=True).with_columns(weight=pl.Series(weight))
        )
        by_task = cells.select("shape", "task", "scale", "excess").sort("shape", "task")
        code = by_task.select(pl.struct("shape", "task").rle_id())[:, 0].to_numpy()
        tasks = (
            by_task.select("shape", "task")
            .unique(maintain_order=True)
            .with_columns(
                scale=pl.Series(np.bincount(code, by_task["scale"].to_numpy())),
                excess=pl.Series(np.bincount(code, by_task["excess"].to_numpy())),
            )
        )
        return cls(shapes, runs, entries, tasks)


def _measured(weights: _Weights, confidence: float) -> pl.DataFrame:
    """``effect lower upper interval_reason`` of each shape: a ratio of sums over tasks."""
    rows = []
    for part in weights.tasks.partition_by("shape", maintain_order=True):
        scale, excess = part["scale"].to_numpy(), part["excess"].to_numpy()
        effect = float(excess.sum() / scale.sum())
        influence = (excess - effect * scale) / scale.sum()
        around = interval(
            effect, influence, part["task"].to_numpy(), confidence=confidence, within=(-1.0, 1.0)
        )
        rows.append(
            {"effect": effect, "lower": around.lower, "upper": around.upper, "interval_reason": around.reason}
        )
    schema = {name: BRANCH_TESTS[name] for name in ("effect", "lower", "upper", "interval_reason")}
    return pl.DataFrame(rows, schema=schema)


def _tested(weights: _Weights, draws: int, seed: int) -> pl.DataFrame:
    """``z p_value p_adjusted reason`` of each shape, by exchanging the outcomes of each group."""
    from scipy import sparse

    runs, entries = weights.runs, weights.entries
    group, failed = runs["group"].to_numpy(), runs["failed"].to_numpy()
    matrix = sparse.csr_matrix(
        (entries["weight"].to_numpy(), (entries["shape"].to_numpy(), entries["run"].to_numpy())),
        shape=(len(weights.shapes), len(runs)),
    )
    deviation = np.sqrt(_variance(entries, group, failed, len(weights.shapes)))
    moves = deviation > 1e-9
    observed = np.where(moves, matrix @ failed / np.where(moves, deviation, 1.0), 0.0)
    # an outcome drawn twice in another order is the same but for rounding
    bound = np.abs(observed) * (1.0 - 1e-9) - 1e-9
    beyond, beyond_any = np.ones(len(observed)), np.ones(len(observed))
    rng = np.random.Generator(np.random.Philox(seed))
    # within a group the failures come first: a drawn order of its runs is a drawn outcome
    ordered = failed[np.lexsort((-failed, group))]
    at_once = max(1, _CELLS // max(len(runs), 1))
    for first in range(0, draws, at_once):
        some = min(at_once, draws - first)
        drawn = np.empty((len(runs), some))
        for column in range(some):
            drawn[np.lexsort((rng.random(len(runs)), group)), column] = ordered
        z = np.abs(matrix @ drawn) / np.where(moves, deviation, 1.0)[:, None]
        z[~moves] = 0.0
        beyond += (z >= bound[:, None]).sum(axis=1)
        beyond_any += (z.max(axis=0)[None, :] >= bound[:, None]).sum(axis=1)
    null = pl.Series(moves)
    numbers = {"z": observed, "p_value": beyond / (draws + 1), "p_adjusted": beyond_any / (draws + 1)}
    return pl.select(
        *(pl.when(null).then(pl.Series(values)).alias(name) for name, values in numbers.items()),
        reason=pl.when(~null).then(pl.lit("group.degenerate")).cast(CREDITS["reason"]),
    )


def _variance(entries: pl.DataFrame, group: Ints, failed: Floats, n_shapes: int) -> Floats:
    """Of each sum, over all ways to exchange the outcomes of each group.

    Σ_g s_g² Σ_i (w_i - w̄_g)², s_g² the variance of the outcomes of group g with one less in the divisor.
    """
    n = np.bincount(group).astype(np.float64)
    mean = np.bincount(group, failed) / n
    spread = np.bincount(group, np.square(failed - mean[group])) / np.maximum(n - 1.0, 1.0)
    shape, run = entries["shape"].to_numpy().astype(np.int64), entries["run"].to_numpy()
    weight = entries["weight"].to_numpy()
    cell = shape * len(n) + group[run]
    cells, code = np.unique(cell, return_inverse=True)
    sums, squares = np.bincount(code, weight), np.bincount(code, np.square(weight))
    of_group = cells % len(n)
    within = squares - np.square(sums) / n[of_group]
    variance: Floats = np.bincount(cells // len(n), spread[of_group] * within, n_shapes).astype(np.float64)
    return variance
