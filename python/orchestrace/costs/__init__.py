"""What runs cost in dollars, and what each sub-agent cost and gave."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .ledger import spawns as spawns
    from .price_list import list_prices as list_prices, read_prices as read_prices
    from .verb import table as table
    from .waste import waste as waste, waste_events as waste_events


load_lazily(__name__)
