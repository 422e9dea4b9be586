"""Publication of files and folders: readers see the old version or the new one, never a partial one."""

import errno
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar, cast

import polars as pl

from .durable import new_key, sync_file, sync_folder, temporary
from .errors import InputError, ParameterError
from .paths import path_of
from .text import plain

T = TypeVar("T")


def target_of(target: object) -> Path | BinaryIO:
    """Where a caller wants output: a path, or a binary file object.

    Raises
    ------
    ParameterError
        It is neither.
    """
    if isinstance(target, str | os.PathLike):
        return path_of(target)
    if isinstance(target, io.TextIOBase):
        raise ParameterError("the target is a text file: open it in binary mode")
    if not hasattr(target, "write"):
        raise ParameterError(
            f"the target is of type {type(target).__name__}, expected a path or a binary file"
        )
    return target  # type: ignore[return-value]  # something with `write`


_ADVICE = {
    errno.ENOSPC: "make room or choose another place",
    errno.EDQUOT: "make room or choose another place",
    errno.EACCES: "choose a place that you may use",
    errno.EPERM: "choose a place that you may use",
    errno.EROFS: "choose a place that can be written",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "a part of the path is a file: name a folder there",
    errno.ENOENT: "make the folder first, or correct the path",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def refusal(target: object, error: OSError) -> str:
    """Which file the system refuses, why, and what can be done, in one line."""
    name = plain(os.fsdecode(target) if isinstance(target, str | bytes | os.PathLike) else target)
    advice = f"; {_ADVICE[error.errno]}" if error.errno in _ADVICE else ""
    return f"{name}: {error.strerror or error}{advice}"


def refuse_existing(target: Path) -> None:
    """Refuse to write over a file; a pipe or a device holds nothing that would be lost.

    Raises
    ------
    InputError
        There is a file of this name.
    """
    path = Path(os.path.realpath(target))
    if path.exists() and not path.is_dir() and not _is_stream(path):
        raise InputError(f"'{target}' exists; pass overwrite=True to replace it")


class Recorded:
    """A binary file that keeps what the system refused, which writers report in words of their own."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.failure: OSError | None = None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write `data`."""
        return self._record(lambda: self._file.write(data))

    def flush(self) -> None:
        """Hand on what is buffered."""
        self._record(self._file.flush)

    def _record(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except OSError as error:
            self.failure = error
            raise


@contextmanager
def published_file(target: Path, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """A file to write, which takes its name if the block ends well and leaves nothing if it does not.

    A pipe or a device is written as it is: it has no name to give, and nothing to keep.

    Raises
    ------
    InputError
        There is a file of this name and `overwrite` is false, or the system refuses, in one line.
    """
    # what a link leads to is replaced, not the link
    path = Path(os.path.realpath(target))
    try:
        if path.is_dir():
            raise InputError(f"{target}: it is a folder, expected the name of a file")
        if _is_stream(path):
            with written(path) as file:
                yield file
            return
        if not overwrite:
            refuse_existing(target)
        # A name that nobody can guess, opened with "xb": no file that exists is written, not even by a link.
        unpublished = temporary(path, new_key())
        try:
            with written(unpublished, "xb") as file:
                yield file
            sync_file(unpublished)
            if not overwrite:
                refuse_existing(target)
            os.replace(unpublished, path)
            sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                unpublished.unlink(missing_ok=True)
            raise
    except InputError:
        raise
    except OSError as error:
        raise InputError(refusal(target, error)) from error


@contextmanager
def written(path: Path, mode: Literal["wb", "xb"] = "wb") -> Iterator[BinaryIO]:
    """A file that is open for writing.

    Raises
    ------
    OSError
        What the system refuses, whatever the writer makes of it.
    """
    with open(path, mode) as file:
        recorded = Recorded(file)
        try:
            yield cast(BinaryIO, recorded)
            recorded.flush()
        except Exception:
            if recorded.failure is not None:
                raise recorded.failure from None
            raise


@contextmanager
def published(target: object, *, overwrite: bool = False) -> Iterator[BinaryIO]:
    """The same for what a caller names: a path, or a binary file object, which is written as it is."""
    sink = target_of(target)
    if isinstance(sink, Path):
        with published_file(sink, overwrite=overwrite) as file:
            yield file
    else:
        yield sink


def write_parquet(frame: pl.DataFrame, target: Path, *, overwrite: bool = False) -> None:
    """Write a frame as a Parquet file that is there completely or not at all.

    Raises
    ------
    InputError
        As `published_file`.
    """
    with published_file(target, overwrite=overwrite) as file:
        frame.write_parquet(file)


def write_text(text: str, target: Path) -> None:
    """Write a file of our own, or replace the one that is there.

    Raises
    ------
    InputError
        As `published_file`.
    """
    with published_file(target, overwrite=True) as file:
        file.write(text.encode())


@contextmanager
def published_folder(target: Path) -> Iterator[Path]:
    """The same for a folder, which must be absent or empty.

    Raises
    ------
    ParameterError
        It has something in it already.
    InputError
        The system refuses, in one line.
    """
    path = Path(os.path.realpath(target))
    try:
        if path.exists() and not path.is_dir():
            raise ParameterError(f"'{target}' is a file, expected a folder")
        if path.is_dir() and any(path.iterdir()):
            raise ParameterError(f"folder '{target}' is not empty: choose another")
        path.parent.mkdir(parents=True, exist_ok=True)
        unpublished = temporary(path, new_key())
        unpublished.mkdir()
        try:
            yield unpublished
            sync_folder(unpublished)
            os.replace(unpublished, path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(unpublished, ignore_errors=True)
            raise
    except InputError as error:
        if error.__cause__ is None:
            raise
        if isinstance(error.__cause__, OSError) and error.__cause__.strerror:
            reason = error.__cause__.strerror
        else:  # drop the advice to repeat the call: nothing resumes here
            reason = (
                str(error)
                .removeprefix(f"cannot write to '{unpublished}': ")
                .partition("; what is published")[0]
            )
        raise InputError(f"{target}: {reason}") from error.__cause__
    except ParameterError:
        raise
    except OSError as error:
        raise InputError(refusal(target, error)) from error


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
