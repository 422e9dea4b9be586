"""List rejected records and why; exit with 1 if there are any."""

from typing import Final

import typer

from ...base.text import counted, plain_json
from ..options import Json, RecordingOptions
from ..output import FAILED
from ..recordings import opened
from ..registry import command
from ..tables import print_line

EXAMPLES: Final = ("validate runs.jsonl",)


@command
def run(recordings: RecordingOptions, as_json: Json = False) -> None:
    corpus = opened(recordings, extras=False)
    rejects, records = corpus.quarantine.collect(), corpus.records
    if as_json:
        typer.echo(plain_json(rejects.write_json()))
    else:
        for row in rejects.iter_rows(named=True):
            place = f" {row['path']}" if row["path"] else ""
            print_line(f"{row['file']}:{row['line']}: {row['code']}{place}: {row['message']}")
        counts = [f"{count:,} {status}" for status, count in records.items() if count and status != "read"]
        traces = counted(len(corpus), "trace")
        typer.echo(f"{counted(records['read'], 'record')}: {', '.join(counts) or 'none'}; {traces}")
    if records["quarantined"] or not records["used"]:
        raise typer.Exit(FAILED)
