"""What is recorded of agents up to an event: roles, and who works for whom."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from ..base.deferred import Deferred
from ..corpus.corpus import Corpus

if TYPE_CHECKING:
    import numpy as np
else:
    np = Deferred("numpy")


def roles(events: pl.DataFrame) -> pl.DataFrame:
    """List the role of each agent, and where it is recorded first.

    Parameters
    ----------
    events
        All events of traces in canonical order, with their ``trace position owner type agent role to``.

    Returns
    -------
    DataFrame
        ``trace agent``, and the role and position of the first event of its own with one (``own_role
        own_position``) and of the first spawn that names it with one (``named_role named_position``).

    Notes
    -----
    By the rule of definition D4. O(events).
    """
    with_role = events.filter(pl.col("role").is_not_null()).select(
        "trace", "position", "owner", "type", "agent", "role", "to"
    )
    by_itself = (pl.col("agent") == pl.col("owner")) & ~pl.col("type").is_in(["spawn", "despawn"])
    recorded = _first_role(with_role.filter(by_itself), "owner", "own")
    named = _first_role(with_role.filter(pl.col("type") == "spawn"), "to", "named")
    return recorded.join(named, on=["trace", "agent"], how="full", coalesce=True, maintain_order="left_right")


def _first_role(events: pl.DataFrame, who: str, name: str) -> pl.DataFrame:
    first = events.unique(["trace", who], keep="first", maintain_order=True)
    return first.select(
        "trace", pl.col(who).alias("agent"), **{f"{name}_role": "role", f"{name}_position": "position"}
    )


def with_role_so_far(
    rows: pl.DataFrame, recorded: pl.DataFrame, who: str, name: str, also: Sequence[str] = ()
) -> pl.DataFrame:
    """Add the role of an agent as recorded so far: up to each event, the event itself included.

    Parameters
    ----------
    rows
        Events, with their ``trace position`` and the column that names the agent.
    recorded
        What `roles` says of all events of their traces.
    who, name
        The column that names the agent, and the column to add (String, null until a role is recorded).
    also
        Columns of `recorded` to add as they are.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.decisions.agents_so_far import roles, with_role_so_far
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
    >>> with_role_so_far(events, roles(events), "to", "to_role")["to_role"].to_list()
    [None, None, 'coder']
    """
    agents = rows.select("trace", "position", agent=who).join(
        recorded, on=["trace", "agent"], how="left", maintain_order="left"
    )
    role = (
        pl.when(pl.col("position") >= pl.col("own_position"))
        .then("own_role")
        .when(pl.col("position") >= pl.col("named_position"))
        .then("named_role")
    )
    return rows.with_columns(agents.select(role.alias(name), *also))


def superiors(corpus: Corpus, events: pl.DataFrame) -> pl.DataFrame:
    """``trace owner``, whom it works for: ``above``, and where a spawn says so: ``since``, a position."""
    tree = corpus.agents.filter(pl.col("parent").is_not_null()).select(
        pl.col("trace").cast(pl.Int64),
        owner=pl.col("agent").cast(pl.String),
        above=pl.col("parent").cast(pl.String),
    )
    spawns = events.filter(pl.col("type") == "spawn").select(
        "trace", owner="to", above="owner", since="position"
    )
    first = spawns.group_by("trace", "owner", "above").agg(pl.col("since").min())
    return tree.collect(engine="streaming").join(first, on=["trace", "owner", "above"], maintain_order="left")


def with_depth_so_far(events: pl.DataFrame, above: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add how many agents stand above the owner by what is recorded before the event (Int64).

    A spawn may name who acts already, so that depth grows within a trace. `above` is of `superiors`. A way up
    is taken in steps of powers of two, as far as all spawns on it are recorded before the event. O((rows +
    agents) log depth).
    """
    links = above.with_row_index("link")
    index = links.select("trace", "owner", "link")
    further = links.join(
        index.rename({"owner": "above", "link": "next"}),
        on=["trace", "above"],
        how="left",
        maintain_order="left",
    )
    n = links.height  # stands for no link
    steps = [
        (
            np.append(further["next"].fill_null(n).to_numpy().astype(np.int64), n),
            np.append(further["since"].cast(pl.Float64).fill_null(np.inf).to_numpy(), np.inf),
        )
    ]
    while len(steps) < n.bit_length():
        upward, latest = steps[-1]
        doubled = np.maximum(latest, latest[upward])
        if not np.isfinite(doubled).any():
            break
        steps.append((upward[upward], doubled))
    rows = events.select("trace", "owner", "position").join(
        index, on=["trace", "owner"], how="left", maintain_order="left"
    )
    at = rows["link"].fill_null(n).to_numpy().astype(np.int64)
    position, depth = rows["position"].to_numpy(), np.zeros(len(at), np.int64)
    for power, (upward, latest) in reversed(list(enumerate(steps))):
        is_recorded = latest[at] < position
        depth += is_recorded.astype(np.int64) << power
        at = np.where(is_recorded, upward[at], at)
    return events.with_columns(pl.when(pl.col("owner").is_not_null()).then(pl.Series(depth)).alias(name))
