"""The tree of agents of a run: who spawned whom, and what each took."""

from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from ..base.arguments import TraceName
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from .canvas import Canvas, legend_columns, legend_width, number, shown_names, text_width
from .palette import BLUE, GREY, Theme, colors_of
from .trace_rows import TraceRows, trace_rows

MOST_NODES: Final = 60
_MOST_ROLES: Final = 8
_STEP: Final = 26


@dataclass
class _Node:
    name: str
    parent: "_Node | None"
    depth: int
    role: str | None = None
    tokens: int | None = None
    events: int = 0
    messages: int = 0
    """With the parent, both ways."""
    agents: int = 1
    children: list["_Node"] = field(default_factory=list)
    slot: float = 0.0
    label: str = ""


@verb
def spawn_tree(corpus: Corpus, trace: TraceName, *, theme: Theme = "auto") -> Any:
    """Draw who spawned whom in a run: a circle for each agent, as large as the tokens that it took.

    Users and tools are no part of it, unless they spawned somebody.

    Parameters
    ----------
    corpus
        The recordings.
    trace
        A trace, by number or id.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        The root is on the left. Beside each agent are its tokens (its events, where no event has tokens), and
        how many messages went between it and the agent that spawned it, which is the width of the line.
        Colors are roles, where there are at most eight.

    Raises
    ------
    ParameterError
        Altair is not installed, or an unknown trace or theme.

    Notes
    -----
    Of more than 60 agents, those with the most tokens are shown with all above them; the others of a parent
    are one circle, and the subtitle says so. Tidy layout: a parent is in the middle of its children.
    O(events + edges). Source: Wetherell and Shannon, IEEE TSE 5(5), 1979.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> chart = ot.plot.spawn_tree(corpus, 0)
    >>> chart.to_dict()["description"].partition(":")[0]
    'Spawn tree of 5 agents'
    """
    canvas = Canvas(theme)
    drawn = trace_rows(corpus, trace)
    title = f"Spawn tree of {drawn.trace_id}"
    if not drawn.parents.keys() - drawn.bystanders:
        return canvas.empty(title, "No agent owns an event of this run.")
    nodes, has_tokens = _nodes(drawn)
    shown = _heaviest(nodes)
    _place(shown)
    xs, width = _columns(shown)
    height = _STEP * max(1.0, max(node.slot for node in shown) + 1)
    table, roles = _table(shown, xs)
    size = {"width": max(width, legend_width(roles)) if roles else width, "height": height}
    chart = canvas.alt.layer(*_layers(canvas, table, _lines(shown, xs), roles, size)).properties(**size)
    merged = sum(node.agents for node in shown if node.agents > 1)
    notes = []
    if merged:
        notes.append(
            f"{len(nodes):,} agents shown as {len(shown):,} circles: {merged:,} are in circles of several"
        )
    if drawn.across:
        are = "is" if drawn.across == 1 else "are"
        messages = counted(drawn.across, "message")
        notes.append(f"{messages} between agents that did not spawn each other {are} not drawn")
    return canvas.finished(chart, title, notes, _described(nodes, has_tokens))


def _nodes(drawn: TraceRows) -> tuple[list[_Node], bool]:
    """A node for each agent, parents first, and whether tokens are known."""
    by_owner = drawn.events.group_by("owner").agg(
        pl.len().alias("events"),
        tokens=pl.col("tokens").cast(pl.Int128).sum(),  # which may be more than 64 bits hold
        known=pl.col("tokens").count(),
    )
    sums = {row["owner"]: row for row in by_owner.iter_rows(named=True)}
    has_tokens = any(row["known"] for row in sums.values())
    nodes: dict[str, _Node] = {}
    for name, (parent, role) in drawn.parents.items():
        if name in drawn.bystanders:
            continue
        above = nodes.get(parent) if parent is not None else None
        row = sums.get(name, {"events": 0, "tokens": 0})
        node = _Node(name, above, above.depth + 1 if above else 0, role, events=row["events"])
        node.tokens = row["tokens"] if has_tokens else None
        node.messages = drawn.messages.get(name, 0)
        if above is not None:
            above.children.append(node)
        nodes[name] = node
    for node, name in zip(nodes.values(), shown_names(list(nodes)), strict=True):
        node.label = name
    return list(nodes.values()), has_tokens


