"""Check what crates the project takes from others: where they come from, under which licence, and that the
notices of those in the wheel are there. Needs Python and the files of the project; cargo for what is linked.

    python .ci/crates.py check     every Cargo.lock: sources, checksums, licences; the notices (make lint)
    python .ci/crates.py write     write crates.csv and THIRD_PARTY_NOTICES.txt anew (make crates)
"""

import csv
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCKS: Final = ("Cargo.lock", "rust/fuzz/Cargo.lock", "benches/rust/Cargo.lock")
LICENCES: Final = ROOT / ".ci" / "crates.csv"
NOTICES: Final = ROOT / "THIRD_PARTY_NOTICES.txt"
WHEEL: Final = "orchestrace-py"
"""The crate that becomes the compiled module."""
VENDORED: Final = {"tikv-jemalloc-sys": ("jemalloc/COPYING",), "zstd-sys": ("zstd/LICENSE",)}
"""Licences of C code that crates carry along."""

Crate = tuple[str, str]
"""Name and version."""


class Fault(Exception):
    """Something that the check is there to find, in one line."""


def locked() -> dict[Crate, tuple[str, list[str]]]:
    """All crates of others: where they come from, and the files that lock them.

    Raises
    ------
    Fault
        A crate without a checksum, or from elsewhere than where deny.toml allows.
    """
    allowed = {f"registry+{url}" for url in rules()["sources"]["allow-registry"]}
    found: dict[Crate, tuple[str, list[str]]] = {}
    for lock in LOCKS:
        for package in tomllib.loads((ROOT / lock).read_text())["package"]:
            crate, source = (package["name"], package["version"]), package.get("source")
            if source is None and crate[0].startswith("orchestrace"):
                continue  # our own
            if source not in allowed:
                where = source or "a folder"
                raise Fault(
                    f"{lock}: {named(crate)} comes from {where}, expected {', '.join(sorted(allowed))}"
                )
            if not re.fullmatch(r"[0-9a-f]{64}", package.get("checksum", "")):
                raise Fault(f"{lock}: {named(crate)} has no checksum: make the file anew with cargo")
            found.setdefault(crate, (source, []))[1].append(lock)
    return found


def rules() -> dict[str, Any]:
    """What deny.toml allows."""
    return tomllib.loads((ROOT / "deny.toml").read_text())


def named(crate: Crate) -> str:
    """A crate as messages name it."""
    return f"{crate[0]} {crate[1]}"


def allowed(expression: str, allow: set[str]) -> bool:
    """Whether the licences of `allow` are enough for an SPDX expression; ``/`` is the OR of old manifests."""
    words = re.findall(r"[()]|[^\s()/]+", expression.replace("/", " OR "))
    at = 0

    def one() -> bool:
        nonlocal at
        if at >= len(words):
            raise Fault(f"licence '{expression}' ends early, expected an SPDX expression")
        word = words[at]
        at += 1
        if word == "(":
            told = either()
            at += 1
            return told
        if at < len(words) and words[at] == "WITH":
            word = " ".join(words[at - 1 : at + 2])
            at += 2
        return word in allow

    def both() -> bool:
        nonlocal at
        told = one()
        while at < len(words) and words[at] == "AND":
            at += 1
            told = one() and told
        return told

    def either() -> bool:
        nonlocal at
        told = both()
        while at < len(words) and words[at] == "OR":
            at += 1
            told = both() or told
        return told

    told = either()
    if at != len(words):
        raise Fault(f"licence '{expression}' is no SPDX expression")
    return told


def sources() -> list[Path]:
    """Folders in which cargo unpacks crates."""
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    return sorted((home / "registry" / "src").glob("*"))


def unpacked(crate: Crate) -> Path | None:
    """Where a crate lies on this machine, if it does."""
    folders = (folder / "-".join(crate) for folder in sources())
    return next((folder for folder in folders if (folder / "Cargo.toml").is_file()), None)


def stated(crate: Crate) -> tuple[str, str] | None:
    """The licence that a crate states and its home, where it lies on this machine."""
    folder = unpacked(crate)
    if folder is None:
        return None
    package = tomllib.loads((folder / "Cargo.toml").read_text())["package"]
    return package.get("license", ""), package.get("repository", "")


def recorded() -> dict[Crate, str]:
    """Licences by crate, as `write` found them."""
    with LICENCES.open(newline="") as file:
        return {(row["crate"], row["version"]): row["licence"] for row in csv.DictReader(file)}


def linked(host_only: bool) -> list[Crate]:
    """Crates of others that are in the compiled module: of this platform, or of any."""
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    if host_only:
        told = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
        command += ["--filter-platform", told.partition("host: ")[2].split()[0]]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise Fault(
            f"cargo metadata: {done.stderr.strip().splitlines()[-1]}; run `cargo fetch --locked` once"
        )
    graph = json.loads(done.stdout)
    packages = {one["id"]: one for one in graph["packages"]}
    nodes = {one["id"]: one for one in graph["resolve"]["nodes"]}
    waiting = [key for key, one in packages.items() if one["name"] == WHEEL]
    seen = set(waiting)
    while waiting:
        for dep in nodes[waiting.pop()]["deps"]:
            kinds = {kind["kind"] for kind in dep["dep_kinds"]}
            runs_at_build = any("proc-macro" in one["kind"] for one in packages[dep["pkg"]]["targets"])
            if None in kinds and dep["pkg"] not in seen and not runs_at_build:
                seen.add(dep["pkg"])
                waiting.append(dep["pkg"])
    return sorted(
        (packages[key]["name"], packages[key]["version"]) for key in seen if packages[key]["source"]
    )


