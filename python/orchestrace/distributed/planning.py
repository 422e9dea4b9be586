"""Division of a call on a corpus on disk into tasks."""

import os
from collections.abc import Iterable
from typing import Annotated, Any

from .. import _core
from ..base.arguments import Integer
from ..base.division import Arguments, Pieces
from ..base.errors import ParameterError
from ..base.paths import expanded, path_of
from ..base.verbs import verb
from ..corpus.reading import Source
from ..credit.registry import in_pieces
from ..disk.manifest import load, load_home
from ..disk.partitioned import PartitionedCorpus, on_disk, read_corpus
from .arguments import arguments_of, text_of
from .folder import manifest_digest, save_plan
from .ingest_plan import INGEST, planned_ingest
from .tasks import Call, Plan, Share, planned
from .verbs import RUNNING, division_of, run_verb, verb_of
from .views import Piece, PlannedCorpus


@verb
def plan(
    corpus: PartitionedCorpus | str | os.PathLike[str] | Iterable[Source],
    verb: str,
    *arguments: Any,
    folder: str | os.PathLike[str],
    tasks: Annotated[int | None, Integer()] = None,
    **options: Any,
) -> Plan:
    """Divide a call of a verb into tasks that run anywhere, in any order, any number of times.

    Parameters
    ----------
    corpus
        What `read_corpus` opened, filtered or not, or the folder of a corpus. Its budget, ``memory=``,
        decides where it is divided, and is what a task needs. Of the verb ``"ingest"``: files, globs and
        folders, as `ingest` takes them.
    verb
        A name of `verbs`: ``"credit"``, ``"replay"``, ``"rewards.compute"``, ... Or ``"ingest"``, with
        ``out=`` for the folder of the corpus, which `reduce` makes, and ``memory group partitions`` and
        options of reading as `ingest` takes them.
    arguments, options
        As the verb takes them, beside the corpus. They are judged now, by the names of the whole corpus.
    folder
        Where ``plan.json`` and the parts are written: a place that all workers share. The folder of the same
        plan is taken as it is, with the parts that are there.
    tasks
        How many tasks at most; None makes one for each piece of the corpus.

    Returns
    -------
    Plan
        With its ``tasks``: frozen values of some hundred bytes, which pickle and JSON keep.

    Raises
    ------
    ParameterError
        The verb cannot be divided, its arguments are wrong or not plain values, the folder has something else
        in it, or the corpus is in memory or was changed by `Corpus.with_measures` or `Corpus.with_fields`.
    InputError
        There is no corpus, or a group has more events than fit into the budget.

    Notes
    -----
    Pieces are those that the verb itself goes through on one machine: whole groups, in the order of the
    corpus. So the table that `reduce` gives is the one that the verb gives on
    ``read_corpus(folder, memory=...)`` with the same budget, bit for bit. Planning reads the manifest, of
    partitions beyond the budget the sizes of traces, and what has to be known of all traces: names of tools
    and rewards.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus", partitions=4)
    >>> plan = ot.distributed.plan(f"{place}/corpus", "credit", unit="agent", folder=f"{place}/plan")
    >>> results = [ot.distributed.run_task(task) for task in reversed(plan.tasks)]
    >>> credits = ot.distributed.reduce(results)
    >>> credits.equals(ot.credit(ot.read_corpus(f"{place}/corpus"), unit="agent"))
    True
    """
    if tasks == 0:
        raise ParameterError("tasks is 0, expected at least 1")
    if verb == INGEST:
        if arguments or isinstance(corpus, PartitionedCorpus):
            raise ParameterError("a planned ingest takes files, globs or folders, and all else by name")
        return planned_ingest(corpus, folder, tasks, options)
    verb_of(verb)  # an unknown verb is reported before the corpus is opened
    opened = corpus if isinstance(corpus, PartitionedCorpus) else _opened(corpus)
    place = os.path.abspath(path_of(folder))
    new_plan = planned(*divided_call(opened, verb, Arguments(arguments, options), tasks), place)
    save_plan(new_plan)
    return new_plan


