"""Decisions as rows: state, action and effect; and the contexts that they share."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .context_keys import contexts as contexts
    from .tables.verb import table as table


load_lazily(__name__)
