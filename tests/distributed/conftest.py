"""The method of `samples.dying`, which importing registers, is there for these tests alone."""

import pytest

from orchestrace.credit import registry
from samples import dying

registry.registered()
# every process of tests imports this folder: other tests would find the method, too
_METHOD = registry._METHODS.pop(dying.NAME)


@pytest.fixture(autouse=True)
def _registered_here_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", {**registry._METHODS, dying.NAME: _METHOD})