def divided_call(
    opened: PartitionedCorpus, verb: str, arguments: Arguments, tasks: int | None
) -> tuple[Call, list[Share]]:
    """What all tasks of a call have in common, and what each does.

    Raises
    ------
    ParameterError, InputError
        As `plan` says.
    """
    about = verb_of(verb)
    check_unchanged(opened)
    for name in RUNNING:
        if name in arguments.named:
            raise ParameterError(
                f"{name} is not an option of a plan: pass it to the call that runs or reduces the tasks"
            )
    where = _place_of(opened)
    digest = manifest_digest(where)
    home = on_disk(opened).manifest.home
    if (load(on_disk(opened).folder) if home is None else load_home(home)) != on_disk(opened).manifest:
        raise ParameterError(f"the corpus in '{where}' has changed since it was opened: open it again")
    text = text_of(arguments)
    parsed = arguments_of(text)  # what a task will receive
    view = PlannedCorpus(opened)
    division = division_of(about)
    modules = division.modules(parsed)
    handed = division.prepare(view, parsed)
    division.check(
        parsed,
        Pieces(
            lambda: sum(1 for _ in view.divided()) > 1,
            on_disk(view).chosen is not None,
            lambda: in_pieces(view),
        ),
    )
    run_verb(about, view, parsed, None)  # judges the arguments, and computes nothing
    call = Call(
        engine=_core.VERSION,
        schema=_core.SCHEMA_VERSION,
        verb=verb,
        arguments=text,
        asked=text_of(handed),
        modules=modules,
        corpus=where,
        manifest=digest,
        memory=on_disk(opened).memory,
        verify=on_disk(opened).manifest.verify,
        channels=view.channels,
    )
    return call, _divided(view, tasks)


def check_unchanged(opened: PartitionedCorpus) -> None:
    """Refuse a corpus that is not what its files say.

    Raises
    ------
    ParameterError
        It was changed in memory.
    """
    if on_disk(opened).is_changed:
        raise ParameterError(
            "the corpus was changed by with_measures or with_fields, which no task sees: write it first, with"
            " ot.export(corpus, 'parquet', folder), and plan what read_corpus opens there"
        )


def _opened(corpus: Any) -> PartitionedCorpus:
    if isinstance(corpus, str | os.PathLike):
        return read_corpus(expanded(corpus))
    raise ParameterError(
        f"corpus is of type {type(corpus).__name__}, expected one on disk, which workers can open: make it"
        " with ingest, or export(corpus, 'parquet', folder), and open it with read_corpus"
    )


def _place_of(corpus: PartitionedCorpus) -> str:
    """Where every worker opens the corpus."""
    home = on_disk(corpus).manifest.home
    if home is None:
        return os.fspath(on_disk(corpus).folder.absolute())
    if home.address.query or home.address.user:
        raise ParameterError(
            f"the address of the corpus '{home.url}' has a query or a password, which a plan would keep in"
            " its file: use an address without, or copy the corpus to a folder that all workers see"
        )
    return home.url


def _divided(corpus: PlannedCorpus, tasks: int | None) -> list[Share]:
    """Pieces, events and traces of each task: consecutive pieces, about as many events in each."""
    pieces = list(corpus.divided())
    total = max(sum(events for _, _, events, _ in pieces), 1)
    groups: dict[int, list[Piece]] = {}
    before = 0
    for number, piece in enumerate(pieces):
        middle = before + piece[2] / 2
        at = number if tasks is None or tasks >= len(pieces) else min(int(middle * tasks / total), tasks - 1)
        groups.setdefault(at, []).append(piece)
        before += piece[2]
    return [
        Share(
            tuple((partition, number) for partition, number, _, _ in group),
            sum(events for _, _, events, _ in group),
            corpus.runs_of({partition for partition, _, _, _ in group}),
        )
        for group in groups.values()
    ]
