"""Recordings as input of commands, and reports on records that were not used."""

import shlex
import warnings

import polars as pl
import typer

from .. import read_corpus, read_traces
from ..base.errors import InputError, ParameterError
from ..base.paths import expanded
from ..base.text import counted, plain
from ..corpus.corpus import Corpus
from ..corpus.on_disk import is_corpus
from ..corpus.reading import nothing_used
from ..corpus.remote_inputs import is_remote_corpus
from .options import RecordingOptions, RewardOptions
from .output import QUARANTINED
from .values import null_values


def opened(
    recordings: RecordingOptions, rewards: RewardOptions | None = None, *, extras: bool = True
) -> Corpus:
    """The recordings that a command names, even if no record could be used."""
    scores = (rewards and rewards.reward_score) or ()
    unknown = null_values((rewards and rewards.null_value) or ())
    place = expanded(recordings.paths[0])
    if len(recordings.paths) == 1 and (is_corpus(place) or is_remote_corpus(place)):
        settled = {
            "--reward-score": scores,
            "--null-value": unknown,
            "--format": recordings.format != "auto",
            "--mapping": recordings.mapping,
        }
        for flag, value in settled.items():
            if value:
                raise ParameterError(f"{flag} applies when a corpus is made: give it to ingest")
        corpus: Corpus = read_corpus(recordings.paths[0])
    else:
        with warnings.catch_warnings():
            # said as an error, where it is one
            warnings.filterwarnings("ignore", "nothing could be used")
            corpus = read_traces(
                recordings.paths,
                format=recordings.format,
                mapping=recordings.mapping,
                threads=recordings.threads,
                reward_scores=scores,
                null_values=unknown,
                progress=True,
                extras=extras,
            )
        if recordings.mapping is not None:
            _report_unused(corpus, recordings)
    return corpus


def _report_unused(corpus: Corpus, recordings: RecordingOptions) -> None:
    """Say on stderr which keys of a mapping found nothing."""
    unused = corpus.findings.filter(pl.col("code") == "mapping.unused").select("message").collect()
    for message in unused["message"]:
        typer.echo(plain(f"{recordings.mapping}: {message}; to see all keys: {_check(recordings)}"), err=True)


def _check(recordings: RecordingOptions) -> str:
    """The command that says what each key of a mapping finds."""
    return shlex.join(["orchestrace", "mapping", "check", str(recordings.mapping), *recordings.paths])


def usable(recordings: RecordingOptions, rewards: RewardOptions | None = None) -> Corpus:
    """The recordings that a command names, with the rewards that it names.

    Raises
    ------
    InputError
        Nothing of them could be used.
    """
    corpus = opened(recordings, rewards)
    refuse_unused(corpus, recordings)
    if rewards is not None and rewards.rewards is not None:
        corpus = corpus.with_measures(rewards.rewards)
    return corpus


def refuse_unused(corpus: Corpus, recordings: RecordingOptions | None = None) -> None:
    """Fail where no record of a corpus could be used; the advice is about the mapping, if there was one.

    Raises
    ------
    InputError
        Says why not.
    """
    if (reason := nothing_used(corpus)) is not None:
        if recordings is not None and recordings.mapping is not None:
            reason += f"; to see what each key finds: {_check(recordings)}"
        raise InputError(reason)


def report_quarantined(corpus: Corpus, recordings: RecordingOptions, strict: bool = False) -> None:
    """Say on stderr how much was quarantined and which command says why; if `strict`, exit with 3."""
    if count := corpus.records["quarantined"]:
        summary = f"{count:,} of {counted(corpus.records['read'], 'record')} quarantined; to see why:"
        typer.echo(plain(f"{summary} orchestrace validate {recordings.words()}"), err=True)
        if strict:
            raise typer.Exit(QUARANTINED)
