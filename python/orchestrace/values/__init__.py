"""Values of prefixes: what a run was worth after each event, and whether skill or luck changed it."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .luck import luck as luck
    from .prefixes import prefix as prefix


load_lazily(__name__)
