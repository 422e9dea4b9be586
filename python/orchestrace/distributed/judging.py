"""Plans judged again where they run, as they were when they were made.

A plan lies in a folder that others may write to, and its id is a digest that anybody can compute. So nothing
that it says is taken on trust: it names no module that is imported, no place that is written, and no argument
that `distributed.plan` would refuse.
"""

import json
from itertools import pairwise
from pathlib import Path

from .. import _core
from ..base.division import Arguments, Division, Pieces
from ..base.errors import OrchestraceError, ParameterError, SchemaError
from ..base.text import briefly, plain
from ..base.typed_json import Misfit
from ..base.verbs import Verb
from ..disk.partitioned import PartitionedCorpus, on_disk
from ..storage.addresses import address_of, is_address
from .arguments import arguments_of, text_of
from .folder import PLAN
from .ingest_plan import INGEST, check_settings
from .parsing import no_plan
from .tasks import Call, Plan, Task, check_engine
from .verbs import RUNNING, division_of, verb_of


def judge_plan(plan: Plan) -> None:
    """Refuse a plan that `distributed.plan` would not have made.

    Raises
    ------
    SchemaError
        Names the file and the field.
    ParameterError
        It needs a method of a caller, whose module is not imported here.
    """
    check_engine(plan.call)
    place = _place(plan.folder)
    pieces = [piece for task in plan.tasks for piece in task.pieces]
    if plan.call.verb == INGEST:
        if sorted(number for _, number in pieces) != list(range(len(pieces))):
            raise _refused(place, "tasks", "does not read each input once")
    elif any(second <= first for first, second in pairwise(pieces)):
        raise _refused(place, "tasks", "has pieces twice, or not in the order of the corpus")
    if len({task.kept is None for task in plan.tasks}) > 1:
        raise _refused(place, "tasks", "has traces that are kept for some tasks only")
    _judge(plan.call, place, pieces, any(task.kept is not None for task in plan.tasks))


def judge_task(task: Task) -> None:
    """Refuse a task that is of no plan of `distributed.plan`.

    Raises
    ------
    SchemaError, ParameterError
        As of `judge_plan`.
    """
    if any(second <= first for first, second in pairwise(task.pieces)) and task.call.verb != INGEST:
        raise _refused(
            _place(task.folder), f"tasks[{task.number}].pieces", "are not in the order of the corpus"
        )
    pieces = [*task.pieces, *task.pieces] if task.of > 1 else [*task.pieces]
    _judge(task.call, _place(task.folder), pieces, task.kept is not None)


def judge_division(task: Task, corpus: PartitionedCorpus) -> None:
    """Refuse a task of traces or partitions that the corpus does not have, before a list is made of them.

    Raises
    ------
    SchemaError
        Names the file and the field.
    """
    place, field = _place(task.folder), f"tasks[{task.number}]"
    if task.kept and task.kept[-1][1] >= (end := on_disk(corpus).manifest.next_trace):
        raise _refused(
            place, f"{field}.kept", f"has trace {task.kept[-1][1]:,}, and the corpus ends before {end:,}"
        )
    for partition, number in task.pieces:
        if partition not in on_disk(corpus).manifest.parts:
            raise absent_piece(task, partition, number)


def absent_piece(task: Task, partition: str, number: int) -> SchemaError:
    """The error for a task with a piece that the corpus does not have."""
    fault = f"has piece {number:,} of partition {briefly(partition)}, which the corpus does not have"
    return _refused(_place(task.folder), f"tasks[{task.number}].pieces", fault)


def refused_here(task: Task, error: ParameterError) -> ParameterError:
    """The error of a verb about the arguments of a task, with the place of these arguments."""
    return ParameterError(f"{plain(_place(task.folder))}: call.asked: {error}")


