"""Seeded recordings for tests, benches and first steps."""

import io
import os
from typing import Annotated, BinaryIO, overload

from .. import _core
from ..base.arguments import Integer, Seed, Threads
from ..base.progress import Progress, reporting
from ..base.publication import published
from ..base.verbs import verb
from ..corpus.corpus import Corpus


@overload
def generate(
    path: None = None,
    *,
    preset: str = "mixed",
    traces: int | None = None,
    events: int | None = None,
    seed: Seed = 0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> Corpus: ...
@overload
def generate(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    preset: str = "mixed",
    traces: int | None = None,
    events: int | None = None,
    seed: Seed = 0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> dict[str, int]: ...
@verb
def generate(
    path: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    preset: str = "mixed",
    traces: Annotated[int | None, Integer(0, 10**12)] = None,
    events: Annotated[int | None, Integer(0, 10**12)] = None,
    seed: Seed = 0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> Corpus | dict[str, int]:
    """Make a corpus of schema-valid recordings; one seed gives the same bytes on any number of threads.

    Parameters
    ----------
    path
        File or binary file object that takes the native JSONL. ``None`` returns the corpus itself.
    preset
        What kind of recordings.
    traces, events
        How many traces, or exactly how many events in all.
    seed
        Any integer from 0 to 2⁶³ - 1.
    overwrite
        Replace a file that exists.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    Corpus or dict
        Without a path the corpus, else what was written, as counts.

    Raises
    ------
    ParameterError
        Unknown preset, or a size that makes no sense.
    InputError
        The file exists and `overwrite` is false, or it cannot be written.

    Notes
    -----
    Linear in the number of events.

    Examples
    --------
    >>> import orchestrace as ot
    >>> len(ot.generate(traces=5, seed=0))
    5
    """
    memory = io.BytesIO()
    target = memory if path is None else path
    with published(target, overwrite=overwrite) as sink, reporting(progress, "generating") as callback:
        counts = _core.generate(
            sink,
            preset=preset,
            events=events,
            traces=traces,
            seed=seed,
            threads=threads,
            progress=callback,
        )
    if path is not None:
        return counts
    memory.seek(0)
    return Corpus(_core.read([memory], format="native", threads=threads))
