"""What all tests share."""

import os
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrace.credit import registry


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
                loaded = {name: one for name, one in registry._METHODS.items() if name in registry.OWN}
                registry._METHODS.clear()
                registry._METHODS.update(before | loaded)


def pytest_configure(config: pytest.Config) -> None:
    # Not as a hook of this file, which would see the tests of this folder alone.
    config.pluginmanager.register(ExamplesAlone())


# Looking for doctests would import it a second time, under another name, and register its method again.
collect_ignore = ["samples/dying.py"]

FOLDERS = ("statistical", "process", "corpora", "study")
"""Folders whose tests have the marker of the same name."""


SLOW = ("statistical", "process", "corpora", "study")
"""Markers of tests that `make test` runs an eighth of, another one with the next ORCHESTRACE_SHARE."""


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of `FOLDERS`, and leave out cases whose turn it is not.

    Of the cases of a test that is marked `share(n)` one in n runs. With ORCHESTRACE_CASES=k one in k cases of
    every test runs, at least one. Which ones, ORCHESTRACE_SHARE says: a number, or "all".
    """
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(item.path.parent.name)
        if any(map(item.get_closest_marker, SLOW)) and item.get_closest_marker("share") is None:
            item.add_marker(pytest.mark.share(8))
    turn = os.environ.get("ORCHESTRACE_SHARE", "0")
    if turn == "all":
        return
    one_in = int(os.environ.get("ORCHESTRACE_CASES", "1"))

    def place(item: pytest.Item) -> int:
        return zlib.crc32(item.nodeid.encode()) + int(turn)

    def is_next(item: pytest.Item) -> bool:
        marker = item.get_closest_marker("share")
        return marker is None or place(item) % marker.args[0] == 0

    next_ones = [item for item in items if is_next(item)]
    if one_in > 1:
        cases = defaultdict(list)
        for item in next_ones:
            cases[item.nodeid.partition("[")[0]].append(item)
        chosen = {
            item
            for several in cases.values()
            for item in sorted(several, key=lambda item: place(item) % 1009)[: -(-len(several) // one_in)]
        }
        next_ones = [item for item in next_ones if item in chosen]
    kept = set(next_ones)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = next_ones


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
