"""Mapping files of custom formats, checked against records."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

import polars as pl

from .base.arguments import Threads
from .base.progress import Progress, reporting
from .base.schema import MAPPING_COUNTS
from .base.verbs import verb
from .corpus.mapping_files import MappingFile
from .corpus.reading import Source, checked_options, input_files, read_inputs

__all__ = ["check"]

_UNREAD: Final[dict[str, Any]] = {
    "field": pl.String,
    "type": pl.String,
    "records": pl.UInt64,
    "values": pl.UInt64,
}


@verb
def check(
    mapping: MappingFile,
    source: Source | Iterable[Source],
    *,
    threads: Threads = None,
    progress: Progress = None,
) -> dict[str, pl.DataFrame]:
    """Report what a mapping file finds in records, key by key, and which of their fields no key reads.

    Parameters
    ----------
    mapping
        A TOML or JSON file, or a dict of its keys (docs/formats/mapping.md).
    source, threads, progress
        As in `read_traces`.

    Returns
    -------
    dict of DataFrame
        ``keys``: a row per way to a value, in the order of the sections: ``key`` (``step.tokens_in``),
        ``pointer`` as the file spells it, ``matched``: how many steps, records or elements of a list have a
        value there, ``of``: in how many it was looked for, ``type``: of JSON, as in ``"number, string"``. A
        key that is looked for in answers only, such as ``tokens_in``, counts answers; 0 of 0 was never looked
        for. Constants (``"=word"``) have no row.

        ``unread``: ``field`` that no key reads, a JSON pointer into the record with ``*`` for every element
        of a list, its ``type``, ``records`` that have it, and ``values`` in all of them. Those that most
        records have come first, at most 200. Null counts as absent.

        ``records``: ``status``, ``kind`` of those ignored, ``count``. ``quarantine``: ``code path message``
        of the first, and ``records``. No frame has a value of a record, but for what messages quote.

    Raises
    ------
    InputError
        Nothing matches, or a file cannot be read.
    ParameterError
        It is no mapping: one line with the file, the key, what was found and what is expected.

    Notes
    -----
    Reads everything and keeps nothing: linear in the bytes. At most 10,000 distinct fields are counted.
    `Corpus.mapping_counts` has ``keys`` after any reading; a key that never had a value is also the finding
    ``mapping.unused``.

    Examples
    --------
    >>> import io
    >>> import orchestrace as ot
    >>> log = b'{"run": 1, "ev": "llm", "text": "hi", "tokens": {"in": 7}}'
    >>> house = {
    ...     "trace": {"id": "/run"},
    ...     "step": {"kind": "=response", "content": "/text", "tokens_in": "/tokns/in"},
    ... }
    >>> report = ot.mapping.check(house, io.BytesIO(log))
    >>> report["keys"].filter(matched=0).select("key", "pointer", "of").rows()
    [('step.tokens_in', '/tokns/in', 1)]
    >>> report["unread"]["field"].to_list()
    ['/ev', '/tokens/in']
    """
    options = checked_options({"mapping": mapping})
    with reporting(progress, "checking", in_bytes=True) as callback, ExitStack() as opened:
        inputs = input_files(source, opened).inputs
        options |= {"tables": ["record_counts"], "unread_fields": True}
        store = read_inputs(inputs, threads, callback, options)
    keys, unread = store.mapping_counts or ([], [])
    counts = pl.DataFrame(store.table("record_counts"))
    rejects = pl.DataFrame(store.table("quarantine"))
    return {
        "keys": pl.DataFrame(keys, schema=MAPPING_COUNTS, orient="row"),
        "unread": pl.DataFrame(unread, schema=_UNREAD, orient="row"),
        "records": counts.group_by("status", "kind").agg(pl.col("count").sum()).sort("status", "kind"),
        "quarantine": rejects.group_by("code", maintain_order=True).agg(
            pl.col("path", "message").first(), records=pl.len()
        ),
    }
