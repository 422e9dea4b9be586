"""Effects of decisions on the outcome: spawns, messages, delegations, aggregations, choices, policies."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .matching import matched as matched
    from .observed import aggregation as aggregation, delegation as delegation, message as message
    from .off_policy import policy_values as policy_values
    from .spawning import spawn as spawn


load_lazily(__name__)