def _judge(call: Call, place: str, pieces: list[tuple[str, int]], is_filtered: bool) -> None:
    if call.verb == INGEST:
        if is_filtered:
            raise _refused(place, "tasks", "keeps some traces only, and an ingest reads all")
        check_settings(call, place, [piece for piece, _ in pieces])
        return
    _check_address(call, place)
    try:
        verb = verb_of(call.verb)
    except ParameterError:
        misfit = Misfit.of(call.verb, "a verb of distributed.list_verbs()", "call.verb")
        raise no_plan(place, misfit) from None
    division = division_of(verb)
    arguments, handed = (_arguments(call, place, name, verb) for name in ("arguments", "asked"))
    _check_handed(call, place, division.narrowed, arguments, handed)
    _check_modules(call, place, division, arguments.by_name(verb.function).get("method"), arguments)
    several = Pieces(lambda: len(pieces) > 1, is_filtered, lambda: "this plan divides them")
    try:
        division.check(arguments, several)
        division.order(arguments)
    except OrchestraceError as error:
        raise _refused(place, "call.arguments", f"is not what '{call.verb}' takes ({error})") from None
    except (AttributeError, TypeError, ValueError):
        raise _refused(place, "call.arguments", f"is not what '{call.verb}' takes") from None


def _check_address(call: Call, place: str) -> None:
    if not is_address(call.corpus):
        return
    try:
        address = address_of(call.corpus)
    except OrchestraceError as error:
        raise _refused(place, "call.corpus", f"is no address of a corpus ({error})") from None
    if address.query or address.user:
        raise _refused(place, "call.corpus", "has a query or a password, which no plan has")


def _arguments(call: Call, place: str, name: str, verb: Verb) -> Arguments:
    text = vars(call)[name]
    field = f"call.{name}"
    try:
        arguments = arguments_of(text)
        is_plain = text_of(arguments) == text
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError, OrchestraceError):
        is_plain = False
    if not is_plain:
        raise no_plan(place, Misfit.of(text, "arguments as distributed.plan writes them", field))
    if running := [option for option in RUNNING if option in arguments.named]:
        raise _refused(place, field, f"names '{running[0]}', which no plan decides")
    try:
        arguments.by_name(verb.function)
    except ParameterError as error:
        raise _refused(place, field, f"is not what '{call.verb}' takes ({error})") from None
    return arguments


def _check_handed(
    call: Call, place: str, narrowed: tuple[str, ...], arguments: Arguments, handed: Arguments
) -> None:
    """Refuse a task whose arguments differ from those of the caller, except where the verb narrows them."""
    theirs, ours = json.loads(call.arguments), json.loads(call.asked)
    same = json.dumps(theirs["positional"]) == json.dumps(ours["positional"])
    names = arguments.named.keys() | handed.named.keys()
    unchanged = names - set(narrowed)
    texts = [
        {name: json.dumps(side["named"][name]) for name in unchanged & side["named"].keys()}
        for side in (theirs, ours)
    ]
    if not same or texts[0] != texts[1] or not handed.named.keys() <= arguments.named.keys():
        raise _refused(place, "call.asked", "is not what call.arguments says")


def _check_modules(call: Call, place: str, division: Division, method: object, arguments: Arguments) -> None:
    try:
        needed = division.modules(arguments)
    except (ParameterError, TypeError):  # TypeError: of a method that is a list
        needed = ()
    if call.modules == needed:
        return
    is_registered = isinstance(method, str) and method in {entry["name"] for entry in _core.methods()}
    if method is None or needed or is_registered or len(call.modules) > 1:
        raise no_plan(place, Misfit.of(list(call.modules), str(list(needed)), "call.modules"))
    raise ParameterError(
        f"{plain(place)}: the method {briefly(method)} is of the module '{call.modules[0]}', and a plan"
        " imports nothing: import this module first, or name it to the command, --module"
        f" {call.modules[0]}, if it is yours"
    )


def _refused(place: str, field: str, fault: str) -> SchemaError:
    return no_plan(place, f"{field} {fault}")


def _place(folder: str) -> str:
    return str(Path(folder) / PLAN)
