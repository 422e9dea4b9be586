"""What all tests share."""

import os
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
