"""Spawn trees of many agents: the agents that are shown are those of the definition, found in linear time."""

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from orchestrace.plot.canvas import shown_names
from orchestrace.plot.spawn_trees import MOST_NODES, _heaviest, _Node


def tree(n: int, reach: int, seed: int) -> list[_Node]:
    """Agents, each spawned by one of the `reach` before it, now and then by nobody; many are as large."""
    rng = random.Random(seed)
    nodes: list[_Node] = []
    for number in range(n):
        parent = None
        if nodes and rng.random() < 0.98:
            parent = nodes[rng.randrange(max(0, number - reach), number)]
        node = _Node(f"a{number}", parent, 0, tokens=rng.randrange(9), label=f"a{number}")
        if parent is not None:
            parent.children.append(node)
        nodes.append(node)
    return nodes


def by_definition(nodes: list[_Node]) -> set[str]:
    """Agents from the heaviest on, each with all above it if they and a circle for each parent have room."""
    shown: set[str] = set()
    for node in sorted(nodes, key=lambda node: node.tokens or 0, reverse=True):
        line: set[str] = set()
        above: _Node | None = node
        while above is not None:
            line.add(above.name)
            above = above.parent
        both = shown | line
        parents = {other.parent.name if other.parent else None for other in nodes if other.name in both}
        if len(both) + len(parents) <= MOST_NODES:
            shown = both
    return shown


@pytest.mark.parametrize("reach", [1, 3, 40, 400])
@pytest.mark.parametrize("seed", range(3))
def test_the_heaviest_agents_are_shown_with_those_above_them(reach: int, seed: int) -> None:
    nodes = tree(400, reach, seed)
    expected = by_definition(nodes)
    alone = {node.name for node in nodes if len(node.children) == 0}
    shown = [node for node in _heaviest(nodes) if node.agents == 1]
    # an agent without children that is the only other one of its parent is drawn in place of a circle of one
    assert expected <= {node.name for node in shown} <= expected | alone
    assert len(expected) > 20 or reach == 1


def lines_run(call: Callable[[], Any]) -> int:
    """How many lines of Python a call runs, the same on every machine."""
    count = 0

    def traced(_frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return traced

    earlier = sys.gettrace()
    sys.settrace(traced)
    try:
        call()
    finally:
        sys.settrace(earlier)
    return count


@pytest.mark.parametrize("reach", [1, 400])
def test_eight_times_the_agents_take_no_sixty_four_times_the_work(reach: int) -> None:
    few, many = (tree(n, reach, 0) for n in (2_000, 16_000))
    assert lines_run(lambda: _heaviest(many)) < 16 * lines_run(lambda: _heaviest(few))


def test_names_that_look_alike_are_numbered_in_linear_time() -> None:
    few, many = ([f"{'x' * 40}{number}{'y' * 40}" for number in range(n)] for n in (500, 4_000))
    shown = shown_names(many)
    assert len(set(shown)) == len(many) and shown[1] == "xxxxxxxxxxxx…yyyyyyyyyyy (2)"
    assert shown[-1].endswith(" (4000)") and max(map(len, shown)) == 28
    assert lines_run(lambda: shown_names(many)) < 16 * lines_run(lambda: shown_names(few))