def texts(crate: Crate) -> list[str]:
    """The notices of a crate: its NOTICE, and its licences, of several to choose from the MIT licence.

    Raises
    ------
    Fault
        It does not lie on this machine.
    """
    folder, known = unpacked(crate), stated(crate)
    if folder is None or known is None:
        raise Fault(f"{named(crate)} is not unpacked here: run `cargo fetch --locked`")
    files = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and re.match(r"(?i)(licen[cs]e|copying|unlicense|notice)", path.name)
    )
    notices = [path for path in files if path.name.upper().startswith("NOTICE")]
    licences = [path for path in files if path not in notices]
    mit = [path for path in licences if re.search(r"(?i)mit(?!.*0)", path.name)]
    if mit and "AND" not in known[0] and allowed(known[0], {"MIT"}):
        licences = mit
    there = [*licences, *notices, *(folder / name for name in VENDORED.get(crate[0], ()))]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in there]


HEAD: Final = """Third-party notices

The compiled module of orchestrace contains code of the following crates, from https://crates.io. This file is
written by .ci/crates.py from the crates themselves. Where a crate offers several licences, it is used under
the MIT licence if that is one of them.
"""
RULE: Final = "=" * 80


def notices(crates: list[Crate]) -> str:
    """The file of notices: all crates, then every text once, with the crates that it is of."""
    out = io.StringIO()
    out.write(HEAD + "\n")
    by_text: dict[str, list[Crate]] = {}
    silent = []
    for crate in crates:
        licence, home = stated(crate) or ("", "")
        out.write(f"- {named(crate)}: {licence}; {home or 'no repository is named'}\n")
        found = texts(crate)
        for text in found:
            by_text.setdefault("\n".join(line.rstrip() for line in text.splitlines()), []).append(crate)
        if not found:
            silent.append(crate)
    if silent:
        names = ", ".join(named(crate) for crate in silent)
        out.write(f"\nWithout a text of its own, under the licence named above: {names}.\n")
    for text, of in by_text.items():
        out.write(f"\n{RULE}\n{', '.join(named(crate) for crate in of)}\n{RULE}\n\n{text}\n")
    return out.getvalue()


def noticed() -> set[Crate]:
    """The crates that the file of notices lists."""
    lines = NOTICES.read_text(encoding="utf-8").partition(RULE)[0].splitlines()
    return {(found[1], found[2]) for line in lines if (found := re.match(r"- (\S+) (\S+): ", line))}


def check() -> str:
    """What was found to be right, in one line.

    Raises
    ------
    Fault
        What is wrong.
    """
    crates, licences, allow = locked(), recorded(), set(rules()["licenses"]["allow"])
    banned = {name for name in rules()["bans"]["deny"] if isinstance(name, str)}
    for crate, (_, locks) in sorted(crates.items()):
        if crate[0] in banned:
            raise Fault(f"{locks[0]}: {named(crate)} is banned by deny.toml")
        if crate not in licences:
            raise Fault(f"{locks[0]}: {named(crate)} is not in {LICENCES.name}: python .ci/crates.py write")
        here = stated(crate)
        if here is not None and here[0] != licences[crate]:
            raise Fault(f"{named(crate)} is under '{here[0]}', {LICENCES.name} says '{licences[crate]}'")
        if not allowed(licences[crate], allow):
            raise Fault(
                f"{locks[0]}: {named(crate)} is under '{licences[crate]}', which deny.toml does not allow"
            )
    if unknown := sorted(set(licences) - set(crates)):
        raise Fault(
            f"{LICENCES.name} has {named(unknown[0])}, which nothing uses: python .ci/crates.py write"
        )
    own, told = linked(host_only=True), noticed()
    main = {crate for crate, (_, locks) in crates.items() if LOCKS[0] in locks}
    if missing := sorted(set(own) - told):
        raise Fault(f"{NOTICES.name} lacks {named(missing[0])}: python .ci/crates.py write")
    if gone := sorted(told - main):
        raise Fault(
            f"{NOTICES.name} has {named(gone[0])}, which {LOCKS[0]} has not: python .ci/crates.py write"
        )
    read = sum(unpacked(crate) is not None for crate in crates)
    return (
        f"{len(crates)} crates of {len(LOCKS)} lock files: sources, checksums and licences are as"
        " deny.toml allows"
        f" ({read} read here, the others as recorded); the notices are of the {len(own)} that are linked"
    )


def write() -> str:
    """Write both files; a crate that is not on this machine keeps what is recorded of it."""
    crates, before = locked(), recorded() if LICENCES.exists() else {}
    with LICENCES.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["crate", "version", "licence"])
        for crate in sorted(crates):
            here = stated(crate)
            licence = here[0] if here is not None else before.get(crate)
            if licence is None:
                lock = crates[crate][1][0]
                manifest = lock.replace("Cargo.lock", "Cargo.toml")
                raise Fault(f"{named(crate)} is not here: cargo fetch --locked --manifest-path {manifest}")
            rows.writerow([*crate, licence])
    own = linked(host_only=False)
    NOTICES.write_text(notices(own), encoding="utf-8")
    return f"wrote {LICENCES.name} ({len(crates)} crates) and {NOTICES.name} ({len(own)})"


def main(arguments: list[str]) -> int:
    """What the command does."""
    commands = {"check": check, "write": write}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(f"crates: {commands[arguments[0]]()}")
    except Fault as fault:
        print(f"crates: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
