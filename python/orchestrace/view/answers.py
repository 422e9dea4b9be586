"""What a page answers in advance: credit by some methods, and some interventions on every run."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import polars as pl

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..credit.verb import credit, list_methods
from ..interventions import concurrency, drop, speed_up, truncate
from ..replay.verb import replay

DEFAULT_METHODS: Final = ("flow", "difference", "grpo")
"""One that divides along the graph, one that asks what would be without, one that compares rollouts."""
EVENTS: Final = 20_000
"""Events of one run that a page shows: a timeline of more is a block of color."""
SHARES: Final = (0.25, 0.5, 0.75)
SLOTS: Final = (1, 2, 4, 8)
TOOLS: Final = 20
"""Tools of a run that are tried twice as fast: those that took longest."""
_DROPPED: Final = ("agent", "tool", "spawn")
_EFFECT: Final = (
    *("intervention", "unit_id", "outcome", "outcome_cf", "effect", "lower", "upper", "makespan"),
    *("makespan_cf", "tokens", "tokens_cf", "tier", "support", "reason"),
)


def credits_of(
    corpus: Corpus, chosen: Sequence[int], names: Iterable[str], reward: Reward, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """The answer of each method for the chosen traces: ``method quantity tier summary``, ``agents`` and
    ``events`` (frames with ``trace unit_id credit stderr reason``, of events ``trace seq credit``), and
    ``reason`` where the method refuses."""
    rows = {row["name"]: row for row in list_methods().iter_rows(named=True)}
    groups = corpus.traces.filter(pl.col("trace").is_in(list(chosen))).select("group_id")
    group_ids = groups.collect(engine="streaming")["group_id"].drop_nulls().unique()
    wanted = pl.col("trace").is_in(list(chosen))
    scopes = {
        "trace": corpus.filter(wanted),
        "group": corpus.filter(wanted | pl.col("group_id").is_in(group_ids.implode())),
        "corpus": corpus,
    }
    answers = []
    for name in names:
        row = rows[name]
        answer: dict[str, Any] = {column: row[column] for column in ("quantity", "tier", "summary")}
        answer |= {"method": name, "agents": None, "events": None, "reason": None}
        among = scopes[row["scope"]]
        arguments: dict[str, Any] = {"method": name, "reward": reward, "threads": options["threads"]}
        try:
            for unit, columns in (
                ("agent", ("trace", "unit_id", "credit", "stderr", "tier", "residual", "reason")),
                ("event", ("trace", "seq", "credit", "reason")),
            ):
                if unit in row["units"]:
                    # games of events take quadratic time
                    is_game = unit == "event" and row["tier"] == "surrogate"
                    some = among.filter(pl.col("n_events") <= EVENTS) if is_game else among
                    credits = cast(pl.DataFrame, credit(some, unit=cast(Any, unit), **arguments))
                    answer[f"{unit}s"] = credits.filter(wanted).select(columns)
        except ParameterError as error:
            answer["reason"] = str(error)
        answers.append(answer)
    return answers


def effects_of(
    corpus: Corpus, events: pl.DataFrame, options: dict[str, Any]
) -> tuple[pl.DataFrame, str | None]:
    """Rows of `replay` for the one trace of a corpus, or the reason why it has no rows.

    Each agent, tool and spawned agent dropped; the run cut at three times; 1 to 8 slots; each tool twice as
    fast. Those that cost the outcome most come first, then those that save most time.
    """
    results = events.filter(pl.col("type") == "tool_result", pl.col("tool").is_not_null())
    slow = results.group_by("tool").agg(pl.col("duration").sum())
    tools = slow.sort(["duration", "tool"], descending=[True, False], nulls_last=True)["tool"].head(TOOLS)
    times = [float(t) for t in events["t"].drop_nulls()]
    length = max(times, default=0.0) - min(times, default=0.0)
    interventions: list[Any] = [drop(each=cast(Any, level)) for level in _DROPPED]
    interventions += [truncate(at=share * length) for share in SHARES if length > 0.0]
    interventions += [concurrency(SLOTS), *(speed_up(2.0, tool=name) for name in tools)]
    try:
        rows = replay(corpus, *interventions, **options)
    except ParameterError as error:
        return pl.DataFrame(schema=dict.fromkeys(_EFFECT, pl.String)), str(error)
    gain = pl.col("makespan_cf") - pl.col("makespan")
    return rows.select(_EFFECT).sort(
        pl.col("effect").is_null(), "effect", "lower", gain, "intervention", "unit_id", nulls_last=True
    ), None
