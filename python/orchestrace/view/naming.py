"""Names of a run for readers: when it began, its model, its title, the first words of its task."""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ..base.errors import InputError, ParameterError
from ..corpus.corpus import Corpus
from ..corpus.parts import input_of
from ..corpus.source import event_texts

SEARCHED: Final = 64 * 2**20
"""Bytes of recordings, unpacked, in which titles are looked for."""
LONGEST: Final = 160
"""Characters of a title, or of the first words of a task."""
_TITLES: Final = {"ai-title": "aiTitle", "custom-title": "customTitle"}
"""Kinds of records of Claude Code that have a title, that of a user last: it wins."""
_LINE: Final = 10_000
"""Bytes of a line that may be the record of a title."""
_PLACES: Final = (
    *(("message", "content"), ("payload", "content"), ("payload", "message"), ("payload", "text")),
    *(("content",), ("text",), ("question",), ("prompt",), ("input",)),
)
"""Paths to the text in records of one event."""


def names_of(corpus: Corpus) -> pl.DataFrame:
    """A row per trace: ``trace started_at model title``, each null where the recording does not say it.

    ``started_at`` is text in UTC, to the minute. ``model`` is the one of most events, with how many others
    there are: ``gpt-5 +2``.
    """
    began = corpus.traces.select(
        "trace", "trace_id", "importer", "file", pl.col("started_at").dt.strftime("%Y-%m-%d %H:%M")
    ).collect(engine="streaming")
    models = (
        corpus.events.select("trace", pl.col("model").cast(pl.String))
        .filter(pl.col("model").is_not_null())
        .group_by("trace", "model")
        .len()
        .sort(["trace", "len", "model"], descending=[False, True, False])
        .group_by("trace", maintain_order=True)
        .agg(pl.col("model").first(), others=pl.len() - 1)
        .with_columns(
            model=pl.when(pl.col("others") > 0)
            .then(pl.format("{} +{}", "model", "others"))
            .otherwise("model")
        )
        .drop("others")
        .collect(engine="streaming")
    )
    titles = _titles(corpus, began)
    of_traces = pl.Series([titles.get(name) for name in began["trace_id"]], dtype=pl.String)
    return (
        began.with_columns(title=of_traces)
        .join(models, on="trace", how="left", maintain_order="left")
        .select("trace", "started_at", "model", "title")
    )


def _titles(corpus: Corpus, traces: pl.DataFrame) -> dict[str, str]:
    """Titles by session, of files of Claude Code that are at hand."""
    files = traces.filter(pl.col("importer").cast(pl.String) == "claude_code")["file"].cast(pl.String)
    titles: dict[str, tuple[int, str]] = {}
    budget = _Budget(SEARCHED)
    for file in files.drop_nulls().unique(maintain_order=True):
        if budget.left < 0:
            break
        try:
            path, _ = input_of(corpus, file)
            for session, rank, title in _titles_of(path, budget):
                if session not in titles or titles[session][0] <= rank:
                    titles[session] = (rank, title)
        except (InputError, ParameterError, OSError, EOFError, ValueError, zlib.error):
            continue  # gone, changed, or in an archive
    return {session: title for session, (_, title) in titles.items()}


@dataclass
class _Budget:
    """Bytes that may still be read, unpacked: a small file may hold many."""

    left: int


def _titles_of(path: str, budget: _Budget) -> Iterator[tuple[str, int, str]]:
    """Session, rank and title of each record of a file that has one, while the budget lasts."""
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as lines:
        for line in iter(lambda: lines.readline(_LINE), b""):
            budget.left -= len(line)
            if budget.left < 0:
                return
            if b'-title"' not in line:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            kind = record.get("type") if isinstance(record, dict) else None
            title = record.get(_TITLES[kind]) if kind in _TITLES else None
            session = record.get("sessionId") if title else None
            if isinstance(title, str) and isinstance(session, str):
                yield session, list(_TITLES).index(str(kind)), title[:LONGEST]


def task_of(corpus: Corpus, trace: int) -> str | None:
    """The first words that a user said in a run: text of a recording, for those who ask for it.

    None where no event is of a user, or its record does not say what was said.
    """
    mine = pl.col("trace") == trace
    users = corpus.agents.filter(mine, pl.col("kind").cast(pl.String) == "user")
    names = users.select(pl.col("agent").cast(pl.String)).collect()["agent"]
    messages = corpus.events.filter(
        mine,
        pl.col("type").cast(pl.String) == "message",
        pl.col("agent").cast(pl.String).is_in(names.implode()),
    )
    first = messages.select("seq").head(1).collect()["seq"].to_list()
    try:
        return next((_words(text) for text in event_texts(corpus, trace, first)), None)
    except (InputError, ParameterError):
        return None


def _words(record: str) -> str | None:
    try:
        tree = json.loads(record)
    except (ValueError, RecursionError):
        return None
    for place in _PLACES:
        words = _text_of(_at(tree, place))
        if words:
            return words[:LONGEST]
    return None


def _at(tree: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _text_of(value: Any) -> str:
    """A text, or the first part of a list of parts that has one."""
    if isinstance(value, list):
        return next((text for text in map(_text_of, value) if text), "")
    if isinstance(value, dict):
        return _text_of(value.get("text"))
    return " ".join(value.split()) if isinstance(value, str) else ""
