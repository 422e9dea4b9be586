"""Install the package, with a line that says how far its build is: `python .ci/install.py [pip's arguments]`.

pip says nothing while it builds, which takes minutes. This shows which crate is compiled and for how long, in
place on a terminal, else a line every half a minute. If pip fails, the end of what it printed follows.
"""

import re
import subprocess
import sys
import time
from collections import deque
from typing import Final

USUAL: Final = "the first build takes about 3 minutes on two cores"
EVERY: Final = 30.0
"""Seconds between lines where they cannot be written in place."""
LAST: Final = 60
"""Lines that are shown of a failure."""


def phrase_of(line: str) -> str | None:
    """What a line of pip is to somebody who waits: a short phrase, or nothing."""
    for pattern, phrase in (
        (r"^\s*Compiling (\S+) v", "compiling {}"),
        (r"^\s*Downloading (\S+?)-\d", "fetching {}"),
        (r"^Collecting (\S+)", "fetching {}"),
        (r"^\s*Building wheel for (\S+)", "building {}"),
        (r"^Installing collected packages", "installing"),
    ):
        if match := re.match(pattern, line):
            return phrase.format(*match.groups())
    return None


def main() -> None:
    """What the command does."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "install",
        "--verbose",
        "--disable-pip-version-check",
        *sys.argv[1:],
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    assert process.stdout is not None
    in_place = sys.stdout.isatty()
    began = shown = time.monotonic()
    last: deque[str] = deque(maxlen=LAST)
    crates = 0
    print(f"installing with pip; {USUAL}", flush=True)
    for line in process.stdout:
        last.append(line)
        phrase = phrase_of(line)
        crates += line.lstrip().startswith("Compiling ")
        now = time.monotonic()
        if phrase is None or (not in_place and now - shown < EVERY):
            continue
        shown = now
        count = f", crate {crates}" if crates else ""
        text = f"  {now - began:4.0f} s: {phrase}{count}"
        print(f"\r\033[K{text[:78]}" if in_place else text, end="" if in_place else "\n", flush=True)
    code = process.wait()
    took = f"{time.monotonic() - began:.0f} s"
    print("\r\033[K" if in_place else "", end="")
    if code:
        print("".join(last), end="")
        sys.exit(f"pip failed after {took}; above is the end of what it printed")
    print(f"installed in {took}")


if __name__ == "__main__":
    main()
