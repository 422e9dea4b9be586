"""The compiled module. What is here is wrapped, documented and typed for people in the package above it.

`credit` streams only the columns that have a value somewhere; `Store.from_arrow` needs `trace trace_id
task_id` of `traces`, ascending by `trace` (gaps are fine), and derives counts, agents and what is absent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO, Literal, final

__all__ = [
    "DEBUG_BUILD",
    "SCHEMA_VERSION",
    "VERSION",
    "InputError",
    "OrchestraceError",
    "ParameterError",
    "SchemaError",
    "Store",
    "Stream",
    "codes",
    "credit",
    "generate",
    "importers",
    "methods",
    "nearest",
    "presets",
    "read",
    "tables",
]

SCHEMA_VERSION: str
VERSION: str
DEBUG_BUILD: bool

_Progress = Callable[[int, int], object] | None
_Input = str | BinaryIO

class OrchestraceError(Exception): ...
class InputError(OrchestraceError, OSError): ...
class SchemaError(OrchestraceError, ValueError): ...
class ParameterError(OrchestraceError, ValueError): ...

@final
class Stream:
    """Arrow record batches; every call of the capsule method starts again from the first batch."""
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def num_batches(self) -> int: ...
    def buffer_addresses(self, column: str) -> list[int]: ...

@final
class Store:
    @staticmethod
    def from_arrow(tables: Mapping[str, object], *, threads: int | None = None) -> Store: ...
    @property
    def n_traces(self) -> int: ...
    @property
    def n_events(self) -> int: ...
    @property
    def n_edges(self) -> int: ...
    @property
    def records_read(self) -> int: ...
    @property
    def records_quarantined(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def lifted(self) -> dict[str, str]: ...
    def table(self, name: str) -> Stream: ...
    def combined(self, name: str) -> Stream: ...
    def filter(self, traces: Sequence[int]) -> Store: ...
    def write_jsonl(
        self,
        target: str | BinaryIO,
        *,
        threads: int | None = None,
        progress: _Progress = None,
    ) -> int: ...

def read(
    inputs: Sequence[_Input],
    *,
    format: str = "auto",
    threads: int | None = None,
    block_size: int | None = None,
    max_record: int | None = None,
    max_depth: int | None = None,
    max_string: int | None = None,
    max_expansion: int | None = None,
    extras: bool = True,
    excerpt: int = 200,
    fields: Mapping[str, str] | None = None,
    time_basis: str | None = None,
    progress: _Progress = None,
) -> Store: ...
def credit(
    store: Store,
    *,
    method: str,
    unit: str,
    reward: Mapping[str, float],
    params: Mapping[str, bool | int | float | str | list[int | float | str] | None],
    seed: int = 0,
    threads: int | None = None,
    progress: _Progress = None,
) -> tuple[Stream, dict[str, object]]: ...
def generate(
    target: str | BinaryIO,
    *,
    preset: str = "mixed",
    events: int | None = None,
    traces: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: _Progress = None,
) -> dict[str, int]: ...
def tables() -> list[tuple[str, list[tuple[str, str, bool, list[str] | None]]]]: ...
def codes() -> list[tuple[Literal["reject", "finding", "reason"], str, str]]: ...
def methods() -> list[dict[str, object]]: ...
def importers() -> list[dict[str, object]]: ...
def presets() -> list[tuple[str, str]]: ...
def nearest(word: str, known: Sequence[str]) -> str | None: ...
