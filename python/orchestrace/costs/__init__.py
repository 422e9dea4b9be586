"""What runs cost in dollars, and what each sub-agent cost and gave."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .ledger import spawns
    from .price_list import prices, read_prices
    from .verb import table

__all__ = [
    "prices",
    "read_prices",
    "spawns",
    "table",
]

load_when_asked(
    __name__,
    {
        ".ledger": "spawns",
        ".price_list": "prices read_prices",
        ".verb": "table",
    },
)
