"""Rewards of runs and of their units by rules, sums of rewards, and how they are gamed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .gaming.balance import balance as balance
    from .gaming.failure_modes import failure_modes as failure_modes
    from .gaming.hazards import detect_hacking as detect_hacking
    from .gaming.health import verifier_health as verifier_health
    from .mixing import combine as combine
    from .verb import attach as attach, compute as compute, explain as explain, list_rules as list_rules


load_lazily(__name__)
