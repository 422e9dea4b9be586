"""Arguments that nobody means: every verb answers, or says in one line which argument is wrong, and why.

`make test` asks a sample of them, other ones with another ORCHESTRACE_SEED; `make nightly` asks all.
"""

import inspect
import os
import random
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from contract.hostile_values import HOSTILE, Call, calls, damaged, odd_paths
from namespaces import public

SEED = int(os.environ.get("ORCHESTRACE_SEED", "0"))
SAMPLE = 12
PATHS = frozenset({"config", "folder", "mapping", "out", "path", "sink", "source", "target"})
LONGEST = 10_000


VERBS = sorted(
    name
    for name, verb in public()
    if callable(verb) and not inspect.isclass(verb) and inspect.signature(verb).parameters
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Call]]:
    """The calls, in a folder where they may leave what they like."""
    folder = tmp_path_factory.mktemp("calls")
    before = Path.cwd()
    os.chdir(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield calls(folder)
    os.chdir(before)


# What it is given stays registered; tests/credit/test_own_methods.py judges its arguments.
APART = frozenset({"credit_method"})


# Parameters that take a function.
CALLED = frozenset({"outcome", "value"})


def test_every_verb_has_a_call(known: Mapping[str, Call]) -> None:
    called = {name.split(" ")[0] for name in known}
    assert not set(VERBS) - called - APART


def complaint(call: Call, changed: Mapping[str, Any]) -> str | None:
    """What is wrong with how a call ends; None where it answers, or refuses in one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = call.answer(changed)
            if isinstance(answer, pl.LazyFrame):
                answer.collect()
    except ot.OrchestraceError as error:
        told = str(error)
        if not told or not told.isprintable() or len(told) > LONGEST:
            return f"says {told[: 2 * LONGEST]!r}"
    except BaseException as error:  # a panic is one of these
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{type(error).__name__}: {error}"
    return None


def odd_arguments(call: Call, chance: random.Random, folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Name, value and kind of every argument that nobody means."""
    for parameter in call.parameters():
        for kind, value in HOSTILE.items():
            # What a function of the caller raises is the caller's.
            if not callable(value) or parameter not in CALLED:
                yield parameter, value, kind
        given = call.given.get(parameter)
        if isinstance(given, pl.DataFrame):
            yield from ((parameter, frame, kind) for kind, frame in damaged(given, chance))
        if parameter in PATHS:
            yield from ((parameter, path, kind) for kind, path in odd_paths(folder).items())


def found(call: Call, folder: Path, sample: int | None) -> list[str]:
    chance = random.Random(SEED)
    odd = list(odd_arguments(call, chance, folder))
    if sample is not None:
        odd = chance.sample(odd, min(sample, len(odd)))
    return [
        f"{parameter}: {kind}: {told}"
        for parameter, value, kind in odd
        if (told := complaint(call, {parameter: value})) is not None
    ]


def test_calls_work(known: Mapping[str, Call]) -> None:
    told = {name: complaint(call, {}) for name, call in known.items()}
    assert not {name: what for name, what in told.items() if what is not None}


def test_some_odd_arguments(known: Mapping[str, Call], tmp_path: Path) -> None:
    told = {name: found(call, tmp_path, SAMPLE) for name, call in known.items()}
    assert not {name: what for name, what in told.items() if what}


@pytest.mark.nightly
def test_all_odd_arguments(known: Mapping[str, Call], tmp_path: Path) -> None:
    threads = threading.active_count()
    told = {name: found(call, tmp_path, None) for name, call in known.items()}
    assert not {name: what for name, what in told.items() if what}
    assert threading.active_count() <= threads + 2
