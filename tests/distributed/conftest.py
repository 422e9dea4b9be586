"""A Ray cluster for tests, and the method of `samples.dying`, which only the tests of this folder see."""

import os
import random
import shutil
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from orchestrace.credit import registry
from samples import dying

registry.registered()
# every process of tests imports this folder: other tests would find the method, too
_METHOD = registry._METHODS.pop(dying.NAME)

NODE: Final[dict[str, Any]] = {"num_cpus": 1, "memory": 2 << 30, "object_store_memory": 80 << 20}


@pytest.fixture(autouse=True)
def _registered_here_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_METHODS", {**registry.registered(), dying.NAME: _METHOD})


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, as processes of this machine; nobody is connected."""
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed, so no cluster runs tasks")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # what nodes import from
    made = utils.Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    made.add_node(**NODE)
    try:
        yield made
    finally:
        utils.ray.shutdown()
        made.shutdown()
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def extra_node(cluster: Any) -> Any:
    """A node more, which a test may take away."""
    return cluster.add_node(**NODE)


@pytest.fixture
def run_number() -> Iterator[int]:
    """Of a run whose workers leave marks."""
    number = random.SystemRandom().getrandbits(40)
    dying.marks_of(number).mkdir()
    yield number
    shutil.rmtree(dying.marks_of(number))
