"""What all tests share."""

import os
import zlib
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
                registry._METHODS.clear()
                registry._METHODS.update(before)


def pytest_configure(config: pytest.Config) -> None:
    # Not as a hook of this file, which would see the tests of this folder alone.
    config.pluginmanager.register(ExamplesAlone())


FOLDERS = ("statistical", "process", "corpora", "study")
"""Folders whose tests have the marker of the same name."""


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of `FOLDERS`; of those marked `share(n)` keep one in n: which, ORCHESTRACE_SHARE says.

    It is a number, or "all".
    """
    for item in items:
        if item.path.parent.name in FOLDERS:
            item.add_marker(item.path.parent.name)
    turn = os.environ.get("ORCHESTRACE_SHARE", "0")
    if turn == "all":
        return

    def is_next(item: pytest.Item) -> bool:
        marker = item.get_closest_marker("share")
        return marker is None or (zlib.crc32(item.nodeid.encode()) + int(turn)) % marker.args[0] == 0

    left = [item for item in items if not is_next(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if is_next(item)]


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
