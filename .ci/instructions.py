"""Whether a verb executes more instructions than before: `python .ci/instructions.py check` (make gate).

Times on a shared machine differ by a tenth from run to run; instructions of one thread do not. callgrind
counts those of every piece of work of rust/orchestrace-core/examples/instructions.rs. `check` compares them
with the counts in .ci/instructions.json: more than 3 % above is a failure. `record` writes that file anew,
for a change that costs or saves instructions on purpose: say why in its commit. Counts hang on the compiler,
so those of another version of it are shown and not judged. Where large buffers lie decides how they are
copied: counts of `tainted_events` differ by 3 % between runs of one program. So `record` writes the higher of
two counts, and what `check` finds above it is counted once more, and the lower count judged.
Needs valgrind and cargo.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
COUNTS: Final = Path(__file__).with_suffix(".json")
UNIT: Final = "profile.release.package.orchestrace-core.codegen-units=1"
TOLERANCE: Final = 0.03
SLACK: Final = 30_000
"""Instructions that threads which wake or sleep make more or less, whatever the work."""


def build() -> Path:
    """The program. With the module beside it, its dependencies are those of an installation.

    The core is built in one unit, as it is for wheels. In sixteen, which functions are inlined hangs on how
    they are divided, and a change of one method moved the counts of another by 4 %.
    """
    packages = ["-p", "orchestrace-core", "-p", "orchestrace-py"]
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        *packages,
        "--bin",
        "instructions",
        "--config",
        UNIT,
    ]
    subprocess.run(command, cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "release" / "instructions"


def count(program: Path) -> dict[str, int]:
    """Instructions of each piece of work.

    A dump is written whenever a piece begins, so that the first one is that of the start, and each other one
    that of the piece before it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "counts")
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={out}",
            "--dump-before=*measured*",
            str(program),
            str(ROOT / "data"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"instructions: the program failed:\n{done.stderr[-2000:]}")
        names = done.stdout.split("\n")[:-1]
        dumps = [Path(f"{out}.{number}") for number in range(2, len(names) + 1)] + [out]
        missing = [dump.name for dump in dumps if not dump.is_file()]
        if missing or Path(f"{out}.{len(names) + 1}").is_file():
            sys.exit(f"instructions: {len(names)} pieces of work, but other dumps: {missing[:3]}")
        return dict(zip(names, map(sum_of, dumps), strict=True))


def sum_of(dump: Path) -> int:
    """What a dump of callgrind adds up to."""
    match = re.search(r"^totals: (\d+)", dump.read_text(), re.MULTILINE)
    if match is None:
        sys.exit(f"instructions: {dump.name} has no line 'totals:'")
    return int(match[1])


def compiler() -> str:
    """What built it."""
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def judged(before: dict[str, int], now: dict[str, int]) -> list[str]:
    """A line for every piece of work that is slower, new or gone."""
    lines = []
    for name, instructions in now.items():
        known = before.get(name)
        if known is None:
            lines.append(f"{name}: not among the counts that are committed")
        elif instructions > known * (1 + TOLERANCE) + SLACK:
            lines.append(f"{name}: {instructions:,} instructions, {instructions / known:.3f} of {known:,}")
    return lines + [f"{name}: is gone" for name in before if name not in now]


def main() -> None:
    """What the command does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("command", choices=["check", "record"])
    command = parser.parse_args().command
    if shutil.which("valgrind") is None:
        sys.exit("instructions: valgrind is missing; it is a package of that name on Linux systems")
    program = build()
    now = count(program)
    if command == "record":
        now = {name: max(instructions, now[name]) for name, instructions in count(program).items()}
        written = {"compiler": compiler(), "instructions": now}
        COUNTS.write_text(json.dumps(written, indent=1) + "\n")
        print(f"instructions: {len(now)} counts, {sum(now.values()):,} in all, are in {COUNTS.name}")
        return
    before = json.loads(COUNTS.read_text())
    if judged(before["instructions"], now):
        now = {name: min(instructions, now[name]) for name, instructions in count(program).items()}
    lines = judged(before["instructions"], now)
    fewer = [
        f"{name} {now[name] / known:.3f}"
        for name, known in before["instructions"].items()
        if now.get(name, known) < known * (1 - TOLERANCE) - SLACK
    ]
    if fewer:
        print(f"instructions: fewer than recorded, worth `make gate-record`: {', '.join(fewer)}")
    if before["compiler"] != compiler():
        print("\n".join(lines))
        print(f"instructions: not judged, counted with {before['compiler']}; this is {compiler()}")
        return
    if lines:
        sys.exit(
            "\n".join(
                [
                    "instructions: more than recorded",
                    *lines,
                    "on purpose? `make gate-record` writes them anew",
                ]
            )
        )
    print(f"instructions: {len(now)} pieces of work, none above {1 + TOLERANCE:.2f} of what is recorded")


if __name__ == "__main__":
    main()
