"""Which runs to train on: a reason for each that is kept or dropped, and a split without leakage."""

from typing import Final, Literal

import polars as pl

from ..base.arguments import Amount, Bounds, Count, Finite, Seed, Share, Size, Success, Threads
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.text import briefly
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward, amounts, reaches
from ..metrics.verb import metrics
from .families import families, openings, split_of
from .preference_pairs import pairs_of
from .strategies import ARGUMENTS, behaviours

Purpose = Literal["sft", "dpo", "rl"]

SELECTION: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "kept": pl.Boolean(),
        "reason": pl.String(),
        "split": pl.Enum(["train", "validation"]),
        "family": pl.String(),
        "pair": pl.UInt32(),
        "side": pl.Enum(["chosen", "rejected"]),
        "reward": pl.Float64(),
        "passed": pl.Boolean(),
        "attempts": pl.UInt32(),
        "pass_rate": pl.Float64(),
        "tokens_out": pl.Int64(),
        "turns": pl.Int64(),
        "repeats": pl.Float64(),
    }
)
"""Columns and types of what `select` returns."""

REASONS: Final = {
    "reward.absent": "nobody judged the run",
    "run.partial": "the recording of the run is not complete",
    "reward.low": "the reward does not reach `success`",
    "length.exceeded": "the run wrote more tokens, or took more turns, than the limit",
    "length.unknown": "there is a limit, and the recording does not say how long the run is",
    "repeats.exceeded": "more of the calls repeat one of the same agent than the limit",
    "taint.unknown": "nobody can say whether something untrusted reached the outcome",
    "taint.reached": "something untrusted reached the outcome",
    "credit.unknown": "the run has no credit",
    "credit.low": "the credit of the run is below the limit",
    "attempts.few": "the task has fewer judged attempts than `min_attempts`",
    "rate.outside": "the share of attempts that passed is outside of `pass_rate`",
    "run.duplicate": "another run of the task that is kept did and said the same",
    "pair.absent": "the task has no run left to pair it with",
    "task.full": "`per_task` others of the task are shorter, or as short with an earlier name",
    "task.represented": "the task is kept, and one run stands for it",
}
"""Why a run is dropped: the first of these that holds."""


