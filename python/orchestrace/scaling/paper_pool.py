"""The survey's paper pool and exclusion log: statistics, and computed cells of the taxonomy."""

import csv
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from .. import _core
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.schema import unknown_name
from ..base.text import plain
from ..base.verbs import verb
from .artifact_files import OptionalFiles, Problems, optional_files
from .bibliography import bibliography
from .claim_ledger import CELLS, claim_ledger, strict_and_broad
from .coverage import coverage
from .spot_check import agreement, codings

COUNTED: Final = (
    *("category", "is_rl", "reward_type", "credit_granularity", "orchestration_form"),
    *("scenario", "is_core", "verified"),
)
"""Fields of the paper pool whose values the survey counts."""

COUNTED_EXCLUDED: Final = ("stage", "source", "query_family")
"""The same of the exclusion log."""

CROSSED: Final = (
    ("reward_type", "credit_granularity"),
    ("orchestration_form", "credit_granularity"),
    ("category", "verified"),
)
"""Pairs of fields that the survey tabulates."""

_POOL, _LOG = "papers.csv", "excluded.csv"


@dataclass(frozen=True)
class Artifact:
    """The two tables of the survey artifact, every column text as written, and files that may be absent."""

    papers: pl.DataFrame
    excluded: pl.DataFrame
    files: OptionalFiles


@verb
def survey(path: str | os.PathLike[str]) -> dict[str, pl.DataFrame]:
    """Recompute the statistics of the survey artifact, and show which of its cells are computed here.

    Parameters
    ----------
    path
        The folder of the artifact, or a checkout of its repository: where ``papers.csv`` and ``excluded.csv``
        lie, or a folder ``papers`` with both. ``papers.bib`` beside them, ``claim_ledger.md`` and
        ``independent_spotcheck_*.csv`` beside them or below ``docs`` are read where they are.

    Returns
    -------
    dict of DataFrame
        ``headline``: what, records; of retained, excluded and audited records. ``counts``: log (``retained``
        or ``excluded``), field, value, records; of every field that the survey counts, the most frequent
        value first. ``reward_type_by_credit_granularity``, ``orchestration_form_by_credit_granularity``,
        ``category_by_verified``: cross-tabs, a row per value of the first field, a column per value of the
        second, both in order of bytes; counts are UInt32 throughout. ``NA`` is a tag like others.

        Where their files are: ``bibliography`` (`orchestrace.scaling.bibliography.bibliography`), ``claims``
        and ``ledger_rows`` (`orchestrace.scaling.claim_ledger.Ledger`), ``spot_check`` and ``agreement``
        (`orchestrace.scaling.spot_check`), ``strict_and_broad``
        (`orchestrace.scaling.claim_ledger.strict_and_broad`: of each level of credit how many papers have the
        tag, and how many of these an explicit credit mechanism), and ``malformed``: file, line, problem.
        What is broken in these files is a row there, not an error.

        Then what this engine computes, from its own registries: ``reward_families``, ``credit_units``,
        ``sub_decisions``, ``coverage`` and ``cells``, described at `orchestrace.scaling.coverage.coverage`.

    Raises
    ------
    ParameterError
        `path` is not a path.
    InputError
        There is no such artifact, or one of its tables is broken: a column or tag is absent, a row has
        another number of fields, a record is listed twice, or the file is not text. The message names the
        file and row.

    Notes
    -----
    Linear in the records. The published statistics are those of the artifact's page ``docs/STATS.md``
    (repository xxzcc/awesome-llm-mas-rl; arXiv 2605.02801).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import orchestrace as ot
    >>> from orchestrace.scaling.paper_pool import COUNTED, COUNTED_EXCLUDED
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> pool = ["key," + ",".join(COUNTED), "a,rl_method,yes,shared,agent,swarm,general,core,yes"]
    >>> log = ["record_id," + ",".join(COUNTED_EXCLUDED), "E1,abstract_screen,arXiv,safety"]
    >>> _ = (folder / "papers.csv").write_text("\\n".join(pool))
    >>> _ = (folder / "excluded.csv").write_text("\\n".join(log))
    >>> tables = ot.scaling.survey(folder)
    >>> tables["headline"].rows()
    [('retained', 1), ('excluded', 1), ('audited', 2)]
    >>> tables["reward_type_by_credit_granularity"].to_dicts()
    [{'reward_type': 'shared', 'agent': 1}]
    """
    artifact = read_artifact(path)
    papers, excluded = artifact.papers, artifact.excluded
    sizes = {"retained": papers.height, "excluded": excluded.height}
    headline = {**sizes, "audited": sum(sizes.values())}
    counts = [_counts("retained", papers, name) for name in COUNTED]
    counts += [_counts("excluded", excluded, name) for name in COUNTED_EXCLUDED]
    return {
        "headline": pl.DataFrame(
            list(headline.items()), schema={"what": pl.String, "records": pl.UInt32}, orient="row"
        ),
        "counts": pl.concat(counts),
        **{f"{left}_by_{right}": cross_tab(papers, left, right) for left, right in CROSSED},
        **_evidence(papers, artifact.files),
        **coverage(papers),
    }


