"""Interventions on recorded runs, on content and on timing."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .content import (
        aggregate_by as aggregate_by,
        do as do,
        drop as drop,
        truncate as truncate,
    )
    from .timing import (
        cap_stragglers as cap_stragglers,
        concurrency as concurrency,
        merge as merge,
        run_sequentially as run_sequentially,
        skip as skip,
        speed_up as speed_up,
        split as split,
    )


load_lazily(__name__)
