"""The source distribution, with the sources of all crates: it builds where there is no network.

    python .ci/sdist.py make [--out DIR]      dist/orchestrace-VERSION.tar.gz (make sdist)
    python .ci/sdist.py check FILE            build a wheel of it offline with an empty CARGO_HOME, import it

`make` needs maturin, cargo and the crates, which cargo fetches once. `check` needs maturin in the active
environment, since a build that may not ask for packages cannot install it; it compiles everything: minutes.
"""

import argparse
import gzip
import io
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from releases import ROOT, Fault, output, version

CARRIED: Final = (
    ".cargo/config.toml",
    ".cargo/quick.toml",
    "deny.toml",
    "CHANGELOG.md",
    "CITATION.cff",
    "SECURITY.md",
)
"""Files of the project that maturin leaves out; the first has the settings of the allocator."""
VENDORED: Final = "vendor"
SOURCES: Final = f"""# The crates that lie beside this project, instead of those of an index.
[source.crates-io]
replace-with = "vendored-sources"

[source.vendored-sources]
directory = "{VENDORED}"
"""
LOAD: Final = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("_core", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(module.VERSION)
"""
MOST_BYTES: Final = 60_000_000


def make(out: Path) -> Path:
    """Write the source distribution; the same commit gives the same bytes.

    Raises
    ------
    Fault
        It is larger than an index takes.
    """
    name = f"orchestrace-{version()}"
    with tempfile.TemporaryDirectory() as scratch:
        output([sys.executable, "-P", "-m", "maturin", "sdist", "--out", scratch], ROOT)
        (plain,) = Path(scratch).glob("*.tar.gz")
        with tarfile.open(plain) as opened:
            # Python 3.11 has it from 3.11.4
            opened.extraction_filter = getattr(tarfile, "data_filter", None)
            opened.extractall(scratch)
        tree = Path(scratch, name)
        for one in CARRIED:
            (tree / one).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / one, tree / one)
        output(["cargo", "vendor", "--locked", "--versioned-dirs", "--quiet", VENDORED], tree)
        settings = tree / ".cargo" / "config.toml"
        settings.write_text(f"{settings.read_text().rstrip()}\n\n{SOURCES}")
        out.mkdir(parents=True, exist_ok=True)
        target = out / f"{name}.tar.gz"
        _pack(tree, target)
    if target.stat().st_size > MOST_BYTES:
        raise Fault(f"{target.name} has {target.stat().st_size:,} bytes, expected at most {MOST_BYTES:,}")
    return target


def _pack(tree: Path, target: Path) -> None:
    """An archive without names of users, times or an order that depends on the machine."""
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or output(["git", "log", "-1", "--format=%ct"], ROOT))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as made:
        for path in sorted(tree.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{tree.name}/{path.relative_to(tree).as_posix()}")
                entry.size, entry.mtime = path.stat().st_size, when
                entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
                with path.open("rb") as file:
                    made.addfile(entry, file)
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=when) as zipped:
        zipped.write(packed.getbuffer())


def check(source: Path, profile: str) -> str:
    """Build a wheel of it without a network or anything fetched before, and import what was built.

    Raises
    ------
    Fault
        A file is not there, or the build or the import fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(source) as opened:
            # Python 3.11 has it from 3.11.4
            opened.extraction_filter = getattr(tarfile, "data_filter", None)
            opened.extractall(scratch)
        (tree,) = (path for path in Path(scratch).iterdir() if path.is_dir())
        for one in ("PKG-INFO", "LICENSE", "THIRD_PARTY_NOTICES.txt", *CARRIED):
            if not (tree / one).is_file():
                raise Fault(f"{source.name} lacks {one}")
        # cargo's own home is empty, and it may not ask for anything; the toolchain is that of the machine.
        home = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
        clean = os.environ | {
            "CARGO_HOME": str(Path(scratch, "cargo")),
            "RUSTUP_HOME": home,
            "CARGO_NET_OFFLINE": "true",
        }
        clean["CARGO_TARGET_DIR"] = str(Path(scratch, "target"))
        if profile:
            clean["MATURIN_PEP517_ARGS"] = f"--config {tree / '.cargo' / profile}"
        pip = [
            sys.executable,
            "-P",
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
        ]
        output([*pip, "--wheel-dir", scratch, str(tree)], Path(scratch), clean)
        (wheel,) = Path(scratch).glob("*.whl")
        place = Path(scratch, "package")
        output(
            [*pip[:4], "install", "--quiet", "--no-deps", "--no-index", "--target", str(place), str(wheel)],
            tree,
        )
        # The module alone: the package needs Polars and others, which a build environment does not have.
        (module,) = (path for path in place.glob("orchestrace/_core.*") if path.suffix in (".so", ".pyd"))
        said = output([sys.executable, "-P", "-c", LOAD, str(module)], Path(scratch)).strip()
        if not source.name.endswith(f"-{said}.tar.gz"):
            raise Fault(f"what was built says version {said}")
        size = source.stat().st_size / 1e6
        return f"{source.name}: {size:.1f} MB; built offline from its own crates: {wheel.name}"


def main(arguments: list[str]) -> int:
    """What the command does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("--out", type=Path, default=ROOT / "dist")
    trying = commands.add_parser("check")
    trying.add_argument("source", type=Path)
    trying.add_argument("--profile", default="", help="a file of .cargo with settings of the build")
    given = parser.parse_args(arguments)
    try:
        if given.command == "make":
            made = make(given.out.resolve())
            print(f"sdist: wrote {made.name}, {made.stat().st_size / 1e6:.1f} MB")
        else:
            print(f"sdist: {check(given.source.resolve(), given.profile)}")
    except Fault as fault:
        print(f"sdist: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
