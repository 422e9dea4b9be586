"""Windows of training: the share of multi-agent traces of each step in the whole corpus."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from .. import _core
from ..base.progress import Progress, reporting
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of

Windows = list[tuple[float, int, int]]
"""A step, its traces, those of them with two agents or more."""


def windows_of(
    corpus: Corpus, rules: Sequence[Mapping[str, Any]], threads: int | None, progress: Progress
) -> Windows:
    """The windows of a corpus, counted if a rule asks for them.

    Parts of a corpus on disk are complete by group, not by step, so their counts are added up.
    """
    if not any(_core.reward_is_diagnostic(rule) for rule in rules):
        return []
    sums: dict[float, tuple[int, int]] = {}
    with reporting(progress, "counting") as callback:
        for _, load in corpus.pieces():
            counts = _core.reward_windows(store_of(load()), threads=threads, progress=callback)
            for step, traces, parallel in counts:
                before = sums.get(step, (0, 0))
                sums[step] = before[0] + traces, before[1] + parallel
    return [(step, *counts) for step, counts in sums.items()]


def with_params(table: pl.DataFrame, rule: Mapping[str, Any]) -> pl.DataFrame:
    """The payments of a rule with their ``params``, among them what windows left of its weights."""
    if "anneal_left" not in table.columns:
        return table.with_columns(params=pl.lit(_core.reward_params(rule), pl.String))
    distinct = table.select("anneal_left").unique(maintain_order=True)
    texts = [_core.reward_params(rule, left) for left in distinct["anneal_left"]]
    named = distinct.with_columns(params=pl.Series(texts, dtype=pl.String))
    return table.join(named, on="anneal_left", how="left", nulls_equal=True, maintain_order="left")
