"""Write rejected records to a file, where you can repair them."""

from pathlib import Path
from typing import Annotated, Final

import typer

from ...base.text import counted, plain
from ..options import Force, RecordingOptions
from ..recordings import opened, refuse_unused
from ..registry import command

EXAMPLES: Final = ("quarantined broken.jsonl -o rejects.jsonl",)


@command
def run(
    recordings: RecordingOptions,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for the records, one per line.")],
    force: Force = False,
) -> None:
    corpus = opened(recordings)
    if not corpus.records["quarantined"]:
        refuse_unused(corpus, recordings)
    count = corpus.write_quarantined(output, overwrite=force)
    typer.echo(f"wrote {plain(output)}: {counted(count, 'record')}")
