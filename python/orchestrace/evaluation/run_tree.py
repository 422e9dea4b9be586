"""The tree of what the first agents of a group's runs did: a node is all they did up to a step."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Ints
from ..base.schema import CREDITS
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .lanes import LABEL, MOST_UNKNOWN, Key, lane_steps
from .pass_rates import judged_runs

_ROOT: Final = np.uint64(0x9E3779B97F4A7C15)
_STEP: Final = ("seq", "owner", "role", "type", "tool")
_END: Final = np.uint64(0xD1B54A32D192ED03)


@dataclass(frozen=True)
class RunTree:
    """The trees of all groups of a piece.

    Parameters
    ----------
    groups
        A row per group, in order of its first run: ``group`` (its number), ``group_id task_id n_pass n_fail
        n_unjudged`` and ``reason``, why its runs are not compared; ``alone``: each of its runs has one agent.
    runs
        A row per run, in order: ``trace trace_id group passed n_steps``.
    rows
        A row per run and node that two runs or more of its group come to: ``trace group passed place``, the
        ``node``, and what the run did there: the ``child``, and of the step ``seq owner role type
        tool``, null where it ended.
    """

    groups: pl.DataFrame
    runs: pl.DataFrame
    rows: pl.DataFrame

    @classmethod
    def of(
        cls, piece: Corpus, key: Key, reward: Reward, success: float, threads: int | None = None
    ) -> "RunTree":
        """The trees of a corpus in memory. O(steps)."""
        runs = (
            judged_runs(piece, reward, success)
            .join(piece.traces.select("trace", "trace_id").collect(), on="trace", maintain_order="left")
            .with_columns(group=pl.col("group_id").rle_id().cast(pl.Int64))
        )
        named = runs["group_id"].unique(maintain_order=True)
        numbers = pl.DataFrame({"group_id": named}).with_row_index("group").cast({"group": pl.Int64})
        runs = runs.drop("group").join(
            numbers, on="group_id", how="left", maintain_order="left", nulls_equal=True
        )
        steps = lane_steps(piece, key, root_only=True, threads=threads)
        rows, counts = _visits(steps, runs)
        runs = runs.with_columns(n_steps=pl.Series(counts, dtype=pl.UInt32))
        groups = _groups(piece, runs, _unknown(steps, runs) if key == "exact" else None)
        return cls(groups, runs, rows)

    def compared(self) -> pl.DataFrame:
        """The rows of groups whose runs are compared."""
        return self.rows.join(
            self.groups.filter(pl.col("reason").is_null()).select("group"), on="group", how="semi"
        )

    def children(self, rows: pl.DataFrame) -> pl.DataFrame:
        """A row per child of each node with two or more, in order of the first run through it, by name.

        ``group node place child``; ``n_pass n_fail n_unjudged`` of the runs through it; ``trace seq owner
        role type tool`` of the step that the first of these took.
        """
        passed = pl.col("passed")
        names = self.runs.select("trace", "trace_id")
        rows = rows.join(names, on="trace", maintain_order="left")
        rows = rows.sort("group", "trace_id", "trace", maintain_order=True)
        counted = rows.group_by("node", "child", maintain_order=True).agg(
            pl.col("group", "place", "trace", *_STEP).first(),
            n_pass=passed.sum().cast(pl.UInt32),
            n_fail=(~passed).sum().cast(pl.UInt32),
            n_unjudged=passed.null_count().cast(pl.UInt32),
        )
        return counted.filter(pl.col("node").is_duplicated())


def _visits(steps: pl.DataFrame, runs: pl.DataFrame) -> tuple[pl.DataFrame, Ints]:
    """Each run at each node that it shares, and how many steps each run has."""
    of_run = np.searchsorted(runs["trace"].to_numpy(), steps["trace"].to_numpy())
    counts: Ints = np.bincount(of_run, minlength=len(runs)).astype(np.int64)
    # a row more for each run: where it ends
    ends = np.cumsum(counts + 1) - 1
    total = len(steps) + len(runs)
    is_end = np.zeros(total, dtype=bool)
    is_end[ends] = True
    run = np.repeat(np.arange(len(runs)), counts + 1)
    place = np.arange(total) - np.repeat(ends - counts, counts + 1)
    group = runs["group"].to_numpy()[run].astype(np.uint64)
    with np.errstate(over="ignore"):
        of_group = (group + np.uint64(1)) * _ROOT
        prefix = np.empty(total, dtype=np.uint64)
        prefix[~is_end] = steps["prefix"].to_numpy()
        prefix[is_end] = 0
        before = np.concatenate([np.zeros(1, np.uint64), prefix[:-1]])
        before[place == 0] = _ROOT
        node = _mixed(before ^ of_group)
        child = np.where(is_end, _mixed(node ^ _END), _mixed(prefix ^ of_group))
    at = np.flatnonzero(pl.Series(node).is_duplicated().to_numpy())
    step = pl.select(pl.when(pl.Series(~is_end[at])).then(pl.Series(np.cumsum(~is_end)[at] - 1)))[:, 0]
    rows = pl.DataFrame(
        {
            "trace": runs["trace"].gather(run[at]),
            "group": group[at].astype(np.int64),
            "passed": runs["passed"].gather(run[at]),
            "place": place[at].astype(np.uint32),
            "node": node[at],
            "child": child[at],
            **{name: steps[name].gather(step) for name in _STEP},
        }
    )
    return rows, counts


def _mixed(x: "np.typing.NDArray[np.uint64]") -> "np.typing.NDArray[np.uint64]":
    """The finalizer of SplitMix64: what differs in a bit differs in half of them."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: np.typing.NDArray[np.uint64] = x ^ (x >> np.uint64(31))
    return mixed


