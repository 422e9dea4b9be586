"""What is followed over training: rows of runs, groups and tasks, of which each step takes the mean."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints, alike
from ..corpus.corpus import Corpus
from ..corpus.names import measure_of_traces
from ..corpus.reward import Reward, amounts, label_of, reaches, weights_of
from ..metrics.verb import metrics
from ..statistics.sums import sums_of
from ..statistics.within_groups import centered
from .staleness import lags
from .strategies import diversity, strategies

_OF_RUNS: Final = {"tokens": "tokens", "turns": "n_turns", "agents": "n_agents", "finish_rate": "finish_rate"}
"""Statistics that are means of a metric over runs."""


class Curve(NamedTuple):
    """A statistic before its mean is taken: rows ``train_step task value n_traces n_groups``.

    ``absent`` says why a step without a row has no value.
    """

    statistic: str
    reward: str | None
    rows: pl.DataFrame
    absent: str


def runs_of(corpus: Corpus, steps: pl.DataFrame, threads: int | None) -> pl.DataFrame:
    """A row per run: ``trace train_step task group`` and its metrics. Groups are of one step."""
    measured = metrics(corpus, groups=["scale", "stages"], threads=threads)
    names = corpus.traces.select(
        "trace",
        task=pl.col("task_id").cast(pl.String).rank("dense").cast(pl.Int64),
        named=pl.struct("task_id", "group_id").rank("dense").cast(pl.Int64),
    ).collect(engine="streaming")
    finite = pl.when(pl.col("train_step").is_finite()).then("train_step")
    runs = names.join(steps, on="trace", how="left", maintain_order="left").with_columns(train_step=finite)
    runs = runs.with_columns(group=pl.struct("train_step", "named").rank("dense").cast(pl.Int64) - 1)
    of_runs = measured.select("trace", **{name: pl.col(of).cast(pl.Float64) for name, of in _OF_RUNS.items()})
    return runs.drop("named").join(of_runs, on="trace", maintain_order="left")


def of_runs(runs: pl.DataFrame) -> Iterator[Curve]:
    for statistic in _OF_RUNS:
        yield Curve(statistic, None, rows_of(runs, pl.col(statistic)), "field.absent")


def rows_of(runs: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """A row per run that has the value; a group is counted at its first."""
    rows = runs.select("train_step", "task", "group", value=value).filter(pl.col("value").is_not_nan())
    first = pl.col("group").is_first_distinct().cast(pl.Int64)
    return rows.select("train_step", "task", "value", n_traces=pl.lit(1, pl.Int64), n_groups=first)


def of_rewards(corpus: Corpus, reward: Reward, success: float, runs: pl.DataFrame) -> Iterator[Curve]:
    label = label_of(reward)
    weights = {reward: 1.0} if isinstance(reward, str) else weights_of(reward)
    paid = runs.join(
        amounts(corpus, reward).select("trace", total="reward"), on="trace", maintain_order="left"
    )
    judged = paid.drop_nulls("total")
    yield Curve("reward_mean", label, rows_of(judged, pl.col("total")), "reward.absent")
    groups, values = judged["group"].to_numpy(), judged["total"].to_numpy()
    passed = reaches(judged["total"], success).to_numpy().astype(float)
    sets = _Sets.of(judged)
    apart = centered(values, groups, sets.most)
    with np.errstate(over="ignore"):
        square = sums_of(np.square(apart), groups, sets.most)[sets.group]
    equal = sets.equal(values)
    share = np.bincount(groups, passed, sets.most)[sets.group] / sets.n
    for statistic, of_group in (
        ("degenerate", equal.astype(float)),
        ("all_pass", (share == 1.0).astype(float)),
        ("all_fail", (share == 0.0).astype(float)),
        ("reward_sd", np.where(equal, 0.0, np.sqrt(square / (sets.n - 1.0)))),
    ):
        yield Curve(statistic, label, sets.rows(of_group), "siblings.absent")
    if len(weights) < 2:
        return
    for name, weight in weights.items():
        channel = measure_of_traces(corpus, "reward", name).rename({name: "part"})
        part = judged.join(channel, on="trace", how="left", maintain_order="left")
        yield Curve("reward_mean", name, rows_of(part, pl.col("part")), "reward.absent")
        part_apart = weight * centered(part["part"].to_numpy(), groups, sets.most)
        both = sums_of(part_apart * apart, groups, sets.most)[sets.group]
        of_group = np.divide(both, square, out=np.full(len(both), np.nan), where=~equal & (square > 0.0))
        yield Curve("variance_share", name, sets.rows(of_group), "group.degenerate")


class _Sets(NamedTuple):
    """The groups of two judged runs or more: their number, size, step and task; how many groups there are."""

    group: Ints
    n: Floats
    keys: pl.DataFrame
    of_run: Ints
    most: int

    @classmethod
    def of(cls, judged: pl.DataFrame) -> "_Sets":
        groups = judged["group"].to_numpy()
        most = int(groups.max(initial=-1)) + 1
        n = np.bincount(groups, minlength=most)
        several = np.flatnonzero(n > 1)
        keys = judged.unique("group", keep="first").sort("group").filter(pl.col("group").is_in(several))
        return cls(several, n[several].astype(float), keys.select("train_step", "task"), groups, most)

    def equal(self, values: Floats) -> Bools:
        """Whether the values of each group are equal, to rounding."""
        least, most = np.full(self.most, np.inf), np.full(self.most, -np.inf)
        np.minimum.at(least, self.of_run, values)
        np.maximum.at(most, self.of_run, values)
        return alike(least[self.group], most[self.group])

    def rows(self, of_group: Floats) -> pl.DataFrame:
        rows = self.keys.with_columns(
            value=pl.Series(of_group), n_traces=pl.Series(self.n).cast(pl.Int64), n_groups=pl.lit(1, pl.Int64)
        )
        return rows.filter(pl.col("value").is_not_nan())


def of_strategies(corpus: Corpus, runs: pl.DataFrame) -> Iterator[Curve]:
    done = runs.join(strategies(corpus), on="trace", maintain_order="left")
    sets = diversity(done, ["train_step", "task"])
    groups = runs.group_by("train_step", "task").agg(n_groups=pl.col("group").n_unique().cast(pl.Int64))
    sets = sets.join(groups, on=["train_step", "task"], how="left", nulls_equal=True, maintain_order="left")
    for statistic, column in (("diversity", "simpson"), ("strategy_entropy", "entropy")):
        rows = sets.select(
            "train_step",
            "task",
            pl.col(column).alias("value"),
            pl.col("n").cast(pl.Int64).alias("n_traces"),
            "n_groups",
        )
        yield Curve(statistic, None, rows, "siblings.absent")


def of_versions(corpus: Corpus, policy_version: str | tuple[str, str], runs: pl.DataFrame) -> Iterator[Curve]:
    acted = runs.join(lags(corpus, policy_version), on="trace", how="left", maintain_order="left")
    yield Curve("lag", None, rows_of(acted, pl.col("train_step") - pl.col("version")), "field.absent")
    yield Curve("drift", None, rows_of(acted, pl.col("drift")), "field.absent")
