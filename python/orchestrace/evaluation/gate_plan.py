"""What a gate could find with its tasks, and how many tasks it needs."""

import math

import numpy as np

from ..statistics.influence import NO_SPREAD
from ..statistics.planning import largest_missed, least_effect, tasks_to_find
from .gate_pairs import LARGEST_LOG, Design, Paired


def planned(pair: Paired, design: Design) -> dict[str, object]:
    """The least worsening that so many tasks fail, and how many tasks decide at the margin.

    Parameters
    ----------
    pair
        Both sides of a metric.
    design
        How the gate errs.

    Returns
    -------
    dict
        ``detectable``, ``tasks_needed``, ``more_tasks``, each left out where it cannot be told.
    """
    if pair.problem is not None or pair.n_tasks < 2:
        return {}
    deviation, distance = pair.deviation(), -pair.metric.bound
    if not math.isfinite(deviation):
        return {}
    if deviation <= NO_SPREAD * float(np.abs(pair.gains).max()):
        if pair.within is None or distance <= 0.0:
            return {}
        return _tasks(_alike(distance, design.last_level), pair.n_tasks)
    row: dict[str, object] = {"detectable": _detectable(pair, design)}
    if distance > 0.0:
        # for no effect to pass, and for one as large as the margin to fail
        effect = distance / max(deviation, pair.deviation(distance))
        needed = tasks_to_find(
            effect, estimated_from=pair.n_tasks, level=design.last_level, power=design.power
        )
        row |= {} if needed is None else _tasks(needed, pair.n_tasks)
    return row


def _detectable(pair: Paired, design: Design) -> float | None:
    """The least worsening that fails with the power; None where none does.

    It has to be shown worse than base, and not to be shown within the margin: what tasks in plenty could find
    is tolerated up to there.
    """
    from scipy.optimize import brentq

    # Holm's rule may be as strict as the first of its levels, and as lenient as the last
    strict, lenient = design.level, float(design.levels[-1])
    shown = least_effect(pair.n_tasks, level=strict, power=design.power) / math.sqrt(pair.n_tasks)
    missed = largest_missed(pair.n_tasks, level=lenient, power=design.power) / math.sqrt(pair.n_tasks)

    def excess(effect: float) -> float:
        deviation = pair.deviation(effect)
        return effect - max(shown * deviation, -pair.metric.bound - missed * deviation)

    if pair.metric.is_success:
        largest = pair.rate
    else:
        largest = 2.0 * max(shown * pair.deviation(), abs(missed) * pair.deviation() - pair.metric.bound)
    if not (math.isfinite(largest) and largest > 0.0 and excess(largest) >= 0.0):
        return None
    effect = float(brentq(excess, 0.0, largest, xtol=1e-15, rtol=1e-12))
    if pair.metric.scale == "ratio":
        return math.expm1(effect) if effect < LARGEST_LOG else None
    return effect


def _alike(distance: float, level: float) -> int:
    """How many tasks without any difference show that no share as large as the margin differs."""
    return math.ceil(math.log(level) / math.log1p(-distance))


def _tasks(needed: int, n_tasks: int) -> dict[str, object]:
    return {"tasks_needed": needed, "more_tasks": max(needed - n_tasks, 0)}
