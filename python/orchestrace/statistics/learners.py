"""Outside help for regressions: one BLAS thread for sums, classes of scikit-learn (optional)."""

import functools
import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, ParamSpec, TypeVar

from ..base.errors import ParameterError
from ..base.extras import install

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def one_thread(of: Literal["blas", "openmp"] | None = None) -> AbstractContextManager[object]:
    """Sums in one order: their last bits must not depend on the machine.

    Holds the libraries that are loaded by now, of one kind or of both; import them first.
    """
    from threadpoolctl import threadpool_limits

    held: AbstractContextManager[object] = threadpool_limits(1, user_api=of)
    return held


def in_one_order(verb: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Run a whole function on one thread of BLAS: for sums over rows of NumPy alone."""

    @functools.wraps(verb)
    def held(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with one_thread("blas"):
            return verb(*args, **kwargs)

    return held


def learner(module: str, name: str, option: str) -> Any:
    """A class of scikit-learn; `option` is what the caller asked for.

    Raises
    ------
    ParameterError
        scikit-learn is not installed; says what to run.
    """
    try:
        return getattr(importlib.import_module(f"sklearn.{module}"), name)
    except ImportError:
        raise ParameterError(f"{option} needs scikit-learn: {install('fit')}") from None
