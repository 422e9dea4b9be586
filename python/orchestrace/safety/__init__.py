"""Untrusted content: its spread, and where it could have been stopped."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # the only list of names: type checkers and `load_when_asked` read it
    from .tracking import sanitizer_cut as sanitizer_cut, tainted_events as tainted_events


load_when_asked(__name__)
