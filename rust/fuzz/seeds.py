"""Writes the seeds of the fuzz targets: small documents of every format, and the mutations of cases.py.

They are generated and never committed: `make fuzz` calls this first. It needs the installed package, which
says whether a document still gives a trace.
"""

import copy
import gzip
import hashlib
import io
import itertools
import json
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import orchestrace as ot  # noqa: E402
from samples.mutations import Document, goldens  # noqa: E402
from samples.verdict_cases import BASE, CASES, text  # noqa: E402

LONGEST = 4096  # short inputs are fast ones
RECORD_SEPARATOR = b"\x1e"  # between a mapping and its records


def yield_of(document: Document, data: bytes) -> int:
    """Traces that the bytes give, and labels of traces that lie elsewhere."""
    mapping = document.mapping
    options = {"format": document.format} | ({} if mapping is None else {"mapping": mapping})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = ot.read_traces(io.BytesIO(data), **options)  # type: ignore[arg-type]
        return len(corpus) + corpus.labels.collect().height


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every list or object with every place in it, the largest values first."""
    found = []
    left = [value]
    while left:
        one = left.pop()
        for key in list(one) if isinstance(one, dict) else range(len(one)) if isinstance(one, list) else []:
            found.append((len(json.dumps(one[key])), one, key))
            left.append(one[key])
    yield from ((one, key) for _, one, key in sorted(found, key=lambda row: -row[0]))


def smaller(document: Document, data: bytes) -> bytes | None:
    """The bytes without the largest part that can go while they give a trace; none if nothing can."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1 and document.name.endswith("l"):
        for at in sorted(range(len(lines)), key=lambda at: -len(lines[at])):
            rest = b"".join(lines[:at] + lines[at + 1 :])
            if yield_of(document, rest):
                return rest
    at = max(range(len(lines)), key=lambda at: len(lines[at])) if document.name.endswith("l") else None
    try:
        value = json.loads(data if at is None else lines[at])
    except ValueError:
        return None
    number = 0
    while True:
        trial = copy.deepcopy(value)
        place = next(itertools.islice(places(trial), number, None), None)
        if place is None:
            return None
        del place[0][place[1]]
        spelled = json.dumps(trial, separators=(",", ":")).encode()
        rest = spelled if at is None else b"".join([*lines[:at], spelled + b"\n", *lines[at + 1 :]])
        if yield_of(document, rest):
            return rest
        number += 1


def fitting(document: Document) -> bytes | None:
    """A document that is short enough and still gives a trace, or labels."""
    data: bytes | None = document.data
    if not document.name.endswith("l"):
        data = json.dumps(json.loads(document.data), separators=(",", ":")).encode()
    while data is not None and len(data) > LONGEST:
        data = smaller(document, data)
    return data if data is not None and yield_of(document, data) else None


def of_format(format: str) -> list[bytes]:
    """Seeds of an importer: whole documents, and their lines alone."""
    documents = [one for one in goldens() if one.format == format]
    whole = [data for data in map(fitting, documents) if data is not None]
    lines = [line for data in [*whole, *(one.data for one in documents)] for line in data.splitlines()]
    return [*whole, *dict.fromkeys(line for line in lines if line and len(line) <= LONGEST)]


def plain() -> list[bytes]:
    """Single lines of the native format, and a few lines around one that is broken."""
    lines = [case.line for case in CASES if len(case.line) < LONGEST]
    good = text(BASE)
    files = [b"\n".join([good, line, good]) for line in lines[::9]]
    files += [b"[" + b",\n".join([good, line]) + b"]" for line in lines[::17]]
    files += [b"\xef\xbb\xbf" + good.replace(b", ", b",\n ")]
    return [seed for seed in lines + files if len(seed) <= LONGEST]


def packed(payloads: list[bytes]) -> list[bytes]:
    """What a damaged stream is made of (how, where, what), and gzip streams as they are."""
    made = [bytes([how, place]) + data for data in payloads for how in range(12) for place in (0, 128, 250)]
    whole = [gzip.compress(data, mtime=0) for data in payloads]
    return made + whole + [one + other for one, other in itertools.pairwise(whole)]


def tars(payloads: list[bytes]) -> list[bytes]:
    """Archives of one and two entries, with names that need headers of their own."""
    made = []
    for one, other in itertools.pairwise(payloads):
        for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
                for name, data in (("a.jsonl", one), ("b" * 90 + "/c.json", other)):
                    info = tarfile.TarInfo(name)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
            made.append(out.getvalue().rstrip(b"\0") + bytes(1024))
    return made


def zips(payloads: list[bytes]) -> list[bytes]:
    """Archives stored and deflated, with an entry that describes the others."""
    made = []
    for one, other in itertools.pairwise(payloads):
        for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w", kind) as archive:
                for name, data in (("header.json", b"{}"), ("a.jsonl", one), ("d/b.json", other)):
                    archive.writestr(zipfile.ZipInfo(name), data, kind)
            made.append(out.getvalue())
    return made


def mappings() -> list[bytes]:
    """The golden mapping and its parts, and small ones with records of their own."""
    whole = json.loads((ROOT / "data/importers/mapping/mapping.json").read_bytes())
    made = [json.dumps(whole).encode()]
    for part in ("trace", "step"):
        made += [
            json.dumps({**whole, part: {k: v for k, v in whole[part].items() if k != key}}).encode()
            for key in whole[part]
        ]
    small = b'{"trace":{"id":"/run"},"step":{"kind":"=response","content":"/text"}}'
    nested = b'{"trace":{"id":"/run"},"step":{"each":"/steps","kind":"/k","agent":"/who"}}'
    return [
        *made,
        small + RECORD_SEPARATOR + b'{"run":"a","text":"x"}\n{"run":"a","text":"y"}\n',
        nested + RECORD_SEPARATOR + b'{"run":"a","steps":[{"k":"response","who":"b"}]}\n',
    ]


def programs() -> list[bytes]:
    """Changes of tables: table, whether it goes, column, what, and bytes for it."""
    return [
        bytes([table, 0, column, what, 0, 0, 1, 2, 3])
        for table in range(8)
        for column in range(6)
        for what in range(9)
    ]


def seeds() -> dict[str, list[bytes]]:
    """Seeds by target."""
    formats = {name: of_format(name) for name in sorted({one.format for one in goldens()})}
    wholes = [seeds[0] for seeds in formats.values() if seeds]
    short = [data for data in plain() if len(data) < 1500][::31]
    return {
        **{f"import_{name}": found for name, found in formats.items()},
        "import_native": formats["native"] + plain(),
        "auto": wholes + plain()[::7],
        "chunk_boundary": wholes + plain(),
        "decompression": packed(short),
        "from_arrow": programs(),
        "json": wholes + plain(),
        "mapping_file": mappings(),
        "tar": tars(short),
        "zip": zips(short),
    }


def main() -> None:
    for target, found in seeds().items():
        folder = Path(__file__).parent / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for seed in found:
            (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


if __name__ == "__main__":
    main()
