"""Who owns each event (ARCHITECTURE.md, D4), for methods written in Python."""

import polars as pl

from .corpus import Corpus


def owners(corpus: Corpus) -> pl.DataFrame:
    """The owner of every event and what is known about it.

    Parameters
    ----------
    corpus
        A corpus in memory.

    Returns
    -------
    DataFrame
        One row per event, in the order of `Corpus.events`: ``trace seq owner role depth``; the last three are
        null where nobody owns the event.

    Notes
    -----
    O(events log events + edges): the calls of a tool are found in canonical order.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.owners import owners
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> owners(corpus).columns
    ['trace', 'seq', 'owner', 'role', 'depth']
    """
    agents = corpus.agents.select("trace", "agent", "kind", "role", "depth").collect()
    events = (
        corpus.events.select("trace", "seq", "t", "type", "agent", "tool")
        .collect()
        .join(
            agents.select("trace", "agent", "kind"), on=["trace", "agent"], how="left", maintain_order="left"
        )
    )
    owned = (pl.col("kind") == "agent") & (pl.col("type") != "human_intervention")
    owner: pl.Expr = pl.when(owned).then("agent")
    is_result = (pl.col("type") == "tool_result") & (pl.col("kind") == "tool")
    results = events.filter(is_result)
    if results.height:
        calls = _calls(corpus, events, results)
        events = events.join(calls, on=["trace", "seq"], how="left", maintain_order="left")
        owner = pl.coalesce(owner, pl.when(is_result).then("caller"))
    events = events.select("trace", "seq", owner=owner)
    return events.join(
        agents.filter(pl.col("kind") == "agent").select("trace", "role", "depth", owner="agent"),
        on=["trace", "owner"],
        how="left",
        maintain_order="left",
    )


def _calls(corpus: Corpus, events: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Who made the call of each result whose `agent` is a tool's name: ``trace seq caller``."""
    calls = events.filter(pl.col("type") == "tool_call").select(
        "trace", src="seq", t="t", caller=pl.when(pl.col("kind") == "agent").then("agent")
    )
    before = (
        corpus.edges.select("trace", "src", "dst")
        .collect()
        .join(results.select("trace", dst="seq"), on=["trace", "dst"], how="semi")
        .join(calls, on=["trace", "src"])
        .sort("trace", "dst", "t", "src")
        .group_by("trace", "dst", maintain_order=True)
        .agg(pl.col("caller").last())
        .select("trace", seq="dst", caller="caller", joined=pl.lit(True))
    )
    # Without an edge it is the last earlier call of the same tool.
    is_call = (pl.col("type") == "tool_call") & pl.col("tool").is_not_null()
    earlier = (
        events.filter(pl.col("tool").is_not_null())
        .sort("trace", "t", "seq")
        .with_columns(call=pl.when(is_call).then("seq").forward_fill().over("trace", "tool"))
        .filter(pl.col("type") == "tool_result")
        .select("trace", "seq", src="call")
        .join(calls.select("trace", "src", latest="caller"), on=["trace", "src"], how="left")
    )
    return (
        results.select("trace", "seq")
        .join(before, on=["trace", "seq"], how="left")
        .join(earlier.select("trace", "seq", "latest"), on=["trace", "seq"], how="left")
        # A call that an edge tells counts, also where the user made it.
        .select("trace", "seq", caller=pl.when(pl.col("joined")).then("caller").otherwise("latest"))
    )
