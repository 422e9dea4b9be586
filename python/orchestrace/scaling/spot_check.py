"""The survey's spot check: a second reading of some tags, and how often it is the same."""

from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Final

import polars as pl

from .artifact_files import Problems, records_of

CHECKED: Final = ("category", "is_rl", "reward_type", "credit_granularity", "orchestration_form")
"""Fields that were read again."""

CODINGS: Final = pl.Schema(
    {
        "date": pl.String(),
        "key": pl.String(),
        "field": pl.String(),
        "original": pl.String(),
        "annotated": pl.String(),
        "agrees": pl.Boolean(),
        "pool": pl.String(),
        "strict": pl.Boolean(),
        "note": pl.String(),
    }
)
"""Columns and types of the table of codings."""

_STRICT: Final = "strict_explicit_credit"
_Row = tuple[str | None, str, str, str, str, bool, str | None, bool | None, str]


def codings(
    files: Sequence[tuple[str | None, Path]], papers: pl.DataFrame, problems: Problems
) -> pl.DataFrame:
    """Read spot checks: a row per paper and field that were read again.

    Returns
    -------
    DataFrame
        ``date`` (String: of the file, from its name), ``key field original annotated`` (String), ``agrees``
        (Boolean: both readings are the same), ``pool`` (String: the tag in the pool, null if it lacks the
        paper), ``strict`` (Boolean: whether the reader found an explicit credit mechanism, null where neither
        yes nor no), ``note`` (String: the reader's own verdict).

    Notes
    -----
    Linear. Problems: a row with another number of fields or without a key, a paper twice or not in the pool,
    a word for strict that is neither yes nor no, a verdict that the readings contradict, a field without both
    readings (which is no row here), a second file of one date (only the first is read), or without a date.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scaling.artifact_files import Problems
    >>> from orchestrace.scaling.spot_check import codings
    >>> codings([], pl.DataFrame({"key": ["a"]}), Problems()).height
    0
    """
    pool = {row["key"]: row for row in papers.iter_rows(named=True)}
    rows: list[_Row] = []
    read: dict[str | None, Path] = {}
    for date, path in files:
        first = read.setdefault(date, path)
        if first != path:
            of = f"of {date}" if date else "without a date"
            place = f"{first.parent.name}/{first.name}"
            problems.add(path, None, f"a second spot check {of}: only '{place}' is read")
            continue
        seen: set[str] = set()
        needed = ("key", _STRICT, *(f"{side}_{name}" for name in CHECKED for side in ("orig", "ann")))
        for line, record in records_of(path, needed, problems):
            key = record["key"].strip()
            if not key or key in seen:
                problems.add(path, line, f"key '{key}' is listed twice" if key else "no key")
                continue
            seen.add(key)
            if key not in pool:
                problems.add(path, line, f"'{key}' is not in the paper pool")
            strict = {"yes": True, "no": False}.get(record[_STRICT].strip().lower())
            if strict is None:
                problems.add(path, line, f"{_STRICT} is '{record[_STRICT]}', expected 'yes' or 'no'")
            note = record.get("agreement_note", "")
            pairs = {name: (record[f"orig_{name}"], record[f"ann_{name}"]) for name in CHECKED}
            absent = [name for name, readings in pairs.items() if not all(map(str.strip, readings))]
            if absent:
                problems.add(path, line, f"no two readings of {', '.join(absent)}")
            elif note and note.startswith("agree") != all(a == b for a, b in pairs.values()):
                problems.add(path, line, f"agreement_note is '{note}', which the two readings contradict")
            for name in (name for name in pairs if name not in absent):
                original, annotated = pairs[name]
                tag = pool.get(key, {}).get(name)
                row = (date, key, name, original, annotated, original == annotated, tag, strict, note)
                rows.append(row)
    return pl.DataFrame(rows, schema=CODINGS, orient="row")


def agreement(codings: pl.DataFrame) -> pl.DataFrame:
    """How often two readings are the same, field by field, and in all fields of a paper.

    Returns
    -------
    DataFrame
        A row per date and field, ``all`` last: ``date field`` (String), ``n n_agree n_changed`` (UInt32:
        papers that were read twice, for ``all`` in every field; those with equal readings; those whose tag in
        the pool is not the original one any more), ``share lower upper`` (Float64: of equal readings, with
        Wilson's 95 % interval).

    Notes
    -----
    No kappa: the reader had seen the first coding, so that chance agreement is not what it corrects for.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scaling.spot_check import CODINGS, agreement
    >>> row = ("2026-05-03", "a", "category", "survey", "survey", True, "survey", False, "agree")
    >>> agreement(pl.DataFrame([row], schema=CODINGS, orient="row")).row(0)[:5]
    ('2026-05-03', 'category', 1, 1, 0)
    """
    changed = (pl.col("pool") != pl.col("original")).fill_null(value=False)
    each = codings.select("date", "key", "field", "agrees", changed=changed)
    in_every_field = pl.len().over("date", "key") == len(CHECKED)
    together = (
        each.filter(in_every_field)
        .group_by("date", "key", maintain_order=True)
        .agg(pl.lit("all").alias("field"), pl.col("agrees").all(), pl.col("changed").any())
    )
    rows = pl.concat([each, together.select(each.columns)])
    counts = rows.group_by("date", "field", maintain_order=True).agg(
        n=pl.len().cast(pl.UInt32),
        n_agree=pl.col("agrees").sum().cast(pl.UInt32),
        n_changed=pl.col("changed").sum().cast(pl.UInt32),
    )
    z = NormalDist().inv_cdf(0.975)
    n, share = pl.col("n").cast(pl.Float64), pl.col("n_agree") / pl.col("n")
    center = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * (share * (1 - share) / n + (z / (2 * n)).pow(2)).sqrt() / (1 + z * z / n)
    return counts.with_columns(
        share=share,
        # rounding may leave the ends that are exact
        lower=pl.when(pl.col("n_agree") == 0).then(0.0).otherwise((center - half).clip(0, 1)),
        upper=pl.when(pl.col("n_agree") == pl.col("n")).then(1.0).otherwise((center + half).clip(0, 1)),
    ).sort("date", maintain_order=True)
