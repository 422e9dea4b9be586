"""Selected runs as files that trainers read, made of their source records."""

import json
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, BinaryIO, Final, cast

import polars as pl

from .. import _core
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.progress import Progress, reporting
from ..base.publication import published_file
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import file_of_records, input_of
from ..corpus.source import record_of
from .conversations import Message, conversation, parted, prompt_of, tools_of
from .selection import Purpose

WRITTEN: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "file": pl.Enum(["train.jsonl", "validation.jsonl"]),
        "line": pl.UInt32(),
        "reason": pl.String(),
    }
)
"""Columns and types of what `sink_selection` returns."""

_OF_RUN: Final = ("trace", "trace_id", "task_id", "system", "split", "pair", "side", "attempts", "pass_rate")
_NEEDED: Final = ("trace", "kept", "split", "pair", "side", "attempts", "pass_rate")


@verb
def sink_selection(
    corpus: Corpus,
    selection: pl.DataFrame,
    purpose: Purpose,
    folder: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Progress = None,
) -> pl.DataFrame:
    """Write the runs of a selection as the conversations that their records hold.

    Parameters
    ----------
    corpus
        The recordings, read from files that are still there.
    selection
        Of `select`, or rows of it.
    purpose
        ``"sft"``: lines of ``messages`` (and ``tools``, where a record declares them). ``"dpo"``: ``prompt
        chosen rejected``, messages that two runs share and what each went on with. ``"rl"``: ``prompt``, what
        stands before the first answer, with ``data_source`` (the system) and ``extra_info``. All have
        ``trace_id`` and ``task_id``.
    folder
        Where ``train.jsonl`` and ``validation.jsonl`` are written.
    overwrite
        Replace files that exist.
    progress
        As in `read_traces`; it counts runs.

    Returns
    -------
    DataFrame
        A row per kept run: ``trace trace_id file line reason``. ``reason`` says why a run is in no file:
        ``conversation.absent``, ``conversation.several``, ``conversation.unanswered``, ``prompt.absent`` (the
        assistant speaks first), ``record.unreadable`` (what stands in its place is no JSON), or
        ``prompt.differs`` (the two runs of a pair, or only one of them, do not begin with the same message of
        a user), ``pair.same`` (the two say the same).

    Raises
    ------
    InputError
        A file is gone or has changed, a run was not read from one, a file exists and `overwrite` is false, or
        it cannot be written.
    ParameterError
        The selection lacks a column, has a run twice or, of ``"dpo"``, without a pair; the folder is a file.

    Notes
    -----
    Lines stand in the order of files and places. One run is in memory at a time, of pairs one half of each
    that waits for the other. Files have their names when they are complete. A record that is no list of
    messages, as spans are, is left out with a reason: nothing is put together that the record does not say.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import orchestrace as ot
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> turns = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    >>> record = {"instance_id": "sum", "trajectory_id": "a", "messages": turns, "resolved": 1}
    >>> _ = (folder / "runs.jsonl").write_text(json.dumps(record))
    >>> corpus = ot.read_traces(folder / "runs.jsonl")
    >>> chosen = ot.trainers.select(corpus, "sft", validation=0.0)
    >>> ot.trainers.sink_selection(corpus, chosen, "sft", folder, overwrite=True)["reason"].to_list()
    [None]
    >>> json.loads((folder / "train.jsonl").read_text())["messages"] == turns
    True
    """
    for name in _NEEDED:
        if name not in selection.columns:
            raise ParameterError(f"selection: {unknown_name('column', name, selection.columns)}")
    if selection["trace"].is_duplicated().any():
        raise ParameterError("selection has several rows of one run, expected those of one call of select")
    if purpose == "dpo" and selection.filter(pl.col("kept") & pl.col("pair").is_null()).height:
        raise ParameterError("selection keeps runs without a pair, expected that of select(corpus, 'dpo')")
    places = corpus.traces.select(
        "trace",
        "trace_id",
        "task_id",
        pl.col("system", "file", "importer").cast(pl.String),
        "line",
        "offset",
        "length",
    ).collect(engine="streaming")
    chosen = (
        selection.filter("kept").select(_NEEDED).join(places, on="trace", how="left", maintain_order="left")
    )
    if chosen["file"].null_count() or chosen["offset"].null_count():
        trace = chosen.filter(pl.col("file").is_null() | pl.col("offset").is_null())["trace"][0]
        raise InputError(f"trace {trace} was not read from a file, so that it has no record to write")
    out = path_of(folder)
    if out.exists() and not out.is_dir():
        raise ParameterError(f"'{folder}' is a file, expected a folder")
    out.mkdir(parents=True, exist_ok=True)
    with reporting(progress, "writing the selection") as report, ExitStack() as opened:
        files = {
            split: opened.enter_context(published_file(out / f"{split}.jsonl", overwrite=overwrite))
            for split in ("train", "validation")
        }
        writer = _Writer(purpose, files, chosen.height, report)
        for (file,), rows in chosen.sort("file", "offset", "trace").group_by("file", maintain_order=True):
            _read(corpus, str(file), rows, writer)
    return writer.table()


