"""Engines that verbs take: the plan of a call, its tasks and their reduction in one."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ..base.arguments import Count, Size, Threads
from ..base.division import Arguments
from ..base.engines import Engine, VerbCall, register_engine
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.progress import Progress
from ..base.publication import refusal
from ..base.verbs import verb
from ..credit.verb import Absent
from ..disk.partitioned import PartitionedCorpus, on_disk
from .engines import Crew
from .folder import part_file, save_plan
from .planning import check_unchanged, divided_call
from .reducing import reduce
from .scratch import scratch
from .tasks import Plan, planned
from .verbs import division_of, verb_of


@dataclass(frozen=True)
class PlanEngine(Engine):
    """An engine for ``engine=`` of verbs, which `distributed.processes` and `distributed.ray` make.

    Parameters
    ----------
    crew
        Who runs the tasks.
    folder
        Where the folder of a call is made; None is beside the corpus.
    """

    crew: Crew
    folder: str | None

    def table(self, call: VerbCall) -> pl.DataFrame | pl.LazyFrame:
        """The table of one machine, by a plan in a folder of its own."""
        corpus = _on_disk(call.corpus, self.crew.engine)
        arguments = Arguments(call.positional, call.named)
        plan = self._planned(corpus, call.verb, arguments)
        with scratch(Path(plan.folder)):
            try:
                save_plan(plan)
            except OSError as error:
                raise InputError(refusal(plan.folder, error)) from error
            if call.sink is None:
                self.crew.results(plan, progress=call.progress)
                return reduce(plan)
            return self._sunk(corpus, plan, arguments, call)

    @contextmanager
    def joined(self, corpus: object) -> Iterator[None]:
        """One connection to the cluster for several calls; a corpus that none can use is refused first."""
        opened = _on_disk(corpus, self.crew.engine)
        check_unchanged(opened)
        self._home_of(opened)
        with self.crew.joined(on_disk(opened).memory):
            yield

    def _planned(self, corpus: PartitionedCorpus, verb: str, arguments: Arguments) -> Plan:
        """The plan of a call in the folder that the same call finds again."""
        place = self._home_of(corpus)
        parts = divided_call(corpus, verb, arguments, None)
        name = f"{on_disk(corpus).folder.absolute().name[:60]}.{verb}.{planned(*parts, '').id}"
        return planned(*parts, os.fspath(place / name))

    def _home_of(self, corpus: PartitionedCorpus) -> Path:
        """Where the folders of calls are made."""
        home = on_disk(corpus).manifest.home
        if home is not None and self.folder is None:
            raise ParameterError(
                f"the corpus '{home.url}' is in object storage, and parts are files: give the engine a folder"
                f" that all workers see, ot.distributed.{self.crew.engine}(folder=...)"
            )
        return (
            on_disk(corpus).folder.absolute().parent
            if self.folder is None
            else path_of(self.folder).absolute()
        )

    def _sunk(
        self, corpus: PartitionedCorpus, plan: Plan, arguments: Arguments, call: VerbCall
    ) -> pl.LazyFrame:
        fill = division_of(verb_of(call.verb)).sunk
        if fill is None:
            raise ParameterError(f"{call.verb} has no sink")
        resume = True if call.resume is None else call.resume

        def computed(absent: Iterable[Absent]) -> Iterator[tuple[str, pl.DataFrame]]:
            yield from _parts(self.crew, plan, list(absent), call.progress)

        return fill(corpus, call.sink, resume, computed, *arguments.positional, **arguments.named)


def _parts(
    crew: Crew, plan: Plan, absent: list[Absent], progress: Progress
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Rows of the pieces that a sink lacks; a task is a piece."""
    crew.results(plan, progress=progress, only=frozenset(piece.number for piece in absent))
    for piece in absent:
        yield (
            piece.file,
            pl.read_parquet(Path(plan.folder) / part_file(piece.number), hive_partitioning=False),
        )


def _on_disk(corpus: object, engine: str) -> PartitionedCorpus:
    if isinstance(corpus, PartitionedCorpus):
        return corpus
    raise ParameterError(
        f"engine='{engine}' divides a corpus on disk, and this one is in memory: write it with"
        " ot.ingest(files, folder), and give what ot.read_corpus(folder) opens"
    )


@verb
def processes(
    *,
    workers: Size | None = None,
    threads: Threads = None,
    retries: Count = 2,
    folder: str | os.PathLike[str] | None = None,
) -> PlanEngine:
    """Make an engine of worker processes of this machine, for ``engine=`` of verbs.

    Parameters
    ----------
    workers, retries
        As in `run`.
    threads
        Cores of a task; None is 1.
    folder
        Where the parts lie until the table is there. None is the folder that the corpus lies in; a corpus in
        object storage needs one.

    Returns
    -------
    PlanEngine
        A value to give to any number of calls.

    Raises
    ------
    ParameterError
        A number out of range.

    Notes
    -----
    A call makes a plan (see `plan`) in a folder that is named after the corpus, the verb and the digest of
    the plan. The folder is removed when the table is there. After an error, a kill or Ctrl-C it stays, and
    the same call resumes from it.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus", partitions=2)
    >>> corpus = ot.read_corpus(f"{place}/corpus")
    >>> engine = ot.distributed.processes(workers=1)
    >>> credits = ot.credit(corpus, unit="agent", engine=engine)
    >>> credits.equals(ot.credit(corpus, unit="agent"))
    True
    """
    cores = 1 if threads is None else threads
    return PlanEngine(Crew("processes", workers, cores, retries, None), _place(folder))


@verb
def ray(
    address: str | None = None,
    *,
    workers: Size | None = None,
    threads: Threads = None,
    retries: Count = 2,
    folder: str | os.PathLike[str] | None = None,
) -> PlanEngine:
    """Make an engine of tasks on a Ray cluster, for ``engine=`` of verbs.

    Parameters
    ----------
    address, workers, retries
        As in `run`.
    threads
        Cores of a task; None is 1.
    folder
        As in `processes`. All nodes have to see it, and the corpus, under the same names.

    Returns
    -------
    PlanEngine
        A value to give to any number of calls.

    Raises
    ------
    ParameterError
        A number out of range.

    Notes
    -----
    As of `processes`. Ray is imported, and the cluster joined, when a verb is called.

    Examples
    --------
    >>> import orchestrace as ot
    >>> engine = ot.distributed.ray(address="auto", threads=2, retries=3)
    >>> engine.crew.threads
    2
    """
    cores = 1 if threads is None else threads
    return PlanEngine(Crew("ray", workers, cores, retries, address), _place(folder))


def _place(folder: object) -> str | None:
    return None if folder is None else os.fspath(path_of(folder))


register_engine("processes", processes)
register_engine("ray", ray)
