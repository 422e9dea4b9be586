"""How many examples a property test asks for."""

import os
from typing import Any

from hypothesis import settings

NIGHTLY = os.environ.get("ORCHESTRACE_NIGHTLY") == "1"
"""Whether this is `make nightly`, which draws examples anew; elsewhere the same tree has the same ones."""


def examples(number: int, **options: Any) -> settings:
    """Settings with `number` examples in `make nightly`, a third of them elsewhere, and without deadlines."""
    return settings(max_examples=number if NIGHTLY else max(1, number // 3), deadline=None, **options)
