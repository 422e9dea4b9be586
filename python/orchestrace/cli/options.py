"""Options that several commands share, in groups that a command takes as one parameter each."""

import math
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer

from ..base import arguments
from ..base.arguments import Flag, Integer
from ..base.deferred import Deferred
from ..base.engines import EngineName
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import plain

if TYPE_CHECKING:
    from .. import distributed
    from ..schedules.scheduling import MaxGap
else:
    distributed = Deferred("orchestrace.distributed")


def option(concept: Any) -> Any:
    """The option of a concept of `base.arguments`: its flag, range and help. The verb judges real numbers."""
    flag = next(part for part in get_args(concept) if isinstance(part, Flag))
    least, most = next(
        ((part.least, part.most) for part in get_args(concept) if isinstance(part, Integer)), (None, None)
    )
    return typer.Option(flag.name, min=least, max=most, help=flag.help or None)


Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH...",
        help="Files, globs, folders, s3:// and the like, or one corpus made by ingest; - is standard input.",
        show_default=False,
    ),
]
Format = Annotated[str, typer.Option("--format", help="Importer, or auto.")]
MappingFile = Annotated[
    Path | None, typer.Option("--mapping", help="TOML or JSON file that maps the fields of a custom format.")
]
Threads = Annotated[int | None, option(arguments.Threads)]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 3 if records were quarantined.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that exists.")]
Seed = Annotated[int, option(arguments.Seed)]
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LongestGap = Annotated[
    str,
    typer.Option(
        "--max-gap",
        metavar="NUMBER[s|m|h|d]|auto|none",
        help="Longest gap that counts as work, in the recording's time; more is idle. auto: an hour.",
    ),
]
UntrustedTools = Annotated[
    list[str] | None,
    typer.Option("--untrusted-tool", help="A tool whose results are untrusted, or a pattern; repeatable."),
]
TrustedTools = Annotated[
    list[str] | None,
    typer.Option(
        "--trusted-tool", help="A tool whose results are trusted, unless it is named untrusted; repeatable."
    ),
]
PrivilegedTools = Annotated[
    list[str] | None,
    typer.Option("--privileged-tool", help="A tool whose calls are privileged, or a pattern; repeatable."),
]
MemoryTools = Annotated[
    list[str] | None,
    typer.Option("--memory-tool", help="A tool that reads a memory, or a pattern; repeatable."),
]
Verifiers = Annotated[
    list[str] | None,
    typer.Option("--verifier", help="An agent that judges what others did; repeatable."),
]
ReadingTools = Annotated[
    list[str] | None,
    typer.Option("--reading-tool", help="A tool that only reads, or a pattern; repeatable."),
]
WritingTools = Annotated[
    list[str] | None,
    typer.Option("--writing-tool", help="A tool that does more than read, or a pattern; repeatable."),
]
VerifyingTools = Annotated[
    list[str] | None,
    typer.Option("--verifying-tool", help="A tool that verifies changes, or a pattern; repeatable."),
]
PriceList = Annotated[
    str,
    typer.Option(
        "--prices",
        metavar="FILE|package|none",
        help="CSV file of prices per million tokens, for what records none; package: the list of ours.",
    ),
]
Batch = Annotated[bool, typer.Option("--batch", help="All requests were sent as a batch.")]
PlanFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="What `plan` wrote.")]
Place = Annotated[
    str | None,
    typer.Option("--corpus", help="Folder or address of the corpus here; default: as it was planned."),
]
Params = Annotated[list[str] | None, typer.Option("--param", "-P", help="NAME=VALUE; repeatable.")]
Unit = Annotated[str, typer.Option("--unit", help="team, role, agent, turn, event, ...")]
Method = Annotated[str, typer.Option("--method", help="See the command methods.")]
Scores = Annotated[
    list[str] | None,
    typer.Option("--reward-score", help="Recorded score to read as a reward; repeatable."),
]

NullValues = Annotated[
    list[str] | None,
    typer.Option("--null-value", help="NAME=NUMBER that means unknown, as score=-1; repeatable."),
]


@dataclass(frozen=True)
class RecordingOptions:
    """Which recordings are read, and how."""

    paths: Paths
    format: Format = "auto"
    mapping: MappingFile = None
    threads: Threads = None

    def words(self) -> str:
        """The same recordings on a command line."""
        words = [*self.paths]
        words += ["--format", self.format] if self.format != "auto" else []
        words += ["--mapping", str(self.mapping)] if self.mapping is not None else []
        return shlex.join(words)


@dataclass(frozen=True)
class StrictOptions(RecordingOptions):
    """The same of a command that goes on without records that were rejected."""

    strict: Strict = False


@dataclass(frozen=True)
class RewardOptions:
    """Where the reward comes from that is divided."""

    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", help="CHANNEL or CHANNEL=WEIGHT; repeatable. [default: team]"),
    ] = None
    rewards: Annotated[
        Path | None,
        typer.Option(
            "--rewards", help="CSV, Parquet or JSONL file of rewards: trace_id, and a column per channel."
        ),
    ] = None
    reward_score: Scores = None
    null_value: NullValues = None


@dataclass(frozen=True)
class EngineOptions:
    """Who computes a table of a corpus on disk."""

    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Of a corpus on disk: processes or ray; default: this process."),
    ] = None
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="With --engine: tasks at a time.")
    ] = None
    address: Annotated[
        str | None, typer.Option("--address", help="With --engine ray: of the cluster, as in ray.init.")
    ] = None

    def running(self, threads: int | None) -> dict[str, Any]:
        """The arguments of a verb about how it runs."""
        if self.engine is None:
            if self.workers is not None or self.address is not None:
                raise ParameterError("--workers and --address are of --engine: name processes or ray")
            return {"threads": threads, "progress": True}
        if self.engine == "ray":
            engine = distributed.ray(self.address, workers=self.workers, threads=threads)
        elif self.address is not None:
            raise ParameterError(f"--address is of --engine ray, not of '{plain(self.engine)}': leave it out")
        elif self.engine == "processes":
            engine = distributed.processes(workers=self.workers, threads=threads)
        else:
            raise ParameterError(unknown_name("engine", self.engine, list(get_args(EngineName))))
        return {"engine": engine, "progress": True}


def prices_of(text: str) -> str | None:
    """What ``--prices`` says, as verbs take it."""
    return None if text == "none" else text


def gap_of(text: str) -> "MaxGap":
    """What ``--max-gap`` says, as verbs take it."""
    words: dict[str, MaxGap] = {"auto": "auto", "none": None}
    if text in words:
        return words[text]
    amount, unit = (text[:-1], text[-1:]) if text[-1:] in _SECONDS else (text, "s")
    try:
        seconds = float(amount) * _SECONDS[unit]
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ParameterError(
            f"--max-gap is '{plain(text)}', expected a number, one with a unit (30s, 5m, 1h, 2d), auto or"
            " none; no number below 0"
        )
    return seconds
