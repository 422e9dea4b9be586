"""Writes the seeds of the fuzz targets: the inputs of data/importers and the mutations of cases.py.

They are generated and never committed: `make fuzz` calls this first.
"""

import gzip
import hashlib
import itertools
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from golden.cases import BASE, CASES, text  # noqa: E402

LONGEST = 4096  # libFuzzer takes the longest seed as the longest input


def plain() -> list[bytes]:
    """Single lines, and a few lines around one that is broken."""
    lines = [case.line for case in CASES if len(case.line) < LONGEST]
    inputs = [path.read_bytes() for path in sorted((ROOT / "data/importers").glob("*/input.*"))]
    lines += [line for data in inputs for line in data.splitlines()]
    good = text(BASE)
    files = [b"\n".join([good, line, good]) for line in lines[::9]]
    files += [b"[" + b",\n".join([good, line]) + b"]" for line in lines[::17]]
    files += [b"\xef\xbb\xbf" + good.replace(b", ", b",\n ")]
    return [seed for seed in lines + files if len(seed) <= LONGEST]


def packed() -> list[bytes]:
    """What a damaged stream is made of (how, where, what), and gzip streams as they are."""
    payloads = plain()[::31]
    made = [bytes([how, place]) + data for data in payloads for how in range(12) for place in (0, 128, 250)]
    whole = [gzip.compress(data, mtime=0) for data in payloads]
    return made + whole + [one + other for one, other in itertools.pairwise(whole)]


def main() -> None:
    for target, seeds in {
        "parse_block": plain(),
        "parse_vs_reference": plain(),
        "chunk_boundary": plain(),
        "decompression": packed(),
    }.items():
        folder = Path(__file__).parent / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


if __name__ == "__main__":
    main()
