"""Interventions on recorded runs, on content and on timing."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # the only list of names: type checkers and `load_when_asked` read it
    from .content import (
        aggregate_by as aggregate_by,
        drop as drop,
        set_value as set_value,
        truncate as truncate,
    )
    from .timing import (
        cap_stragglers as cap_stragglers,
        concurrency as concurrency,
        merge as merge,
        remove as remove,
        serialize as serialize,
        speed_up as speed_up,
        split as split,
    )


load_when_asked(__name__)
