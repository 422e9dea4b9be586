"""What all tests share."""

import os
from pathlib import Path

import pytest


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
