"""Retries of requests until they succeed."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from ..base.errors import InputError
from .addresses import Address
from .stores import is_passing, refusal

T = TypeVar("T")

TRIES: Final = 6
"""Of one request, beside the repetitions of the client, which end with the headers of an answer."""
FIRST_WAIT: Final = 0.2
"""Seconds before the second try; each further wait is twice as long, and a part of it is drawn."""


class Short(Exception):
    """An answer that ends before what it announced."""


def repeated(
    action: Callable[[], T], address: Address, *, doing: str = "read", stop: threading.Event | None = None
) -> T:
    """Do what may fail on the way until it succeeds.

    Raises
    ------
    InputError
        It failed for good; in one line.
    """
    pause = FIRST_WAIT
    for left in reversed(range(TRIES)):
        try:
            return action()
        except InputError:
            raise
        except Exception as error:
            passing = isinstance(error, Short) or is_passing(error)
            if not passing or not left or (stop is not None and stop.is_set()):
                raise refusal(address, error, doing) from None
        time.sleep(pause * (0.5 + random.random() / 2))
        pause *= 2
    raise AssertionError("unreachable: the last try returns or raises")
