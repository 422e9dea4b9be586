"""The scaling-gap study: what credit methods find of planted contributions, from small to large runs."""

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
