"""How many examples a property test asks for."""

import os
from typing import Any

from hypothesis import settings


def examples(number: int, **options: Any) -> settings:
    """Settings with `number` examples in `make nightly`, a third of them elsewhere, and without deadlines."""
    every = os.environ.get("ORCHESTRACE_SHARE") == "all"
    return settings(max_examples=number if every else max(1, number // 3), deadline=None, **options)
