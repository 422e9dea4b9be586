"""One trace as a directed graph in DOT, a cluster per agent, the critical path bold.

Source: Graphviz, The DOT Language; escString; character entities.
"""

from typing import Final

from ...base.text import plain
from ...corpus.corpus import Corpus
from ..drawing import is_tight, label, only
from ..format import VIEWER_BYTES, Export, Request, Sink


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    drawing = only(
        corpus,
        request,
        sink.room_for(len('    n0 [label="a: b\\n0 s"]\n'), len('  n0 -> n1 [tooltip="a"]\n')),
    )
    head = f"digraph {_quoted([drawing.trace_id])} {{\n"
    sink.write(f'{head}  rankdir=LR\n  node [shape=box, style=rounded, fontname="sans-serif"]\n'.encode())
    agents: dict[str, list[int]] = {}
    for at, event in enumerate(drawing.events):
        agents.setdefault(event["agent"], []).append(at)
    for number, (agent, places) in enumerate(agents.items()):
        title = _quoted([agent])
        sink.write(f"  subgraph cluster_{number} {{\n    label={title}\n    color=gray70\n".encode())
        for at in places:
            event = drawing.events[at]
            bold = ', color="#d55e00", penwidth=3' if event["critical"] else ""
            text = _quoted(label(event, drawing.unit))
            sink.write(f"    n{event['seq']} [label={text}{bold}]\n".encode())
        sink.write(b"  }\n")
    for src, dst, kind in drawing.edges:
        bold = ', style=bold, color="#d55e00"' if is_tight(drawing, src, dst) else ""
        ends = f"n{drawing.events[src]['seq']} -> n{drawing.events[dst]['seq']}"
        sink.write(f"  {ends} [tooltip={_quoted([kind])}{bold}]\n".encode())
    sink.write(b"}\n")
    request.report(1, 1)


def _quoted(lines: list[str]) -> str:
    """A quoted string of several lines, in which no quote, escape or entity means anything."""
    texts = [plain(line).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines]
    # SVG that is made of it should not carry a tag either
    return '"' + "\\n".join(text.replace("<", "&lt;").replace(">", "&gt;") for text in texts) + '"'


DOT: Final = Export(
    "dot",
    "Directed graph of one trace, a cluster per agent",
    "Graphviz, networkx, yEd",
    ".dot",
    "trace",
    ("trace_id", "window", "credits", "effects", "durations", "program_order"),
    _write,
    max_bytes=VIEWER_BYTES,
)
