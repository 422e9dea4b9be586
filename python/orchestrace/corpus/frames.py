"""Frames of callers, and lookups of their traces."""

from typing import Final

import polars as pl

from .. import _core
from ..base.arguments import TraceName
from ..base.errors import ParameterError
from .corpus import Corpus
from .joined_ids import joined_ids

_NUMBERS: Final = {"trace", "seq", "credit", "contribution"}


def collected(frame: pl.DataFrame | pl.LazyFrame, label: str, needed: tuple[str, ...]) -> pl.DataFrame:
    """A frame in memory that has the columns needed, those that are always numbers as such."""
    _core.check_process()
    if isinstance(frame, pl.LazyFrame):
        try:
            frame = frame.collect(engine="streaming")
        except pl.exceptions.PolarsError as error:
            raise ParameterError(f"{label}: {str(error).splitlines()[0]}") from None
    for name in needed:
        if name not in frame.columns:
            raise ParameterError(f"{label} has no column '{name}' (found: {', '.join(frame.columns)})")
    for name in _NUMBERS & set(needed):
        dtype = frame[name].dtype
        if not (dtype.is_numeric() or frame[name].null_count() == frame.height):
            raise ParameterError(f"{label}.{name} has type {dtype}, expected numbers")
    return frame


def one_trace(corpus: Corpus, trace: TraceName) -> Corpus:
    """The corpus of one trace, which its number or its id names."""
    single = corpus.filter(pl.col("trace_id" if isinstance(trace, str) else "trace") == trace)
    if (
        len(single) == 0
        and isinstance(trace, str)
        and (part := joined_ids(corpus.findings).get(trace)) is not None
    ):
        single = corpus.filter(pl.col("trace") == part)
    if len(single) == 0:
        raise ParameterError(f"unknown trace {trace!r}: corpus.traces lists them")
    if len(single) > 1:
        raise ParameterError(
            f"{len(single)} traces have the trace_id {trace!r}: give the number of one of them"
        )
    return single


def tasks_of(corpus: Corpus, traces: pl.DataFrame) -> pl.DataFrame:
    """The task of each trace as a number, ``trace task``; all traces have to be of the corpus."""
    tasks = (
        corpus.traces.select(pl.col("trace").cast(pl.Int64), "task_id")
        .collect(engine="streaming")
        .with_columns(task=pl.col("task_id").rank("dense").cast(pl.Int64))
    )
    unknown = traces.join(tasks, on="trace", how="anti")
    if unknown.height:
        raise ParameterError(
            f"trace {unknown['trace'][0]} of the credits is not in the corpus: give the corpus they are of"
        )
    return tasks.select("trace", "task")
