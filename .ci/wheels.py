"""Wheels for others: build them for many systems, and try one as somebody without a compiler would.

    python .ci/wheels.py targets                     the targets that a release has, one a line
    python .ci/wheels.py build [TARGET ...]          wheels of these targets into dist/ (all of this system's)
    python .ci/wheels.py check WHEEL [--python P]    judge it, install it in fresh environments, run the demo

`build` needs maturin, cargo and the target's standard library (`rustup target add TARGET`); Linux targets are
linked by zig (`pip install ziglang`), on any machine, against the oldest C library that the wheel names.
`check` needs an index of packages, once: the second installation comes from the cache of pip and is timed.
Then it runs the demo, and pastes the commands of the documents' first page into a shell.
"""

import argparse
import email
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Final

from releases import ROOT, Fault, first_page, output, version

TARGETS: Final = {
    "x86_64-unknown-linux-gnu": "manylinux2014",
    "aarch64-unknown-linux-gnu": "manylinux2014",
    "x86_64-unknown-linux-musl": "musllinux_1_2",
    "aarch64-unknown-linux-musl": "musllinux_1_2",
    "x86_64-apple-darwin": "",
    "aarch64-apple-darwin": "",
    "x86_64-pc-windows-msvc": "",
}
"""What a release has wheels for, by the target's name in Rust; on Linux the policy that the wheel keeps."""
MOST_BYTES: Final = 25_000_000
"""Of a wheel: an installation should not have to wait for it."""
MOST_SECONDS: Final = 15.0
"""Of an installation as users type it, from the cache of pip."""
MOST_SECONDS_TO_PICTURE: Final = 60.0
"""From the wheel, in the cache of pip, to the page of runs."""
WANTED: Final = (
    "orchestrace/__init__.py",
    "orchestrace/py.typed",
    "orchestrace/_core.pyi",
    "orchestrace/_samples/",
    ".dist-info/licenses/LICENSE",
    ".dist-info/licenses/THIRD_PARTY_NOTICES.txt",
    ".dist-info/sboms/",
    ".dist-info/entry_points.txt",
)
"""What every wheel has."""


def own_targets() -> list[str]:
    """The targets that this system can build: Linux all of Linux, by zig; others their own."""
    system = {"Linux": "-linux-", "Darwin": "-apple-", "Windows": "-windows-"}.get(
        platform.system(), "-linux-"
    )
    return [target for target in TARGETS if system in target]


def command(target: str, profile: str) -> tuple[list[str], dict[str, str]]:
    """The call of maturin that builds a target, and what it adds to the environment.

    Raises
    ------
    Fault
        A target that a release does not have.
    """
    if target not in TARGETS:
        raise Fault(f"unknown target '{target}', expected one of {', '.join(TARGETS)}")
    made = [
        sys.executable,
        "-P",
        "-m",
        "maturin",
        "build",
        "--profile",
        profile,
        "--target",
        target,
        "--out",
        "dist",
    ]
    if TARGETS[target]:
        made += ["--zig", "--compatibility", TARGETS[target]]
    # Some kernels of this processor have pages of 64 KiB; an allocator built for smaller ones fails there.
    pages = {"JEMALLOC_SYS_WITH_LG_PAGE": "16"} if target.startswith("aarch64-unknown-linux") else {}
    return made, pages


def build(targets: list[str], profile: str) -> None:
    """Build the wheel of every target."""
    for target in targets or own_targets():
        made, more = command(target, profile)
        print(f"wheels: {' '.join(made[2:])}", flush=True)
        subprocess.run(made, check=True, cwd=ROOT, env=os.environ | more)


