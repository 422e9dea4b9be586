"""The folder of a plan: ``plan.json``, and in ``parts`` a Parquet file per task and what its bytes are."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

from .. import _core
from ..base.durable import clear_temporary, is_temporary
from ..base.errors import InputError, ParameterError, SchemaError
from ..base.paths import expanded, path_of
from ..base.publication import published_file, refusal
from ..corpus.on_disk import MANIFEST
from ..disk.home import Home
from ..storage.addresses import address_of, is_address
from .parsing import parsed_plan
from .tasks import PLAN_VERSION, Plan, Runs, Task, TaskResult, parsed_result, runs_of

PLAN: Final = "plan.json"
PARTS: Final = "parts"
CORPORA: Final = "corpora"
"""Of an ingest: a corpus per task."""

State = Literal["done", "missing", "damaged"]


class Part(NamedTuple):
    """The state of a task, from its folder."""

    task: int
    state: State
    fault: str | None
    result: TaskResult | None


def part_file(number: int) -> str:
    """The file of a task, below the folder of its plan."""
    return f"{PARTS}/{number:06}.parquet"


def corpus_place(corpus: str | os.PathLike[str]) -> str:
    """A folder or an address of a corpus, as a caller names it.

    Raises
    ------
    ParameterError
        It is neither.
    """
    path_of(corpus)  # judges it, but would take a slash from an address
    return expanded(corpus)


def manifest_digest(corpus: str) -> str:
    """BLAKE2b of the manifest of a corpus in a folder or in object storage, which every ingest changes.

    Raises
    ------
    InputError
        It has no manifest, or the system refuses to read it.
    """
    return hashlib.blake2b(_manifest(corpus), digest_size=32).hexdigest()


def _manifest(corpus: str) -> bytes:
    if is_address(corpus):
        home = Home(address_of(corpus))
        if (content := home.manifest()) is None:
            raise InputError(f"no corpus in '{home.url}': it has no {MANIFEST}")
        return content
    path = Path(corpus) / MANIFEST
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"no corpus in '{corpus}': it has no {MANIFEST}; if it lies elsewhere here, name it with corpus="
        ) from None
    except OSError as error:
        raise InputError(refusal(path, error)) from error


def save_plan(plan: Plan) -> None:
    """Write a plan into its folder; the same plan may be there.

    Raises
    ------
    ParameterError
        The folder has something else in it.
    """
    folder = Path(plan.folder)
    path = folder / PLAN
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"folder '{folder}' is a file, expected a folder")
    if path.exists():
        if load_plan(folder).id != plan.id:
            raise ParameterError(
                f"folder '{folder}' has another plan: choose another folder, or remove this one if its"
                " results are not needed"
            )
        return
    if folder.is_dir() and not all(map(_is_of_unsaved_plan, folder.iterdir())):
        raise ParameterError(f"folder '{folder}' is not empty and has no plan: choose another")
    (folder / PARTS).mkdir(parents=True, exist_ok=True)
    with published_file(path) as file:
        file.write(plan.text().encode())


def _is_of_unsaved_plan(path: Path) -> bool:
    """Whether a call that made a plan and could not write it left this, as on a full disk."""
    return is_temporary(path) or (path.name == PARTS and path.is_dir() and not any(path.iterdir()))


def load_plan(folder: str | os.PathLike[str]) -> Plan:
    """The plan of a folder.

    Raises
    ------
    InputError
        It has none.
    SchemaError
        It is damaged, or of another version.
    """
    place = Path(os.path.abspath(path_of(folder)))
    path = place / PLAN
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"no plan in '{place}': it has no {PLAN}; make one with plan") from None
    except UnicodeDecodeError:
        raise SchemaError(
            f"{path} is damaged: it is not UTF-8; restore it, or plan again into another folder"
        ) from None
    except OSError as error:
        raise InputError(refusal(path, error)) from error
    return parsed_plan(text, str(path), str(place))


def plan_of(plan: object) -> Plan:
    """The plan itself, or that of a folder.

    Raises
    ------
    ParameterError
        It is neither.
    """
    if isinstance(plan, Plan):
        return plan
    if isinstance(plan, str | os.PathLike):
        return load_plan(plan)
    raise ParameterError(
        f"plan is of type {type(plan).__name__}, expected what distributed.plan returns, or its folder"
    )


def save_result(result: TaskResult) -> None:
    """Write the record of a task beside its part."""
    with published_file(_record(Path(result.folder), result.task), overwrite=True) as file:
        file.write(result.text().encode() + b"\n")


def part_of(task: Task) -> Part:
    """The state of a task: its record is read, and its part compared with it."""
    folder = Path(task.folder)
    try:
        result = parsed_result(_record(folder, task.number).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Part(task.number, "missing", "it has no part", None)
    except (OSError, UnicodeDecodeError):
        result = None
    if result is None:
        return Part(task.number, "damaged", "its record cannot be read", None)
    return checked(task, result)


def checked(task: Task, result: TaskResult) -> Part:
    """Whether a result is of this task, and its file has the bytes that it says."""
    if (result.version, result.plan, result.task, result.of) != (
        PLAN_VERSION,
        task.plan,
        task.number,
        task.of,
    ):
        return Part(task.number, "damaged", "its record is of another plan", None)
    path = Path(task.folder) / part_file(task.number)
    try:
        size = path.stat().st_size
        if size != result.size:
            return Part(
                task.number, "damaged", f"its part has {size:,} bytes, expected {result.size:,}", None
            )
        digest = _core.fingerprint(os.fspath(path), size)
    except FileNotFoundError:
        return Part(task.number, "missing", "its part is gone", None)
    except (OSError, InputError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Part(task.number, "damaged", f"its part cannot be read ({reason})", None)
    if digest != result.blake3:
        fault = f"the BLAKE3 of its part is {digest[:16]}…, expected {result.blake3[:16]}…"
        return Part(task.number, "damaged", fault, None)
    return Part(task.number, "done", None, result)


def parts_of_plan(plan: Plan) -> list[Part]:
    """The state of every task."""
    return [part_of(task) for task in plan.tasks]


def clear_parts(folder: Path) -> None:
    """Remove files that killed tasks left unfinished."""
    clear_temporary(folder / PARTS)
    for path in (folder / CORPORA).glob(".*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def numbers_text(numbers: Iterable[int]) -> str:
    """Numbers of tasks as a command takes them: ``0,3-5``."""
    runs: Runs = runs_of(sorted(set(numbers)))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _record(folder: Path, number: int) -> Path:
    return folder / PARTS / f"{number:06}.json"
