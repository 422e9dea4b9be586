"""The compiled module. What is here is wrapped, documented and typed for people in the package above it.

`credit` streams only the columns that have a value somewhere; `Store.from_arrow` needs `trace trace_id
task_id` of `traces`, ascending by `trace` (gaps are fine), and derives counts, agents and what is absent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NotRequired, TypedDict, Unpack, final

__all__ = [
    "ARCHIVE_SUFFIXES",
    "COMPRESSED_SUFFIXES",
    "DEBUG_BUILD",
    "DECISIONS",
    "LOSSY_CODES",
    "RECORDING_SUFFIXES",
    "SCHEMA_VERSION",
    "TYPE_WEIGHTS",
    "VERSION",
    "InputError",
    "OrchestraceError",
    "OutcomeGates",
    "ParameterError",
    "Part",
    "Partition",
    "SchemaError",
    "Store",
    "Stream",
    "TraceIndex",
    "TraceReader",
    "align_lanes",
    "attack_vectors",
    "blame_candidates",
    "check_process",
    "codes",
    "contexts",
    "copy_records",
    "credit",
    "dominators",
    "drag",
    "failure_classes",
    "faithfulness",
    "fingerprint",
    "formats",
    "generalized",
    "generate",
    "generate_planted",
    "importers",
    "lane_steps",
    "lifetimes",
    "locate",
    "mark_orphaned",
    "member_metrics",
    "methods",
    "metric_definitions",
    "nearest",
    "open_rows_with",
    "own_rows",
    "owners",
    "ownership",
    "pay",
    "presets",
    "read",
    "record_bytes",
    "relative",
    "replay_presence",
    "replay_schedules",
    "replay_structural",
    "reward_is_diagnostic",
    "reward_params",
    "reward_rules",
    "reward_windows",
    "rewards",
    "roll_up",
    "sanitizer_cut",
    "schedule",
    "search",
    "solve_game",
    "stamp_episodes",
    "tables",
    "taint",
    "tainted_events",
    "terms",
    "trace_metrics",
    "unit_ids",
    "waste_events",
]

SCHEMA_VERSION: str
DECISIONS: tuple[str, ...]
TYPE_WEIGHTS: dict[str, float]
LOSSY_CODES: tuple[str, ...]
RECORDING_SUFFIXES: tuple[str, ...]
ARCHIVE_SUFFIXES: tuple[str, ...]
COMPRESSED_SUFFIXES: tuple[str, ...]
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

class _Relative(TypedDict):
    scale: Literal["deviation", "none", "others"]
    ddof: int
    epsilon: float
    lone: bool

def relative(
    rewards: object,
    *,
    rows: object | None = None,
    threads: int | None = None,
    **options: Unpack[_Relative],
) -> Stream: ...
def generalized(
    rows: object,
    offsets: object,
    order: object | None = None,
    *,
    gamma: float,
    fading: float,
    threads: int | None = None,
) -> Stream: ...

@final
class Store:
    @staticmethod
    def from_arrow(
        tables: Mapping[str, object],
        *,
        names: object | None = None,
        threads: int | None = None,
        judged: bool = False,
        set_aside: bool = False,
    ) -> Store: ...
    @property
    def set_aside(self) -> list[tuple[int | None, str]]: ...
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
    @property
    def mapping_counts(
        self,
    ) -> tuple[list[tuple[str, str, int, int, str]], list[tuple[str, str, int, int]]] | None:
        """Of a reading with a mapping: rows (key, pointer, matched, of, types), and of fields that no key
        reads (field, types, records, values)."""
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

_Place = tuple[int, int, int, bool]
_Part = tuple[int, int, int, int, int, _Place]

@final
class TraceReader:
    """Files read batch by batch. Inputs are (path, name for the tables, where to begin); a place is (offset,
    lines, blocks, done), a part (records, used, ignored, quarantined, duplicates, place after the batch). The
    last part is of the traces that are spread over records, `blocks` how many were handed on; `gathered` is
    that number of an earlier reading. `formats` are the importers of inputs where they are known."""
    def __new__(
        cls,
        inputs: Sequence[tuple[str, str, _Place]],
        *,
        gathered: int = 0,
        formats: Sequence[str | None] | None = None,
        tables: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        **options: Any,
    ) -> TraceReader: ...
    def next(
        self,
        limit: int,
        *,
        index: TraceIndex | None = None,
        threads: int | None = None,
        progress: _Progress = None,
    ) -> tuple[Store, list[_Part], Stream] | None: ...

@final
class TraceIndex:
    """The traces of a corpus by id and content. Rows are `trace input id content duplicate`."""
    def __new__(cls, next_number: int = 0) -> TraceIndex: ...
    def insert(self, rows: object, *, former: bool = False) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def next_number(self) -> int: ...

@final
class Partition:
    """A store cut by the hash of columns of `traces`."""
    def __new__(cls, store: Store, key: Sequence[str], parts: int) -> Partition: ...
    @property
    def present(self) -> list[int]: ...
    def loose_labels(self) -> Part: ...
    def part(self, part: int) -> Part: ...

@final
class Part:
    """Tables of one part, names cut to those that occur."""
    def table(self, name: str) -> Stream: ...

def formats(
    inputs: Sequence[tuple[str, str]], *, threads: int | None = None, **options: Any
) -> list[tuple[str, bool]]: ...
def fingerprint(path: str, length: int, *, progress: _Progress = None) -> str: ...
def locate(
    inputs: Sequence[tuple[str, str]],
    trace_id: str,
    place: tuple[str, int, int, int],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Any,
) -> tuple[Store, list[tuple[str, int, int, int]]]: ...
def record_bytes(path: str, name: str, place: tuple[str, int, int, int], **options: Any) -> bytes | None: ...
def copy_records(
    path: str, places: Sequence[tuple[int, int]], target: str | BinaryIO, **options: Any
) -> int: ...
def stamp_episodes(
    path: str,
    places: Sequence[tuple[int, int]],
    advantages: tuple[Any, bool],
    target: str | BinaryIO,
    *,
    progress: _Progress = None,
    **options: Any,
) -> tuple[int, int, int, int, int]: ...
def open_rows_with(opener: Callable[[str], Iterator[tuple[Any, int, str, int]]]) -> None: ...
def read(
    inputs: Sequence[_Input],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    tables: Sequence[str] | None = None,
    **options: Any,
) -> Store: ...

class _Credit(TypedDict):
    method: str
    unit: str
    rewards: Sequence[Mapping[str, float]]
    params: Mapping[str, bool | int | float | str | list[int | float | str] | None]
    seed: int
    elsewhere: NotRequired[Sequence[str] | None]
    own: tuple[str, Callable[[str, list[str]], Callable[[bytearray, int], bytes]]] | None

def credit(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Credit]
) -> tuple[list[Stream], dict[str, object]]: ...
def rewards(traces: object, measures: object, reward: Mapping[str, float]) -> Stream: ...

class _RollUp(TypedDict):
    quantity: str
    unit: str
    events: object
    traces: object

def roll_up(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_RollUp]
) -> Stream: ...
def contexts(
    store: Store, *, context: str = "auto", threads: int | None = None, progress: _Progress = None
) -> Stream: ...

class _Question(TypedDict):
    method: str
    trace: int
    reward: Mapping[str, float]
    params: Mapping[str, Any]
    elsewhere: Sequence[str]

def own_rows(store: Store, *, threads: int | None = None, **question: Unpack[_Question]) -> Stream:
    """Of each event of a trace the own row of a method that it is in, and what the row is called.

    `elsewhere` names reward channels of the corpus that the store is a part of. Columns: `seq` (UInt32),
    `row` (UInt32, null where an event is in none), `label` (String, null where rows are events). Empty where
    the method has no value of the trace. ParameterError: no such trace, method or parameter. O(events +
    edges) of the trace."""

def terms(
    store: Store, events: Sequence[int], *, threads: int | None = None, **question: Unpack[_Question]
) -> Stream:
    """What the values of own rows are made of, each row named by one of its events.

    Columns: `part` (UInt32, the place in `events`), `kind`, `seq` (UInt32), `other`, `weight` and `amount`
    (Float64), `rule`. Over the terms of a part, weight times amount sums to the value of its row; terms
    without a weight stand beside. There are none where a value is null or no such sum, as in games.
    ParameterError: as `own_rows`, or an event that the trace has not. O(events + edges) of the traces that
    the method compares, and O(its rows of the group) a part."""

class _Game(TypedDict):
    n_players: int
    method: str
    params: Mapping[str, Any]
    seed: int
    unions: NotRequired[Sequence[int] | None]
    agents: NotRequired[Sequence[int] | None]
    links: NotRequired[Sequence[tuple[int, int]] | None]
    parents: NotRequired[Sequence[int] | None]

def solve_game(
    value: bytes | Callable[[bytearray, int], bytes], *, threads: int | None = None, **options: Unpack[_Game]
) -> tuple[list[float], list[float], int | None, float, str | None, str]: ...

class _Generated(TypedDict):
    preset: str
    events: int | None
    traces: int | None
    seed: int

def generate(
    target: str | BinaryIO,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Generated],
) -> dict[str, int]: ...

class _Align(TypedDict):
    budget: int
    rejoin: int
    matches: bool

def align_lanes(
    keys: object,
    offsets: object,
    pairs: object,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Align],
) -> Stream: ...
def lane_steps(
    store: Store,
    *,
    key: str,
    root_only: bool = False,
    threads: int | None = None,
    progress: _Progress = None,
) -> Stream: ...
def blame_candidates(store: Store, *, threads: int | None = None, progress: _Progress = None) -> Stream: ...

@final
class OutcomeGates:
    def __new__(
        cls, store: Store, *, targets: str, threads: int | None = None, progress: _Progress = None
    ) -> OutcomeGates: ...
    def targets(self) -> Stream: ...
    @property
    def n_edges(self) -> list[int]: ...
    @property
    def n_cyclic(self) -> int: ...
    @property
    def n_unanswered(self) -> int: ...
    def predict(
        self, model: str, weights: Sequence[float], leak: float = 0.0, *, threads: int | None = None
    ) -> Stream: ...

class _Curves(TypedDict):
    outcome: str
    steps: int
    orders: int
    seed: int
    program_order: bool

def faithfulness(
    store: Store,
    credits: object,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Curves],
) -> Stream: ...

class _Replay(TypedDict):
    outcome: str
    weights: Sequence[float] | None
    quorum: float
    sensitivity: bool
    structure_alone: bool
    program_order: bool

def replay_structural(
    store: Store,
    scenarios: Sequence[Sequence[Mapping[str, Any]]],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Replay],
) -> Stream: ...
def replay_presence(
    store: Store,
    scenarios: Sequence[Sequence[Mapping[str, Any]]],
    at: int,
    *,
    program_order: bool = False,
) -> tuple[Stream, bytes]: ...
def ownership(store: Store, *, threads: int | None = None) -> Stream: ...
def unit_ids(store: Store, unit: str, *, threads: int | None = None) -> Stream: ...

class _Waste(TypedDict):
    reading: Sequence[str]
    verifying: NotRequired[Sequence[str] | None]

def waste_events(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Waste]
) -> Stream: ...
def failure_classes(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Waste]
) -> Stream: ...

class _Planted(TypedDict):
    traces: int
    seed: int
    agents: int
    events: int
    length: int | None
    length_spread: float
    depth: int
    branching: int
    topology: str | None
    outcome: str
    effects: str
    interaction: float
    density: float
    actions: int
    group_size: int
    branches: int
    noise: float
    decisive: float
    value_noise: float
    dense: bool
    stop_cost: float
    spawn: tuple[float, float, float] | None

def generate_planted(
    target: str | BinaryIO,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Planted],
) -> tuple[dict[str, int], dict[str, Stream]]: ...

class _Times(TypedDict):
    durations: str
    max_gap: float | str | None
    program_order: bool

def replay_schedules(
    store: Store,
    scenarios: Sequence[Mapping[str, object]],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Times],
) -> Stream: ...
def schedule(
    store: Store,
    scenario: Mapping[str, object],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Times],
) -> Stream: ...
def search(
    inputs: Sequence[tuple[str, str]],
    pattern: tuple[str, bool, bool],
    extent: tuple[int, int | None, bool],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Any,
) -> tuple[Stream, int, bool, list[tuple[str, int, str]]]: ...
def owners(
    inputs: Sequence[tuple[str, str]],
    places: Sequence[tuple[str, int]],
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Any,
) -> tuple[Store, Stream]: ...

class _Metrics(_Times):
    subtasks: NotRequired[Mapping[str, set[str]] | None]
    harness: NotRequired[Mapping[str, Sequence[str]] | None]
    tools: Mapping[str, Sequence[str]]
    intervention_at: NotRequired[float | None]

def trace_metrics(
    store: Store,
    groups: Sequence[str] | None = None,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Metrics],
) -> Stream: ...
def dominators(
    store: Store,
    *,
    program_order: bool = False,
    threads: int | None = None,
    progress: _Progress = None,
) -> Stream: ...
def drag(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Times]
) -> Stream: ...
def member_metrics(
    store: Store,
    member: str,
    *,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Times],
) -> Stream: ...
def lifetimes(store: Store, *, threads: int | None = None, progress: _Progress = None) -> Stream: ...
def metric_definitions() -> list[dict[str, str]]: ...

class _Rewards(_Metrics):
    rules: Sequence[Mapping[str, Any]]
    elsewhere: Sequence[str]
    addends: bool
    windows: Sequence[tuple[float, int, int]]

def pay(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Rewards]
) -> list[Stream]: ...
def reward_is_diagnostic(rule: Mapping[str, Any]) -> bool: ...
def reward_params(rule: Mapping[str, Any], anneal_left: float | None = None) -> str: ...
def reward_rules() -> list[dict[str, Any]]: ...
def reward_windows(
    store: Store, *, threads: int | None = None, progress: _Progress = None
) -> list[tuple[float, int, int]]: ...

class _Taint(TypedDict):
    carry: str
    tools: Mapping[str, Sequence[str]]
    allow: Sequence[str]
    probabilistic: NotRequired[tuple[float, float] | None]
    program_order: bool
    channels: NotRequired[Mapping[str, Sequence[str]]]

def taint(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Taint]
) -> Stream: ...
def tainted_events(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Taint]
) -> Stream: ...
def attack_vectors(
    store: Store, *, threads: int | None = None, progress: _Progress = None, **options: Unpack[_Taint]
) -> Stream: ...
def sanitizer_cut(
    store: Store,
    *,
    costs: object | None = None,
    threads: int | None = None,
    progress: _Progress = None,
    **options: Unpack[_Taint],
) -> Stream: ...
def mark_orphaned() -> None: ...
def check_process() -> None: ...
def tables() -> list[tuple[str, list[tuple[str, str, bool, list[str] | None]]]]: ...
def codes() -> list[tuple[Literal["reject", "finding", "reason", "ignored"], str, str, str]]: ...
def methods() -> list[dict[str, object]]: ...
def importers() -> list[dict[str, object]]: ...
def presets() -> list[tuple[str, str]]: ...
def nearest(word: str, known: Sequence[str]) -> str | None: ...
