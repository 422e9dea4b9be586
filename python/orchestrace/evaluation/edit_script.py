"""What two runs did side by side: steps that both have, and steps that only one has."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Size, Threads
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from .lanes import MOST_UNKNOWN, Key
from .sides import PAIR, Order, Sides, sides_of

SCRIPT: Final = pl.Schema(
    {
        "trace_a": pl.UInt32(),
        "trace_b": pl.UInt32(),
        "label": pl.String(),
        "ordinal": pl.UInt32(),
        "edit": pl.Enum(["same", "only_a", "only_b"]),
        "seq_a": pl.UInt32(),
        "seq_b": pl.UInt32(),
        "type": pl.String(),
        "tool": pl.String(),
    }
)
"""Columns and types of what `edit_script` returns."""


@verb
def edit_script(
    corpus: Corpus,
    other: Corpus | None = None,
    *,
    pairs: pl.DataFrame,
    key: Key = "shape",
    order: Order = "lanes",
    budget: Size = 10_000_000,
    threads: Threads = None,
) -> pl.DataFrame:
    """List what two runs did side by side: steps that both have, and steps that only one has.

    Parameters
    ----------
    corpus, other, key, order, budget, threads
        As in `align`.
    pairs
        A frame ``trace_a trace_b``.

    Returns
    -------
    DataFrame
        A row per step of the alignment, lane by lane, in order: ``trace_a trace_b label ordinal`` as in
        `align`; ``edit`` (Enum: ``same``, ``only_a``, ``only_b``); ``seq_a seq_b`` (UInt32), the events;
        ``type tool`` (String) of the step. What only a has stands before what only b has. A lane beyond the
        budget has no row, nor has a pair of which too many steps have no exact key: `align` says which.

    Raises
    ------
    ParameterError
        As in `align`.

    Notes
    -----
    As `align`; O(steps) rows.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> two = pl.DataFrame({"trace_a": [0], "trace_b": [1]})
    >>> script = ot.evaluation.edit_script(corpus, pairs=two)
    >>> aligned = ot.evaluation.align(corpus, pairs=two)
    >>> int((script["edit"] != "same").sum()) == int(aligned["edits"].sum())
    True
    """
    options = {"budget": budget, "rejoin": 1, "matches": True}
    pieces = [
        _script(sides, options, threads)
        for sides in sides_of(corpus, other, pairs, key, order, ("team", 1.0), threads)
    ]
    rows = pl.concat([pl.DataFrame(schema=SCRIPT).drop("type", "tool"), *pieces])
    for at, side in (("a", corpus), ("b", corpus if other is None else other)):
        runs = rows[f"trace_{at}"].unique().implode()
        shown = side.events.filter(pl.col("trace").is_in(runs)).select(
            pl.col("trace", "seq").name.suffix(f"_{at}"),
            pl.col("type", "tool").cast(pl.String).name.suffix(f"_{at}"),
        )
        on = [f"trace_{at}", f"seq_{at}"]
        rows = rows.join(shown.collect(), on=on, how="left", maintain_order="left")
    rows = rows.with_columns(type=pl.coalesce("type_a", "type_b"), tool=pl.coalesce("tool_a", "tool_b"))
    return rows.select(SCRIPT.names())


def _script(sides: Sides, options: dict[str, Any], threads: int | None) -> pl.DataFrame:
    """Steps side by side: what only a has, then what only b has, up to each match."""
    lanes = sides.lanes().filter(pl.col("lane_a").is_not_null() | pl.col("lane_b").is_not_null())
    lanes = sides.with_unknown(lanes).filter(pl.col("unknown") <= MOST_UNKNOWN)
    within = sides.aligned(lanes, {**options, "matches": False}, threads, None)["common"].is_not_null()
    lanes = lanes.filter(within).with_row_index("lane")
    matches = sides.aligned(lanes, options, threads, None)
    blocks = []
    for at, side in (("a", sides.a), ("b", sides.b)):
        long = lanes.select("lane", n=pl.col(f"n_{at}").fill_null(0), of=pl.col(f"lane_{at}").fill_null(0))
        places = long.with_columns(place=pl.int_ranges("n")).explode("place").drop_nulls("place")
        seq = side.event(
            "seq", places["of"].to_numpy(), places["place"].to_numpy(), np.ones(len(places), bool)
        )
        matched = matches.select(
            lane=pl.col("pair"), place=pl.col(f"place_{at}").cast(pl.Int64), matched=pl.int_range(pl.len())
        )
        blocks.append(
            places.select("lane", "place", seq=seq)
            .join(matched, on=["lane", "place"], how="left", maintain_order="left")
            # a step without a match stands before the next match of its lane
            .with_columns(before=pl.col("matched").fill_null(strategy="backward").over("lane"))
        )
    ends = len(matches)
    alone = [
        block.filter(pl.col("matched").is_null()).select(
            "lane",
            pl.col("before").fill_null(ends),
            pl.lit(at, pl.Int8).alias("side"),
            "place",
            seq_a=pl.col("seq") if at == 0 else pl.lit(None, pl.UInt32),
            seq_b=pl.col("seq") if at == 1 else pl.lit(None, pl.UInt32),
        )
        for at, block in enumerate(blocks)
    ]
    both = (
        blocks[0]
        .drop_nulls("matched")
        .join(blocks[1].drop_nulls("matched"), on=["lane", "matched"], suffix="_b")
    )
    same = both.select(
        "lane", before="matched", side=pl.lit(2, pl.Int8), place="place", seq_a="seq", seq_b="seq_b"
    )
    words = {0: "only_a", 1: "only_b", 2: "same"}
    edits = pl.concat([*alone, same], how="vertical_relaxed").sort("lane", "before", "side", "place")
    return edits.join(lanes, on="lane", how="left", maintain_order="left").select(
        *PAIR,
        "label",
        "ordinal",
        pl.col("side").replace_strict(words, return_dtype=SCRIPT["edit"]).alias("edit"),
        "seq_a",
        "seq_b",
    )
