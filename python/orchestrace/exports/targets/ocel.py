"""The corpus as an object-centric event log, OCEL 2.0 in JSON, for process mining.

Objects are traces, tasks, agents, tools and users; each event names those that it concerns, and how. Edges
between events have no place in the format. Values of attributes are texts, as the published schema demands;
their types are declared.

Source: Berti et al., OCEL 2.0 specification, arXiv 2403.01975, sections 2 and 6.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Final

import polars as pl

from ...base.schema import EXTENSION_FIELDS, SCHEMAS
from ...corpus.corpus import Corpus
from ..drawing import event_credits
from ..format import Export, Request, Sink

_STATIC: Final = "1970-01-01T00:00:00Z"
"""The time of an attribute that never changes."""
_LAST: Final = 253_402_300_799
"""Seconds to the end of the year 9999, beyond which no date can be written."""

_EVENT_FIELDS: Final = tuple(
    name
    for name in ("role", "content_ref", "trusted", *EXTENSION_FIELDS)
    if not isinstance(SCHEMAS["events"][name], pl.List)
)
_TRACE_FIELDS: Final = ("system", "topology", "importer", "time_basis", "partial", "n_events", "n_edges")
_AGENT_FIELDS: Final = ("role", "depth")
_ROWS: Final = 1 << 14
"""Documents that are text at once."""
_TYPES: Final = SCHEMAS["events"]["type"]


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    total, done = len(corpus), 0
    again = _reused(corpus)
    names = corpus.measures.select(_measure()).unique().collect(engine="streaming")
    measures = names[:, 0].sort().to_list()
    credits = None if request.credits is None else event_credits(request.credits)
    sink.write(b'{"eventTypes":' + _event_types(credits is not None))
    sink.write(b',"objectTypes":' + _object_types(measures) + b',"events":[')
    once: dict[str, set[str]] = {"task": set(), "tool": set()}
    # a document has two long lists: what belongs to the second waits aside
    with tempfile.TemporaryFile() as later:
        events, objects = _List(sink), _List(later)
        for piece in corpus.slices():
            keys = _keys(piece, again)
            for rows in _events(piece, keys, credits):
                events.add(rows)
            objects.add(_traces(piece, keys, measures))
            objects.add(_actors(piece, keys))
            for kind, column in (("task", _tasks(piece)), ("tool", _tools(piece))):
                new = [name for name in column if name not in once[kind]]
                once[kind].update(new)
                named = pl.DataFrame({"name": new}, schema={"name": pl.String})
                objects.add(named.select(_object(pl.lit(f"{kind}:") + pl.col("name"), pl.lit(kind), [], [])))
            done += len(piece)
            request.report(done, total)
        sink.write(b'],"objects":[')
        later.seek(0)
        shutil.copyfileobj(later, sink, 1 << 20)
    sink.write(b"]}")


class _List:
    """A JSON list that grows by columns of documents."""

    def __init__(self, target: Sink | IO[bytes]) -> None:
        self._target = target
        self._begun = False

    def add(self, documents: pl.DataFrame) -> None:
        for part in documents.iter_slices(_ROWS):
            # a file that somebody pastes into a page must not end its script
            text = part.to_series().str.replace_all("<", "\\u003c", literal=True).str.join(",").item()
            if text:
                self._target.write((("," if self._begun else "") + text).encode())
                self._begun = True


def _reused(corpus: Corpus) -> pl.DataFrame:
    """The ids that several traces have."""
    counted = corpus.traces.group_by("trace_id").len().filter(pl.col("len") > 1).select("trace_id")
    return counted.collect(engine="streaming")


def _keys(piece: Corpus, again: pl.DataFrame) -> pl.DataFrame:
    """The name of every trace in ids of objects and events, which no other trace has: ``trace key origin``.

    Neither ``%`` nor ``#`` of a `trace_id` stays as it is, so that what follows them here is unambiguous.
    """
    safe = pl.col("trace_id")
    for character, spelt in (("%", "%25"), ("#", "%23")):
        safe = safe.str.replace_all(character, spelt, literal=True)
    number = pl.when(pl.col("trace_id").is_in(again["trace_id"].implode())).then(
        pl.lit("%@") + pl.col("trace").cast(pl.String)
    )
    start = pl.col("started_at").cast(pl.Datetime("us", "UTC")).cast(pl.Int64)
    return piece.traces.select("trace", key=safe + number.fill_null(""), origin=start).collect()


def _events(piece: Corpus, keys: pl.DataFrame, credits: pl.DataFrame | None) -> Iterator[pl.DataFrame]:
    """Events in order of their traces, each with what it concerns."""
    fields = list(_EVENT_FIELDS)
    kinds = piece.agents.select("trace", "agent", pl.col("kind").cast(pl.String)).collect()
    facts = keys.join(piece.traces.select("trace", "task_id").collect(), on="trace", maintain_order="left")
    needed = ("trace", "seq", "id", "t", "type", "agent", "to", "tool", *fields)
    rows = piece.events.select(needed).collect().join(facts, on="trace", how="left", maintain_order="left")
    for name in ("agent", "to"):
        side = kinds.select("trace", pl.col("agent").alias(name), pl.col("kind").alias(f"{name} kind"))
        rows = rows.join(side, on=["trace", name], how="left", maintain_order="left")
    if credits is not None:
        rows = rows.join(credits, on=["trace", "seq"], how="left", maintain_order="left")
        fields.append("credit")
    seconds = pl.col("t").clip(upper_bound=_LAST)
    micros = (seconds * 1e6).round().cast(pl.Int64) + pl.col("origin").fill_null(0)
    time = pl.from_epoch(micros.clip(upper_bound=_LAST * 10**6), "us").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    # an event names an object once: readers that know no second relation would drop one of their own choice
    actor, to, tool = _actor("agent"), _actor("to"), pl.lit("tool:") + pl.col("tool").cast(pl.String)
    related = [
        _relation(pl.lit("trace:") + pl.col("key"), "within"),
        _relation(pl.lit("task:") + pl.col("task_id"), "works_on"),
        _relation(actor, "performed_by"),
        _relation(pl.when(to != actor).then(to), "addressed_to"),
        _relation(pl.when((tool != actor) & tool.ne_missing(to)).then(tool), "uses"),
    ]
    for some in rows.iter_slices(_ROWS):
        yield some.select(
            _document(
                id=_text(pl.col("key") + "#" + pl.col("id")),
                type=_text(pl.col("type").cast(pl.String)),
                time=_text(time),
                attributes=_list([_attribute(some[name], None) for name in fields]),
                relationships=_list(related),
            )
        )


def _actor(column: str) -> pl.Expr:
    """The object that a name of an event stands for."""
    name = pl.col(column).cast(pl.String)
    return (
        pl.when(pl.col(f"{column} kind") == "tool")
        .then(pl.lit("tool:") + name)
        .otherwise(pl.lit("agent:") + pl.col("key") + "#" + name)
    )


def _actors(piece: Corpus, keys: pl.DataFrame) -> pl.DataFrame:
    """Agents and users, with those that messages go to and that do nothing themselves."""
    agents = piece.agents.with_columns(pl.col("agent", "kind", "role", "parent").cast(pl.String))
    spoken = piece.events.select("trace", agent=pl.col("to").cast(pl.String)).drop_nulls().unique()
    rows = (
        pl.concat([agents, spoken.join(agents, on=["trace", "agent"], how="anti")], how="diagonal")
        .filter(pl.col("kind").fill_null("agent") != "tool")
        .sort("trace", "first_seq", "agent", nulls_last=True)
        .collect()
        .join(keys, on="trace", maintain_order="left")
    )
    prefix = pl.lit("agent:") + pl.col("key") + "#"
    is_user = (pl.col("kind") == "user") | (pl.col("agent") == "user")
    kind = pl.when(is_user).then(pl.lit("user")).otherwise(pl.lit("agent"))
    attributes = [_attribute(rows[name], _STATIC) for name in _AGENT_FIELDS]
    related = [
        _relation(pl.lit("trace:") + pl.col("key"), "takes_part_in"),
        _relation(prefix + pl.col("parent"), "child_of"),
    ]
    return rows.select(_object(prefix + pl.col("agent"), kind, attributes, related))


def _traces(piece: Corpus, keys: pl.DataFrame, measures: list[str]) -> pl.DataFrame:
    """Traces with their rewards, costs and metrics."""
    rows = piece.traces.collect().join(keys, on="trace", maintain_order="left")
    values = piece.measures.select("trace", "value", name=_measure()).collect()
    wide = values.pivot("name", index="trace", values="value") if values.height else values.select("trace")
    rows = rows.join(wide, on="trace", how="left", maintain_order="left")
    present = [name for name in measures if name in wide.columns]
    attributes = [_attribute(rows[name], _STATIC) for name in (*_TRACE_FIELDS, *present)]
    related = [_relation(pl.lit("task:") + pl.col("task_id"), "of_task")]
    return rows.select(_object(pl.lit("trace:") + pl.col("key"), pl.lit("trace"), attributes, related))


def _tasks(piece: Corpus) -> Iterable[str]:
    return piece.traces.select(pl.col("task_id").unique(maintain_order=True)).collect()["task_id"]


def _tools(piece: Corpus) -> Iterator[str]:
    used = piece.events.select(pl.col("tool").cast(pl.String).unique(maintain_order=True))
    acting = piece.agents.filter(pl.col("kind").cast(pl.String) == "tool").select(
        tool=pl.col("agent").cast(pl.String).unique(maintain_order=True)
    )
    names = pl.concat([used, acting]).drop_nulls().unique(maintain_order=True)
    yield from names.collect()["tool"]


def _measure() -> pl.Expr:
    """The name of a measure among the attributes of a trace, where no other attribute has a point."""
    return (pl.col("kind").cast(pl.String) + "." + pl.col("name").cast(pl.String)).alias("name")


def _object(id: pl.Expr, kind: pl.Expr, attributes: list[pl.Expr], related: list[pl.Expr]) -> pl.Expr:
    parts = {"id": _text(id), "type": _text(kind)}
    parts |= {"attributes": _list(attributes)} if attributes else {}
    parts |= {"relationships": _list(related)} if related else {}
    return _document(**parts)


# Documents are put together as text: lists of structs, most of them null, cost ten times as much.


def _document(**parts: pl.Expr) -> pl.Expr:
    """A JSON object of values that are JSON already."""
    pieces: list[pl.Expr] = []
    for name, value in parts.items():
        pieces += [pl.lit(("," if pieces else "{") + f'"{name}":'), value]
    return pl.concat_str(*pieces, pl.lit("}"))


def _list(parts: list[pl.Expr]) -> pl.Expr:
    """A JSON list of the parts that are not null."""
    listed = pl.concat_str(parts, separator=",", ignore_nulls=True) if parts else pl.lit("")
    return pl.concat_str(pl.lit("["), listed, pl.lit("]"))


def _text(value: pl.Expr) -> pl.Expr:
    """A JSON string; null stays null."""
    encoded = pl.struct(v=value).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.when(value.is_not_null()).then(encoded)


def _attribute(column: pl.Series, time: str | None) -> pl.Expr:
    value = pl.col(column.name)
    if column.null_count() == column.len():
        return pl.lit(None, pl.String)
    is_text = column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum)
    text = value.cast(pl.String)
    spelt = _text(text) if is_text else pl.concat_str(pl.lit('"'), text, pl.lit('"'))
    at = "" if time is None else f',"time":"{time}"'
    return pl.concat_str(pl.lit('{"name":' + json.dumps(column.name) + ',"value":'), spelt, pl.lit(at + "}"))


def _relation(id: pl.Expr, qualifier: str) -> pl.Expr:
    return pl.concat_str(pl.lit('{"objectId":'), _text(id), pl.lit(f',"qualifier":"{qualifier}"}}'))


def _event_types(credited: bool) -> bytes:
    fields = [(name, _kind(SCHEMAS["events"][name])) for name in _EVENT_FIELDS]
    fields += [("credit", "float")] if credited else []
    words = _TYPES.categories.to_list() if isinstance(_TYPES, pl.Enum) else []
    return _declared([(word, fields) for word in words])


def _object_types(measures: list[str]) -> bytes:
    trace = [(name, _kind(SCHEMAS["traces"][name])) for name in _TRACE_FIELDS]
    trace += [(name, "float") for name in measures]
    agent = [(name, _kind(SCHEMAS["agents"][name])) for name in _AGENT_FIELDS]
    return _declared([("trace", trace), ("task", []), ("agent", agent), ("user", agent), ("tool", [])])


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integer"
    if dtype.is_float():
        return "float"
    return "boolean" if dtype == pl.Boolean() else "string"


def _declared(types: list[tuple[str, list[tuple[str, str]]]]) -> bytes:
    listed = [
        {"name": name, "attributes": [{"name": field, "type": kind} for field, kind in fields]}
        for name, fields in types
    ]
    return json.dumps(listed, separators=(",", ":")).replace("<", "\\u003c").encode()


OCEL: Final = Export(
    "ocel",
    "Object-centric event log, OCEL 2.0 JSON: traces, tasks, agents, tools",
    "pm4py, OCPQ, ocpa, any OCEL 2.0 reader",
    ".json",
    "corpus",
    ("trace_id", "credits"),
    _write,
)
