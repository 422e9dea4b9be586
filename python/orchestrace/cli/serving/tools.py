"""The tools of the command `mcp`: each asks a verb of the package about recordings below the root."""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, get_args

import polars as pl

from ... import describe as describe_tables, evaluation, read_corpus, summary as summary_of
from ...base.errors import InputError, OrchestraceError, ParameterError
from ...base.schema import unknown_name
from ...base.text import plain
from ...corpus.on_disk import MANIFEST, is_corpus
from ...corpus.recording_names import is_recording
from ...costs import table as cost_table, waste as waste_table
from ...costs.verb import By as CostBy
from ...costs.waste import By as WasteBy
from ..differences import parting_story, run_of
from ..values import word
from .answers import MOST_ROWS, Answer, table
from .arguments import Argument
from .confinement import Entry, Root
from .queries import check, columns_of_tables
from .recordings import Recordings

_LISTED: Final = 20_000
"""Entries that a listing looks at."""


@dataclass(frozen=True)
class Tool:
    """A tool: its name, what it answers, its arguments, and the function that answers."""

    name: str
    about: str
    arguments: tuple[Argument, ...]
    run: Callable[..., Answer]


def _list(recordings: Recordings, path: str, rows: int) -> Answer:
    root = recordings.root
    place = root.place(path)
    if not place.is_dir():
        raise ParameterError(f"path is '{plain(path)}', a file, expected a folder")
    looked = list(itertools.islice(root.entries(place), _LISTED + 1))
    listed: list[tuple[str, str, int | None, int | None]] = []
    corpora: set[Path] = set()
    for entry in [Entry(place, 0, is_folder=True), *looked[:_LISTED]]:
        if any(parent in corpora for parent in entry.path.parents):
            continue  # files of a corpus
        if entry.is_folder and (corpus := _corpus(root, entry.path)) is not None:
            corpora.add(entry.path)
            if corpus[0]:
                listed.append((plain(root.shown(entry.path)), *corpus, None))
        elif not entry.is_folder and is_recording(entry.path.name):
            listed.append((plain(root.shown(entry.path)), "recordings", None, entry.size))
    schema = {"path": pl.String, "kind": pl.String, "traces": pl.Int64, "bytes": pl.Int64}
    answer = table(pl.DataFrame(listed, schema=schema, orient="row"), rows)
    cut = (
        {"left_out": f"what comes after {_LISTED:,} entries: name a folder"} if len(looked) > _LISTED else {}
    )
    return {"recordings": answer, **cut}


def _corpus(root: Root, place: Path) -> tuple[str, int | None] | None:
    """What a listing says of a folder with a corpus: its kind, empty where it is left out, and its traces."""
    if not os.path.lexists(place / MANIFEST):
        return None
    has_parts = any(place.glob("part=[0-9][0-9][0-9]"))
    is_whole = not root.leads_out(place / MANIFEST) and is_corpus(str(place))
    if not has_parts and not is_whole:
        return None  # a manifest of others
    try:
        root.bytes_below(place)
    except ParameterError:  # a part of it lies outside of the root
        return "", None
    except InputError:  # it has too many files to look at all of them
        return "corpus", None
    return ("corpus", _traces(place)) if is_whole else ("damaged corpus", None)


def _traces(place: Path) -> int | None:
    try:
        return len(read_corpus(place))
    except OrchestraceError:  # damaged, or of a later version
        return None


def _describe(recordings: Recordings, path: str, rows: int) -> Answer:
    corpus = recordings.opened(path)
    tables = {name: table(frame, rows) for name, frame in describe_tables(corpus).items() if frame.height}
    return {"records": dict(corpus.records), **tables}


def _summary(recordings: Recordings, path: str) -> Answer:
    corpus = recordings.opened(path)
    lines = [
        {"about": plain(sentence.about), "says": plain(sentence.text)}
        for sentence in summary_of(corpus).sentences(plain(path))
    ]
    return {"records": dict(corpus.records), "sentences": lines}


def _failures(recordings: Recordings, path: str, reward: str, success: float) -> Answer:
    corpus = recordings.opened(path)
    rates = evaluation.failure_rates(corpus, reward=reward, success=success)
    runs = evaluation.failure_classes(corpus).filter(pl.col("n") > 0).sort("n", descending=True)
    return {"records": dict(corpus.records), "rates": table(rates, MOST_ROWS), "runs": table(runs, 50)}