def judge(wheel: Path) -> str:
    """What a wheel is, in one line, if it is one for others.

    Raises
    ------
    Fault
        What is wrong with it.
    """
    told = re.fullmatch(r"orchestrace-([^-]+)-(cp\d+)-(\w+)-([\w.]+)\.whl", wheel.name)
    if told is None:
        raise Fault(f"{wheel.name} is not the name of a wheel of orchestrace")
    made, python, abi, system = told.groups()
    if made != version():
        raise Fault(f"{wheel.name} has version {made}, expected {version()}: build it again")
    if (python, abi) != ("cp311", "abi3"):
        raise Fault(
            f"{wheel.name} is for {python}-{abi}, expected cp311-abi3, which every later Python takes"
        )
    if system.startswith("linux"):
        raise Fault(f"{wheel.name} runs on this machine only, expected manylinux or musllinux: make wheels")
    size = wheel.stat().st_size
    if size > MOST_BYTES:
        raise Fault(f"{wheel.name} has {size:,} bytes, expected at most {MOST_BYTES:,}")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        modules = [name for name in names if re.search(r"_core\.(abi3\.so|pyd)$", name)]
        if len(modules) != 1:
            raise Fault(f"{wheel.name} has {len(modules)} compiled modules, expected one")
        for wanted in WANTED:
            if not any(wanted in name for name in names):
                raise Fault(f"{wheel.name} lacks {wanted}")
        for name in names:
            if (
                not name.startswith(("orchestrace/", f"orchestrace-{made}.dist-info/"))
                or "__pycache__" in name
            ):
                raise Fault(f"{wheel.name} has {name}, which is not of the package")
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        head = email.message_from_bytes(opened.read(about))
        if head["Version"] != made or head["Requires-Python"] != ">=3.11":
            raise Fault(f"{wheel.name} says version {head['Version']}, Python {head['Requires-Python']}")
        module = opened.getinfo(modules[0])
    inside = f"compiled module {module.file_size / 1e6:.1f} MB, {len(names)} files"
    return f"{wheel.name}: {size / 1e6:.1f} MB, {inside}"


