"""Recordings without names, texts and dates: what verbs compute of them stays."""

import hashlib
import hmac
from collections.abc import Collection, Iterator
from typing import Final

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.schema import SCHEMAS
from ..corpus.corpus import Corpus
from ..decisions.rows import DECISIONS

LEAST_KEY: Final = 16
"""Bytes of a key, at least: a shorter one can be guessed, and names with it."""
_DIGITS: Final = 16

_WORDS: Final = frozenset(
    {"user", "scorer", "environment", "spawn", "no_spawn", "stop", "continue", *DECISIONS}
)
"""Names and actions that verbs read as words."""
_MEASURES: Final = frozenset({"team", "task_success", "train_step"})
"""Rewards and metrics that are called so everywhere; costs are, too."""

_NAMED: Final = {
    # Who acts, uses and is addressed has one kind: verbs ask whether two of these are the same.
    **dict.fromkeys(("agent", "role", "from", "to", "tool", "parent"), "name"),
    **dict.fromkeys(("trace_id", "id", "event_id"), "id"),
    **dict.fromkeys(("task_id", "group_id", "subtask_id"), "task"),
    **dict.fromkeys(("content_ref", "content_hash", "args_hash", "harness_hash"), "hash"),
    **dict.fromkeys(("state_key", "prefix_key", "sandbox_id"), "state"),
    **{"system": "system", "model": "model", "action": "action", "file": "file", "annotator": "annotator"},
    "label": "label",
}
"""Columns that are names, and the kind of each: equal names of a kind stay equal."""
_DROPPED: Final = ("line", "offset", "length", "extras", "excerpt", "path")
"""Columns without which a table says the same: where records lie, and what is not a column."""


class Pseudonyms:
    """Names by a key: HMAC-SHA256 of kind and name, of which nobody without the key gets back to the name.

    Raises
    ------
    ParameterError
        The key has fewer than 16 bytes.

    Examples
    --------
    >>> from orchestrace.exports.pseudonyms import Pseudonyms
    >>> names = Pseudonyms(b"a key of our own")
    >>> names.of("name", "ann") == names.of("name", "ann") != names.of("task", "ann")
    True
    >>> names.of("name", "user")
    'user'
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < LEAST_KEY:
            raise ParameterError(f"anonymize has {len(key)} bytes, expected a key of at least {LEAST_KEY}")
        self._key = key

    def of(self, kind: str, name: str) -> str:
        """The name that stands for a name of a kind; empty ones and words of the engine stay."""
        if not name or (kind in ("name", "action") and name in _WORDS):
            return name
        digest = hmac.digest(self._key, f"{kind}\0{name}".encode(), hashlib.sha256).hex()
        return f"sha256:{digest}" if kind == "hash" else f"{kind}-{digest[:_DIGITS]}"

    def column(self, values: pl.Series, kind: str) -> pl.Series:
        """A column of names as one of pseudonyms.

        Raises
        ------
        ParameterError
            Two names would have one pseudonym.
        """
        texts = values.cast(pl.String)
        names = texts.unique().drop_nulls()
        others = pl.Series([self.of(kind, name) for name in names], dtype=pl.String)
        if others.n_unique() < names.len():
            raise ParameterError(f"two names of the column '{values.name}' would be one: use another key")
        return texts.replace_strict(names, others, default=None, return_dtype=pl.String).alias(values.name)


def anonymized(corpus: Corpus, names: Pseudonyms) -> Iterator[Corpus]:
    """The pieces of a corpus under other names.

    Names, tasks, ids and hashes become pseudonyms, times begin at 0 in each trace, and what is free text is
    left out: extras, excerpts, messages, places in files. Numbers stay.
    """
    for piece in corpus.slices():
        yield _anonymized(piece, names)


def _anonymized(piece: Corpus, names: Pseudonyms) -> Corpus:
    begin = pl.min_horizontal("t", "t_end").min().over("trace")
    columns = [name for name in SCHEMAS["events"] if name not in _DROPPED]
    events = piece.events.select(columns).with_columns(pl.col("t", "t_end") - begin).collect()
    traces = piece.traces.collect()
    traces = traces.with_columns(started_at=pl.lit(None, traces.schema["started_at"]))
    measures = piece.measures.collect()
    costs = measures["kind"] == "cost"
    # Whoever maps a format of their own gives it a name of their own.
    formats = {str(importer["name"]) for importer in _core.importers()} | {"arrow", "mapping"}
    named = {
        "name": _with_words(measures["name"], "measure", names, _MEASURES, costs),
        "importer": _with_words(traces["importer"], "format", names, formats),
    }
    return Corpus.from_arrow(
        traces=_named(traces, names).with_columns(importer=named["importer"]),
        events=_named(events, names),
        edges=piece.edges.collect(),
        measures=measures.with_columns(name=named["name"]),
        labels=_named(piece.labels.collect(), names),
        findings=piece.findings.with_columns(message=pl.lit("")).collect(),
    )


def _with_words(
    values: pl.Series, kind: str, names: Pseudonyms, words: Collection[str], exempt: pl.Series | None = None
) -> pl.Series:
    """A column of pseudonyms but for words that are called so everywhere, and for rows that are exempt."""
    texts = values.cast(pl.String)
    is_word = texts.is_in(list(words)) if exempt is None else texts.is_in(list(words)) | exempt
    return names.column(values, kind).zip_with(~is_word, texts)


def _named(table: pl.DataFrame, names: Pseudonyms) -> pl.DataFrame:
    """A table with pseudonyms, and without what may hold anything."""
    table = table.drop(_DROPPED, strict=False)
    return table.with_columns(
        names.column(table[column], kind) for column, kind in _NAMED.items() if column in table.columns
    )
