"""Copies of recordings: under other names, in other folders, spelt anew; and what has to count once."""

import gzip
import json
import math
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

IMPORTERS = Path(__file__).resolve().parents[2] / "data" / "importers"
FORMATS = sorted(folder.name for folder in IMPORTERS.iterdir())
LINES = (".jsonl", ".ndjson")
TEXTS = (*LINES, ".json", ".traj")
TOKENS = [
    "tokens_in",
    "tokens_out",
    "tokens",
    "tokens_cached",
    "tokens_cache_write",
    "tokens_cache_write_1h",
    "tokens_reasoning",
    "cost_usd",
]


def options(name: str) -> dict[str, Any]:
    """How the input of a format in `IMPORTERS` is read."""
    return {"mapping": IMPORTERS / name / "mapping.json"} if name == "mapping" else {}


def laid_out(name: str, folder: Path) -> Path:
    """The input of a format, in a folder of its own."""
    source = next((IMPORTERS / name).glob("input*"))
    if source.is_dir():
        shutil.copytree(source, folder)
    else:
        folder.mkdir(parents=True)
        shutil.copy(source, folder)
    return folder


def recordings(folder: Path) -> list[Path]:
    """The files of a folder that are read as recordings."""
    stored = (".gz", ".zst")
    kinds = (*TEXTS, ".eval")
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and (path.with_suffix("") if path.suffix in stored else path).suffix in kinds
    )


def counted(corpus: ot.Corpus) -> dict[str, float]:
    """Traces, events of each type, tokens, money and rewards: nothing of it grows by a copy.

    Raises
    ------
    AssertionError
        Records do not add up.
    """
    records = corpus.records
    assert records["read"] == sum(
        records[kind] for kind in ("used", "ignored", "duplicate", "quarantined")
    ), records
    found: dict[str, float] = {"traces": len(corpus)}
    types = pl.col("type").cast(pl.String)
    found |= dict(corpus.events.group_by(types).len().collect().rows())
    there = [name for name in TOKENS if name in corpus.events.collect_schema()]
    values = corpus.events.select(pl.col(there)).collect()
    found |= {name: math.fsum(values[name].drop_nulls()) for name in there}
    names = pl.concat_str(pl.col("kind").cast(pl.String), pl.lit(" "), pl.col("name").cast(pl.String))
    measured = corpus.measures.group_by(names).agg("value").collect()
    for name, stated in measured.rows():
        found |= {name: math.fsum(stated), f"{name}, traces": len(stated)}
    return {name: round(value, 6) for name, value in found.items() if value}


def per_trace(corpus: ot.Corpus) -> list[tuple[Any, ...]]:
    """The same of each trace, whatever its number."""
    own = corpus.events.group_by("trace").agg(
        pl.len(),
        pl.col("tokens").sum(),
        pl.col("tool").is_not_null().sum().alias("calls"),
        types=pl.col("type").sort(),
    )
    cost = corpus.measures.filter(pl.col("kind") == "cost").group_by("trace").agg(cost=pl.col("value").sort())
    both = corpus.traces.select("trace", "trace_id", "task_id", "group_id", "partial")
    both = both.join(own, on="trace", how="left").join(cost, on="trace", how="left").drop("trace")
    return sorted(both.collect().rows(), key=repr)


def turned(value: Any) -> Any:
    """The same JSON with the members of every object in another order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(one) for one in value] if isinstance(value, list) else value


def spelt_anew(path: Path, text: str) -> str:
    """The same records in other white space, order of members and escapes; what is no JSON stays."""
    if path.suffix not in LINES:
        try:
            return json.dumps(turned(json.loads(text)), indent=1)
        except ValueError:
            pass
    lines = []
    for line in text.split("\n"):
        try:
            lines.append(json.dumps(turned(json.loads(line)), separators=(" , ", " : ")))
        except ValueError:
            lines.append(line)
    return "\n".join(lines)


def under_another_name(path: Path, folder: Path) -> None:
    shutil.copy(path, path.with_name(f"copy-of-{path.name}"))


def under_no_name(path: Path, folder: Path) -> None:
    shutil.copy(path, path.with_name(f"z{path.stat().st_size}{path.name[path.name.index('.') :]}"))


def in_a_subfolder(path: Path, folder: Path) -> None:
    copy = folder / "backup" / "old" / path.relative_to(folder)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, copy)


def compressed(path: Path, folder: Path) -> None:
    if path.suffix in TEXTS:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))


def respelt(path: Path, folder: Path) -> None:
    if path.suffix in TEXTS:
        path.with_name(f"copy-of-{path.name}").write_text(spelt_anew(path, path.read_text()))


WAYS: dict[str, Callable[[Path, Path], None]] = {
    way.__name__: way for way in (under_another_name, under_no_name, in_a_subfolder, compressed, respelt)
}


def subsets(files: list[Path], seed: int) -> Iterator[list[Path]]:
    """All of the files, and if they are several, some of them."""
    yield files
    if len(files) > 1:
        yield random.Random(seed).sample(files, len(files) // 2)