def _unknown(steps: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The share of steps without an exact key in each group."""
    of_group = runs.select("trace", "group").join(steps.select("trace", "key"), on="trace")
    return of_group.group_by("group").agg(unknown=pl.col("key").null_count() / pl.len())


def _groups(piece: Corpus, runs: pl.DataFrame, unknown: pl.DataFrame | None) -> pl.DataFrame:
    passed = pl.col("passed")
    agents = (
        piece.agents.filter(pl.col("kind").cast(pl.String) == "agent")
        .group_by("trace")
        .len("n_agents")
        .collect()
    )
    groups = (
        runs.join(agents, on="trace", how="left", maintain_order="left")
        .group_by("group", maintain_order=True)
        .agg(
            pl.col("group_id", "task_id").first(),
            n_pass=passed.sum().cast(pl.UInt32),
            n_fail=(~passed).sum().cast(pl.UInt32),
            n_unjudged=passed.null_count().cast(pl.UInt32),
            alone=(pl.col("n_agents").fill_null(0) <= 1).all(),
        )
    )
    if unknown is None:
        groups = groups.with_columns(unknown=pl.lit(0.0))
    else:
        groups = groups.join(unknown, on="group", how="left", maintain_order="left")
    judged = pl.col("n_pass") + pl.col("n_fail")
    reason = (
        pl.when(judged == 0)
        .then(pl.lit("reward.absent"))
        .when((pl.col("n_pass") == 0) | (pl.col("n_fail") == 0))
        .then(pl.lit("group.degenerate"))
        .when(pl.col("unknown").fill_null(0.0) > MOST_UNKNOWN)
        .then(pl.lit("field.absent"))
    )
    return groups.with_columns(reason=reason.cast(CREDITS["reason"])).drop("unknown")


def described(children: pl.DataFrame) -> pl.DataFrame:
    """The children with ``type label tool`` (String) of the step that leads to each, null where runs end."""
    return children.with_columns(pl.col("type", "tool").cast(pl.String), label=LABEL)
