"""The folder of a study: a manifest, one file per cell, the tables at the end.

A cell is written aside and renamed, so that it is there completely or not at all, whenever a run is killed.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

from .. import _core
from ..base.errors import InputError, ParameterError
from ..base.paths import expanded
from ..base.publication import write_text
from .cells import Cell, cells
from .config import StudyConfig, begun_config

MANIFEST: Final = "study.json"
CELLS: Final = "cells"


class StudyFolder:
    """What is there of a study."""

    def __init__(self, path: str | os.PathLike[str], config: StudyConfig) -> None:
        _core.check_process()
        self.path = Path(expanded(path))
        self.config = config

    @classmethod
    def begun(cls, path: str | os.PathLike[str], config: StudyConfig) -> "StudyFolder":
        """Begin in an empty folder, or go on in one of the same configuration."""
        folder = cls(path, config)
        place = folder.path
        if place.exists() and not place.is_dir():
            raise ParameterError(f"'{place}' is a file, expected a folder for the study")
        if (place / MANIFEST).exists():
            manifest = _manifest(place)
            for name, now in (("digest", config.digest()), ("version", _core.VERSION)):
                if manifest.get(name) != now:
                    difference = (
                        "another configuration" if name == "digest" else f"version {manifest.get(name)}"
                    )
                    raise ParameterError(
                        f"folder '{place}' has a study of {difference}: choose another folder, or remove it"
                    )
        elif place.exists() and any(place.iterdir()):
            raise ParameterError(f"folder '{place}' is not empty and has no study: choose another")
        (place / CELLS).mkdir(parents=True, exist_ok=True)
        if not (place / MANIFEST).exists():
            facts = {
                "digest": config.digest(),
                "version": _core.VERSION,
                "schema": _core.SCHEMA_VERSION,
                "config": json.loads(config.text()),
            }
            write_text(json.dumps(facts, indent=1) + "\n", place / MANIFEST)
        return folder

    @classmethod
    def opened(cls, path: str | os.PathLike[str]) -> "StudyFolder":
        """A study that is there, complete or not."""
        place = Path(expanded(path))
        if not (place / MANIFEST).is_file():
            raise InputError(f"folder '{place}' has no study: it lacks {MANIFEST}")
        return cls(place, begun_config(_manifest(place)["config"]))

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """What a cell measured, None if it is still to be done."""
        try:
            text = (self.path / CELLS / cell.file).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not isinstance(value, dict) or value.get("cell") != cell.name:
            raise InputError(f"{self.path / CELLS / cell.file} is not what a study wrote: remove it")
        return value

    def all_results(self) -> list[tuple[Cell, dict[str, Any]]]:
        """Every cell that is there, in the order of the study."""
        pairs = ((cell, self.read(cell)) for cell in cells(self.config))
        return [(cell, result) for cell, result in pairs if result is not None]

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        """Publish what a cell measured."""
        text = json.dumps({"cell": cell.name, **result}, sort_keys=True) + "\n"
        write_text(text, self.path / CELLS / cell.file)


def _manifest(place: Path) -> dict[str, Any]:
    try:
        value = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{place / MANIFEST} cannot be read: {error}") from None
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
        raise InputError(f"{place / MANIFEST} is not the manifest of a study")
    return value
