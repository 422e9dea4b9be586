"""Whichever call of the system fails, one reads what was there before or after, and the same call mends it.

`failing/loop.py` does it, in a process of its own: some calls with every change, each call in `make nightly`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from process.failing.control import Control, Fault, compiled, hindrance
from process.failing.scenarios import SCENARIOS

TESTS = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(hindrance() is not None, reason=str(hindrance()))


def looped(*words: str, code: int = 0, before: Path | None = None) -> str:
    """What the loop prints, which ends with 1 if something is wrong; `before` stands before its imports."""
    paths = os.pathsep.join(map(str, filter(None, [before, *sys.path])))
    done = subprocess.run(
        [sys.executable, "-m", "process.failing.loop", *words],
        cwd=TESTS,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == code, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def test_some_calls_fail() -> None:
    kinds = "change,write,sync,rename,open,read"
    printed = looped("ingest", "--variants", "none", "--kinds", kinds, "--first", "4", "--nth", "29")
    assert int(printed.splitlines()[-1].split()[0]) >= 8, printed


@pytest.mark.nightly
def test_an_engine_that_syncs_nothing_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\nos.fsync = lambda handle: None\n")
    printed = looped("ingest", "--kinds", "change", "--nth", "9", code=1, before=tmp_path)
    assert "it is damaged: " in printed


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_call_fails_once(scenario: str) -> None:
    looped(scenario)


CALLS = """
import os, sys
os.chdir(sys.argv[1])
text = b"0123456789"
with open("a", "wb", buffering=0) as file:
    print(file.write(text), file.write(text))
    os.fsync(file.fileno())
os.replace("a", "b")
print(len(open("b", "rb").read()))
"""


def called(folder: Path, library: Path, fault: Fault, number: int) -> tuple[Control, str]:
    """What a process prints that writes, renames and reads a file, and which of its calls failed."""
    control = Control(folder / "control")
    work = folder / "work"
    work.mkdir(exist_ok=True)
    control.arm(work.resolve(), fault, number)
    done = subprocess.run(
        [sys.executable, "-u", "-c", CALLS, work],
        env=os.environ | {"LD_PRELOAD": str(library), "FAILING_CALLS": str(folder / "control")},
        capture_output=True,
        text=True,
    )
    control.disarm()
    return control, f"{done.stdout.replace(os.linesep, ' ')}{done.stderr.strip().rpartition(os.linesep)[2]}"


def test_the_library_lets_calls_fail(tmp_path: Path) -> None:
    library = compiled(tmp_path)
    control, printed = called(tmp_path, library, Fault("write", "fail", 28), 0)
    assert printed == "10 10 20 " and control.fired == 0 and not control.unsynced
    assert {kind: n for kind, n in control.counts.items() if kind in ("write", "sync", "rename")} == {
        "write": 2,
        "sync": 1,
        "rename": 1,
    }
    expected = {
        (Fault("write", "fail", 28), 2): ("OSError: [Errno 28] No space left on device", 1),
        (Fault("write", "short"), 2): ("10 5 15 ", 0),
        (Fault("write", "fail", 4), 1): ("10 10 20 ", 0),  # Python tries again
        (Fault("write", "torn", 5), 2): ("OSError: [Errno 5] Input/output error", 1),
        (Fault("sync", "fail", 5), 1): ("10 10 OSError: [Errno 5] Input/output error", 1),
        (Fault("sync", "drop"), 1): ("10 10 20 ", 1),
        (Fault("rename", "fail", 5), 1): ("10 10 OSError: [Errno 5] Input/output error: 'a' -> 'b'", 0),
        (Fault("change", "kill"), 3): ("10 10 ", 1),
    }
    for (fault, number), (text, unsynced) in expected.items():
        control, printed = called(tmp_path, library, fault, number)
        assert (printed, control.fired, len(control.unsynced)) == (text, 1, unsynced), fault
