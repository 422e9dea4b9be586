"""Untrusted content: its spread, and where it could have been stopped."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .tracking import sanitizer_cut as sanitizer_cut, tainted_events as tainted_events
    from .vectors import attack_vectors as attack_vectors


load_lazily(__name__)
