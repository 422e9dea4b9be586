"""Exports for other tools: one file per target, and the list of all targets."""

from typing import Final

from .dot import DOT
from .format import Export
from .jsonl import JSONL
from .mermaid import MERMAID
from .ocel import OCEL
from .parquet import PARQUET
from .perfetto import PERFETTO
from .trainer_tables import TRL, VERL

EXPORTS: Final[dict[str, Export]] = {
    export.name: export for export in (JSONL, PARQUET, PERFETTO, MERMAID, DOT, OCEL, VERL, TRL)
}
"""In the order of the documentation."""
