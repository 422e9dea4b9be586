"""Reading takes time by the bytes: at most 1.2 times as much a byte for four times the bytes.

docs/security.md says so of whatever is read. Here a hostile hand has made a recording of each format large:
many agents, many calls, equal ids, in one run. Shared machines are noisy: what seems slow is measured again,
the least time counts.
"""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrace as ot
from samples.grown import Form, forms

IMPORTERS = Path(__file__).parents[2] / "data" / "importers"
FORMATS = sorted(folder.name for folder in IMPORTERS.iterdir() if folder.name != "mapping")
SMALL = 1_500_000
"""Bytes of the smaller input."""
TIMES = 4
LINEAR = 1.2
TRIES = 4


def source_of(name: str) -> Path:
    """The input of a format: a file, or a folder."""
    (source,) = [path for path in (IMPORTERS / name).iterdir() if path.stem == "input"]
    return source


def seconds(path: Path, name: str) -> float:
    """Processor's seconds that it takes to read a recording."""
    since = time.process_time()
    corpus = ot.read_traces(path, format=name, max_record=1 << 30, threads=1, progress=False)
    taken = time.process_time() - since
    assert corpus.records["read"] > 0
    return taken


def excess(write: Callable[[int, Path], Path], copies: int, name: str, folder: Path) -> float:
    """How many times as long a byte takes in `TIMES` times the copies."""
    little, much = float("inf"), float("inf")
    few, many = write(copies, folder / "few"), write(TIMES * copies, folder / "many")
    for _ in range(TRIES):
        little, much = min(little, seconds(few, name)), min(much, seconds(many, name))
        if much <= LINEAR * TIMES * little:
            break
    return much / (TIMES * little)


def grown(source: Path, form: Form) -> Callable[[int, Path], Path]:
    """What writes the recording with one of its files grown."""

    def write(copies: int, folder: Path) -> Path:
        shutil.rmtree(folder, ignore_errors=True)
        if source.is_dir():
            shutil.copytree(source, folder)
        else:
            folder.mkdir()
        path = folder / (form.path.relative_to(source) if source.is_dir() else source.name)
        path.write_text(form.text(copies))
        return folder

    return write


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORMATS)
def test_time_grows_with_the_bytes(name: str, tmp_path: Path) -> None:
    source = source_of(name)
    found = {
        form.name: excess(grown(source, form), max(SMALL // form.unit, 1), name, tmp_path)
        for form in forms(source)
    }
    assert found
    assert not {form: f"{times:.1f} times" for form, times in found.items() if times > LINEAR}


def otel_chain(agents: int, folder: Path) -> Path:
    """Agents of which each asks the next one, as spans."""
    spans = [
        {
            "traceId": f"{1:032x}",
            "spanId": f"{agent + 1:016x}",
            "parentSpanId": f"{agent:016x}" if agent else "",
            "name": "invoke",
            "kind": 1,
            "startTimeUnixNano": str(10**18 + agent),
            "endTimeUnixNano": str(10**18 + 2 * agents - agent),
            "attributes": [
                {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
                {"key": "gen_ai.agent.name", "value": {"stringValue": f"a{agent}"}},
            ],
        }
        for agent in range(agents)
    ]
    path = folder.with_suffix(".json")
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    return path


def claude_chain(lines: int, folder: Path) -> Path:
    """Side chains and calls of agents in turn, each hanging on the line before."""
    path = folder.with_suffix(".jsonl")
    with path.open("w") as out:
        for line in range(lines):
            by = "assistant" if line % 2 else "user"
            call = {"type": "tool_use", "id": f"tu{line}", "name": "Task", "input": {"prompt": "p"}}
            record = {
                "parentUuid": f"u{line - 1}" if line else None,
                "isSidechain": line % 2 == 1,
                "userType": "external",
                "cwd": "/",
                "sessionId": "s",
                "version": "1",
                "type": by,
                "message": {"role": by, "content": [call] if line % 2 else "p"},
                "uuid": f"u{line}",
                "timestamp": "2026-01-01T00:00:00Z",
            }
            print(json.dumps(record), file=out)
    return path


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "chain"), [("otel", otel_chain), ("claude_code", claude_chain)])
def test_time_grows_with_chains_of_agents(
    name: str, chain: Callable[[int, Path], Path], tmp_path: Path
) -> None:
    assert excess(chain, 16_000, name, tmp_path) <= LINEAR
