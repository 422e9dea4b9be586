"""The scaling-gap study: planted contributions and what credit methods find of them, by size of run."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .config import MethodRun, Size, StudyConfig, parse_config, read_config
    from .downscale import downscale, prefixes
    from .load import load
    from .report import report
    from .run import run

__all__ = [
    "MethodRun",
    "Size",
    "StudyConfig",
    "downscale",
    "load",
    "parse_config",
    "prefixes",
    "read_config",
    "report",
    "run",
]

load_when_asked(
    __name__,
    {
        ".config": "MethodRun Size StudyConfig parse_config read_config",
        ".downscale": "downscale prefixes",
        ".load": "load",
        ".report": "report",
        ".run": "run",
    },
)
