"""Find a text in recordings, and the events that say it.

Exits with 0 if there is a match, 1 if there is none, 2 if the call is wrong, as grep does.
"""

import warnings
from typing import Annotated, Any, Final

import typer

from ... import grep, read_corpus
from ...base.errors import ParameterError
from ...base.paths import expanded
from ...base.text import plain
from ...corpus.on_disk import is_corpus
from ...corpus.remote_inputs import is_remote_corpus
from ...corpus.searching import count_matches
from ..options import RecordingOptions
from ..output import FAILED
from ..registry import command
from ..tables import Columns, TableOptions

EXAMPLES: Final = (
    "grep trace_id runs.jsonl",
    'grep \'"type": *"return"\' runs.jsonl',
    "grep --count trace_id runs.jsonl",
    "grep trace_id runs.jsonl -m 2",
)
COLUMNS: Final = {"grep": Columns("trace_id event_id agent type text", "reason file line")}


@command
def run(
    pattern: Annotated[str, typer.Argument(help="A regular expression, or a text with --fixed.")],
    recordings: RecordingOptions,
    table: TableOptions,
    fixed: Annotated[bool, typer.Option("--fixed", "-F", help="The pattern is a text.")] = False,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", "-i", help="Letters match in both cases.")
    ] = False,
    count: Annotated[bool, typer.Option("--count", "-c", help="Print how many matches there are.")] = False,
    max_count: Annotated[
        int | None,
        typer.Option("--max-count", "-m", min=1, help="Most matches, the first ones of the files."),
    ] = None,
    context: Annotated[
        int, typer.Option("--context", "-C", min=0, help="Characters to show around a match.")
    ] = 40,
) -> None:
    if count and not (table.is_plain or table.json):
        raise ParameterError("--count prints one number: drop what is about a table")
    if count and max_count is not None:
        raise ParameterError("--max-count has no effect with --count, which counts all matches: drop one")
    place = expanded(recordings.paths[0])
    is_one = len(recordings.paths) == 1 and (is_corpus(place) or is_remote_corpus(place))
    if is_one and (recordings.format != "auto" or recordings.mapping is not None):
        raise ParameterError("--format and --mapping apply when a corpus is made: give them to ingest")
    source = read_corpus(recordings.paths[0]) if is_one else recordings.paths
    options: dict[str, Any] = {"fixed": fixed, "ignore_case": ignore_case, "threads": recordings.threads}
    options |= {"format": recordings.format, "mapping": recordings.mapping, "progress": True}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        number = count_matches(source, pattern, **options) if count else 0
        matches = None if count else grep(source, pattern, context=context, max_count=max_count, **options)
    for warning in warned:
        typer.echo(f"warning: {plain(warning.message)}", err=True)
    if matches is None:
        typer.echo(number)
        if not number:
            raise typer.Exit(FAILED)
        return
    if matches.is_empty() and table.is_plain:
        typer.echo(plain(f"no match for '{pattern}'"), err=True)
    else:
        table.give(matches, "matches", COLUMNS["grep"])
    if matches.is_empty():
        raise typer.Exit(FAILED)
