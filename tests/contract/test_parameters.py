"""Arguments that nobody means: every verb answers, or says in one line which argument is wrong, and why.

`make test` asks a sample of them, other ones with another ORCHESTRACE_SEED; `make nightly` asks all.
"""

import copy
import inspect
import io
import os
import random
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from contract.hostile_values import APART, HOSTILE, calls, damaged, examples, odd_paths
from example_calls import Call, parameters
from namespaces import public

SEED = int(os.environ.get("ORCHESTRACE_SEED", "0"))
SAMPLE = 12
PATHS = frozenset({"config", "folder", "mapping", "out", "path", "sink", "source", "target"})
LONGEST = 10_000


UNSEEN = frozenset({"progress", "threads"})
"""Parameters that have a test of their own: a bar, and threads that stay for the life of a process."""


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


# Parameters that take a function.
CALLED = frozenset({"outcome", "value"})


def test_every_public_function_has_a_call(known: Mapping[str, Call]) -> None:
    called = {name.split(" ")[0] for name in known}
    functions = {name for name, one in public() if inspect.isfunction(one) and parameters(one)}
    assert functions - called == APART


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


def named_parameters(verb: Callable[..., Any]) -> list[str]:
    """Names of the parameters that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [one.name for one in parameters(verb) if one.kind in kinds and one.name not in UNSEEN]


def odd_arguments(call: Call, chance: random.Random, folder: Path) -> Iterator[tuple[str, Any, str]]:
    """Name, value and kind of every argument that nobody means."""
    for parameter in named_parameters(call.verb):
        for kind, value in HOSTILE.items():
            # What a function of the caller raises is the caller's.
            if not callable(value) or parameter not in CALLED:
                # what writes to a stream leaves it full
                yield parameter, copy.copy(value) if isinstance(value, io.IOBase) else value, kind
        value = call.named.get(parameter)
        if isinstance(value, pl.DataFrame):
            yield from ((parameter, frame, kind) for kind, frame in damaged(value, chance))
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


def assert_answered(calls: Mapping[str, Call]) -> None:
    """Nothing is refused before an argument is odd: that would ask nothing of the others."""
    for name, call in calls.items():
        try:
            with warnings.catch_warnings(action="ignore"):
                answer = call.answer()
                if isinstance(answer, pl.LazyFrame):
                    answer.collect()
        except ot.OrchestraceError as error:
            pytest.fail(f"{name} is refused: {error}")


def test_calls_by_hand_work(known: Mapping[str, Call]) -> None:
    """Examples have answered once when they were recorded; `test_paths.py` repeats those with files."""
    assert_answered({name: call for name, call in known.items() if name not in examples()})


@pytest.mark.nightly
def test_examples_answer_again(known: Mapping[str, Call]) -> None:
    assert_answered(examples())


def test_some_odd_arguments(known: Mapping[str, Call], tmp_path: Path) -> None:
    told = {name: found(call, tmp_path, SAMPLE) for name, call in known.items()}
    assert not {name: what for name, what in told.items() if what}


@pytest.mark.nightly
def test_all_odd_arguments(known: Mapping[str, Call], tmp_path: Path) -> None:
    threads = threading.active_count()
    told = {name: found(call, tmp_path, None) for name, call in known.items()}
    assert not {name: what for name, what in told.items() if what}
    assert threading.active_count() <= threads + 2