@verb
def select(
    corpus: Corpus,
    purpose: Purpose,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    by: Literal["task", "group"] = "task",
    per_task: Size | None = None,
    min_attempts: Count = 1,
    pass_rate: Bounds | None = None,
    margin: Amount = 0.0,
    max_tokens: Count | None = None,
    max_turns: Count | None = None,
    max_repeats: Share | None = None,
    taint: pl.DataFrame | None = None,
    credits: pl.DataFrame | None = None,
    min_credit: Finite = 0.0,
    duplicates: Literal["drop", "keep"] = "drop",
    validation: Share = 0.1,
    leakage: Literal["opening", "task"] = "opening",
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Choose runs to train on, with a reason for each, and split them so that no task is on both sides.

    Parameters
    ----------
    corpus
        The recordings.
    purpose
        ``"sft"``: runs that passed, to be imitated. ``"dpo"``: pairs of a run that passed and one that did
        not, of one task and one prompt. ``"rl"``: tasks whose attempts partly passed, each by one run.
    reward, success
        A channel, or weights of several, and the reward from which on a run passed.
    by
        What is compared: all runs of a ``"task"``, or those of one ``"group"`` (one task, model and harness).
    per_task
        Runs of a task (of a group, with `by`) that are kept at most: those that wrote the fewest tokens. For
        ``"dpo"`` pairs: those whose lengths are most alike.
    min_attempts
        Judged attempts that a task needs.
    pass_rate
        Two numbers that the share of passed attempts has to lie strictly between; (0, 1) for ``"rl"``, None
        for others.
    margin
        Of ``"dpo"``: by how much rewards of a pair have to differ.
    max_tokens, max_turns
        Tokens that a run may have written, turns that it may have taken.
    max_repeats
        The share of its calls that may repeat an earlier one of the same agent.
    taint
        What `taint` says of the runs: those whose outcome something untrusted reached are dropped.
    credits
        Rows of ``credit(..., unit="team")``: runs below `min_credit` are dropped.
    min_credit
        The least credit of a run.
    duplicates
        Whether of runs of a task that were asked, did and said the same, and ended alike, one is kept, the
        one with the first name. A run is never paired with one that did and said the same.
    validation
        The share of families of tasks that is held out, on average.
    leakage
        ``"opening"``: tasks whose runs began with the same message of a user are one family, which is on one
        side. ``"task"``: each task is a family.
    seed
        Of the split. Which side a family is on depends on its name and this alone.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per run, in the order of the corpus: ``trace trace_id task_id kept reason split family pair side
        reward passed attempts pass_rate tokens_out turns repeats``. ``reason`` is one of
        `orchestrace.trainers.selection.REASONS`, the first that holds, and null where the run is kept.
        ``split`` is ``train`` or ``validation``, also of runs that are dropped. Of ``"dpo"`` ``pair`` numbers
        the pairs, and ``side`` is ``chosen`` or ``rejected``. ``attempts`` and ``pass_rate`` are of the
        judged runs of the task (the group, with `by`).

    Raises
    ------
    ParameterError
        An option is out of range, `credits` are of another unit, or a table has no row of a run.

    Notes
    -----
    What passed is not what was good: a run that guessed is imitated, too; look at `max_repeats`, `credits`
    and `taint`. A run of unknown texts is never a duplicate. Pairs are matched so that lengths differ least.
    O(events log events), and O(n³) of the attempts at one prompt for pairs.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> chosen = ot.trainers.select(corpus, "sft", success=0.5, per_task=1)
    >>> chosen.filter("kept")["task_id"].is_duplicated().any()
    False
    """
    # a group that all passed, or none, teaches a group method nothing
    low, high = pass_rate or ((0.0, 1.0) if purpose == "rl" else (-1.0, 2.0))
    with reporting(progress, "selecting"):
        runs = _runs_of(corpus, reward, success, by, threads)
        runs = runs.with_columns(family=families(runs) if leakage == "opening" else runs["task"])
        runs = runs.with_columns(split=split_of(runs["family"], validation, seed))
        judged = pl.col("reward").is_not_null()
        runs = runs.with_columns(
            attempts=judged.sum().over("set").cast(pl.UInt32),
            pass_rate=pl.col("passed").cast(pl.Float64).mean().over("set"),
        )
        reasons = [("reward.absent", ~judged), ("run.partial", pl.col("partial"))]
        if purpose == "sft":
            reasons.append(("reward.low", ~pl.col("passed")))
        reasons += _of_lengths(max_tokens, max_turns)
        if max_repeats is not None:
            reasons.append(("repeats.exceeded", pl.col("repeats") > max_repeats))
        if taint is not None:
            runs = _joined(runs, taint.select("trace", tainted="outcome_tainted"), "taint")
            reasons += [("taint.unknown", pl.col("tainted").is_null()), ("taint.reached", pl.col("tainted"))]
        if credits is not None:
            runs = _joined(runs, _of_teams(credits), "credits")
            low_credit = pl.col("credit") < min_credit
            reasons += [("credit.unknown", pl.col("credit").is_null()), ("credit.low", low_credit)]
        reasons.append(("attempts.few", pl.col("attempts") < min_attempts))
        outside = ~((pl.col("pass_rate") > low) & (pl.col("pass_rate") < high))
        reasons.append(("rate.outside", outside))
        runs = runs.with_columns(
            reason=pl.coalesce(pl.when(holds).then(pl.lit(name)) for name, holds in reasons)
        )
        if duplicates == "drop":
            runs = _without_duplicates(runs)
        runs = _counted(runs, purpose, per_task, margin)
        return runs.with_columns(kept=pl.col("reason").is_null()).select(
            [pl.col(name).cast(kind) for name, kind in SELECTION.items()]
        )


def _runs_of(corpus: Corpus, reward: Reward, success: float, by: str, threads: int | None) -> pl.DataFrame:
    """A row per run, and what is known of it."""
    names = corpus.traces.select(
        "trace",
        pl.col("trace_id", "task_id", "group_id").cast(pl.String),
        pl.col("partial").fill_null(False),
    ).collect(engine="streaming")
    measured = metrics(corpus, groups=["scale", "usage"], threads=threads)
    of_runs = measured.select("trace", "tokens_out", turns="n_turns")
    paid = amounts(corpus, reward).select("trace", "reward")
    runs = names
    for more in (of_runs, paid, _repeats(corpus), openings(corpus), behaviours(corpus)):
        runs = runs.join(more, on="trace", how="left", maintain_order="left")
    task = pl.coalesce("task_id", "trace_id")
    members = task if by == "task" else pl.struct(task, pl.col("group_id"))
    return runs.with_columns(
        task=task,
        set=members.rank("dense"),
        passed=reaches(pl.col("reward"), success),
    )


def _repeats(corpus: Corpus) -> pl.DataFrame:
    """``trace repeats``: the share of calls that repeat one of the same agent; null without known calls."""
    calls = corpus.events.filter(pl.col("type").cast(pl.String) == "tool_call")
    hashed = calls.select("trace", "agent", "tool", said=ARGUMENTS).filter(pl.col("said").is_not_null())
    distinct = pl.struct("agent", "tool", "said").n_unique()
    shares = hashed.group_by("trace").agg(repeats=1.0 - distinct / pl.len())
    return shares.collect(engine="streaming")


def _of_lengths(max_tokens: int | None, max_turns: int | None) -> list[tuple[str, pl.Expr]]:
    limits = [
        (column, most)
        for column, most in (("tokens_out", max_tokens), ("turns", max_turns))
        if most is not None
    ]
    if not limits:
        return []
    unknown = pl.any_horizontal(pl.col(column).is_null() for column, _ in limits)
    exceeded = pl.any_horizontal(pl.col(column) > most for column, most in limits)
    return [("length.exceeded", exceeded), ("length.unknown", unknown)]


def _joined(runs: pl.DataFrame, table: pl.DataFrame, option: str) -> pl.DataFrame:
    """Runs with a column of a caller's table, which has one row of each."""
    if table["trace"].is_duplicated().any():
        raise ParameterError(f"{option} has several rows of one run, expected one of each")
    lacking = runs.filter(~pl.col("trace").is_in(table["trace"].implode()))
    if lacking.height:
        raise ParameterError(f"{option} has no row of trace {lacking['trace'][0]}: expected one of each run")
    return runs.join(table, on="trace", how="left", maintain_order="left")


def _of_teams(credits: pl.DataFrame) -> pl.DataFrame:
    units = credits["unit"].cast(pl.String).unique().to_list()
    if units != ["team"]:
        raise ParameterError(f"credits has unit {briefly(units)}, expected rows of credit(..., unit='team')")
    return credits.select("trace", pl.col("credit").fill_nan(None))


def _without_duplicates(runs: pl.DataFrame) -> pl.DataFrame:
    """Of the runs of a set that did and said the same, and are kept so far, all but the first by name."""
    same = (
        runs.filter(pl.col("reason").is_null() & pl.col("behaviour").is_not_null())
        .sort("trace_id")
        .filter(~pl.struct("set", "prompt", "behaviour", "passed").is_first_distinct())
    )
    again = pl.col("trace").is_in(same["trace"].implode())
    return runs.with_columns(reason=pl.when(again).then(pl.lit("run.duplicate")).otherwise("reason"))


def _counted(runs: pl.DataFrame, purpose: Purpose, per_task: int | None, margin: float) -> pl.DataFrame:
    """What is left of each set: the shortest runs, pairs, or one run that stands for its task."""
    left = runs.filter(pl.col("reason").is_null())
    if purpose == "dpo":
        return _paired(runs, left, per_task, margin)
    most = 1 if purpose == "rl" else per_task
    surplus = left.clear()
    if most is not None:
        shortest = ["trace_id"] if purpose == "rl" else ["tokens_out", "trace_id"]
        unit = "task" if purpose == "rl" else "set"
        place = pl.int_range(pl.len()).over(unit)
        surplus = left.sort(shortest, nulls_last=True).filter(place >= most)
    word = "task.represented" if purpose == "rl" else "task.full"
    dropped = pl.col("trace").is_in(surplus["trace"].implode())
    nothing = pl.lit(None, pl.UInt32)
    return runs.with_columns(
        reason=pl.when(dropped).then(pl.lit(word)).otherwise("reason"),
        pair=nothing,
        side=pl.lit(None, pl.String),
    )


def _paired(runs: pl.DataFrame, left: pl.DataFrame, per_task: int | None, margin: float) -> pl.DataFrame:
    schema = {"set": pl.UInt32, "chosen": pl.UInt32, "rejected": pl.UInt32, "apart": pl.Float64}
    pairs = [pl.DataFrame(schema=schema)]
    both = left.filter(
        pl.col("passed").any().over("set", "prompt") & (~pl.col("passed")).any().over("set", "prompt")
    )
    for of_prompt in both.partition_by("set", "prompt", maintain_order=True):
        of_set = pl.lit(of_prompt["set"][0], pl.UInt32).alias("set")
        pairs.append(pairs_of(of_prompt, margin).select(of_set, "chosen", "rejected", "apart"))
    names = left.select("trace_id", chosen="trace")
    ordered = pl.concat(pairs).join(names, on="chosen", how="left").sort("set", "apart", "trace_id")
    place = pl.int_range(pl.len()).over("set")
    surplus = ordered.clear() if per_task is None else ordered.filter(place >= per_task)
    full = [*surplus["chosen"], *surplus["rejected"]]
    numbered = (ordered if per_task is None else ordered.filter(place < per_task)).with_row_index("pair")
    sides = numbered.unpivot(["chosen", "rejected"], index="pair", variable_name="side", value_name="trace")
    runs = runs.join(sides, on="trace", how="left", maintain_order="left")
    alone = pl.col("reason").is_null() & pl.col("pair").is_null()
    word = pl.when(pl.col("trace").is_in(full)).then(pl.lit("task.full")).otherwise(pl.lit("pair.absent"))
    return runs.with_columns(reason=pl.when(alone).then(word).otherwise("reason"))
