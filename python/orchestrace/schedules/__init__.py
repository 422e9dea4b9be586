"""Schedules of events: fewer slots, bottlenecks, fits of speedup."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .bottlenecks import (
        concurrency_profile as concurrency_profile,
        critical_path as critical_path,
        dominators as dominators,
        drag as drag,
    )
    from .scheduling import scaling_curve as scaling_curve, simulate as simulate
    from .speedup_fits import fit_scaling as fit_scaling


load_lazily(__name__)
