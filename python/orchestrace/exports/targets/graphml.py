"""One trace as a directed graph with typed attributes, GraphML, for graph libraries.

A node is an event, named by its `seq`; an edge is an edge, parallel ones included. Attributes are the columns
of their tables that have a value, with the type of the column; a list is JSON in a text. Attributes of the
graph are the facts, rewards, costs and metrics of the trace. What is null, or no finite number, is absent,
and a character that XML has no way to write is spelt as an escape. Edges that close a cycle are edges.

Source: GraphML 1.0, Brandes et al., Graph Drawing 2001.
"""

import json
import re
from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from ...corpus.corpus import Corpus
from ..drawing import event_credits
from ..format import VIEWER_BYTES, Export, Request, Sink

_HEAD: Final = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
"""
_NO_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FACTS: Final = ("trace_id", "task_id", "group_id", "system", "topology", "importer", "time_basis")


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    events = corpus.events.collect()
    if request.credits is not None:
        events = events.drop("credit", strict=False)  # a field of records may have that name
        credits = event_credits(request.credits)
        events = events.join(credits, on=["trace", "seq"], how="left", maintain_order="left")
    edges = corpus.edges.collect()
    expect = sink.room_for(len('<node id="0"></node>\n'), len('<edge source="0" target="0"></edge>\n'))
    expect(events.height, edges.height)
    tables = {"graph": _facts(corpus), "node": _attributes(events), "edge": _attributes(edges)}
    sink.write(_HEAD.encode())
    for kind, table in tables.items():
        for at, column in enumerate(table):
            name = f'attr.name={quoteattr(_xml(column.name))} attr.type="{_type(column)}"'
            sink.write(f'<key id="{kind}{at}" for="{kind}" {name}/>\n'.encode())
    sink.write(b'<graph edgedefault="directed">\n')
    for data in _data("graph", tables["graph"]):
        sink.write(f"{data}\n".encode())
    ids = (f'<node id="{seq}">' for seq in events["seq"])
    _elements(sink, "node", ids, tables["node"])
    ends = (f'<edge source="{src}" target="{dst}">' for src, dst in edges.select("src", "dst").iter_rows())
    _elements(sink, "edge", ends, tables["edge"])
    sink.write(b"</graph>\n</graphml>\n")
    request.report(1, 1)


def _facts(corpus: Corpus) -> pl.DataFrame:
    """What is known of the trace, a row: facts, and measures as ``reward.team``."""
    facts = corpus.traces.select(_FACTS).collect()
    name = pl.concat_str(pl.col("kind", "name").cast(pl.String), separator=".")
    measures = corpus.measures.select(name, "value").collect().rows()
    return _attributes(facts.with_columns(pl.lit(value).alias(name) for name, value in measures))


def _attributes(rows: pl.DataFrame) -> pl.DataFrame:
    """The columns that have a value which GraphML can say, without those that name an element."""
    rows = rows.drop("trace", "seq", "src", "dst", strict=False)
    floats = pl.selectors.float()
    rows = rows.with_columns(pl.when(floats.is_finite()).then(floats))
    return rows.select(column.name for column in rows if column.null_count() < rows.height)


def _type(column: pl.Series) -> str:
    if column.dtype.is_integer():
        return "long"
    return "double" if column.dtype.is_float() else "boolean" if column.dtype == pl.Boolean else "string"


def _elements(sink: Sink, kind: str, begins: Iterator[str], table: pl.DataFrame) -> None:
    """An element for each row, with its attributes in it."""
    for begin, data in zip(begins, _data(kind, table), strict=True):
        sink.write(f"{begin}{data}</{kind}>\n".encode())


def _data(kind: str, table: pl.DataFrame) -> Iterator[str]:
    """The attributes of each row that are not null."""
    for row in table.iter_rows():
        yield "".join(
            f'<data key="{kind}{at}">{_value(value)}</data>'
            for at, value in enumerate(row)
            if value is not None
        )


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = json.dumps(value) if isinstance(value, list) else str(value)
    return escape(_xml(text), {"\r": "&#13;"})  # which a reader would take for the end of a line


def _xml(text: str) -> str:
    return _NO_XML.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


GRAPHML: Final = Export(
    "graphml",
    "Directed graph of one trace, with all columns as typed attributes",
    "networkx, igraph, Gephi, Cytoscape",
    ".graphml",
    "trace",
    ("trace_id", "credits"),
    _write,
    max_bytes=VIEWER_BYTES,
)
