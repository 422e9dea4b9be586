"""Which rule made these advantages? What trainers dump, held against every rule, and against known faults."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..base.arguments import Positive
from ..base.errors import ParameterError
from ..base.paths import path_of
from ..base.schema import unknown_name
from ..base.text import briefly
from ..base.verbs import verb
from .dumped_tokens import advantages_of, numbers
from .dumps import DUMPS, PLAIN, Trainer, rows_of
from .faults import FAULTS, Dump
from .rules import Candidate, Channels
from .turn_rules import Turns

_SCHEMA: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "step": pl.String,
    "n_rows": pl.UInt32,
    "n_groups": pl.UInt32,
    "rule": pl.String,
    "variant": pl.String,
    "explained": pl.Float64,
    "largest_residual": pl.Float64,
    "n_equivalent": pl.UInt32,
    "fault": pl.String,
    "message": pl.String,
    "rows": pl.List(pl.UInt32),
}
_ROW: Final = "row of the dump\0"
_LISTED: Final = 10
"""Rows that a fault or a residual names."""


@verb
def audit(
    dump: pl.DataFrame | str | os.PathLike[str],
    *,
    trainer: Trainer | None = None,
    reward: str | Sequence[str] | Mapping[str, float] | None = None,
    advantage: str | None = None,
    group: str | Sequence[str] | None = None,
    rollout: str | None = None,
    step: str | None = None,
    length: str | None = None,
    trained: str | None = None,
    mask: str | None = None,
    turn: str | None = None,
    tolerance: Positive | None = None,
) -> pl.DataFrame:
    """Find the rule that explains the advantages that a trainer dumped, or the fault that does.

    Parameters
    ----------
    dump
        What the trainer wrote, a row for each sample: a frame, a file (.csv, .parquet, .jsonl, .ndjson), or a
        folder of files (.parquet). Of rllm and verifiers, a file of episodes (.json, .jsonl), or a folder.
    trainer
        Whose dump it is, which names the columns: of verl and SkyRL what ``table`` of their plug-ins gives,
        of TRL what ``log_completions`` writes. None: a table of one's own. Columns that you name go before.
    reward
        The column of rewards, or of lists with one for each token; of several columns their sum, nulls left
        out, each times its weight in a mapping. None: as the trainer has it, or ``reward``.
    advantage
        The column of advantages: a number a row, or a list with one for each token, of which those that the
        mask trains have to be equal. None: as the trainer has it, or ``advantage``.
    group
        The column of what is compared, or several that tell it apart together: the prompt, or task and agent.
        None: as the trainer has it, or ``group``.
    rollout
        The column that says which rollout a row is of, where a rollout has several rows; its reward is that
        of its last one.
    step
        The column of training steps, each of which is judged by itself.
    length
        The column of trained tokens, for rules and faults that weigh by them.
    trained
        A column of flags: False where a rollout was filtered out before training.
    mask
        The column of lists that say which tokens are trained, 1 or 0; of advantages that are lists.
    turn
        The column that numbers the turns of a `rollout`, where rows are turns that earned rewards of their
        own.
    tolerance
        How far a number may be from that of a rule, and from it times the number where that is above 1. What
        rounding in 32 bits adds is allowed besides. None: 1e-5, and 6e-5 in files of verifiers, which have
        four decimals.

    Returns
    -------
    DataFrame
        One row per step: ``step n_rows n_groups rule variant explained largest_residual n_equivalent fault
        message rows``. ``rule`` is that of `list_methods` which explains the most rows, ``params`` its
        variant, ``explained`` the share of rows, ``n_equivalent`` how many variants explain as much on this
        data: they cannot be told apart. ``fault`` is null where a rule explains every row, and otherwise one
        of `orchestrace.trainers.faults.FAULTS` if that explains every row; ``rows`` are then the first rows
        that the rule alone does not explain. A dump that neither explains has no ``fault`` and says so in
        ``message``.

    Raises
    ------
    InputError
        The file cannot be read.
    ParameterError
        A column is absent or of another type, a group or rollout is null, or a folder has no such file.

    Notes
    -----
    O(rows) for each of some 60 variants, and for faults, where no rule explains a step; O(rows log rows) with
    `turn`. What is known are rules of a rollout, and of turns that are paid one by one; advantages of
    critics are not among them. Rewards that are normalized one by one (`gdpo`) are known where `reward` names
    them one by one.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> dump = pl.DataFrame({"prompt": ["a", "a", "b", "b"], "score": [1.0, 0.0, 1.0, 0.5],
    ...                      "adv": [0.5, -0.5, 0.25, -0.25]})
    >>> found = ot.trainers.audit(dump, reward="score", advantage="adv", group="prompt")
    >>> found.select("rule", "explained", "fault").row(0)
    ('dr_grpo', 1.0, None)
    """
    dumped = PLAIN if trainer is None else DUMPS[trainer]
    if isinstance(dump, str | os.PathLike):
        dump = rows_of(path_of(dump), dumped)
    dump, names = dumped.named(dump)
    named = {"reward": reward, "advantage": advantage, "group": group, "rollout": rollout, "step": step}
    named |= {"length": length, "trained": trained, "mask": mask, "turn": turn}
    names = (
        dict.fromkeys(named) | names | {option: name for option, name in named.items() if name is not None}
    )
    for option, columns in names.items():
        listed = [columns] if isinstance(columns, str) else list(columns or ())
        if columns is not None and (not listed or len(set(listed)) < len(listed)):
            raise ParameterError(
                f"{option} is {briefly(columns)}, expected a column, or several without repeats"
            )
        for name in listed:
            if name not in dump.columns:
                raise ParameterError(f"{option}: {unknown_name('column', name, dump.columns)}")
    if turn is not None and names["rollout"] is None:
        raise ParameterError("turn: the turns are of a rollout, so name its column, too: rollout=")
    # a number that no column of the caller's can be named like
    numbered = dump.with_row_index(_ROW)
    steps = numbered.partition_by(names["step"], maintain_order=True) if names["step"] else [numbered]
    room = dumped.tolerance if tolerance is None else tolerance
    rows = [_judged(part, names, room) for part in steps if part.height]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _judged(part: pl.DataFrame, names: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """The row of one step."""
    of_rows = advantages_of(part, names["advantage"], names["mask"])
    advantages = of_rows.values
    dump, judged = _dump(part, names, of_rows.n_trained)
    if of_rows.n_trained is not None:
        judged &= of_rows.n_trained > 0
    step = None if names["step"] is None else part[names["step"]][0]
    row: dict[str, Any] = {
        "step": None if step is None else str(step),
        "n_rows": part.height,
        "n_groups": int(dump.codes.max(initial=-1)) + 1,
    }
    if not judged.any():
        message = "no row has a reward"
        message += "" if of_rows.n_trained is None else " and a trained token"
        return row | {"n_equivalent": 0, "message": message, "rows": []}
    share, equivalent = -1.0, 0
    for candidate in dump.rules():
        fits = _fits(candidate, advantages, tolerance) | ~judged
        if fits.mean() > share:
            best, best_fits, share, equivalent = candidate, fits, float(fits.mean()), 0
        equivalent += fits.mean() == share
    misplaced = of_rows.misplaced & judged
    row |= {
        "rule": best.rule,
        "variant": _variant(best),
        "explained": float((best_fits & ~misplaced).mean()),
        "largest_residual": _largest(best, advantages, judged),
        "n_equivalent": equivalent,
    }
    off = part[_ROW].to_numpy()[~best_fits | misplaced]
    row["rows"] = off[:_LISTED].tolist()
    if not off.size:
        return row | {"message": f"{best.rule} explains every row"}
    if best_fits.all():
        message = f"{FAULTS['mask.unequal']}; the rule is {best.rule}"
        return row | {"fault": "mask.unequal", "message": message}
    for fault, candidate in _accused(dump, advantages, judged, tolerance):
        message = f"{FAULTS[fault]}; the rule is {candidate.rule}"
        return row | {
            "rule": candidate.rule,
            "variant": _variant(candidate),
            "fault": fault,
            "message": message,
        }
    return row | {"message": f"no rule and no known fault explains {off.size:,} of {part.height:,} rows"}


def _accused(
    dump: Dump | Turns, advantages: NDArray[np.float64], judged: NDArray[np.bool_], tolerance: float
) -> Iterator[tuple[str, Candidate]]:
    """The faults that explain every row."""
    for name, excused in dump.excuses(advantages):
        rest = judged & ~excused
        for candidate in dump.rules():
            if (_fits(candidate, advantages, tolerance) | ~rest).all():
                yield name, candidate
                break
    for name, candidate in dump.suspects(advantages):
        if (_fits(candidate, advantages, tolerance) | ~judged).all():
            yield name, candidate


def _fits(candidate: Candidate, advantages: NDArray[np.float64], tolerance: float) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        room = tolerance * np.maximum(1.0, np.abs(candidate.values)) + candidate.slack
        fits: NDArray[np.bool_] = np.abs(advantages - candidate.values) <= room
    return fits


def _variant(candidate: Candidate) -> str:
    return " ".join(f"{name}={value}" for name, value in candidate.params.items())


def _largest(candidate: Candidate, advantages: NDArray[np.float64], judged: NDArray[np.bool_]) -> float:
    residuals = np.abs(advantages - candidate.values)[judged]
    finite = residuals[~np.isnan(residuals)]
    return float(finite.max()) if finite.size else 0.0


def _dump(
    part: pl.DataFrame, names: dict[str, Any], n_trained: NDArray[np.float64] | None
) -> tuple[Dump | Turns, NDArray[np.bool_]]:
    """What the rows are, and which of them a rule has to explain: one without a reward may have anything."""
    groups = _codes(part, "group", names["group"])
    rollouts = (
        np.arange(part.height) if names["rollout"] is None else _codes(part, "rollout", names["rollout"])
    )
    n = int(rollouts.max(initial=-1)) + 1
    last = np.empty(n, np.int64)
    last[rollouts] = np.arange(part.height)
    if (groups[last][rollouts] != groups).any():
        raise ParameterError("group differs within a rollout: its rows are of one group")
    rewards = [names["reward"]] if isinstance(names["reward"], str) else list(names["reward"])
    weights = list(names["reward"].values()) if isinstance(names["reward"], Mapping) else [1.0] * len(rewards)
    channels = np.stack([numbers(part, name) for name in rewards])
    columns = channels * np.array(weights)[:, None]
    absent = np.isnan(columns).all(axis=0)
    total = np.where(absent, np.nan, np.nansum(columns, axis=0))
    trained = (
        None if names["trained"] is None else numbers(part, names["trained"]) != 0.0  # null trains
    )
    is_trained = np.ones(part.height, bool) if trained is None else trained
    if names["turn"] is not None:
        turns = Turns(total, groups, rollouts, numbers(part, names["turn"]))
        return turns, turns.paid & is_trained
    lengths = n_trained if names["length"] is None else numbers(part, names["length"])
    if lengths is not None and np.isinf(lengths).any():
        raise ParameterError(f"length: column '{names['length']}' has an infinite number, expected tokens")
    lengths = None if lengths is None else np.fmax(lengths, 1.0)
    of_rollout = None if lengths is None else np.bincount(rollouts, lengths).astype(float)
    was_trained = None if trained is None else trained[last]
    coarser = tuple(codes[last] for codes in _coarser(part, names["group"], groups))
    one_by_one = Channels(channels[:, last], weights) if len(rewards) > 1 else None
    dump = Dump(total[last], groups[last], of_rollout, was_trained, rollouts, coarser, one_by_one, lengths)
    is_trained = is_trained[last][rollouts]
    return dump, ~np.isnan(dump.rewards[rollouts]) & is_trained


def _coarser(
    part: pl.DataFrame, names: str | Sequence[str], groups: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """The groups by fewer columns, where these are fewer groups; the most columns first."""
    listed = [names] if isinstance(names, str) else list(names)
    for n in range(len(listed) - 1, 0, -1):
        for some in combinations(listed, n):
            codes = _codes(part, "group", some)
            if codes.max(initial=-1) < groups.max(initial=-1):
                yield codes


def _codes(part: pl.DataFrame, option: str, names: str | Sequence[str]) -> NDArray[np.int64]:
    """Codes of equal values from 0 on, in the order in which they come."""
    listed = [names] if isinstance(names, str) else list(names)
    for name in listed:
        if part[name].null_count():
            raise ParameterError(f"{option}: column '{name}' has a null, expected a value in each row")
    ranks = part.select(rank=pl.struct(listed).rank("dense"))["rank"].to_numpy()
    _, first, rank = np.unique(ranks, return_index=True, return_inverse=True)
    codes: NDArray[np.int64] = np.argsort(np.argsort(first))[rank]
    return codes
