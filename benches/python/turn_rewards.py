"""How rules judge the decision to go on, where turns have rewards and the policy controls when it stops.

    python benches/python/turn_rewards.py

One agent earns `pay` in every turn, give or take 0.5, and then decides, with probability 1/2 each, to stop
or to go on, for at most `length` turns. Every turn after the first moves the chance of success, 1/2, by
`effect`. Who goes on after the first turn has N = 1 + 1/2 + 1/4 + ... more turns to expect, so that going on
is worth N (pay + effect) more than stopping there. The script writes such recordings, has them credited, and
prints one Markdown table of the credit of going on less that of stopping, at the first turn. *Turn by turn*
takes the mean of its turn off every reward, that of the group off the outcome, and adds up what follows
(verl's issue 7244). The same numbers on every run.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from native_runs import native_lines

import orchestrace as ot
from orchestrace.statistics.influence import mean_interval

LENGTHS = (2, 4, 8)
GROUPS, SIZE = 250, 32


@dataclass(frozen=True)
class World:
    """What a turn pays, and what it does to the chance of success."""

    name: str
    pay: float
    effect: float

    def truth(self, length: int) -> float:
        return (self.pay + self.effect) * sum(0.5**k for k in range(length - 1))

    def turn_by_turn(self, length: int) -> float:
        """What the rule tends to: it sees the outcome alone."""
        return self.effect * sum(0.5**k for k in range(length - 1))


WORLDS = (World("going on is better", 0.2, -0.05), World("going on is worse", -0.2, 0.05))
RULES = ("magrpo", "return_to_go", "turn by turn")


def runs_of(world: World, length: int, seed: int) -> Iterator[tuple[list[dict[str, object]], bool]]:
    """What every rollout did and earned, turn by turn, and whether it succeeded."""
    rng = np.random.default_rng(seed)
    for _ in range(GROUPS * SIZE):
        n = 1
        while n < length and rng.random() < 0.5:
            n += 1
        won = bool(rng.random() < 0.5 + world.effect * (n - 1))
        earned = world.pay + 0.5 * rng.standard_normal(n)
        turns = [
            {"action": "go" if k + 1 < n else "stop", "reward": float(reward)}
            for k, reward in enumerate(earned)
        ]
        yield turns, won


def recordings(world: World, length: int, seed: int) -> io.BytesIO:
    """Groups of rollouts as native JSON lines."""
    return native_lines(runs_of(world, length, seed), SIZE)


def first_turns(corpus: ot.Corpus, rule: str) -> pl.DataFrame:
    """``task action credit`` of the first turn of every run."""
    tasks = corpus.traces.select("trace", task=pl.col("task_id").cast(pl.String)).collect()
    events = corpus.events.select("trace", "seq", pl.col("action").cast(pl.String), "reward").collect()
    events = events.join(tasks, on="trace", maintain_order="left")
    if rule != "turn by turn":
        params = {"gamma": 1.0} if rule == "return_to_go" else {}
        credits = ot.credit(corpus, method=rule, unit="event", **params).select("trace", "seq", "credit")
        return events.join(credits, on=["trace", "seq"], maintain_order="left").filter(pl.col("seq") == 0)
    outcome = corpus.measures.filter(kind="reward", name="team").select("trace", "value").collect()
    runs = events.with_columns(left=pl.col("reward") - pl.col("reward").mean().over("task", "seq"))
    runs = runs.join(outcome, on="trace").group_by("trace", maintain_order=True)
    sums = runs.agg(pl.col("task", "action", "value").first(), pl.col("left").sum())
    return sums.with_columns(credit=pl.col("left") + pl.col("value") - pl.col("value").mean().over("task"))


def contrast(rows: pl.DataFrame) -> tuple[float, float, float]:
    """Mean credit of going on less that of stopping, with its 95 % interval over tasks."""
    goes, credit = (rows["action"] == "go").to_numpy(), rows["credit"].to_numpy()
    task = rows["task"].rank("dense").to_numpy().astype(np.int64)
    # The difference of two means as one mean per rollout, less what both have in common.
    p, around = goes.mean(), credit.mean()
    values = np.where(goes, (credit - around) / p, -(credit - around) / (1 - p))
    mean, interval, _ = mean_interval(values, task, confidence=0.95)
    assert mean is not None and interval.lower is not None and interval.upper is not None
    return mean, interval.lower, interval.upper


def measure() -> pl.DataFrame:
    """A row per world, length and rule."""
    rows = []
    for world in WORLDS:
        for length in LENGTHS:
            corpus = ot.read_traces(recordings(world, length, seed=length))
            for rule in RULES:
                mean, low, high = contrast(first_turns(corpus, rule))
                limit = world.turn_by_turn(length) if rule == "turn by turn" else world.truth(length)
                rows.append((world.name, length, rule, mean, low, high, limit, world.truth(length)))
    names = ("world", "length", "rule", "estimate", "lower", "upper", "limit", "truth")
    return pl.DataFrame(rows, schema=list(names), orient="row")


def markdown(found: pl.DataFrame) -> str:
    lines = [f"| world | most turns | truth | {' | '.join(RULES)} |", f"|---|{'---:|' * (2 + len(RULES))}"]
    for (world, length), rows in found.group_by("world", "length", maintain_order=True):
        cells = [
            f"{row['estimate']:.2f} [{row['lower']:.2f}, {row['upper']:.2f}]"
            for row in rows.iter_rows(named=True)
        ]
        lines.append(f"| {world} | {length} | {rows['truth'][0]:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(measure()))
