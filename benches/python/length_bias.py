"""How rules that count turns judge the decision to stop, where the policy controls when it stops.

    python benches/python/length_bias.py --svg docs/pictures/credit-length-bias.svg

One agent, one decision: *stop* at once and succeed with probability s, or *go on* and succeed with
probability g. Who goes on and succeeds is done in the second turn; who fails needs `length` turns. With
P(stop) = p the value of a rollout is V = p s + (1 - p) g, its deviation sigma = sqrt(V (1 - V)), and the
true advantage of stopping (s - V) / sigma, of going on (g - V) / sigma, whatever the length. The script
writes such recordings, has them credited, and prints one Markdown table; with `--svg` it draws it (needs
the extra `plot`). The same numbers on every run.
"""

import argparse
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from native_runs import native_lines

import orchestrace as ot
from orchestrace.statistics.influence import mean_interval

LENGTHS = (2, 3, 5, 9, 17, 33)
GROUPS, SIZE = 250, 32


@dataclass(frozen=True)
class World:
    """Probabilities of stopping, and of success after each decision."""

    name: str
    stop: float
    go: float
    p: float = 0.5

    @property
    def value(self) -> float:
        return self.p * self.stop + (1 - self.p) * self.go

    @property
    def deviation(self) -> float:
        return math.sqrt(self.value * (1 - self.value))

    def truth(self) -> dict[str, float]:
        stop = (self.stop - self.value) / self.deviation
        return {"stop": stop, "contrast": (self.stop - self.go) / self.deviation}

    def per_turn(self, length: int) -> dict[str, float]:
        """What a baseline over turns tends to in large groups."""
        won, lost = 2 * (1 - self.p) * self.go, length * (1 - self.p) * (1 - self.go)
        mean = (self.p * self.stop + won) / (self.p + won + lost)
        deviation = math.sqrt(mean * (1 - mean))
        return {"stop": (self.stop - mean) / deviation, "contrast": (self.stop - self.go) / deviation}

    def weighted(self, length: int) -> dict[str, float]:
        """The same for an advantage per rollout, divided by its number of turns."""
        stop = (self.stop - self.value) / self.deviation
        won, lost = (1 - self.value) / 2, -self.value / length
        return {"stop": stop, "contrast": stop - (self.go * won + (1 - self.go) * lost) / self.deviation}


WORLDS = (World("stopping is worse", 0.45, 0.55), World("stopping is better", 0.55, 0.45))
# Credit, and whether the loss divides it by the length of the rollout.
RULES = {
    "grpo": ("grpo", False, "each rollout once"),
    "dr_mas": ("dr_mas", False, "each turn once"),
    "grpo / length": ("grpo", True, "each rollout once, 1/length in the loss"),
}


def runs_of(world: World, length: int, seed: int) -> Iterator[tuple[list[dict[str, object]], bool]]:
    """The turns of every rollout, and whether it succeeded."""
    rng = np.random.default_rng(seed)
    for run in range(GROUPS * SIZE):
        stops = rng.random() < world.p
        won = bool(rng.random() < (world.stop if stops else world.go))
        n = 1 if stops else 2 if won else length
        turns: list[dict[str, object]] = [{"action": "stop" if stops else "go"} for _ in range(n)]
        turns[0]["group_id"] = f"group-{run // SIZE}"
        yield turns, won


def recordings(world: World, length: int, seed: int) -> io.BytesIO:
    """Groups of rollouts as native JSON lines."""
    return native_lines(runs_of(world, length, seed), SIZE)


