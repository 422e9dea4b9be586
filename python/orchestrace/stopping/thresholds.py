"""Thresholds of abort rules: which order statistic of successful runs keeps the false alarms down."""

from typing import Final, Literal

import numpy as np

from ..base.arguments import Alpha, Confidence
from ..base.errors import ParameterError
from ..base.verbs import verb

Method = Literal["ville", "conformal", "pac"]

METHODS: Final = ("ville", "conformal", "pac")
_RATE: Final = 0.9  # of alpha is the rate that a pac threshold keeps, the rest its chance to fail


def order(n: int, alpha: float, method: str, confidence: float | None = None) -> int | None:
    """The rank, from 1, of the threshold among n calibration maxima; None if none is high enough."""
    if method == "pac":
        return _tolerance(n, _RATE * alpha, (1.0 - _RATE) * alpha)
    # the quantile must not move for the last bit of a product: (9 + 1)(1 - 0.1) is 9
    rank = max(int(np.ceil((n + 1) * (1.0 - alpha) * (1.0 - 1e-12))), 1)
    if rank > n:
        return None
    if confidence is None:
        return rank
    higher = _tolerance(n, alpha, 1.0 - confidence)
    return None if higher is None else max(rank, higher)


def _tolerance(n: int, rate: float, chance: float) -> int | None:
    """The least r with P(Bin(n, 1 - rate) >= r) <= chance."""
    from scipy.special import bdtr

    ranks = np.arange(1, n + 1, dtype=np.float64)
    enough = 1.0 - bdtr(ranks - 1.0, n, 1.0 - rate) <= chance
    return int(ranks[enough][0]) if enough.any() else None


@verb
def calibration_needed(alpha: Alpha, *, method: Method = "pac", confidence: Confidence | None = None) -> int:
    """Compute how many successful calibration runs a threshold needs at least.

    Parameters
    ----------
    alpha
        The false-alarm rate to keep, between 0 and 1.
    method
        ``conformal`` or ``pac``; ``ville`` needs none.
    confidence
        As of `fit_abort`.

    Returns
    -------
    int
        The least n at which `fit_abort` finds a threshold; below it there are no alarms, and the reason is
        ``calibration.small``.

    Raises
    ------
    ParameterError
        A share out of range, or an unknown method.

    Notes
    -----
    conformal: n >= 1/alpha - 1, with `confidence` also n >= ln(1 - confidence) / ln(1 - alpha). pac: n >=
    ln(0.1 alpha) / ln(1 - 0.9 alpha). O(1).

    Source: tolerance bounds, Wilks 1941; split conformal, Vovk et al. 2005.

    Examples
    --------
    >>> import orchestrace as ot
    >>> [ot.stopping.calibration_needed(alpha) for alpha in (0.05, 0.1, 0.2)]
    [116, 49, 20]
    """
    refuse_confidence(confidence, method)
    if method == "ville":
        return 0
    if method == "pac":
        return _fewest(_RATE * alpha, (1.0 - _RATE) * alpha)
    least = int(np.ceil((1.0 / alpha - 1.0) * (1.0 - 1e-12)))
    return least if confidence is None else max(least, _fewest(alpha, 1.0 - confidence))


def calibration_wanted(alpha: float, method: Method, confidence: float | None) -> int:
    """How many runs keep what a threshold gives away for its confidence below a third of the rate."""
    needed = calibration_needed(alpha, method=method, confidence=confidence)
    if method == "pac":
        rate, chance = _RATE * alpha, (1.0 - _RATE) * alpha
    elif confidence is not None:
        rate, chance = alpha, 1.0 - confidence
    else:
        return needed
    from scipy.special import ndtri

    return max(needed, int(np.ceil((3.0 * ndtri(chance)) ** 2 * (1.0 - rate) / rate)))


def _fewest(rate: float, chance: float) -> int:
    return int(np.ceil(np.log(chance) / np.log1p(-rate) * (1.0 - 1e-12)))


def refuse_confidence(confidence: float | None, method: Method) -> None:
    """Refuse a confidence of any method but ``conformal``."""
    if confidence is not None and method != "conformal":
        raise ParameterError(f"confidence is for method='conformal', not '{method}': leave it out")
