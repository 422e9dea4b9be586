"""Two runs side by side in a page: the steps that both took, and those that one of them took alone."""

from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from .packing import packed

COLUMNS: Final = ("trace_a", "trace_b", "label", "ordinal", "edit", "seq_a", "seq_b", "type", "tool")


def checked(beside: pl.DataFrame, traces: set[int]) -> pl.DataFrame:
    """The frame, which is one of `evaluation.edit_script` of runs of this corpus.

    Raises
    ------
    ParameterError
        It lacks a column, or names a run that is none.
    """
    if missing := [name for name in COLUMNS if name not in beside.columns]:
        raise ParameterError(
            f"beside has no column '{missing[0]}', expected what evaluation.edit_script gives for these runs"
        )
    named = {*beside["trace_a"].to_list(), *beside["trace_b"].to_list()}
    if strange := sorted(named - traces):
        raise ParameterError(f"beside names trace {strange[0]}, which is none of {len(traces):,} runs")
    return beside.select(COLUMNS)


def of_run(beside: pl.DataFrame, trace: int) -> dict[str, Any]:
    """What stands beside one run: ``other label ordinal edit here there type tool``, `edit` from its side."""
    sides = [
        ("a", "b", {"only_a": "here", "only_b": "there"}),
        ("b", "a", {"only_b": "here", "only_a": "there"}),
    ]
    rows = [
        beside.filter(pl.col(f"trace_{mine}") == trace).select(
            pl.col("label", "ordinal", "type", "tool"),
            other=f"trace_{others}",
            here=f"seq_{mine}",
            there=f"seq_{others}",
            edit=pl.col("edit").cast(pl.String).replace(words),
        )
        for mine, others, words in sides
    ]
    both = pl.concat(rows)
    # a run beside itself stands there once
    return packed(rows[0] if len(rows[0]) and rows[0].equals(rows[1]) else both)
