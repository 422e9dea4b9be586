"""Commands that measure recordings and the survey: metrics, rewards, decisions, taint, survey."""

from pathlib import Path
from typing import Annotated, Any, get_args

import polars as pl
import typer

from .. import decisions, metrics, taint
from ..base.errors import ParameterError
from ..base.paths import path_of
from ..base.publication import published_folder, write_parquet
from ..base.schema import unknown_name
from ..base.text import plain
from ..metrics.verb import By
from ..rewards import compute, rules as reward_rules
from ..safety import sanitizer_cut
from ..scaling import survey
from .application import app
from .options import (
from ... import decisions, metrics, taint
from ...base.errors import ParameterError
from ...base.paths import path_of
from ...base.publication import published_folder, write_parquet
from ...base.schema import unknown_name
from ...base.text import plain
from ...metrics.verb import By
from ...rewards import compute
from ...rewards import rules as reward_rules
from ...safety import sanitizer_cut
from ...scaling import survey
from ..application import app
from ..options import (
    EngineOptions,
    Json,
    LongestGap,
    Params,
    PrivilegedTools,
    StrictOptions,
    TrustedTools,
    UntrustedTools,
    gap_of,
    grouped,
)
from ..recordings import tell_quarantined, usable
from ..tables import TableOptions, show, tell
from ..values import limits, rule_channels, rule_params


@app.command(name="metrics")
@grouped
def metrics_(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    by: Annotated[
        str, typer.Option("--by", help="trace, agent, role; or means by importer, topology, system, task.")
    ] = "importer",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group of metrics; repeatable; default: all linear.")
    ] = None,
    max_gap: LongestGap = "auto",
) -> None:
    """Measure efficiency, collaboration, overhead and safety."""
    words = ["trace", *get_args(By)]
    if by not in words:
        raise ParameterError(unknown_name("word for --by", by, words))
    corpus = usable(recordings)
    options: dict[str, Any] = {"by": None if by == "trace" else by, "groups": group or None}
    frame = metrics(corpus, **options, max_gap=gap_of(max_gap), **engine.running(recordings.threads))
    table.give(frame, f"metrics by {by}", f"metrics by {by}")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="rewards")
@grouped
def rewards_(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule", help="A rule of ot.rewards.rules(); repeatable; default: all that pay the team."
        ),
    ] = None,
    param: Params = None,
    channel: Annotated[
        list[str] | None,
        typer.Option("--channel", help="NAME=REWARD: which recorded reward a rule's channel is; repeatable."),
    ] = None,
) -> None:
    """Compute rewards by rules: what each run or unit is paid."""
    known = reward_rules()
    asked = rule or known.filter(unit="team")["reward"].to_list()
    given = rule_params(param)
    if given and len(asked) != 1:
        raise ParameterError("--param applies to one rule: name it with --rule")
    corpus = usable(recordings)
    frame = compute(
        corpus,
        {asked[0]: given} if given else asked,
        channels=rule_channels(channel),
        **engine.running(recordings.threads),
    )
    table.give(frame, "rewards", "rewards")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="decisions")
@grouped
def decisions_(
    recordings: StrictOptions,
    table: TableOptions,
    kind: Annotated[
        str, typer.Option("--kind", help="spawn, delegate, communicate, aggregate or stop.")
    ] = "spawn",
    reward: Annotated[
        str, typer.Option("--reward", help="The reward channel that is the outcome of a run.")
    ] = "team",
    no_reward: Annotated[
        bool, typer.Option("--no-reward", help="The recordings have no rewards: leave outcomes out.")
    ] = False,
    bounds: Annotated[
        str | None, typer.Option("--bounds", help="LEAST,GREATEST reward, for bounds where nothing is known.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help="Of stop: draft, score, turn or attempt; default: the first."),
    ] = None,
) -> None:
    """List decisions: what was known, done, and gained."""
    options: dict[str, Any] = {"source": source, "bounds": limits(bounds)}
    corpus = usable(recordings)
    chosen: Any = kind
    found = decisions.table(corpus, chosen, reward=None if no_reward else reward, **options)
    table.give(found, f"decisions to {kind}", "decisions")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="taint")
@grouped
def taint_(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    carry: Annotated[str, typer.Option("--carry", help="all, context or safety_flow.")] = "all",
    untrusted: UntrustedTools = None,
    trusted: TrustedTools = None,
    privileged: PrivilegedTools = None,
    cut: Annotated[
        bool, typer.Option("--cut", help="Show where sanitizers would keep outcomes clean.")
    ] = False,
) -> None:
    """Follow untrusted content: what it reached, where to stop it."""
    if cut and privileged:
        raise ParameterError(
            "--privileged-tool has no effect with --cut, which concerns the outcome: drop one of them"
        )
    corpus = usable(recordings)
    options: dict[str, Any] = {"carry": carry, "untrusted_tools": untrusted or ()}
    options |= {"trusted_tools": trusted or (), **engine.running(recordings.threads)}
    if cut:
        table.give(sanitizer_cut(corpus, **options), "sanitizers", "taint cut")
    else:
        found = taint(corpus, privileged_tools=privileged or (), **options)
        table.give(found, "taint", "taint privileged" if privileged else "taint")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="survey")
def survey_(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with papers.csv and excluded.csv.")],
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a Parquet file of each table to this folder.")
    ] = None,
) -> None:
    """Recompute the statistics of the survey."""
    tables = survey(path)
    if output is not None:
        with published_folder(path_of(output)) as folder:
            for name, frame in tables.items():
                write_parquet(frame, folder / f"{name}.parquet")
        typer.echo(f"wrote {len(tables)} Parquet files to {plain(output)}", err=as_json)
    if as_json:
        tell(tables)
    elif output is None:
        for name, frame in tables.items():
            words = frame.with_columns(pl.col(pl.List(pl.String)).list.join(" "))
            show(words, name, f"survey {name}", limit=20 if name == "cells" else None)
