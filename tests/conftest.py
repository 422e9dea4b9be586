"""What all tests share."""

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from orchestrace.credit import registry
from samples.examples import NIGHTLY

# how long an example takes hangs on what else the machine does
settings.register_profile("every change", derandomize=True, database=None, deadline=None)
settings.register_profile("every night", deadline=None)
settings.load_profile(
    "every night" if NIGHTLY else "every change"
)  # before a test asks for settings of its own


class ExamplesAlone:
    """What an example of a docstring registers is gone after it: its names are gone, too."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = dict(registry._METHODS)
        try:
            return (yield)
        finally:
            if isinstance(item, pytest.DoctestItem):
                # the package's own are registered once, when their modules load
                loaded = {name: one for name, one in registry._METHODS.items() if name in registry.FITTED}
                registry._METHODS.clear()
                registry._METHODS.update(before | loaded)


class Index:
    """What a night ran and how long each file took, at the end of what it prints."""

    def __init__(self) -> None:
        self.cases: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        self.cases[file].add(report.nodeid)
        self.seconds[file] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("what was run, and how long")
        for file, cases in sorted(self.cases.items()):
            terminalreporter.write_line(f"{self.seconds[file]:8,.0f} s {len(cases):6,} cases  {file}")


def pytest_configure(config: pytest.Config) -> None:
    _wanted_part()  # a mistake shows before anything is collected
    # Not as a hook of this file, which would see the tests of this folder alone.
    config.pluginmanager.register(ExamplesAlone())
    if NIGHTLY:
        config.pluginmanager.register(Index())


# Looking for doctests would import the first a second time, under another name, and register its method
# again; the other needs a package that is only there in an environment of `make conformance`.
collect_ignore = ["samples/dying.py", "conformance/sums_of_two.py", "conformance/two_processes.py"]

FOLDERS = ("statistical", "process", "corpora", "study")
"""Folders whose tests have the marker of the same name."""
SLOW = 8
"""One in so many cases of a test that is marked like one of these folders runs with every change."""


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of `FOLDERS`, and as nightly the cases that `every_nth` leaves to the night.

    Which cases run with every change follows from the tests alone: of a test marked ``every_nth(n)`` the
    first case and each nth one after it, in the order in which they are written; of one marked as those of
    `FOLDERS` are, each eighth. ORCHESTRACE_CASES=k leaves one in k of what runs, and ORCHESTRACE_PART=k/n the
    k-th of n parts, which follow from the names of cases: n machines, or nights, run all.
    """
    one_in = int(os.environ.get("ORCHESTRACE_CASES", "1"))
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(item.path.parent.name)
        cases[item.nodeid.partition("[")[0]].append(item)
    left = set()
    for several in cases.values():
        for place, item in enumerate(several):
            marker = item.get_closest_marker("every_nth")
            slow = SLOW if any(map(item.get_closest_marker, FOLDERS)) else 1
            if place % (slow if marker is None else marker.args[0]):
                item.add_marker(pytest.mark.nightly)
        daily = [item for item in several if item.get_closest_marker("nightly") is None]
        left.update(item for place, item in enumerate(daily) if place % one_in)
    part, parts = _wanted_part()
    left.update(item for item in items if _part_of(item.nodeid, parts) != part)
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def _part_of(nodeid: str, parts: int) -> int:
    """In which of so many parts, from 1 on, a case runs, wherever the package is installed."""
    file, _, case = nodeid.partition("::")
    name = f"{os.path.basename(file)}::{case}"
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) % parts + 1


def _wanted_part() -> tuple[int, int]:
    """Which part runs, of how many."""
    value = os.environ.get("ORCHESTRACE_PART", "1/1")
    part, _, parts = value.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise pytest.UsageError(f"ORCHESTRACE_PART is {value!r}, expected k/n with k from 1 to n")
    return int(part), int(parts)


@pytest.fixture(scope="session")
def corpora() -> Path:
    """The folder of corpora that others published; never part of this project."""
    folder = os.environ.get("ORCHESTRACE_CORPORA")
    if not folder:
        pytest.skip("ORCHESTRACE_CORPORA is not set, so the published corpora are not at hand")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"ORCHESTRACE_CORPORA names '{folder}', which is not a folder")
    return path
