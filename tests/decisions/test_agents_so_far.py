"""How deep an agent stands by what is recorded before an event: plain Python, on drawn trees."""

from typing import Any

import polars as pl
from hypothesis import given, settings, strategies as st

from orchestrace.decisions.agents_so_far import with_depth_so_far

AGENTS = 9
EVENTS = {"trace": pl.Int64, "owner": pl.String, "position": pl.Int64}
ABOVE = {"trace": pl.Int64, "owner": pl.String, "above": pl.String, "since": pl.Int64}


Above = dict[tuple[int, str], tuple[str, int | None]]


def climbed(above: Above, trace: int, owner: str, position: int) -> int:
    """How many agents one meets on the way up, as long as spawns lie before the position."""
    depth = 0
    while (trace, owner) in above:
        owner, since = above[trace, owner]
        if since is None or since >= position:
            break
        depth += 1
    return depth


@st.composite
def forests(draw: st.DrawFn) -> Above:
    """Of agents of two traces whom they work for, an agent before them, and since when a spawn says so."""
    above: Above = {}
    for trace in (0, 1):
        for agent in range(1, AGENTS):
            if draw(st.booleans()):
                leader = draw(st.integers(0, agent - 1))
                since = draw(st.none() | st.integers(0, 20))
                above[trace, f"a{agent}"] = (f"a{leader}", since)
    return above


@settings(deadline=None)
@given(
    forests(),
    st.lists(
        st.tuples(
            st.integers(0, 2), st.none() | st.integers(0, AGENTS).map(lambda n: f"a{n}"), st.integers(0, 21)
        ),
        max_size=30,
    ),
)
def test_depth_is_what_one_climbs(above: Above, rows: list[tuple[int, Any, int]]) -> None:
    events = pl.DataFrame(rows, schema=EVENTS, orient="row")
    superiors = pl.DataFrame([(*who, *whom) for who, whom in above.items()], schema=ABOVE, orient="row")
    depth = with_depth_so_far(events, superiors, "depth")["depth"].to_list()
    assert depth == [None if row[1] is None else climbed(above, *row) for row in rows]


def test_a_long_chain_is_climbed_to_its_end() -> None:
    n = 5_000
    names = [f"a{i}" for i in range(n)]
    above = pl.DataFrame(
        {"trace": [0] * (n - 1), "owner": names[1:], "above": names[:-1], "since": list(range(n - 1))},
        schema=ABOVE,
    )
    events = pl.DataFrame({"trace": [0] * n, "owner": names, "position": list(range(n))}, schema=EVENTS)
    assert with_depth_so_far(events, above, "depth")["depth"].to_list() == list(range(n))
    early = events.with_columns(position=pl.lit(0, pl.Int64))
    assert with_depth_so_far(early, above, "depth")["depth"].to_list() == [0] * n