def _weight(node: _Node) -> int:
    return node.events if node.tokens is None else node.tokens


def _heaviest(nodes: list[_Node]) -> list[_Node]:
    """All nodes, or the heaviest with those above them, and one for the others of each parent."""
    if len(nodes) <= MOST_NODES:
        return nodes
    keep: set[int] = set()
    parents: set[int] = set()  # of what is kept: each may have one circle more, for its other children
    for node in sorted(nodes, key=_weight, reverse=True):
        chain: list[_Node] = []
        above: _Node | None = node
        while above is not None and id(above) not in keep and len(keep) + len(chain) < MOST_NODES:
            chain.append(above)
            above = above.parent
        of_both = parents | {id(link.parent) for link in chain}
        is_whole = above is None or id(above) in keep
        if not is_whole or len(keep) + len(chain) + len(of_both) > MOST_NODES:
            continue
        keep.update(map(id, chain))
        parents = of_both
    shown = []
    for node in nodes:
        if id(node) not in keep:
            continue
        shown.append(node)
        others = [child for child in node.children if id(child) not in keep]
        node.children = [child for child in node.children if id(child) in keep]
        if len(others) == 1 and not others[0].children:
            node.children.append(others[0])
            shown.append(others[0])
        elif others:
            shown.append(_several(others, node))
    roots = [node for node in nodes if node.parent is None and id(node) not in keep]
    return [*shown, _several(roots, None)] if roots else shown


def _several(others: list[_Node], parent: _Node | None) -> _Node:
    """One node for some siblings and all below them."""
    below = list(others)
    for node in below:
        below.extend(node.children)
    joined = _Node("", parent, others[0].depth, agents=len(below), events=sum(node.events for node in below))
    if others[0].tokens is not None:
        joined.tokens = sum(_weight(node) for node in below)
    joined.messages = sum(node.messages for node in others)
    joined.label = f"{counted(len(below), 'agent')} more"
    if parent is not None:
        parent.children.append(joined)
    return joined


def _place(nodes: list[_Node]) -> None:
    """Give leaves a slot each, in order, and parents the middle of their children."""
    free = 0
    stack: list[tuple[_Node, bool]] = [(node, False) for node in reversed(nodes) if node.parent is None]
    while stack:
        node, done = stack.pop()
        if done:
            node.slot = (node.children[0].slot + node.children[-1].slot) / 2
        elif node.children:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
        else:
            node.slot, free = float(free), free + 1


def _text(node: _Node) -> str:
    amount = counted(node.events, "event") if node.tokens is None else f"{number(node.tokens)} tokens"
    more = f", {counted(node.messages, 'message')}" if node.messages else ""
    return f"{node.label} · {amount}{more}"


def _radius(node: _Node, most: int) -> float:
    return 3.0 + 7.0 * float((_weight(node) / most) ** 0.5) if most > 0 else 4.0


def _columns(nodes: list[_Node]) -> tuple[list[float], float]:
    """Where each depth begins, and where the last one ends."""
    xs = [14.0]
    for depth in range(max(node.depth for node in nodes) + 1):
        longest = max((text_width(_text(node)) for node in nodes if node.depth == depth), default=0.0)
        xs.append(xs[-1] + 16 + longest + 50)
    return xs[:-1], xs[-1] - 30