def audited(wheel: Path) -> str:
    """What auditwheel says of the libraries that a Linux wheel needs, where it is installed.

    Raises
    ------
    Fault
        The wheel needs more than its name says.
    """
    tool = shutil.which("auditwheel", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if tool is None or "linux" not in wheel.name:
        return "auditwheel was not asked"
    done = subprocess.run([tool, "show", str(wheel)], capture_output=True, text=True)
    said = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "(\S+?)"', said)
    if done.returncode or found is None:
        raise Fault(f"auditwheel: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    tags = wheel.stem.rpartition("-")[2].split(".")
    if found[1] not in tags and not any(_is_older(found[1], tag) for tag in tags):
        raise Fault(f"{wheel.name} needs {found[1]}: it was linked against a later C library than it says")
    return f"auditwheel: consistent with {found[1]}"


def _is_older(found: str, tag: str) -> bool:
    """Whether a policy asks for no more than another of its kind."""
    parts = [re.fullmatch(r"(\w+?linux)_(\d+)_(\d+)_(\w+)", one) for one in (found, tag)]
    if parts[0] is None or parts[1] is None or parts[0][1] != parts[1][1] or parts[0][4] != parts[1][4]:
        return False
    return (int(parts[0][2]), int(parts[0][3])) <= (int(parts[1][2]), int(parts[1][3]))


def attempt(wheel: Path, python: str, most: float) -> str:
    """Install the wheel into two fresh environments of a Python, the second one timed, and use it.

    Raises
    ------
    Fault
        What failed, and where.
    """
    bare = {
        name: os.environ[name]
        for name in os.environ
        if name.startswith(("PIP_", "SSL_", "SYSTEMROOT", "HOME"))
    }
    bare["NO_COLOR"] = "1"
    with tempfile.TemporaryDirectory() as scratch:
        seconds = []
        for number in range(2):
            place = Path(scratch, f"venv{number}")
            output([python, "-P", "-m", "venv", str(place)], Path(scratch), dict(os.environ))
            programs = place / ("Scripts" if os.name == "nt" else "bin")
            # Nothing but the environment's own programs: no cargo, no compiler.
            bare["PATH"] = str(programs)
            own = str(programs / "python")
            started = time.monotonic()
            call = [own, "-P", "-m", "pip", "install", "--quiet", "--only-binary=:all:", str(wheel)]
            output(call, Path(scratch), bare)
            seconds.append(time.monotonic() - started)
        output([own, "-P", "-m", "pip", "check"], Path(scratch), bare)
        output([str(programs / "orchestrace"), "demo", "-o", str(Path(scratch, "demo"))], Path(scratch), bare)
        said = output(
            [own, "-P", "-c", "import sys, orchestrace as ot; print(ot.__version__, *sys.version_info[:3])"],
            Path(scratch),
            bare,
        ).split()
        if said[0] != version():
            raise Fault(f"the installed package says {said[0]}, expected {version()}")
        if not any(Path(scratch, "demo").rglob("*.parquet")):
            raise Fault("the demo wrote no Parquet file")
        page = seconds[1] + newcomer(Path(scratch, "newcomer"), bare)
        if page > MOST_SECONDS_TO_PICTURE:
            raise Fault(
                f"the first page took {page:.1f} s with the installation,"
                f" expected at most {MOST_SECONDS_TO_PICTURE:g} s"
            )
        if seconds[1] > most:
            raise Fault(f"pip took {seconds[1]:.1f} s from its cache, expected at most {most:g} s")
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        return (
            f"Python {'.'.join(said[1:])}: installed without a compiler, from the cache of pip in"
            f" {seconds[1]:.1f} s, at first, with downloads if any, in {seconds[0]:.1f} s; the demo ran;"
            f" from the wheel to the page of runs in {page:.1f} s; the environment has {size / 1e6:.0f} MB"
        )


def newcomer(folder: Path, environment: dict[str, str]) -> float:
    """Paste the first page behind its installation into a shell, beside the recordings; seconds.

    Raises
    ------
    Fault
        A command failed, or the page of runs is not there.
    """
    shutil.copytree(ROOT / "data" / "samples", folder / "data" / "samples")
    shell = shutil.which("sh") or shutil.which("cmd")
    if shell is None:
        raise Fault("no shell to paste the first page into")
    pasted = (" && " if os.name == "nt" else "\n").join(first_page()[1:])
    started = time.monotonic()
    output([shell, *(["/c"] if os.name == "nt" else ["-ec"]), pasted], folder, environment)
    seconds = time.monotonic() - started
    if "<html" not in (folder / "view.html").read_text(encoding="utf-8"):
        raise Fault("the commands of docs/index.md left no page of runs in view.html")
    return seconds


def main(arguments: list[str]) -> int:
    """What the command does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("targets")
    making = commands.add_parser("build")
    making.add_argument("targets", nargs="*", metavar="TARGET")
    making.add_argument("--profile", default="dist")
    trying = commands.add_parser("check")
    trying.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    trying.add_argument(
        "--python", action="append", default=[], help="a Python to install it into; may be repeated"
    )
    trying.add_argument("--most-seconds", type=float, default=MOST_SECONDS, help="of the timed installation")
    trying.add_argument("--no-install", action="store_true", help="for a wheel of another system")
    given = parser.parse_args(arguments)
    try:
        if given.command == "targets":
            print("\n".join(TARGETS))
        elif given.command == "build":
            build(given.targets, given.profile)
        else:
            for wheel in given.wheels:
                wheel = wheel.resolve()
                print(f"wheels: {judge(wheel)}")
                print(f"wheels: {audited(wheel)}")
                for python in [] if given.no_install else given.python or [sys.executable]:
                    print(f"wheels: {attempt(wheel, python, given.most_seconds)}", flush=True)
    except Fault as fault:
        print(f"wheels: {fault}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"wheels: {error.filename} is not there", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"wheels: failed with {error.returncode}: {' '.join(error.cmd[1:])}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
