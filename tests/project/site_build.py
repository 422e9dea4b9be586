"""The site of the documents, built once for all tests."""

import fcntl
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def built(shared: Path) -> Path:
    """The folder of the site; the first process that asks builds it, without running the notebooks."""
    out = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site.built").exists():
            command = [sys.executable, str(ROOT / ".ci" / "site"), "--out", str(out)]
            done = subprocess.run(command, capture_output=True, encoding="utf-8")
            assert done.returncode == 0, done.stdout + done.stderr
            (shared / "site.built").write_text(done.stdout, encoding="utf-8")
    return out
