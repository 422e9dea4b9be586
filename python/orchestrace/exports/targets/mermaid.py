"""One trace as a Mermaid flowchart, the critical path in thick arrows.

Source: Mermaid, syntax of flowcharts.
"""

from typing import Final

from ...corpus.corpus import Corpus
from ..drawing import is_tight, label, only
from ..format import VIEWER_BYTES, Export, Request, Sink


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    drawing = only(corpus, request, sink.room_for(len('  n0["a#58; b<br/>0 s"]\n'), len("  n0 --> n1\n")))
    sink.write(b"flowchart LR\n")
    for event in drawing.events:
        text = "<br/>".join(_escaped(line) for line in label(event, drawing.unit))
        mark = ":::critical" if event["critical"] else ""
        sink.write(f'  n{event["seq"]}["{text}"]{mark}\n'.encode())
    for src, dst, _ in drawing.edges:
        arrow = "==>" if is_tight(drawing, src, dst) else "-->"
        sink.write(f"  n{drawing.events[src]['seq']} {arrow} n{drawing.events[dst]['seq']}\n".encode())
    sink.write(b"  classDef critical stroke:#d55e00,stroke-width:3px\n")
    request.report(1, 1)


def _escaped(text: str) -> str:
    """Text of a label: whatever could mean something to Mermaid or to HTML as the number of its character."""
    return "".join(c if c.isalnum() or c in " _-." else f"#{ord(c)};" for c in text)


MERMAID: Final = Export(
    "mermaid",
    "Flowchart of one trace, for Markdown pages",
    "Mermaid, GitHub, GitLab",
    ".mmd",
    "trace",
    ("trace_id", "window", "credits", "effects", "durations", "program_order"),
    _write,
    max_bytes=VIEWER_BYTES,
)
