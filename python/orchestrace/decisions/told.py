"""What a recording had told of agents up to an event: roles, and who works for whom."""

import polars as pl

from ..corpus.corpus import Corpus


def with_told_role(events: pl.DataFrame, who: str, name: str) -> pl.DataFrame:
    """Add the role of an agent as recorded up to each event, the event itself included.

    Parameters
    ----------
    events
        All events of traces in canonical order, with their ``position``, ``owner``, ``type agent role to``.
    who
        The column that names the agent: ``owner`` or ``to``.
    name
        The column to add (String).

    Notes
    -----
    By the rule of definition D4: on the first event of its own with one, else on the first spawn that names
    the agent. Null as long as neither has come. O(events).

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.decisions.told import with_told_role
    >>> events = pl.DataFrame(
    ...     {
    ...         "trace": [0, 0, 0],
    ...         "position": [0, 1, 2],
    ...         "type": ["spawn", "tool_call", "message"],
    ...         "owner": ["lead", "w", "lead"],
    ...         "agent": ["lead", "w", "lead"],
    ...         "to": ["w", None, "w"],
    ...         "role": [None, "coder", None],
    ...     }
    ... )
    >>> with_told_role(events, "to", "to_role")["to_role"].to_list()
    [None, None, 'coder']
    """
    by_itself = (pl.col("agent") == pl.col("owner")) & ~pl.col("type").is_in(["spawn", "despawn"])
    with_role = events.filter(pl.col("role").is_not_null())
    own = _first_role(with_role.filter(by_itself), "owner", who, "own")
    named = _first_role(with_role.filter(pl.col("type") == "spawn"), "to", who, "named")
    known = events.select("trace", "position", who)
    for first in (own, named):
        known = known.join(first, on=["trace", who], how="left", maintain_order="left")
    role = (
        pl.when(pl.col("position") >= pl.col("own_position"))
        .then("own_role")
        .when(pl.col("position") >= pl.col("named_position"))
        .then("named_role")
    )
    return events.with_columns(known.select(role.alias(name)))


def _first_role(events: pl.DataFrame, of: str, who: str, name: str) -> pl.DataFrame:
    """By trace and agent (`who`), the role and the position of the first of these events for each."""
    return events.group_by("trace", pl.col(of).alias(who), maintain_order=True).agg(
        pl.col("role").first().alias(f"{name}_role"), pl.col("position").first().alias(f"{name}_position")
    )


def superiors(corpus: Corpus, events: pl.DataFrame) -> pl.DataFrame:
    """``trace owner``, whom it works for (``above``), and the position of the spawn that says so."""
    tree = corpus.agents.filter(pl.col("parent").is_not_null()).select(
        pl.col("trace").cast(pl.Int64),
        owner=pl.col("agent").cast(pl.String),
        above=pl.col("parent").cast(pl.String),
    )
    spawns = events.filter(pl.col("type") == "spawn").select(
        "trace", owner="to", above="owner", told="position"
    )
    first = spawns.group_by("trace", "owner", "above").agg(pl.col("told").min())
    return tree.collect(engine="streaming").join(first, on=["trace", "owner", "above"], maintain_order="left")


def with_told_depth(events: pl.DataFrame, above: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add how many agents stand above the owner by what was told before the event (Int64).

    A spawn may name who acts already, so that depth grows within a trace. `above` is of `superiors`. Rows
    times the depth of the deepest tree of agents.
    """
    depth = pl.when(pl.col("owner").is_not_null()).then(pl.lit(0, pl.Int64))
    at = events.select("trace", "owner", "position", depth=depth)
    is_open = True
    while is_open:  # as often as the deepest tree has levels
        at = at.join(above, on=["trace", "owner"], how="left", maintain_order="left")
        known = (pl.col("told") < pl.col("position")).fill_null(False)
        at = at.select(
            "trace",
            "position",
            depth=pl.col("depth") + known.cast(pl.Int64),
            owner=pl.when(known).then("above"),
        )
        is_open = at["owner"].count() > 0
    return events.with_columns(at["depth"].alias(name))