def _read(corpus: Corpus, file: str, rows: pl.DataFrame, writer: "_Writer") -> None:
    """Hand the record of each row to the writer; several runs may be of one."""
    places = rows.group_by("offset", "length", maintain_order=True).agg(
        pl.struct(_OF_RUN).alias("runs"), pl.col("trace", "line", "importer").first()
    )
    if input_of(corpus, file)[1] != file:  # in an archive, which is opened for each
        for row in places.to_dicts():
            writer.add(row["runs"], record_of(corpus, row | {"file": file}).encode())
        return
    path, options = file_of_records(corpus, file)
    lines = _Lines(places["runs"].to_list(), writer)
    try:
        count = _core.copy_records(
            path, places.select("offset", "length").rows(), cast(Any, lines), **options
        )
    except Exception:
        if lines.failure is not None:
            raise lines.failure from None
        raise
    if count != places.height:
        raise InputError(f"'{file}' has changed since it was read: {count} of {places.height} records found")


class _Lines:
    """A binary file to which records are written, a line each, and which hands on what is complete."""

    def __init__(self, runs: list[list[dict[str, Any]]], writer: "_Writer") -> None:
        self._runs, self._writer = iter(runs), writer
        self._open: list[bytes] = []
        self.failure: Exception | None = None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            *ended, rest = bytes(data).split(b"\n")
            for end in ended:
                self._writer.add(next(self._runs), b"".join([*self._open, end]))
                self._open = []
            self._open.append(rest)
        except Exception as error:
            self.failure = error
            raise
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back but a line that has not ended."""


class _Writer:
    """Makes lines of records, in the form of one purpose."""

    def __init__(
        self,
        purpose: Purpose,
        files: dict[str, BinaryIO],
        total: int,
        report: Callable[[int, int], object] | None,
    ) -> None:
        self._purpose, self._files, self._total, self._report = purpose, files, total, report
        self._lines = dict.fromkeys(files, 0)
        self._waiting: dict[int, tuple[dict[str, Any], list[Message], list[Any] | None]] = {}
        self._rows: list[tuple[Any, ...]] = []

    def add(self, runs: list[dict[str, Any]], text: bytes) -> None:
        """Take the record of some runs, which is one of each but for documents that hold several."""
        record = None
        messages: list[Message] = []
        reason: str | None = "record.unreadable"
        with suppress(ValueError, RecursionError):
            record = json.loads(text)
            messages, reason = conversation(record)
        if len(runs) > 1:
            messages, reason = [], "conversation.several"
        for run in runs:
            if reason is not None:
                self._note(run, None, reason)
            elif self._purpose == "dpo":
                self._add_half(run, messages, tools_of(record))
            elif self._purpose == "rl" and not prompt_of(messages):
                self._note(run, None, "prompt.absent")
            else:
                self._write([run], self._line(run, messages), tools_of(record))

    def table(self) -> pl.DataFrame:
        """A row per run; of pairs of which only one half came, that too."""
        for run, _, _ in self._waiting.values():
            self._note(run, None, "prompt.differs")
        return pl.DataFrame(self._rows, schema=WRITTEN, orient="row").sort("trace")

    def _line(self, run: dict[str, Any], messages: list[Message]) -> dict[str, Any]:
        if self._purpose == "sft":
            return {"messages": messages}
        info = {name: run[name] for name in ("split", "attempts", "pass_rate")}
        return {"prompt": prompt_of(messages), "data_source": run["system"], "extra_info": info}

    def _add_half(self, run: dict[str, Any], messages: list[Message], tools: list[Any] | None) -> None:
        other = self._waiting.pop(run["pair"], None)
        if other is None:
            self._waiting[run["pair"]] = run, messages, tools
            return
        halves = {run["side"]: (run, messages), other[0]["side"]: other[:2]}
        (chosen, good), (rejected, bad) = halves["chosen"], halves["rejected"]
        parts = parted(good, bad)
        if parts is None:
            reason = "pair.same" if good == bad else "prompt.differs"
            self._note(chosen, None, reason)
            self._note(rejected, None, reason)
            return
        line = dict(zip(("prompt", "chosen", "rejected"), parts, strict=True))
        self._write([chosen, rejected], line, tools if tools == other[2] else None)

    def _write(self, runs: list[dict[str, Any]], line: dict[str, Any], tools: list[Any] | None) -> None:
        of = runs[0]
        row = (
            line | ({"tools": tools} if tools else {}) | {name: of[name] for name in ("trace_id", "task_id")}
        )
        if len(runs) > 1:
            row["rejected_trace_id"] = runs[1]["trace_id"]
        try:
            line_of = json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:  # half of a character that takes two: as the escape that it was
            line_of = json.dumps(row).encode()
        self._files[of["split"]].write(line_of + b"\n")
        self._lines[of["split"]] += 1
        for run in runs:
            self._note(run, of["split"], None)

    def _note(self, run: dict[str, Any], split: str | None, reason: str | None) -> None:
        line = None if split is None else self._lines[split]
        file = None if split is None else f"{split}.jsonl"
        self._rows.append((run["trace"], run["trace_id"], file, line, reason))
        if self._report is not None:
            self._report(len(self._rows), self._total)
