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


def opened(given: RecordingOptions, rewards: RewardOptions | None = None, *, extras: bool = True) -> Corpus:
    """The recordings that a command names, whatever of them could be used."""
    scores = (rewards and rewards.reward_score) or ()
    place = expanded(given.paths[0])
    if len(given.paths) == 1 and (is_corpus(place) or is_remote_corpus(place)):
        settled = {"--reward-score": scores, "--format": given.format != "auto", "--mapping": given.mapping}
        for flag, value in settled.items():
            if value:
                raise ParameterError(f"{flag} applies when a corpus is made: give it to ingest")
        corpus: Corpus = read_corpus(given.paths[0])
    else:
        with warnings.catch_warnings():
            # said as an error, where it is one
            warnings.filterwarnings("ignore", "nothing could be used")
            corpus = read_traces(
                given.paths,
                format=given.format,
                mapping=given.mapping,
                threads=given.threads,
                reward_scores=scores,
                progress=True,
                extras=extras,
            )
        if given.mapping is not None:
            _tell_unused(corpus, given)
    return corpus


def _tell_unused(corpus: Corpus, given: RecordingOptions) -> None:
    """Say on stderr which keys of a mapping found nothing."""
    unused = corpus.findings.filter(pl.col("code") == "mapping.unused").select("message").collect()
    for message in unused["message"]:
        typer.echo(plain(f"{given.mapping}: {message}; to see all keys: {_check(given)}"), err=True)


def _check(given: RecordingOptions) -> str:
    """The command that says what each key of a mapping finds."""
    return shlex.join(["orchestrace", "mapping", "check", str(given.mapping), *given.paths])


def usable(given: RecordingOptions, rewards: RewardOptions | None = None) -> Corpus:
    """The recordings that a command names, with the rewards that it names.

    Raises
    ------
    InputError
        Nothing of them could be used.
    """
    corpus = opened(given, rewards)
    refuse_unused(corpus, given)
    if rewards is not None and rewards.rewards is not None:
        corpus = corpus.with_measures(rewards.rewards)
    return corpus


def refuse_unused(corpus: Corpus, given: RecordingOptions | None = None) -> None:
    """Fail where nothing could be used of what was read for a corpus, by the mapping that was given.

    Raises
    ------
    InputError
        Says why not.
    """
    if (reason := nothing_used(corpus)) is not None:
        if given is not None and given.mapping is not None:
            reason += f"; to see what each key finds: {_check(given)}"
        raise InputError(reason)


def tell_quarantined(corpus: Corpus, given: RecordingOptions, strict: bool = False) -> None:
    """Say on stderr what was quarantined and which command says why; fail if that is asked for."""
    if count := corpus.records["quarantined"]:
        told = f"{count:,} of {counted(corpus.records['read'], 'record')} quarantined; to see why:"
        typer.echo(plain(f"{told} orchestrace validate {given.words()}"), err=True)
        if strict:
            raise typer.Exit(QUARANTINED)
