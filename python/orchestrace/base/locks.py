"""Locks between processes, which end with the process that holds them, on each operating system."""

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def open_folder(folder: Path) -> int:
        """A handle to lock a folder by: of a file beside it, since a folder cannot be opened on Windows.

        Raises
        ------
        OSError
            The system refuses it.
        """
        return os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_NOINHERIT)

    def lock(handle: int) -> bool:
        """Lock what a handle is of; False if another process has it.

        Raises
        ------
        OSError
            The file system has no locks.
        """
        with suppress(PermissionError):
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            return True
        return False

else:
    import fcntl

    def open_folder(folder: Path) -> int:
        """A handle to lock a folder by.

        Raises
        ------
        OSError
            The system refuses it.
        """
        return os.open(folder, os.O_RDONLY)

    def lock(handle: int) -> bool:
        """Lock what a handle is of; False if another process has it.

        Raises
        ------
        OSError
            The file system has no locks.
        """
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False
