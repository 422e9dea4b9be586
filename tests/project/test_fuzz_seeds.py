"""The seeds of the fuzz targets: every importer has some that give traces, and short ones."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

import orchestrace as ot
from samples.mutations import goldens

FORMATS = ot.list_importers()["name"].to_list()


@pytest.fixture(scope="module")
def seeds() -> ModuleType:
    path = Path(__file__).parents[2] / "rust" / "fuzz" / "seeds.py"
    spec = importlib.util.spec_from_file_location("fuzz_seeds", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("format", FORMATS)
def test_an_importer_has_seeds_that_give_traces(seeds: ModuleType, format: str) -> None:
    found = seeds.of_format(format)
    (document, *_) = (one for one in goldens() if one.format == format)
    assert any(seeds.yield_of(document, seed) for seed in found)
    assert all(0 < len(seed) <= seeds.LONGEST for seed in found)


def test_every_target_has_seeds(seeds: ModuleType) -> None:
    found = seeds.seeds()
    assert {f"import_{format}" for format in FORMATS} <= found.keys()
    assert all(found.values())
