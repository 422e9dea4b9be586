"""Decisions as rows: state, action and effect; and the contexts that they share."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # the only list of names: type checkers and `load_when_asked` read it
    from .context_keys import contexts as contexts
    from .tables.verb import table as table


load_when_asked(__name__)