def _table(nodes: list[_Node], xs: list[float]) -> tuple[pl.DataFrame, list[str]]:
    most = max(_weight(node) for node in nodes)
    names = list(dict.fromkeys(node.role for node in nodes if node.role is not None))
    roles = names if 1 < len(names) <= _MOST_ROLES else []
    shown = dict(zip(roles, shown_names(list(roles), 16), strict=True))
    rows = [
        {
            "x": xs[node.depth],
            "y": node.slot,
            "text": _text(node),
            "begins": xs[node.depth] + 16,
            "area": 3.14159 * _radius(node, most) ** 2,
            "role": shown.get(node.role or "", "other" if roles else ""),
            "events": node.events,
        }
        for node in nodes
    ]
    listed = [shown[name] for name in roles]
    if roles and any(row["role"] == "other" for row in rows) and "other" not in listed:
        listed.append("other")
    return pl.DataFrame(rows), listed


def _lines(nodes: list[_Node], xs: list[float]) -> pl.DataFrame:
    """Four points of the curve from each parent, behind its text, to the child."""
    most = max((node.messages for node in nodes), default=0)
    rows = []
    for place, node in enumerate(nodes):
        if node.parent is None:
            continue
        begin = xs[node.parent.depth] + 16 + text_width(_text(node.parent)) + 6
        end = xs[node.depth] - 12
        width = 1.0 + 3.0 * (node.messages / most if most else 0.0)
        middle = end - 14
        for order, (x, y) in enumerate(
            ((begin, node.parent.slot), (middle, node.parent.slot), (middle, node.slot), (end, node.slot))
        ):
            rows.append({"line": place, "order": order, "x": x, "y": y, "width": width})
    types = {"line": pl.Int64, "order": pl.Int64, "x": pl.Float64, "y": pl.Float64, "width": pl.Float64}
    return pl.DataFrame(rows, schema=types)


def _layers(
    canvas: Canvas, table: pl.DataFrame, lines: pl.DataFrame, roles: list[str], size: dict[str, float]
) -> list[Any]:
    alt = canvas.alt
    x_scale, y_scale = (
        {"domain": [0, size["width"]], "nice": False},
        {"domain": [size["height"] / _STEP - 0.5, -0.5], "nice": False},
    )

    def x(name: str) -> Any:
        return alt.X(f"{name}:Q", axis=None).scale(**x_scale)

    y = alt.Y("y:Q", axis=None).scale(**y_scale)
    layers = []
    if lines.height:
        line = canvas.chart(lines).mark_line(color=GREY, interpolate="monotone", opacity=0.8)
        layers.append(
            line.encode(
                x=x("x"),
                y=y,
                order="order:Q",
                detail="line:N",
                strokeWidth=alt.StrokeWidth("width:Q", legend=None).scale(domain=[1, 4], range=[1, 4]),
            )
        )
    color = alt.value(BLUE)
    if roles:
        color = (
            alt.Color("role:N", title="role", sort=roles)
            .scale(domain=roles, range=[*colors_of(roles)])
            .legend(orient="bottom", columns=legend_columns(roles, size["width"]), symbolOpacity=1)
        )
    area = alt.Size("area:Q", legend=None).scale(domain=[0, 400], range=[0, 400])
    agents = canvas.chart(table)
    circle = agents.mark_circle(opacity=1)
    tooltip = [alt.Tooltip("text:N", title="agent"), alt.Tooltip("events:Q", format=",")]
    layers.append(circle.encode(x=x("x"), y=y, size=area, color=color, tooltip=tooltip))
    text = agents.mark_text(align="left", baseline="middle", color=canvas.ink)
    layers.append(text.encode(x=x("begins"), y=y, text="text:N"))
    return layers


def _described(nodes: list[_Node], has_tokens: bool) -> str:
    depth = max(node.depth for node in nodes)
    heavy = max(nodes, key=_weight)
    unit = "tokens" if has_tokens else "events"
    total = sum(_weight(node) for node in nodes)
    share = f", {_weight(heavy) / total:.0%} of all" if total > 0 else ""
    return (
        f"Spawn tree of {counted(len(nodes), 'agent')}: {counted(depth, 'level')} below the root;"
        f" {heavy.label} has the most {unit}, {_weight(heavy):,}{share}."
    )
