"""The scaling-gap study: planted contributions and what credit methods find of them, by size of run."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .config import (
        MethodRun as MethodRun,
        Size as Size,
        StudyConfig as StudyConfig,
        parse_config as parse_config,
        read_config as read_config,
    )
    from .downscale import downscale as downscale, prefixes as prefixes
    from .load import load as load
    from .report import report as report
    from .run import run as run


load_lazily(__name__)
