"""One trace of thousands of agents, or of a million events: every call gives values, or says what they cost.

The calls are those of `large_trace_calls.py`. They run in a process whose address space is limited, so that
what runs away ends there. A call that takes longer than a calm machine needs for all of them has hung.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from example_calls import over_any_corpus

CALLS = Path(__file__).with_name("large_trace_calls.py")
BYTES = 8 << 30
HANGS_AFTER_S = 300.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the address space is limited on Linux only")


def outcomes(shape: str, size: int, group: str) -> dict[str, list[str]]:
    """What became of every call: ``value``, or ``refused`` with the message."""
    # a pool of many threads has a large address space before it does anything
    variables = {**os.environ, "POLARS_MAX_THREADS": "2", "MALLOC_ARENA_MAX": "2"}
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, str(CALLS), shape, str(size), group, str(BYTES)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda stream=process.stderr: errors.append(stream.read()))
        reader.start()
        found: dict[str, list[str]] = {}
        while True:
            watch = threading.Timer(HANGS_AFTER_S, process.kill)
            watch.start()
            line = process.stdout.readline()
            watch.cancel()
            if not line:
                break
            name, *words = line.rstrip("\n").split("\t")
            found[name] = words
        code = process.wait()
        reader.join()
    last = next((name for name, words in found.items() if words == ["begin"]), None)
    assert code == 0, f"{last or 'reading'} ended the process: {code}, {''.join(errors)[-500:]}"
    lost = {name: words for name, words in found.items() if words[0] not in ("value", "refused")}
    assert not lost
    return found


def test_games_of_unions_are_refused_from_21_players_on() -> None:
    found = outcomes("one", 1, "unions")
    assert len(found) == 22
    for name, words in found.items():
        method, _, players = name.partition(" of ")
        if players == "20":
            assert words == ["value"]
            continue
        verdict, message = words
        assert verdict == "refused", name
        for told in (f"'{method}'", f"up to {players} players", "evaluations", "20 players", "samples=1000"):
            assert told in message, (name, message)


@pytest.mark.parametrize(("shape", "agents"), [("line", 1), ("line", 1_025)])
def test_every_method_at_every_unit(shape: str, agents: int) -> None:
    found = outcomes(shape, agents, "methods")
    refused = {name.split(" by ")[0] for name, words in found.items() if words[0] == "refused"}
    games = {"shapley", "banzhaf", "normalized_banzhaf", "owen", "winter", "myerson", "permission"}
    assert refused == (games | {"precedence_shapley"} if agents > 1 else set())


def test_verbs_on_a_team_of_1025_agents() -> None:
    found = outcomes("team", 1_025, "verbs")
    for name in ("difference by event", "flow by agent", "flow by event"):
        assert found[f"explain {name}"] == ["value"]
    assert {f"example of {verb}" for verb in over_any_corpus()} <= set(found)


@pytest.mark.nightly
@pytest.mark.parametrize("group", ["methods", "verbs"])
@pytest.mark.parametrize(
    ("shape", "size"), [("team", 5_000), ("deep", 5_000), ("line", 20_000), ("one", 1_000_000)]
)
def test_large_traces(shape: str, size: int, group: str) -> None:
    found = outcomes(shape, size, group)
    if (shape, group) == ("one", "methods"):
        for method in ("difference", "owen", "winter", "shapley"):
            verdict, message = found[f"{method} by event"]
            assert verdict == "refused"
            assert "1000000 players" in message
    if (shape, group) == ("one", "verbs"):
        assert found["explain flow by event"] == found["explain flow by agent"] == ["value"]
        verdict, message = found["export as perfetto"]
        assert verdict == "refused"
        assert "max_bytes" in message
