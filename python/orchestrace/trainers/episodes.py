"""Episodes of verifiers as they stand in their files, with credits as the advantages of their nodes."""

import warnings
from collections.abc import Callable
from typing import Any, cast

import polars as pl

from .. import _core
from ..base.errors import InputError, ParameterError
from ..base.text import counted
from ..corpus.corpus import Corpus
from ..corpus.parts import file_of_records
from .tables import turn_credits


def stamp(
    corpus: Corpus,
    sink: object,
    credits: pl.DataFrame | pl.LazyFrame,
    report: Callable[[int, int], None] | None = None,
    *,
    stacklevel: int = 2,
) -> None:
    """Write the episodes of a corpus again, with credits of turns as advantages.

    Parameters
    ----------
    corpus
        Recordings of verifiers, from files.
    sink
        An open binary file.
    credits
        Rows of ``credit(..., unit="turn")``.
    report
        Of episodes that are written, and of all.
    stacklevel
        Of the warnings, as of `warnings.warn` in the caller.

    Raises
    ------
    InputError
        A file has changed since it was read, or an episode does not say whose its answers are.
    ParameterError
        The credits are of no turns, or the recordings were read with ``extras=False``.
    """
    values, is_share = _values(corpus, credits)
    places = corpus.traces.select("trace", pl.col("file").cast(pl.String), "offset", "length")
    episodes = places.sort("trace").collect(engine="streaming")
    total, done, stamped, without_mask = episodes.height, 0, 0, 0
    for (file,), of_file in episodes.group_by("file", maintain_order=True):
        path, options = file_of_records(corpus, str(file))
        if not options.get("extras", True):
            raise ParameterError(
                "the recordings were read with extras=False, which drops the ids of messages: "
                "read them again without it"
            )
        in_order = of_file.sort("offset").with_row_index("record")
        numbers = in_order.select("record", "trace").join(values, on="trace", how="inner").sort("record")
        written, nodes, skipped, ambiguous, missing = _core.stamp_episodes(
            path,
            in_order.select("offset", "length").rows(),
            (numbers.select("record", "node", "value"), is_share),
            cast(Any, sink),
            progress=_continued(report, done, total),
            **options,
        )
        if written != in_order.height or missing:
            raise InputError(f"'{file}' has changed since it was read: read it again")
        if ambiguous:
            raise InputError(
                f"'{file}' has an episode in which several agents share an id, so credits cannot be matched "
                "to their answers: leave it out (trace_id=, corpus.filter)"
            )
        stamped += nodes
        without_mask += skipped
        done += in_order.height
        if report is not None:
            report(done, total)
    if without_mask:
        warnings.warn(
            f"{counted(without_mask, 'answer')} with a credit got no advantages: without a mask, the number "
            "of sampled tokens is unknown",
            UserWarning,
            stacklevel=stacklevel + 1,
        )
    elif total and not stamped:
        warnings.warn(
            f"no answer of {counted(total, 'episode')} got advantages: none of the "
            "credited agents is trained",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _continued(
    report: Callable[[int, int], None] | None, before: int, total: int
) -> Callable[[int, int], None] | None:
    """Reports the episodes of a file behind those of files before it."""
    return None if report is None else lambda done, _: report(before + done, total)


def _values(corpus: Corpus, credits: pl.DataFrame | pl.LazyFrame) -> tuple[pl.DataFrame, bool]:
    """The number of each node that has one, ``trace node value``, and whether numbers are shares."""
    is_share, pieces = turn_credits(corpus, credits)
    frames = [_of_nodes(piece, rows, is_share) for piece, rows in pieces]
    schema = {"trace": pl.UInt32, "node": pl.String, "value": pl.Float64}
    return pl.concat([pl.DataFrame(schema=schema), *frames]), is_share


def _of_nodes(piece: Corpus, rows: pl.DataFrame, is_share: bool) -> pl.DataFrame:
    """Numbers of turns as those of the nodes of which the turns are made."""
    # The last member of that name is that of the event: others are inside of what it has. Parsing the whole
    # is slower, and gives nothing where the recording has a number that is none.
    member = pl.col("extras").str.extract_all(r'"x_gen":"(?:[^"\\]|\\.)*"').list.last()
    node = pl.concat_str(pl.lit("{"), member, pl.lit("}")).str.json_path_match("$.x_gen")
    generations = piece.events.select("trace", seqs="seq", node=node).collect()
    credited = rows.filter(pl.col("credit").is_finite()).explode("seqs")
    nodes = credited.join(generations, on=["trace", "seqs"], how="inner").unique(["trace", "node"])
    # a call that failed has an answer and no node
    nodes = nodes.filter(pl.col("node").str.contains(r":[0-9]+$"))
    share = pl.col("credit") / pl.len().over("trace", "place") if is_share else pl.col("credit")
    return nodes.select("trace", "node", value=share)
