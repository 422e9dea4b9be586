"""Credit for trainers: advantages on arrays, tokens and their weights, tables of turns."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from . import advantages as advantages
    from .audit import audit as audit
    from .belief import agent_opsd as agent_opsd
    from .regimes import regimes as regimes
    from .selected_files import sink_selection as sink_selection
    from .selection import select as select
    from .tables import trainer_table as trainer_table
    from .tokens import token_credits as token_credits
    from .training_curves import training_curves as training_curves
    from .weights import token_weights as token_weights


load_lazily(__name__)