def estimates(corpus: ot.Corpus, method: str, weighted: bool) -> dict[str, tuple[float, float, float]]:
    """Mean credit of stopping at the first turn, and the same less that of going on; 95 % intervals."""
    first = (
        corpus.events.filter(seq=0)
        .select("trace", "action", group=pl.col("group_id").cast(pl.String).rank("dense"))
        .join(corpus.traces.select("trace", "n_events"), on="trace")
        .sort("trace")
        .collect()
    )
    credits = ot.credit(corpus, method=method, unit="event").filter(pl.col("seq") == 0)
    rows = first.join(credits.select("trace", "credit"), on="trace", maintain_order="left")
    assert rows["credit"].null_count() == 0 and rows.height == GROUPS * SIZE
    if weighted:
        rows = rows.with_columns(pl.col("credit") / pl.col("n_events"))
    stops = rows["action"].cast(pl.String).to_numpy() == "stop"
    credit, groups = rows["credit"].to_numpy(), rows["group"].to_numpy().astype(np.int64)
    # The difference of two means as one mean per rollout, so that it has an interval over groups.
    p = stops.mean()
    contrast = np.where(stops, credit / p, -credit / (1 - p))
    found = {}
    for name, values in (("stop", np.where(stops, credit, np.nan)), ("contrast", contrast)):
        mean, around, _ = mean_interval(values, groups, confidence=0.95)
        low, high = around.lower, around.upper
        assert mean is not None and low is not None and high is not None
        found[name] = (mean, low, high)
    return found


def measure() -> pl.DataFrame:
    """A row per world, rule, length and quantity: estimate with interval, the rule's limit, the truth."""
    rows = []
    for world in WORLDS:
        for length in LENGTHS:
            corpus = ot.read_traces(recordings(world, length, seed=length))
            assert len(corpus) == GROUPS * SIZE
            limits = {
                "grpo": world.truth(),
                "dr_mas": world.per_turn(length),
                "grpo / length": world.weighted(length),
            }
            for rule, (method, weighted, _) in RULES.items():
                for quantity, (mean, low, high) in estimates(corpus, method, weighted).items():
                    rows.append(
                        {
                            "world": world.name,
                            "rule": rule,
                            "length": length,
                            "quantity": quantity,
                            "estimate": mean,
                            "lower": low,
                            "upper": high,
                            "limit": limits[rule][quantity],
                            "truth": world.truth()[quantity],
                        }
                    )
    return pl.DataFrame(rows)


def markdown(found: pl.DataFrame) -> str:
    lines = [
        f"| world | quantity | turns of a failure | truth | {' | '.join(RULES)} |",
        f"|---|---|{'---:|' * (2 + len(RULES))}",
    ]
    for (world, quantity, length), own in found.group_by("world", "quantity", "length", maintain_order=True):
        cells = [
            f"{row['estimate']:.2f} [{row['lower']:.2f}, {row['upper']:.2f}]"
            for rule in RULES
            for row in own.filter(rule=rule).iter_rows(named=True)
        ]
        lines.append(f"| {world} | {quantity} | {length} | {own['truth'][0]:.2f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(found: pl.DataFrame, path: str) -> None:
    import altair as alt

    titles = {"stop": "credit of stopping", "contrast": "stopping less going on"}
    frame = found.with_columns(
        pl.col("quantity").replace_strict(titles),
        rule=pl.col("rule").replace_strict({rule: f"{rule}: {text}" for rule, (_, _, text) in RULES.items()}),
    )
    base = alt.Chart().encode(
        x=alt.X("length:Q", title="turns of a failing rollout").scale(type="log", base=2, domain=[2, 34])
    )
    color = alt.Color("rule:N", title=None).scale(range=["#0072b2", "#d55e00", "#009e73"])
    color = color.legend(orient="bottom", columns=1, labelLimit=400)
    rows = []
    for quantity in titles.values():
        y = alt.Y("estimate:Q", title=f"{quantity} (sd)")
        layers = alt.layer(
            base.mark_rule(color="#bbbbbb").encode(y=alt.datum(0)),
            base.mark_line().encode(y="limit:Q", color=color),
            base.mark_errorbar().encode(y=alt.Y("lower:Q", title=""), y2="upper:Q", color=color),
            base.mark_point(filled=True, size=40).encode(y=y, color=color),
            base.mark_line(color="black", strokeDash=[5, 4]).encode(y="truth:Q"),
            data=alt.Data(values=frame.filter(quantity=quantity).to_dicts()),
        ).properties(width=270, height=190)
        rows.append(layers.facet(column=alt.Column("world:N", title=None, sort=[w.name for w in WORLDS])))
    alt.vconcat(*rows).save(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--svg", help="file for the plot")
    options = parser.parse_args()
    found = measure()
    print(markdown(found))
    if options.svg:
        draw(found, options.svg)


if __name__ == "__main__":
    main()
