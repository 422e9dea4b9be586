"""Locks between processes: one holds, the others are told, and nobody holds what has ended."""

import os
import subprocess
import sys
from pathlib import Path

from orchestrace.base.locks import lock, open_folder

HOLD = """
import sys
from pathlib import Path
from orchestrace.base.locks import lock, open_folder
handle = open_folder(Path(sys.argv[1]))
print(lock(handle), flush=True)
sys.stdin.read()
"""


def test_one_handle_holds_a_folder(tmp_path: Path) -> None:
    first, second = open_folder(tmp_path), open_folder(tmp_path)
    try:
        assert lock(first) and not lock(second)
        assert lock(first)  # who holds it may ask again
    finally:
        os.close(first)
    assert lock(second)
    os.close(second)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    call = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "True\n"
        handle = open_folder(tmp_path)
        assert not lock(handle)
        other.kill()
        other.wait(60)
        assert lock(handle)
        os.close(handle)