def _evidence(papers: pl.DataFrame, files: OptionalFiles) -> dict[str, pl.DataFrame]:
    """The tables of the files that may be absent, of those that are there."""
    problems = Problems()
    tables: dict[str, pl.DataFrame] = {}
    read = codings(files.spot_checks, papers, problems) if files.spot_checks else None
    stated = pl.DataFrame(schema=CELLS)
    if files.ledger is not None:
        ledger = claim_ledger(files.ledger, papers, COUNTED, problems)
        tables |= {"claims": ledger.claims, "ledger_rows": ledger.rows}
        stated = ledger.cells
    if files.ledger is not None or read is not None:
        tables["strict_and_broad"] = strict_and_broad(papers, read, stated)
    if read is not None:
        tables |= {"agreement": agreement(read), "spot_check": read}
    if files.bibliography is not None:
        tables["bibliography"] = bibliography(files.bibliography, papers["key"], problems)
    return {**tables, "malformed": problems.table()} if files.any else {}


def read_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Read the paper pool and the exclusion log.

    Raises
    ------
    ParameterError, InputError
        As in `survey`.

    Examples
    --------
    >>> from orchestrace.scaling.paper_pool import read_artifact
    >>> read_artifact("nowhere")
    Traceback (most recent call last):
        ...
    orchestrace...InputError: no such folder: 'nowhere' (looked from '...')
    """
    folder = path_of(path)
    shown = plain(folder)
    if folder.is_file():
        raise InputError(f"'{shown}' is a file, expected the folder with {_POOL} and {_LOG}")
    if not folder.is_dir():
        raise InputError(f"no such folder: '{shown}' (looked from '{os.getcwd()}')")
    for here in (folder, folder / "papers"):
        if (here / _POOL).is_file():
            papers = _table(here / _POOL, "key", COUNTED)
            excluded = _table(here / _LOG, "record_id", COUNTED_EXCLUDED)
            return Artifact(papers, excluded, optional_files(here))
    raise InputError(f"'{shown}' has no {_POOL}, nor has a folder 'papers' in it: is it the survey artifact?")


def cross_tab(papers: pl.DataFrame, left: str, right: str) -> pl.DataFrame:
    """How many papers have each pair of values of two fields.

    Returns
    -------
    DataFrame
        A row per value of `left`, which is the first column; a column (UInt32) per value of `right`; both in
        order of bytes.

    Raises
    ------
    ParameterError
        A field that the pool does not have, or one field twice.
    InputError
        A value of `right` that is the name of `left`.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scaling.paper_pool import cross_tab
    >>> cross_tab(pl.DataFrame({"x": ["a", "a", "b"], "y": ["u", "v", "v"]}), "x", "y").rows()
    [('a', 1, 1), ('b', 0, 1)]
    """
    for name in (left, right):
        if name not in papers.columns:
            raise ParameterError(unknown_name("field", name, papers.columns))
    if left == right:
        raise ParameterError(f"field '{left}' is given twice")
    values = papers[right].unique().sort()
    if left in values:  # two columns of one name
        raise InputError(f"field '{right}' has the value '{left}', which is the name of the other field")
    return (
        papers.group_by(left)
        .agg((pl.col(right) == value).sum().cast(pl.UInt32).alias(value) for value in values)
        .sort(left)
    )


def _counts(log: str, records: pl.DataFrame, field: str) -> pl.DataFrame:
    return (
        records.group_by(value=field)
        .agg(records=pl.len().cast(pl.UInt32))
        .sort("records", "value", descending=[True, False])
        .select(pl.lit(log).alias("log"), pl.lit(field).alias("field"), "value", "records")
    )


def _table(path: Path, key: str, tags: Sequence[str]) -> pl.DataFrame:
    """One table as text, with its key and all tags there in every row."""
    _core.check_process()
    shown = plain(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, strict=True)
            header = next(lines, [])
            rows = [(lines.line_num, row) for row in lines if row]
    except UnicodeDecodeError:
        raise InputError(f"{shown} is not UTF-8 text") from None
    except csv.Error as error:
        raise InputError(f"{shown} is not a CSV file: {error}") from None
    except OSError as error:
        raise InputError(f"{shown}: {error.strerror or error}") from None
    for name in (key, *tags):
        if header.count(name) != 1:
            many = "no column" if name not in header else "more than one column"
            listed = plain(", ".join(header[:30])) or "nothing"
            raise InputError(f"{shown} has {many} '{name}' (found: {listed})")
    seen: dict[str, int] = {}
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{shown}, line {line}: {len(row)} fields, expected {len(header)}")
        if row == header:
            raise InputError(f"{shown}, line {line}: the header again")
        fields = dict(zip(header, row, strict=True))
        for name in (key, *tags):
            if not fields[name].strip():
                raise InputError(f"{shown}, line {line}: no {name}")
        first = seen.setdefault(fields[key], line)
        if first != line:
            raise InputError(
                f"{shown}, line {line}: {key} '{plain(fields[key])}' is also that of line {first}"
            )
    columns = {name: [row[at] for _, row in rows] for at, name in enumerate(header)}
    return pl.DataFrame(columns, schema=dict.fromkeys(header, pl.String))
