"""The scaling-gap study: planted contributions and what credit methods find of them, by size of run."""

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
