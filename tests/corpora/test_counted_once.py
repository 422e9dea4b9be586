"""Published corpora: what is copied, spelt anew or read in another order counts once (R12)."""

import shutil
from pathlib import Path

import pytest

import orchestrace as ot
from samples import copies
from samples.inputs import written

FOLDERS = [
    "codex-forks", "claude-code", "agentdojo", "agentrx", "agent-cli-fixtures", "atif-goldens",
    "cli-sessions", "cli-streams", "tau-bench", "codex", "inspect-ai", "langfuse", "nemo-gym", "openhands",
    "otel-kagent", "pi", "swe-agent", "strands-spans", "survey-artifact", "trail", "verifiers",
    "who-and-when",
]  # fmt: skip


def taken(corpora: Path, name: str, target: Path) -> Path:
    """A folder of the corpora, to be copied into."""
    shutil.copytree(corpora / name, target)
    return target


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("way", copies.WAYS)
def test_a_copy_counts_nothing(corpora: Path, name: str, way: str, tmp_path: Path) -> None:
    if (name, way) == ("survey-artifact", "respelt"):
        return  # native records are known by their bytes
    folder = taken(corpora, name, tmp_path / "whole")
    whole = ot.read_traces(folder)
    for at, some in enumerate(copies.subsets(copies.recordings(folder), 11)):
        work = tmp_path / str(at)
        shutil.copytree(folder, work)
        for path in some:
            copies.WAYS[way](work / path.relative_to(folder), work)
        again = ot.read_traces(work)
        assert copies.counted(again) == copies.counted(whole)
        assert again.records["used"] == whole.records["used"]


@pytest.mark.every_nth(1)
@pytest.mark.parametrize("name", FOLDERS)
def test_neither_order_nor_threads_change_a_trace(corpora: Path, name: str) -> None:
    files = copies.recordings(corpora / name)
    # As lines: recordings of two tools that name no session may have the name of one file.
    whole = sorted(written(ot.read_traces(files)))
    for threads, shuffled in ((2, files[::-1]), (7, files[1::2] + files[::2])):
        assert sorted(written(ot.read_traces(shuffled, threads=threads))) == whole
