"""Recordings of tools that are not read are refused by the name of the tool, and no hint leads nowhere."""

import re
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

TOOLS = {"atof": "NeMo Relay"}
FOLDERS = ("cli-sessions", "agent-cli-fixtures", "cli-streams")


def recordings(corpora: Path) -> dict[Path, str]:
    """All files that somebody may try, and the folder that says whose they are."""
    return {
        path: path.relative_to(corpora / folder).parts[0]
        for folder in FOLDERS
        for path in sorted((corpora / folder).rglob("*.json*"))
    }


def messages(corpus: ot.Corpus) -> list[str]:
    unknown = corpus.quarantine.collect().filter(pl.col("code").cast(pl.String) == "format.unknown")
    return list(unknown["message"])


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_read_is_refused_by_the_name_of_its_tool(corpora: Path) -> None:
    refused = set()
    for path, tool in recordings(corpora).items():
        if tool not in TOOLS:
            continue
        corpus = ot.read_traces(path)
        if len(corpus):
            continue
        assert any(TOOLS[tool] in message for message in messages(corpus)), (path, messages(corpus)[:1])
        for message in messages(corpus):
            assert "docs/formats/mapping.md" in message, path
        refused.add(tool)
    assert refused == set(TOOLS)


@pytest.mark.filterwarnings("ignore")
def test_a_format_that_a_message_names_reads_the_file(corpora: Path) -> None:
    tried = 0
    for path in recordings(corpora):
        for message in dict.fromkeys(messages(ot.read_traces(path))):
            for name in re.findall(r"pass format='(\w+)'", message):
                assert len(ot.read_traces(path, format=name)), (path, message)
            tried += 1
    assert tried, "nothing was refused, so nothing was tried"
