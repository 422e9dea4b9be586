"""Thresholds of abort rules: which order statistic of successful runs keeps the false alarms down."""

from typing import Final, Literal

import numpy as np

from ..base.arguments import public
from ..base.checks import check_share
from ..base.errors import ParameterError
from ..base.schema import unknown_name

Method = Literal["ville", "conformal", "pac"]

METHODS: Final = ("ville", "conformal", "pac")
_RATE: Final = 0.9  # of alpha is the rate that a pac threshold keeps, the rest its chance to fail


def order(n: int, alpha: float, method: str) -> int | None:
    """The rank, from 1, of the threshold among n calibration maxima; None if none is high enough."""
    if method == "conformal":
        # the quantile must not move for the last bit of a product: (9 + 1)(1 - 0.1) is 9
        rank = int(np.ceil((n + 1) * (1.0 - alpha) * (1.0 - 1e-12)))
        return max(rank, 1) if rank <= n else None
    from scipy.special import bdtr

    least, chance = 1.0 - _RATE * alpha, (1.0 - _RATE) * alpha
    ranks = np.arange(1, n + 1, dtype=np.float64)
    enough = 1.0 - bdtr(ranks - 1.0, n, least) <= chance  # P(Bin(n, 1 - alpha') >= r)
    return int(ranks[enough][0]) if enough.any() else None


@public
def calibration_needed(alpha: float, *, method: Method = "pac") -> int:
    """Compute how many successful calibration runs a threshold needs at least.

    Parameters
    ----------
    alpha
        The false-alarm rate to keep, between 0 and 1.
    method
        ``conformal`` or ``pac``; ``ville`` needs none.

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
    conformal: n >= 1/alpha - 1. pac: n >= ln(0.1 alpha) / ln(1 - 0.9 alpha). O(1).

    Source: tolerance bounds, Wilks 1941; split conformal, Vovk et al. 2005.

    Examples
    --------
    >>> import orchestrace as ot
    >>> [ot.stopping.calibration_needed(alpha) for alpha in (0.05, 0.1, 0.2)]
    [116, 49, 20]
    """
    alpha = check_share(alpha, "alpha", 0.0, 1.0)
    check_method(method)
    if method == "ville":
        return 0
    if method == "pac":
        return int(np.ceil(np.log((1.0 - _RATE) * alpha) / np.log1p(-_RATE * alpha)))
    return int(np.ceil((1.0 / alpha - 1.0) * (1.0 - 1e-12)))


def check_method(method: object) -> None:
    """Refuse words that are no method."""
    if method not in METHODS:
        raise ParameterError(unknown_name("method", str(method), list(METHODS)))