def _waste(recordings: Recordings, path: str, by: str, rows: int) -> Answer:
    corpus = recordings.opened(path)
    lost = waste_table(corpus, by=word(by, "by", get_args(WasteBy)))
    return {"records": dict(corpus.records), "waste": table(lost, rows)}


def _costs(recordings: Recordings, path: str, by: str, rows: int) -> Answer:
    corpus = recordings.opened(path)
    spent = cost_table(corpus, by=word(by, "by", get_args(CostBy)))
    return {"records": dict(corpus.records), "costs": table(spent, rows)}


def _parting(recordings: Recordings, path: str, run_a: str, run_b: str, rows: int) -> Answer:
    corpus = recordings.opened(path)
    runs = [run_of(corpus, name, flag) for name, flag in ((run_a, "run_a"), (run_b, "run_b"))]
    kinds = {"trace_a": pl.UInt32, "trace_b": pl.UInt32}
    pair = pl.DataFrame({"trace_a": runs[:1], "trace_b": runs[1:]}, schema=kinds)
    aligned = evaluation.align(corpus, corpus, pairs=pair)
    script = evaluation.edit_script(corpus, corpus, pairs=pair)
    story = parting_story((corpus, corpus), aligned, script)
    differs = script.filter(pl.col("edit") != "same")
    return {"story": list(map(plain, story)), "steps_of_one_run_alone": table(differs, rows)}


def _query(recordings: Recordings, path: str, query: str, rows: int) -> Answer:
    recordings.root.place(path)
    check(query)
    return recordings.queries.ask(path, query, rows)


_PATH: Final = Argument("path", "text", "A file, folder or corpus, relative to the root.")
_FOLDER: Final = Argument("path", "text", "A folder, relative to the root.", ".")
_ROWS: Final = Argument("rows", "whole", "Rows at most.", 50, least=1, most=MOST_ROWS)

TOOLS: Final = (
    Tool(
        "list_recordings",
        "What is here: corpora and files of recordings below a folder of the root.",
        (_FOLDER, _ROWS),
        _list,
    ),
    Tool(
        "describe",
        "Sizes, origins, rewards and metrics of recordings, what is odd, and which records are broken.",
        (_PATH, _ROWS),
        _describe,
    ),
    Tool(
        "summary",
        "What is worth knowing first of recordings, in a few sentences: outcomes, tokens, time, risks.",
        (_PATH,),
        _summary,
    ),
    Tool(
        "failures",
        "What went wrong: six structural signs of failure, how often failed and passed runs show them, and"
        " which runs show most.",
        (
            _PATH,
            Argument("reward", "text", "The reward that says whether a run passed.", "team"),
            Argument("success", "number", "The reward from which on a run passed.", 1.0),
        ),
        _failures,
    ),
    Tool(
        "waste",
        "What was spent in vain: retries, errors, loops, duplicates, work that led nowhere; the greatest loss"
        " first.",
        (_PATH, Argument("by", "text", "What a row is of.", "tool", get_args(WasteBy)), _ROWS),
        _waste,
    ),
    Tool(
        "costs",
        "What it cost: tokens and dollars, recorded or by prices, and how much has no price.",
        (_PATH, Argument("by", "text", "What a row is of.", "model", get_args(CostBy)), _ROWS),
        _costs,
    ),
    Tool(
        "where_runs_part",
        "Where two runs of the same recordings part, and the steps that one of them alone takes.",
        (
            _PATH,
            Argument("run_a", "text", "A run, by its trace_id or number."),
            Argument("run_b", "text", "Another run."),
            _ROWS,
        ),
        _parting,
    ),
    Tool(
        "query",
        "Rows by one SELECT in SQL (the dialect of Polars), without comments, over these tables:\n"
        + columns_of_tables()
        + "\nand: named_events (events with trace_id, task_id, importer), named_edges, rewards (trace_id,"
        " channel, value), failed_traces (reward team below 1), agent_usage (by trace_id and agent).",
        (_PATH, Argument("query", "text", "The SELECT."), _ROWS),
        _query,
    ),
)


def tool_named(name: str) -> Tool:
    """A tool by its name.

    Raises
    ------
    ParameterError
        There is none of this name.
    """
    for tool in TOOLS:
        if tool.name == name:
            return tool
    raise ParameterError(unknown_name("tool", name[:100], [tool.name for tool in TOOLS]))
